/* Runs a model whose input is "x" of 1 x 16 float32, x[i] = i / 16, and prints its 8 outputs: platform_model LIBRARY */
#include <stdio.h>

#include "tvm_runtime.h"

enum { INPUTS = 16, OUTPUTS = 8 };

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, TVMGetLastError());
  return 1;
}

static int call(TVMModuleHandle mod, const char *name, TVMValue *args, int *codes, int n, TVMValue *ret) {
  TVMFunctionHandle function = NULL;
  int code = kTVMNullptr;
  if (TVMModGetFunction(mod, name, 0, &function) || !function) return -1;
  int status = TVMFuncCall(function, args, codes, n, ret, &code);
  TVMFuncFree(function);
  return status;
}

int main(int count, char **words) {
  TVMModuleHandle library;
  TVMValue cpu = {.v_device = {kDLCPU, 0}}, model, result, ignored;
  int cpu_code = kTVMDevice, codes[] = {kTVMStr, kTVMNDArrayHandle}, number_code = kTVMArgInt;
  float x[INPUTS], found[OUTPUTS];
  int64_t shape[] = {1, INPUTS};
  TVMArrayHandle input;
  if (count != 2 || TVMModLoadFromFile(words[1], "", &library)) return fail("load");
  if (call(library, "default", &cpu, &cpu_code, 1, &model)) return fail("create");
  for (int i = 0; i < INPUTS; ++i) x[i] = (float)i / INPUTS;
  if (TVMArrayAlloc(shape, 2, (DLDataType){kDLFloat, 32, 1}, cpu.v_device, &input) || TVMArrayCopyFromBytes(input, x, sizeof x))
    return fail("input");
  TVMValue args[] = {{.v_str = "x"}, {.v_handle = input}}, number = {.v_int64 = 0};
  if (call(model.v_handle, "set_input", args, codes, 2, &ignored) || call(model.v_handle, "run", NULL, NULL, 0, &ignored))
    return fail("run");
  if (call(model.v_handle, "get_output", &number, &number_code, 1, &result)) return fail("output");
  if (TVMArrayCopyToBytes(result.v_handle, found, sizeof found)) return fail("output");
  for (int i = 0; i < OUTPUTS; ++i) printf("%.9g\n", found[i]);
  TVMArrayFree(result.v_handle);
  TVMArrayFree(input);
  TVMModFree(model.v_handle);
  TVMModFree(library);
  return 0;
}
