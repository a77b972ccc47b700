"""Expressions compiled by the c back end, against NumPy. Each test compiles once: many expressions share a function."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

import tvm.tir.op
from tests.codegen.c_raw import body_of, compile_raw, run_elementwise
from tests.codegen.raw import buffer, numpy_dtype, prim_func
from tvm.dtype import int_range, with_lanes
from tvm.error import TVMError
from tvm.ir import prim
from tvm.ir.op import Op
from tvm.ir.prim import Broadcast, BufferLoad, Call, IntImm, Let, Ramp, Select, Shuffle, Var, const
from tvm.ir.primop import cast
from tvm.tir.stmt import BufferStore, Evaluate, For, ForKind, SeqStmt, seq

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def call(name, *args, dtype=None):
    return Call(dtype or args[0].dtype, Op.get("tir." + name), args)


def run_all(expressions, arrays, results, lanes=1):
    """The values of several expressions over the same arrays; the second half is done one by one."""
    size = arrays[0].size
    inputs = [buffer(f"in{k}", str(a.dtype), size) for k, a in enumerate(arrays)]
    outputs = [buffer(f"out{k}", r, size) for k, r in enumerate(results)]
    i, j = Var("i", "int32"), Var("j", "int32")
    whole = size // 2 // lanes if lanes > 1 else 0

    def stores(at):
        values = [BufferLoad(b, [at]) for b in inputs]
        return seq(*[BufferStore(o, e(*values), [at]) for o, e in zip(outputs, expressions)])

    parts = [For(i, 0, whole, ForKind.SERIAL, stores(Ramp(i * lanes, const(1, "int32"), lanes)))] if whole else []
    parts.append(For(j, whole * lanes, size - whole * lanes, ForKind.SERIAL, stores(j)))
    got = [numpy.zeros(size, numpy_dtype(r)) for r in results]
    assert compile_raw(prim_func([*inputs, *outputs], seq(*parts)))(*arrays, *got) == 0
    return got


def integer_pairs(dtype, rng):
    low, high = int_range(dtype)
    values = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 8] + ([-1, -2, -3, -7, -8] if low < 0 else [])
    values += [int(v) for v in rng.integers(low, high, 20, dtype=dtype, endpoint=True)]
    x, y = zip(*[(a, b) for a in values for b in values if b != 0 and not (a == low and b == -1)])
    return numpy.array(x, dtype), numpy.array(y, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_and_divide_by_every_sign(dtype, rng):
    x, y = integer_pairs(dtype, rng)
    order = rng.permutation(x.size)
    x, y = x[order], y[order]
    quotient = [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x, y)]
    rest = [int(a) - int(b) * q for a, b, q in zip(x, y, quotient)]
    with numpy.errstate(all="ignore"):
        rows = {
            prim.Add: x + y, prim.Sub: x - y, prim.Mul: x * y, prim.Min: numpy.minimum(x, y),
            prim.Max: numpy.maximum(x, y), prim.Div: numpy.array(quotient, dtype), prim.Mod: numpy.array(rest, dtype),
            prim.FloorDiv: x // y, prim.FloorMod: x % y,
        }  # fmt: skip
    for node, got in zip(rows, run_all(list(rows), [x, y], [dtype] * len(rows), 5)):
        numpy.testing.assert_array_equal(got, rows[node], err_msg=node.__name__)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_of_integers(dtype, rng):
    low, high = int_range(dtype)
    bits = numpy.dtype(dtype).itemsize * 8
    x = rng.integers(low, high, 41, dtype=dtype, endpoint=True)
    x[:3] = [low, high, 0]
    y = rng.integers(0, bits, 41).astype(dtype)
    unsigned = [int(v) % (1 << bits) for v in x]
    rows = {
        "bitwise_and": x & y, "bitwise_or": x | y, "bitwise_xor": x ^ y, "shift_left": x << y, "shift_right": x >> y,
    }  # fmt: skip
    single = {
        "popcount": [bin(v).count("1") for v in unsigned], "bitwise_not": ~x,
        "clz": [bits - v.bit_length() for v in unsigned],
    }  # fmt: skip
    expressions = [lambda a, b, n=n: call(n, a, b) for n in rows] + [lambda a, b, n=n: call(n, a) for n in single]
    wanted = {**rows, **single}
    for name, value in zip(wanted, run_all(expressions, [x, y], [dtype] * len(wanted), 4)):
        numpy.testing.assert_array_equal(value, wanted[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_float_arithmetic_rounds_each_step(dtype, rng):
    kind = numpy_dtype(dtype)
    x = numpy.concatenate([rng.standard_normal(200) * 10, [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 60000, 1e-7]])
    y = numpy.concatenate([rng.standard_normal(200), [1.0, 3.0, 2.0, 2.0, 1.0, 60000, 1e-7]])
    x, y = x.astype(kind), y.astype(kind)
    wide = "float64" if dtype == "float64" else "float32"
    a, b = x.astype(wide), y.astype(wide)
    with numpy.errstate(all="ignore"):
        rows = {
            prim.Add: a + b, prim.Sub: a - b, prim.Mul: a * b, prim.Div: a / b, prim.Mod: numpy.fmod(a, b),
            prim.Min: numpy.minimum(a, b), prim.Max: numpy.maximum(a, b),
        }  # fmt: skip
        compared = {
            prim.LT: a < b, prim.LE: a <= b, prim.GT: a > b, prim.GE: a >= b, prim.EQ: a == b, prim.NE: a != b,
        }  # fmt: skip
        rows = {node: value.astype(kind) for node, value in rows.items()}
    got = run_all([*rows, *compared], [x, y], [dtype] * len(rows) + ["bool"] * len(compared), 8)
    for node, value in zip(rows, got):
        numpy.testing.assert_array_equal(value.astype("float64"), rows[node].astype("float64"), err_msg=node.__name__)
    for node, value in zip(compared, got[len(rows) :]):
        numpy.testing.assert_array_equal(value, compared[node], err_msg=node.__name__)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_converts_both_ways(dtype):
    kind = numpy_dtype(dtype)
    x = numpy.arange(65536, dtype="uint16").view(kind)
    wide, back = run_all(
        [lambda a: cast("float32", a), lambda a: cast(dtype, cast("float32", a))], [x], ["float32", dtype]
    )
    numpy.testing.assert_array_equal(wide, x.astype("float32"))
    real = ~numpy.isnan(wide)
    numpy.testing.assert_array_equal(back.view("uint16")[real], x.view("uint16")[real])
    assert numpy.isnan(back.astype("float32"))[~real].all()


def test_wide_floats_and_integers_round_once_to_halves(rng):
    # Halfway between two halves, and a bit beyond it: rounding in two steps would lose the bit.
    x = numpy.concatenate([[1 + 2**-11 + 2**-40, 1 + 2**-8 + 2**-40, 65519.999, 2.0**-25 * (1 + 2**-30), 1e-8, -1e300],
                           rng.standard_normal(200)])  # fmt: skip
    half, brain = run_all([lambda a: cast("float16", a), lambda a: cast("bfloat16", a)], [x], ["float16", "bfloat16"])
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_array_equal(half, x.astype("float16"))
    assert brain[1].astype("float32") == 1.0078125
    n = rng.integers(-(2**31), 2**31 - 1, 200).astype("int64")
    (got,) = run_all([lambda a: cast("bfloat16", a)], [n], ["bfloat16"])
    numpy.testing.assert_array_equal(got, n.astype("float64").astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("source", ["int8", "uint8", "int32", "uint64", "float16", "float32", "bool"])
def test_casts(source, rng):
    x = rng.integers(0, 2 if source == "bool" else 100, 33).astype(numpy_dtype(source))
    targets = [*INTEGERS, "float16", "bfloat16", "float32", "float64", "bool"]
    got = run_all([lambda a, t=t: cast(with_lanes(t, 1) if "x" not in a.dtype else t + "x4", a) for t in targets],
                  [x], targets, 4)  # fmt: skip
    for target, value in zip(targets, got):
        numpy.testing.assert_array_equal(value, x.astype(numpy_dtype(target)), err_msg=target)


UNARY = {
    "exp": numpy.exp, "exp2": numpy.exp2, "log": numpy.log, "log2": numpy.log2, "log10": numpy.log10,
    "log1p": numpy.log1p, "sqrt": numpy.sqrt, "sin": numpy.sin, "cos": numpy.cos, "tan": numpy.tan,
    "tanh": numpy.tanh, "sinh": numpy.sinh, "cosh": numpy.cosh, "atan": numpy.arctan, "asinh": numpy.arcsinh,
    "fabs": abs, "sigmoid": lambda v: 1 / (1 + numpy.exp(-v)), "rsqrt": lambda v: 1 / numpy.sqrt(v),
    "exp10": lambda v: 10.0**v,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_of_floats(dtype, rng):
    x = rng.uniform(0.1, 4, 37).astype(dtype)
    got = run_all([lambda a, n=n: call(n, a) for n in UNARY], [x], [dtype] * len(UNARY), 4)
    limit = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    for name, value in zip(UNARY, got):
        numpy.testing.assert_allclose(value, UNARY[name](x.astype("float64")), rtol=limit, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_and_functions_of_two_floats(dtype, rng):
    step = numpy.arange(-20, 20) * 0.5
    big = [2.0**22 + 0.5, 2.0**23 + 1, 1e30, -1e30, numpy.inf, -numpy.inf, numpy.nan, 0.49999997, -0.49999997, -0.0]
    x = numpy.concatenate([step, big, rng.uniform(-1e6, 1e6, 50)]).astype(dtype)
    rows = {
        "floor": numpy.floor, "ceil": numpy.ceil, "trunc": numpy.trunc, "nearbyint": numpy.rint,
        "round": lambda v: numpy.copysign(numpy.trunc(abs(v.astype("longdouble")) + 0.5), v).astype(dtype),
    }  # fmt: skip
    for name, value in zip(rows, run_all([lambda a, n=n: call(n, a) for n in rows], [x], [dtype] * 5, 4)):
        numpy.testing.assert_array_equal(value, rows[name](x), err_msg=name)
        numpy.testing.assert_array_equal(numpy.signbit(value), numpy.signbit(rows[name](x)), err_msg=name)
    y = rng.uniform(0.5, 3, x.size).astype(dtype)
    two = {"pow": numpy.power, "atan2": numpy.arctan2, "hypot": numpy.hypot, "fmod": numpy.fmod,
           "copysign": numpy.copysign, "nextafter": numpy.nextafter}  # fmt: skip
    with numpy.errstate(all="ignore"):
        for name, value in zip(two, run_all([lambda a, b, n=n: call(n, a, b) for n in two], [x, y], [dtype] * 6)):
            numpy.testing.assert_allclose(value, two[name](x, y), rtol=1e-6, err_msg=name)


def test_classification_of_floats():
    x = numpy.array([1, numpy.nan, numpy.inf, -numpy.inf, 0], "float32")
    names = ["isnan", "isinf", "isfinite"]
    got = run_all([lambda a, n=n: call(n, a, dtype="bool") for n in names], [x], ["bool"] * 3)
    for name, value in zip(names, got):
        numpy.testing.assert_array_equal(value, getattr(numpy, name)(x), err_msg=name)


def test_literals_of_every_type_are_exact():
    values = {
        "int8": [-128, 127], "int32": [-(2**31), 2**31 - 1], "int64": [-(2**63), 2**63 - 1, 2**40],
        "uint32": [2**32 - 1], "uint64": [2**64 - 1], "bool": [True, False],
        "float32": [0.1, 1e-45, 3.4028234663852886e38, -0.0, float("inf"), float("-inf"), float("nan"), 16777217.0],
        "float64": [0.1, 5e-324, 1.7976931348623157e308, 1 / 3], "float16": [0.1, 65504.0], "bfloat16": [0.1, 3e38],
    }  # fmt: skip
    buffers, stores, wanted = [], [], []
    for dtype, numbers in values.items():
        out = buffer(f"out_{dtype}", dtype, len(numbers))
        buffers.append(out)
        stores += [BufferStore(out, const(n, dtype), [const(k, "int32")]) for k, n in enumerate(numbers)]
        wanted.append(numpy.array(numbers).astype(numpy_dtype(dtype)))
    got = [numpy.zeros(w.size, w.dtype) for w in wanted]
    compile_raw(prim_func(buffers, SeqStmt(tuple(stores))))(*got)
    for value, want in zip(got, wanted):
        numpy.testing.assert_array_equal(value, want)
        numpy.testing.assert_array_equal(numpy.signbit(value.astype("float64")), numpy.signbit(want.astype("float64")))


def test_reinterpret_keeps_the_bits(rng):
    x = rng.standard_normal(16).astype("float32")
    words, back = run_all(
        [lambda a: call("reinterpret", a, dtype=a.dtype.replace("float32", "int32")),
         lambda a: call("reinterpret", call("reinterpret", a, dtype=a.dtype.replace("float32", "uint32")),
                        dtype=a.dtype)],
        [x], ["int32", "float32"], 4,
    )  # fmt: skip
    numpy.testing.assert_array_equal(words, x.view("int32"))
    numpy.testing.assert_array_equal(back, x)


def test_reinterpret_between_numbers_of_lanes():
    x, out = buffer("x", "uint8", 16), buffer("out", "uint32", 5)
    four = BufferLoad(x, [Ramp(const(0, "int32"), const(1, "int32"), 4)])
    sixteen = BufferLoad(x, [Ramp(const(0, "int32"), const(1, "int32"), 16)])
    body = SeqStmt((
        BufferStore(out, call("reinterpret", four, dtype="uint32"), [const(4, "int32")]),
        BufferStore(out, call("reinterpret", sixteen, dtype="uint32x4"), [four.indices[0]]),
    ))  # fmt: skip
    data, got = numpy.arange(16, dtype="uint8"), numpy.zeros(5, "uint32")
    compile_raw(prim_func([x, out], body))(data, got)
    numpy.testing.assert_array_equal(got, [*data.view("uint32"), data.view("uint32")[0]])


def test_choice_reads_only_the_chosen_side():
    """The index that is not chosen lies far outside of the array."""
    x, out = buffer("x", "float32", 4), buffer("out", "float32", 8)
    i = Var("i", "int32")
    far = BufferLoad(x, [i * 100000000])
    for lanes in (1, 8):
        at = Ramp(const(0, "int32"), const(1, "int32"), 8) if lanes > 1 else i
        index = BufferLoad(x, [Ramp(i * 100000000, const(1, "int32"), 8)]) if lanes > 1 else far
        zero = Broadcast(const(0.0, "float32"), 8) if lanes > 1 else const(0.0, "float32")
        # The square makes the chosen side need a name of its own.
        value = call("if_then_else", i < 1, index * index, zero, dtype=zero.dtype)
        got = numpy.ones(8, "float32")
        data = numpy.full(8, 3, "float32")
        compile_raw(prim_func([x, out], For(i, 0, 8, ForKind.SERIAL, BufferStore(out, value, [at]))))(data, got)
        numpy.testing.assert_array_equal(got, [9.0] + [0.0] * 7 if lanes == 1 else [0.0] * 8)


def test_and_or_decide_left_to_right():
    x, out = buffer("x", "int32", 4), buffer("out", "int32", 8)
    i = Var("i", "int32")
    element = BufferLoad(x, [i * 50000000])
    inside = prim.And(i < 1, (element * element) > 3)
    outside = prim.Or(i > 0, (element * element) > 3)
    value = cast("int32", inside) + cast("int32", outside) * 2
    got = numpy.zeros(8, "int32")
    compile_raw(prim_func([x, out], For(i, 0, 8, ForKind.SERIAL, BufferStore(out, value, [i]))))(
        numpy.array([2, 0, 0, 0], "int32"), got
    )
    numpy.testing.assert_array_equal(got, [3] + [2] * 7)


def test_vectors_of_odd_lanes_shuffle_and_combine(rng):
    x, out = buffer("x", "float32", 16), buffer("out", "float32", 32)

    def row(begin, lanes, stride=1):
        return Ramp(const(begin, "int32"), const(stride, "int32"), lanes)

    seven, three, four = (BufferLoad(x, [row(0, n)]) for n in (7, 3, 4))
    condition = Select(prim.LT(seven, Broadcast(const(0.0, "float32"), 7)), seven * Broadcast(const(2.0, "float32"), 7),
                       seven)  # fmt: skip
    body = SeqStmt((
        BufferStore(out, condition, [row(0, 7)]),
        BufferStore(out, Shuffle([three, four], [const(k, "int32") for k in (6, 0, 2)]), [row(7, 3)]),
        BufferStore(out, Shuffle([four], [const(2, "int32")]), [const(10, "int32")]),
        BufferStore(out, call("vectorcombine", call("vectorhigh", four, dtype="float32x2"),
                              call("vectorlow", four, dtype="float32x2"), dtype="float32x4"), [row(11, 4)]),
        # Strided, reversed, and gathered elements.
        BufferStore(out, BufferLoad(x, [row(15, 5, -3)]), [row(16, 5, 2)]),
        BufferStore(out, Broadcast(call("sqrt", call("fabs", BufferLoad(x, [const(5, "int32")]))), 3), [row(29, 3)]),
    ))  # fmt: skip
    data, got = rng.standard_normal(16).astype("float32"), numpy.zeros(32, "float32")
    compile_raw(prim_func([x, out], body))(data, got)
    want = numpy.zeros(32, "float32")
    want[:7] = numpy.where(data[:7] < 0, data[:7] * 2, data[:7])
    want[7:10] = [data[3], data[0], data[2]]
    want[10] = data[2]
    want[11:15] = [data[2], data[3], data[0], data[1]]
    want[16:26:2] = data[15:2:-3]
    want[29:32] = numpy.sqrt(abs(data[5]))
    numpy.testing.assert_array_equal(got, want)


def test_vector_store_reads_every_lane_before_it_writes_one():
    x = buffer("x", "int32", 9)
    head, tail = (Ramp(const(k, "int32"), const(1, "int32"), 8) for k in (0, 1))
    for source, target, want in ((head, tail, [0, *range(8)]), (tail, head, [*range(1, 9), 8])):
        got = numpy.arange(9, dtype="int32")
        compile_raw(prim_func([x], BufferStore(x, BufferLoad(x, [source]), [target])))(got)
        numpy.testing.assert_array_equal(got, want)


def test_let_of_scalars_and_vectors(rng):
    a, b = Var("a", "float32x4"), Var("b", "float32")

    def expression(x):
        if "x" in x.dtype:
            return Let(a, x + x, Let(b, const(3.0, "float32"), a * a + Broadcast(b, 4)))
        return Let(b, x + x, b * b + const(3.0, "float32"))

    x = rng.standard_normal(10).astype("float32")
    numpy.testing.assert_array_equal(run_elementwise(expression, [x], "float32", 4), (x + x) * (x + x) + 3)


def test_shared_expression_is_written_once():
    x, out = buffer("x", "float32", 1), buffer("out", "float32", 1)
    zero = const(0, "int32")
    value = BufferLoad(x, [zero])
    for _ in range(30):
        value = value + value
    function = prim_func([x, out], BufferStore(out, value, [zero]))
    assert body_of(function).count(" + ") == 30
    chain = BufferLoad(x, [zero])
    for _ in range(40):
        chain = call("if_then_else", chain > 0.5, chain * 0.5, chain + 0.25, dtype="float32")
    assert len(body_of(prim_func([x, out], BufferStore(out, chain, [zero])))) < 20000
    got = numpy.zeros(1, "float32")
    compile_raw(function)(numpy.ones(1, "float32"), got)
    assert got[0] == 2.0**30


def test_deep_expression_does_not_recurse():
    x, out = buffer("x", "float32", 4), buffer("out", "float32", 4)
    i = Var("i", "int32")

    def chain(depth):
        value = BufferLoad(x, [i])
        for _ in range(depth):
            value = prim.Add(value, const(1.0, "float32"))
        return prim_func([x, out], For(i, 0, 4, ForKind.SERIAL, BufferStore(out, value, [i])))

    text = body_of(chain(20000))
    assert text.count(" + ") == 20000
    assert max(len(line) for line in text.splitlines()) < 200
    got = numpy.zeros(4, "float32")
    compile_raw(chain(500))(numpy.zeros(4, "float32"), got)
    numpy.testing.assert_array_equal(got, [500] * 4)


def test_index_arithmetic_reads_plainly_and_data_wraps():
    x, out = buffer("x", "int32", 64), buffer("out", "int32", 64)
    i, j = Var("i", "int32"), Var("j", "int32")
    index = i * 8 + j
    body = For(i, 0, 8, ForKind.SERIAL, For(j, 0, 8, ForKind.SERIAL,
                                            BufferStore(out, BufferLoad(x, [index]) * index, [index])))  # fmt: skip
    text = body_of(prim_func([x, out], body))
    assert "const int32_t t = (i * 8) + j;" in text
    assert "out[t] = (int32_t)((uint32_t)x[t] * (uint32_t)t);" in text


def test_fixed_point_product():
    x = numpy.array([1, -1, 100, 2**30, -(2**30), 12345, 7], "int32")
    y = numpy.array([2**30, 2**30, 2**30 + 7, 2**30, 2**29, 1234567, 2**30], "int32")

    def expression(a, b):
        return call("q_multiply_shift", a, b, const(31, "int32"), const(1, "int32"))

    (got,) = run_all([expression], [x, y], ["int32"])
    numpy.testing.assert_array_equal(got, [(2 * int(a) * int(b) + (1 << 30)) >> 31 for a, b in zip(x, y)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: call("dp4a", const(1, "int32"), const(1, "int32"), const(1, "int32")), "the intrinsic tir.dp4a"),
        (lambda: Var("unknown", "int32") + 1, "variable unknown is used but never defined"),
        (lambda: call("exp", const(1, "int32")), "exp: the operands must be floats, got int32"),
        (lambda: Shuffle([const(1, "int32")], [const(4, "int32")]), "literals below 1"),
        (lambda: call("call_llvm_pure_intrin", prim.StringImm("llvm.floor"), dtype="int32"), "build for target llvm"),
        (lambda: call("call_extern", IntImm("int32", 3), dtype="int32"), "the name of the function"),
        (lambda: prim.Add(const(True, "bool"), const(True, "bool")), "arithmetic on bool"),
    ],
)
def test_refused_expressions(make, message):
    out = buffer("out", "int32", 4)
    value = make()
    stored = value if value.dtype == "int32" else cast("int32", value)
    with pytest.raises(TVMError, match=message):
        body_of(prim_func([out], BufferStore(out, stored, [const(0, "int32")])))


def test_statement_left_over_from_lowering_is_refused():
    out = buffer("out", "int32", 4)
    two = tvm.tir.buffer.decl_buffer((2, 2), "int32", "two", data=out.data)
    zero = const(0, "int32")
    with pytest.raises(TVMError, match="two has 2 dimensions; run StorageFlatten"):
        body_of(prim_func([out], BufferStore(two, zero, [zero, zero])))
    with pytest.raises(TVMError, match="loop i is still vectorized"):
        body_of(prim_func([out], For(Var("i", "int32"), 0, 4, ForKind.VECTORIZED, Evaluate(zero))))
    with pytest.raises(TVMError, match="cannot store a value of type float32"):
        body_of(prim_func([out], BufferStore(out, const(1.0, "float32"), [zero])))
