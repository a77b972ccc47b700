"""Batches of products of two quantized tensors as products of bytes."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.expr import Call
from tvm.relay.transform.backend_passes import passes_of
from tvm.relay.transform.fuse_ops import own_nodes
from tvm.target import Target

TARGET = Target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod")


def quantized(name, shape, dtype, zero):
    e = relay.cast(relay.var(name, shape=shape, dtype=dtype), "float32")
    return relay.subtract(e, relay.const(np.float32(zero))) if zero else e


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("types, zeros", [
    (("int8", "int8"), (0, 0)), (("uint8", "uint8"), (128, 3)), (("int8", "uint8"), (-128, 0)),
    (("uint8", "int8"), (0, 127)),
])  # fmt: skip
def test_sums_are_exact_with_any_zero_points(types, zeros, transposed, rng):
    a, b = (3, 5, 19), (3, 7, 19) if transposed else (3, 19, 7)
    arrays = [rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t) for t, s in zip(types, (a, b))]
    operands = [quantized(n, s, t, z) for n, s, t, z in zip("ab", (a, b), types, zeros)]
    # The second one is reshaped behind its zero point.
    operands[1] = relay.reshape(operands[1], b)
    mod = tvm.IRModule.from_expr(relay.nn.batch_matmul(*operands, transpose_b=transposed))
    mod = relay.transform.SimplifyExpr(kernels=True, rules=passes_of(TARGET).simplify)(mod)
    product = next(e for e in own_nodes(mod["main"].body) if isinstance(e, Call) and e.op.name == "nn.batch_matmul")
    assert product.checked_type_.dtype == "int32" and {e.checked_type_.dtype for e in product.args} <= {"int8", "uint8"}
    got = relay.create_executor("graph", mod, target="llvm").evaluate()(*arrays).numpy()
    x, y = (v.astype("int64") - z for v, z in zip(arrays, zeros))
    np.testing.assert_array_equal(got, x @ (y.transpose(0, 2, 1) if transposed else y))


@pytest.mark.parametrize("zero", [0, -24])
def test_a_product_of_a_tensor_with_itself_is_exact(zero, rng):
    x = rng.integers(-128, 128, (2, 6, 8)).astype("int8")
    operand = quantized("x", x.shape, "int8", zero)
    mod = tvm.IRModule.from_expr(relay.nn.batch_matmul(operand, operand))
    mod = relay.transform.SimplifyExpr(kernels=True, rules=passes_of(TARGET).simplify)(mod)
    got = relay.create_executor("graph", mod, target="llvm").evaluate()(x).numpy()
    wide = x.astype("int64") - zero
    np.testing.assert_array_equal(got, wide @ wide.transpose(0, 2, 1))


def test_other_products_stay(rng):
    x, y = relay.var("x", shape=(2, 4, 8)), quantized("y", (2, 8, 4), "int8", 1)
    mod = tvm.IRModule.from_expr(relay.nn.batch_matmul(x, y, transpose_b=False))
    mod = relay.transform.SimplifyExpr(kernels=True, rules=passes_of(TARGET).simplify)(mod)
    assert mod["main"].ret_type.dtype == "float32" and "int32" not in str(mod)
