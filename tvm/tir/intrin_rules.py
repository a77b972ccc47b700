"""Rules that lower an intrinsic to simpler operations.

``DEFAULT`` rules apply to every back end (attribute ``default.FLowerIntrinsic``). ``FALLBACK`` rules are for back ends
that lack an instruction or library function; a back end registers the rules it needs with ``use_fallback``. Each rule
takes the call and returns an expression, or the call itself if it is not lowered. An operand that occurs several times
in the returned expression is one shared node, not a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..dtype import info, make, with_lanes
from ..ir import primop
from ..ir.op import register_intrin_lowering
from ..ir.prim import Call, PrimExpr, const
from . import op

Rule = Callable[[Call], PrimExpr]


def _like(e: PrimExpr, value: float) -> PrimExpr:
    return const(value, e.dtype)


def _signed(magnitude: PrimExpr, sign: PrimExpr) -> PrimExpr:
    """Return ``magnitude`` with the sign of ``sign``; minus zero and NaN are preserved."""
    return op.copysign(magnitude, sign)


# --- exponentials and logarithms -------------------------------------------------------------------------------------


def _exp10(call: Call) -> PrimExpr:
    x = call.args[0]
    return op.exp(x * _like(x, math.log(10.0)))


def _exp2(call: Call) -> PrimExpr:
    x = call.args[0]
    return op.exp(x * _like(x, math.log(2.0)))


def _log_base(base: float) -> Rule:
    def rule(call: Call) -> PrimExpr:
        x = call.args[0]
        return op.log(x) * _like(x, 1.0 / math.log(base))

    return rule


def _log1p(call: Call) -> PrimExpr:
    # Multiplying by x / (u - 1) cancels the rounding error of u = 1 + x.
    x = call.args[0]
    u = x + _like(x, 1.0)
    corrected = op.log(u) * (x / (u - _like(x, 1.0)))
    whole = primop.logical_or(primop.equal(u, _like(x, math.inf)), primop.less_equal(u, _like(x, 0.0)))
    return primop.select(primop.equal(u, _like(x, 1.0)), x, primop.select(whole, op.log(u), corrected))


def _sigmoid(call: Call) -> PrimExpr:
    x = call.args[0]
    one = _like(x, 1.0)
    return one / (one + op.exp(_like(x, 0.0) - x))


def _rsqrt(call: Call) -> PrimExpr:
    x = call.args[0]
    return _like(x, 1.0) / op.sqrt(x)


def _hypot(call: Call) -> PrimExpr:
    # Both operands are divided by the larger one, so that squares neither overflow nor underflow. Max and Min are not
    # used because their result for NaN depends on the target.
    a, b = op.abs(call.args[0]), op.abs(call.args[1])
    swap = primop.less(a, b)
    large, small = primop.select(swap, b, a), primop.select(swap, a, b)
    ratio = small / large
    scaled = large * op.sqrt(_like(a, 1.0) + ratio * ratio)
    either = primop.logical_or(primop.equal(a, _like(a, math.inf)), primop.equal(b, _like(a, math.inf)))
    special = primop.logical_or(primop.equal(large, _like(a, 0.0)), either)
    return primop.select(special, primop.select(either, _like(a, math.inf), a + b), scaled)


def _ldexp(call: Call) -> PrimExpr:
    # Two multiplications by powers of two: the exponent may exceed the range of the type although the product does not.
    x, n = call.args
    half = primop.cast(x.dtype, n) * _like(x, 0.5)
    low = op.floor(half)
    return x * op.exp2(low) * op.exp2(primop.cast(x.dtype, n) - low)


# --- hyperbolic functions --------------------------------------------------------------------------------------------


def _sinh(call: Call) -> PrimExpr:
    x = call.args[0]
    a = op.abs(x)
    square = x * x
    # Below one the two exponentials nearly cancel; the series is accurate there.
    terms = 10 if info(x.dtype).bits == 64 else 6
    series = _like(x, 1.0 / math.factorial(2 * terms + 1))
    for k in range(terms - 1, -1, -1):
        series = series * square + _like(x, 1.0 / math.factorial(2 * k + 1))
    # exp(a) / 2 is computed as a square of exp(a / 2), because exp(a) overflows earlier than exp(a) / 2.
    root = op.exp(a * _like(x, 0.5))
    large = root * _like(x, 0.5) * root - _like(x, 0.5) / (root * root)
    return primop.select(primop.less(a, _like(x, 1.0)), x * series, _signed(large, x))


def _cosh(call: Call) -> PrimExpr:
    x = call.args[0]
    root = op.exp(op.abs(x) * _like(x, 0.5))
    return root * _like(x, 0.5) * root + _like(x, 0.5) / (root * root)


def _asinh(call: Call) -> PrimExpr:
    x = call.args[0]
    a = op.abs(x)
    square = a * a
    near = op.log1p(a + square / (_like(x, 1.0) + op.sqrt(_like(x, 1.0) + square)))
    far = op.log(a) + _like(x, math.log(2.0))
    return _signed(primop.select(primop.greater(a, _like(x, _BIG[info(x.dtype).bits])), far, near), x)


def _acosh(call: Call) -> PrimExpr:
    x = call.args[0]
    t = x - _like(x, 1.0)
    # The product of two large negative numbers is positive, but acosh of them is not a number, like sqrt(t).
    square = primop.select(primop.less(x, _like(x, 1.0)), t, t * (x + _like(x, 1.0)))
    near = op.log1p(t + op.sqrt(square))
    far = op.log(x) + _like(x, math.log(2.0))
    return primop.select(primop.greater(x, _like(x, _BIG[info(x.dtype).bits])), far, near)


def _atanh(call: Call) -> PrimExpr:
    x = call.args[0]
    a = op.abs(x)
    value = _like(x, 0.5) * op.log1p(_like(x, 2.0) * a / (_like(x, 1.0) - a))
    return _signed(value, x)


# Values whose square exceeds the precision of the type but is still finite.
_BIG = {16: 128.0, 32: 1e10, 64: 1e100}


def _tan(call: Call) -> PrimExpr:
    x = call.args[0]
    return op.sin(x) / op.cos(x)


# --- classes of floats -----------------------------------------------------------------------------------------------


def _isinf(call: Call) -> PrimExpr:
    x = call.args[0]
    return primop.equal(op.abs(x), op.infinity(x.dtype))


def _isfinite(call: Call) -> PrimExpr:
    x = call.args[0]
    return primop.less(op.abs(x), op.infinity(x.dtype))


def _isnan(call: Call) -> PrimExpr:
    x = call.args[0]
    return primop.not_equal(x, x)


# --- bits ------------------------------------------------------------------------------------------------------------


def _bits_type(dtype: str, code: str = "uint") -> str:
    kind = info(dtype)
    return make(code, kind.bits, kind.lanes)


def _copysign(call: Call) -> PrimExpr:
    x, y = call.args
    kind = _bits_type(x.dtype)
    sign = 1 << (info(x.dtype).bits - 1)
    low = primop.bitwise_and(op.reinterpret(kind, x), const(sign - 1, kind))
    high = primop.bitwise_and(op.reinterpret(kind, y), const(sign, kind))
    return op.reinterpret(x.dtype, primop.bitwise_or(low, high))


def _popcount(call: Call) -> PrimExpr:
    x = call.args[0]
    width = info(x.dtype).bits
    kind = _bits_type(x.dtype)
    v = op.reinterpret(kind, x)

    def mask(pattern: int) -> PrimExpr:
        return const(int.from_bytes(bytes([pattern]) * (width // 8), "little"), kind)

    def shifted(e: PrimExpr, n: int) -> PrimExpr:
        return primop.right_shift(e, const(n, kind))

    v = v - primop.bitwise_and(shifted(v, 1), mask(0x55))
    v = primop.bitwise_and(v, mask(0x33)) + primop.bitwise_and(shifted(v, 2), mask(0x33))
    v = primop.bitwise_and(v + shifted(v, 4), mask(0x0F))
    step = 8
    while step < width:
        v = v + shifted(v, step)
        step *= 2
    return primop.cast(x.dtype, primop.bitwise_and(v, const(0xFF, kind)))


def _clz(call: Call) -> PrimExpr:
    # Set every bit below the highest set bit; the clear bits that remain are the leading zeros.
    x = call.args[0]
    width = info(x.dtype).bits
    kind = _bits_type(x.dtype)
    v = op.reinterpret(kind, x)
    step = 1
    while step < width:
        v = primop.bitwise_or(v, primop.right_shift(v, const(step, kind)))
        step *= 2
    return primop.cast(call.dtype, op.popcount(primop.bitwise_not(v)))


def _fma(call: Call) -> PrimExpr:
    x, y, z = call.args
    return x * y + z


# --- fixed point -----------------------------------------------------------------------------------------------------


def _wide(e: PrimExpr) -> PrimExpr:
    return primop.cast(with_lanes("int64", info(e.dtype).lanes), e)


def _rounded_right_shift(value: PrimExpr, by: PrimExpr) -> PrimExpr:
    """Return ``value`` divided by 2 ** ``by`` (``by`` is at least one), rounded half up."""
    one = const(1, value.dtype)
    half = primop.left_shift(one, by - one)
    return primop.right_shift(value + half, by)


def _q_multiply_shift(call: Call) -> PrimExpr:
    x, y, q, s = (_wide(a) for a in call.args)
    zero = const(0, s.dtype)
    left, right = primop.maximum(s, zero), primop.maximum(zero - s, zero)
    x, y, q = (primop.match_types(e, x)[0] for e in (x, y, q))
    left, right = (primop.match_types(e, x)[0] for e in (left, right))
    product = primop.left_shift(x, left) * y
    return primop.cast(call.dtype, _rounded_right_shift(product, q + right))


def _q_multiply_shift_per_axis(call: Call) -> PrimExpr:
    x, y, left, right, q = (_wide(a) for a in call.args[:5])
    y, left, right, q = (primop.match_types(e, x)[0] for e in (y, left, right, q))
    needs_left = primop.not_equal(call.args[5], const(0, call.args[5].dtype))
    product = primop.select(needs_left, primop.left_shift(x, left), x) * y
    return primop.cast(call.dtype, _rounded_right_shift(product, q + right))


def _large_uint_imm(call: Call) -> PrimExpr:
    low, high = (int(a.value) for a in call.args)
    return const((high << 32) + low, call.dtype)


DEFAULT: dict[str, Rule] = {
    "exp10": _exp10, "sigmoid": _sigmoid, "rsqrt": _rsqrt, "hypot": _hypot, "ldexp": _ldexp, "tan": _tan,
    "sinh": _sinh, "cosh": _cosh, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh, "isinf": _isinf,
    "isfinite": _isfinite, "q_multiply_shift": _q_multiply_shift,
    "q_multiply_shift_per_axis": _q_multiply_shift_per_axis, "large_uint_imm": _large_uint_imm,
}  # fmt: skip

FALLBACK: dict[str, Rule] = {
    "exp2": _exp2, "log2": _log_base(2.0), "log10": _log_base(10.0), "log1p": _log1p, "isnan": _isnan,
    "copysign": _copysign, "popcount": _popcount, "clz": _clz, "fma": _fma,
}  # fmt: skip


def use_fallback(target: str, names: Iterable[str]) -> None:
    """Register the fallback rules of these intrinsics for a target."""
    for name in names:
        register_intrin_lowering("tir." + name, target, f=FALLBACK[name])


# Intrinsics with a default rule for which a back end has its own functions.
_LIBRARY = (
    "exp10", "sigmoid", "rsqrt", "hypot", "ldexp", "tan", "sinh", "cosh", "asinh", "acosh", "atanh", "isinf",
    "isfinite",
)  # fmt: skip
KEPT = {"llvm": _LIBRARY, "opencl": _LIBRARY, "cuda": _LIBRARY}

for _target, _names in KEPT.items():
    for _name in _names:
        register_intrin_lowering("tir." + _name, _target, f=lambda call: call, level=5)

# On a CPU LLVM calls a library function for these; nvptx has none and expands them to formulas. Without this entry
# nvptx would use the rules of cuda.
for _name in ("hypot", "asinh", "acosh", "atanh"):
    register_intrin_lowering("tir." + _name, "nvptx", f=DEFAULT[_name], level=5)

# No supported target has a cycle counter intrinsic.
for _name in ("start_profile_intrinsic", "end_profile_intrinsic"):
    register_intrin_lowering("tir." + _name, "default", f=lambda call: const(0), level=5)

for _name, _rule in DEFAULT.items():
    # The low priority lets a rule that a user registers under "default" replace this one.
    register_intrin_lowering("tir." + _name, "default", f=_rule, level=5)
