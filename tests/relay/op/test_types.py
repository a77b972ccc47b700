"""Element types and sizes at the edges: halves, small integers, bools, empty tensors."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check_all

import tvm
from tvm import relay

rng = np.random.default_rng(77)


def convolved(x, w, dtype):
    view = np.lib.stride_tricks.sliding_window_view(x.astype(dtype), w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", view, w.astype(dtype)).astype(dtype)


def test_small_integers():
    x, w = rng.integers(-128, 128, (1, 3, 5, 7)).astype("int8"), rng.integers(-128, 128, (2, 3, 3, 3)).astype("int8")
    u = rng.integers(0, 256, (1, 2, 4, 6)).astype("uint8")
    a, b = rng.integers(-128, 128, (3, 5)).astype("int8"), rng.integers(-128, 128, (4, 5)).astype("int8")
    total = u.astype("int64").reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 2, 4, 3, 5).reshape(1, 2, 2, 3, 4)
    check_all(
        [
            ("conv2d", lambda d, k: relay.nn.conv2d(d, k, out_dtype="int32"), [x, w], convolved(x, w, "int32")),
            (
                "dense",
                lambda d, k: relay.nn.dense(d, k, out_dtype="int32"),
                [a, b],
                a.astype("int32") @ b.astype("int32").T,
            ),
            ("max_pool2d", lambda d: relay.nn.max_pool2d(d, 2, 2), [u], total.max(-1).astype("uint8")),
            (
                "max_pool2d with padding",
                lambda d: relay.nn.max_pool2d(d, 3, 3, padding=1),
                [x[:, :, :3, :3].copy() // 2 - 64],
                _pooled(x),
            ),
            ("relu", relay.nn.relu, [x], np.maximum(x, 0)),
            (
                "batch_matmul",
                lambda d, k: relay.nn.batch_matmul(d, k, "int32"),
                [a[None], b[None]],
                (a.astype("int32") @ b.astype("int32").T)[None],
            ),
        ]
    )


def _pooled(x):
    """Windows of three, three apart, with a border of one: the corners see two by two."""
    y = np.pad((x[:, :, :3, :3] // 2 - 64).astype("int32"), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-128)
    return y[:, :, :3, :3].max((2, 3), keepdims=True).astype("int8")


def test_halves():
    x, w = (rng.standard_normal(s).astype("float16") for s in ((1, 2, 5, 5), (3, 2, 3, 3)))
    row, g, b = (rng.standard_normal(s).astype("float16") for s in ((4, 9), (9,), (9,)))
    r = row.astype("float64")
    e = np.exp(r - r.max(1, keepdims=True))
    normal = (r - r.mean(1, keepdims=True)) / np.sqrt(r.var(1, keepdims=True) + 1e-5) * g + b
    check_all(
        [
            ("conv2d", relay.nn.conv2d, [x, w], convolved(x, w, "float64").astype("float16")),
            ("softmax", relay.nn.softmax, [row], (e / e.sum(1, keepdims=True)).astype("float16")),
            ("layer_norm", relay.nn.layer_norm, [row, g, b], normal.astype("float16")),
            (
                "avg_pool2d",
                lambda d: relay.nn.avg_pool2d(d, 5),
                [x],
                x.astype("float64").mean((2, 3), keepdims=True).astype("float16"),
            ),
            ("sum", lambda d: relay.sum(d, 1), [row], r.sum(1).astype("float16")),
            ("sigmoid", relay.sigmoid, [row], (1 / (1 + np.exp(-r))).astype("float16")),
            (
                "resize2d",
                lambda d: relay.image.resize2d(
                    d,
                    (10, 10),
                    method="nearest_neighbor",
                    coordinate_transformation_mode="asymmetric",
                    rounding_method="floor",
                ),
                [x],
                x.repeat(2, 2).repeat(2, 3),
            ),
        ],
        rtol=2e-2,
        atol=1e-2,
    )


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float64"])
def test_moving_elements_of_any_type(dtype):
    x = (rng.integers(0, 2, (3, 4)) if dtype == "bool" else rng.integers(-100, 100, (3, 4))).astype(dtype)
    at = np.array([2, 0], "int32")
    check_all(
        [
            ("transpose", relay.transpose, [x], x.T),
            ("concatenate", lambda a: relay.concatenate([a, a], 0), [x], np.concatenate([x, x])),
            ("take", lambda a, i: relay.take(a, i, 0), [x, at], x[at]),
            ("strided_slice", lambda a: relay.strided_slice(a, [0, 1], [3, 4]), [x], x[:, 1:]),
            ("where", lambda a: relay.where(relay.equal(a, a), a, a), [x], x),
            ("broadcast_to", lambda a: relay.broadcast_to(a, (2, 3, 4)), [x], np.broadcast_to(x, (2, 3, 4))),
            (
                "pad",
                lambda a: relay.nn.pad(a, ((0, 0), (1, 1)), 1),
                [x],
                np.pad(x, ((0, 0), (1, 1)), constant_values=1),
            ),
            ("reshape", lambda a: relay.reshape(a, (-1,)), [x], x.reshape(-1)),
            ("tile", lambda a: relay.tile(a, (1, 2)), [x], np.tile(x, (1, 2))),
            ("scatter_nd", relay.scatter_nd, [x, np.array([[0, 2]]), x[:2].copy()], np.stack([x[0], x[1], x[1]])),
            ("cast", lambda a: relay.cast(a, "float32"), [x], x.astype("float32")),
            ("cast to bool", lambda a: relay.cast(a, "bool"), [x], x.astype("bool")),
        ]
    )


def test_empty_tensors():
    none, line = np.zeros((0, 4), "float32"), np.zeros((2, 0), "float32")
    image = np.zeros((0, 3, 5, 5), "float32")
    check_all(
        [
            ("softmax", relay.nn.softmax, [none], none),
            ("relu", relay.nn.relu, [line], line),
            ("dense", relay.nn.dense, [none, np.ones((3, 4), "float32")], np.zeros((0, 3), "float32")),
            ("dense of no features", relay.nn.dense, [line, np.zeros((3, 0), "float32")], np.zeros((2, 3), "float32")),
            ("max_pool2d", lambda a: relay.nn.max_pool2d(a, 2), [image], np.zeros((0, 3, 4, 4), "float32")),
            ("conv2d", relay.nn.conv2d, [image, np.ones((2, 3, 3, 3), "float32")], np.zeros((0, 2, 3, 3), "float32")),
            ("transpose", relay.transpose, [none], np.zeros((4, 0), "float32")),
            ("sum", lambda a: relay.sum(a, 1), [line], np.zeros(2, "float32")),
            ("prod", lambda a: relay.prod(a, 1), [line], np.ones(2, "float32")),
            ("pad", lambda a: relay.nn.pad(a, ((1, 0), (0, 0)), 2.0), [none], np.full((1, 4), 2, "float32")),
            (
                "take nothing",
                lambda a, i: relay.take(a, i, 0),
                [np.ones((3, 2), "float32"), np.zeros(0, "int64")],
                np.zeros((0, 2), "float32"),
            ),
            ("sort", relay.sort, [none], none),
            ("cumsum", lambda a: relay.cumsum(a, 0), [none], none),
        ]
    )


def test_scalars():
    x = np.float32(-2.5)
    check_all(
        [
            ("abs", relay.abs, [x], np.float32(2.5)),
            ("relu", relay.nn.relu, [x], np.float32(0)),
            ("clip", lambda a: relay.clip(a, -1, 1), [x], np.float32(-1)),
            ("broadcast", lambda a: relay.broadcast_to(a, (2, 2)), [x], np.full((2, 2), x)),
            ("stack", lambda a: relay.stack([a, a], 0), [x], np.array([x, x])),
            ("expand_dims", lambda a: relay.expand_dims(a, 0), [x], np.array([x])),
            ("take", lambda a, i: relay.take(a, i), [np.array([1, 2], "float32"), np.int64(1)], np.float32(2)),
            ("where", relay.where, [np.bool_(True), x, np.float32(1)], x),
            ("cast", lambda a: relay.cast(a, "int32"), [x], np.int32(-2)),
            ("quantize", lambda a: relay.qnn.op.quantize(a, 0.5, 1), [x], np.int8(-4)),
            ("max", relay.max, [x], x),
            (
                "one_hot",
                lambda i: relay.one_hot(i, 1.0, 0.0, 3, -1, "float32"),
                [np.int32(1)],
                np.array([0, 1, 0], "float32"),
            ),
        ]
    )


def test_the_axes_of_a_reduction_are_always_several():
    x = relay.var("x", shape=(2, 3))
    for build in (relay.sum, relay.max, relay.mean, relay.argmax, relay.variance):
        assert build(x, axis=1).attrs.axis == build(x, axis=[1]).attrs.axis == (1,)
    assert relay.sum(x).attrs.axis is None


class Reported:
    """What a type relation assigns."""

    def __init__(self):
        self.assigned = []

    def assign(self, place, found):
        self.assigned.append((place, found))


@pytest.mark.parametrize("name, wanted", [("Broadcast", "float32"), ("BroadcastComp", "bool"), ("Identity", "float32")])
def test_type_relations_are_functions_by_name(name, wanted):
    relation = tvm.ir.EnvFunc.get(f"tvm.relay.type_relation.{name}")
    assert tvm.ir.structural_equal(relation, tvm.ir.EnvFunc.get(f"tvm.relay.type_relation.{name}"))
    out = relay.TypeVar("out")
    inputs = [relay.TensorType(shape, "float32") for shape in ((4, 1), (1, 3))][: 1 if name == "Identity" else 2]
    reported = Reported()
    assert relay.TypeRelation(relation, [*inputs, out], len(inputs), None)([*inputs, out], len(inputs), None, reported)
    shape = (4, 1) if name == "Identity" else (4, 3)
    assert reported.assigned == [(out, relay.TensorType(shape, wanted))]
    assert not relation([relay.TypeVar("a"), *inputs[1:], out], len(inputs), None, reported)
    assert len(reported.assigned) == 1
