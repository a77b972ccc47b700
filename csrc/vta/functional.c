/* The functional simulator: executes instructions in the order of the program as far as the tokens permit it. */
#include "core.h"

/* Executes the first instruction of a module. */
static int step(Pipeline *p, Module m, uint64_t *left) {
  const Insn *i = vta_first(p, m);
  uint64_t steps = vta_steps(i) + 1;
  int status = vta_check(p->core, i);
  if (!status && steps > *left) status = vta_error("the limit of steps is exceeded");
  if (status) return vta_error_at(p, p->queue[m][p->head[m]]);
  *left -= steps;
  vta_take_tokens(p, m);
  vta_execute(p->core, i);
  return vta_retire(p, m);
}

/* Returns the earliest instruction in the program that can start, or MODULES if there is none. */
static Module next_ready(const Pipeline *p) {
  Module best = MODULES;
  for (Module m = MODULE_LOAD; m <= MODULE_STORE; ++m)
    if (vta_first(p, m) && vta_has_tokens(p, m) && (best == MODULES || vta_first(p, m) < vta_first(p, best))) best = m;
  return best;
}

int vta_run_functional(Pipeline *p, uint64_t limit) {
  while (!vta_is_done(p)) {
    while (vta_dispatch(p)) continue;
    Module m = next_ready(p);
    if (m == MODULES) return vta_deadlock(p);
    if (step(p, m, &limit)) return -1;
  }
  return 0;
}
