"""Each rule computes what NumPy computes, in the precision of its type."""

import numpy as np
import pytest
from interpreter import Interpreter

from tvm import tir
from tvm.ir.visit import rewrite
from tvm.tir.intrin_rules import DEFAULT, FALLBACK

RULES = {**DEFAULT, **FALLBACK}


def value(rule, dtype, *operands):
    """Evaluate the rule's expression on NumPy operands."""
    variables = [tir.Var(f"v{k}", str(o.dtype)) for k, o in enumerate(operands)]
    expr = RULES[rule](tir.Call(dtype, "tir." + rule, variables))
    interpreter = Interpreter()
    out = []
    for point in zip(*(np.atleast_1d(o) for o in operands)):
        interpreter.values = dict(zip(variables, point))
        out.append(interpreter.eval(expr))
    return np.array(out)


POINTS = np.concatenate([np.linspace(-4, 4, 41), [0.0, -0.0, 1e-6, -1e-6, 1e-3, 0.999, 1.001, 30.0, -30.0, 80.0]])

FUNCTIONS = {
    "exp10": lambda x: 10.0**x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp2": np.exp2,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "isnan": np.isnan,
}


@pytest.mark.parametrize("dtype,tolerance", [("float32", 4e-6), ("float64", 2e-14)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float_rule(name, dtype, tolerance):
    x = POINTS.astype(dtype)
    if name == "exp10":
        x = x[np.abs(x) < 35]
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype("float64"))
    kind = "bool" if name.startswith("is") else dtype
    got = value(name, kind, x)
    np.testing.assert_allclose(got, expected, rtol=tolerance * (1 if name != "exp10" else 20))


@pytest.mark.parametrize("name", ["sinh", "asinh", "atanh", "log1p", "tan"])
def test_odd_functions_keep_relative_precision_near_zero(name):
    x = np.array([1e-30, -1e-20, 3e-10, 1e-5, -2e-4], "float32")
    np.testing.assert_allclose(value(name, "float32", x), FUNCTIONS[name](x.astype("float64")), rtol=1e-6)


@pytest.mark.parametrize("name", ["sinh", "cosh", "asinh", "acosh", "log1p", "isinf", "isfinite", "isnan"])
def test_non_finite_operands(name):
    x = np.array([np.inf, -np.inf, np.nan, 3e38, -3.4e38, -2e19], "float32")
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x)
    kind = "bool" if name.startswith("is") else "float32"
    np.testing.assert_allclose(value(name, kind, x), expected, rtol=1e-5)


def test_hypot_does_not_overflow():
    x = np.array([3, 0, 0, 1e30, np.inf, 1e-30, np.nan, -5, np.nan, 0], "float32")
    y = np.array([4, 0, -2, 1e30, np.nan, 1e-30, 1, 12, 0, np.nan], "float32")
    np.testing.assert_allclose(value("hypot", "float32", x, y), np.hypot(x.astype("float64"), y), rtol=1e-6)


def test_ldexp_reaches_beyond_the_largest_power():
    x = np.array([1.5, 1e-20, -3.0, 1e-38], "float32")
    n = np.array([3, 140, -4, 200], "int32")
    np.testing.assert_allclose(value("ldexp", "float32", x, n), np.ldexp(x.astype("float64"), n), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_bit_counts(dtype):
    kind = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, 5, 100, kind.max, kind.min, kind.max // 3], dtype)
    bits = [int(v) & ((1 << kind.bits) - 1) for v in x]
    assert value("popcount", dtype, x).tolist() == [b.bit_count() for b in bits]
    expr = tir.clz(tir.Var("v", dtype))
    expanded = rewrite(FALLBACK["clz"](expr), expand_popcount)
    var = expr.args[0]
    for v, b in zip(x, bits):
        interpreter = Interpreter()
        interpreter.values = {var: v}
        assert interpreter.eval(expanded) == kind.bits - b.bit_length()


def expand_popcount(node):
    if isinstance(node, tir.Call) and node.op.name == "tir.popcount":
        return FALLBACK["popcount"](node)
    return None


def test_copysign():
    x = np.array([1.5, -2.0, 0.0, np.inf], "float32")
    y = np.array([-0.0, 3.0, -1.0, -np.nan], "float32")
    got = value("copysign", "float32", x, y)
    np.testing.assert_array_equal(got, np.copysign(x, y))
    assert np.signbit(got[2])


def test_q_multiply_shift_rounds_half_up():
    rng = np.random.default_rng(7)
    x = rng.integers(-(2**20), 2**20, 50).astype("int32")
    y = rng.integers(2**30, 2**31 - 1, 50).astype("int32")
    for s in (-5, -1, 0, 3):
        expr = tir.q_multiply_shift(tir.Var("x", "int32"), tir.Var("y", "int32"), 31, s)
        lowered = DEFAULT["q_multiply_shift"](expr)
        left, right = max(s, 0), 31 + max(-s, 0)
        expected = [((int(a) << left) * int(b) + (1 << (right - 1))) >> right for a, b in zip(x, y)]
        got = []
        for a, b in zip(x, y):
            interpreter = Interpreter()
            interpreter.values = {expr.args[0]: a, expr.args[1]: b}
            got.append(int(interpreter.eval(lowered)))
        assert got == expected


def test_large_uint_imm():
    expr = tir.call_intrin("uint64", "tir.large_uint_imm", tir.const(7, "int64"), tir.const(3, "int64"))
    assert DEFAULT["large_uint_imm"](expr).value == 3 * 2**32 + 7
