/* A library with the symbols of generated code, for test_module. */
#include "tvm_runtime.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT const TVMRuntimeTable *__tvm_runtime_table;
EXPORT void *__tvm_module_ctx;
EXPORT const char __tvm_main__[] = "twice";

EXPORT int twice_compute_(int64_t value) { return (int)(2 * value); }

EXPORT int twice(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  if (n != 1 || codes[0] != kTVMArgInt)
    return __tvm_runtime_table->raise_argument_error("twice", 0, "expected an integer");
  ret->v_int64 = twice_compute_(args[0].v_int64);
  *ret_code = kTVMArgInt;
  return 0;
}

/* A user-defined function named 'exp'. */
EXPORT int __tvm_function_exp(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  ret->v_int64 = args[0].v_int64 + 1;
  *ret_code = kTVMArgInt;
  return 0;
}

/* Both names exist: the prefixed function is the user's. */
EXPORT int __tvm_function_floor(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  return __tvm_function_exp(args, codes, n, ret, ret_code, resource);
}

EXPORT double floor(double x) { return x; }

EXPORT int ask(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  void *function;
  if (__tvm_runtime_table->get_func_from_env(__tvm_module_ctx, "test.answer", &function)) return -1;
  return __tvm_runtime_table->func_call(function, args, codes, n, ret, ret_code);
}
