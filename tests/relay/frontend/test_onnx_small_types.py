"""Element types carried in bytes: small floats and integers, against ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm.relay.frontend import from_onnx

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")

from onnx import TensorProto, helper

from tvm.contrib import onnx_backend

FLOATS = {
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT4E2M1": "float4_e2m1fn",
    "FLOAT6E2M3": "float6_e2m3fn",
    "FLOAT6E3M2": "float6_e3m2fn",
}


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


def cast(array, source: int, to: int, **attributes):
    node = helper.make_node("Cast", ["x"], ["y"], to=to, **attributes)
    made = model([node], [("x", source, array.shape)], [("y", to, array.shape)])
    return onnx_backend.run_model(made, [array])[0]


def element_type(name: str) -> int:
    """The number of an ONNX element type; the test is skipped where the installed onnx lacks the type."""
    if name not in TensorProto.DataType.keys():
        pytest.skip(f"onnx {onnx.__version__} has no {name}")
    return TensorProto.DataType.Value(name)


def every_code(dtype):
    bits = ml_dtypes.finfo(dtype).bits
    return np.arange(1 << bits, dtype="uint8").view(dtype)


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_of_a_small_float_decodes(name):
    codes = every_code(getattr(ml_dtypes, FLOATS[name]))
    got = cast(codes, element_type(name), TensorProto.FLOAT)
    np.testing.assert_array_equal(got, codes.astype("float32"))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("saturate", [0, 1])
def test_floats_round_to_small_floats_as_ml_dtypes_does(name, saturate, rng):
    """Every value, every half-way point, their neighbours, what overflows, and the specials."""
    small = getattr(ml_dtypes, FLOATS[name])
    with np.errstate(all="ignore"):
        exact = np.unique(np.abs(every_code(small).astype("float32")))
    exact = exact[np.isfinite(exact)]
    middles = (exact[1:] + exact[:-1]) / 2
    top = exact[-1] + (exact[-1] - exact[-2]) / 2
    points = np.concatenate([exact, middles, [top], rng.normal(0, exact[-1] / 2, 100)]).astype("float32")
    points = np.concatenate([points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf))])
    points = np.concatenate([points, -points, [0.0, -0.0, 1e30, -1e30, 1e-30]]).astype("float32")
    if "8" in FLOATS[name]:
        points = np.append(points, np.array([np.nan, np.inf, -np.inf], "float32"))
    got = cast(points, TensorProto.FLOAT, element_type(name), saturate=saturate)
    limit = float(ml_dtypes.finfo(small).max)
    with np.errstate(all="ignore"):
        want = (np.clip(points, -limit, limit) if saturate else points).astype(small)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))
    np.testing.assert_array_equal(np.signbit(got.astype("float32")), np.signbit(want.astype("float32")))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_exponents_are_those_of_the_reference(mode):
    values = np.array([1.0, 1.4, 1.5, 1.6, 3.0, 0.75, 2e-38, 3.4e38, np.inf, np.nan], "float32")
    got = cast(values, TensorProto.FLOAT, TensorProto.FLOAT8E8M0, round_mode=mode)
    want = onnx.numpy_helper.to_float8e8m0(values, True, mode)
    np.testing.assert_array_equal(got.view("uint8"), want.view("uint8"))


@pytest.mark.parametrize("name, bits", [("INT4", 4), ("UINT4", 4), ("INT2", 2), ("UINT2", 2)])
def test_integers_of_few_bits_wrap_and_come_back(name, bits):
    to = element_type(name)
    values = np.arange(-20, 20, dtype="int32")
    got = cast(values, TensorProto.INT32, to)
    low = values & (1 << bits) - 1
    want = low if name.startswith("U") else (low ^ 1 << bits - 1) - (1 << bits - 1)
    np.testing.assert_array_equal(got.astype("int32"), want)
    np.testing.assert_array_equal(cast(got, to, TensorProto.FLOAT), want.astype("float32"))


def test_four_bit_weights_are_moved_and_dequantized_by_blocks(rng):
    """As language models store them: packed weights, a scale for each block, transposed before the product."""
    w = rng.integers(-8, 8, (6, 32)).astype(ml_dtypes.int4)
    scale = rng.random((6, 2)).astype("float32") + 0.5
    x = rng.standard_normal((3, 32)).astype("float32")
    nodes = [
        helper.make_node("Reshape", ["w", "shape"], ["v"]),
        helper.make_node("DequantizeLinear", ["v", "s"], ["d"], axis=1, block_size=16),
        helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    weights = [
        onnx.numpy_helper.from_array(w.reshape(-1), "w"),
        onnx.numpy_helper.from_array(scale, "s"),
        onnx.numpy_helper.from_array(np.array([6, 32]), "shape"),
    ]
    made = model(nodes, [("x", 1, (3, 32))], [("y", 1, (3, 6))], weights)
    got = onnx_backend.run_model(made, [x])[0]
    want = x @ (w.astype("float32") * np.repeat(scale, 16, 1)).T
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_arithmetic_on_small_types_is_refused_in_words():
    made = model([helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.INT4, (2,))], [("y", 22, (2,))])
    with pytest.raises(tvm.error.TVMError, match="the operator does not support int4 tensors"):
        from_onnx(made)
