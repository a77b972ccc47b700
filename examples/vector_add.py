"""Add two vectors: expression, schedule, loops, compiled function."""

from __future__ import annotations

import numpy as np

import tvm
import tvm.testing
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")

# Without a schedule: one loop.
s = te.create_schedule(C.op)
print(tvm.lower(s, [A, B, C], simple_mode=True))

# Threads compute blocks of 64 elements with vector instructions.
outer, inner = s[C].split(C.op.axis[0], factor=64)
s[C].parallel(outer)
s[C].vectorize(inner)
print(tvm.lower(s, [A, B, C], simple_mode=True))

add = tvm.build(s, [A, B, C], target="llvm", name="add")
for length in (1, 63, 64, 1000, 100_000):
    a = tvm.nd.array(np.random.rand(length).astype("float32"))
    b = tvm.nd.array(np.random.rand(length).astype("float32"))
    c = tvm.nd.empty((length,))
    add(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())

# Arguments are checked: a wrong type or shape raises an error.
try:
    add(a, b, tvm.nd.empty((5,)))
except tvm.TVMError as error:
    print("rejected:", error)
else:
    raise AssertionError("an output of the wrong size was accepted")
print("sums of every length are correct")
