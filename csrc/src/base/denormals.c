/* Flushes denormal numbers to zero during runs of the graph executor. Arithmetic on denormals is about a hundred times
 * slower on most processors, and models produce them in large numbers (softmax of masked scores, SiLU of negative
 * numbers). Kernels that are called directly keep denormals. */
#include "base.h"

/* Number of nested runs that flush in this thread, and the thread's floating-point state outside of them. */
static _Thread_local int flushing_runs;
static _Thread_local FloatState outside;

uint64_t tvm_run_begin(bool flush) {
  if (!flush) return 0;
  FloatState before = float_flush(true);
  if (!flushing_runs++) outside = before;
  return before;
}

void tvm_run_end(bool flush, uint64_t before) {
  if (!flush) return;
  --flushing_runs;
  float_state_set(before);
}

int tvm_foreign_begin(uint64_t *inside) {
  int runs = flushing_runs;
  flushing_runs = 0;
  if (runs) {
    *inside = float_state();
    float_state_set(outside);
  }
  return runs;
}

void tvm_foreign_end(int runs, uint64_t inside) {
  flushing_runs = runs;
  if (runs) float_state_set(inside);
}
