"""Products of bfloat16: the same sums by tiles and in float32, exact where they are whole numbers."""

import json
import os
import random

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tests.tile_emulator import emulated
from tvm import relay
from tvm.contrib import graph_executor

BFLOAT16 = tvm.nd.empty((1,), "bfloat16").numpy().dtype


def whole(rng, shape):
    """Small whole numbers as bfloat16: products and their sums are exact."""
    return rng.integers(-8, 9, shape).astype("float32")


def run(make, inputs, target):
    """The result of a graph whose arguments are bfloat16, and the names of its kernels."""
    variables = {name: relay.var(name, shape=x.shape, dtype="float32") for name, x in inputs.items()}
    body = make(**{name: relay.cast(v, "bfloat16") for name, v in variables.items()})
    with tvm.transform.PassContext(opt_level=3), quick_code():
        built = relay.build(tvm.IRModule.from_expr(relay.Function(list(variables.values()), body)), target)
    module = graph_executor.GraphModule(built["default"](tvm.cpu()))
    module.run(**inputs)
    names = [node["name"] for node in json.loads(built.get_graph_json())["nodes"] if node["op"] != "null"]
    return module.get_output(0).numpy(), names


def convolved(x, w, strides, padding, dilation, groups):
    """A convolution in whole numbers."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (n, _, h, width), (o, i, kh, kw) = x.shape, w.shape
    oh, ow = ((s - (k - 1) * d - 1) // t + 1 for s, k, d, t in zip((h, width), (kh, kw), dilation, strides))
    out = np.zeros((n, groups, o // groups, oh, ow), "int64")
    parts = x.astype("int64").reshape(n, groups, i, h, width)
    kernels = w.astype("int64").reshape(groups, o // groups, i, kh, kw)
    for a in range(kh):
        for b in range(kw):
            rows, columns = (slice(f * d, f * d + (e - 1) * s + 1, s)
                             for f, d, e, s in zip((a, b), dilation, (oh, ow), strides))  # fmt: skip
            out += np.einsum("ngihw,goi->ngohw", parts[..., rows, columns], kernels[..., a, b])
    return out.reshape(n, o, oh, ow)


def check_conv2d(case, target, seed=0):
    n, c, h, w, o, kh, kw, strides, padding, dilation, groups = case
    rng = np.random.default_rng(seed)
    x, kernel = whole(rng, (n, c, h, w)), whole(rng, (o, c // groups, kh, kw))
    constant = relay.const(kernel.astype(BFLOAT16), "bfloat16")
    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups, "out_dtype": "float32"}
    got, names = run(lambda x: relay.nn.conv2d(x, constant, **attrs), {"x": x}, target)
    np.testing.assert_array_equal(got, convolved(x, kernel, strides, padding, dilation, groups))
    return names


P0, P1, P3 = (0,) * 4, (1,) * 4, (3,) * 4
ONE, TWO = (1, 1), (2, 2)
CONVS = {
    "1x1": (1, 64, 14, 14, 64, 1, 1, ONE, P0, ONE, 1),
    "3x3": (1, 32, 28, 28, 64, 3, 3, ONE, P1, ONE, 1),
    "strided": (2, 64, 15, 17, 32, 3, 3, TWO, P1, ONE, 1),
    "strided 1x1": (1, 32, 14, 14, 96, 1, 1, TWO, P0, ONE, 1),
    "prime width": (1, 48, 5, 37, 40, 3, 3, ONE, (0, 2, 1, 0), ONE, 1),
    "narrow": (1, 64, 7, 7, 64, 3, 3, ONE, P1, ONE, 1),
    "narrow 1x1": (2, 96, 7, 7, 32, 1, 1, ONE, P0, ONE, 1),
    "narrow with seams at the ends of tiles": (2, 18, 25, 6, 19, 1, 2, ONE, (0, 1, 0, 1), ONE, 1),
    "one row": (1, 32, 1, 9, 32, 1, 3, ONE, (0, 1, 0, 1), ONE, 1),
    "one pixel": (1, 32, 1, 1, 32, 1, 1, ONE, P0, ONE, 1),
    "first layer": (1, 3, 32, 32, 32, 7, 7, TWO, P3, ONE, 1),
    "first layer of one channel": (1, 1, 20, 23, 24, 5, 5, ONE, P0, ONE, 1),
    "dilated": (1, 32, 19, 19, 32, 3, 3, ONE, (2,) * 4, TWO, 1),
    "dilated first layer": (1, 3, 20, 20, 16, 3, 3, ONE, P0, TWO, 1),
    "odd channels": (1, 37, 11, 13, 51, 3, 3, ONE, P1, ONE, 1),
    "few filters": (1, 64, 12, 12, 3, 3, 3, ONE, P1, ONE, 1),
    "groups of 4": (1, 64, 10, 10, 64, 3, 3, ONE, P1, ONE, 16),
    "groups of 32": (1, 64, 9, 9, 128, 3, 3, TWO, P1, ONE, 2),
    "odd groups": (1, 15, 9, 9, 10, 3, 3, ONE, P1, ONE, 5),
    "depthwise": (1, 40, 12, 12, 40, 3, 3, ONE, P1, ONE, 40),
    "depthwise with a multiplier": (1, 12, 12, 12, 24, 3, 3, ONE, P1, ONE, 12),
}


@pytest.mark.parametrize("case", CONVS.values(), ids=CONVS.keys())
def test_convolutions_are_exact_by_tiles(case):
    with emulated() as target:
        check_conv2d(case, target)


@pytest.mark.parametrize("name", ["3x3", "strided", "groups of 4", "depthwise", "first layer"])
def test_convolutions_are_exact_without_tiles(name):
    assert "cast" in " ".join(check_conv2d(CONVS[name], "llvm"))


def test_random_convolutions_are_exact():
    rng = random.Random(f"{os.environ['TVM_TEST_SEED']} tiles")
    with emulated() as target:
        for _ in range(int(os.environ.get("TVM_FUZZ_CASES", 6))):
            groups = rng.choice([1, 1, 1, 2])
            strides, dilation = (rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])), (rng.choice([1, 1, 2]),) * 2
            kh, kw = rng.randint(1, 4), rng.randint(1, 5)
            padding = tuple(rng.randint(0, 2) for _ in range(4))
            h, w = (rng.randint((k - 1) * dilation[0] + 1, 40) for k in (kh, kw))
            c, o = groups * rng.randint(1, 40), groups * rng.randint(1, 70)
            case = (rng.randint(1, 2), c, h, w, o, kh, kw, strides, padding, dilation, groups)
            print(case)
            check_conv2d(case, target, rng.randrange(1 << 30))


@pytest.mark.parametrize("shape", [(1, 2048, 1000), (128, 768, 64), (197, 50, 33), (13, 3, 7), (5, 64, 20), (1, 1, 1)])
@pytest.mark.parametrize("has_tiles", [True, False], ids=["tiles", "float32"])
def test_dense_layers_are_exact(shape, has_tiles):
    m, k, n = shape
    rng = np.random.default_rng(m * n + k)
    x, w = whole(rng, (m, k)), whole(rng, (n, k))
    weight = relay.const(w.astype(BFLOAT16), "bfloat16")
    with emulated() as target:
        make = lambda x: relay.nn.dense(x, weight, out_dtype="float32")
        got, _ = run(make, {"x": x}, target if has_tiles else "llvm")
    np.testing.assert_array_equal(got, x.astype("int64") @ w.astype("int64").T)


@pytest.mark.parametrize("shape", [(3, 128, 64, 128), (2, 197, 64, 197), (1, 9, 5, 40), (2, 6, 32, 24), (2, 6, 32, 12)])
@pytest.mark.parametrize("transposed", [True, False])
def test_batches_of_matmuls_are_exact_by_tiles(shape, transposed):
    b, m, k, n = shape
    rng = np.random.default_rng(m * n + k)
    x, y = whole(rng, (b, m, k)), whole(rng, (b, n, k) if transposed else (b, k, n))
    with emulated() as target:
        make = lambda x, y: relay.nn.batch_matmul(x, y, out_dtype="float32", transpose_b=transposed)
        got, _ = run(make, {"x": x, "y": y}, target)
    rhs = y.transpose(0, 2, 1) if transposed else y
    np.testing.assert_array_equal(got, x.astype("int64") @ rhs.astype("int64"))


@pytest.mark.slow("compiles a whole network twice")
def test_a_network_in_mixed_precision_is_the_same_with_and_without_tiles():
    rng = np.random.default_rng(0)

    def layer(x, channels, filters, size, stride=1, groups=1):
        scale = (channels // groups * size * size) ** -0.5
        w = relay.const((rng.standard_normal((filters, channels // groups, size, size)) * scale).astype("float32"))
        bias = relay.const((0.1 * rng.standard_normal(filters)).astype("float32"))
        y = relay.nn.conv2d(x, w, strides=(stride,) * 2, padding=(size // 2,) * 4, groups=groups)
        return relay.nn.bias_add(y, bias)

    x = relay.var("x", shape=(1, 3, 32, 32))
    y = relay.nn.max_pool2d(relay.nn.relu(layer(x, 3, 32, 7, 2)), (3, 3), (2, 2), padding=(1,) * 4)
    z = relay.nn.relu(layer(y, 32, 24, 1))
    z = relay.nn.relu(layer(z, 24, 24, 3, groups=24))
    y = relay.nn.relu(relay.add(y, layer(z, 24, 32, 1)))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(layer(y, 32, 64, 3, 2)))
    y = relay.nn.dense(y, relay.const(rng.standard_normal((50, 64)).astype("float32")))
    wide = tvm.IRModule.from_expr(y)
    with tvm.transform.PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        narrow = relay.transform.ToMixedPrecision("bfloat16")(relay.transform.InferType()(wide))
    data = {"x": rng.standard_normal((1, 3, 32, 32)).astype("float32")}

    def outputs(mod, target):
        with tvm.transform.PassContext(opt_level=3), quick_code():
            built = relay.build(mod, target)
        module = graph_executor.GraphModule(built["default"](tvm.cpu()))
        module.run(**data)
        return module.get_output(0).numpy(), built

    want, _ = outputs(wide, "llvm")
    plain, _ = outputs(narrow, "llvm")
    with emulated() as target:
        tiled, built = outputs(narrow, target)
    scale = abs(want).max()
    assert 0 < abs(tiled - want).max() < 0.02 * scale and abs(tiled - plain).max() < 0.005 * scale
    names = [node["name"] for node in json.loads(built.get_graph_json())["nodes"]]
    # A bias, an addition and an activation are done before the sum is rounded.
    assert any(n.endswith("nn_contrib_conv2d_NCHWc_add_add_nn_relu_cast") for n in names), names
