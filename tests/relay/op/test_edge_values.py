"""Operators on edge values: NaN, zeros of both signs, infinities, integer extremes, empty and 0-d tensors.

The table of what is tried is checked against the records: the last test fails for an operator that is neither tried
nor in the table of ``tests/every_operator.py`` with another test.
"""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check_all, run
from edge_values import moving
from test_tensor import BINARY, EDGES, UNARY

from tests import on_target
from tests.every_operator import TESTS_OF_OPERATORS
from tvm import relay
from tvm.ir.op import OPS

INF, NAN = np.inf, np.nan
TRIED: set[str] = set()
# While the names of the tables are collected, nothing is computed.
NAMES_ONLY: list[bool] = []


def extremes(dtype):
    """Twelve values of a type, the smallest and largest among them."""
    if dtype == "float32":
        return EDGES.reshape(3, 4)
    if dtype == "bool":
        return np.array([True, False] * 6).reshape(3, 4)
    kind = np.iinfo(dtype)
    return np.array([kind.min, kind.max, 0, 1, 2, kind.max - 1, kind.min + 1, 7, 100, 3, 0, kind.max], dtype).reshape(
        3, 4
    )


def f32(*rows):
    return np.array(rows, "float32")


def same(cases):
    """Results with no element changed: also the signs of zeros."""
    for name, build, arrays, want in cases:
        TRIED.add(name)
        if NAMES_ONLY:
            continue
        got = run(build, *arrays)
        for g, w in zip(got if isinstance(want, list) else [got], want if isinstance(want, list) else [want]):
            assert g.dtype == w.dtype and g.shape == w.shape, (name, g.dtype, w.dtype, g.shape, w.shape)
            np.testing.assert_array_equal(g, w, err_msg=name)
            if g.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(g) & ~np.isnan(g), np.signbit(w) & ~np.isnan(w), err_msg=name)


def tried(cases, **tolerance):
    TRIED.update(c[0].split(" ")[0] for c in cases)
    if NAMES_ONLY:
        return
    with np.errstate(all="ignore"):
        check_all(cases, **tolerance)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int64"])
def test_operators_that_move_elements_keep_every_bit(dtype):
    same(moving(extremes(dtype)))


@pytest.mark.skipif(not on_target.is_cpu(), reason="the model has a target for one device, and the CPU is a second one")
def test_operators_that_name_the_cpu_keep_every_bit():
    x = extremes("float32")
    same(
        [
            ("on_device", lambda a: relay.op.annotation.on_device(a, "cpu"), [x], x),
            ("device_copy", lambda a: relay.op.device_copy(a, "cpu", "cpu"), [x], x),
        ]
    )


def test_sizes_and_places():
    x = EDGES.reshape(3, 4)
    hot = np.array([0, 2, 127, -128], "int8")
    tried(
        [
            ("shape_of", lambda a: relay.shape_of(a), [np.zeros((0, 3), "float32")], np.array([0, 3], "int32")),
            ("shape_of 0-d", lambda a: relay.shape_of(a), [f32(1.0)[0]], np.zeros(0, "int32")),
            ("ndarray_size", lambda a: relay.ndarray_size(a), [np.zeros((0, 3), "float32")], np.int32(0)),
            ("ndarray_size 0-d", lambda a: relay.ndarray_size(a), [f32(1.0)[0]], np.int32(1)),
            (
                "one_hot",
                lambda i: relay.one_hot(i, relay.const(5.0), relay.const(-0.0), 3, -1, "float32"),
                [hot.astype("int32")],
                np.where(hot[:, None] == np.arange(3), np.float32(5), np.float32(-0.0)),
            ),
            (
                "unravel_index",
                lambda i, s: relay.unravel_index(i, s),
                [np.array([0, 11], "int32"), np.array([3, 4], "int32")],
                np.array([[0, 2], [0, 3]], "int32"),
            ),
            (
                "invert_permutation",
                relay.op.transform.invert_permutation,
                [np.array([2, 0, 1], "int32")],
                np.array([1, 2, 0], "int32"),
            ),
            ("reinterpret", lambda a: relay.reinterpret(a, "int32"), [x], x.view("int32")),
            (
                "searchsorted",
                lambda s, v: relay.searchsorted(s, v),
                [f32(-INF, 0, 1, INF), f32(-INF, -0.0, 2, INF, 0.5)],
                np.array([0, 1, 3, 3, 2], "int32"),
            ),
            (
                "searchsorted right",
                lambda s, v: relay.searchsorted(s, v, True),
                [f32(-INF, 0, 1, INF), f32(-INF, -0.0, INF)],
                np.array([1, 2, 4], "int32"),
            ),
            (
                "arange",
                lambda a: relay.arange(relay.const(0), relay.const(0), relay.const(1), "int32"),
                [x],
                np.zeros(0, "int32"),
            ),
        ]
    )


