"""Quantization: round floats to int8 or uint8, ``cast(clip(nearbyint(x) + zero))``, with a conversion that rounds.

Integer limits can be applied before rounding, so that the conversion to int32 is never out of range. The zero point and
the conversion to fewer bits are integer operations.
"""

from __future__ import annotations

from typing import NamedTuple

from ...dtype import element, info, with_lanes
from ...ir.prim import GT, LT, Add, Broadcast, Call, Cast, FloatImm, Max, Min, PrimExpr, Select
from .builder import Builder
from .intrinsic import mangled

# Integers up to this value, and sums of a few of them, are exactly representable as floats.
_LARGEST = 1 << 20


class Steps(NamedTuple):
    """The integers ``nearbyint(source) + offset``, clipped to the range from ``low`` to ``high``."""

    source: PrimExpr
    offset: int
    low: int
    high: int


def _whole(e: PrimExpr) -> int | None:
    value = e.value if isinstance(e, Broadcast) else e
    is_small = isinstance(value, FloatImm) and abs(value.value) <= _LARGEST
    return int(value.value) if is_small and value.value == int(value.value) else None


def _bounded(e: PrimExpr) -> tuple[PrimExpr, bool, PrimExpr] | None:
    """Return ``(a, is_least, limit)`` of a minimum or maximum with a constant limit."""
    if isinstance(e, (Max, Min)):
        return e.a, isinstance(e, Max), e.b
    if not isinstance(e, Select) or not isinstance(e.condition, (LT, GT)):
        return None
    test, limit, a = e.condition, e.true_value, e.false_value
    return (a, isinstance(test, LT), limit) if test.a is a and _whole(test.b) == _whole(limit) else None


def steps_of(node: Cast) -> Steps | None:
    """Return the quantization in a cast of float32 to int8 or uint8, or None if the cast does not have this form."""
    want = info(node.dtype)
    if element(node.value.dtype) != "float32" or not want.is_integer or want.is_bool or want.bits != 8:
        return None
    low, high, offset, e = -_LARGEST, _LARGEST, 0, node.value
    while not isinstance(e, Call):
        if isinstance(e, Cast) and element(e.value.dtype) == "float64" and element(e.dtype) == "float32":
            # Integers within the limits are exact in both float types, and values outside stay outside.
            e = e.value
            continue
        bounded = _bounded(e)
        if bounded is None and not isinstance(e, Add):
            return None
        inner, is_least, limit = bounded or (e.a, False, e.b)
        number = _whole(limit)
        if number is None:
            return None
        if bounded is None:
            offset += number
        elif is_least:
            low = max(low, number + offset)
        else:
            high = min(high, number + offset)
        if low > high:
            return None
        e = inner
    least = -128 if want.is_int else 0
    if getattr(e.op, "name", "") != "tir.nearbyint" or low < least or high > least + 255 or abs(offset) > _LARGEST:
        return None
    return Steps(e.args[0], offset, low, high)


def rounds_by_conversion(b: Builder) -> bool:
    """Return whether the processor converts float32 vectors to the nearest int32."""
    return b.module.cpu.arch == "x86" and b.module.cpu.has("sse4.1")


def emit(b: Builder, dtype: str, steps: Steps, x: str) -> str:
    """Emit the quantization ``steps`` of the operand ``x``; NaN becomes zero."""
    lanes = info(dtype).lanes
    real, word = steps.source.dtype, with_lanes("int32", lanes)
    old, new, flag = b.types[real], b.types[word], b.types[with_lanes("bool", lanes)]

    def limit(number: int) -> str:
        return b.types.literal(real, float(number - steps.offset))

    def unless(test: str, x: str, other: str, end: str) -> str:
        return b.op(f"select {flag} {b.op(f'fcmp {test} {old} {x}, {other}')}, {old} {x}, {old} {end}")

    low, high, given = limit(steps.low), limit(steps.high), x
    has_zero = steps.low <= 0 <= steps.high
    if has_zero and steps.low < 0:
        x = unless("ord", x, x, limit(0))
    # A comparison with NaN is false, so NaN becomes the lower limit.
    x = unless("olt", unless("ogt", x, low, low), high, high)
    name = b.module.declare(f"llvm.lrint.{mangled(new)}.{mangled(old)}", new, old)
    whole = b.op(f"call {new} {name}({old} {x})")
    if steps.offset:
        whole = b.op(f"add nsw {new} {whole}, {b.types.literal(word, steps.offset)}")
    text = b.types[dtype]
    narrow = b.op(f"trunc {new} {whole} to {text}")
    if has_zero:
        return narrow
    is_number = b.op(f"fcmp ord {old} {given}, {given}")
    return b.op(f"select {flag} {is_number}, {text} {narrow}, {text} {b.types.literal(dtype, 0)}")
