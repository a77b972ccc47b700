"""float32 functions as vector formulas, accurate to a few units in the last place, including NaN, infinities, zeros and
subnormals.

Each function takes and returns ``Value`` objects. The polynomials were fitted on the reduced ranges given in the
comments.
"""

from __future__ import annotations

import math

from ...dtype import info
from .round import truncate
from .vector import Value

_INFINITY, _NAN = math.inf, math.nan
# Adding 1.5 * 2^23 stores the nearest integer in the low bits.
_MAGIC = 12582912.0
_MAGIC_BITS = 0x4B400000
_LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has trailing zero bits, so its product with a small integer is exact.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440054690581e-4

# exp(r) = 1 + r + r^2 P(r), |r| <= ln(2) / 2
_EXP = (0.00019790248, 0.001394476, 0.0083334977, 0.0416662936, 0.1666666586, 0.5000000068)
# log(1 + f) = f - f^2 / 2 + f^3 P(f), sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (
    0.06757533276, -0.11694334766, 0.11893529625, -0.12403085099, 0.14218552164, -0.16668090195, 0.20002167174,
    -0.25000008716, 0.33333311965,
)  # fmt: skip
# tanh(x) = x + x^3 P(x^2), |x| <= 0.625
_TANH = (-0.005714673499, 0.020648561349, -0.053742909343, 0.133314846577, -0.333332836984)
# erf(x) = x + x P(x^2), |x| <= 0.93
_ERF_SMALL = (8.34522486e-05, -0.000813743775, 0.005200634348, -0.026859270817, 0.112836939433, -0.376126336973,
              0.128379166642)  # fmt: skip
# 1 - erf(x) = exp(-Q(x)), 0.91 <= x <= 3.95
_ERF_LARGE = (2.10389793e-05, -0.000433796263, 0.004167743628, -0.02511044112, 0.108265807076, 0.633360237701,
              1.129508160595, -0.000173240819)  # fmt: skip
# sin(r) = r + r^3 P(r^2) and cos(r) = 1 - r^2 / 2 + r^4 P(r^2), |r| <= pi / 4
_SIN = (2.717564322e-06, -0.000198392566, 0.008333329144, -0.166666666396)
_COS = (2.443120217e-05, -0.001388730602, 0.041666645652)
# atan(x) = x + x^3 P(x^2), |x| <= 1
_ATAN = (-0.00182717748, 0.01106428448, -0.031455415095, 0.058234268852, -0.084194431547, 0.109575709547,
         -0.142652444406, 0.199986385391, -0.333333018642)  # fmt: skip
# asin(x) = x + x^3 P(x^2), |x| <= 1/2
_ASIN = (0.042278567291, 0.02411445841, 0.045483341286, 0.074951960572, 0.166667549506)


def _nearest(x: Value) -> tuple[Value, Value]:
    """Return the nearest integer to a value below 2^22, as float and as int32."""
    shifted = x + _MAGIC
    return shifted - _MAGIC, shifted.bits() - _MAGIC_BITS


def _exp_reduced(r: Value) -> Value:
    return (r * r).times_plus(r.polynomial(_EXP), r + 1.0)


def _wide(x: Value) -> bool:
    """Return whether the 16-lane instructions of AVX-512 are available."""
    return x.b.module.cpu.has_avx512 and info(x.dtype).lanes == 16


def _instruction(name: str, x: Value, *others: Value, tail: str = "") -> Value:
    """Emit an AVX-512 instruction on all lanes."""
    kind = x.type_text
    texts = ", ".join(f"{kind} {v.text}" for v in (x, *others, x.constant(0.0)))
    types = ", ".join([kind] * (len(others) + 2) + ["i16"] + (["i32"] if tail else []))
    function = x.b.module.declare(f"llvm.x86.avx512.{name}.512", kind, types)
    return Value(x.b, x.dtype, x.b.op(f"call {kind} {function}({texts}, i16 -1{tail})"))