ROWS = f32(
    [3, NAN, 2],
    [1, NAN, 2],
    [NAN, 5, 4],
    [INF, 1, -2],
    [INF, -INF, 0],
    [-0.0, -0.0, -0.0],
    [3e38, 3e38, 1],
    [-INF, -INF, -INF],
    [-0.0, 0.0, 1],
)


def test_reductions_of_specials():
    """A NaN in a row makes its sum, its maximum and its minimum NaN."""
    x = ROWS
    whole = np.array([[np.iinfo("int32").min, np.iinfo("int32").max, -1]], "int32")
    with np.errstate(all="ignore"):
        cases = [
            ("sum", lambda a: relay.sum(a, 1), [x], x.sum(1)),
            ("mean", lambda a: relay.mean(a, 1), [x], x.mean(1)),
            ("prod", lambda a: relay.prod(a, 1), [x], x.prod(1)),
            ("max", lambda a: relay.max(a, 1), [x], x.max(1)),
            ("min", lambda a: relay.min(a, 1), [x], x.min(1)),
            ("variance", lambda a: relay.variance(a, 1), [x[[0, 3, 5]]], x[[0, 3, 5]].var(1)),
            ("variance over no axis", lambda a: relay.variance(a, ()), [x[[0, 3, 5]]], 0 * x[[0, 3, 5]]),
            ("argmax", lambda a: relay.argmax(a, 1), [x], x.argmax(1).astype("int32")),
            ("argmin", lambda a: relay.argmin(a, 1), [x], x.argmin(1).astype("int32")),
            ("cumsum", lambda a: relay.cumsum(a, 1), [x], x.cumsum(1)),
            ("cumprod", lambda a: relay.cumprod(a, 1), [x], x.cumprod(1)),
            ("sum extremes", lambda a: relay.sum(a, 1), [whole], whole.sum(1, dtype="int32")),
            ("max extremes", lambda a: relay.max(a, 1), [whole], whole.max(1)),
            ("min extremes", lambda a: relay.min(a, 1), [whole], whole.min(1)),
            ("prod extremes", lambda a: relay.prod(a, 1), [whole], whole.prod(1, dtype="int32")),
            ("cumsum extremes", lambda a: relay.cumsum(a, 1), [whole], whole.cumsum(1, dtype="int32")),
            ("all", lambda a: relay.all(a, 1), [np.zeros((2, 0), "bool")], np.ones(2, "bool")),
            ("any", lambda a: relay.any(a, 1), [np.zeros((2, 0), "bool")], np.zeros(2, "bool")),
        ]
    tried(cases, rtol=1e-5, atol=1e-6)


def test_reductions_of_nothing_and_of_0d():
    empty, one = np.zeros((2, 0), "float32"), np.float32(-3)
    tried(
        [
            ("sum", lambda a: relay.sum(a, 1), [empty], f32(0, 0)),
            ("prod", lambda a: relay.prod(a, 1), [empty], f32(1, 1)),
            ("max", lambda a: relay.max(a, 0), [empty], np.zeros(0, "float32")),
            ("argmax", lambda a: relay.argmax(a, 0), [empty], np.zeros(0, "int32")),
            ("mean", lambda a: relay.mean(a, 1), [empty], f32(NAN, NAN)),
            ("max 0-d", relay.max, [one], one),
            ("mean 0-d", relay.mean, [one], one),
            ("argmax 0-d", relay.argmax, [one], np.int32(0)),
        ]
    )


