"""Quantized layers by products of tiles: the integers of other instructions, exactly."""

import os
import random

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tests.relay.transform.cpu.test_integer_matmuls import built, convolved
from tests.tile_emulator import emulated
from tvm import relay
from tvm.contrib import graph_executor
from tvm.topi.cpu.blocks import tile_byte_block
from tvm.topi.cpu.dot_products import lanes

RANGES = {"int8": (-128, 128), "uint8": (0, 256)}


def numbers(rng, shape, dtype):
    """Bytes with the extremes among them."""
    low, high = RANGES[dtype]
    x = rng.integers(low, high, shape).astype(dtype)
    x.flat[0], x.flat[-1] = low, high - 1
    return x


def run(body, target, **inputs):
    """The result of a graph, and whether tiles and other products of bytes are in its code."""
    with quick_code():
        library = built(body, target)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(**inputs)
    text = library.lib.get_source("ll")
    return module.get_output(0).numpy(), "tdpb" in text, "vpdpbusd" in text


def check_conv2d(case, target, seed=0):
    n, c, h, w, o, k, stride, padding, dilation, zero, dtype = case
    rng = np.random.default_rng(seed)
    x, weights = numbers(rng, (n, c, h, w), dtype), numbers(rng, (o, c, k, k), "int8")
    data = relay.cast(relay.var("x", shape=x.shape, dtype=dtype), "float32") - relay.const(float(zero))
    body = relay.nn.conv2d(data, relay.const(weights.astype("float32")), (stride,) * 2, (padding,) * 2, (dilation,) * 2,
                           channels=o, kernel_size=(k, k))  # fmt: skip
    got, has_tiles, has_others = run(body, target, x=x)
    assert has_tiles and not has_others
    np.testing.assert_array_equal(got, convolved(x, weights, stride, padding, zero, dilation), str(case))


CONVS = {
    "two tiles of filters by two of pixels": (1, 64, 5, 28, 64, 3, 1, 1, 1, 7, "uint8"),
    "narrow": (1, 128, 7, 7, 200, 3, 1, 1, 1, 128, "uint8"),
    "first layer": (1, 3, 32, 32, 64, 7, 2, 3, 1, 255, "uint8"),
    "three tiles of filters": (1, 24, 9, 9, 96, 1, 1, 0, 1, 0, "uint8"),
    "strided": (2, 96, 11, 13, 40, 3, 2, 1, 1, -3, "int8"),
    "dilated": (1, 40, 20, 18, 56, 3, 1, 2, 2, 127, "int8"),
    "one pixel": (1, 160, 1, 1, 100, 1, 1, 0, 1, 5, "uint8"),
    "few channels and filters": (1, 5, 9, 10, 3, 3, 1, 1, 1, -128, "int8"),
}


@pytest.mark.parametrize("case", CONVS.values(), ids=CONVS.keys())
def test_convolutions_of_bytes_are_exact_by_tiles(case):
    with emulated() as target:
        check_conv2d(case, target)


def test_random_convolutions_of_bytes_are_exact():
    rng = random.Random(f"{os.environ['TVM_TEST_SEED']} tiles of bytes")
    with emulated() as target:
        for _ in range(int(os.environ.get("TVM_FUZZ_CASES", 2))):
            k, dilation = rng.randint(1, 4), rng.choice([1, 1, 2])
            h, w = (rng.randint((k - 1) * dilation + 1, 34) for _ in range(2))
            dtype = rng.choice(list(RANGES))
            case = (rng.randint(1, 2), rng.randint(1, 140), h, w, rng.randint(1, 140), k, rng.randint(1, 2),
                    rng.randint(0, 2), dilation, RANGES[dtype][0] + rng.randint(0, 255), dtype)  # fmt: skip
            print(case)
            check_conv2d(case, target, rng.randrange(1 << 30))


def test_every_block_of_channels_is_whole_tiles_of_filters():
    from tvm.topi.cpu.conv2d_tiles import columns_of, parts_of

    for channels in range(1, 2049):
        block = tile_byte_block(channels)
        columns, parts = columns_of(block), parts_of(block)
        assert block % 4 == 0 and block <= 64 and columns <= 16 and block // parts % columns == 0
        assert block // parts // columns <= 3 and -(-channels // block) * block - channels < max(channels, 4)


