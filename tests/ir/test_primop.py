"""What the operators on expressions mean: types, folding, refusals."""

from __future__ import annotations

import math
import operator
import random

import numpy as np
import pytest

from tvm import te, topi
from tvm.error import TVMError
from tvm.ir import primop
from tvm.ir.prim import (
    EQ,
    LT,
    Add,
    Broadcast,
    Call,
    Cast,
    Div,
    EqualOp,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Not,
    StringImm,
    Sub,
    Var,
    const,
    convert,
)
from tvm.ir.structural import structural_equal

PROMOTIONS = [
    ("int32", "float32", "float32"),
    ("int64", "float16", "float16"),
    ("int8", "int32", "int32"),
    ("int32", "int64", "int64"),
    ("uint8", "uint16", "uint16"),
    ("bool", "int32", "int32"),
    ("bool", "uint8", "uint8"),
    ("uint32", "int8", "uint32"),
    ("uint32", "int32", "uint32"),
    ("uint8", "int32", "int32"),
    ("float16", "float32", "float32"),
    ("float64", "float32", "float64"),
    ("bfloat16", "float32", "float32"),
    ("bfloat16", "float16", "float32"),
    ("int32x4", "int32", "int32x4"),
    ("float32", "int32x8", "float32x8"),
]


@pytest.mark.parametrize(("left", "right", "result"), PROMOTIONS)
def test_operands_are_brought_to_one_type(left, right, result):
    a, b = Var("a", left), Var("b", right)
    for x, y in ((a, b), (b, a)):
        assert (x * y).dtype == result
        compared = x < y
        assert compared.a.dtype == compared.b.dtype == result
        assert compared.dtype == ("bool" if "x" not in result else "boolx" + result.split("x")[1])


def test_matching_casts_the_narrow_side_and_broadcasts_the_scalar():
    got = Var("a", "int32") + Var("b", "float32x4")
    assert isinstance(got.a, Broadcast) and isinstance(got.a.value, Cast) or isinstance(got.a, Cast)
    assert got.b.dtype == "float32x4"


@pytest.mark.parametrize(("left", "right"), [("int32x4", "int32x8"), ("handle", "int32")])
def test_types_that_cannot_be_matched_are_refused(left, right):
    with pytest.raises(TypeError, match="cannot"):
        Var("a", left) + Var("b", right)


def test_python_numbers_take_the_type_of_the_other_operand_family():
    x, f = Var("x", "int64"), Var("f", "float16")
    assert (x + 1).b.dtype == "int64" and (1 + x).a.dtype == "int64"
    assert (f * 2).b.dtype == "float16"
    assert (x * 1.5).dtype == "float32"