def test_sorting_of_specials():
    x = f32([3, INF, -INF, -0.0, 0.0, 1], [1e38, -1e38, 5, 5, 5, -5])
    whole = np.array([[127, -128, 0, -1, 1, 127]], "int8")
    empty = np.zeros((2, 0), "float32")
    tried(
        [
            ("sort", lambda a: relay.sort(a, 1), [x], np.sort(x, 1)),
            ("sort down", lambda a: relay.sort(a, 1, False), [x], -np.sort(-x, 1)),
            (
                "argsort",
                lambda a: relay.argsort(a, 1, dtype="int32"),
                [x],
                np.argsort(x, 1, kind="stable").astype("int32"),
            ),
            ("topk", lambda a: relay.topk(a, 3, 1, "values"), [x], -np.sort(-x, 1)[:, :3]),
            ("sort extremes", lambda a: relay.sort(a, 1), [whole], np.sort(whole, 1)),
            ("topk extremes", lambda a: relay.topk(a, 2, 1, "values"), [whole], np.array([[127, 127]], "int8")),
            (
                "argsort extremes",
                lambda a: relay.argsort(a, 1, False, "int32"),
                [whole],
                np.array([[0, 5, 4, 2, 3, 1]], "int32"),
            ),
            ("sort empty", lambda a: relay.sort(a, 1), [empty], empty),
        ]
    )


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_activations_of_specials():
    x, one = EDGES.reshape(3, 4), f32(1, 1, 1, 1)
    big = f32([1e38, 1e38, -1e38], [-INF, 0, 1], [200, -200, 0], [0, NAN, 1])
    y = np.where(np.abs(x) > 1e30, np.float32(INF), x).reshape(1, 3, 2, 2)
    with np.errstate(all="ignore"):
        soft = softmax(big, 1)
        logs = big[2:] - big[2:].max(1, keepdims=True)
        logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
        cases = [
            ("nn.relu", relay.nn.relu, [x], np.where(np.isnan(x), x, np.maximum(x, 0))),
            ("nn.leaky_relu", lambda a: relay.nn.leaky_relu(a, 0.5), [x], np.where(x > 0, x, x * np.float32(0.5))),
            ("nn.prelu", lambda a, s: relay.nn.prelu(a, s, 1), [x, one / 2], np.where(x > 0, x, x * np.float32(0.5))),
            ("clip", lambda a: relay.clip(a, -1, 1), [x], np.clip(x, -1, 1)),
            ("sigmoid", relay.sigmoid, [x], sigmoid(x)),
            ("nn.softmax", lambda a: relay.nn.softmax(a, 1), [big], soft),
            ("nn.fast_softmax", lambda a: relay.nn.fast_softmax(a, 1), [f32([0, 1, 80])], softmax(f32([0, 1, 80]), 1)),
            ("nn.log_softmax", lambda a: relay.nn.log_softmax(a, 1), [big[2:]], logs),
            (
                "nn.bias_add",
                lambda a, b: relay.nn.bias_add(a, b, 1),
                [x, f32(INF, -0.0, -INF, NAN)],
                x + f32(INF, -0.0, -INF, NAN),
            ),
            (
                "nn.l2_normalize",
                lambda a: relay.nn.l2_normalize(a, 1e-6, [1]),
                [f32([0, -0.0], [3, 4])],
                f32([0, 0], [0.6, 0.8]),
            ),
            ("nn.lrn", lambda a: relay.nn.lrn(a, 1, 1, 1.0, 0.5, 0.5), [y], y / np.sqrt(1 + y * y / 2)),
            ("fast_exp", relay.fast_exp, [f32(0, -0.0, -1)], np.exp(f32(0, 0, -1))),
            ("fast_tanh", relay.fast_tanh, [f32(0, 50, -50)], f32(0, 1, -1)),
            ("fast_erf", relay.fast_erf, [f32(0, 50, -50)], f32(0, 1, -1)),
        ]
    tried(cases, rtol=1e-4, atol=1e-4)


