"""Quantized operators against the arithmetic they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import check_all, refused, run, tensor

import tvm
from tvm import relay
from tvm.topi.nn.qnn import SQNN_DTYPE_TO_CODE

q = relay.qnn.op
rng = np.random.default_rng(41)


def i8(*shape):
    return rng.integers(-128, 128, shape).astype("int8")


def u8(*shape):
    return rng.integers(0, 256, shape).astype("uint8")


def to_integers(x, scale, zero, dtype="int8"):
    kind = np.iinfo(dtype)
    return np.clip(np.round(np.asarray(x, "float64") / scale) + zero, kind.min, kind.max).astype(dtype)


def test_quantize_and_dequantize():
    x = np.array([[-1e10, -1.26, -0.25], [0.24, 0.25, 1e10]], "float32")
    scales, zeros = np.array([0.5, 0.1, 2.0], "float32"), np.array([3, 0, -2], "int32")
    data = i8(2, 3)
    cases = [
        ("quantize", lambda a: q.quantize(a, 0.5, 1), [x], to_integers(x, 0.5, 1)),
        (
            "quantize uint8",
            lambda a: q.quantize(a, 0.5, 128, out_dtype="uint8"),
            [x],
            to_integers(x, 0.5, 128, "uint8"),
        ),
        (
            "quantize along an axis",
            lambda a: q.quantize(a, relay.const(scales), relay.const(zeros), 1),
            [x],
            to_integers(x, scales, zeros),
        ),
        (
            "quantize along axis 0",
            lambda a: q.quantize(a, relay.const(scales[:2]), relay.const(zeros[:2]), 0),
            [x],
            to_integers(x, scales[:2, None], zeros[:2, None]),
        ),
        ("dequantize", lambda a: q.dequantize(a, 0.25, -3), [data], (data.astype("float32") + 3) * np.float32(0.25)),
        (
            "dequantize along an axis",
            lambda a: q.dequantize(a, relay.const(scales), relay.const(zeros)),
            [data],
            ((data.astype("float32") - zeros) * scales).astype("float32"),
        ),
        (
            "dequantize int32",
            lambda a: q.dequantize(a, 0.5, 0),
            [np.array([2**24, -5], "int32")],
            np.array([2**23, -2.5], "float32"),
        ),
        (
            "simulated",
            lambda a: q.simulated_dequantize(q.simulated_quantize(a, 0.5, 1), 0.5, 1),
            [x],
            (to_integers(x, 0.5, 1).astype("float32") - 1) * np.float32(0.5),
        ),
        ("scales known when running", lambda a, s: q.quantize(a, s, 0), [x, np.float32(0.5)], to_integers(x, 0.5, 0)),
    ]
    check_all(cases)


def test_simulated_types_and_channels_may_be_known_when_running():
    data = rng.uniform(-90, 90, (3, 5)).astype("float32")
    x, kind = relay.var("x", shape=data.shape), relay.var("kind", shape=[])
    scale, zero = (relay.var(n, shape=[relay.Any()], dtype=t) for n, t in (("scale", "float32"), ("zero", "int32")))
    made = q.simulated_dequantize(q.simulated_quantize(x, scale, zero, 0, kind), scale, zero, 0, kind)
    compute = relay.create_executor("vm", tvm.IRModule.from_expr(made), tvm.cpu(), "llvm").evaluate()
    for dtype, code in SQNN_DTYPE_TO_CODE.items():
        for scales, zeros in (([0.5], [7]), ([0.5, 0.25, 2], [7, -3, 0])):
            s, z = np.float32(scales).reshape(-1, 1), np.array(zeros).reshape(-1, 1)
            info = np.iinfo(dtype if dtype != "disable" else "int8")
            whole = np.clip(np.rint(data / s) + z, float(info.min), float(info.max))
            want = data if dtype == "disable" else (whole - z) * s
            arguments = {"x": data, "kind": np.float32(code), "scale": np.float32(scales), "zero": np.int32(zeros)}
            np.testing.assert_allclose(compute(**arguments).numpy(), want, rtol=1e-6)
    with pytest.raises(tvm.TVMError, match="the scale, which must be a scalar or a vector"):
        compute(x=data, kind=np.float32(1), scale=np.float32([1, 2]), zero=np.int32([0, 0]))


def test_simulated_operators_refuse_what_has_no_code():
    x = relay.var("x", shape=(2, 3))
    with pytest.raises(ValueError, match="the integer type must be one of disable, int8.*, got 'int4'"):
        q.simulated_quantize(x, 0.5, 0, out_dtype="int4")
    with pytest.raises(tvm.error.DiagnosticError, match="the type code must be a scalar, got shape"):
        relay.transform.InferTypeLocal(q.simulated_quantize(x, 0.5, 0, out_dtype=relay.var("t", shape=(2,))))
    with pytest.raises(tvm.error.DiagnosticError, match="the data must be float, got int8"):
        relay.transform.InferTypeLocal(q.simulated_dequantize(relay.var("x", shape=(2,), dtype="int8"), 0.5, 0))


@pytest.mark.parametrize("compute", ["int64", "float32"])
@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_requantize_rounds_as_told(rounding, compute):
    data = np.array([-5, -3, -1, 0, 1, 3, 5, 1000, -1000], "int32")
    half = data / 2
    want = np.floor(half + 0.5) if rounding == "UPWARD" else np.sign(half) * np.floor(np.abs(half) + 0.5)
    want = np.clip(want + 1, -128, 127).astype("int8")
    got = run(lambda a: q.requantize(a, 0.5, 0, 1.0, 1, rounding=rounding, compute_dtype=compute), data)
    np.testing.assert_array_equal(got, want)
    with q.requantize_config(rounding=rounding, compute_dtype=compute):
        np.testing.assert_array_equal(run(lambda a: q.requantize(a, 0.5, 0, 1.0, 1), data), want)


def test_requantize_along_an_axis():
    data = rng.integers(-100000, 100000, (2, 4, 3)).astype("int32")
    scales = np.array([0.003, 0.0001, 1.5, 0.02], "float32")
    real = data * (scales / np.float32(0.1))[:, None].astype("float64")
    want = np.clip(np.floor(real + 0.5) - 4, -128, 127)
    got = run(lambda a: q.requantize(a, relay.const(scales), 0, 0.1, -4, axis=1), data)
    assert np.abs(got - want).max() <= 1 and (got != want).mean() < 0.01
    small = i8(3, 4)
    same = run(lambda a: q.requantize(a, 0.25, 2, 0.25, 2), small)
    np.testing.assert_array_equal(same, small)


def convolved(x, w):
    """Plain 3 x 3 convolution with padding 1."""
    x = np.pad(x.astype("int64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", view, w.astype("int64")).astype("int32")


def test_products_of_integers():
    x, w = u8(1, 3, 5, 6), i8(4, 3, 3, 3)
    zeros = np.array([1, 0, -2, 5], "int32")
    a, b = i8(3, 7), i8(5, 7)
    m, n = u8(2, 3, 4), u8(2, 5, 4)
    t, v = i8(1, 2, 3, 3), i8(2, 3, 2, 2)
    spread = np.zeros((1, 3, 4, 4), "int64")
    for y in range(3):
        for c in range(3):
            part = np.einsum("ni,iokl->nokl", t[:, :, y, c].astype("int64") - 2, v.astype("int64"))
            spread[:, :, y : y + 2, c : c + 2] += part
    cases = [
        ("conv2d", lambda d, k: q.conv2d(d, k, 0, 0, 1.0, 1.0, (3, 3), 4, padding=(1, 1)), [x, w], convolved(x, w)),
        (
            "conv2d zero points",
            lambda d, k: q.conv2d(d, k, 128, 3, 1.0, 1.0, (3, 3), 4, padding=(1, 1)),
            [x, w],
            convolved(x.astype("int64") - 128, w.astype("int64") - 3),
        ),
        (
            "conv2d zero points of channels",
            lambda d, k: q.conv2d(
                d, k, 7, relay.const(zeros), 1.0, relay.const(np.ones(4, "float32")), (3, 3), 4, padding=(1, 1)
            ),
            [x, w],
            convolved(x.astype("int64") - 7, w.astype("int64") - zeros[:, None, None, None]),
        ),
        (
            "dense",
            lambda d, k: q.dense(d, k, 3, 0, 1.0, 1.0, 5),
            [a, b],
            ((a.astype("int64") - 3) @ b.astype("int64").T).astype("int32"),
        ),
        (
            "batch_matmul",
            lambda d, k: q.batch_matmul(d, k, 12, 200, 1.0, 1.0),
            [m, n],
            ((m.astype("int64") - 12) @ (n.astype("int64") - 200).transpose(0, 2, 1)).astype("int32"),
        ),
        (
            "conv2d_transpose",
            lambda d, k: q.conv2d_transpose(d, k, 2, 0, 1.0, 1.0, channels=3, kernel_size=(2, 2)),
            [t, v],
            spread.astype("int32"),
        ),
    ]
    check_all(cases)


def test_sums_and_products_are_within_one_quantum():
    a, b = u8(2, 40), u8(1, 40)
    x, y = (a.astype("float64") - 5) * 0.1, (b.astype("float64") - 200) * 0.03
    for build, want in ((q.add, x + y), (q.subtract, x - y), (q.mul, x * y)):
        got = run(lambda p, r: build(p, r, 0.1, 5, 0.03, 200, 0.2, 60), a, b)
        expected = to_integers(want, 0.2, 60, "uint8")
        assert np.abs(got.astype("int32") - expected).max() <= 1, build.__name__


def test_functions_of_quantized_tensors():
    x = i8(1, 24)
    real = (x.astype("float64") - 4) * 0.05
    soft = np.exp(real - real.max()) / np.exp(real - real.max()).sum()
    cases = {
        "tanh": (q.tanh, np.tanh(real)),
        "sigmoid": (q.sigmoid, 1 / (1 + np.exp(-real))),
        "exp": (q.exp, np.exp(real)),
        "abs": (q.abs, np.abs(real)),
        "hardswish": (q.hardswish, real * np.clip(real + 3, 0, 6) / 6),
        "sqrt": (q.sqrt, np.sqrt(np.maximum(real, 0))),
        "leaky_relu": (lambda v, *rest: q.leaky_relu(v, 0.3, *rest), np.where(real > 0, real, 0.3 * real)),
        "softmax": (q.softmax, soft),
    }
    for name, (build, want) in cases.items():
        data = np.maximum(x, 4) if name == "sqrt" else x
        got = run(lambda v: build(v, 0.05, 4, 0.02, -10), data)
        assert np.abs(got.astype("int32") - to_integers(want, 0.02, -10)).max() <= 1, name


def test_joined_and_pooled():
    a, b = i8(2, 3), i8(2, 2)
    want = np.concatenate([to_integers((a.astype("float64") - 1) * 0.5, 0.25, 2), b], 1)
    got = run(lambda x, y: q.concatenate([x, y], [0.5, 0.25], [1, 2], 0.25, 2, 1), a, b)
    np.testing.assert_array_equal(got, want)
    x = i8(1, 4, 4, 2)
    pooled = run(lambda v: q.avg_pool2d(v, 0.5, 1, 0.5, 1, (2, 2), (2, 2), (0, 0), (1, 1)), x)
    want = x.astype("float64").reshape(1, 2, 2, 2, 2, 2).mean((2, 4))
    assert np.abs(pooled - want).max() <= 0.51


def test_passes_leave_no_quantized_operator():
    x = relay.var("x", shape=(2, 3), dtype="int8")
    mod = tvm.IRModule.from_expr(relay.Function([x], q.requantize(q.tanh(x, 0.1, 0, 0.01, 0), 0.01, 0, 0.02, 0)))
    mod = relay.qnn.transform.CanonicalizeOps()(relay.InferType()(mod))
    assert "qnn." not in str(mod)


REFUSALS = {
    "quantize": (lambda x: q.quantize(x, 0.5, 0), [tensor(3, dtype="int8")], "the data must be float"),
    "quantize type": (lambda x: q.quantize(x, 0.5, 0, out_dtype="float32"), [tensor(3)], "out_dtype must be one of"),
    "scale": (lambda x, s: q.quantize(x, s, 0), [tensor(3), tensor(2)], "must be a scalar or a vector of 3 elements"),
    "scale type": (lambda x, s: q.quantize(x, s, 0), [tensor(3), tensor(dtype="float16")], "must be float32"),
    "zero type": (
        lambda x, z: q.dequantize(x, 0.1, z),
        [tensor(3, dtype="int8"), tensor(dtype="int8")],
        "must be int32",
    ),
    "dequantize": (lambda x: q.dequantize(x, 0.1, 0), [tensor(3)], "the data must be one of int8"),
    "rounding": (
        lambda x: q.requantize(x, 0.1, 0, 0.1, 0, rounding="DOWN"),
        [tensor(3, dtype="int32")],
        "UPWARD or TONEAREST",
    ),
    "types of a sum": (
        lambda x, y: q.add(x, y, 0.1, 0, 0.1, 0, 0.1, 0),
        [tensor(3, dtype="int8"), tensor(3, dtype="uint8")],
        "one element type",
    ),
    "parts": (
        lambda x: q.concatenate([x, x], [0.1], [0], 0.1, 0, 0),
        [tensor(3, dtype="int8")],
        "2 tensors do not match 1 scales",
    ),
    "weight": (
        lambda x, w: q.dense(x, w, 0, 0, 0.1, 0.1, 4),
        [tensor(3, 4, dtype="int8"), tensor(4, 5, dtype="int8")],
        "features",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name):
    build, types, words = REFUSALS[name]
    assert words in refused(build, *types)


def test_config_refuses_unknown_words():
    with pytest.raises(ValueError, match="UPWARD or TONEAREST"):
        q.requantize_config(rounding="DOWN")
    with pytest.raises(ValueError, match="int64, float32 or float64"):
        q.requantize_config(compute_dtype="int8")


def test_sums_round_each_operand_as_tvm_does():
    """Values that Apache TVM's own tests expect."""
    x, y = np.array([[76, 140, 153, 172]], "uint8"), np.array([[136, 119, 128, 17]], "uint8")
    scales = (0.0156863, 127, 0.0117647, 85, 0.0235294, 128)
    assert run(lambda a, b: q.add(a, b, *scales), x, y).tolist() == [[120, 154, 167, 124]]
    # -34 - 25.5, of which the second is rounded up to 26 before it is subtracted.
    assert run(lambda a, b: q.subtract(a, b, *scales), x, y).tolist()[0][0] == 128 - 34 - 26


def test_sums_are_requantized_along_an_axis():
    x, y = i8(3, 5), i8(3, 5)
    scales = np.array([[0.25], [0.125], [1.0]], "float32")
    left, right = relay.const(scales.ravel()), relay.const(np.zeros(3, "int32"))
    got = run(lambda a, b: q.add(a, b, left, right, 0.25, 2, 0.5, 3, 0, 0), x, y)
    terms = (np.floor(v / 0.5 + 0.5) for v in (x * scales, (y.astype("float32") - 2) * 0.25))
    np.testing.assert_array_equal(got, np.clip(sum(terms) + 3, -128, 127))


def test_configured_for_floats_the_result_alone_is_rounded():
    x, y = np.array([76], "uint8"), np.array([136], "uint8")
    with q.requantize_config(compute_dtype="float32"):
        assert run(lambda a, b: q.add(a, b, 0.0156863, 127, 0.0117647, 85, 0.0235294, 128), x, y).tolist() == [119]
