"""Operators on one tensor against NumPy: sizes of one and primes, 0-d, empty, edge values, several types."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.topi.evaluate import check, evaluate, run
from tvm import te, topi

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, -0.5, np.nan, np.inf, -np.inf, 1e-30, 3.4e38, -3.4e38, 17.25]


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def sigmoid(x):
    return (1 / (1 + np.exp(-x.astype("float64")))).astype(x.dtype)


ANYWHERE = {
    "exp": np.exp, "tanh": np.tanh, "sigmoid": sigmoid, "erf": erf, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "exp2": np.exp2, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "abs": np.abs, "negative": np.negative, "sign": np.sign,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "identity": lambda x: x,
}  # fmt: skip
POSITIVE = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "rsqrt": lambda x: (1 / np.sqrt(x)),
    "log1p": np.log1p, "acosh": lambda x: np.arccosh(x),
}  # fmt: skip
UNIT = {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}


def table(names):
    return {name: (getattr(topi, name), reference) for name, reference in names.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_floats(rng, dtype):
    for shape in [(), (1,), (3, 7, 1)]:
        check([np.asarray(rng.normal(size=shape) * 3, dtype)], table(ANYWHERE))
    check([(rng.random((5, 3)) + 1.01).astype(dtype)], table(POSITIVE))
    check([(rng.random((7,)) * 1.8 - 0.9).astype(dtype)], table(UNIT))


def test_edge_values_of_floats():
    # Trigonometry of huge arguments loses all digits in float32; it is tried on moderate ones above.
    names = {k: v for k, v in ANYWHERE.items() if k not in ("sin", "cos", "tan", "sinh", "cosh")}
    check([np.array(EDGES, "float32")], table(names))
    positive = np.array([0.0, np.inf, np.nan, 1e-30, 1.0], "float32")
    check([positive], table({k: POSITIVE[k] for k in ("log", "sqrt", "rsqrt")}))


def test_half_precision(rng):
    x = rng.normal(size=(5, 3)).astype("float16")
    names = ("exp", "tanh", "abs", "floor", "sign", "negative", "sigmoid")
    check([x], table({n: ANYWHERE[n] for n in names}), rtol=3e-3, atol=1e-3)


def test_integers_at_their_limits():
    for dtype in ("int8", "int32", "int64", "uint8"):
        limits = np.iinfo(dtype)
        x = np.array([limits.min, limits.max, 0, 1, 5], dtype)
        names = ("abs", "negative", "sign", "floor", "round", "isnan", "isfinite", "isinf", "identity")
        check([x], table({n: ANYWHERE[n] for n in names}))


def test_empty_tensor():
    check([np.zeros((0, 3), "float32")], table({"exp": np.exp, "abs": np.abs}))


def test_cast_between_types(rng):
    x = (rng.normal(size=(4, 5)) * 20).astype("float32")
    kinds = ("int32", "int64", "float64", "bool", "float16", "int8")
    cases = {k: (lambda t, k=k: topi.cast(t, k), lambda a, k=k: a.astype(k)) for k in kinds}
    check([x], cases, rtol=1e-3)
    x = np.array([[0, 1, 255], [127, 128, 3]], "uint8")
    kinds = ("int8", "float32", "bool", "int64")
    cases = {k: (lambda t, k=k: topi.cast(t, k), lambda a, k=k: a.astype(k)) for k in kinds}
    check([x], cases)


def test_clip_keeps_nan_and_takes_limits_beyond_the_type():
    x = np.array(EDGES, "float32")
    check([x], {
        "both": (lambda t: topi.clip(t, -1.5, 2), lambda a: np.clip(a, -1.5, 2).astype("float32")),
        "infinite": (lambda t: topi.clip(t, -math.inf, math.inf), lambda a: a),
        "low": (lambda t: topi.clip(t, 0.0, None), lambda a: np.where(a < 0, np.float32(0), a)),
    })  # fmt: skip
    x = np.array([-128, -1, 0, 127], "int8")
    check([x], {
        "wide": (lambda t: topi.clip(t, -1000, 1000), lambda a: a),
        "narrow": (lambda t: topi.clip(t, -2.0, 5.0), lambda a: np.clip(a, -2, 5)),
    })  # fmt: skip


def test_quicker_functions_are_near():
    x = np.linspace(-10, 10, 203, dtype="float32")
    check([x], {
        "exp": (topi.fast_exp, np.exp), "tanh": (topi.fast_tanh, np.tanh), "erf": (topi.fast_erf, erf),
    }, rtol=1e-5, atol=1e-6)  # fmt: skip
    ends = evaluate([np.array([-1e4, 88.0, -87.0], "float32")], topi.fast_exp)
    assert ends[0] < 2e-38 and np.isfinite(ends).all()
    np.testing.assert_allclose(ends[1:], np.exp(np.array([88.0, -87.0])), rtol=1e-5)


def test_ceil_log2_is_exact_on_integers():
    x = np.array([1, 2, 3, 4, 5, 1023, 1024, 1025, 2**30, 2**30 + 1], "int32")
    check([x], {"log": (topi.ceil_log2, lambda a: np.array([(int(v) - 1).bit_length() for v in a], "int32"))})


def test_bits_are_read_as_another_type():
    x = np.array([1.0, -2.5, np.inf], "float32")
    check([x], {"bits": (lambda t: topi.reinterpret(t, "int32"), lambda a: a.view("int32"))})
    with pytest.raises(TypeError, match="different sizes"):
        topi.reinterpret(te.placeholder((3,)), "int64")


def test_fixed_point_multiply_rounds_half_up():
    x = np.array([0, 1, -1, 1000, -1000, 2**30, -(2**30)], "int32")
    multiplier, shift = 1395864371, -2

    def reference(a):
        total = a.astype(object) * multiplier
        return np.array([(int(v) + (1 << (30 - shift))) >> (31 - shift) for v in total], "int32")

    check([x], {"q": (lambda t: topi.fixed_point_multiply(t, multiplier, shift), reference)})


def test_constants_and_sums(rng):
    x = rng.normal(size=(3, 5)).astype("float32")
    check([x], {
        "full": (lambda t: topi.full((2, 3), "int32", 7), lambda a: np.full((2, 3), 7, "int32")),
        "scalar": (lambda t: topi.full((), "float32", 2.5), lambda a: np.full((), 2.5, "float32")),
        "like": (lambda t: topi.full_like(t, -1.5), lambda a: np.full_like(a, -1.5)),
        "sum": (lambda t: topi.elemwise_sum([t, t, t]), lambda a: a + a + a),
    })  # fmt: skip
    with pytest.raises(ValueError, match="shapes differ"):
        topi.elemwise_sum([te.placeholder((3,)), te.placeholder((4,))])
    with pytest.raises(TypeError, match="types differ"):
        topi.elemwise_sum([te.placeholder((3,)), te.placeholder((3,), "int32")])


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_functions_of_floats_take_integers_as_floats(dtype):
    x = np.array([0, 1, 1], dtype)
    np.testing.assert_allclose(evaluate([x], topi.exp), np.exp(x.astype("float32")), rtol=1e-6)


def test_shape_known_only_when_running(rng):
    n = te.var("n")
    x = te.placeholder((n, 3), name="x")
    for size in (1, 5):
        a = rng.normal(size=(size, 3)).astype("float32")
        got = run([x], topi.tanh(topi.clip(x, -1, 1)), [a], [(size, 3)])
        np.testing.assert_allclose(got, np.tanh(np.clip(a, -1, 1)), rtol=1e-5, atol=1e-6)
