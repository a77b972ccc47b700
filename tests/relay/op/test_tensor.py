"""Operators element by element and reductions, against NumPy, with edge values and several element types."""

from __future__ import annotations

import math

import numpy as np
import pytest
from compiled import check_all, refused, run, tensor

import tvm
from tests import on_target
from tvm import relay
from tvm.relay.op import _make

EDGES = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.5, 2.5, 1e-30, -3e38, 0.3, 7.0], "float32")
rng = np.random.default_rng(3)


def erf(x):
    return np.array([math.erf(v) if not np.isnan(v) else np.nan for v in x.ravel()], x.dtype).reshape(x.shape)


UNARY = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.round,
    "sign": np.sign,
    "abs": np.abs,
    "negative": np.negative,
    "isnan": np.isnan,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
}


def test_unary_on_edge_values():
    cases = []
    with np.errstate(all="ignore"):
        for name, f in UNARY.items():
            x = EDGES
            if name in ("sin", "cos", "tan"):
                x = np.where(np.abs(EDGES) > 1e5, np.float32(2), EDGES)
            cases.append(
                (name, getattr(relay, name), [x], np.asarray(f(x)).astype("bool" if name[:2] == "is" else "float32"))
            )
    check_all(cases, rtol=3e-5, atol=1e-6)