def _reciprocal(x: Value) -> Value:
    """Return 1 / x for numbers with a normal reciprocal: a 14-bit estimate with one Newton step."""
    if not _wide(x):
        return x.constant(1.0) / x
    guess = _instruction("rcp14.ps", x)
    return guess.times_plus((-x).times_plus(guess, 1.0), guess)


def _scale(x: Value, whole: Value, power: Value) -> Value:
    """Return x * 2^power, also if the output overflows or is subnormal; two multiplications if no instruction does it.
    ``whole`` is the power as a float."""
    if _wide(x):
        return _instruction("mask.scalef.ps", x, whole, tail=", i32 4")
    half = power >> 1
    return x * ((half + 127) << 23).bits() * (((power - half) + 127) << 23).bits()


def _clamp(x: Value, low: float, high: float) -> Value:
    """Clamp a value to limits; NaN is preserved."""
    x = x.less(low).choose(low, x)
    return x.greater(high).choose(high, x)


def exp(x: Value) -> Value:
    x = _clamp(x, -104.0, 89.0)
    whole, power = _nearest(x * _LOG2_E)
    r = whole.times_plus(-_LN2_LOW, whole.times_plus(-_LN2_HIGH, x))
    return _scale(_exp_reduced(r), whole, power)


def _exp_normal(x: Value) -> Value:
    """Return exp of a value whose exponential is a normal float."""
    whole, power = _nearest(x * _LOG2_E)
    r = whole.times_plus(-_LN2_LOW, whole.times_plus(-_LN2_HIGH, x))
    return _exp_reduced(r) * ((power + 127) << 23).bits()


def exp2(x: Value) -> Value:
    x = _clamp(x, -151.0, 129.0)
    whole, power = _nearest(x)
    return _scale(_exp_reduced((x - whole) * math.log(2.0)), whole, power)


def exp10(x: Value) -> Value:
    x = _clamp(x, -46.0, 39.0)
    whole, power = _nearest(x * math.log2(10.0))
    # log10(2) in two parts, as for ln 2.
    r = whole.times_plus(-4.60503898119521373e-6, whole.times_plus(-0.301025390625, x))
    return _scale(_exp_reduced(r * math.log(10.0)), whole, power)


def _split(x: Value) -> tuple[Value, Value]:
    """Return f and power with x = (1 + f) * 2^power and 1 + f near one, for positive finite x."""
    small = x.less(2.0**-126)
    x = small.choose(x * 2.0**23, x)
    bits = x.bits()
    # An exponent offset of sqrt(1/2) puts the fraction between sqrt(1/2) and sqrt(2).
    offset = bits - 0x3F3504F3
    power = offset >> 23
    fraction = (bits - (power << 23)).bits()
    power = small.choose(power - 23, power)
    return fraction - 1.0, power.convert("float32")


def _log_fraction(f: Value) -> Value:
    """Return log(1 + f) - f."""
    square = f * f
    return (square * f).times_plus(f.polynomial(_LOG), square * -0.5)


def _log_edges(x: Value, result: Value) -> Value:
    result = x.equal(_INFINITY).choose(_INFINITY, result)
    result = x.equal(0.0).choose(-_INFINITY, result)
    result = x.less(0.0).choose(_NAN, result)
    return x.is_nan().choose(x, result)


def log(x: Value) -> Value:
    f, power = _split(x)
    low = power.times_plus(_LN2_LOW, _log_fraction(f))
    return _log_edges(x, power.times_plus(_LN2_HIGH, low + f))


def log2(x: Value) -> Value:
    f, power = _split(x)
    tail = _log_fraction(f)
    # log2(e) = 1 + 0.4427: the integer part needs no multiplication.
    part = (tail + f) * 0.44269504088896340736
    return _log_edges(x, (part + tail) + f + power)


def log10(x: Value) -> Value:
    f, power = _split(x)
    natural = f + _log_fraction(f)
    low = natural.times_plus(0.43429448190325182765, power * 4.60503898119521373e-6)
    return _log_edges(x, power.times_plus(0.301025390625, low))


