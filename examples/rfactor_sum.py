"""Vectorize a sum with ``rfactor``: it computes independent partial sums, and then their sum."""

from __future__ import annotations

import numpy as np

import tvm
import tvm.testing
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
k = te.reduce_axis((0, n), name="k")
total = te.compute((1,), lambda _: te.sum(A[k], axis=k), name="total")

s = te.create_schedule(total.op)
chunk, lane = s[total].split(s[total].op.reduce_axis[0], factor=16)
# Lane j adds elements j, j + 16, j + 32...: sixteen independent sums.
partial = s.rfactor(total, lane)
s[partial].reorder(s[partial].op.reduce_axis[0], s[partial].op.axis[0])
s[partial].vectorize(s[partial].op.axis[0])
print(tvm.lower(s, [A, total], simple_mode=True))

sum_all = tvm.build(s, [A, total], "llvm", name="sum_all")
for length in (1, 15, 16, 17, 10_000):
    a = np.random.rand(length).astype("float32")
    out = tvm.nd.empty((1,))
    sum_all(tvm.nd.array(a), out)
    tvm.testing.assert_allclose(out.numpy()[0], a.sum(), rtol=1e-4)
print("sums of every length are correct")