def test_fast_unary_are_near():
    x = np.linspace(-3, 3, 37).astype("float32")
    check_all(
        [
            ("exp", relay.fast_exp, [x], np.exp(x)),
            ("tanh", relay.fast_tanh, [x], np.tanh(x)),
            ("erf", relay.fast_erf, [x], erf(x)),
        ],
        rtol=1e-3,
        atol=1e-4,
    )


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "mod": np.fmod,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def test_binary_on_edge_values():
    a, b = (v.ravel().copy() for v in np.meshgrid(EDGES, EDGES))
    fair = (np.abs(a) < 1e6) & (np.abs(b) > 0.1) & (np.abs(b) < 1e6)
    cases = []
    with np.errstate(all="ignore"):
        for name, f in BINARY.items():
            x, y = (a[fair], b[fair]) if "mod" in name or name == "floor_divide" else (a, b)
            cases.append((name, getattr(relay, name), [x, y], f(x, y)))
    check_all(cases, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_wrap_and_divide(dtype):
    kind = np.iinfo(dtype)
    values = np.array([kind.min, kind.max, 0, 1, 2, 5, 100, kind.max // 2], dtype)
    a, b = (v.ravel().copy() for v in np.meshgrid(values, values))
    safe = (b != 0) & ~((a == kind.min) & (b.astype("int64") == -1))
    x, y = a[safe], b[safe]
    shift = np.minimum(np.abs(b.astype("float64")), 5).astype(dtype)
    whole = [(int(p), int(q)) for p, q in zip(x, y)]
    cases = []
    with np.errstate(all="ignore"):
        for name in ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal"):
            cases.append((name, getattr(relay, name), [a, b], BINARY[name](a, b)))
        for name, f in (
            ("bitwise_and", np.bitwise_and),
            ("bitwise_or", np.bitwise_or),
            ("bitwise_xor", np.bitwise_xor),
        ):
            cases.append((name, getattr(relay, name), [a, b], f(a, b)))
        cases += [
            ("floor_divide", relay.floor_divide, [x, y], np.array([p // q for p, q in whole], dtype)),
            ("floor_mod", relay.floor_mod, [x, y], np.array([p % q for p, q in whole], dtype)),
            (
                "trunc_divide",
                relay.trunc_divide,
                [x, y],
                np.array([abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in whole]).astype(dtype),
            ),
            (
                "trunc_mod",
                relay.trunc_mod,
                [x, y],
                np.array(
                    [
                        int(math.fmod(p, q)) if abs(p) < 2**52 else (abs(p) % abs(q) * (1 if p >= 0 else -1))
                        for p, q in whole
                    ]
                ).astype(dtype),
            ),
            ("left_shift", relay.left_shift, [a, shift], np.left_shift(a, shift)),
            ("right_shift", relay.right_shift, [a, shift], np.right_shift(a, shift)),
            ("bitwise_not", relay.bitwise_not, [values], ~values),
            ("clip", lambda v: relay.clip(v, 1, 50), [values], np.clip(values, 1, 50)),
            ("sum", lambda v: relay.sum(v), [values], values.sum(dtype=dtype)),
            ("max", lambda v: relay.max(v), [values], values.max()),
        ]
    check_all(cases)


def test_half_precision_and_double():
    x, y = rng.standard_normal((3, 5)), rng.standard_normal(5)
    cases = []
    for dtype in ("float16", "float64"):
        a, b = x.astype(dtype), y.astype(dtype)
        cases += [
            (f"add {dtype}", relay.add, [a, b], a + b),
            (f"exp {dtype}", relay.exp, [a], np.exp(a)),
            (f"max {dtype}", lambda v: relay.max(v, 1), [a], a.max(1)),
            (f"relu {dtype}", relay.nn.relu, [a], np.maximum(a, 0)),
        ]
    check_all(cases, rtol=2e-3, atol=1e-3)


def test_logic():
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    check_all(
        [
            ("and", relay.logical_and, [p, q], p & q),
            ("or", relay.logical_or, [p, q], p | q),
            ("xor", relay.logical_xor, [p, q], p ^ q),
            ("not", relay.logical_not, [p], ~p),
            ("all", lambda v: relay.all(v, 0), [p], np.bool_(False)),
            ("any", lambda v: relay.any(v, 0), [p], np.bool_(True)),
            ("equal", relay.equal, [p, q], p == q),
        ]
    )


def test_fixed_point_multiply():
    x = np.array([1000, -1000, 2147483647, -7, 5], "int32")
    multiplier, shift = 1431655765, -1
    want = np.array([(int(v) * multiplier + (1 << (30 - shift))) >> (31 - shift) for v in x], "int32")
    check_all([("fixed", lambda v: relay.fixed_point_multiply(v, multiplier, shift), [x], want)])


def test_reductions_of_truths_keep_their_type(rng):
    x = rng.random((3, 7)) > 0.8
    check_all([
        ("sum", lambda a: relay.sum(a, 1), [x], x.sum(1, dtype=bool)),
        ("sum of all", relay.sum, [x], x.sum(dtype=bool)),
        ("prod", lambda a: relay.prod(a, 0), [~x], (~x).prod(0, dtype=bool)),
        ("any", lambda a: relay.any(a, 0, True), [x], x.any(0, keepdims=True)),
        ("all", lambda a: relay.all(a, 1), [~x], (~x).all(1)),
        ("max", lambda a: relay.max(a, 1), [x], x.max(1)),
        ("min", lambda a: relay.min(a, 1), [~x], (~x).min(1)),
        ("cumsum", lambda a: relay.cumsum(a, 1), [x], x.cumsum(1, dtype=bool)),
        ("cumprod", lambda a: relay.cumprod(a, 0), [~x], (~x).cumprod(0, dtype=bool)),
    ])  # fmt: skip


def test_reductions():
    x = rng.standard_normal((3, 4, 5)).astype("float32")
    lse = np.log(np.exp(x).sum(1))
    huge = np.array([[1e4, 1e4, -np.inf]], "float32")
    cases = [
        ("sum", relay.sum, [x], x.sum(dtype="float32")),
        ("sum keepdims", lambda a: relay.sum(a, (0, -1), True), [x], x.sum((0, 2), keepdims=True)),
        ("sum exclude", lambda a: relay.sum(a, 1, exclude=True), [x], x.sum((0, 2))),
        ("prod", lambda a: relay.prod(a, 2), [x], x.prod(2)),
        ("mean", lambda a: relay.mean(a, [0, 1]), [x], x.mean((0, 1))),
        ("max", lambda a: relay.max(a, 1), [x], x.max(1)),
        ("min", lambda a: relay.min(a, -1, True), [x], x.min(-1, keepdims=True)),
        ("argmax", lambda a: relay.argmax(a, 1), [x], x.argmax(1).astype("int32")),
        ("argmin all", relay.argmin, [x], np.int32(x.argmin())),
        (
            "argmax last",
            lambda a: relay.argmax(a, 0, select_last_index=True),
            [np.array([1, 2, 2, 0], "float32")],
            np.int32(2),
        ),
        ("variance", lambda a: relay.variance(a, 1), [x], x.var(1)),
        (
            "variance unbiased",
            lambda a: relay.variance(a, (0, 2), True, unbiased=True),
            [x],
            x.var((0, 2), keepdims=True, ddof=1),
        ),
        ("std", relay.std, [x], x.std()),
        ("mean_variance", lambda a: relay.mean_variance(a, 2), [x], [x.mean(2), x.var(2)]),
        (
            "variance around it",
            lambda a: _make._variance(a, relay.mean(a, [0, 2], True), [0, 2], False, False, True),
            [x],
            x.var((0, 2), ddof=1),
        ),
        ("mean_std", lambda a: relay.mean_std(a, 2, True), [x], [x.mean(2, keepdims=True), x.std(2, keepdims=True)]),
        ("logsumexp", lambda a: relay.logsumexp(a, 1), [x], lse),
        (
            "logsumexp of huge",
            lambda a: relay.logsumexp(a, 1, True),
            [huge],
            np.array([[1e4 + math.log(2)]], "float32"),
        ),
        (
            "mean of integers",
            lambda a: relay.mean(a, 0),
            [np.array([[-3, 4], [-4, 5]], "int32")],
            np.array([-3, 4], "int32"),
        ),
        ("no axes", lambda a: relay.sum(a, ()), [x], x),
        ("scalar", lambda a: relay.sum(a), [np.float32(3)], np.float32(3)),
    ]
    check_all(cases, rtol=1e-4, atol=1e-5)


def test_operators_of_python():
    x, y = rng.random((2, 3)).astype("float32"), rng.random((2, 3)).astype("float32") + 1
    cases = [
        ("+", lambda a, b: a + b, [x, y], x + y),
        ("-", lambda a, b: a - 2.0, [x, y], x - 2),
        ("*", lambda a, b: 3 * a * b, [x, y], 3 * x * y),
        ("/", lambda a, b: a / b, [x, y], x / y),
        ("neg", lambda a, b: -a, [x, y], -x),
        ("<", lambda a, b: a < b, [x, y], x < y),
        ("int after cast", lambda a: a.astype("int32") + 1, [x], x.astype("int32") + 1),
    ]
    check_all(cases)


def test_empty_and_scalar():
    empty = np.zeros((0, 3), "float32")
    check_all(
        [
            ("exp", relay.exp, [empty], empty),
            ("sum", lambda a: relay.sum(a, 0), [empty], np.zeros(3, "float32")),
            ("add", relay.add, [np.float32(1), np.float32(2)], np.float32(3)),
            ("exp scalar", relay.exp, [np.float32(0)], np.float32(1)),
        ]
    )


def power_of(a, b):
    return a | ~b


# What arithmetic of truth values gives: that of 0 and 1, asked whether it is not zero; division by zero gives 0.
OF_BOOLS = {
    "add": np.add,
    "subtract": np.logical_xor,
    "multiply": np.multiply,
    "divide": np.logical_and,
    "power": power_of,
    "floor_divide": np.logical_and,
    "trunc_divide": np.logical_and,
    "mod": lambda a, b: a & False,
    "floor_mod": lambda a, b: a & False,
    "trunc_mod": lambda a, b: a & False,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("level", [0, 3])
def test_arithmetic_of_truth_values_says_whether_that_of_integers_is_not_zero(level):
    # Long enough for vectors and a rest; every pair of values is in it.
    a, b = np.arange(37) % 2 == 0, np.arange(37) // 2 % 2 == 0
    x, y = relay.var("x", shape=(37,), dtype="bool"), relay.var("y", shape=(37,), dtype="bool")
    outputs = [getattr(relay, name)(x, y) for name in OF_BOOLS] + [relay.abs(x), relay.sign(x), x + relay.const(True)]
    module = tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple(outputs)))
    with tvm.transform.PassContext(opt_level=level):
        got = relay.create_executor("graph", module, tvm.cpu(), "llvm").evaluate()(a, b)
    wanted = [function(a, b) for function in OF_BOOLS.values()] + [a, a, a | True]
    for name, g, w in zip([*OF_BOOLS, "abs", "sign", "with a constant"], got, wanted):
        assert g.dtype == "bool"
        np.testing.assert_array_equal(g.numpy(), w, err_msg=name)


REFUSALS = {
    "minus of bool": (lambda x: relay.negative(x), [tensor(3, dtype="bool")], "arithmetic on bool is not defined"),
    "fixed point": (lambda x: relay.fixed_point_multiply(x, 3, 4), [tensor(3)], "the data must be int32, got float32"),
    "mean of bools": (lambda x: relay.mean(x), [tensor(3, dtype="bool")], "cast to float32"),
    "variance of bools": (lambda x: relay.variance(x), [tensor(3, dtype="bool")], "arithmetic on bool is not defined"),
    "axis": (lambda x: relay.sum(x, 3), [tensor(2, 3)], "axis 3"),
    "axis twice": (lambda x: relay.sum(x, (0, 0)), [tensor(2, 3)], "duplicates"),
    "tuple": (lambda x: relay.exp(relay.Tuple([x, x])), [tensor(2, 3)], "must be a tensor"),
    "einsum": (lambda x: relay.einsum([x], "ijk->i"), [tensor(2, 3)], ""),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name):
    build, types, words = REFUSALS[name]
    assert words in refused(build, *types)


def test_marks_are_the_identity():
    x = rng.random(5).astype("float32")
    marks = [
        relay.annotation.stop_fusion,
        relay.annotation.checkpoint,
        lambda a: relay.annotation.compiler_end(relay.annotation.compiler_begin(a, "c"), "c"),
    ]
    if on_target.is_cpu():  # Elsewhere the CPU is a second device, and the model has no target for it.
        marks += [
            lambda a: relay.op.annotation.on_device(a, "cpu"),
            lambda a: relay.op.device_copy(a, "cpu", "cpu"),
        ]
    for got in run(lambda a: [m(relay.exp(a)) for m in marks], x):
        np.testing.assert_allclose(got, np.exp(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("build, dtype, words", [
    (lambda x: relay.log(x), "int32", "log: not defined for int32; cast to float32 first"),
    (lambda x: relay.tanh(x), "int8", "tanh: not defined for int8"),
    (lambda x: relay.rsqrt(x), "bool", "rsqrt: not defined for bool"),
    (lambda x: relay.left_shift(x, x), "float32", "expected an integer, got float32"),
    (lambda x: relay.bitwise_and(x, x), "float16", "expected an integer, got float16"),
])  # fmt: skip
def test_calls_of_other_types_have_a_type_and_are_refused_when_compiled(build, dtype, words):
    x = relay.var("x", shape=(3,), dtype=dtype)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(build(x)))
    assert str(mod["main"].ret_type) == f"Tensor[(3), {dtype}]"
    with pytest.raises((TypeError, tvm.TVMError), match=words):
        relay.build(mod, "llvm")
    constant = relay.const(np.ones(3, dtype))
    with pytest.raises((TypeError, tvm.TVMError), match=words):
        relay.transform.FoldConstant()(tvm.IRModule.from_expr(build(constant)))