@pytest.mark.parametrize("shape", [(1, 2048, 1000), (128, 768, 64), (197, 50, 33), (13, 3, 7), (5, 64, 20), (1, 1, 1)])
def test_dense_layers_of_bytes_are_exact_by_tiles(shape):
    m, k, n = shape
    rng = np.random.default_rng(m * n + k)
    x, weights = numbers(rng, (m, k), "int8"), numbers(rng, (n, k), "int8")
    data = relay.cast(relay.var("x", shape=x.shape, dtype="int8"), "float32") - relay.const(7.0)
    with emulated() as target:
        got, has_tiles, has_others = run(relay.nn.dense(data, relay.const(weights.astype("float32"))), target, x=x)
    assert has_tiles and not has_others
    np.testing.assert_array_equal(got, (x.astype("int64") - 7) @ weights.astype("int64").T)


@pytest.mark.parametrize("left, right", [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
def test_batches_of_products_of_bytes_are_exact_by_tiles(left, right):
    rng = np.random.default_rng(0)
    for transposed, (b, m, k, n) in ((True, (2, 37, 64, 45)), (False, (2, 9, 5, 24))):
        x, y = numbers(rng, (b, m, k), left), numbers(rng, (b, n, k) if transposed else (b, k, n), right)
        given = (relay.var(name, shape=v.shape, dtype=str(v.dtype)) for name, v in (("x", x), ("y", y)))
        with emulated() as target:
            body = relay.nn.batch_matmul(*given, out_dtype="int32", transpose_b=transposed)
            got, has_tiles, has_others = run(body, target, x=x, y=y)
        assert has_tiles and not has_others
        rhs = y.astype("int64").swapaxes(1, 2) if transposed else y.astype("int64")
        np.testing.assert_array_equal(got, x.astype("int64") @ rhs)


@pytest.mark.slow("compiles and runs a whole network twice")
def test_a_quantized_network_has_the_same_bytes_with_and_without_tiles():
    rng = np.random.default_rng(0)

    def real(e):
        return relay.cast(e, "float32") - relay.const(9.0)

    def to_bytes(e, scale=1.0):
        return relay.cast(relay.clip(relay.round(e * relay.const(scale)) + relay.const(9.0), 0, 255), "uint8")

    def layer(x, channels, filters, size, stride=1, groups=1):
        shape = (filters, channels // groups, size, size)
        weight = relay.const(rng.integers(-127, 128, shape).astype("float32"))
        e = relay.nn.conv2d(real(x), weight, (stride,) * 2, (size // 2,) * 2, groups=groups, channels=filters,
                            kernel_size=(size, size))  # fmt: skip
        e = e + relay.const(rng.integers(-999, 999, (filters, 1, 1)).astype("float32"))
        return to_bytes(relay.nn.relu(e), 0.02 / (shape[1] * size * size) ** 0.5)

    x = relay.var("x", shape=(1, 3, 20, 20), dtype="uint8")
    y = relay.nn.max_pool2d(layer(x, 3, 64, 7, 2), (3, 3), (2, 2), padding=(1, 1))
    z = layer(layer(layer(y, 64, 96, 1), 96, 96, 3, groups=96), 96, 64, 1)
    y = layer(to_bytes(real(z) + real(y)), 64, 128, 3, 2)
    y = to_bytes(relay.nn.global_avg_pool2d(real(y)))
    weight = relay.const(rng.integers(-127, 128, (50, 128)).astype("float32"))
    y = relay.nn.dense(real(relay.reshape(y, (1, 128))), weight)
    data = numbers(rng, (1, 3, 20, 20), "uint8")
    want, _, _ = run(y, "llvm", x=data)
    with emulated() as target:
        got, has_tiles, has_others = run(y, target, x=data)
    # The depthwise layer is computed by dot products where there are any.
    assert has_tiles and has_others == (lanes(tvm.target.Target(target)) > 0) and np.ptp(got) > 999
    np.testing.assert_array_equal(got, want)