def log1p(x: Value) -> Value:
    total = x + 1.0
    # Add the rounding error of x + 1, to first order.
    lost = x - (total - 1.0)
    result = log(total) + lost / total
    result = x.absolute().less(2.0**-24).choose(x, result)
    return x.equal(_INFINITY).choose(_INFINITY, x.equal(-1.0).choose(-_INFINITY, result))


def sigmoid(x: Value) -> Value:
    small = exp(-x.absolute())
    share = _reciprocal(small + 1.0)
    return x.less(0.0).choose(small * share, share)


def tanh(x: Value) -> Value:
    size = x.absolute()
    square = x * x
    near = (square * x).times_plus(square.polynomial(_TANH), x)
    double = exp(_clamp(size, 0.0, 20.0) * 2.0)
    far = x.constant(1.0) - _reciprocal(double + 1.0) * 2.0
    # Multiplication with a negative polynomial would turn -0 into 0.
    return size.less(0.625).choose(near, far).with_sign_of(x)


def sinh(x: Value) -> Value:
    size = x.absolute()
    square = x * x
    near = (square * x).times_plus(square.polynomial((1 / 362880, 1 / 5040, 1 / 120, 1 / 6)), x)
    # The factor 1/2 is applied before squaring, so that this overflows only if sinh does.
    root = exp(size * 0.5)
    half = root * 0.5 * root
    far = half - x.constant(0.25) / half
    return size.less(1.0).choose(near, far.with_sign_of(x))


def cosh(x: Value) -> Value:
    root = exp(x.absolute() * 0.5)
    half = root * 0.5 * root
    return half + x.constant(0.25) / half


def erf(x: Value) -> Value:
    size = x.absolute()
    square = x * x
    near = x.times_plus(square.polynomial(_ERF_SMALL), x)
    # Beyond the limit, erf rounds to one.
    limited = size.greater(3.95).choose(3.95, size)
    far = x.constant(1.0) - _exp_normal(-limited.polynomial(_ERF_LARGE))
    return size.less(0.92).choose(near, far.with_sign_of(x))


def _quadrant(x: Value) -> tuple[Value, Value]:
    """Return x minus the nearest multiple of pi/2, and the index of that multiple; accurate for absolute values below
    2^28."""
    wide = x.convert("float64")
    shifted = wide * (2.0 / math.pi) + 6755399441055744.0
    whole = shifted - 6755399441055744.0
    number = shifted.bits().convert("int32")
    # pi/2 in three parts; the first two have trailing zero bits, so their products are exact.
    r = wide - whole * 1.57079631090164184570
    r = r - whole * 1.58932547122958567343e-8
    r = r - whole * 6.12323399573676603587e-17
    return r.convert("float32"), number


def _sine_cosine(r: Value) -> tuple[Value, Value]:
    square = r * r
    sine = (square * r).times_plus(square.polynomial(_SIN), r)
    cosine = (square * square).times_plus(square.polynomial(_COS), square.times_plus(-0.5, 1.0))
    return sine, cosine


def _sine_of_quadrant(x: Value, turn: int) -> Value:
    r, number = _quadrant(x)
    sine, cosine = _sine_cosine(r)
    number = number + turn
    got = (number & 1).differs(0).choose(cosine, sine)
    return (got.bits() ^ ((number & 2) << 30)).bits()


def sin(x: Value) -> Value:
    # Adding zero would lose the sign of -0.
    return x.equal(0.0).choose(x, _sine_of_quadrant(x, 0))


def cos(x: Value) -> Value:
    return _sine_of_quadrant(x, 1)


def tan(x: Value) -> Value:
    r, number = _quadrant(x)
    sine, cosine = _sine_cosine(r)
    odd = (number & 1).differs(0)
    return x.equal(0.0).choose(x, odd.choose(-cosine, sine) / odd.choose(sine, cosine))


