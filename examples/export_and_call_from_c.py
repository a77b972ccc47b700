"""Export a compiled function, load it again, and call it from a C program without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np

import tvm
import tvm.testing
from tvm import te
from tvm.contrib import utils

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute((n,), lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
outer, inner = s[C].split(C.op.axis[0], factor=16)
s[C].parallel(outer)
s[C].vectorize(inner)

folder = utils.tempdir()
path = folder.relpath("add.so")
tvm.build(s, [A, B, C], "llvm", name="add").export_library(path)

# From Python: loading needs no compiler (the package tvm-classic-runtime suffices).
add = tvm.runtime.load_module(path)["add"]
a, b = (tvm.nd.array(np.random.rand(1000).astype("float32")) for _ in range(2))
c = tvm.nd.empty((1000,))
add(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
print("loaded and called from Python")

# From C: apps/c_deploy/main.c, linked with the runtime.
compiler = shutil.which("cc") or shutil.which("gcc")
if compiler is None:
    sys.exit("a C compiler (cc) is needed for the second half")
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps", "c_deploy", "main.c")
library = os.path.dirname(tvm.runtime.find_library())
program = folder.relpath("deploy")
flags = [f"-I{tvm.runtime.include_path()}", f"-L{library}", f"-Wl,-rpath,{library}", "-ltvm_runtime"]
subprocess.run([compiler, source, "-o", program, *flags], check=True)
done = subprocess.run([program, path, "add", "1000"], check=True, capture_output=True, text=True)
print("called from C:", done.stdout.strip())
