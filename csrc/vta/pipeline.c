/* The three modules: instruction queues, and tokens between neighbours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

static const char *const NAMES[] = {"load", "compute", "store"};

static int check_tokens(const Insn *i) {
  Module module = vta_module_of(i);
  if (module == MODULE_LOAD && (i->pop_prev || i->push_prev)) return vta_error("the load module has no previous module");
  if (module == MODULE_STORE && (i->pop_next || i->push_next)) return vta_error("the store module has no next module");
  return 0;
}

static int check_end(const Pipeline *p) {
  for (uint32_t k = 0; k < p->count; ++k)
    if ((p->insns[k].opcode == VTA_FINISH) != (k + 1 == p->count)) {
      vta_error("FINISH must be the last instruction, and only the last");
      return vta_error_at(p, k);
    }
  return p->count ? 0 : vta_error("the program has no instruction; it must end with FINISH");
}

int vta_pipeline_open(Pipeline *p, Core *core, const void *code, uint32_t count) {
  *p = (Pipeline){.core = core, .code = code, .count = count};
  p->insns = calloc(count ? count : 1, sizeof *p->insns);
  bool ok = p->insns != NULL;
  for (int m = 0; m < MODULES; ++m) {
    p->queue[m] = malloc((count ? count : 1) * sizeof *p->queue[m]);
    ok = ok && p->queue[m];
  }
  int status = ok ? 0 : vta_error("out of memory");
  for (uint32_t k = 0; k < count && !status; ++k) {
    Insn *insn = &p->insns[k];
    bool valid = !vta_decode(&core->layout, p->code + (size_t)k * INSTRUCTION_BYTES, insn) && !check_tokens(insn);
    if (!valid) status = vta_error_at(p, k);
  }
  if (!status) status = check_end(p);
  if (status) vta_pipeline_close(p);
  return status;
}

void vta_pipeline_close(Pipeline *p) {
  free(p->insns);
  for (int m = 0; m < MODULES; ++m) free(p->queue[m]);
}

bool vta_dispatch(Pipeline *p) {
  if (p->fetched == p->count) return false;
  Module m = vta_module_of(&p->insns[p->fetched]);
  if (p->tail[m] - p->head[m] >= p->core->layout.config.queue_depth) return false;
  p->queue[m][p->tail[m]++] = p->fetched++;
  return true;
}

const Insn *vta_first(const Pipeline *p, Module m) {
  return p->head[m] < p->tail[m] ? &p->insns[p->queue[m][p->head[m]]] : NULL;
}

bool vta_has_tokens(const Pipeline *p, Module m) {
  const Insn *i = vta_first(p, m);
  return (!i->pop_prev || p->tokens[m][0]) && (!i->pop_next || p->tokens[m][1]);
}

void vta_take_tokens(Pipeline *p, Module m) {
  const Insn *i = vta_first(p, m);
  p->tokens[m][0] -= i->pop_prev;
  p->tokens[m][1] -= i->pop_next;
}

int vta_retire(Pipeline *p, Module m) {
  const Insn *i = vta_first(p, m);
  uint32_t position = p->queue[m][p->head[m]];
  if (i->push_prev) ++p->tokens[m - 1][1];
  if (i->push_next) ++p->tokens[m + 1][0];
  if ((i->push_prev && p->tokens[m - 1][1] > TOKENS_LIMIT) || (i->push_next && p->tokens[m + 1][0] > TOKENS_LIMIT)) {
    vta_error("more than %d tokens wait for one module", TOKENS_LIMIT);
    return vta_error_at(p, position);
  }
  ++p->head[m];
  p->finished = p->finished || i->opcode == VTA_FINISH;
  return 0;
}

bool vta_is_done(const Pipeline *p) {
  bool idle = p->fetched == p->count;
  for (int m = 0; m < MODULES; ++m) idle = idle && p->head[m] == p->tail[m];
  return idle;
}

int vta_error_at(const Pipeline *p, uint32_t position) {
  char text[TEXT_BYTES], reason[TEXT_BYTES];
  snprintf(reason, sizeof reason, "%s", VTALastError());
  vta_print(&p->core->layout, p->code + (size_t)position * INSTRUCTION_BYTES, text, sizeof text);
  return vta_error("instruction %u (%s): %s", (unsigned)position, text, reason);
}

int vta_deadlock(const Pipeline *p) {
  char text[TEXT_BYTES] = "";
  size_t used = 0;
  for (Module m = MODULE_LOAD; m <= MODULE_STORE; ++m) {
    const Insn *i = vta_first(p, m);
    if (!i) continue;
    bool prev = i->pop_prev && !p->tokens[m][0];
    used += (size_t)snprintf(text + used, sizeof text - used, "; instruction %u in the %s module waits for a token of the %s module",
                             (unsigned)p->queue[m][p->head[m]], NAMES[m], NAMES[prev ? m - 1 : m + 1]);
  }
  return vta_error("deadlock%s", text);
}