def atan(x: Value) -> Value:
    size = x.absolute()
    outside = size.greater(1.0)
    reduced = outside.choose(x.constant(1.0) / size, size)
    square = reduced * reduced
    angle = (square * reduced).times_plus(square.polynomial(_ATAN), reduced)
    # pi/2 - angle, with a correction for the rounding error of pi/2 in float32.
    far = (x.constant(math.pi / 2) - angle) + -4.371139000186241e-8
    return outside.choose(far, angle).with_sign_of(x)


def asin(x: Value) -> Value:
    size = x.absolute()
    outside = size.greater(0.5)
    root = ((x.constant(1.0) - size) * 0.5).intrinsic("sqrt")
    reduced = outside.choose(root, size)
    square = reduced * reduced
    angle = (square * reduced).times_plus(square.polynomial(_ASIN), reduced)
    far = x.constant(math.pi / 2) - angle * 2.0
    return outside.choose(far, angle).with_sign_of(x)


def acos(x: Value) -> Value:
    size = x.absolute()
    outside = size.greater(0.5)
    root = ((x.constant(1.0) - size) * 0.5).intrinsic("sqrt")
    reduced = outside.choose(root, x)
    square = reduced * reduced
    angle = (square * reduced).times_plus(square.polynomial(_ASIN), reduced)
    twice = angle * 2.0
    far = x.less(0.0).choose((x.constant(math.pi) - twice) + -8.742278000372485e-8, twice)
    near = (x.constant(math.pi / 2) - angle) + -4.371139000186241e-8
    return outside.choose(far, near)


def power(x: Value, y: Value) -> Value:
    """Return x^y, computed in float64, where the logarithm and its product with y are accurate enough for float32."""
    size, exponent = x.absolute(), y.convert("float64")
    raised = _exp2_wide(_log2_wide(size.convert("float64")) * exponent).convert("float32")
    # Cases in which zero is multiplied by infinity, and a base of one.
    raised = size.equal(1.0).choose(1.0, raised)
    half = y * 0.5
    whole = truncate(y).equal(y) | y.absolute().equal(_INFINITY)
    odd = whole & truncate(half).differs(half) & y.absolute().less(2.0**24)
    raised = odd.choose((raised.bits() | (x.bits() & -(1 << 31))).bits(), raised)
    undefined = x.less(0.0) & x.differs(-_INFINITY) & whole.invert()
    raised = undefined.choose(_NAN, raised)
    raised = (x.is_nan() | y.is_nan()).choose(_NAN, raised)
    return (x.equal(1.0) | y.equal(0.0)).choose(1.0, raised)


def _log2_wide(x: Value) -> Value:
    """Return log2 of a non-negative float64 that was converted from float32 and is therefore not subnormal."""
    bits = x.bits()
    power = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = (bits - (power << 52)).bits()
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = square.polynomial(tuple(1.0 / (2 * k + 1) for k in range(8, -1, -1)))
    got = power.convert("float64") + s * series * (2.0 / math.log(2.0))
    got = x.equal(0.0).choose(-_INFINITY, got)
    return x.equal(_INFINITY).choose(_INFINITY, got)


def _exp2_wide(x: Value) -> Value:
    x = _clamp(x, -1000.0, 1000.0)
    shifted = x + 6755399441055744.0
    whole = shifted - 6755399441055744.0
    r = (x - whole) * math.log(2.0)
    series = r.polynomial(tuple(1.0 / math.factorial(k) for k in range(12, -1, -1)))
    return series * ((shifted.bits() + 1023) << 52).bits()


UNARY = {
    "exp": exp, "exp2": exp2, "exp10": exp10, "log": log, "log2": log2, "log10": log10, "log1p": log1p,
    "sigmoid": sigmoid, "tanh": tanh, "sinh": sinh, "cosh": cosh, "erf": erf, "sin": sin, "cos": cos, "tan": tan,
    "atan": atan, "asin": asin, "acos": acos,
}  # fmt: skip
BINARY = {"pow": power}

# Above these values the argument reduction in float64 is inaccurate, and libm is called.
LARGE = {"sin": 2.0**28, "cos": 2.0**28, "tan": 2.0**28}
