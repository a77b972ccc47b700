/* Creates executors from graph JSON and one function, and calls functions of modules. */
#ifndef TVM_TESTS_EXECUTOR_CALLS_H_
#define TVM_TESTS_EXECUTOR_CALLS_H_

#include "check.h"

/* Calls a function of a module; `code` receives the type code of its result. */
static inline int call_for(TVMModuleHandle mod, const char *name, TVMValue *args, int *codes, int n, TVMValue *ret,
                           int *code) {
  TVMFunctionHandle f;
  OK(TVMModGetFunction(mod, name, 0, &f));
  CHECK(f != NULL);
  int status = TVMFuncCall(f, args, codes, n, ret, code);
  OK(TVMFuncFree(f));
  return status;
}

static inline int call(TVMModuleHandle mod, const char *name, TVMValue *args, int *codes, int n, TVMValue *ret) {
  int code = kTVMNullptr;
  return call_for(mod, name, args, codes, n, ret, &code);
}

/* Creates a module with one function. */
static inline TVMModuleHandle module_with(const char *name, TVMBackendPackedCFunc function) {
  TVMModuleHandle mod;
  TVMFunctionHandle f;
  OK(TVMModCreate("test", NULL, NULL, &mod));
  OK(TVMFuncCreateFromCFunc(function, NULL, NULL, &f));
  OK(TVMModAddFunction(mod, name, f));
  OK(TVMFuncFree(f));
  return mod;
}

/* Creates the executor of a graph on at most five devices. */
static inline int create_executor(const char *json, TVMModuleHandle lib, const DLDevice *devices, int count,
                                  TVMModuleHandle *out) {
  TVMFunctionHandle make;
  TVMValue args[12] = {{.v_str = json}, {.v_handle = lib}}, ret;
  int codes[12] = {kTVMStr, kTVMModuleHandle}, code = kTVMNullptr;
  for (int i = 0; i < count; ++i) {
    args[2 + 2 * i].v_int64 = devices[i].device_type;
    args[3 + 2 * i].v_int64 = devices[i].device_id;
    codes[2 + 2 * i] = codes[3 + 2 * i] = kTVMArgInt;
  }
  OK(TVMFuncGetGlobal("tvm.graph_executor.create", &make));
  CHECK(make != NULL);
  int status = TVMFuncCall(make, args, codes, 2 + 2 * count, &ret, &code);
  OK(TVMFuncFree(make));
  if (!status) *out = ret.v_handle;
  return status;
}

#endif /* TVM_TESTS_EXECUTOR_CALLS_H_ */
