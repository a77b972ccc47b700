/* The runtime in C++17: values that own their handles over the C interface in tvm_runtime.h.
 *
 * A function that can fail returns `Returns<T>`. This is T, and an Error is thrown, or with TVM_CLASSIC_NO_EXCEPTIONS
 * it is `Result<T>`, which contains the value or the Error. PackedFunc, Tensor and Module are counted references: a copy
 * refers to the same object. Executors contain the state of a run and can only be moved. Objects may be moved to
 * another thread. An executor, and a tensor that is written, is used by one thread at a time.
 */
#ifndef TVM_CLASSIC_HPP_
#define TVM_CLASSIC_HPP_

#include "classic/executor.hpp"

#undef TVM_CLASSIC_FAIL
#undef TVM_CLASSIC_DONE
#undef TVM_CLASSIC_TRY
#undef TVM_CLASSIC_RUN
#undef TVM_CLASSIC_CHECK

#endif  // TVM_CLASSIC_HPP_
