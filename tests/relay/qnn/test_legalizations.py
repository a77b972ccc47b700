"""The rules by which quantized operators take the form a target prefers, and lookup tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.ir.visit import post_order
from tvm.relay.qnn.op import canonicalizations, legalizations
from tvm.relay.testing import TempOpAttr

q = relay.qnn.op
rng = np.random.default_rng(7)

FUNCTIONS = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "hardswish": legalizations.hardswish_func,
    "erf": np.vectorize(math.erf), "abs": np.abs, "log": np.log,
}  # fmt: skip
X86, X86_OLD = "llvm -mcpu=skylake-avx512", "llvm -mcpu=x86-64"
ARM_OLD = "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu"
ARM = ARM_OLD + " -mattr=+v8.2a,+dotprod"


def typed(body):
    return relay.transform.InferType()(tvm.IRModule.from_expr(body))


def operators(mod) -> set[str]:
    return {n.op.name for n in post_order(mod["main"]) if isinstance(n, relay.Call)}


def evaluated(mod, *arrays):
    return relay.create_executor("debug", mod).evaluate()(*arrays).numpy()


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number_become_lookup_tables(name, dtype):
    data = np.arange(256, dtype="uint8").view(dtype)
    if name in ("sqrt", "rsqrt", "log"):
        data = data[data > 0]
    x = relay.var("x", shape=data.shape, dtype=dtype)
    mod = typed(getattr(relay.qnn, name)(x, relay.const(0.125), relay.const(0), relay.const(0.125), relay.const(3)))
    tables = relay.qnn.transform.Legalize()(mod)
    assert operators(tables) == {"reinterpret", "take"}
    kind = np.iinfo(dtype)
    wanted = np.clip(np.around(FUNCTIONS[name](0.125 * data.astype("float64")) / 0.125 + 3), kind.min, kind.max)
    np.testing.assert_array_equal(evaluated(tables, data), wanted.astype(dtype))
    np.testing.assert_array_equal(evaluated(relay.qnn.transform.CanonicalizeOps()(mod), data), wanted.astype(dtype))


def test_scales_that_are_not_constants_leave_the_function():
    x, scale = relay.var("x", shape=(4,), dtype="int8"), relay.var("s", shape=())
    mod = typed(relay.qnn.exp(x, scale, relay.const(0), relay.const(0.5), relay.const(0)))
    assert operators(relay.qnn.transform.Legalize()(mod)) == {"qnn.exp"}


@pytest.mark.parametrize("types", [("int8", "uint8"), ("uint8", "int8"), ("int8", "int16"), ("int16", "int8")])
def test_a_table_is_indexed_by_the_bits_of_the_input(types):
    kinds = [np.iinfo(t) for t in types]
    data = np.array([kinds[0].min, -1 if kinds[0].min else 1, 0, 7, kinds[0].max], types[0]).reshape(1, 5)
    made = canonicalizations.create_integer_lookup_op(
        relay.const(data), lambda x: x / 2, relay.const(0.5), relay.const(1), relay.const(1.0), relay.const(2),
        in_dtype=types[0], out_dtype=types[1])  # fmt: skip
    wanted = np.clip(np.around((data.astype("float64") - 1) / 4) + 2, kinds[1].min, kinds[1].max)
    np.testing.assert_array_equal(canonicalizations.run_const_expr(made), wanted.astype(types[1]))


@pytest.mark.parametrize("change, message", [
    ({"in_dtype": "float32"}, "integer data types are required, got float32"),
    ({"in_dtype": "int32"}, "needs a table of 2\\^32 entries"),
    ({"in_scale": relay.const([1.0, 2.0])}, "in_scale must be a constant with one element, got"),
    ({"out_zero_point": relay.var("z", shape=())}, "out_zero_point must be a constant with one element, got"),
])  # fmt: skip
def test_tables_that_cannot_be_made_are_rejected(change, message):
    parameters = {"in_scale": relay.const(1.0), "in_zero_point": relay.const(0), "out_scale": relay.const(1.0),
                  "out_zero_point": relay.const(0)}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        canonicalizations.create_integer_lookup_op(relay.var("x", shape=(2,)), np.exp, **{**parameters, **change})


def convolution(data_type, kernel_type, zeros=2, layout=("NCHW", "OIHW")):
    shapes = {"NCHW": (1, 8, 6, 6), "NHWC": (1, 6, 6, 8), "OIHW": (4, 8, 3, 3), "HWIO": (3, 3, 8, 4)}
    x = relay.var("x", shape=shapes[layout[0]], dtype=data_type)
    w = relay.var("w", shape=shapes[layout[1]], dtype=kernel_type)
    return q.conv2d(x, w, relay.const(1), relay.const(zeros), relay.const(1.0), relay.const(1.0), (3, 3), 4,
                    data_layout=layout[0], kernel_layout=layout[1])  # fmt: skip


def dense(data_type, kernel_type, zeros=2):
    x, w = relay.var("x", shape=(3, 8), dtype=data_type), relay.var("w", shape=(4, 8), dtype=kernel_type)
    return q.dense(x, w, relay.const(1), relay.const(zeros), relay.const(1.0), relay.const(1.0), 4)


# By target: the types of data and weights that a multiplication keeps or gets; None for the plain operator of int16.
PREFERRED = {
    X86: lambda data, kernel: ("uint8", "int8"),
    X86_OLD: lambda data, kernel: None,
    ARM: lambda data, kernel: (kernel, kernel),
    ARM_OLD: lambda data, kernel: None,
    "cuda -arch=sm_80": lambda data, kernel: ("int8", "int8"),
    "vulkan": lambda data, kernel: (kernel, kernel),
    "opencl": lambda data, kernel: (data, kernel),
}


@pytest.mark.parametrize("zeros", [2, [1, 2, 3, 4]])
@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize("target", PREFERRED)
@pytest.mark.parametrize("build", [convolution, dense])
def test_products_are_in_the_types_of_the_target(build, target, types, zeros):
    mod = typed(build(*types, zeros))
    with tvm.target.Target(target):
        new = relay.qnn.transform.Legalize()(mod)
    calls = {n.op.name: n for n in post_order(new["main"]) if isinstance(n, relay.Call)}
    quantized, plain = ("qnn.conv2d", "nn.conv2d") if build is convolution else ("qnn.dense", "nn.dense")
    wanted = PREFERRED[target](*types)
    found = calls[plain if wanted is None else quantized]
    assert tuple(a.checked_type.dtype for a in found.args[:2]) == (wanted or ("int16", "int16"))
    assert tvm.ir.structural_equal(mod, new) == (wanted == types)
    arrays = [rng.integers(np.iinfo(v.type_annotation.dtype).min, np.iinfo(v.type_annotation.dtype).max,
                           [int(n) for n in v.type_annotation.shape]).astype(v.type_annotation.dtype)
              for v in mod["main"].params]  # fmt: skip
    np.testing.assert_array_equal(evaluated(new, *arrays), evaluated(mod, *arrays))


def test_arm_without_dot_products_multiplies_bytes_of_one_type_in_nhwc():
    mod = typed(convolution("uint8", "int8", layout=("NHWC", "HWIO")))
    with tvm.target.Target(ARM_OLD):
        new = relay.qnn.transform.Legalize()(mod)
    assert "qnn.conv2d" in operators(new) and "cast" in operators(new)


def test_a_transposed_convolution_becomes_plain():
    x, w = relay.var("x", shape=(1, 3, 5, 5), dtype="uint8"), relay.var("w", shape=(3, 4, 3, 3), dtype="int8")
    mod = typed(q.conv2d_transpose(x, w, relay.const(7), relay.const([1, 2, 3, 4]), relay.const(1.0), relay.const(1.0),
                                   channels=4, kernel_size=(3, 3)))  # fmt: skip
    new = relay.qnn.transform.Legalize()(mod)
    assert "nn.conv2d_transpose" in operators(new) and not any(n.startswith("qnn.") for n in operators(new))
    arrays = [rng.integers(0, 255, (1, 3, 5, 5)).astype("uint8"), rng.integers(-128, 127, (3, 4, 3, 3)).astype("int8")]
    np.testing.assert_array_equal(evaluated(new, *arrays), evaluated(mod, *arrays))


def test_rules_of_users_are_given_the_type_of_the_output():
    def rule(attrs, inputs, types):
        assert types[-1].dtype == "uint8" and len(types) == len(inputs) + 1
        return relay.cast(inputs[0], "uint8")

    x = relay.var("x", shape=(4,), dtype="int8")
    one, zero = relay.const(1.0), relay.const(0)
    mod = typed(q.requantize(x, one, zero, one, zero, out_dtype="uint8"))
    for attribute, run in (("FTVMQnnLegalize", relay.qnn.transform.Legalize),
                           ("FTVMQnnCanonicalize", relay.qnn.transform.CanonicalizeOps)):  # fmt: skip
        with TempOpAttr("qnn.requantize", attribute, rule):
            assert operators(run()(mod)) == {"cast"}
            assert operators(relay.transform.Legalize()(mod)) == {"qnn.requantize"}


def test_a_number_is_taken_from_a_constant_scalar_alone():
    assert legalizations.get_scalar_from_constant(relay.const(3)) == 3
    assert legalizations.get_scalar_from_constant(relay.const(0.5)) == 0.5
    for wrong in (relay.const([1, 2]), relay.const(1, "int64"), relay.var("x", shape=())):
        with pytest.raises(ValueError, match="a constant scalar of int32 or float32 is required"):
            legalizations.get_scalar_from_constant(wrong)


@pytest.mark.parametrize("dtype, low, high, stays", [
    ("int8", -128, 127, False), ("int8", -127, 127, True), ("uint8", 0, 254, True), ("uint8", -1, 255, False),
    ("int16", -128, 127, True), ("int32", -2147483648, 2147483647, False),
])  # fmt: skip
def test_a_clip_to_the_range_of_a_requantized_type_is_removed(dtype, low, high, stays):
    x = relay.var("x", shape=(4,), dtype="int32")
    one = relay.const(1.0)
    data = q.requantize(x, one, relay.const(0), one, relay.const(1), out_dtype=dtype)
    new = relay.transform.Legalize()(typed(relay.clip(data, low, high)))
    assert operators(new) == ({"qnn.requantize", "clip"} if stays else {"qnn.requantize"})
    plain = typed(relay.clip(relay.var("y", shape=(4,), dtype="int8"), -128, 127))
    tvm.ir.assert_structural_equal(relay.transform.Legalize()(plain), plain)
