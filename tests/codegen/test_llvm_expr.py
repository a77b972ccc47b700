"""Expressions compiled by the llvm back end, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

import tvm.tir.op  # noqa: F401  (registers the intrinsics)
from tests.codegen.raw import buffer, compile_raw, emit, numpy_dtype, prim_func, run_elementwise
from tests.cpus import BASELINE, OLDER
from tvm.dtype import info, int_range
from tvm.error import TVMError
from tvm.ir import prim
from tvm.ir.op import Op
from tvm.ir.prim import Broadcast, BufferLoad, Call, Cast, IntImm, Let, Ramp, Select, Shuffle, Var, const
from tvm.ir.primop import cast
from tvm.tir.stmt import BufferStore, Evaluate, For, ForKind, LetStmt, SeqStmt, Stmt

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def call(name, *args, dtype=None):
    return Call(dtype or args[0].dtype, Op.get("tir." + name), args)


def integer_pairs(dtype, rng, avoid_zero=True):
    low, high = int_range(dtype)
    special = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 8] + ([-1, -2, -3, -7, -8] if low < 0 else [])
    values = [*special, *(int(v) for v in rng.integers(low, high, 20, dtype=dtype, endpoint=True))]
    pairs = [(a, b) for a in values for b in values if not (avoid_zero and b == 0) and not (a == low and b == -1)]
    x, y = zip(*pairs)
    return numpy.array(x, dtype), numpy.array(y, dtype)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_wraps(dtype, lanes, rng):
    x, y = integer_pairs(dtype, rng)
    with numpy.errstate(all="ignore"):
        for node, function in ((prim.Add, numpy.add), (prim.Sub, numpy.subtract), (prim.Mul, numpy.multiply),
                               (prim.Min, numpy.minimum), (prim.Max, numpy.maximum)):  # fmt: skip
            got = run_elementwise(node, [x, y], dtype, lanes)
            numpy.testing.assert_array_equal(got, function(x, y), err_msg=node.__name__)


def _truncated(x, y):
    quotient = [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x, y)]
    return numpy.array(quotient, x.dtype), numpy.array(
        [int(a) - int(b) * q for a, b, q in zip(x, y, quotient)], x.dtype
    )


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_of_every_sign(dtype, lanes, rng):
    x, y = integer_pairs(dtype, rng)
    quotient, rest = _truncated(x, y)
    numpy.testing.assert_array_equal(run_elementwise(prim.Div, [x, y], dtype, lanes), quotient)
    numpy.testing.assert_array_equal(run_elementwise(prim.Mod, [x, y], dtype, lanes), rest)
    numpy.testing.assert_array_equal(run_elementwise(prim.FloorDiv, [x, y], dtype, lanes), x // y)
    numpy.testing.assert_array_equal(run_elementwise(prim.FloorMod, [x, y], dtype, lanes), x % y)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, 64, -1, -2, -3, -8])
def test_floor_division_by_a_literal(divisor, rng):
    x = numpy.concatenate([rng.integers(-1000, 1000, 50), [0, 1, -1, 2**31 - 1, -(2**31) + 1]]).astype("int32")
    got = run_elementwise(lambda a: prim.FloorDiv(a, IntImm("int32", divisor)), [x], "int32")
    numpy.testing.assert_array_equal(got, x // divisor)
    got = run_elementwise(lambda a: prim.FloorMod(a, IntImm("int32", divisor)), [x], "int32")
    numpy.testing.assert_array_equal(got, x % divisor)


def test_division_of_a_loop_variable_is_unsigned():
    out = buffer("out", "int32", 100)
    i = Var("i", "int32")
    body = For(
        i,
        0,
        100,
        ForKind.SERIAL,
        BufferStore(out, prim.FloorDiv(i, const(7, "int32")) + prim.FloorMod(i, const(5, "int32")), [i]),
    )
    text, _ = emit(prim_func([out], body))
    assert "udiv" in text and "urem" in text and "sdiv" not in text
    got = numpy.zeros(100, "int32")
    compile_raw(prim_func([out], body))(got)
    numpy.testing.assert_array_equal(got, numpy.arange(100) // 7 + numpy.arange(100) % 5)


def test_a_division_by_a_variable_is_written_once_for_the_copies_of_an_unrolled_loop():
    out, given = buffer("out", "int32", 8), buffer("given", "int32", 2)
    i, n, m = Var("i", "int32"), Var("n", "int32"), Var("m", "int32")
    body: Stmt = For(i, 0, 8, ForKind.UNROLLED, BufferStore(out, prim.FloorMod(n, m) + i, [i]))
    for var, place in ((n, 0), (m, 1)):
        body = LetStmt(var, BufferLoad(given, [const(place, "int32")]), body)
    text, _ = emit(prim_func([out, given], body))
    assert text.count(" srem ") == 1
    got = numpy.zeros(8, "int32")
    compile_raw(prim_func([out, given], body))(got, numpy.array([-7, 5], "int32"))
    numpy.testing.assert_array_equal(got, -7 % 5 + numpy.arange(8))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32", "float64", "float16", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_comparisons(dtype, lanes, rng):
    x = rng.integers(0, 2 if dtype == "bool" else 5, 60).astype(numpy_dtype(dtype))
    y = rng.integers(0, 2 if dtype == "bool" else 5, 60).astype(numpy_dtype(dtype))
    for node, function in (
        (prim.EQ, numpy.equal),
        (prim.NE, numpy.not_equal),
        (prim.LT, numpy.less),
        (prim.LE, numpy.less_equal),
        (prim.GT, numpy.greater),
        (prim.GE, numpy.greater_equal),
    ):
        got = run_elementwise(node, [x, y], "bool", lanes)
        numpy.testing.assert_array_equal(got, function(x, y), err_msg=node.__name__)


def test_nan_compares_unequal():
    x = numpy.array([1.0, numpy.nan, numpy.nan], "float32")
    y = numpy.array([numpy.nan, 1.0, numpy.nan], "float32")
    assert not run_elementwise(prim.EQ, [x, y], "bool").any()
    assert run_elementwise(prim.NE, [x, y], "bool").all()
    assert not run_elementwise(prim.LE, [x, y], "bool").any()


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={OLDER}", f"llvm -mcpu={BASELINE}"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_arithmetic_rounds_each_step(dtype, target, rng):
    kind = numpy_dtype(dtype)
    x = numpy.concatenate([rng.standard_normal(200) * 10, [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 60000, 1e-7]])
    y = numpy.concatenate([rng.standard_normal(200), [1.0, 3.0, 2.0, 2.0, 1.0, 60000, 1e-7]])
    x, y = x.astype(kind), y.astype(kind)
    wide = "float64" if dtype == "float64" else "float32"
    with numpy.errstate(all="ignore"):
        for node, function in ((prim.Add, numpy.add), (prim.Sub, numpy.subtract), (prim.Mul, numpy.multiply),
                               (prim.Div, numpy.divide)):  # fmt: skip
            got = run_elementwise(node, [x, y], dtype, 8, target)
            want = function(x.astype(wide), y.astype(wide)).astype(kind)
            numpy.testing.assert_array_equal(got.astype("float64"), want.astype("float64"), err_msg=node.__name__)


def test_sum_of_product_is_not_fused_outside_reductions(rng):
    x, y, z = (rng.standard_normal(500).astype("float32") for _ in range(3))
    got = run_elementwise(lambda a, b, c: a * b + c, [x, y, z], "float32", 8)
    numpy.testing.assert_array_equal(got, x * y + z)


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={OLDER}", f"llvm -mcpu={BASELINE}"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_widens_exactly(dtype, target):
    bits = numpy.arange(65536, dtype="uint16")
    x = bits.view(numpy_dtype(dtype))
    got = run_elementwise(
        lambda a: Cast("float32" if info(a.dtype).lanes == 1 else "float32x8", a), [x], "float32", 8, target
    )
    want = x.astype("float32")
    nan = numpy.isnan(want)
    assert numpy.isnan(got[nan]).all()
    numpy.testing.assert_array_equal(got[~nan].view("uint32"), want[~nan].view("uint32"))


def _hard_to_round(rng, kind):
    """Values at, just above and just below the middle between neighbours of a 16-bit type, and the usual edges."""
    every = numpy.arange(0, 0x7C00 if kind == numpy.float16 else 0x7F80, 7, dtype="uint16").view(kind).astype("float64")
    middle = (every[1:] + every[:-1]) / 2
    parts = [
        every,
        middle,
        numpy.nextafter(middle, 0),
        numpy.nextafter(middle, numpy.inf),
        middle * (1 + 2.0**-30),
        middle * (1 - 2.0**-30),
        numpy.array([0.0, numpy.inf, numpy.nan, 65519.9, 65520.0, 1e-8, 3.4e38, 2.0**-25]),
    ]
    x = numpy.concatenate(parts)
    return numpy.concatenate([x, -x])


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={OLDER}", f"llvm -mcpu={BASELINE}"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_narrowing_rounds_to_nearest_even(dtype, source, target, rng):
    kind = numpy_dtype(dtype)
    with numpy.errstate(all="ignore"):
        x = _hard_to_round(rng, kind).astype(source)
        want = x.astype(kind) if not (dtype == "bfloat16" and source == "float64") else _bfloat_of_double(x)
    got = run_elementwise(lambda a: Cast(dtype if info(a.dtype).lanes == 1 else dtype + "x8", a), [x], dtype, 8, target)
    nan = numpy.isnan(want.astype("float32"))
    assert numpy.isnan(got[nan].astype("float32")).all()
    numpy.testing.assert_array_equal(got[~nan].view("uint16"), want[~nan].view("uint16"))


def _bfloat_of_double(x):
    """float64 to bfloat16 in one rounding: the nearer of the two float32-truncations around it."""
    low = (numpy.abs(x).astype("float32").view("uint32")).copy()
    over = low.view("float32").astype("float64") > numpy.abs(x)
    low[over] -= 1
    low &= numpy.uint32(0xFFFF0000)
    down = low.view("float32").astype("float64")
    up = (low + numpy.uint32(0x10000)).view("float32").astype("float64")
    up = numpy.where(numpy.isinf(up), 2.0**128, up)
    size = numpy.abs(x)
    middle = (down + up) / 2
    odd = (low >> 16) & 1
    take_up = (size > middle) | ((size == middle) & (odd == 1))
    bits = numpy.where(take_up, low + numpy.uint32(0x10000), low)
    bits = numpy.where(numpy.isinf(size), numpy.uint32(0x7F800000), bits)
    bits = numpy.where(numpy.isnan(size), numpy.uint32(0x7FC00000), bits) | (numpy.signbit(x).astype("uint32") << 31)
    return (bits >> 16).astype("uint16").view(ml_dtypes.bfloat16)


@pytest.mark.parametrize("source", [*INTEGERS, "bool", "float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("result", [*INTEGERS, "bool", "float32", "float64", "float16", "bfloat16"])
def test_casts(source, result, rng):
    kind = info(source)
    if kind.is_float:
        low = 0 if info(result).is_uint else -100
        x = (rng.integers(low, 100, 43) + rng.choice([0.0, 0.25, 0.5], 43)).astype(numpy_dtype(source))
    elif kind.is_bool:
        x = rng.integers(0, 2, 43).astype("bool")
    else:
        low, high = int_range(source)
        x = rng.integers(low, high, 43, dtype=source, endpoint=True)
    with numpy.errstate(all="ignore"):
        if result == "bool":
            want = x != numpy.zeros(1, x.dtype)
        elif kind.is_float and not info(result).is_float:
            want = x.astype("float64").astype(result)
        elif info(result).is_float and info(result).bits == 16 and not kind.is_float and not kind.is_bool:
            # One rounding: integers of up to 32 bits are exact in float64.
            want = (
                _bfloat_of_double(x.astype("float64")) if result == "bfloat16" else x.astype("float64").astype(result)
            )
        else:
            want = x.astype(numpy_dtype(result))
    for lanes in (4,):
        got = run_elementwise(
            lambda a: Cast(result if info(a.dtype).lanes == 1 else f"{result}x4", a), [x], result, lanes
        )
        if result == "bfloat16" and source in ("int64", "uint64"):
            numpy.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=2.0**-8)
        else:
            numpy.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


def test_bits(rng):
    x, y = rng.integers(-(2**31), 2**31, 64, dtype="int32"), rng.integers(0, 31, 64, dtype="int32")
    for name, function in (("bitwise_and", numpy.bitwise_and), ("bitwise_or", numpy.bitwise_or),
                           ("bitwise_xor", numpy.bitwise_xor), ("shift_left", numpy.left_shift),
                           ("shift_right", numpy.right_shift)):  # fmt: skip
        got = run_elementwise(lambda a, b, n=name: call(n, a, b), [x, y], "int32", 4)
        numpy.testing.assert_array_equal(got, function(x, y), err_msg=name)
    numpy.testing.assert_array_equal(run_elementwise(lambda a: call("bitwise_not", a), [x], "int32", 4), ~x)
    numpy.testing.assert_array_equal(
        run_elementwise(lambda a: call("popcount", a), [x], "int32"), [bin(int(v) & 0xFFFFFFFF).count("1") for v in x]
    )
    numpy.testing.assert_array_equal(
        run_elementwise(lambda a: call("clz", a), [x], "int32"), [32 - (int(v) & 0xFFFFFFFF).bit_length() for v in x]
    )
    u = x.view("uint32")
    numpy.testing.assert_array_equal(
        run_elementwise(lambda a, b: call("shift_right", a, b), [u, y.view("uint32")], "uint32"), u >> y.view("uint32")
    )


def test_reinterpret_keeps_bits(rng):
    x = rng.standard_normal(33).astype("float32")
    got = run_elementwise(
        lambda a: call("reinterpret", a, dtype="int32" if info(a.dtype).lanes == 1 else "int32x8"), [x], "int32", 8
    )
    numpy.testing.assert_array_equal(got, x.view("int32"))


def test_classification():
    x = numpy.array([0.0, 1.0, numpy.inf, -numpy.inf, numpy.nan, 1e-45], "float32")
    for name, function in (("isnan", numpy.isnan), ("isinf", numpy.isinf), ("isfinite", numpy.isfinite)):
        got = run_elementwise(lambda a, n=name: call(n, a, dtype="bool"), [x], "bool")
        numpy.testing.assert_array_equal(got, function(x), err_msg=name)


def test_fma_and_ldexp(rng):
    x, y, z = (rng.standard_normal(40).astype("float32") for _ in range(3))
    want = (x.astype("float64") * y.astype("float64") + z.astype("float64")).astype("float32")
    for target in ("llvm", f"llvm -mcpu={BASELINE}"):
        got = run_elementwise(lambda a, b, c: call("fma", a, b, c), [x, y, z], "float32", 8, target)
        # The double is rounded twice: to 53 bits, then to 24.
        numpy.testing.assert_allclose(got, want, rtol=1.3e-7, atol=1e-45)
    powers = rng.integers(-160, 140, 40).astype("int32")
    with numpy.errstate(all="ignore"):
        for dtype in ("float32", "float64"):
            got = run_elementwise(lambda a, b: call("ldexp", a, b), [x.astype(dtype), powers], dtype, 8)
            numpy.testing.assert_array_equal(got, numpy.ldexp(x.astype(dtype), powers))


def test_select_and_vector_conditions(rng):
    x, y = rng.standard_normal(45).astype("float32"), rng.standard_normal(45).astype("float32")
    got = run_elementwise(lambda a, b: Select(prim.LT(a, b), a, b), [x, y], "float32", 8)
    numpy.testing.assert_array_equal(got, numpy.minimum(x, y))
    got = run_elementwise(lambda a, b: prim.And(prim.LT(a, b), prim.Not(prim.EQ(a, b))), [x, y], "bool", 8)
    numpy.testing.assert_array_equal(got, x < y)
    got = run_elementwise(lambda a, b: prim.Or(prim.LT(a, b), prim.GT(a, b)), [x, y], "bool", 1)
    numpy.testing.assert_array_equal(got, x != y)


def test_guarded_access_is_not_made():
    """if_then_else and And protect their later operands: the index would be far outside."""
    a, out = buffer("a", "float32", 4), buffer("out", "float32", 8)
    i = Var("i", "int32")
    far = BufferLoad(a, [i * const(1 << 28, "int32")])
    value = call("if_then_else", prim.LT(i, const(1, "int32")), far, const(-1.0, "float32"), dtype="float32")
    guard = prim.And(prim.LT(i, const(1, "int32")), prim.GT(far, const(0.0, "float32")))
    body = For(i, 0, 8, ForKind.SERIAL, BufferStore(out, value + cast("float32", guard), [i]))
    got = numpy.zeros(8, "float32")
    compile_raw(prim_func([a, out], body))(numpy.array([5, 6, 7, 8], "float32"), got)
    numpy.testing.assert_array_equal(got, [6] + [-1] * 7)


def test_chain_of_choices_does_not_double():
    x = buffer("x", "float32", 1)
    value = BufferLoad(x, [const(0, "int32")])
    for step in range(40):
        loaded = BufferLoad(x, [const(0, "int32")]) * const(float(step), "float32")
        value = call(
            "if_then_else",
            prim.LT(value, const(float(step), "float32")),
            value + loaded,
            value * value,
            dtype="float32",
        )
    out = buffer("out", "float32", 1)
    text, _ = emit(prim_func([x, out], BufferStore(out, value, [const(0, "int32")])))
    assert text.count("fmul") < 300


def test_deep_expression_does_not_recurse():
    x, out = buffer("x", "float32", 4), buffer("out", "float32", 4)
    i = Var("i", "int32")
    value = BufferLoad(x, [i])
    for _ in range(20000):
        value = prim.Add(value, const(1.0, "float32"))
    got = numpy.zeros(4, "float32")
    text, _ = emit(prim_func([x, out], For(i, 0, 4, ForKind.SERIAL, BufferStore(out, value, [i]))))
    assert text.count("fadd") == 20000
    shorter = BufferLoad(x, [i])
    for _ in range(500):
        shorter = prim.Add(shorter, const(1.0, "float32"))
    compile_raw(prim_func([x, out], For(i, 0, 4, ForKind.SERIAL, BufferStore(out, shorter, [i]))))(
        numpy.zeros(4, "float32"), got
    )
    numpy.testing.assert_array_equal(got, [500] * 4)


def test_shared_expression_is_written_once():
    x, out = buffer("x", "float32", 1), buffer("out", "float32", 1)
    zero = const(0, "int32")
    value = BufferLoad(x, [zero])
    for _ in range(30):
        value = prim.Mul(value, value)
    text, _ = emit(prim_func([x, out], BufferStore(out, value, [zero])))
    assert text.count("fmul") == 30


def test_load_is_repeated_after_a_store():
    x, out = buffer("x", "float32", 2), buffer("out", "float32", 2)
    zero, one = const(0, "int32"), const(1, "int32")
    load = BufferLoad(x, [zero])
    body = SeqStmt(
        [BufferStore(out, load, [zero]), BufferStore(x, const(9.0, "float32"), [zero]), BufferStore(out, load, [one])]
    )
    given, got = numpy.array([4, 0], "float32"), numpy.zeros(2, "float32")
    compile_raw(prim_func([x, out], body))(given, got)
    numpy.testing.assert_array_equal(got, [4, 9])


def test_aliased_arguments_without_the_promise():
    x, y = buffer("x", "float32", 2), buffer("y", "float32", 2)
    zero, one = const(0, "int32"), const(1, "int32")
    body = SeqStmt([
        BufferStore(y, BufferLoad(x, [zero]) + const(1.0, "float32"), [zero]),
        BufferStore(y, BufferLoad(x, [zero]) + const(1.0, "float32"), [one]),
    ])  # fmt: skip
    given = numpy.array([1, 0], "float32")
    compile_raw(prim_func([x, y], body, **{"tir.noalias": False}))(given, given)
    numpy.testing.assert_array_equal(given, [2, 3])


@pytest.mark.parametrize("stride", [-2, -1, 0, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16"])
def test_strided_vectors(stride, dtype, rng):
    x, out = buffer("x", dtype, 40), buffer("out", dtype, 8)
    start = 14
    index = Ramp(const(start, "int32"), const(stride, "int32"), 8)
    load = BufferStore(out, BufferLoad(x, [index]), [Ramp(const(0, "int32"), const(1, "int32"), 8)])
    given = (
        rng.integers(0, 2, 40).astype("bool") if dtype == "bool" else rng.integers(0, 50, 40).astype(numpy_dtype(dtype))
    )
    got = numpy.zeros(8, numpy_dtype(dtype))
    compile_raw(prim_func([x, out], load))(given, got)
    picked = [start + stride * i for i in range(8)]
    numpy.testing.assert_array_equal(got, given[picked])
    if stride:
        store = BufferStore(x, BufferLoad(out, [Ramp(const(0, "int32"), const(1, "int32"), 8)]), [index])
        changed = numpy.zeros(40, numpy_dtype(dtype))
        compile_raw(prim_func([x, out], store))(changed, got)
        want = numpy.zeros(40, numpy_dtype(dtype))
        want[picked] = got
        numpy.testing.assert_array_equal(changed, want)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16"])
@pytest.mark.parametrize("pattern", ["quotient", "remainder", "both", "far", "same"])
def test_lanes_at_known_distances(pattern, dtype, rng):
    """Quotients and remainders of the numbers of lanes: short rows that end with the array, and elements far apart."""
    lanes = Ramp(const(0, "int32"), const(1, "int32"), 16)

    def number(value):
        return Broadcast(const(value, "int32"), 16)

    i = Var("i", "int32")
    index, picked = {
        "quotient": (prim.FloorDiv(lanes, number(4)) * number(4), numpy.arange(16) // 4 * 4),
        "remainder": (call("bitwise_and", lanes, number(3)), numpy.arange(16) % 4),
        "both": (call("shift_right", lanes, number(3)) * number(5) + prim.FloorMod(lanes, number(3)),
                 numpy.arange(16) // 8 * 5 + numpy.arange(16) % 3),
        "far": (prim.FloorDiv(lanes, number(8)) * number(30) - prim.FloorMod(lanes, number(2)) + number(1),
                numpy.arange(16) // 8 * 30 - numpy.arange(16) % 2 + 1),
        "same": (prim.FloorDiv(lanes, number(16)), numpy.zeros(16, int)),
    }[pattern]  # fmt: skip
    count = int(picked.max()) + 1 + 2
    x, out, back = buffer("x", dtype, count), buffer("out", dtype, 48), buffer("back", dtype, count)
    at = [Ramp(i * const(16, "int32"), const(1, "int32"), 16)]
    load = BufferStore(out, BufferLoad(x, [Broadcast(i, 16) + index]), at)
    store = BufferStore(back, BufferLoad(out, at), [Broadcast(i, 16) + index])
    body = For(i, const(0, "int32"), const(3, "int32"), ForKind.SERIAL, SeqStmt([load, store]))
    given = rng.integers(0, 2 if dtype == "bool" else 50, count).astype(numpy_dtype(dtype))
    got, scattered = numpy.zeros(48, numpy_dtype(dtype)), numpy.zeros(count, numpy_dtype(dtype))
    compile_raw(prim_func([x, out, back], body))(given, got, scattered)
    want = numpy.zeros(count, numpy_dtype(dtype))
    for step in range(3):
        numpy.testing.assert_array_equal(got[step * 16 : step * 16 + 16], given[picked + step])
        want[picked + step] = given[picked + step]
    numpy.testing.assert_array_equal(scattered, want)


def test_gather_and_scatter_by_a_vector_of_indices(rng):
    x, which, out = buffer("x", "float32", 64), buffer("which", "int32", 8), buffer("out", "float32", 64)
    lanes = Ramp(const(0, "int32"), const(1, "int32"), 8)
    index = BufferLoad(which, [lanes]) * Broadcast(const(2, "int32"), 8)
    body = BufferStore(out, BufferLoad(x, [index]), [index + Broadcast(const(1, "int32"), 8)])
    given, picked = rng.standard_normal(64).astype("float32"), rng.permutation(31)[:8].astype("int32")
    got, want = numpy.zeros(64, "float32"), numpy.zeros(64, "float32")
    compile_raw(prim_func([x, which, out], body))(given, picked, got)
    want[picked * 2 + 1] = given[picked * 2]
    numpy.testing.assert_array_equal(got, want)


def test_shuffle_and_ramp_values(rng):
    x, out = buffer("x", "int32", 8), buffer("out", "int32", 8)
    one = const(1, "int32")
    a, b = (BufferLoad(x, [Ramp(const(k, "int32"), one, 4)]) for k in (0, 4))
    mixed = Shuffle([a, b], [const(k, "int32") for k in (7, 0, 3, 4)])
    reversed_ = Shuffle([mixed], [const(k, "int32") for k in (3, 2, 1, 0)])
    body = SeqStmt([
        BufferStore(out, mixed + Ramp(const(10, "int32"), const(5, "int32"), 4), [Ramp(const(0, "int32"), one, 4)]),
        BufferStore(out, reversed_, [Ramp(const(4, "int32"), one, 4)]),
    ])  # fmt: skip
    given, got = rng.integers(0, 100, 8).astype("int32"), numpy.zeros(8, "int32")
    compile_raw(prim_func([x, out], body))(given, got)
    picked = given[[7, 0, 3, 4]]
    numpy.testing.assert_array_equal(got, [*(picked + [10, 15, 20, 25]), *picked[::-1]])


@pytest.mark.parametrize("order", [(0, 4, 1, 5), (7, 0), (3, 2, 1, 0, 4, 5, 6, 7)])
def test_a_shuffle_of_two_vectors_is_one_instruction(order, rng):
    a, b, out = buffer("a", "int32", 4), buffer("b", "int32", 4), buffer("out", "int32", len(order))
    lanes = Ramp(const(0, "int32"), const(1, "int32"), 4)
    indices = tuple(const(at, "int32") for at in order)
    x, y = rng.integers(-9, 9, 4).astype("int32"), rng.integers(-9, 9, 4).astype("int32")
    for second, values in ((b, y), (a, x)):
        first = BufferLoad(a, [lanes])
        vectors = (first, first if second is a else BufferLoad(b, [lanes]))
        place = Ramp(const(0, "int32"), const(1, "int32"), len(order))
        func = prim_func([a, b, out], BufferStore(out, Shuffle(vectors, indices), [place]))
        text, _ = emit(func)
        assert text.count("shufflevector") == 1 and "extractelement" not in text
        got = numpy.zeros(len(order), "int32")
        compile_raw(func)(x, y, got)
        numpy.testing.assert_array_equal(got, numpy.concatenate([x, values])[list(order)])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 12, 16, 24])
@pytest.mark.parametrize("divide", [prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod])
def test_products_of_bytes_with_turned_quotients(dtype, lanes, divide, rng):
    """LLVM 22 takes them for zero on x86."""
    x, y, out = (buffer(name, dtype, lanes) for name in ("x", "y", "out"))
    forward = Ramp(const(0, "int32"), const(1, "int32"), lanes)
    backward = Ramp(const(lanes - 1, "int32"), const(-1, "int32"), lanes)
    quotient = divide(BufferLoad(x, [backward]), Broadcast(const(3, dtype), lanes))
    given = [rng.integers(*int_range(dtype), lanes, dtype=dtype) for _ in range(2)]
    got = numpy.zeros(lanes, dtype)
    compile_raw(prim_func([x, y, out], BufferStore(out, BufferLoad(y, [forward]) * quotient, [forward])))(*given, got)
    turned = given[0][::-1].astype("int32")
    floor = divide in (prim.FloorDiv, prim.FloorMod)
    whole = turned // 3 if floor else numpy.trunc(turned / 3).astype("int32")
    wanted = whole if divide in (prim.Div, prim.FloorDiv) else turned - 3 * whole
    numpy.testing.assert_array_equal(got, (given[1].astype("int32") * wanted).astype(dtype))


def test_let_binds_once(rng):
    x, out = buffer("x", "float32", 1), buffer("out", "float32", 1)
    v = Var("v", "float32")
    zero = const(0, "int32")
    value = Let(v, BufferLoad(x, [zero]) * const(3.0, "float32"), v * v)
    got = numpy.zeros(1, "float32")
    compile_raw(prim_func([x, out], BufferStore(out, value, [zero])))(numpy.array([2.0], "float32"), got)
    assert got[0] == 36


def test_unknown_variable_is_named():
    out = buffer("out", "int32", 1)
    with pytest.raises(TVMError, match="variable lost is used but never defined"):
        emit(prim_func([out], BufferStore(out, Var("lost", "int32"), [const(0, "int32")])))


def test_unknown_intrinsic_is_named():
    with pytest.raises(TVMError, match=r"does not support the intrinsic tir\.ptx_commit_group"):
        emit(prim_func([], Evaluate(Call("void", Op.get("tir.ptx_commit_group"), ()))))


def test_wrong_type_in_store_is_refused():
    out = buffer("out", "int32", 1)
    with pytest.raises(TVMError, match="cannot store a value of type float32 in buffer out of type int32"):
        emit(prim_func([out], BufferStore(out, const(1.0, "float32"), [const(0, "int32")])))
