"""Arithmetic on expressions: matches operand types, folds literals, and removes neutral elements.

These functions implement ``a + b`` and the other operators. Deeper simplification (``(x * 4 + y) // 4``) is done by the
analyzer.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from numbers import Number
from typing import TYPE_CHECKING, Any

from ..docstring import docstring
from ..dtype import canonical, info, int_range, make, with_lanes
from ..error import DivideByZeroError, ExprTypeError, ExprValueError
from ..hooks import Hook
from . import prim
from .op import Op
from .prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
    const,
    convert,
)

if TYPE_CHECKING:
    from .span import Span

_LITERAL = (IntImm, FloatImm)

TENSOR_BINARY: Hook[[str, Any, Any], Any] = Hook(
    "ir.primop.TENSOR_BINARY", "applies a binary operator to tensors; NotImplemented if no operand is a tensor"
)


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return other values unchanged.

    As operands both have the same meaning: the width of a NumPy scalar does not determine the type of the
    expression."""
    item = getattr(value, "item", None) if isinstance(value, Number) else None
    return value if item is None else item()


def _number(value: Any):
    return value if isinstance(value, PrimExpr) else convert(plain(value))


def _operands(name: str, a: Any, b: Any):
    """Convert and match two operands; return None if the tensor hook handled the operation."""
    hook = TENSOR_BINARY.function
    if hook is not None:
        got = hook(name, a, b)
        if got is not NotImplemented:
            return got, None
    a, b = _number(a), _number(b)
    if not isinstance(a, PrimExpr) or not isinstance(b, PrimExpr):
        raise ExprTypeError(f"{name}: operands must be expressions, got {type(a).__name__} and {type(b).__name__}")
    if a.dtype != b.dtype:
        a, b = match_types(a, b)
    return a, b