def test_normalizations_of_specials():
    """A constant row has no spread: only the shift is left. A NaN spoils its own row."""
    x = f32([[2, 2], [0, -0.0]], [[NAN, 1], [3, 3]])
    scale, shift = f32(2, 3), f32(-1, 1)
    flat = f32([-1, -1], [1, 1])
    flat3 = np.stack([flat, np.where(np.isnan(x[1]).any(1, keepdims=True), np.float32(NAN), flat)])
    mean, spread = f32(0, INF), f32(1, INF)
    with np.errstate(all="ignore"):
        normal = (f32([1, 1], [NAN, -0.0]) - mean) / np.sqrt(spread) * scale + shift
    tried(
        [
            ("nn.instance_norm", lambda a, g, b: relay.nn.instance_norm(a, g, b), [x, scale, shift], flat3),
            (
                "nn.layer_norm",
                lambda a, g, b: relay.nn.layer_norm(a, g, b),
                [x, scale, shift],
                np.stack([f32([-1, 1], [-1, 1]), f32([NAN, NAN], [-1, 1])]),
            ),
            ("nn.group_norm", lambda a, g, b: relay.nn.group_norm(a, g, b, 2), [x, scale, shift], flat3),
            (
                "nn.batch_norm",
                lambda a, g, b, m, v: relay.nn.batch_norm(a, g, b, m, v, epsilon=0.0)[0],
                [f32([1, 1], [NAN, -0.0]), scale, shift, mean, spread],
                normal,
            ),
        ],
        rtol=1e-4,
        atol=1e-4,
    )


