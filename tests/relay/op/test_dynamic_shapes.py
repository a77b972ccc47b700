"""Operators whose shapes follow from data, compiled once and run on data of several sizes, beside NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tests.relay.symbolic_kernels import SymbolicKernel, primitive
from tvm import relay, te
from tvm.ir.op import OPS
from tvm.relay.expr import Call
from tvm.relay.op import dynamic

rng = np.random.default_rng(11)


def ints(*values):
    return np.array(values, "int64")


def f32(*shape):
    return rng.uniform(-2, 2, shape).astype("float32")


def hot(indices, depth):
    return (indices[..., None] == np.arange(depth)).astype("float32")


def dense(indices, values, default, shape):
    out = np.full(shape, default)
    out[tuple(indices.T)] = values
    return out


def top(x, k):
    order = np.argsort(-x, axis=1, kind="stable")[:, : int(k)]
    return [np.take_along_axis(x, order, 1), order.astype("int32")]


def sliced(x, begin, end, strides):
    return x[tuple(slice(int(b), None if e < -x.shape[0] else int(e), int(s)) for b, e, s in zip(begin, end, strides))]


ONE, ZERO = np.float32(1), np.float32(0)
# name: (build, runs of arrays, wanted)
CASES = {
    "arange": (
        lambda a, b, c: relay.arange(a, b, c, "int64"),
        [tuple(np.int64(v) for v in run) for run in ((0, 7, 2), (3, 3, 1), (5, -4, -3), (5, 9, -1))],
        lambda a, b, c: np.arange(a, b, c, "int64"),
    ),
    "arange of floats": (
        lambda a, b, c: relay.arange(a, b, c, "float32"),
        [tuple(np.float32(v) for v in run) for run in ((0, 1, 0.25), (0, 1, 0.3), (1, 0, 0.5))],
        lambda a, b, c: np.arange(a, b, c).astype("float32"),
    ),
    "argwhere": (
        relay.argwhere,
        [(f32(3, 5) > 0,), (np.zeros((2, 2), bool),), (np.ones((0, 4), bool),), (np.ones((1, 1), bool),)],
        lambda c: np.argwhere(c).astype("int32"),
    ),
    "dyn.reshape": (
        relay.reshape,
        [(f32(2, 6), ints(3, -1)), (f32(4, 3), ints(0, 3)), (f32(0, 5), ints(0, 7)), (f32(1, 1), ints(1, 1))],
        lambda x, s: x.reshape([x.shape[i] if v == 0 and x.size else v for i, v in enumerate(s)]),
    ),
    "dyn.reshape that joins": (
        relay.reshape, [(f32(2, 3, 4), ints(-3, 4)), (f32(2, 3, 4), ints(0, -3)), (f32(2, 3, 4), ints(-3, 0)),
                        (f32(1, 5, 2), ints(-3, -1)), (f32(2, 0, 4), ints(-3, 4))],
        lambda x, s: x.reshape(x.shape[0], -1) if s[1] == -3 else x.reshape(x.shape[0] * x.shape[1], x.shape[2]),
    ),
    "dyn.broadcast_to": (
        relay.broadcast_to, [(f32(1, 3), ints(2, 4, 3)), (f32(2, 1), ints(1, 2, 0)), (f32(1, 1), ints(3, 1, 1))],
        np.broadcast_to,
    ),
    "dyn.tile": (
        relay.tile, [(f32(2, 3), ints(2, 1, 3)), (f32(0, 3), ints(1, 2, 2)), (f32(2, 1), ints(1, 0, 2))], np.tile
    ),
    "dyn.full": (
        lambda v, s: relay.full(v, s, "float32"), [(ONE, ints(2, 3)), (ONE, ints(0, 3)), (ONE, ints(1, 1))],
        lambda v, s: np.full(s, v),
    ),
    "dyn.strided_slice": (
        relay.strided_slice,
        [
            (f32(5, 7), ints(1, -3), ints(4, 99), ints(2, 1)), (f32(5, 7), ints(4, 6), ints(0, -99), ints(-1, -3)),
            (f32(2, 0), ints(0, 0), ints(1, 5), ints(1, 1)), (f32(3, 3), ints(2, 2), ints(1, 2), ints(1, 1)),
        ],
        sliced,
    ),
    "dyn.topk": (lambda x, k: relay.topk(x, k, 1), [(f32(3, 6), np.int64(2)), (f32(2, 5), np.int64(5))], top),
    "dyn.one_hot": (
        lambda i, on, off, d: relay.one_hot(i, on, off, d, -1, "float32"),
        [(ints(0, 2, 1), ONE, ZERO, np.int64(4)), (ints(0), ONE, ZERO, np.int64(1)), (ints(), ONE, ZERO, np.int64(3))],
        lambda i, on, off, d: hot(i, int(d)),
    ),
    "dyn.expand_dims": (
        relay.expand_dims, [(f32(2, 3), np.int64(0)), (f32(2, 3), np.int64(1)), (f32(0, 3), np.int64(-1))],
        lambda x, axis: np.expand_dims(x, int(axis)),
    ),
    "dyn.squeeze": (
        relay.squeeze, [(f32(1, 3, 1), ints(0, 2)), (f32(1, 1, 4), ints(-2, 0)), (f32(0, 1, 1), ints(1, 2))],
        lambda x, axes: np.squeeze(x, tuple(int(a) for a in axes)),
    ),
    "dyn.nn.pad": (
        lambda x, w, v: relay.nn.pad(x, w, v),
        [(f32(2, 3), np.array([[1, 0], [2, 1]]), ONE), (f32(0, 2), np.array([[1, 1], [0, 0]]), ONE)],
        lambda x, w, v: np.pad(x, w, constant_values=v),
    ),
    "dyn.checked": (
        lambda x, holds: dynamic.checked(x, holds, "a sentence"), [(f32(2, 3), np.bool_(1)), (f32(0, 3), np.bool_(1))],
        lambda x, holds: x,
    ),
    "dyn.sparse_to_dense": (
        lambda i, v, d, s: relay.sparse_to_dense(i, s, v, d),
        [(np.array([[0, 1], [2, 0]]), f32(2), ZERO, ints(3, 2)), (np.zeros((0, 2), "int64"), f32(0), ONE, ints(2, 2))],
        dense,
    ),
}  # fmt: skip


def unknown(array):
    """The type of a tensor of which only vectors that say sizes have a known length."""
    array = np.asarray(array)
    known = array.dtype == np.int64 and array.ndim <= 2
    return relay.TensorType([d if known else relay.Any() for d in array.shape], str(array.dtype))


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_serves_all_sizes(name):
    build, runs, want = CASES[name]
    types = [unknown(a) for a in runs[0]]
    if name in ("dyn.one_hot", "dyn.sparse_to_dense"):
        # Indices are as many as there are.
        types[0] = relay.TensorType([relay.Any(), *types[0].shape[1:]], "int64")
    kernel = SymbolicKernel(primitive(build, types))
    for arrays in runs:
        arrays = [np.asarray(a) for a in arrays]
        wanted = want(*arrays)
        for got, w in zip(kernel.run(*arrays), wanted if isinstance(wanted, list) else [wanted]):
            assert got.dtype == w.dtype and got.shape == w.shape, (got.shape, w.shape)
            np.testing.assert_allclose(got, w, rtol=1e-6)


LIMIT = 1 << 62
REFUSED = [
    ("dyn.reshape", (f32(2, 3), ints(4, 2)), "operator dyn.reshape: the new shape must have as many"),
    ("dyn.reshape", (f32(2, 3), ints(-1, -1)), "operator dyn.reshape: at most one new size may be -1"),
    ("dyn.reshape", (f32(0, 3), ints(0, -1)), "at most one new size may be -1, and the others must"),
    ("dyn.reshape", (f32(2, 3), ints(0, -3)), "operator dyn.reshape: the new shape must have as many"),
    ("dyn.reshape", (f32(2, 3), ints(-2, 3)), "operator dyn.reshape: a new size must be -1 or not"),
    ("dyn.broadcast_to", (f32(2, 3), ints(1, 4, 3)), "operator dyn.broadcast_to: a broadcast dimension must"),
    ("dyn.topk", (f32(2, 3), np.int64(4)), "operator dyn.topk: k must not be larger than the dimension"),
    ("dyn.strided_slice", (f32(2, 3), ints(0, 0), ints(1, 1), ints(1, 0)), "the stride along axis 1 must not be 0"),
    ("dyn.tile", (f32(4, 1), ints(1, LIMIT, 1)), "operator dyn.tile: repeated dimensions must not overflow"),
    ("dyn.nn.pad", (f32(2, 3), np.array([[2 * LIMIT - 1, 2 * LIMIT - 1], [0, 0]]), ONE), "axis 0 must not overflow"),
    ("arange", tuple(np.int64(v) for v in (0, 3, 0)), "operator arange: the step must not be 0"),
    ("arange", tuple(np.int64(v) for v in (-2 * LIMIT, 2 * LIMIT - 1, 1)), "the number of elements from start to stop"),
    ("arange of floats", tuple(np.float32(v) for v in (0, np.nan, 1)), "the number of elements from start to stop"),
    ("arange of floats", tuple(np.float32(v) for v in (0, np.inf, 1)), "the number of elements from start to stop"),
    ("arange of floats", tuple(np.float32(v) for v in (0, 1, 1e-30)), "the number of elements from start to stop"),
    ("dyn.squeeze", (f32(1, 3, 1), ints(0, 1)), "operator dyn.squeeze: axis 1 must have size 1"),
    ("dyn.checked", (f32(2, 3), np.bool_(0)), "^a sentence$"),
]  # fmt: skip


@pytest.mark.parametrize("name", sorted({name for name, _, _ in REFUSED}))
def test_data_that_contradict_the_sizes_are_refused(name):
    build, runs, _ = CASES[name]
    kernel = SymbolicKernel(primitive(build, [unknown(a) for a in runs[0]]))
    for arrays, words in [row[1:] for row in REFUSED if row[0] == name]:
        with pytest.raises(tvm.TVMError) as caught:
            kernel.shapes(*map(np.asarray, arrays))
        assert re.search(words, str(caught.value).strip().splitlines()[-1].removeprefix("tvm.error.TVMError: "))


def test_a_step_as_long_as_numbers_are_gives_one_element():
    kernel = SymbolicKernel(primitive(CASES["arange"][0], [relay.TensorType((), "int64")] * 3))
    for start, stop, step in ((0, 7, 2 * LIMIT - 1), (7, 0, -2 * LIMIT), (7, 0, -3)):
        wanted = [7, 4, 1] if step == -3 else [start]
        assert kernel.run(*(np.asarray(v, "int64") for v in (start, stop, step)))[0].tolist() == wanted


def test_a_condition_that_is_known_to_hold_leaves_the_tensor():
    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], dynamic.checked(x, relay.const(True), "a sentence")))
    assert "checked" not in relay.transform.DynamicToStatic()(relay.transform.InferType()(mod)).astext()


def test_a_users_shape_function_is_taken():
    record = relay.op.op.register("test.first_half", "The first half of a vector.")
    try:
        record.attrs["type_rule"] = lambda attrs, types: relay.TensorType((relay.Any(),), types[0].dtype)
        relay.op.op.register_compute(
            "test.first_half", lambda attrs, ins, out: [te.compute(out.shape, lambda i: ins[0][i], tag="injective")]
        )

        @relay.op.register_shape_func("test.first_half", False)
        def halved(attrs, inputs, out_ndims):
            return [te.compute((1,), lambda i: te.indexdiv(inputs[0][i], 2))]

        kernel = SymbolicKernel(primitive(lambda x: Call(record, (x,)), [relay.TensorType((relay.Any(),))]))
        for n in (0, 1, 9):
            x = f32(n)
            np.testing.assert_array_equal(kernel.run(x)[0], x[: n // 2])
    finally:
        OPS.remove("test.first_half")
