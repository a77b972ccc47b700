"""Compute cumulative sums of columns with ``te.scan``, whose steps read the outputs of earlier steps."""

from __future__ import annotations

import numpy as np

import tvm
import tvm.testing
from tvm import te

m, n = te.var("m"), te.var("n")
X = te.placeholder((m, n), name="X")
state = te.placeholder((m, n))
init = te.compute((1, n), lambda _, i: X[0, i])
update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
total = te.scan(init, update, state, inputs=[X])

s = te.create_schedule(total.op)
# The columns are independent: each step is vectorized.
for stage in (init, update):
    outer, inner = s[stage].split(stage.op.axis[1], factor=16)
    s[stage].vectorize(inner)
print(tvm.lower(s, [X, total], simple_mode=True))

cumulative_sum = tvm.build(s, [X, total], "llvm", name="cumulative_sum")
for shape in ((1, 1), (10, 7), (33, 100)):
    x = np.random.rand(*shape).astype("float32")
    out = tvm.nd.empty(shape)
    cumulative_sum(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), np.cumsum(x, axis=0), rtol=1e-5)
print("cumulative sums are correct")
