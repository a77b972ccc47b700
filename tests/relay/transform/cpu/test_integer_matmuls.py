"""Quantized convolutions and matmuls: exact on every CPU, and products of bytes where there is an instruction."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tvm import relay, topi
from tvm.contrib import graph_executor
from tvm.relay import qnn
from tvm.relay.infer import infer_type
from tvm.relay.op.nn.byte_operand import byte_operand
from tvm.relay.op.nn.packed import contrib_depthwise_conv2d_nchwc_int8
from tvm.relay.transform.cpu.integer_matmuls import MAX_TERMS, rules

WITH = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+dotprod"
WITHOUT = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"
NO_VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -mattr=-avx512vnni"
AVX_VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=alderlake"
# This machine with its instructions for products of bytes and without them.
HERE = ("llvm", "llvm -mattr=-avx512vnni,-avxvnni") if tvm.target.Target("llvm").features.has_vnni else ("llvm",)
RANGES = {"int8": (-128, 128), "uint8": (0, 256)}


def built(body, target: str):
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, target=target)


def assembly(body, target: str) -> str:
    return built(body, target).lib.get_source("asm")


def computed(body, target: str = "llvm", **inputs) -> np.ndarray:
    with quick_code():
        model = graph_executor.GraphModule(built(body, target)["default"](tvm.cpu()))
    model.run(**inputs)
    return model.get_output(0).numpy()


def convolved(x: np.ndarray, w: np.ndarray, stride: int, padding: int, zero: int, dilation: int = 1) -> np.ndarray:
    """The convolution of int64 numbers, one tap at a time."""
    x = np.pad(x.astype("int64") - zero, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    k = w.shape[2]
    height, width = ((n - (k - 1) * dilation - 1) // stride + 1 for n in x.shape[2:])
    total = np.zeros((x.shape[0], w.shape[0], height, width), "int64")
    for i in range(k):
        for j in range(k):
            rows, columns = i * dilation, j * dilation
            part = x[:, :, rows : rows + height * stride : stride, columns : columns + width * stride : stride]
            total += np.einsum("nchw,oc->nohw", part[:, :, :height, :width], w[:, :, i, j].astype("int64"))
    return total


def random_conv(rng: np.random.Generator) -> dict:
    k, stride = int(rng.choice([1, 3, 5])), int(rng.integers(1, 3))
    return {
        "channels": int(rng.integers(1, 40)), "filters": int(rng.integers(1, 40)), "k": k, "stride": stride,
        "padding": int(rng.integers(0, k)), "size": (int(rng.integers(k, 14)), int(rng.integers(k, 14))),
        "batch": int(rng.integers(1, 3)), "zero": int(rng.integers(0, 256)),
    }  # fmt: skip


def conv_of(form: str, dtype: str, case: dict, weights: np.ndarray):
    """A quantized convolution as importers write it: in float32, in operators of ``qnn``, or of plain bytes."""
    x = relay.var("x", shape=(case["batch"], case["channels"], *case["size"]), dtype=dtype)
    window = {"strides": (case["stride"],) * 2, "padding": (case["padding"],) * 2, "channels": case["filters"],
              "kernel_size": (case["k"],) * 2}  # fmt: skip
    if form == "float":
        data = relay.cast(x, "float32") - relay.const(float(case["zero"]))
        return relay.nn.conv2d(data, relay.const(weights.astype("float32")), **window)
    if form == "qnn":
        scales = relay.const(0.5), relay.const(0.25)
        zeros = relay.const(case["zero"], "int32"), relay.const(0, "int32")
        return qnn.op.conv2d(x, relay.const(weights), *zeros, *scales, **window)
    return relay.nn.conv2d(x, relay.const(weights.astype(dtype)), out_dtype="int32", **window)


@pytest.mark.parametrize("form", ["float", "qnn", "plain"])
@pytest.mark.parametrize("dtype", RANGES)
def test_quantized_convolutions_are_exact(form, dtype, seed):
    rng = np.random.default_rng(seed)
    for _ in range(1):
        case = random_conv(rng)
        low, high = RANGES[dtype]
        case["zero"] = 0 if form == "plain" else case["zero"] + low
        x = rng.integers(low, high, (case["batch"], case["channels"], *case["size"])).astype(dtype)
        x.flat[0], x.flat[-1] = low, high - 1
        unsigned = form == "plain" and dtype == "uint8"
        limits = (0, 256) if unsigned else (-128, 128)
        weights = rng.integers(*limits, (case["filters"], case["channels"], case["k"], case["k"]))
        weights.flat[0] = limits[0]
        weights = weights.astype("uint8" if unsigned else "int8")
        want = convolved(x, weights, case["stride"], case["padding"], case["zero"])
        np.testing.assert_array_equal(computed(conv_of(form, dtype, case, weights), x=x), want, str(case))


@pytest.mark.parametrize("size", [(4, 12), (1, 2)])
@pytest.mark.parametrize("form", ["float", "qnn", "plain"])
def test_a_convolution_of_one_filter_is_exact(form, size, rng):
    case = {"channels": 25, "filters": 1, "k": 3, "stride": 2, "padding": 1, "size": size, "batch": 1,
            "zero": 0 if form == "plain" else -56}  # fmt: skip
    x = rng.integers(-128, 128, (1, 25, *size)).astype("int8")
    weights = rng.integers(-128, 128, (1, 25, 3, 3)).astype("int8")
    want = convolved(x, weights, 2, 1, case["zero"])
    np.testing.assert_array_equal(computed(conv_of(form, "int8", case, weights), x=x), want)


@pytest.mark.parametrize("target", HERE)
def test_padded_data_of_which_strides_leave_out_a_part_is_exact(target, rng):
    """Each padded element is read at most once, and it is written to memory nonetheless: instructions read it there."""
    weights = rng.integers(-128, 128, (4, 4, 1, 1), "int8")
    x = rng.integers(0, 256, (1, 4, 9, 12), "uint8")
    data = relay.cast(relay.var("x", shape=x.shape, dtype="uint8"), "int32")
    body = relay.nn.conv2d(data, relay.const(weights.astype("int32")), strides=(3, 3), padding=(1, 1), channels=4,
                           kernel_size=(1, 1), out_dtype="int32")  # fmt: skip
    np.testing.assert_array_equal(computed(body, target, x=x), convolved(x, weights, 3, 1, 0))


@pytest.mark.parametrize("dtype, zero", [("uint8", 128), ("uint8", 0), ("uint8", 255), ("int8", 0), ("int8", -128)])
@pytest.mark.parametrize("form", ["float", "qnn"])
def test_every_zero_point_is_exact(form, dtype, zero, rng):
    """That of uint8 in the middle is zero as int8: bytes that were made signed are not made so again."""
    case = {"channels": 5, "filters": 7, "k": 3, "stride": 1, "padding": 1, "size": (4, 3), "batch": 1, "zero": zero}
    x = rng.integers(*RANGES[dtype], (1, 5, 4, 3)).astype(dtype)
    weights = rng.integers(-128, 128, (7, 5, 3, 3)).astype("int8")
    want = convolved(x, weights, 1, 1, zero)
    np.testing.assert_array_equal(computed(conv_of(form, dtype, case, weights), x=x), want)


@pytest.mark.parametrize(
    "wide, wanted",
    [
        ("int16", True),
        ("int32", True),
        ("float32", True),
        ("int8", False),
        ("uint8", False),
        ("uint16", False),
        ("bfloat16", False),
    ],
)
def test_bytes_are_seen_behind_casts_to_types_that_hold_their_differences(wide, wanted):
    x = relay.cast(relay.var("x", shape=(2, 3), dtype="uint8"), wide)
    for e in (x, relay.subtract(x, relay.const(3, wide))):
        found = byte_operand(infer_type(e))
        assert (found is not None) == wanted


@pytest.mark.parametrize("target", [WITH, WITHOUT])
def test_dot_products_are_used_where_the_target_has_them(target):
    case = {"channels": 24, "filters": 20, "k": 3, "stride": 2, "padding": 1, "size": (13, 11), "batch": 1, "zero": 7}
    weights = np.arange(24 * 20 * 9).reshape(20, 24, 3, 3) % 251 - 125
    for form in ("float", "qnn"):
        text = assembly(conv_of(form, "uint8", case, weights.astype("int8")), target)
        assert ("sdot" in text) == (target == WITH)
    case["zero"] = 0
    assert ("udot" in assembly(conv_of("plain", "uint8", case, weights % 256), target)) == (target == WITH)


def test_weights_beyond_bytes_and_fractions_stay_as_they_are():
    x = relay.cast(relay.var("x", shape=(2, 4), dtype="int8"), "float32")
    for array in (np.linspace(-128, 128, 12).round().reshape(3, 4), np.full((3, 4), 0.5)):
        assert "sdot" not in assembly(relay.nn.dense(x, relay.const(array.astype("float32"))), WITH)


def test_sums_that_could_leave_int32_stay_in_float():
    conv = rules(tvm.target.Target(WITH))["nn.dense"][0]
    for terms, taken in ((MAX_TERMS, True), (MAX_TERMS + 1, False)):
        x = relay.cast(relay.var("x", shape=(1, terms), dtype="uint8"), "float32")
        node = relay.nn.dense(x, relay.const(np.full((1, terms), 3.0, "float32")))
        mod = relay.transform.InferType()(tvm.IRModule.from_expr(node))
        assert (conv(mod["main"].body, {}) is not None) == taken


def test_zero_points_outside_the_type_are_no_zero_points():
    x = relay.cast(relay.var("x", shape=(1, 8, 5, 5), dtype="uint8"), "float32") - relay.const(300.0)
    weights = np.ones((8, 8, 3, 3), "float32") * 2
    body = relay.nn.conv2d(x, relay.const(weights), padding=(1, 1), channels=8, kernel_size=(3, 3))
    data = np.zeros((1, 8, 5, 5), "uint8")
    want = convolved(data, weights.astype("int8"), 1, 1, 300)
    np.testing.assert_array_equal(computed(body, x=data), want)


def test_depthwise_layers_between_products_of_bytes_are_exact(seed):
    rng = np.random.default_rng(seed)
    x = relay.var("x", shape=(1, 24, 9, 13), dtype="uint8")
    first, last = (rng.integers(-8, 8, shape).astype("float32") for shape in ((40, 24, 1, 1), (24, 40, 1, 1)))
    middle = rng.integers(-8, 8, (40, 1, 3, 3)).astype("float32")

    def to_bytes(e):
        return relay.cast(relay.clip(relay.round(e * relay.const(0.01)) + relay.const(9.0), 0, 255), "uint8")

    def real(e):
        return relay.cast(e, "float32") - relay.const(9.0)

    body = relay.nn.conv2d(real(x), relay.const(first), channels=40, kernel_size=(1, 1))
    body = relay.nn.conv2d(real(to_bytes(body)), relay.const(middle), padding=(1, 1), groups=40, channels=40,
                           kernel_size=(3, 3))  # fmt: skip
    body = relay.nn.conv2d(real(to_bytes(body)), relay.const(last), channels=24, kernel_size=(1, 1))
    data = rng.integers(0, 256, (1, 24, 9, 13)).astype("uint8")

    def narrow(total):
        return np.clip(np.rint(total.astype("float32") * np.float32(0.01)) + 9, 0, 255).astype("uint8")

    inner = narrow(convolved(data, first, 1, 0, 9))
    padded = np.pad(inner.astype("int64") - 9, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [padded[:, :, i : i + 9, j : j + 13] * middle[:, 0, i, j].astype("int64")[:, None, None]
            for i in range(3) for j in range(3)]  # fmt: skip
    want = convolved(narrow(sum(taps)), last, 1, 0, 9)
    np.testing.assert_array_equal(computed(body, x=data), want)


def depthwise(dtype: str, shape: tuple[int, ...], weights: np.ndarray, zero: int, layout: str = "NCHW", **options):
    channels = weights.shape[0]
    x = relay.cast(relay.var("x", shape=shape, dtype=dtype), "float32") - relay.const(float(zero))
    kernel = weights.transpose(2, 3, 0, 1) if layout == "NHWC" else weights
    return relay.nn.conv2d(x, relay.const(kernel.astype("float32")), groups=channels, channels=channels,
                           kernel_size=weights.shape[2:], data_layout=layout,
                           kernel_layout="HWOI" if layout == "NHWC" else "OIHW", **options)  # fmt: skip


def each_by_itself(x: np.ndarray, w: np.ndarray, strides, padding, zero: int, rate: int = 1) -> np.ndarray:
    """The depthwise convolution of int64 numbers, one tap at a time."""
    top, left, bottom, right = padding
    x = np.pad(x.astype("int64") - zero, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (kh, kw), (y, z) = w.shape[2:], strides
    height, width = (x.shape[2] - (kh - 1) * rate - 1) // y + 1, (x.shape[3] - kw) // z + 1
    taps = [(i, j) for i in range(kh) for j in range(kw)]
    return sum(x[:, :, i * rate : i * rate + (height - 1) * y + 1 : y, j : j + (width - 1) * z + 1 : z]
               * w[:, 0, i, j].astype("int64")[:, None, None] for i, j in taps)  # fmt: skip


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depthwise_convolutions_of_bytes_are_exact(layout, target, rng):
    """Windows of up to two fours of taps, steps that divide a four and others, edges of every width, both types."""
    for dtype, zero, window, strides, padding, rate in (
        ("uint8", 255, (3, 3), (1, 1), (1, 1, 1, 1), 1), ("int8", -128, (5, 5), (2, 2), (2, 1, 1, 2), 1),
        ("uint8", 9, (1, 7), (1, 3), (0, 3, 0, 2), 1), ("int8", 3, (3, 2), (2, 1), (0, 0, 0, 0), 2),
    ):  # fmt: skip
        channels, size = int(rng.integers(2, 40)), tuple(int(n) for n in rng.integers(7, 14, 2))
        x = rng.integers(*RANGES[dtype], (2, channels, *size)).astype(dtype)
        weights = rng.integers(-128, 128, (channels, 1, *window)).astype("int8")
        x.flat[:2], weights.flat[:2] = RANGES[dtype][1] - 1, -128
        data = x.transpose(0, 2, 3, 1) if layout == "NHWC" else x
        options = {"strides": strides, "padding": padding, "dilation": (rate, 1)}
        got = computed(depthwise(dtype, data.shape, weights, zero, layout, **options), target, x=data)
        got = got.transpose(0, 3, 1, 2) if layout == "NHWC" else got
        want = each_by_itself(x, weights, strides, padding, zero, rate)
        np.testing.assert_array_equal(got, want, f"{channels} {size}")


@pytest.mark.parametrize("target, wanted", [(VNNI, "vpdpbusd"), (AVX_VNNI, "vpdpbusd"), (WITH, "sdot"), (NO_VNNI, "")])
def test_depthwise_convolutions_use_dot_products_where_the_target_has_them(target, wanted):
    body = depthwise("int8", (1, 32, 9, 9), np.ones((32, 1, 3, 3), "int8"), 5, padding=(1, 1))
    text = assembly(body, target)
    assert wanted in text if wanted else "vpdpbusd" not in text


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("channels, filters, groups, in_bytes", [
    (64, 64, 16, True), (32, 96, 2, True), (24, 24, 3, True), (8, 16, 8, True), (6, 9, 3, False),
])  # fmt: skip
def test_grouped_convolutions_of_bytes_are_exact(channels, filters, groups, in_bytes, target, rng):
    """Groups smaller than a block are merged with zeros between them; those that make no blocks stay in float."""
    x = rng.integers(0, 256, (1, channels, 7, 9)).astype("uint8")
    weights = rng.integers(-128, 128, (filters, channels // groups, 3, 3)).astype("int8")
    data = relay.cast(relay.var("x", shape=x.shape, dtype="uint8"), "float32") - relay.const(200.0)
    body = relay.nn.conv2d(data, relay.const(weights.astype("float32")), padding=(1, 1), strides=(2, 2), groups=groups,
                           channels=filters, kernel_size=(3, 3))  # fmt: skip
    parts = [convolved(a, b, 2, 1, 200) for a, b in zip(np.split(x, groups, 1), np.split(weights, groups))]
    np.testing.assert_array_equal(computed(body, target, x=x), np.concatenate(parts, 1))
    assert ("vpdpbusd" in assembly(body, VNNI)) == in_bytes


@pytest.mark.parametrize("weights, rate", [(np.full((8, 1, 3, 3), 200.0), 1), (np.ones((8, 1, 3, 3)), 2)])
def test_depthwise_convolutions_of_other_weights_and_taps_apart_stay_in_float(weights, rate, rng):
    weights.flat[0] = 0
    body = depthwise("uint8", (1, 8, 9, 9), weights, 5, dilation=(rate, rate))
    assert "vpdpbusd" not in assembly(body, VNNI)
    x = rng.integers(0, 256, (1, 8, 9, 9)).astype("uint8")
    spread = np.zeros((8, 1, 2 * rate + 1, 2 * rate + 1))
    spread[:, :, ::rate, ::rate] = weights
    np.testing.assert_array_equal(computed(body, x=x), each_by_itself(x, spread, (1, 1), (0,) * 4, 5))


@pytest.mark.parametrize("form", ["float", "qnn", "plain"])
def test_quantized_dense_layers_are_exact(form, seed):
    rng = np.random.default_rng(seed)
    for _ in range(2):
        m, n, k, zero = (int(rng.integers(1, limit)) for limit in (20, 70, 90, 128))
        zero = 0 if form == "plain" else zero
        data, weights = (rng.integers(-128, 128, shape).astype("int8") for shape in ((m, k), (n, k)))
        data.flat[0] = weights.flat[0] = -128
        x = relay.var("x", shape=(m, k), dtype="int8")
        if form == "float":
            real = relay.cast(x, "float32") - relay.const(float(zero))
            body = relay.nn.dense(real, relay.const(weights.astype("float32")))
        elif form == "qnn":
            zeros = relay.const(zero, "int32"), relay.const(0, "int32")
            body = qnn.op.dense(x, relay.const(weights), *zeros, relay.const(0.5), relay.const(0.5), n)
        else:
            body = relay.nn.dense(x, relay.const(weights), out_dtype="int32")
        want = (data.astype("int64") - zero) @ weights.astype("int64").T
        more = body + relay.const(1, body_type(body))
        np.testing.assert_array_equal(computed(more, x=data), want + 1, f"{m} {n} {k}")
    assert "sdot" in assembly(body, WITH) and "sdot" not in assembly(body, WITHOUT)


def body_type(body) -> str:
    return relay.transform.InferType()(tvm.IRModule.from_expr(body))["main"].ret_type.dtype


@pytest.mark.parametrize("dtype", RANGES)
def test_batches_of_products_of_bytes_are_exact(dtype, seed):
    rng = np.random.default_rng(seed)
    for transposed in (True, False):
        m, n, k = (int(rng.integers(1, limit)) for limit in (14, 40, 50))
        batches = [(3, 3), (1, 3), (3, 1)][int(rng.integers(3))]
        low, high = RANGES[dtype]
        a = rng.integers(low, high, (batches[0], m, k)).astype(dtype)
        b = rng.integers(low, high, (batches[1], *((n, k) if transposed else (k, n)))).astype(dtype)
        x, y = (relay.var(name, shape=v.shape, dtype=dtype) for name, v in (("x", a), ("y", b)))
        body = relay.nn.batch_matmul(x, y, out_dtype="int32", transpose_b=transposed)
        rhs = b.astype("int64").swapaxes(1, 2) if transposed else b.astype("int64")
        np.testing.assert_array_equal(computed(body, x=a, y=b), a.astype("int64") @ rhs, f"{m} {n} {k} {batches}")
    name = {"int8": "sdot", "uint8": "udot"}[dtype]
    assert name in assembly(body, WITH) and name not in assembly(body, WITHOUT)


@pytest.mark.parametrize("target, wanted", [(VNNI, "zmm"), (AVX_VNNI, "ymm"), (NO_VNNI, "")])
@pytest.mark.parametrize("form", ["float", "qnn", "plain"])
def test_dot_products_of_x86_take_unsigned_data_and_signed_weights(form, target, wanted):
    case = {"channels": 24, "filters": 32, "k": 3, "stride": 1, "padding": 1, "size": (7, 9), "batch": 1, "zero": 0}
    weights = (np.arange(24 * 32 * 9).reshape(32, 24, 3, 3) % 251 - 125).astype("int8")
    for dtype in ("int8",) if form == "plain" else RANGES:
        text = assembly(conv_of(form, dtype, case, weights), target)
        lines = [line for line in text.splitlines() if "vpdpbusd" in line]
        assert all(wanted in line for line in lines) and bool(lines) == bool(wanted)
        assert "vpdpbusds" not in text, "sums that saturate are no sums"


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("channels, filters", [(3, 16), (4, 1), (24, 24), (20, 40), (16, 64)])
def test_blocks_of_every_size_are_exact_with_the_instruction_and_without(channels, filters, target, rng):
    case = {"channels": channels, "filters": filters, "k": 3, "stride": 2, "padding": 1, "size": (9, 11), "batch": 2,
            "zero": 255}  # fmt: skip
    x = rng.integers(0, 256, (2, channels, 9, 11)).astype("uint8")
    weights = rng.integers(-128, 128, (filters, channels, 3, 3)).astype("int8")
    got = computed(conv_of("float", "uint8", case, weights), target, x=x)
    np.testing.assert_array_equal(got, convolved(x, weights, 2, 1, 255))


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("dtype", RANGES)
def test_weights_of_uint8_with_any_zero_point_are_exact(dtype, target, rng):
    """What is taken off all weights to make them int8 comes back by one filter more, which sums the data."""
    low, high = RANGES[dtype]
    for zero in (0, 3, 255):
        whole = rng.integers(0, 256, (6, 5, 3, 3)) - zero
        whole.flat[0], whole.flat[1] = -zero, 255 - zero
        case = {"channels": 5, "filters": 6, "k": 3, "stride": 1, "padding": 1, "size": (4, 5), "batch": 1,
                "zero": low + 7}  # fmt: skip
        x = rng.integers(low, high, (1, 5, 4, 5)).astype(dtype)
        got = computed(conv_of("float", dtype, case, whole), target, x=x)
        np.testing.assert_array_equal(got, convolved(x, whole, 1, 1, low + 7))
        data, matrix = x.reshape(5, 20), whole.reshape(27, 10)
        v = relay.var("x", shape=(10, 10), dtype=dtype)
        body = relay.nn.dense(relay.cast(v, "float32") - relay.const(7.0), relay.const(matrix.astype("float32")))
        got = computed(body, target, x=data.reshape(10, 10))
        np.testing.assert_array_equal(got, (data.reshape(10, 10).astype("int64") - 7) @ matrix.T)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("left, right", [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
def test_products_of_two_quantized_tensors_are_exact(left, right, target, rng):
    """Both have zero points, which sums of rows and columns take off; they may be moved before they are multiplied."""
    for transposed in (True, False):
        a, b = (rng.integers(*RANGES[t], shape).astype(t)
                for t, shape in ((left, (6, 2, 9)), (right, (2, 21, 9) if transposed else (2, 9, 21))))  # fmt: skip
        zeros = RANGES[left][0] + 100, RANGES[right][1] - 1
        x, y = (relay.cast(relay.var(n, shape=v.shape, dtype=str(v.dtype)), "float32") - relay.const(float(zero))
                for n, v, zero in (("x", a, zeros[0]), ("y", b, zeros[1])))  # fmt: skip
        body = relay.nn.batch_matmul(relay.transpose(x, (1, 0, 2)), y, transpose_b=transposed)
        lhs, rhs = a.astype("int64").transpose(1, 0, 2) - zeros[0], b.astype("int64") - zeros[1]
        got = computed(body, target, x=a, y=b)
        np.testing.assert_array_equal(got, lhs @ (rhs.swapaxes(1, 2) if transposed else rhs))
    assert "vpdpbusd" in assembly(body, VNNI)


def test_one_side_of_a_sum_of_dequantized_tensors_is_stored_as_bytes(rng):
    x = relay.var("x", shape=(1, 16, 5, 5), dtype="uint8")

    def branch(seed: int):
        weights = np.random.default_rng(seed).integers(-8, 8, (16, 16, 1, 1)).astype("float32")
        e = relay.nn.conv2d(relay.cast(x, "float32"), relay.const(weights), channels=16, kernel_size=(1, 1))
        e = relay.cast(relay.clip(relay.round(e * relay.const(0.02)), 0, 255), "uint8")
        return relay.cast(e, "float64") * relay.const(0.7, "float64")

    body = relay.cast(relay.clip(relay.cast(relay.round(branch(1) + branch(2)), "float32"), 0, 255), "uint8")
    types = set(json.loads(built(body, VNNI).get_graph_json())["attrs"]["dltype"][1])
    assert "uint8" in types and "float64" not in types
    data = rng.integers(0, 256, (1, 16, 5, 5)).astype("uint8")
    results = [computed(body, target, x=data) for target in HERE]
    assert all(np.array_equal(results[0], other) for other in results)


def test_kernels_of_bytes_that_are_packed_in_another_way_are_refused():
    def tensor(*shape: int):
        return tvm.te.placeholder(shape, "int8")

    data = tensor(1, 2, 9, 9, 16)
    for kernel, window in ((tensor(2, 3, 1, 16, 4), (3, 5)), (tensor(2, 3, 1, 8, 4), (3, 3))):
        with pytest.raises(tvm.TVMError, match="depthwise_conv2d_NCHWc_int8: data .* needs a kernel"):
            topi.nn.depthwise_conv2d_NCHWc_int8(data, kernel, window, 1, 1, 1)
    with pytest.raises(tvm.TVMError, match="different channel blocks"):
        topi.nn.conv2d_NCHWc_int8(data, tensor(3, 1, 1, 1, 4, 16, 4), 1, 0, 1)
    x, w = (relay.var(n, shape=s, dtype="int8") for n, s in (("x", (1, 2, 9, 9, 16)), ("w", (2, 3, 1, 16, 4))))
    with pytest.raises(tvm.TVMError, match="does not match kernel_size"):
        infer_type(contrib_depthwise_conv2d_nchwc_int8(x, w, groups=32, kernel_size=(3, 5)))


PLAIN = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"


@pytest.mark.parametrize("target, lines", [(PLAIN, 1), (NO_VNNI, 1), (VNNI, 0), (AVX_VNNI, 0)])
def test_a_target_without_products_of_bytes_says_so_in_one_line(target, lines, caplog):
    """However many quantized layers there are; a graph of floats says nothing."""
    x = relay.var("x", shape=(1, 16, 5, 5), dtype="uint8")
    body = x
    for _ in range(2):
        body = relay.cast(body, "float32") - relay.const(3.0)
        body = relay.nn.conv2d(body, relay.const(np.ones((16, 16, 1, 1), "float32")), channels=16, kernel_size=(1, 1))
        body = relay.cast(relay.clip(relay.round(body * relay.const(0.01)), 0, 255), "uint8")
    with caplog.at_level("WARNING", logger="tvm"):
        built(body, target)
        found = [record.getMessage() for record in caplog.records]
        assert len(found) == lines and all("has no int8 dot-product instructions" in line for line in found)
        caplog.clear()
        y = relay.var("y", shape=(1, 16, 5, 5))
        built(relay.nn.conv2d(y, relay.const(np.ones((16, 16, 1, 1), "float32"))), target)
        assert not caplog.records
