# %% [markdown]
# # Deploy with the C runtime
#
# This tutorial runs a compiled model from a C program, for users who deploy without Python. You need a C compiler.
#
# A compiled model is a shared library. The C program loads it, sets the inputs, runs it and reads the outputs through
# `libtvm_runtime.so`, a library of a few hundred kilobytes.

# %%
import os
import shutil
import subprocess

import numpy as np

import tvm
from tvm import relay

x = relay.var("x", shape=(1, 4))
weight = relay.const(np.arange(12, dtype="float32").reshape(3, 4))
model = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, weight))))
with tvm.transform.PassContext(opt_level=3):
    library = relay.build(model, target="llvm")
library.export_library("model.so")
print(f"model.so has {os.path.getsize('model.so') // 1024} kB")

# %% [markdown]
# ## Write the program
#
# Every function of the runtime returns zero on success; `TVMGetLastError` returns the error message. A module
# contains functions by name. The function `default` creates an executor for a device, which is also a module and
# contains `set_input`, `run` and `get_output`.

# %%
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <tvm_runtime.h>

#define CHECK(call) if (call) { fprintf(stderr, "%s\n", TVMGetLastError()); return 1; }

static int call(TVMModuleHandle module, const char *name, TVMValue *args, int *codes, int count, TVMValue *out) {
  TVMFunctionHandle function = NULL;
  int code;
  CHECK(TVMModGetFunction(module, name, 1, &function));
  if (!function) { fprintf(stderr, "no function %s\n", name); return 1; }
  CHECK(TVMFuncCall(function, args, codes, count, out, &code));
  return TVMFuncFree(function);
}

int main(void) {
  TVMModuleHandle library;
  TVMValue value, args[2];
  int codes[2];
  float data[4] = {1, -1, 2, 0.5f};
  int64_t shape[2] = {1, 4}, out_shape[2] = {1, 3};
  TVMArrayHandle input, output;
  CHECK(TVMModLoadFromFile("model.so", "so", &library));

  DLDevice cpu = {kDLCPU, 0};
  DLDataType float32 = {kDLFloat, 32, 1};
  args[0].v_device = cpu;
  codes[0] = kTVMDevice;
  if (call(library, "default", args, codes, 1, &value)) return 1;
  TVMModuleHandle executor = value.v_handle;

  CHECK(TVMArrayAlloc(shape, 2, float32, cpu, &input));
  CHECK(TVMArrayAlloc(out_shape, 2, float32, cpu, &output));
  memcpy(input->data, data, sizeof data);
  args[0].v_str = "x";
  codes[0] = kTVMStr;
  args[1].v_handle = input;
  codes[1] = kTVMDLTensorHandle;
  if (call(executor, "set_input", args, codes, 2, &value)) return 1;
  if (call(executor, "run", NULL, NULL, 0, &value)) return 1;
  args[0].v_int64 = 0;
  codes[0] = kTVMArgInt;
  args[1].v_handle = output;
  if (call(executor, "get_output", args, codes, 2, &value)) return 1;
  for (int i = 0; i < 3; ++i) printf("%g ", ((float *)output->data)[i]);
  printf("\n");
  return TVMArrayFree(input) || TVMArrayFree(output) || TVMModFree(executor) || TVMModFree(library);
}
"""
with open("main.c", "w") as file:
    file.write(PROGRAM)

# %% [markdown]
# ## Build and run the program
#
# `tvm.runtime` returns the paths of the header and the library.

# %%
compiler = shutil.which("cc") or shutil.which("gcc")
if compiler is None:
    raise SystemExit("a C compiler (cc) is needed for the rest")
folder = os.path.dirname(tvm.runtime.find_library())
flags = [f"-I{tvm.runtime.include_path()}", f"-L{folder}", f"-Wl,-rpath,{folder}", "-ltvm_runtime"]
subprocess.run([compiler, "-std=c11", "main.c", "-o", "main", *flags], check=True)
printed = subprocess.run(["./main"], check=True, capture_output=True, text=True).stdout
print("the C program prints", printed)
expected = np.maximum(np.array([1, -1, 2, 0.5]) @ np.arange(12).reshape(3, 4).T, 0)
np.testing.assert_allclose([float(number) for number in printed.split()], expected)
