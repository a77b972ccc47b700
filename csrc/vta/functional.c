/* The functional simulator: executes instructions in an order that the tokens permit. */
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

int vta_run_functional(Pipeline *p, uint64_t limit) {
  while (!vta_is_done(p)) {
    bool progress = false;
    while (vta_dispatch(p)) progress = true;
    for (Module m = MODULE_LOAD; m <= MODULE_STORE; ++m)
      while (vta_first(p, m) && vta_has_tokens(p, m)) {
        if (step(p, m, &limit)) return -1;
        progress = true;
      }
    if (!progress) return vta_deadlock(p);
  }
  return 0;
}
