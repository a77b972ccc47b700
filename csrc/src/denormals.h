/* Flushing of denormal numbers while executors run. */
#ifndef TVM_SRC_DENORMALS_H_
#define TVM_SRC_DENORMALS_H_

#include "internal.h"

/* What the environment variable TVM_FLUSH_DENORMALS says: true unless it is 0. */
int tvm_flush_default(bool *out);
/* Around a run: `end` gets what `begin` gave and leaves the thread's state as it was, also after an error. */
uint64_t tvm_run_begin(bool flush);
void tvm_run_end(bool flush, uint64_t before);
/* Around a call into the embedding language, which computes as it does outside of a run. */
int tvm_foreign_begin(uint64_t *inside);
void tvm_foreign_end(int runs, uint64_t inside);

#endif /* TVM_SRC_DENORMALS_H_ */
