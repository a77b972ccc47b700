/* Loads a library that export_library wrote and calls a function of three float32 vectors, c = a + b, without Python.
 *
 * Build: cc -I<include> main.c -L<lib> -ltvm_runtime -Wl,-rpath,<lib> -o deploy   (see Makefile)
 * Run:   ./deploy add.so add 1024
 */
#include <stdio.h>
#include <stdlib.h>

#include <tvm_runtime.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, TVMGetLastError());
  return 1;
}

static int new_vector(int64_t length, TVMArrayHandle *out) {
  DLDataType float32 = {kDLFloat, 32, 1};
  DLDevice cpu = {kDLCPU, 0};
  return TVMArrayAlloc(&length, 1, float32, cpu, out);
}

static int call_and_check(TVMFunctionHandle function, const char *name, int64_t length) {
  TVMArrayHandle vectors[3];
  TVMValue args[3], ret;
  int codes[3], ret_code;
  for (int i = 0; i < 3; ++i) {
    if (new_vector(length, &vectors[i])) return fail("allocating");
    args[i].v_handle = vectors[i];
    codes[i] = kTVMNDArrayHandle;
  }
  float *a = vectors[0]->data, *b = vectors[1]->data, *c = vectors[2]->data;
  for (int64_t i = 0; i < length; ++i) {
    a[i] = (float)i;
    b[i] = 0.5f * (float)i;
  }
  if (TVMFuncCall(function, args, codes, 3, &ret, &ret_code)) return fail(name);
  for (int64_t i = 0; i < length; ++i) {
    if (c[i] != a[i] + b[i]) {
      fprintf(stderr, "%s: element %lld is %g, expected %g\n", name, (long long)i, c[i], a[i] + b[i]);
      return 1;
    }
  }
  printf("%s: %lld sums are correct\n", name, (long long)length);
  for (int i = 0; i < 3; ++i) TVMArrayFree(vectors[i]);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s library.so function length\n", argv[0]);
    return 2;
  }
  TVMModuleHandle module;
  TVMFunctionHandle function;
  if (TVMModLoadFromFile(argv[1], "so", &module)) return fail("loading");
  if (TVMModGetFunction(module, argv[2], 0, &function)) return fail("looking up");
  if (!function) {
    fprintf(stderr, "%s has no function '%s'\n", argv[1], argv[2]);
    return 1;
  }
  int status = call_and_check(function, argv[2], atoll(argv[3]));
  TVMFuncFree(function);
  TVMModFree(module);
  return status;
}
