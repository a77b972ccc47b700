"""Operators that move elements, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check_all, refused, run, tensor

import tvm
from tvm import relay

rng = np.random.default_rng(11)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def test_shapes():
    x, y = f32(2, 3, 4), f32(6, 4)
    cases = [
        ("reshape codes", lambda a: relay.reshape(a, (0, -1)), [x], x.reshape(2, 12)),
        ("reshape -2", lambda a: relay.reshape(a, (-2,)), [x], x),
        ("reshape -3", lambda a: relay.reshape(a, (-3, 0)), [x], x.reshape(6, 4)),
        ("reshape -4", lambda a: relay.reshape(a, (0, 0, -4, 2, -1)), [x], x.reshape(2, 3, 2, 2)),
        ("reverse_reshape", lambda a: relay.reverse_reshape(a, (-1, 0)), [x], x.reshape(6, 4)),
        ("reshape_like", relay.reshape_like, [x, y], x.reshape(6, 4)),
        ("reshape_like part", lambda a, b: relay.reshape_like(a, b, 0, 2, 0, 1), [x, y], x.reshape(6, 4)),
        ("expand_dims", lambda a: relay.expand_dims(a, -1, 2), [x], x.reshape(2, 3, 4, 1, 1)),
        ("squeeze", lambda a: relay.squeeze(a, [1]), [x[:, :1]], x[:, 0]),
        ("transpose", relay.transpose, [x], x.transpose()),
        ("transpose axes", lambda a: relay.transpose(a, (1, -1, 0)), [x], x.transpose(1, 2, 0)),
        (
            "concatenate",
            lambda a, b: relay.concatenate([a, b], -1),
            [x, x[..., :2]],
            np.concatenate([x, x[..., :2]], -1),
        ),
        ("stack", lambda a, b: relay.stack([a, b], 1), [x, x], np.stack([x, x], 1)),
        ("split", lambda a: relay.split(a, 2, 2), [x], np.split(x, 2, 2)),
        ("split at", lambda a: relay.split(a, (1, 3), -1), [x], np.split(x, [1, 3], -1)),
        ("tile", lambda a: relay.tile(a, (2, 1, 3)), [x], np.tile(x, (2, 1, 3))),
        ("repeat", lambda a: relay.repeat(a, 2, 1), [x], np.repeat(x, 2, 1)),
        ("reverse", lambda a: relay.reverse(a, 1), [x], x[:, ::-1]),
        ("broadcast_to", lambda a: relay.broadcast_to(a, (5, 2, 3, 4)), [x], np.broadcast_to(x, (5, 2, 3, 4))),
        ("broadcast_to_like", relay.broadcast_to_like, [x[:, :1], x], np.broadcast_to(x[:, :1], x.shape)),
        ("collapse_sum_like", relay.collapse_sum_like, [x, x[0, :, :1]], x.sum((0, 2))[:, None]),
        ("collapse_sum_to", lambda a: relay.collapse_sum_to(a, (3, 1)), [x], x.sum((0, 2))[:, None]),
        ("slice_like", relay.slice_like, [x, x[:1, :2, :3]], x[:1, :2, :3]),
        ("slice_like axes", lambda a, b: relay.slice_like(a, b, (-1,)), [x, x[:1, :2, :3]], x[:, :, :3]),
        (
            "meshgrid",
            lambda a, b: relay.meshgrid([a, b]),
            [x[0, 0], x[0, :, 0]],
            [np.array(v) for v in np.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")],
        ),
        (
            "sliding_window",
            lambda a: relay.sliding_window(a, 1, (2, 3), (1, 1)),
            [x],
            np.lib.stride_tricks.sliding_window_view(x, (2, 3), (1, 2)),
        ),
        ("layout_transform", lambda a: relay.layout_transform(a, "NCW", "NWC"), [x], x.transpose(0, 2, 1)),
        ("ndarray_size", relay.ndarray_size, [x], np.int32(24)),
        ("shape_of", lambda a: relay.shape_of(a, "int64"), [x], np.array([2, 3, 4], "int64")),
        ("scalar", lambda a: relay.reshape(a, (1, 1)), [np.float32(3)], np.array([[3]], "float32")),
        (
            "empty",
            lambda a, b: relay.concatenate([a, b], 0),
            [np.zeros((0, 2), "float32"), np.ones((2, 2), "float32")],
            np.ones((2, 2), "float32"),
        ),
    ]
    check_all(cases)


def test_slices_and_fills():
    x = f32(5, 4)
    changed = x.copy()
    changed[1:4:2, 0:3] = 7
    sequence = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], "int64")
    cases = [
        ("strided_slice", lambda a: relay.strided_slice(a, [0, 3], [5, 0], [2, -1]), [x], x[0:5:2, 3:0:-1]),
        ("strided_slice axes", lambda a: relay.strided_slice(a, [-2], [100], axes=[0]), [x], x[-2:]),
        ("strided_slice size", lambda a: relay.strided_slice(a, [1, 1], [2, -1], slice_mode="size"), [x], x[1:3, 1:]),
        (
            "strided_set",
            lambda a, v: relay.strided_set(a, v, [1, 0], [4, 3], [2, 1]),
            [x, np.full((2, 3), 7, "float32")],
            changed,
        ),
        (
            "reverse_sequence",
            lambda a, b: relay.reverse_sequence(a, b, 0, 1),
            [sequence, np.array([1, 2, 3])],
            np.array([[1, 5, 9], [4, 2, 6], [7, 8, 3]]),
        ),
        ("arange", lambda: relay.arange(7, dtype="int32"), [], np.arange(7, dtype="int32")),
        ("arange down", lambda: relay.arange(5, -4, -2, "int64"), [], np.arange(5, -4, -2, "int64")),
        ("arange float", lambda: relay.arange(0.5, 2, 0.25), [], np.arange(0.5, 2, 0.25, "float32")),
        (
            "arange of constants",
            lambda: relay.arange(relay.const(1), relay.const(4), relay.const(1), "int32"),
            [],
            np.arange(1, 4, dtype="int32"),
        ),
        ("arange of nothing", lambda: relay.arange(3, 3, 1, "int32"), [], np.zeros((0,), "int32")),
        ("full", lambda: relay.full(relay.const(3), (2, 2), "float16"), [], np.full((2, 2), 3, "float16")),
        ("full_like", relay.full_like, [x, np.float32(2)], np.full_like(x, 2)),
        ("zeros", lambda: relay.zeros((3,), "bool"), [], np.zeros(3, "bool")),
        ("ones", lambda: relay.ones((2, 3), "uint8"), [], np.ones((2, 3), "uint8")),
        ("zeros_like", relay.zeros_like, [x], np.zeros_like(x)),
        (
            "cast",
            lambda a: relay.cast(a, "int8"),
            [np.array([1.9, -1.9, 100.0], "float32")],
            np.array([1, -1, 100], "int8"),
        ),
        ("cast_like", relay.cast_like, [x, np.int32(0)], x.astype("int32")),
        ("reinterpret", lambda a: relay.reinterpret(a, "int32"), [x], x.view("int32")),
        ("clip", lambda a: relay.clip(a, -0.5, 0.5), [x], np.clip(x, -0.5, 0.5)),
        ("copy", relay.copy, [x], x),
        ("where", relay.where, [x > 0, x, np.float32(0)], np.where(x > 0, x, 0).astype("float32")),
    ]
    check_all(cases)


def test_gathers_and_scatters():
    x = f32(4, 5, 3)
    at = np.array([[0, -1], [3, 9]], "int64")
    some = rng.integers(0, 5, (4, 2, 3)).astype("int64")
    points = np.array([[0, 3, 1], [2, 4, 0]], "int32")
    put, added = x.copy(), x.copy()
    updates = f32(4, 2, 3)
    order = np.stack([rng.permutation(5)[:2] for _ in range(12)]).reshape(4, 3, 2).transpose(0, 2, 1).astype("int64")
    np.put_along_axis(put, order, updates, 1)
    for i in np.ndindex(4, 2, 3):
        added[i[0], some[i], i[2]] += updates[i]
    nd = x.copy()
    nd_updates = f32(3, 3)
    for k in range(3):
        nd[points[0, k], points[1, k]] = nd_updates[k]
    dense = np.full((5, 3), 9, "float32")
    dense[1, 2], dense[4, 0] = 1.5, 2.5
    hot = np.full((3, 4), 2, "float32")
    hot[np.arange(3), [1, 0, 3]] = 5
    diagonal = x[0, :3].copy()
    np.fill_diagonal(diagonal, [7, 8, 9])
    cases = [
        ("take", lambda a, i: relay.take(a, i, 1, mode="wrap"), [x, at], np.take(x, at, 1, mode="wrap")),
        ("take clip", lambda a, i: relay.take(a, i, 0), [x, np.array([0, 9])], np.take(x, [0, 3], 0)),
        ("take flat", lambda a, i: relay.take(a, i), [x, np.array([0, 59], "int32")], x.reshape(-1)[[0, 59]]),
        (
            "take batch",
            lambda a, i: relay.take(a, i, 1, 1),
            [x, some[:, :, 0]],
            np.stack([x[b][some[b, :, 0]] for b in range(4)]),
        ),
        ("gather", lambda a, i: relay.gather(a, 1, i), [x, some], np.take_along_axis(x, some, 1)),
        ("gather_nd", relay.gather_nd, [x, points], x[points[0], points[1]]),
        ("scatter_elements", lambda a, i, u: relay.scatter_elements(a, i, u, 1), [x, order, updates], put),
        ("scatter add", lambda a, i, u: relay.op.scatter_elements(a, i, u, 1, "add"), [x, some, updates], added),
        ("scatter_nd", relay.scatter_nd, [x, points, nd_updates], nd),
        (
            "sparse_to_dense",
            lambda i, v: relay.sparse_to_dense(i, (5, 3), v, 9.0),
            [np.array([[1, 2], [4, 0]], "int32"), np.array([1.5, 2.5], "float32")],
            dense,
        ),
        (
            "one_hot",
            lambda i: relay.one_hot(i, relay.const(5.0), relay.const(2.0), 4, -1, "float32"),
            [np.array([1, 0, 3], "int32")],
            hot,
        ),
        (
            "unravel_index",
            lambda i: relay.unravel_index(i, (3, 4)),
            [np.array([0, 5, 11])],
            np.array(np.unravel_index([0, 5, 11], (3, 4))),
        ),
        (
            "sequence_mask",
            lambda a, n: relay.sequence_mask(a, n, -1),
            [x[:, :, 0].copy(), np.array([4, 2, 0, 1, 3], "int32")],
            np.where(np.arange(4)[:, None] < np.array([4, 2, 0, 1, 3]), x[:, :, 0], -1).astype("float32"),
        ),
        ("trilu", lambda a: relay.trilu(a, 1), [x], np.triu(x, 1)),
        ("tril", lambda a: relay.trilu(a, -1, False), [x], np.tril(x, -1)),
        ("matrix_set_diag", relay.matrix_set_diag, [x[0, :3].copy(), np.array([7, 8, 9], "float32")], diagonal),
        (
            "adv_index",
            lambda a, i, j: relay.adv_index([a, i, j]),
            [x, np.array([[0], [3]]), np.array([1, 4, 2])],
            x[np.array([[0], [3]]), np.array([1, 4, 2])],
        ),
        (
            "invert_permutation",
            relay.op.invert_permutation,
            [np.array([2, 0, 1], "int32")],
            np.array([1, 2, 0], "int32"),
        ),
        (
            "segment_sum",
            lambda a: relay.op.segment_sum(a, relay.const(np.array([0, 0, 2, 1], "int64"))),
            [x],
            np.stack([x[0] + x[1], x[3], x[2]]),
        ),
        (
            "sparse_reshape",
            lambda i: relay.op.sparse_reshape(i, relay.const([2, 3, 6], "int64"), relay.const([9, -1], "int64")),
            [np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]], "int64")],
            [np.array([[0, 0], [0, 1], [1, 2], [4, 2], [8, 1]], "int64"), np.array([9, 4], "int64")],
        ),
    ]
    check_all(cases)


def test_order_and_sums():
    x = f32(3, 7)
    x[1, 2], x[0, 0] = np.nan, -0.0
    y = np.array([3, 1, 3, 2, 1, 1], "int32")
    down = np.argsort(-f32(3, 7) * 0 - np.nan_to_num(x, nan=np.inf), 1, kind="stable")
    values, first, inverse, counts = np.unique(y, return_index=True, return_inverse=True, return_counts=True)

    def long(v):
        return np.concatenate([v, np.zeros(6 - len(v), v.dtype)]).astype("int32")

    cases = [
        ("sort", relay.sort, [x], np.sort(x, 1)),
        ("argsort", lambda a: relay.argsort(a, 1), [x], np.argsort(x, 1, kind="stable").astype("int32")),
        ("argsort down", lambda a: relay.argsort(a, 1, False, "int64"), [x], down.astype("int64")),
        (
            "topk",
            lambda a: relay.topk(a, 3, 1),
            [x],
            [np.take_along_axis(x, down, 1)[:, :3], down[:, :3].astype("int32")],
        ),
        (
            "topk indices",
            lambda a: relay.topk(a, 2, 0, "indices", True),
            [x[:, :1].copy()],
            np.argsort(x[:, :1], 0, kind="stable")[:2].astype("int32"),
        ),
        ("cumsum", lambda a: relay.op.cumsum(a, 0), [y], np.cumsum(y, dtype="int32")),
        (
            "cumsum exclusive",
            lambda a: relay.op.cumsum(a, 0, "int64", True),
            [y],
            np.concatenate([[0], np.cumsum(y)[:-1]]).astype("int64"),
        ),
        ("cumprod", lambda a: relay.op.cumprod(a), [y.reshape(2, 3)], np.cumprod(y, dtype="int32")),
        (
            "searchsorted",
            relay.searchsorted,
            [np.array([1, 3, 5], "float32"), np.array([0, 3, 9], "float32")],
            np.array([0, 1, 3], "int32"),
        ),
        (
            "searchsorted right",
            lambda a, b: relay.searchsorted(a, b, True, "int64"),
            [np.array([1, 3, 5], "float32"), np.array([0, 3, 9], "float32")],
            np.array([0, 2, 3], "int64"),
        ),
        (
            "unique",
            lambda a: relay.unique(a, True, True),
            [y],
            [long(values), long(first), inverse.astype("int32"), np.array([3], "int32"), long(counts)],
        ),
        (
            "einsum",
            lambda a, b: relay.einsum([a, b], "ij,kj->ik"),
            [np.nan_to_num(x), np.nan_to_num(x)],
            np.nan_to_num(x) @ np.nan_to_num(x).T,
        ),
    ]
    check_all(cases, rtol=1e-4)


REFUSALS = {
    "broadcast_to": (lambda x: relay.broadcast_to(x, (2, 4)), [tensor(3)], "(3,) cannot be broadcast to (2, 4)"),
    "broadcast_to fewer": (lambda x: relay.broadcast_to(x, (3,)), [tensor(2, 3)], "cannot be broadcast to (3,)"),
    "reshape": (lambda x: relay.reshape(x, (4, 2)), [tensor(2, 3)], "cannot reshape 6 elements to shape"),
    "reshape twice": (lambda x: relay.reshape(x, (-1, -1)), [tensor(2, 3)], "only one dimension can be -1"),
    "transpose": (lambda x: relay.transpose(x, (0, 0)), [tensor(2, 3)], ""),
    "concatenate": (lambda x, y: relay.concatenate([x, y], 0), [tensor(2, 3), tensor(2, 4)], ""),
    "split": (lambda x: relay.split(x, 2, 0), [tensor(3)], ""),
    "squeeze": (lambda x: relay.squeeze(x, [0]), [tensor(3)], ""),
    "where": (
        lambda c, x, y: relay.where(c, x, y),
        [tensor(3, dtype="bool"), tensor(3), tensor(3, dtype="int32")],
        "same element type",
    ),
    "slice_like": (lambda x, y: relay.slice_like(x, y), [tensor(3), tensor(4)], "4 elements along axis 0"),
    "reshape_like": (lambda x, y: relay.reshape_like(x, y), [tensor(3), tensor(4)], "cannot reshape 3 elements"),
    "full_like": (lambda x, v: relay.full_like(x, v), [tensor(3), tensor(1)], "the fill value must be a scalar"),
    "arange": (lambda x: relay.add(x, relay.arange(0, 3, 0)), [tensor(3)], "step must not be 0"),
    "scatter shape": (
        lambda x, i, u: relay.scatter_elements(x, i, u),
        [tensor(3), tensor(2, dtype="int32"), tensor(3)],
        "indices and updates must have the same shape",
    ),
    "scatter type": (
        lambda x, i, u: relay.scatter_elements(x, i, u),
        [tensor(3), tensor(2, dtype="int32"), tensor(2, dtype="int32")],
        "the same type, got float32 and int32",
    ),
    "topk": (lambda x: relay.topk(x, 4), [tensor(3)], "k is 4, but the dimension has only 3 elements"),
    "sparse_reshape": (lambda i, o, n: relay.op.sparse_reshape(i, o, n), [tensor(3), tensor(2), tensor(2)], "a matrix"),
    "take": (lambda x, i: relay.take(x, i, 2), [tensor(3), tensor(3, dtype="int32")], "axis"),
    "broadcast": (lambda x, y: relay.add(x, y), [tensor(3), tensor(4)], "do not broadcast"),
    "element types": (lambda x, y: relay.add(x, y), [tensor(3), tensor(3, dtype="int32")], "cast one of them"),
    "tuple wanted": (lambda x: relay.concatenate(relay.Tuple([]), 0), [tensor(3)], ""),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name):
    build, types, words = REFUSALS[name]
    message = refused(build, *types)
    assert words in message and message


def test_random_numbers_repeat_and_differ():
    key = relay.random.threefry_key(5)

    def build():
        after, a = relay.random.uniform(key, (1000,), "float32", relay.const(2.0), relay.const(4.0))
        _, b = relay.random.normal(after, (1000,), "float32", relay.const(1.0), relay.const(0.5))
        left, right = relay.random.threefry_split(key)
        _, c = relay.random.threefry_generate(left, (4, 2))
        _, d = relay.random.threefry_generate(right, (4, 2))
        _, e = relay.random.multinomial(key, relay.const(np.array([0.0, 1.0, 3.0], "float32")), 400)
        return [a, b, c, d, e]

    first, second = run(build), run(build)
    for x, y in zip(first, second):
        np.testing.assert_array_equal(x, y)
    a, b, c, d, e = first
    assert a.min() >= 2 and a.max() < 4 and abs(a.mean() - 3) < 0.1
    assert abs(b.mean() - 1) < 0.1 and abs(b.std() - 0.5) < 0.1
    assert not np.array_equal(c, d)
    assert set(np.unique(e)) == {1, 2} and 250 < (e == 2).sum() < 350


def test_dynamic_arange_has_unknown_length():
    n = relay.var("n", shape=(), dtype="int32")
    made = relay.arange(relay.const(0), n, relay.const(1), "int32")
    typed = relay.InferType()(tvm.IRModule.from_expr(relay.Function([n], made)))["main"].body.checked_type
    assert isinstance(typed.shape[0], tvm.tir.Any)
