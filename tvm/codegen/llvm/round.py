"""Round floats to integers, also on processors without rounding instructions."""

from __future__ import annotations

from ...dtype import info
from .builder import Builder
from .vector import Value


def _has_rounding(b: Builder) -> bool:
    """Return whether LLVM rounds to integers without calling libm."""
    cpu = b.module.cpu
    return cpu.arch == "aarch64" or cpu.has("rounding") or cpu.has("sse4.1") or cpu.has("avx")


def _by_magic(x: Value) -> tuple[Value, Value, Value]:
    """Return |x|, its nearest integer, and whether x is small enough to have a fraction."""
    limit = 2.0**23 if info(x.dtype).bits == 32 else 2.0**52
    size = x.absolute()
    return size, (size + limit) - limit, size.less(limit)


def nearby(x: Value) -> Value:
    if _has_rounding(x.b):
        return x.intrinsic("nearbyint")
    _, near, has_fraction = _by_magic(x)
    return has_fraction.choose(near.with_sign_of(x), x)


def truncate(x: Value) -> Value:
    if _has_rounding(x.b):
        return x.intrinsic("trunc")
    size, near, has_fraction = _by_magic(x)
    cut = near.greater(size).choose(near - 1.0, near)
    return has_fraction.choose(cut.with_sign_of(x), x)


def floor(x: Value) -> Value:
    if _has_rounding(x.b):
        return x.intrinsic("floor")
    near = nearby(x)
    return near.greater(x).choose(near - 1.0, near)


def ceil(x: Value) -> Value:
    if _has_rounding(x.b):
        return x.intrinsic("ceil")
    near = nearby(x)
    return near.less(x).choose(near + 1.0, near).with_sign_of(x)


def round_away(x: Value) -> Value:
    """Round half away from zero: add the largest number below 0.5, then truncate."""
    below = 0.49999997019767761 if info(x.dtype).bits == 32 else 0.49999999999999994
    return truncate(x + x.constant(below).with_sign_of(x))
