/* The C++17 interface of the runtime: classes that own the handles of the C interface in tvm_runtime.h.
 *
 * A function that can fail returns `Returns<T>`. By default this is T, and the function throws an Error. With
 * TVM_CLASSIC_NO_EXCEPTIONS it is `Result<T>`, which contains the value or the Error. PackedFunc, Tensor and Module are
 * reference-counted: a copy refers to the same object. Executors contain the state of a run and can be moved, but not
 * copied. Objects may be moved to another thread. Only one thread at a time may use an executor, or a tensor while it is
 * written.
 */
#ifndef TVM_CLASSIC_HPP_
#define TVM_CLASSIC_HPP_

#include "classic/bundle.hpp"
#include "classic/executor.hpp"

#undef TVM_CLASSIC_FAIL
#undef TVM_CLASSIC_DONE
#undef TVM_CLASSIC_TRY
#undef TVM_CLASSIC_RUN
#undef TVM_CLASSIC_CHECK

#endif  // TVM_CLASSIC_HPP_
