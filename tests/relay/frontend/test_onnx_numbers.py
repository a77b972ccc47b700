"""Numbers at the edges of what operators take, beside NumPy and onnxruntime."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.helper import np_dtype_to_tensor_dtype
from small_models import graph_model, onnxruntime_results

from tvm.contrib import onnx_backend

F = TensorProto.FLOAT


def single(operator, arrays: dict, outputs=("y",), weights=None, opset=20, domain="", **attributes):
    node = helper.make_node(operator, [*arrays, *(weights or {})], list(outputs), domain=domain, **attributes)
    sides = [helper.make_tensor_value_info(n, np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()]
    outs = [helper.make_empty_tensor_value_info(o) for o in outputs]
    return graph_model([node], sides, outs, weights, opset, [domain] if domain else [])


def run(model, arrays: dict, level: int = 3):
    return onnx_backend.run_model(model, list(arrays.values()), opt_level=level)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("level", [0, 3])
def test_fmod_is_exact_however_large_the_quotient(dtype, level, rng):
    a, b = (rng.standard_normal(1001) * 10.0 ** rng.integers(-4, 4 if dtype == "float16" else 12, 1001) for _ in "ab")
    a[:8], b[:8] = [1e9, 1e6, 5, np.inf, np.nan, -0.0, 3, -5], [7, 0.3, 0.001, 2, 2, 3, np.inf, 0]
    with np.errstate(all="ignore"):
        arrays = {"a": a.astype(dtype), "b": b.astype(dtype)}
        want = np.fmod(*arrays.values())
    np.testing.assert_array_equal(run(single("Mod", arrays, fmod=1), arrays, level)[0], want)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_integers_have_the_sign_that_the_attribute_says(dtype, fmod, rng):
    low = 0 if dtype[0] == "u" else -100
    a, b = rng.integers(low, 100, 257), rng.integers(low, 100, 257)
    arrays = {"a": a.astype(dtype), "b": np.where(b == 0, 7, b).astype(dtype)}
    want = (np.fmod if fmod else np.mod)(*arrays.values())
    np.testing.assert_array_equal(run(single("Mod", arrays, fmod=fmod), arrays)[0], want)


def test_integer_quotients_are_cut_towards_zero(rng):
    a, b = rng.integers(-100, 100, 257).astype("int32"), rng.integers(1, 9, 257).astype("int32")
    arrays = {"a": a, "b": np.where(rng.random(257) < 0.5, b, -b).astype("int32")}
    want = np.trunc(a / arrays["b"]).astype("int32")
    np.testing.assert_array_equal(run(single("Div", arrays), arrays)[0], want)


@pytest.mark.parametrize("axis", [0, -1])
def test_the_largest_none_are_none(axis, rng):
    arrays = {"x": rng.standard_normal((2, 3)).astype("float32")}
    values, places = run(single("TopK", arrays, ("v", "i"), {"k": np.array([0])}, axis=axis), arrays)
    shape = (0, 3) if axis == 0 else (2, 0)
    assert values.shape == places.shape == shape and places.dtype == np.int64


POOLS = [
    ("MaxPool", [2], {"kernel_shape": [3], "strides": [3]}),
    ("AveragePool", [2], {"kernel_shape": [3], "strides": [3]}),
    ("AveragePool", [2], {"kernel_shape": [3], "strides": [3], "count_include_pad": 1}),
    ("MaxPool", [2, 2], {"kernel_shape": [3, 3], "strides": [3, 3]}),
    ("AveragePool", [5, 7], {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1]}),
    ("AveragePool", [5, 7], {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "count_include_pad": 1}),
    ("AveragePool", [6, 7], {"kernel_shape": [3, 2], "dilations": [2, 1], "count_include_pad": 1}),
    ("MaxPool", [4, 5, 6], {"kernel_shape": [2, 3, 2], "strides": [3, 2, 3], "pads": [0, 1, 1, 1, 1, 0]}),
    ("AveragePool", [4, 5, 6], {"kernel_shape": [2, 3, 2], "strides": [3, 2, 3], "pads": [0, 1, 1, 1, 1, 0]}),
]


# Without ceil_mode there is no window in two elements.
CASES = [(*row, ceil) for row in POOLS for ceil in (0, 1) if ceil or row[1][0] > 2]


@pytest.mark.parametrize(("operator", "space", "attributes", "ceil"), CASES)
def test_windows_at_the_end_agree_with_onnxruntime(operator, space, attributes, ceil, rng):
    """With ceil_mode the last window may overhang, if it begins inside the data or the padding before it."""
    arrays = {"x": rng.standard_normal((1, 2, *space)).astype("float32")}
    model = single(operator, arrays, ceil_mode=ceil, **attributes)
    (want,) = onnxruntime_results(model, arrays)
    got = run(model, arrays)[0]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_layer_normalization_gives_its_mean_in_the_stash_type(dtype, rng):
    """stash_type is 1, float32, also for doubles, which are normalized as doubles all the same."""
    arrays = {"x": rng.standard_normal((3, 50)).astype(dtype)}
    weights = {"s": rng.standard_normal(50).astype(dtype), "b": rng.standard_normal(50).astype(dtype)}
    model = single("LayerNormalization", arrays, ("y", "m", "i"), weights, 17)
    got = run(model, arrays)
    assert [str(g.dtype) for g in got] == [dtype, "float32", "float32"]
    x = arrays["x"].astype("float64")
    mean, inverse = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    loose = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(got[0], (x - mean) * inverse * weights["s"] + weights["b"], rtol=loose, atol=loose)
    np.testing.assert_allclose(got[1], mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[2], inverse, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("operator", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("level", [0, 3])
def test_integers_divided_by_zero_give_zero_and_end_nothing(operator, dtype, level):
    """The least number by -1 wraps, as NumPy has it."""
    least = np.iinfo(dtype).min
    arrays = {"a": np.array([1, -2, 0, least, least], dtype), "b": np.array([0, 0, 0, -1, 0], dtype)}
    want = [0, 0, 0, least if operator == "Div" else 0, 0]
    np.testing.assert_array_equal(run(single(operator, arrays), arrays, level)[0], want)


@pytest.mark.parametrize("level", [0, 3])
def test_the_branch_that_is_not_taken_cannot_end_the_process(level):
    """Both branches of a run-time condition are computed, and computing is total: one result is chosen."""

    def graph(node):
        return helper.make_graph([node], "b", [], [helper.make_empty_tensor_value_info(node.output[0])])

    yes, no = (graph(helper.make_node(o, ["x", "z"], [o])) for o in ("Div", "Add"))
    node = helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no)
    sides = [helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    sides += [helper.make_tensor_value_info(n, TensorProto.INT32, [3]) for n in "xz"]
    model = graph_model([node], sides, [helper.make_tensor_value_info("y", TensorProto.INT32, [3])])
    x, z = np.array([4, -7, 9], "int32"), np.zeros(3, "int32")
    np.testing.assert_array_equal(run(model, {"c": np.array(False), "x": x, "z": z}, level)[0], x)
    z = np.array([3, 3, -3], "int32")
    np.testing.assert_array_equal(run(model, {"c": np.array(True), "x": x, "z": z}, level)[0], [1, -2, -3])


def test_indices_out_of_range_read_the_nearest_element_and_write_nothing():
    x = np.arange(1, 7, dtype="float32").reshape(2, 3)
    arrays = {"x": x, "i": np.array([0, 5, -9])}
    np.testing.assert_array_equal(run(single("Gather", arrays, axis=1), arrays)[0], x[:, [0, 2, 0]])
    arrays = {"x": x, "i": np.array([[0, 5, -9], [2, 3, 100]]), "u": -np.ones((2, 3), "float32")}
    np.testing.assert_array_equal(run(single("ScatterElements", arrays, axis=1), arrays)[0], [[-1, 2, 3], [4, 5, -1]])


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "uint64"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_by_any_amount_leave_what_fills(dtype, direction, rng):
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
    n = rng.integers(info.min if info.min < 0 else 0, min(info.max, 100), 200).astype(dtype)
    n[:6] = [0, 1, info.bits - 1, info.bits, info.bits + 1, info.max]
    safe = [int(v) if 0 <= v < info.bits else 200 for v in n.tolist()]
    exact = [(v << s if direction == "LEFT" else v >> s) for v, s in zip(x.tolist(), safe)]
    want = np.array([v & ((1 << info.bits) - 1) for v in exact], "uint64").astype(dtype)
    arrays = {"x": x, "n": n}
    np.testing.assert_array_equal(run(single("BitShift", arrays, direction=direction), arrays)[0], want)


def test_a_quantized_sum_is_rounded_from_its_exact_value(rng):
    """All pairs of bytes, with the scales of a network in which single precision rounds the sum of two to another step,
    and random ones; beside fractions."""
    make, at = helper.make_node, [(123, 90), (0, 0), (255, 255), (7, 200)]
    cases = [(0.026260478422045708, 129, 0.013974091969430447, 137, 0.02760491892695427, 129)]
    for _ in range(2):
        scales, zeros = rng.uniform(0.001, 0.1, 3).tolist(), rng.integers(0, 256, 3).tolist()
        cases.append(tuple(v for pair in zip(scales, zeros) for v in pair))
    for row in cases:
        weights = {f"s{i}": np.float32(row[2 * i]) for i in range(3)}
        weights |= {f"z{i}": np.array(row[2 * i + 1], "uint8") for i in range(3)}
        nodes = [make("DequantizeLinear", [n, f"s{i}", f"z{i}"], [f"r{i}"]) for i, n in enumerate("ab")]
        nodes += [make("Add", ["r0", "r1"], ["r"]), make("QuantizeLinear", ["r", "s2", "z2"], ["y"])]
        inputs = [helper.make_tensor_value_info(n, 2, [256, 256]) for n in "ab"]
        model = graph_model(nodes, inputs, [helper.make_tensor_value_info("y", 2, [256, 256])], weights)
        a, b = (v.astype("uint8") for v in np.indices((256, 256)))
        got = onnx_backend.run_model(model, [a, b])[0]
        scales = [Fraction(float(weights[f"s{i}"])) for i in range(3)]
        for i, j in [*at, *rng.integers(0, 256, (500, 2)).tolist()]:
            exact = ((i - row[1]) * scales[0] + (j - row[3]) * scales[1]) / scales[2]
            assert got[i, j] == min(max(round(exact) + row[5], 0), 255), (row, i, j)


SCALES = [0.6, 2.7, 0.1]
COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_the_nearest_element_at_a_decimal_scale_is_that_of_onnxruntime(nearest, known):
    """One model with an output for each kind of coordinates, and for each scale where scales are known."""
    weights = {f"s{i}": np.array([scale], "float32") for i, scale in enumerate(SCALES)} if known else {}
    nodes = [
        helper.make_node("Resize", ["x", "", scale], [f"{kind}_{scale}"], mode="nearest", nearest_mode=nearest,
                         coordinate_transformation_mode=kind)
        for kind in COORDINATES for scale in weights or ["s"]
    ]  # fmt: skip
    sides = [helper.make_tensor_value_info(name, F, [size]) for name, size in {"x": 23, "s": 1}.items()]
    outputs = [helper.make_empty_tensor_value_info(node.output[0]) for node in nodes]
    model = graph_model(nodes, sides[:1] if known else sides, outputs, weights, 20)
    compiled, x = onnx_backend.prepare(model), np.arange(23, dtype="float32")
    for scale in [None] if known else SCALES:
        arrays = {"x": x} if known else {"x": x, "s": np.array([scale], "float32")}
        for got, want, node in zip(compiled.run(list(arrays.values())), onnxruntime_results(model, arrays), nodes):
            np.testing.assert_array_equal(got, want, f"{node.output[0]} at scale {scale}")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_an_image_may_shrink_to_nothing(mode):
    arrays = {"x": np.ones((2, 1, 1, 1), "float32")}
    model = single("Resize", arrays, weights={"s": np.array([1, 1, 0.5, 1.5], "float32")}, mode=mode)
    model.graph.node[0].input[:] = ["x", "", "s"]
    assert run(model, arrays)[0].shape == (2, 1, 0, 1)


def test_axes_known_when_running_may_be_all_of_a_tensor():
    arrays = {"x": np.array([-0.5], "float32"), "axes": np.array([0])}
    assert run(single("ReduceL2", arrays, keepdims=0), arrays)[0] == np.float32(0.5)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [[1, 2, 4, 3], [1, 1, 1, 5], [3, 1, 2, 2], [1, 2, 2, 1, 3], [2, 1, 3, 4, 5]])
def test_grids_are_those_of_onnxruntime(size, align, rng):
    arrays = {"theta": rng.standard_normal((size[0], len(size) - 2, len(size) - 1)).astype("float32")}
    model = single("AffineGrid", arrays, weights={"size": np.array(size)}, align_corners=align)
    (want,) = onnxruntime_results(model, arrays)
    np.testing.assert_allclose(run(model, arrays)[0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.slow("compiles kernels with dynamic shapes")
def test_a_grid_may_have_a_size_known_when_running(rng):
    arrays = {"theta": rng.standard_normal((2, 2, 3)).astype("float32"), "size": np.array([2, 1, 3, 4])}
    model = single("AffineGrid", arrays)
    (want,) = onnxruntime_results(model, arrays)
    np.testing.assert_allclose(run(model, arrays)[0], want, rtol=1e-5, atol=1e-5)
