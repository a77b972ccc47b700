"""Simplifications that give shorter graphs: what comes out, and that it computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay.test_transform import check_same_result, module
from tvm import relay
from tvm.relay import transform
from tvm.relay.testing import run_infer_type, run_opt_pass

X = relay.var("x", shape=(2, 8, 6, 5))
V = relay.var("v", shape=(3, 4))
I = relay.var("i", shape=(3, 4), dtype="int32")
B = relay.var("b", shape=(3, 4), dtype="int8")


def simple(e):
    return run_opt_pass(e, transform.SimplifyExpr())


def check(before, wanted):
    got = simple(before)
    tvm.ir.assert_structural_equal(got, run_infer_type(wanted), map_free_vars=True)


def pairs():
    t, lt = relay.transpose, relay.layout_transform
    last = [0, 2, 3, 1]
    yield "transposes and changes of layout", t(lt(t(X, last), "NHWC", "HWCN"), [3, 0, 1, 2]), t(X, last)
    yield "there and back", lt(lt(X, "NCHW", "NHWC"), "NHWC", "NCHW"), X
    yield "blocks there and back", lt(lt(X, "NCHW", "NCHW4c"), "NCHW4c", "NCHW"), X
    yield "a transpose before blocks", lt(t(X, [0, 3, 1, 2]), "NHCW", "NHCW4c"), lt(X, "NCWH", "NHCW4c")
    yield "a transpose after blocks", t(lt(X, "NCHW", "NCHW4c"), [0, 2, 1, 3, 4]), lt(X, "NCHW", "NHCW4c")
    yield (
        "from blocks to blocks",
        lt(lt(lt(X, "NCHW", "NCHW8c"), "NCHW8c", "NCHW"), "NCHW", "NCHW4c"),
        lt(X, "NCHW", "NCHW4c"),
    )
    yield "three letters", lt(lt(X, "NCHW", "NHWC"), "NHWC", "CHWN"), t(X, [1, 2, 3, 0])
    yield "a sum of one value", V + V, V * relay.const(2.0)
    yield (
        "clipped twice",
        relay.clip(relay.cast(relay.clip(I, 10, 200), "uint8"), 0, 99),
        relay.cast(relay.clip(I, 10, 99), "uint8"),
    )
    yield "no change", lt(t(X, [0, 1, 2, 3]), "NCHW", "NCHW"), X
    yield "backwards twice", t(t(X)), X
    yield "reshapes", relay.reverse_reshape(relay.reshape(X, (4, -1, 5)), (-1, 6, 0)), relay.reshape(X, (16, 6, 5))
    yield "zeros beside a sum", V + relay.zeros((3, 4), "float32"), V
    yield "ones beside a product", relay.multiply(relay.ones((4,), "float32"), V), V
    yield "a fill on the left", relay.full(relay.const(2.0), (3, 4), "float32") - V, relay.const(2.0) - V
    yield "zeros like", relay.zeros_like(V) - V, relay.const(0.0) - V
    fill = relay.var("f", shape=())
    yield "full_like", relay.full_like(I, fill), relay.full(fill, (3, 4), "int32")
    yield "collapse_sum_like", relay.collapse_sum_like(V, relay.var("k", shape=(4,))), relay.collapse_sum_to(V, (4,))
    yield (
        "reshape_like of some dimensions",
        relay.reshape_like(X, relay.var("k", shape=(9, 3, 10)), 2, None, 1),
        (relay.reshape(X, (2, 8, 3, 10))),
    )
    yield "a number over a root", relay.const(2.5) / relay.sqrt(V), relay.const(2.5) * relay.rsqrt(V)
    yield "one over a root", relay.const(1.0) / relay.sqrt(V), relay.rsqrt(V)
    yield (
        "order of quantized numbers",
        relay.argmax(relay.qnn.op.dequantize(B, relay.const(2.0), relay.const(0)), 1),
        (relay.argmax(B, 1)),
    )
    clipped = relay.clip(I, 0, 255)
    yield "a clipped number skips a cast", relay.cast(relay.cast(clipped, "uint8"), "int32"), clipped
    yield (
        "a clipped float is truncated once",
        relay.cast(relay.cast(relay.clip(V, 0, 255), "uint8"), "int32"),
        (relay.cast(relay.clip(V, 0, 255), "int32")),
    )
    yield "a clip to all there is", relay.clip(B, -128, 127), B


@pytest.mark.parametrize("name, before, wanted", [pytest.param(*p, id=p[0]) for p in pairs()])
def test_graphs_get_shorter(name, before, wanted):
    check(before, wanted)


@pytest.mark.parametrize("before", [
    V + relay.zeros((2, 3, 4), "float32"),
    relay.argmax(relay.qnn.op.dequantize(B, relay.const(-2.0), relay.const(0)), 1),
    relay.cast(relay.cast(relay.clip(I, 0, 300), "uint8"), "int32"),
    relay.cast(relay.cast(relay.clip(V, 0, 255), "uint8"), "float64"),
    relay.clip(B, -127, 127),
    relay.layout_transform(relay.layout_transform(X, "NCHW", "NCHW3c"), "NCHW3c", "NCHW"),
])  # fmt: skip
def test_what_would_change_the_result_stays(before):
    check(before, before)


def c(*values):
    return relay.const(np.array(values, "float32"))


@pytest.mark.parametrize("before, wanted", [
    (c(1, 2, 3, 4) + V + c(5, 6, 7, 8), V + c(6, 8, 10, 12)),
    (c(1, 2, 3, 4) * V * c(5, 6, 7, 8), V * c(5, 12, 21, 32)),
    (c(2, 2, 2, 2) * (c(1, 2, 3, 4) + V), V * c(2, 2, 2, 2) + c(2, 4, 6, 8)),
    (c(1, 1, 1, 1) + (V + c(1, 2, 3, 4)) * c(2, 2, 2, 2), V * c(2, 2, 2, 2) + c(3, 5, 7, 9)),
    ((c(3, 3, 3, 3) + c(1, 2, 3, 4) * V) * c(2, 2, 2, 2), V * c(2, 4, 6, 8) + c(6, 6, 6, 6)),
])  # fmt: skip
def test_numbers_are_put_together(before, wanted):
    check(before, wanted)


def test_shorter_graphs_compute_the_same(rng):
    body = (relay.const(3.0) + (X + relay.const(1.0)) * relay.const(2.0)) / relay.ones_like(X)
    body = relay.layout_transform(relay.transpose(body, [0, 2, 3, 1]), "NHWC", "NCHW4c")
    before = module(body)
    check_same_result(before, transform.SimplifyExpr()(before), rng)


def test_a_constant_slice_folds_to_what_the_kernel_gives():
    array = np.arange(60, dtype="float32").reshape(3, 4, 5)
    for bounds in (([0, 0, 1], [3, 4], [2]), ([2], [-4, 3, 9], [-1, 2]), ([0, 1], [3, 4, 5], [1, 1, 1])):
        x = relay.var("x", shape=array.shape)
        ran = (
            relay.create_executor("graph", target="llvm")
            .evaluate(relay.Function([x], relay.strided_slice(x, *bounds)))(array)
            .numpy()
        )
        folded = run_opt_pass(
            relay.Function([], relay.strided_slice(relay.const(array), *bounds)), transform.FoldConstant()
        )
        np.testing.assert_array_equal(folded.body.data.numpy(), ran)
