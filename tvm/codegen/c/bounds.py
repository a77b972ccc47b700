"""Bounds of integer expressions from those of loop variables, to tell which arithmetic cannot overflow."""

from __future__ import annotations

from ...dtype import info, int_range
from ...ir.prim import (
    Add,
    Broadcast,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    Var,
)

Interval = tuple[int, int]
_DEPTH = 24


class Bounds:
    """Intervals of variables, and of expressions as they are asked for."""

    def __init__(self):
        self.variables: dict[Var, Interval] = {}
        self._known: dict[int, Interval | None] = {}

    def bind(self, var: Var, interval: Interval | None) -> None:
        self._known.clear()
        if interval is None:
            self.variables.pop(var, None)
        else:
            self.variables[var] = interval

    def copy(self) -> Bounds:
        new = Bounds()
        new.variables = dict(self.variables)
        return new

    def of(self, node: PrimExpr, depth: int = 0) -> Interval | None:
        """The values ``node`` can have if nothing in it overflows; None when not known."""
        if type(node) is IntImm:
            return node.value, node.value
        if isinstance(node, Var):
            return self.variables.get(node)
        rule = _RULES.get(type(node))
        if rule is None or depth > _DEPTH:
            return None
        key = id(node)
        if key not in self._known:
            got = rule(self, node, depth + 1)
            if got is not None:
                low, high = int_range(node.dtype)
                # What overflows can have any value.
                got = got if low <= got[0] and got[1] <= high else None
            self._known[key] = got
        return self._known[key]

    def fits(self, node: PrimExpr) -> bool:
        """Whether the operation of ``node`` itself cannot overflow."""
        return self.of(node) is not None

    def nonnegative(self, node: PrimExpr) -> bool:
        if info(node.dtype).is_uint:
            return True
        got = self.of(node)
        return got is not None and got[0] >= 0


def _pair(b: Bounds, node, depth: int) -> tuple[Interval, Interval] | None:
    if not info(node.dtype).is_integer or info(node.dtype).is_bool:
        return None
    x = b.of(node.a, depth)
    y = None if x is None else b.of(node.b, depth)
    return None if x is None or y is None else (x, y)


def _add(b: Bounds, node: Add, depth: int) -> Interval | None:
    got = _pair(b, node, depth)
    return got and (got[0][0] + got[1][0], got[0][1] + got[1][1])


def _subtract(b: Bounds, node: Sub, depth: int) -> Interval | None:
    got = _pair(b, node, depth)
    return got and (got[0][0] - got[1][1], got[0][1] - got[1][0])


def _multiply(b: Bounds, node: Mul, depth: int) -> Interval | None:
    got = _pair(b, node, depth)
    if got is None:
        return None
    corners = [x * y for x in got[0] for y in got[1]]
    return min(corners), max(corners)


def _divide(b: Bounds, node, depth: int) -> Interval | None:
    got = _pair(b, node, depth)
    if got is None or got[0][0] < 0 or got[1][0] <= 0:
        return None
    return got[0][0] // got[1][1], got[0][1] // got[1][0]


def _remainder(b: Bounds, node, depth: int) -> Interval | None:
    divisor = b.of(node.b, depth)
    if divisor is None or divisor[0] <= 0 or not info(node.dtype).is_integer:
        return None
    if type(node) is FloorMod:
        return 0, divisor[1] - 1
    number = b.of(node.a, depth)
    if number is None:
        return 1 - divisor[1], divisor[1] - 1
    return (0, min(number[1], divisor[1] - 1)) if number[0] >= 0 else (1 - divisor[1], divisor[1] - 1)


def _smaller(b: Bounds, node: Min, depth: int) -> Interval | None:
    got = _pair(b, node, depth)
    return got and (min(got[0][0], got[1][0]), min(got[0][1], got[1][1]))


def _larger(b: Bounds, node: Max, depth: int) -> Interval | None:
    got = _pair(b, node, depth)
    return got and (max(got[0][0], got[1][0]), max(got[0][1], got[1][1]))


def _cast(b: Bounds, node: Cast, depth: int) -> Interval | None:
    source = info(node.value.dtype)
    if not (source.is_integer and info(node.dtype).is_integer) or info(node.dtype).is_bool:
        return None
    if source.bits < 32 and not isinstance(node.value, (Var, IntImm)):
        return b.of(node.value, depth) or int_range(node.value.dtype)
    return b.of(node.value, depth)


def _ramp(b: Bounds, node: Ramp, depth: int) -> Interval | None:
    if not info(node.dtype).is_integer:
        return None
    base, stride = b.of(node.base, depth), b.of(node.stride, depth)
    if base is None or stride is None:
        return None
    far = [s * (node.lanes - 1) for s in stride]
    return base[0] + min(0, *far), base[1] + max(0, *far)


def _call(b: Bounds, node: Call, depth: int) -> Interval | None:
    """Masks and shifts of numbers that are not negative, which division by powers of two has become."""
    name = getattr(node.op, "name", "")
    if name not in ("tir.bitwise_and", "tir.shift_right") or not info(node.dtype).is_int:
        return None
    mask = b.of(node.args[1], depth)
    if mask is None or mask[0] < 0:
        return None
    number = b.of(node.args[0], depth)
    if name == "tir.bitwise_and":
        return 0, mask[1] if number is None or number[0] < 0 else min(mask[1], number[1])
    if number is None or mask[1] >= info(node.dtype).bits:
        return None
    return (number[0] >> mask[1] if number[0] >= 0 else number[0] >> mask[0]), number[1] >> (
        mask[0] if number[1] >= 0 else mask[1]
    )


def _broadcast(b: Bounds, node: Broadcast, depth: int) -> Interval | None:
    return b.of(node.value, depth) if info(node.dtype).is_integer else None


_RULES = {
    Add: _add, Sub: _subtract, Mul: _multiply, Div: _divide, FloorDiv: _divide, Mod: _remainder, FloorMod: _remainder,
    Min: _smaller, Max: _larger, Cast: _cast, Ramp: _ramp, Broadcast: _broadcast, Call: _call,
}  # fmt: skip