def test_products_of_specials():
    """Infinity times zero is NaN, and a NaN reaches the results it belongs to, no others."""
    a, b = f32([1, INF, 0], [NAN, 1, 1], [2, 2, 2]), f32([1, 0, 2], [1, 1, 1])
    with np.errstate(all="ignore"):
        want = (a[:, None] * b).sum(-1)
    whole = np.array([[127, -128], [1, 0]], "int8")
    square = whole.astype("int32") @ whole.astype("int32").T
    empty = np.zeros((2, 0), "float32")
    tried(
        [
            ("nn.dense", lambda x, y: relay.nn.dense(x, y), [a, b], want),
            ("nn.matmul", lambda x, y: relay.nn.matmul(x, y), [a, b.T.copy()], want),
            ("nn.batch_matmul", lambda x, y: relay.nn.batch_matmul(x, y), [a[None], b[None]], want[None]),
            ("einsum", lambda x, y: relay.einsum([x, y], "ij,kj->ik"), [a, b], want),
            # What is not stored does not multiply: infinity times it is no NaN.
            (
                "nn.sparse_dense",
                lambda x: relay.nn.sparse_dense(x, (f32(1, 2, 0), np.int32([0, 2, 1]), np.int32([0, 2, 3, 3]))),
                [a],
                f32([1, NAN, 0], [NAN, 0, 0], [6, 0, 0]),
            ),
            ("nn.dense extremes", lambda x, y: relay.nn.dense(x, y, out_dtype="int32"), [whole, whole], square),
            (
                "nn.batch_matmul extremes",
                lambda x, y: relay.nn.batch_matmul(x, y, "int32"),
                [whole[None], whole[None]],
                square[None],
            ),
            (
                "nn.dense of nothing",
                lambda x, y: relay.nn.dense(x, y),
                [empty, np.zeros((3, 0), "float32")],
                np.zeros((2, 3), "float32"),
            ),
            (
                "nn.dense no rows",
                lambda x, y: relay.nn.dense(x, y),
                [np.zeros((0, 3), "float32"), b],
                np.zeros((0, 2), "float32"),
            ),
        ],
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_of_specials(rank):
    """Over 1 to 3 dimensions a NaN or an infinity reaches the windows that hold it."""
    x = np.ones((1, 2) + (1,) * (rank - 1) + (5,), "float32")
    x[0, 0, ..., 0], x[0, 1, ..., 4] = NAN, INF
    w = np.ones((1, 2) + (1,) * (rank - 1) + (2,), "float32")
    row = x.reshape(2, 5)
    lead = (1, 1) + (1,) * (rank - 1)
    sums = (row[:, :-1] + row[:, 1:]).sum(0).reshape(*lead, 4)
    out = np.zeros(6, "float32")
    out[:5] += row.sum(0)
    out[1:] += row.sum(0)
    last = (1,) * (rank - 1)
    pooled = np.maximum(row[:, :-1], row[:, 1:]).reshape(1, 2, *last, 4)
    mean = ((row[:, :-1] + row[:, 1:]) / 2).reshape(1, 2, *last, 4)
    whole = {"pool_size": (*last, 2), "strides": (1,) * rank}
    nn = relay.nn
    function = {
        k: getattr(nn, f"{k}{rank}d")
        for k in (
            "conv",
            "max_pool",
            "avg_pool",
            "global_avg_pool",
            "global_max_pool",
            "adaptive_avg_pool",
            "adaptive_max_pool",
        )
    }
    transposed = getattr(nn, f"conv{rank}d_transpose")
    middle = x[..., 1:4]
    size = (1,) * rank
    largest = f32(NAN, INF).reshape(1, 2, *size)
    ones = np.ones((1, 2, *size), "float32")
    cases = [
        (f"nn.conv{rank}d", lambda a, b: function["conv"](a, b, channels=1, kernel_size=(*last, 2)), [x, w], sums),
        (f"nn.max_pool{rank}d", lambda a: function["max_pool"](a, **whole), [x], pooled),
        (f"nn.avg_pool{rank}d", lambda a: function["avg_pool"](a, **whole), [x], mean),
        (
            f"nn.global_avg_pool{rank}d",
            lambda a: function["global_avg_pool"](a),
            [x],
            f32(NAN, INF).reshape(1, 2, *size),
        ),
        (f"nn.global_max_pool{rank}d", lambda a: function["global_max_pool"](a), [x], largest),
        (f"nn.adaptive_avg_pool{rank}d", lambda a: function["adaptive_avg_pool"](a, size), [middle], ones),
        (f"nn.adaptive_max_pool{rank}d", lambda a: function["adaptive_max_pool"](a, size), [x], largest),
        (
            f"nn.conv{rank}d_transpose",
            lambda a, b: transposed(a, b, channels=1, kernel_size=(*last, 2), strides=(1,) * rank, padding=(0,) * rank),
            [x, w.reshape(2, 1, *last, 2)],
            out.reshape(1, 1, *last, 6),
        ),
    ]
    tried(cases)


def test_losses_and_labels():
    scores, hot = f32([0.5, 0.25, 0.25], [1, 0, 0]), f32([1, 0, 0], [1, 0, 0])
    tried(
        [
            (
                "nn.cross_entropy",
                relay.nn.cross_entropy,
                [f32([0.5, 0.5], [1, 1]), f32([1, 0], [1, 0])],
                np.float32(np.log(2) / 2),
            ),
            ("nn.cross_entropy_with_logits", relay.nn.cross_entropy_with_logits, [scores, hot], np.float32(-0.75)),
            (
                "nn.nll_loss",
                lambda p, t, w: relay.nn.nll_loss(p, t, w, "sum"),
                [f32([-INF, 2, 0], [1, -0.0, 5]), np.array([1, 1], "int32"), f32(1, 1, 1)],
                np.float32(-2),
            ),
        ],
        rtol=1e-5,
        atol=1e-6,
    )


def test_integers_kept_in_small_types_saturate():
    """qnn: values beyond the type's ends stay at the ends."""
    one, zero = relay.const(1.0), relay.const(0)
    ends = np.array([-128, 127, 0, 1], "int8")
    real = f32(1e9, -1e9, 127.5, -0.0)
    q = relay.qnn.op

    def two(f):
        return lambda a, b: f(a, b, one, zero, one, zero, one, zero)

    def table(f, scale=1.0):
        return lambda a: f(a, relay.const(scale), zero, relay.const(scale), zero)

    tried(
        [
            (
                "qnn.quantize",
                lambda a: q.quantize(a, one, zero, out_dtype="int8"),
                [real],
                np.array([127, -128, 127, 0], "int8"),
            ),
            ("qnn.dequantize", lambda a: q.dequantize(a, one, zero), [ends], ends.astype("float32")),
            (
                "qnn.requantize",
                lambda a: q.requantize(a, one, zero, one, zero, out_dtype="int8"),
                [np.array([2**31 - 1, -(2**31), 5, 0], "int32")],
                np.array([127, -128, 5, 0], "int8"),
            ),
            ("qnn.add", two(q.add), [ends, ends], np.array([-128, 127, 0, 2], "int8")),
            ("qnn.subtract", two(q.subtract), [ends, ends[::-1].copy()], np.array([-128, 127, -127, 127], "int8")),
            ("qnn.mul", two(q.mul), [ends, ends], np.array([127, 127, 0, 1], "int8")),
            ("qnn.abs", table(q.abs), [ends], np.array([127, 127, 0, 1], "int8")),
            ("qnn.exp", table(q.exp), [ends], np.array([0, 127, 1, 3], "int8")),
            ("qnn.tanh", table(q.tanh), [ends], np.array([-1, 1, 0, 1], "int8")),
            ("qnn.erf", table(q.erf), [ends], np.array([-1, 1, 0, 1], "int8")),
            ("qnn.sigmoid", table(q.sigmoid), [ends], np.array([0, 1, 0, 1], "int8")),
            ("qnn.sqrt", table(q.sqrt), [ends[1:]], np.array([11, 0, 1], "int8")),
            ("qnn.rsqrt", table(q.rsqrt), [np.array([1, 4], "int8")], np.array([1, 0], "int8")),
            ("qnn.log", table(q.log), [np.array([1, 127], "int8")], np.array([0, 5], "int8")),
            ("qnn.hardswish", table(q.hardswish), [ends], np.array([0, 127, 0, 1], "int8")),
            (
                "qnn.dense",
                lambda a, b: q.dense(a, b, zero, zero, one, one, 1, "int32"),
                [ends[None], ends[None]],
                np.array([[128 * 128 + 127 * 127 + 1]], "int32"),
            ),
        ]
    )


def test_elementwise_of_nothing_and_of_0d():
    """Every operator element by element keeps an empty shape, and gives a 0-d result for 0-d inputs."""
    cases = []
    empty = np.zeros((2, 0), "float32")
    with np.errstate(all="ignore"):
        for name, f in UNARY.items():
            kind = "bool" if name[:2] == "is" else "float32"
            cases.append((name, getattr(relay, name), [empty], empty.astype(kind)))
            cases.append(
                (f"{name} 0-d", getattr(relay, name), [np.float32(1)], np.asarray(f(np.float32([1])))[0].astype(kind))
            )
        for name, f in BINARY.items():
            made = f(np.float32(3), np.float32(2))
            cases.append((name, getattr(relay, name), [empty, f32(1).reshape(1, 1)], empty.astype(made.dtype)))
            cases.append((f"{name} 0-d", getattr(relay, name), [np.float32(3), np.float32(2)], made))
    tried(cases, rtol=1e-5, atol=1e-6)


def test_moving_of_nothing():
    empty = np.zeros((2, 0, 3), "float32")
    same(
        [
            ("reshape", lambda a: relay.reshape(a, (6, -1)), [empty], empty.reshape(6, 0)),
            ("transpose", relay.transpose, [empty], empty.T),
            ("concatenate", lambda a: relay.concatenate([a, a], 1), [empty], empty),
            (
                "strided_slice",
                lambda a: relay.strided_slice(a, [0], [0], [1], [0]),
                [np.ones((2, 3), "float32")],
                np.ones((0, 3), "float32"),
            ),
            (
                "take",
                lambda a, i: relay.take(a, i, 0),
                [np.ones((2, 3), "float32"), np.zeros(0, "int32")],
                np.ones((0, 3), "float32"),
            ),
            (
                "nn.pad",
                lambda a: relay.nn.pad(a, ((0, 0), (1, 0), (0, 0)), 2.0),
                [empty],
                np.full((2, 1, 3), 2, "float32"),
            ),
            ("tile", lambda a: relay.tile(a, (1, 2, 1)), [empty], empty),
            ("where", relay.where, [np.zeros((2, 0, 3), "bool"), empty, empty], empty),
            ("cast", lambda a: relay.cast(a, "int8"), [empty], empty.astype("int8")),
            (
                "broadcast_to",
                lambda a: relay.broadcast_to(a, (0, 3)),
                [np.ones((1, 3), "float32")],
                np.ones((0, 3), "float32"),
            ),
            ("expand_dims", lambda a: relay.expand_dims(a, 0), [np.float32(3)], f32(3)),
        ]
    )


def test_every_operator_has_a_row():
    """The names of all tables, gathered here again: the tests above may have run in another process."""
    NAMES_ONLY.append(True)
    try:
        for name, table in list(globals().items()):
            if not name.startswith("test_") or table is test_every_operator_has_a_row:
                continue
            marks = [m for m in getattr(table, "pytestmark", ()) if m.name == "parametrize"]
            for value in marks[0].args[1] if marks else ():
                table(value)
            if not marks:
                table()
    finally:
        NAMES_ONLY.clear()
    names = {n for n in OPS.names() if "TOpPattern" in OPS[n].attrs and "type_rule" in OPS[n].attrs}
    listed = TRIED.union(*TESTS_OF_OPERATORS.values())
    missing = sorted(n for n in names - listed if not n.startswith("test."))
    assert not missing, f"never tried on edge values: {missing}"
