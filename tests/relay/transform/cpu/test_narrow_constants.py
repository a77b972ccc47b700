"""Quantized layers of target c: kernels of 8-bit data, and constants of requantization in narrow types."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay import qnn
from tvm.relay.infer import infer_type
from tvm.relay.transform.backend_passes import passes_of
from tvm.relay.transform.cpu.narrow_constants import NarrowConstants, narrowed
from tvm.target import Target

NONE, ONE = relay.const(0), relay.const(np.float32(1))


def layer(x, zero: int, weight: np.ndarray, groups: int, rng: np.random.Generator, layout: str):
    """A 3x3 convolution with padding, whose output is requantized to the type of the data."""
    filters = weight.shape[0]
    sums = qnn.op.conv2d(
        x, relay.const(weight), relay.const(zero), NONE, ONE, ONE, weight.shape[2:], filters, (1, 1), (1, 1, 1, 1),
        groups=groups, data_layout=layout, kernel_layout="OIHW",
    )  # fmt: skip
    axis = layout.index("C")
    scale = relay.const(rng.uniform(0.002, 0.02, filters).astype("float32"))
    dtype = infer_type(x).checked_type.dtype
    return qnn.op.requantize(sums, scale, NONE, ONE, relay.const(7), axis=axis, out_dtype=dtype)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_convolutions_read_8_bit_data(dtype, layout):
    rng = np.random.default_rng(np.random.randint(1 << 31))
    shape = (1, 5, 6, 7) if layout == "NHWC" else (1, 7, 5, 6)
    x = relay.var("x", shape=shape, dtype=dtype)
    first = layer(x, 3, rng.integers(-128, 128, (6, 7, 3, 3)).astype("int8"), 1, rng, layout)
    out = layer(first, 7, rng.integers(-128, 128, (6, 1, 3, 3)).astype("int8"), 6, rng, layout)
    limits = np.iinfo(dtype)
    data = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    found = []
    for target in ("c", "llvm"):
        with tvm.transform.PassContext(opt_level=3):
            built = relay.build(tvm.IRModule.from_expr(relay.Function([x], out)), target)
        model = graph_executor.GraphModule(built["default"](tvm.cpu()))
        model.run(x=data)
        found.append(model.get_output(0).numpy())
        if target == "c":
            text = built.get_lib().get_source()
            # Both layers read 8-bit data with C functions, and no value is stored in a wider type.
            assert f"tvm_dots_3x4_{dtype}" in text and f"tvm_taps_3_{dtype}" in text and "int16_t* restrict" not in text
    np.testing.assert_array_equal(*found)
    with tvm.transform.PassContext(opt_level=3):
        module, _ = relay.optimize(tvm.IRModule.from_expr(relay.Function([x], out)), "c")
    for name in ("nn.contrib_conv2d_NHWC_int8", "nn.contrib_depthwise_conv2d_NHWC_int8"):
        assert name in str(module)


@pytest.mark.parametrize(
    "dtype, values, narrow",
    [
        ("int64", [0, 2**31 - 1], "int32"),
        ("int64", [-1, 127], "int8"),
        ("int32", [-129, 3], "int16"),
        ("int64", [0, 2**31], None),
        ("int32", [5], None),
        ("float32", [1, 2], None),
        ("int8", [1, 2], None),
    ],
)
def test_the_narrowest_type_holds_all_values(dtype, values, narrow):
    found = narrowed(relay.const(np.array(values, dtype), dtype))
    if narrow is None:
        assert found is None
    else:
        assert found.op.name == "cast" and found.attrs.dtype == dtype and found.args[0].data.dtype == narrow
        assert found.args[0].data.numpy().tolist() == values


def test_the_pass_narrows_constants_on_targets_with_8_bit_kernels():
    x = relay.var("x", shape=(2,), dtype="int64")
    module = tvm.IRModule.from_expr(relay.Function([x], x * relay.const(np.array([3, 4]), "int64")))
    with tvm.transform.PassContext(opt_level=3):
        changed = NarrowConstants()(relay.transform.InferType()(module))
    assert "cast" in str(changed["main"].body)
    has_pass = {t: bool(passes_of(Target(t)).before_fusion) for t in ("c", "llvm")}
    assert has_pass == {"c": True, "llvm": False}