def match_types(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Convert two operands to a common type: scalars broadcast, integers become floats, narrow types are widened.

    For signed and unsigned integers, the wider type is used; if the widths are equal, the unsigned type.
    """
    if a.dtype == b.dtype:
        return a, b
    x, y = info(a.dtype), info(b.dtype)
    if x.is_handle or y.is_handle:
        if x.is_handle and y.is_handle:
            return a, b
        raise ExprTypeError(f"cannot combine {a.dtype} with {b.dtype}")
    if x.lanes == 1 and y.lanes != 1:
        a = broadcast(a, y.lanes)
    elif y.lanes == 1 and x.lanes != 1:
        b = broadcast(b, x.lanes)
    elif x.lanes != y.lanes:
        raise ExprTypeError(f"cannot match vector types {a.dtype} and {b.dtype}: {x.lanes} and {y.lanes} lanes")
    x, y = info(a.dtype), info(b.dtype)
    if (x.code, x.bits) == (y.code, y.bits):
        return a, b
    if x.is_float and not y.is_float:
        return a, cast(a.dtype, b)
    if y.is_float and not x.is_float:
        return cast(b.dtype, a), b
    if x.is_float and y.is_float:
        # bfloat16 combined with float16 or float32 gives float32.
        if x.bits == y.bits:
            wide = make("float", 32, x.lanes)
            return cast(wide, a), cast(wide, b)
        return (a, cast(a.dtype, b)) if x.bits > y.bits else (cast(b.dtype, a), b)
    if x.code == y.code:
        return (a, cast(a.dtype, b)) if x.bits > y.bits else (cast(b.dtype, a), b)
    if x.is_bool or y.is_bool:
        return (cast(b.dtype, a), b) if x.is_bool else (a, cast(a.dtype, b))
    if x.bits != y.bits:
        return (a, cast(a.dtype, b)) if x.bits > y.bits else (cast(b.dtype, a), b)
    return (a, cast(a.dtype, b)) if x.is_uint else (cast(b.dtype, a), b)


def wrap_int(value: int, dtype: str) -> int:
    """Return ``value`` as a two's complement integer of this type."""
    kind = info(dtype)
    if kind.is_bool:
        return 1 if value else 0
    value &= (1 << kind.bits) - 1
    if kind.code == "int" and value >> (kind.bits - 1):
        value -= 1 << kind.bits
    return value


_PACK = {"float32": "f", "float16": "e"}


def round_float(value: float, dtype: str) -> float:
    """Round ``value`` to the nearest value of the type, ties to even; float64 is unchanged."""
    if dtype == "float64":
        return value
    if value != value or value in (math.inf, -math.inf):
        return value
    code = _PACK.get(dtype)
    try:
        if code is not None:
            return struct.unpack(code, struct.pack(code, value))[0]
        if dtype == "bfloat16":
            # The upper half of a float32 is the bfloat16; the lower half determines the rounding.
            bits = struct.unpack("I", struct.pack("f", value))[0]
            bits += 0x7FFF + ((bits >> 16) & 1)
            return struct.unpack("f", struct.pack("I", bits & 0xFFFF0000))[0]
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return value


def _int(value: int, dtype: str) -> PrimExpr:
    return const(wrap_int(value, dtype), dtype)


def _float(value: float, dtype: str) -> PrimExpr:
    return FloatImm(dtype, round_float(value, dtype))


# Operations on narrower floats are left to the back end, which may compute them in a wider type.
_FOLDED_FLOATS = ("float32", "float64")


def literal(e: PrimExpr):
    """Return the Python value of a literal (also of a broadcast literal), else None."""
    if isinstance(e, _LITERAL):
        return e.value
    if isinstance(e, Broadcast) and isinstance(e.value, _LITERAL):
        return e.value.value
    return None


def _fold(
    a: PrimExpr, b: PrimExpr, ints: Any, floats: Callable[[float, float], float | None] | None = None
) -> PrimExpr | None:
    """Fold two scalar literals; return None if they are not literals."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        got = ints(a.value, b.value)
        return None if got is None else _int(got, a.dtype)
    if floats is not None and isinstance(a, FloatImm) and isinstance(b, FloatImm) and a.dtype in _FOLDED_FLOATS:
        got = floats(round_float(a.value, a.dtype), round_float(b.value, a.dtype))
        return None if got is None else _float(got, a.dtype)
    return None


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def trunc_mod(a: int, b: int) -> int:
    return a - b * trunc_div(a, b)


# Arithmetic on bool computes with the integers 0 and 1 and tests whether the result is not zero: a sum is logical or, a
# difference is exclusive or, products and quotients are logical and, remainders are false.
def add(a: Any, b: Any, span: Span | None = None):
    """``a + b`` with folded literals; tensors are added elementwise.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _operands("add", a, b)
    if b is None:
        return a
    got = _fold(a, b, int.__add__, float.__add__)
    if got is not None:
        return got
    if isinstance(a, IntImm) and a.value == 0:
        return b
    if isinstance(b, IntImm) and b.value == 0:
        return a
    return logical_or(a, b) if info(a.dtype).is_bool else Add(a, b)


def subtract(a: Any, b: Any, span: Span | None = None):
    """``a - b`` with folded literals; tensors are subtracted elementwise.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _operands("subtract", a, b)
    if b is None:
        return a
    got = _fold(a, b, int.__sub__, float.__sub__)
    if got is not None:
        return got
    if isinstance(b, IntImm) and b.value == 0:
        return a
    return not_equal(a, b) if info(a.dtype).is_bool else Sub(a, b)


def multiply(a: Any, b: Any, span: Span | None = None):
    """``a * b`` with folded literals; tensors are multiplied elementwise.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _operands("multiply", a, b)
    if b is None:
        return a
    got = _fold(a, b, int.__mul__, float.__mul__)
    if got is not None:
        return got
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return Mul(a, b)
    for x, y in ((a, b), (b, a)):
        if isinstance(x, _LITERAL) and x.value == 1:
            return y
        if isinstance(x, IntImm) and x.value == 0:
            return x
    return logical_and(a, b) if info(a.dtype).is_bool else Mul(a, b)


def _no_zero(b: PrimExpr, name: str) -> None:
    if isinstance(b, IntImm) and b.value == 0:
        raise DivideByZeroError(f"{name}: divide by zero")


def div(a: Any, b: Any, span: Span | None = None):
    """Division as in C: truncates on integers.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _operands("divide", a, b)
    if b is None:
        return a
    _no_zero(b, "div")
    got = _fold(a, b, trunc_div, lambda x, y: x / y if y else None)
    if got is not None:
        return got
    if isinstance(a, IntImm) and a.value == 0:
        return a
    if isinstance(b, _LITERAL) and b.value == 1:
        return a
    return logical_and(a, b) if info(a.dtype).is_bool else Div(a, b)


def true_divide(a: Any, b: Any, span: Span | None = None):
    """``a / b``; raises an error for two integers, whose rounding would be ambiguous."""
    x = getattr(a, "dtype", None) or canonical(type(a))
    y = getattr(b, "dtype", None) or canonical(type(b))
    if not hasattr(a, "op") and not hasattr(b, "op") and info(x).is_integer and info(y).is_integer:
        raise RuntimeError(
            "the meaning of / on two integer expressions is ambiguous: use tvm.te.indexdiv (or //) for indices, "
            "tvm.te.truncdiv for rounding towards zero, or cast an operand to float"
        )
    return div(a, b)


def truncdiv(a: Any, b: Any, span: Span | None = None):
    a, b = _operands("truncdiv", a, b)
    return a if b is None else div(a, b)


def truncmod(a: Any, b: Any, span: Span | None = None):
    a, b = _operands("truncmod", a, b)
    if b is None:
        return a
    _no_zero(b, "truncmod")
    got = _folded_remainder(a, b, trunc_mod)
    return Mod(a, b) if got is None else got


def _folded_remainder(a: Any, b: Any, function: Any):
    """Return a remainder that is known at compile time, else None."""
    got = _fold(a, b, function)
    if got is not None:
        return got
    if isinstance(a, IntImm) and a.value == 0:
        return a
    if info(a.dtype).is_bool or isinstance(b, IntImm) and b.value == 1:
        return const(0, a.dtype)
    return None


def floordiv(a: Any, b: Any, span: Span | None = None):
    """The integer quotient rounded down, with folded literals.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _operands("floor_divide", a, b)
    if b is None:
        return a
    _no_zero(b, "floordiv")
    if info(a.dtype).is_float:
        return call_pure("floor", div(a, b))
    got = _fold(a, b, int.__floordiv__)
    if got is not None:
        return got
    if isinstance(a, IntImm) and a.value == 0:
        return a
    if isinstance(b, IntImm) and b.value == 1:
        return a
    return logical_and(a, b) if info(a.dtype).is_bool else FloorDiv(a, b)


def floormod(a: Any, b: Any, span: Span | None = None):
    """The remainder of floordiv, with the sign of the divisor.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _operands("floor_mod", a, b)
    if b is None:
        return a
    _no_zero(b, "floormod")
    if info(a.dtype).is_float:
        return subtract(a, multiply(call_pure("floor", div(a, b)), b))
    got = _folded_remainder(a, b, int.__mod__)
    return FloorMod(a, b) if got is None else got


def _least(x: float, y: float) -> float:
    return x if x != x else y if y != y else min(x, y)


def _greatest(x: float, y: float) -> float:
    return x if x != x else y if y != y else max(x, y)


def minimum(a: Any, b: Any, span: Span | None = None):
    a, b = _operands("minimum", a, b)
    if b is None:
        return a
    got = _fold(a, b, min, _least)
    if got is not None:
        return got
    return a if a is b else Min(a, b)


def maximum(a: Any, b: Any, span: Span | None = None):
    a, b = _operands("maximum", a, b)
    if b is None:
        return a
    got = _fold(a, b, max, _greatest)
    if got is not None:
        return got
    return a if a is b else Max(a, b)


def negative(a: Any):
    hook = TENSOR_BINARY.function
    if hook is not None:
        got = hook("negative", a, None)
        if got is not NotImplemented:
            return got
    a = convert(a)
    if isinstance(a, IntImm):
        return _int(-a.value, a.dtype)
    if isinstance(a, FloatImm):
        return _float(-a.value, a.dtype)
    if info(a.dtype).is_uint:
        return subtract(const(0, a.dtype), a)
    return multiply(a, const(-1, a.dtype))


def _compare(name: str, cls: Any, function: Callable[[Any, Any], bool]):
    def compare(a: Any, b: Any, span: Span | None = None):
        a, b = _operands(name, a, b)
        if b is None:
            return a
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return const(function(a.value, b.value), "bool")
        if isinstance(a, FloatImm) and isinstance(b, FloatImm):
            return const(function(round_float(a.value, a.dtype), round_float(b.value, b.dtype)), "bool")
        return cls(a, b)

    compare.__name__ = name
    compare.__doc__ = f"The expression that tells whether a is {name.replace('_', ' ')} b."
    return compare


equal = _compare("equal", EQ, lambda a, b: a == b)
not_equal = _compare("not_equal", NE, lambda a, b: a != b)
less = _compare("less", LT, lambda a, b: a < b)
less_equal = _compare("less_equal", LE, lambda a, b: a <= b)
greater = _compare("greater", GT, lambda a, b: a > b)
greater_equal = _compare("greater_equal", GE, lambda a, b: a >= b)


def _want_bool(e: PrimExpr, name: str) -> PrimExpr:
    if not info(e.dtype).is_bool:
        raise ExprTypeError(f"{name}: expected a condition (bool), got {e.dtype}")
    return e


def logical_and(a: Any, b: Any, span: Span | None = None):
    a, b = _operands("logical_and", a, b)
    if b is None:
        return a
    _want_bool(a, "logical_and")
    _want_bool(b, "logical_and")
    for x, y in ((a, b), (b, a)):
        if isinstance(x, IntImm):
            return y if x.value else x
    return And(a, b)


def logical_or(a: Any, b: Any, span: Span | None = None):
    a, b = _operands("logical_or", a, b)
    if b is None:
        return a
    _want_bool(a, "logical_or")
    _want_bool(b, "logical_or")
    for x, y in ((a, b), (b, a)):
        if isinstance(x, IntImm):
            return x if x.value else y
    return Or(a, b)


def logical_not(a: Any, span: Span | None = None):
    a = _want_bool(convert(a), "logical_not")
    if isinstance(a, IntImm):
        return const(not a.value, "bool")
    return Not(a)


def _want_integer(name: str, a: PrimExpr) -> None:
    if not info(a.dtype).is_integer:
        raise ExprTypeError(f"{name}: expected an integer, got {a.dtype}")


def _bit_operands(name: str, a: Any, b: Any):
    """Like _operands, but a Python integer gets the type of the other operand, because widening would change the
    bits."""
    for x, y in ((a, b), (b, a)):
        if x.__class__ is int and isinstance(y, PrimExpr) and info(y.dtype).is_integer:
            number = const(wrap_int(x, with_lanes(y.dtype, 1)), y.dtype)
            a, b = (number, b) if x is a else (a, number)
            break
    a, b = _operands(name, a, b)
    if b is not None:
        _want_integer(name, a)
        _want_integer(name, b)
    return a, b


_TWO_INTEGERS = [("a", "PrimExpr", "The left operand."), ("b", "PrimExpr", "The right operand.")]


def _bitwise(name: str, intrinsic: str, ints: Any, what: str):
    def bitwise(a: Any, b: Any, span: Span | None = None):
        a, b = _bit_operands(name, a, b)
        if b is None:
            return a
        got = _fold(a, b, ints)
        if got is not None:
            return got
        return Call(a.dtype, Op.get(intrinsic), (a, b))

    bitwise.__name__ = name
    bitwise.__doc__ = docstring(what, _TWO_INTEGERS, "PrimExpr")
    return bitwise


bitwise_and = _bitwise("bitwise_and", "tir.bitwise_and", int.__and__, "The bits set in both integers.")
bitwise_or = _bitwise("bitwise_or", "tir.bitwise_or", int.__or__, "The bits set in one of two integers.")
bitwise_xor = _bitwise("bitwise_xor", "tir.bitwise_xor", int.__xor__, "The bits set in exactly one of two integers.")


def _shift(name: str, intrinsic: str, ints: Any, what: str):
    def shift(a: Any, b: Any, span: Span | None = None):
        a, b = _bit_operands(name, a, b)
        if b is None:
            return a
        if isinstance(b, IntImm):
            bits = info(a.dtype).bits
            if not 0 <= b.value < bits:
                raise ExprValueError(f"{name}: shift amount must be in 0..{bits - 1} for {a.dtype}, got {b.value}")
            if b.value == 0:
                return a
        got = _fold(a, b, ints)
        if got is not None:
            return got
        return Call(a.dtype, Op.get(intrinsic), (a, b))

    shift.__name__ = name
    raises = ("ExprValueError", "The second operand is a literal that is negative or not below the bits of the first.")
    shift.__doc__ = docstring(what, _TWO_INTEGERS, "PrimExpr", raises)
    return shift


left_shift = _shift("left_shift", "tir.shift_left", int.__lshift__, "``a`` shifted to the left by ``b`` bits.")
right_shift = _shift(
    "right_shift", "tir.shift_right", int.__rshift__, "``a`` shifted to the right by ``b`` bits; a sign stays."
)


def bitwise_not(a: Any, span: Span | None = None):
    """The bitwise complement of an integer.

    Parameters
    ----------
    a : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    a = convert(a)
    _want_integer("bitwise_not", a)
    if isinstance(a, IntImm):
        return _int(~a.value, a.dtype)
    return Call(a.dtype, Op.get("tir.bitwise_not"), (a,))


def broadcast(value: Any, lanes: int) -> PrimExpr:
    value = convert(value)
    return value if lanes == 1 else Broadcast(value, lanes)


def cast(dtype: str, value: Any, span: Span | None = None) -> PrimExpr:
    """Convert ``value`` to ``dtype``. Literals are converted immediately: floats truncate to integers, integers
    wrap."""
    hook = TENSOR_BINARY.function
    if hook is not None:
        got = hook("cast", value, dtype)
        if got is not NotImplemented:
            return got
    dtype = canonical(dtype)
    value = convert(value)
    if value.dtype == dtype:
        return value
    to, source = info(dtype), info(value.dtype)
    if source.is_handle and not to.is_handle:
        raise ExprTypeError(
            f"cast: cannot convert a pointer or string to {dtype}; use tvm.tir.reinterpret for its bits"
        )
    if to.lanes == source.lanes:
        if isinstance(value, _LITERAL) and not to.is_handle:
            return _cast_literal(value.value, dtype)
        if isinstance(value, Broadcast):
            return Broadcast(cast(with_lanes(dtype, 1), value.value), value.lanes)
        return Cast(dtype, value)
    if source.lanes != 1:
        raise ExprTypeError(
            f"cast: cannot convert {value.dtype} to {dtype}: {source.lanes} lanes instead of {to.lanes}"
        )
    return Broadcast(cast(with_lanes(dtype, 1), value), to.lanes)


def _cast_literal(value: Any, dtype: str) -> PrimExpr:
    kind = info(dtype)
    if kind.is_float:
        return FloatImm(dtype, round_float(float(value), dtype))
    if kind.is_bool:
        return const(value != 0, "bool")
    if isinstance(value, float):
        low, high = int_range(dtype)
        return const(0 if value != value else low if value <= low else high if value >= high else int(value), dtype)
    return _int(int(value), dtype)


def call_pure(name: str, *args: Any) -> PrimExpr:
    """Create a call of the intrinsic ``tir.name`` whose type is that of its first operand."""
    return Call(args[0].dtype, Op.get("tir." + name), args)


def select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    condition = convert(condition)
    true_value, false_value = match_types(convert(true_value), convert(false_value))
    if isinstance(condition, IntImm):
        return true_value if condition.value else false_value
    return Select(condition, true_value, false_value)


def is_literal(e: Any, value: Any = None) -> bool:
    """Whether ``e`` is a literal, and equal to ``value`` if given."""
    return isinstance(e, _LITERAL) and (value is None or e.value == value)


BUILD = {
    Add: add,
    Sub: subtract,
    Mul: multiply,
    Div: div,
    Mod: truncmod,
    FloorDiv: floordiv,
    FloorMod: floormod,
    Min: minimum,
    Max: maximum,
    EQ: equal,
    NE: not_equal,
    LT: less,
    LE: less_equal,
    GT: greater,
    GE: greater_equal,
    And: logical_and,
    Or: logical_or,
}

__all__ = [n for n in dir() if not n.startswith("_") and n not in ("math", "struct", "annotations")]  # pyright: ignore[reportUnsupportedDunderAll]
_ = (prim, Var)