INTEGER_OPS = {
    "add": (primop.add, lambda a, b: a + b),
    "subtract": (primop.subtract, lambda a, b: a - b),
    "multiply": (primop.multiply, lambda a, b: a * b),
    "floordiv": (primop.floordiv, lambda a, b: a // b),
    "floormod": (primop.floormod, lambda a, b: a % b),
    "truncdiv": (primop.truncdiv, lambda a, b: int(math.copysign(abs(a) // abs(b), a * b)) if a else 0),
    "truncmod": (primop.truncmod, lambda a, b: int(math.fmod(a, b))),
    "minimum": (primop.minimum, min),
    "maximum": (primop.maximum, max),
    "bitwise_and": (primop.bitwise_and, lambda a, b: a & b),
    "bitwise_or": (primop.bitwise_or, lambda a, b: a | b),
    "bitwise_xor": (primop.bitwise_xor, lambda a, b: a ^ b),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint16"])
@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integer_literals_fold_with_wrapping(name, dtype):
    build, oracle = INTEGER_OPS[name]
    seed = 1729
    rng = random.Random(seed)
    kind = np.iinfo(dtype)
    for _ in range(40):
        a, b = rng.randint(kind.min, kind.max), rng.randint(kind.min, kind.max)
        if b == 0 and ("div" in name or "mod" in name):
            continue
        got = build(const(a, dtype), const(b, dtype))
        wanted = int(np.array(oracle(a, b), dtype="object").astype("int64").astype(dtype))
        assert isinstance(got, IntImm) and got.dtype == dtype and got.value == wanted, (name, dtype, a, b, seed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_literals_fold_in_their_own_precision(dtype):
    seed = 99
    rng = np.random.default_rng(seed)
    for a, b in rng.normal(size=(50, 2)):
        x, y = np.dtype(dtype).type(a), np.dtype(dtype).type(b)
        results = {primop.add: x + y, primop.subtract: x - y, primop.multiply: x * y, primop.div: x / y}
        for build, wanted in results.items():
            got = build(const(float(a), dtype), const(float(b), dtype))
            assert isinstance(got, FloatImm) and got.value == float(wanted), (a, b, seed)


def test_float32_overflow_folds_to_infinity():
    big = const(3.4e37, "float32")
    assert math.isinf((big * big).value)
    assert (const(0.1, "float32") == const(0.1, "float32")).asobject().value == 1


def test_half_precision_literals_are_left_to_the_back_end():
    got = const(1.0, "float16") * const(2.0, "float16")
    assert isinstance(got, Mul)


def test_division_of_float_literals_by_zero_is_left_alone():
    assert isinstance(primop.div(const(1.0, "float32"), const(0.0, "float32")), Div)


def test_minimum_and_maximum_of_nan_are_nan():
    nan = const(float("nan"), "float32")
    for made in (primop.minimum(nan, const(1.0, "float32")), primop.maximum(const(1.0, "float32"), nan)):
        assert isinstance(made, FloatImm) and math.isnan(made.value)


def test_neutral_elements_are_dropped():
    x, p = Var("x", "int32"), Var("p", "bool")
    assert (x + 0) is x and (0 + x) is x and (x - 0) is x and (x * 1) is x and (1 * x) is x
    assert (x // 1) is x and primop.truncdiv(x, 1) is x
    assert (x * 0).value == 0 and (0 // x).value == 0 and (x % 1).value == 0 and primop.truncmod(x, 1).value == 0
    assert primop.minimum(x, x) is x and primop.maximum(x, x) is x
    true, false = const(True, "bool"), const(False, "bool")
    assert primop.logical_and(p, true) is p and primop.logical_and(false, p) is false
    assert primop.logical_or(false, p) is p and primop.logical_or(p, true) is true
    assert primop.logical_not(true).value == 0 and isinstance(primop.logical_not(p), Not)


def test_float_zero_is_not_dropped_because_of_its_sign():
    f = Var("f", "float32")
    assert isinstance(f + 0.0, Add) and isinstance(f * 0.0, Mul)
    assert (f * 1.0) is f


def test_slash_on_integers_is_refused_and_on_floats_divides():
    x, f = Var("x", "int32"), Var("f", "float32")
    with pytest.raises(RuntimeError, match="ambiguous"):
        x / 2
    with pytest.raises(RuntimeError, match="ambiguous"):
        2 / x
    assert isinstance(f / 2, Div) and isinstance(x / 2.0, Div)


def test_floor_operators_round_down():
    x = Var("x", "int32")
    assert isinstance(x // 3, FloorDiv) and isinstance(x % 3, FloorMod)
    assert (const(-7, "int32") // 2).value == -4 and (const(-7, "int32") % 2).value == 1
    assert primop.truncdiv(-7, 2).value == -3 and primop.truncmod(-7, 2).value == -1


@pytest.mark.parametrize("build", [primop.div, primop.truncdiv, primop.truncmod, primop.floordiv, primop.floormod])
def test_division_by_the_literal_zero_is_refused(build):
    with pytest.raises(ZeroDivisionError, match="divide by zero"):
        build(const(5, "int32"), const(0, "int32"))
    with pytest.raises(TVMError, match="divide by zero"):
        build(Var("x", "int32"), 0)


def test_expressions_have_no_truth_value():
    x = Var("x", "int32")
    with pytest.raises(ValueError, match="no truth value"):
        bool(x < 3)
    with pytest.raises(ValueError, match=r"tvm\.tir\.all"):
        x and 1


def test_equality_is_identity_as_a_condition_and_an_expression_as_an_operand():
    x, y = Var("x", "int32"), Var("y", "int32")
    assert isinstance(x == y, EqualOp)
    assert x == x and not (x == y) and x != y and not (x != x)
    assert isinstance(convert(x == y), EQ) and isinstance(x.equal(y), EQ)
    assert primop.logical_and(x == y, x < y).dtype == "bool"
    assert (x == y).dtype == "bool"
    assert x in [y, x] and x not in [y]


def test_literals_compare_by_value():
    one = const(1, "int32")
    assert one == 1 and one != 2 and one == const(1, "int64") and int(one) == 1 and one
    assert not const(0, "int32")
    assert StringImm("a") == "a" and StringImm("a") != "b"
    assert float(const(0.5, "float32")) == 0.5
    assert [10, 20][const(1, "int32")] == 20


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("int8", 128), ("int8", -129), ("uint8", -1), ("uint8", 256)),
        *(("int32", 2**31), ("int64", 2**63), ("uint64", 2**64)),
    ],
)
def test_literals_out_of_range_are_refused(dtype, value):
    with pytest.raises(ValueError, match=f"does not fit in {dtype}"):
        const(value, dtype)
    with pytest.raises(TVMError, match="does not fit in"):
        IntImm(dtype, value)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_extreme_literals_are_kept(dtype):
    for value in (np.iinfo(dtype).min, np.iinfo(dtype).max):
        assert const(int(value), dtype).value == value


def test_default_types_of_literals():
    assert const(1).dtype == "int32" and const(2**40).dtype == "int64" and const(True).dtype == "bool"
    assert const(1.0).dtype == "float32" and const(-1e39).dtype == "float64" and const(math.inf).dtype == "float32"
    for value in (np.uint8(1), np.int64(1), np.float16(1), np.float64(1), np.bool_(True)):
        assert const(value).dtype == str(value.dtype)
        assert convert(value).dtype == str(value.dtype)
    assert const(1, "int8x4").lanes == 4
    with pytest.raises(TypeError, match="cannot create a literal"):
        const(object())
    with pytest.raises(TypeError, match="in an expression"):
        convert(object())


@pytest.mark.parametrize("value", [np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.uint8(2), np.uint64(2)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint64"])
def test_numbers_of_numpy_count_in_arithmetic_as_those_of_python(value, dtype):
    x, python = Var("x", dtype), value.item()
    for apply in (operator.add, operator.sub, operator.mul, operator.lt, primop.maximum):
        for got, want in ((apply(x, value), apply(x, python)), (apply(value, x), apply(python, x))):
            assert structural_equal(got, want), (got, want)
    tensor = te.placeholder((3,), dtype)
    assert (tensor + value).dtype == (tensor + python).dtype == topi.add(tensor, value).dtype


def test_casts_of_literals_truncate_wrap_and_round():
    assert const(-3.9, "float32").astype("int32").value == -3
    assert const(300, "int32").astype("uint8").value == 44
    assert const(200, "uint8").astype("int8").value == -56
    assert const(3, "int32").astype("bool").value == 1
    assert const(0.1, "float64").astype("float32").value == float(np.float32(0.1))
    assert const(0.1, "float64").astype("float16").value == float(np.float16(0.1))
    assert const(1e10, "float64").astype("float16").value == math.inf
    assert const(float("nan"), "float32").astype("int32").value == 0


def test_bfloat16_rounds_to_nearest_even():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    seed = 5
    for value in np.random.default_rng(seed).normal(size=100):
        single = float(np.float32(value))
        wanted = float(np.float32(single).astype(ml_dtypes.bfloat16))
        assert primop.round_float(single, "bfloat16") == wanted, (value, seed)


def test_casts_between_scalars_and_vectors():
    f = Var("f", "float32")
    assert f.astype("float32") is f
    assert isinstance(f.astype("int32"), Cast)
    wide = f.astype("float32x4")
    assert isinstance(wide, Broadcast) and wide.lanes == 4
    with pytest.raises(TypeError, match="4 lanes instead of 8"):
        Var("v", "float32x4").astype("float32x8")
    with pytest.raises(TVMError, match="cannot convert a pointer or string to int32"):
        StringImm("s").astype("int")


def test_negation():
    x, u, f = Var("x", "int32"), Var("u", "uint8"), Var("f", "float32")
    assert (-const(5, "int32")).value == -5 and (-const(-128, "int8")).value == -128
    assert isinstance(-x, Mul) and (-x).b.value == -1
    assert isinstance(-u, Sub) and (-u).a.value == 0
    assert (-f).b.value == -1.0


def test_bit_operators():
    x = Var("x", "int32")
    for got, name in (
        (x << 2, "shift_left"),
        (x >> 2, "shift_right"),
        (x & 3, "bitwise_and"),
        (x | 3, "bitwise_or"),
        (x ^ 3, "bitwise_xor"),
        (~x, "bitwise_not"),
        (10 & x, "bitwise_and"),
        (10 << x, "shift_left"),
    ):
        assert isinstance(got, Call) and got.op.name == "tir." + name and got.dtype == "int32"
    assert (const(1, "int32") << 4).value == 16 and (~const(0, "uint8")).value == 255 and (x << 0) is x
    assert (const(1, "int8x2") >> 1).dtype == "int8x2"
    assert (Var("b", "uint8") & 0x1FF).args[1].value == 0xFF


def test_bit_operators_refuse_floats_and_bad_shifts():
    x, t = Var("x", "int32"), const(1.5, "float32")
    for build in (lambda: t << 1, lambda: t >> 1, lambda: t | 1, lambda: t ^ 1, lambda: t & 1, lambda: ~t):
        with pytest.raises(TVMError, match="expected an integer"):
            build()
    for amount in (-1, 32):
        with pytest.raises(ValueError, match=r"shift amount must be in 0\.\.31"):
            x << amount
        with pytest.raises(TVMError, match="shift amount must be in 0..31"):
            x >> amount


def test_logic_refuses_integers():
    x, p = Var("x", "int32"), Var("p", "bool")
    for build in (primop.logical_and, primop.logical_or):
        for a, b in ((x, p), (p, x), (x, const(True, "bool"))):
            with pytest.raises(TVMError, match="expected a condition"):
                build(a, b)
    with pytest.raises(TypeError, match="expected a condition"):
        primop.logical_not(x)


def test_select_matches_its_sides_and_folds_on_a_literal():
    x, f, p = Var("x", "int32"), Var("f", "float32"), Var("p", "bool")
    assert primop.select(p, x, f).dtype == "float32"
    assert primop.select(True, x, 1) is x


def test_node_constructors_refuse_mixed_types():
    with pytest.raises(TypeError, match="operands must have the same type, got int32 and float32"):
        Add(Var("x", "int32"), Var("f", "float32"))
    assert LT(Var("x", "int32"), 3).dtype == "bool"


def test_build_table_makes_what_each_class_means():
    x, y = Var("x", "int32"), Var("y", "int32")
    for cls, build in primop.BUILD.items():
        if cls.__name__ in ("And", "Or"):
            assert type(build(x < y, y < x)) is cls
        else:
            assert type(build(x, y)) is cls
