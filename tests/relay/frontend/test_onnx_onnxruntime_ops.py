"""Operators of onnxruntime's own domain and of classic learning, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.helper import np_dtype_to_tensor_dtype
from small_models import graph_model, onnxruntime_results

from tvm.contrib import onnx_backend
from tvm.error import TVMError

MS, ML = "com.microsoft", "ai.onnx.ml"


def both(operator, arrays: dict, outputs=("y",), weights=None, domain=MS, tolerance=1e-4, names=None, **attributes):
    """The node's results here and in onnxruntime; ``names`` are its inputs in order, "" for one left out."""
    names = names or [*arrays, *(weights or {})]
    node = helper.make_node(operator, names, list(outputs), domain=domain, **attributes)
    sides = [helper.make_tensor_value_info(n, np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()]
    model = graph_model([node], sides, [helper.make_empty_tensor_value_info(o) for o in outputs], weights, 17, [domain])
    want = onnxruntime_results(model, arrays)
    got = onnx_backend.run_model(model, list(arrays.values()))
    for g, w in zip(got, want):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


def attention_inputs(rng, batch=2, length=5, hidden=12):
    x = rng.standard_normal((batch, length, hidden)).astype("float32")
    weights = {"w": rng.standard_normal((hidden, 3 * hidden)).astype("float32") * 0.3}
    weights["b"] = rng.standard_normal(3 * hidden).astype("float32")
    return x, weights


@pytest.mark.parametrize(
    ("one_way", "before", "mask"),
    [(0, 0, "rows"), (1, 0, None), (0, 3, None), (1, 3, "rows"), (0, 3, "lengths"), (1, 0, "square")],
)
def test_attention_with_a_past_and_masks(one_way, before, mask, rng):
    x, weights = attention_inputs(rng)
    total = 5 + before
    arrays, names = {"x": x}, ["x", "w", "b", "", ""]
    if mask is not None:
        shape = {"rows": (2, total), "square": (2, 5, total), "lengths": (2,)}[mask]
        arrays["m"] = rng.integers(1, total, 2).astype("int32") if mask == "lengths" else _marks(rng, shape)
        names[3] = "m"
    if before:
        arrays["p"] = rng.standard_normal((2, 2, 3, before, 4)).astype("float32")
        names[4] = "p"
    outputs = ("y", "present") if before else ("y",)
    both("Attention", arrays, outputs, weights, names=names, num_heads=3, unidirectional=one_way)


def _marks(rng, shape):
    marks = rng.integers(0, 2, shape).astype("int32")
    marks[..., 0] = 1
    return marks


# Signed weights of seven bits: without dot products of bytes, onnxruntime adds two products with unsigned data in
# int16, where larger ones saturate.
SIGNED = (-64, 64)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_attention_of_integers(past, kind, rng):
    low, high = (0, 255) if kind == "uint8" else SIGNED
    arrays = {"x": rng.integers(0, 255, (2, 5, 12)).astype("uint8")}
    weights = {
        "w": rng.integers(low, high, (12, 36)).astype(kind),
        "b": rng.standard_normal(36).astype("float32"),
        "xs": np.array(0.02, "float32"),
        "ws": np.array(0.01, "float32"),
        "xz": np.array(120, "uint8"),
        "wz": np.array(128 if kind == "uint8" else 0, kind),
    }
    names = ["x", "w", "b", "xs", "ws", "", "xz", "wz"]
    if past:
        arrays["p"] = rng.standard_normal((2, 2, 3, 4, 4)).astype("float32")
        names.append("p")
    outputs = ("y", "present") if past else ("y",)
    both("QAttention", arrays, outputs, weights, names=names, num_heads=3, unidirectional=int(past))


@pytest.mark.parametrize(("bias", "floats", "turned"), [(0, 0, 0), (1, 0, 1), (1, 1, 0), (0, 1, 1)])
def test_products_of_integers_with_scales(bias, floats, turned, rng):
    arrays = {"a": rng.integers(0, 255, (7, 5) if turned else (5, 7)).astype("uint8")}
    weights = {
        "as": np.array(0.03, "float32"),
        "az": np.array(100, "uint8"),
        "b": rng.integers(*SIGNED, (6, 7) if turned else (7, 6)).astype("int8"),
        "bs": np.array(0.05, "float32"),
        "bz": np.array(3, "int8"),
        "c": rng.integers(-1000, 1000, (6,)).astype("int32"),
        "ys": np.array(1.7, "float32"),
        "yz": np.array(90, "uint8"),
    }
    names = ["a", "as", "az", "b", "bs", "bz", "c" if bias else ""] + ([] if floats else ["ys", "yz"])
    kept = {k: v for k, v in weights.items() if k in names}
    both("QGemm", arrays, ("y",), kept, names=names, transA=turned, transB=turned, tolerance=1e-4 if floats else 1)


def test_products_of_short_integers(rng):
    a, b = rng.integers(-3000, 3000, (2, 3, 5)).astype("int16"), rng.integers(-3000, 3000, (2, 5, 4)).astype("int16")
    node = helper.make_node("MatMulInteger16", ["a", "b"], ["y"], domain=MS)
    sides = [helper.make_tensor_value_info(n, np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in zip("ab", (a, b))]
    model = graph_model([node], sides, [helper.make_empty_tensor_value_info("y")], domains=[MS])
    got = onnx_backend.run_model(model, [a, b])[0]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, a.astype("int64") @ b.astype("int64"))


@pytest.mark.parametrize(("direction", "per_gate"), [("forward", True), ("bidirectional", False)])
def test_an_lstm_of_quantized_weights(direction, per_gate, rng):
    ways, features, hidden = (2 if direction == "bidirectional" else 1), 6, 5
    gates = 4 * hidden
    scales = (ways, gates) if per_gate else (ways,)
    arrays = {"x": rng.standard_normal((4, 1, features)).astype("float32")}
    weights = {
        "w": rng.integers(*SIGNED, (ways, features, gates)).astype("int8"),
        "r": rng.integers(*SIGNED, (ways, hidden, gates)).astype("int8"),
        "b": rng.standard_normal((ways, 2 * gates)).astype("float32"),
        "ws": rng.uniform(0.001, 0.01, scales).astype("float32"),
        "wz": np.zeros(scales, "int8"),
        "rs": rng.uniform(0.001, 0.01, scales).astype("float32"),
        "rz": np.zeros(scales, "int8"),
    }
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    outputs = ("y", "h", "c")
    both("DynamicQuantizeLSTM", arrays, outputs, weights, names=names, hidden_size=hidden, direction=direction,
         tolerance=2e-3)  # fmt: skip


@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressors(targets, rng):
    arrays = {"x": rng.standard_normal((5, 4)).astype("float32")}
    both("LinearRegressor", arrays, domain=ML, targets=targets, intercepts=rng.standard_normal(targets).tolist(),
         coefficients=rng.standard_normal(targets * 4).tolist())  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_classifiers(transform, rng):
    arrays = {"x": rng.standard_normal((7, 4)).astype("float32")}
    both("LinearClassifier", arrays, ("label", "scores"), domain=ML, classlabels_ints=[10, 20, 30], multi_class=1,
         coefficients=rng.standard_normal(12).tolist(), intercepts=rng.standard_normal(3).tolist(),
         post_transform=transform)  # fmt: skip


def test_a_map_of_scores_is_the_tensor_of_the_scores(rng):
    x = rng.standard_normal((3, 2)).astype("float32")
    node = helper.make_node("ZipMap", ["x"], ["y"], domain=ML, classlabels_strings=["cat", "dog"])
    model = graph_model([node], [helper.make_tensor_value_info("x", 1, [3, 2])],
                        [helper.make_empty_tensor_value_info("y")], domains=[ML])  # fmt: skip
    np.testing.assert_array_equal(onnx_backend.run_model(model, [x])[0], x)
    node.attribute[0].strings.append(b"bird")
    model.graph.node[0].CopyFrom(node)
    with pytest.raises(TVMError, match="3 labels for 2 columns"):
        onnx_backend.prepare(model)


def test_regions_are_pooled(rng):
    x = rng.standard_normal((2, 3, 12, 16)).astype("float32")
    rois = np.array([[0, 1, 1, 9, 8], [1, 0, 0, 15, 11], [0, 3, 4, 4, 5], [1, -3, -2, 30, 40]], "float32")
    both("MaxRoiPool", {"x": x, "r": rois}, domain="", pooled_shape=[3, 2])


def nbits_weights(rng, units, features, bits, block, zeros=False):
    groups = -(-features // block)
    weights = {"w": rng.integers(0, 256, (units, groups, block * bits // 8)).astype("uint8"),
               "s": rng.uniform(0.5, 1.5, units * groups).astype("float32")}  # fmt: skip
    if zeros:
        weights["z"] = rng.integers(0, 256, units * -(-groups * bits // 8)).astype("uint8")
    return weights


@pytest.mark.parametrize("features, bits, block, zeros", [
    (64, 4, 32, False), (64, 4, 32, True), (80, 4, 16, True), (64, 8, 32, False), (40, 4, 32, False),
])  # fmt: skip
def test_products_with_weights_of_few_bits(features, bits, block, zeros, rng):
    weights = nbits_weights(rng, 24, features, bits, block, zeros)
    x = rng.standard_normal((2, 3, features)).astype("float32")
    both("MatMulNBits", {"x": x}, weights=weights, tolerance=2e-3, K=features, N=24, bits=bits, block_size=block)


def test_products_with_weights_of_few_bits_that_cannot_be_are_refused(rng):
    def refused(words, bits=4, names=("x", "w", "s"), **more):
        weights = {**nbits_weights(rng, 8, 32, 4, 16), **more}
        node = helper.make_node("MatMulNBits", list(names), ["y"], domain=MS, K=32, N=8, bits=bits, block_size=16)
        x = np.zeros((1, 32), "float32")
        side = [helper.make_tensor_value_info("x", np_dtype_to_tensor_dtype(x.dtype), x.shape)]
        model = graph_model([node], side, [helper.make_empty_tensor_value_info("y")], weights, 17, [MS])
        with pytest.raises(TVMError, match=words):
            onnx_backend.run_model(model, [x])

    refused("weights of 2 bits are not supported", bits=2)
    refused("order of the features", names=("x", "w", "s", "", "g"), g=np.zeros(32, "int32"))
    refused("zero points of type float32", names=("x", "w", "s", "z"), z=np.zeros((8, 2), "float32"))
