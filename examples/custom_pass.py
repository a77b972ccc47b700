"""Add a user-defined pass to the lowering pipeline: it vectorizes serial loops of eight iterations."""

from __future__ import annotations

import numpy as np

import tvm
import tvm.testing
from tvm import te, tir

A = te.placeholder((128,), name="A")
B = te.placeholder((128,), name="B")
C = te.compute((128,), lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
s[C].split(C.op.axis[0], factor=8)
print(tvm.lower(s, [A, B, C]))


@tvm.tir.transform.prim_func_pass(opt_level=0)
def vectorize_eights(func, mod, ctx):
    """Find the loops of eight iterations, then mark them."""
    found = []

    def look(node):
        if isinstance(node, tir.For) and isinstance(node.extent, tir.IntImm) and node.extent.value == 8:
            found.append(node)

    tir.stmt_functor.post_order_visit(func.body, look)
    if not found:
        return func

    def mark(node):
        if any(node.loop_var.same_as(loop.loop_var) for loop in found):
            return tir.For(node.loop_var, node.min, node.extent, tir.ForKind.VECTORIZED, node.body)
        return None

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, mark, ["tir.For"]))


# After phase 1 buffers are flat; the passes of phase 2 convert marked loops to vector operations.
with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, vectorize_eights)]}):
    lowered = tvm.lower(s, [A, B, C])
    add = tvm.build(s, [A, B, C], "llvm", name="add")
print(lowered)
assert "i_inner" not in str(lowered), "the loop of eight is still a loop"

a, b, c = (tvm.nd.array(np.random.rand(128).astype("float32")) for _ in range(3))
add(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
print("the vectorized loops return the expected values")
