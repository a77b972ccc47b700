"""Tensors of 2^31 elements and more: their sizes are right, and so are the indices of their loops. Nothing is run."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay, te
from tvm.ir.visit import post_order
from tvm.relay.backend.te_compiler import KernelCompiler
from tvm.tir.stmt import For

MANY = 1_200_000_000
x = relay.var("x", shape=(MANY,), dtype="int8")
tripled = relay.tile(x, (3,))
image = relay.var("image", shape=(1, 4, MANY, 2))
square = relay.var("square", shape=(50_000, 60_000))

CALLS = {
    "tile": (tripled, (3 * MANY,)),
    "concatenate": (relay.concatenate([x, x], 0), (2 * MANY,)),
    "repeat": (relay.repeat(x, 3, 0), (3 * MANY,)),
    "stack and reshape": (relay.reshape(relay.stack([x, x, x], 0), (-1,)), (3 * MANY,)),
    "reshape back": (relay.reshape(tripled, (3, -1)), (3, MANY)),
    "strided_slice": (relay.strided_slice(tripled, [2 * MANY + 5], [3 * MANY], [1]), (MANY - 5,)),
    "pad": (relay.nn.pad(x, ((MANY, 1),)), (2 * MANY + 1,)),
    "mirror_pad": (relay.nn.mirror_pad(x, ((MANY - 1, 1_000_000_000),)), (2 * MANY + 999_999_999,)),
    "cumsum": (relay.cumsum(tripled, 0, "int64"), (3 * MANY,)),
    "sum": (relay.sum(square, 1), (50_000,)),
    "max": (relay.max(tripled), ()),
    "take": (relay.take(tripled, relay.const(np.array([3 * 10**9]))), (1,)),
    "split": (relay.split(tripled, 2, 0)[1], (3 * MANY // 2,)),
    "arange": (relay.arange(relay.const(0, "int64"), relay.const(3 * 10**9, "int64"), dtype="int64"), (3 * 10**9,)),
    "depth_to_space": (relay.nn.depth_to_space(image, 2), (1, 1, 2 * MANY, 4)),
    "space_to_depth": (relay.nn.space_to_depth(relay.var("y", shape=(1, MANY, 2, 2)), 2), (1, 4 * MANY, 1, 1)),
    "space_to_batch_nd": (
        relay.nn.space_to_batch_nd(relay.var("y", shape=(MANY, 2, 2, 1)), (2, 2), ((0, 0), (0, 0))),
        (4 * MANY, 1, 1, 1),
    ),
    "dilate": (relay.nn.dilate(x, (3,)), (3 * MANY - 2,)),
    "max_pool1d": (relay.nn.max_pool1d(relay.reshape(tripled, (1, 1, -1)), 2, 2), (1, 1, 3 * MANY // 2)),
    "resize2d": (relay.image.resize2d(relay.expand_dims(square, 0, 2), (60_000, 60_000)), (1, 1, 60_000, 60_000)),
    "add": (tripled + tripled, (3 * MANY,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_sizes_do_not_wrap(name):
    made, shape = CALLS[name]
    assert tuple(int(d) for d in relay.transform.InferTypeLocal(made).shape) == shape


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", CALLS)
def test_loops_over_large_tensors_run_as_often_as_they_should(name, level):
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(CALLS[name][0]), CALLS[name][0]))
    mod = relay.transform.InferType()(relay.transform.FuseOps(level)(relay.transform.InferType()(mod)))
    kernels = KernelCompiler(tvm.target.Target("llvm"))
    for node in post_order(mod["main"].body):
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            for function in kernels.lower(node.op).module.functions.values():
                loops = [n for n in post_order(function.body) if isinstance(n, For)]
                assert all(int(n.extent) > 0 for n in loops if isinstance(n.extent, tvm.tir.IntImm))


def test_axes_fused_to_more_than_int32_holds_are_int64():
    a = te.placeholder((60_000, 60_000), "int8", name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + tvm.tir.const(1, "int8"), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].fuse(*b.op.axis), 16)
    s[b].vectorize(inner)
    body = tvm.lower(s, [a, b])["main"].body
    loop = next(n for n in post_order(body) if isinstance(n, For))
    assert loop.loop_var.dtype == "int64" and int(loop.extent) == 225_000_000
    store = next(n for n in post_order(body) if isinstance(n, tvm.tir.BufferStore))
    # One run of sixteen neighbours: casts between the types of the axes do not get in the way.
    assert isinstance(store.indices[0], tvm.tir.Ramp) and store.indices[0].dtype == "int64x16"


def test_a_size_that_wrapped_is_no_size():
    a = te.placeholder((MANY,), "int8", name="A")
    with pytest.raises(ValueError, match="dimension -694967296 is negative"):
        te.compute((a.shape[0] * 3,), lambda i: a[i // 3], name="B")


def test_axes_fused_to_less_stay_int32():
    a = te.placeholder((40_000, 40_000), "int8", name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j], name="B")
    s = te.create_schedule(b.op)
    assert s[b].fuse(*b.op.axis).var.dtype == "int32"
