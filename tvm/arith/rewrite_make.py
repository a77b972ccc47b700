"""Simplifying constructors of expressions. Each takes simplified operands and applies the rewrite rules at the root."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import element, info
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
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
    Ramp,
    Select,
    Sub,
    const,
)
from ..ir.primop import BUILD
from ..ir.primop import literal as literal_value
from . import rules
from .compare import DIVISIONS
from .rule_compiler import LiteralOverflow, RuleTable

if TYPE_CHECKING:
    from .context import Context

# The nesting limit for simplifying replacements inside replacements. Deeper replacements are not simplified.
MAX_REWRITES = 10


class Stats:
    """Counters of the simplifier's work. They are cheap and always enabled."""

    __slots__ = ("attempts", "fired", "visits")

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        self.visits = self.attempts = self.fired = 0

    def __repr__(self):
        return f"Stats(visits={self.visits}, attempts={self.attempts}, fired={self.fired})"


stats = Stats()


# Classes of literals. A broadcast is a literal if its value is.
LITERALS = frozenset({IntImm, FloatImm, Broadcast})


class Kind:
    """The properties of a dtype that the simplifier uses, computed once per dtype."""

    __slots__ = ("is_bool", "is_float", "is_index", "is_scalar", "table")

    def __init__(self, dtype: str):
        kind = info(dtype)
        self.is_bool, self.is_float, self.is_scalar = kind.is_bool, kind.is_float, kind.lanes == 1
        # Arithmetic that is assumed not to overflow.
        self.is_index = kind.code == "int" and kind.bits in (32, 64)
        if kind.is_bool:
            self.table = rules.BOOL_TABLE
        elif self.is_index:
            self.table = rules.INDEX_TABLE if self.is_scalar else rules.VECTOR_TABLE
        else:
            self.table = rules.WRAPPING_TABLE if kind.is_integer else rules.PLAIN_TABLE


class _Kinds(dict[Any, Any]):
    def __missing__(self, dtype: str) -> Kind:
        got = self[dtype] = Kind(dtype)
        return got


KINDS = _Kinds()


def _apply(an: Context, table: RuleTable, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Return the replacement of the first matching rule, or None."""
    found = table.index.get((cls, a.__class__, b.__class__))
    if found is None:
        found = table.find(cls, a.__class__, b.__class__)
    tried = 0
    depth = an.depth
    for rule in found:
        tried += 1
        try:
            got = rule(an, a, b, an.make, an.literal)
        except LiteralOverflow:
            an.depth = depth
            continue
        if got is not None:
            stats.attempts += tried
            stats.fired += 1
            return got
    stats.attempts += tried
    return None


def make(an: Context, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return the simplified form of ``cls(a, b)``. The operands are simplified and interned."""
    key = (cls, a, b)
    got = an.done.get(key)
    if got is not None:
        return got
    if an.depth >= MAX_REWRITES:
        return an.binary(cls, a, b)
    an.depth += 1
    stats.visits += 1
    got = _MAKERS[cls](an, cls, a, b)
    an.depth -= 1
    an.done[key] = got
    return got


def _fold(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    """Fold literal operands. Return None if they are not literals or the result is undefined."""
    if b.__class__ not in LITERALS or a.__class__ not in LITERALS:
        return None
    x, y = literal_value(a), literal_value(b)
    if x is None or y is None or (y == 0 and cls in DIVISIONS):
        return None
    lanes = info(a.dtype).lanes
    if lanes == 1:
        got = BUILD[cls](a, b)
    else:
        scalar = BUILD[cls](const(x, element(a.dtype)), const(y, element(a.dtype)))
        got = Broadcast(an.intern(scalar), lanes)
    return an.intern(got)


def _neutral(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr, kind: Any):
    """Simplify operations with zero or one; return None for other operands. Float operations that a NaN or a signed
    zero could change are kept."""
    y = literal_value(b) if b.__class__ in LITERALS else None
    if y is not None:
        if y == 0 and not kind.is_float:
            if cls is Add or cls is Sub:
                return a
            if cls is Mul:
                return b
            if cls in DIVISIONS:
                return an.binary(cls, a, b)
        if y == 1:
            if cls is Mul or cls is Div or cls is FloorDiv:
                return a
            if (cls is FloorMod or cls is Mod) and not kind.is_float:
                return an.zero(a.dtype)
        return None
    x = literal_value(a) if a.__class__ in LITERALS else None
    if x is not None:
        if x == 0 and not kind.is_float:
            if cls is Add:
                return b
            if cls is Mul or cls in DIVISIONS:
                return a
        if x == 1 and cls is Mul:
            return b
    return None


def _arithmetic(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    kind = KINDS[a.dtype]
    got = _fold(an, cls, a, b)
    if got is None:
        got = _neutral(an, cls, a, b, kind)
    if got is None and a.__class__ is Select and kind.is_index:
        got = _same_select(an, cls, a, b)
    if got is None:
        got = _apply(an, kind.table, cls, a, b)
    return an.binary(cls, a, b) if got is None else got


def _same_select(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    """Simplify ``select(p, x, y) + select(p, z, w)`` to one select."""
    if b.__class__ is Select and b.condition is a.condition:
        yes, no = make(an, cls, a.true_value, b.true_value), make(an, cls, a.false_value, b.false_value)
        return an.make_select(a.condition, yes, no)
    if cls is Sub and (b is a.true_value or b is a.false_value):
        yes, no = make(an, cls, a.true_value, b), make(an, cls, a.false_value, b)
        return an.make_select(a.condition, yes, no)
    return None


def _decide(an: Context, a: PrimExpr, b: PrimExpr):
    """Return the bound of ``a - b`` for operands of an index type, else None."""
    kind = KINDS[a.dtype]
    if kind.is_index:
        return an.difference_bound(a, b)
    if kind.table is rules.WRAPPING_TABLE:
        # Compare the bounds without a subtraction, which could wrap around.
        (p, q), (r, s) = an.bound(a), an.bound(b)
        return p - s, q - r
    return None


def _boolean(an: Context, value: bool, dtype: str) -> PrimExpr:
    got = an.literal(int(value), "bool")
    return got if KINDS[dtype].is_scalar else an.add(Broadcast(got, info(dtype).lanes))


def known(an: Context, node: Any):
    if an.truths:
        got = an.truths.get(node)
        if got is not None:
            return _boolean(an, got, node.dtype)
    return node


def _less(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    gap = _decide(an, a, b)
    if gap is not None:
        if gap[1] < 0:
            return _boolean(an, True, a.dtype)
        if gap[0] >= 0:
            return _boolean(an, False, a.dtype)
    got = _apply(an, KINDS[a.dtype].table, LT, a, b)
    return known(an, an.binary(LT, a, b)) if got is None else got


def _less_equal(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    """Write ``a <= b`` as ``not (b < a)``. Float comparisons are kept, because both are false for a NaN."""
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    if KINDS[a.dtype].is_float:
        return known(an, an.binary(LE, a, b))
    gap = _decide(an, a, b)
    if gap is not None and gap[1] <= 0:
        return _boolean(an, True, a.dtype)
    if gap is not None and gap[0] > 0:
        return _boolean(an, False, a.dtype)
    if gap is not None and gap[0] == 0:
        return make(an, EQ, a, b)
    flipped = make(an, LT, b, a)
    if flipped.__class__ is LT:
        low, high = flipped.b, flipped.a
        between = _decide(an, low, high) if low is not a and gap is not None else None
        if between is not None and between[0] == 0:
            return make(an, EQ, low, high)
        return known(an, an.binary(LE, low, high))
    return make_not(an, flipped)


def _equal(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    gap = _decide(an, a, b)
    if gap is not None:
        if gap[0] > 0 or gap[1] < 0:
            return _boolean(an, False, a.dtype)
        if gap[0] == gap[1] == 0:
            return _boolean(an, True, a.dtype)
        if an.never_equal(a, b):
            return _boolean(an, False, a.dtype)
    kind = KINDS[a.dtype]
    if kind.is_bool and kind.is_scalar:
        for x, y in ((a, b), (b, a)):
            value = literal_value(y)
            if value is not None:
                return x if value else make_not(an, x)
    got = _apply(an, KINDS[a.dtype].table, EQ, a, b)
    return known(an, an.binary(EQ, a, b)) if got is None else got


def _not_equal(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    got = _fold(an, cls, a, b)
    if got is not None:
        return got
    if KINDS[a.dtype].is_float:
        return known(an, an.binary(NE, a, b))
    return make_not(an, make(an, EQ, a, b))


def _logical(an: Context, cls: type[Any], a: PrimExpr, b: PrimExpr):
    for x, y in ((a, b), (b, a)):
        value = literal_value(x)
        if value is not None:
            return y if bool(value) == (cls is And) else x
    got = _apply(an, rules.BOOL_TABLE, cls, a, b)
    return known(an, an.binary(cls, a, b)) if got is None else got


_MAKERS: dict[type[Any], Callable[[Context, Any, Any, Any], Any]] = {
    **dict.fromkeys((Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max), _arithmetic),
    LT: _less,
    LE: _less_equal,
    GT: lambda an, cls, a, b: make(an, LT, b, a),
    GE: lambda an, cls, a, b: make(an, LE, b, a),
    EQ: _equal,
    NE: _not_equal,
    And: _logical,
    Or: _logical,
}


# Negated comparisons. Floats are excluded, because every ordering with a NaN is false.
_NEGATED = {LT: (LE, True), LE: (LT, True), EQ: (NE, False), NE: (EQ, False), And: (Or, False), Or: (And, False)}


def make_not(an: Context, a: PrimExpr) -> PrimExpr:
    value = literal_value(a)
    if value is not None:
        return _boolean(an, not value, a.dtype)
    if an.truths:
        got = an.truths.get(a)
        if got is not None:
            return _boolean(an, not got, a.dtype)
    cls = a.__class__
    if cls is Not:
        return a.a
    if cls is Broadcast:
        return make_broadcast(an, make_not(an, a.value), a.lanes)
    if cls in (And, Or):
        # A conjunction may have many terms, so negate only the top few levels.
        if an.depth >= MAX_REWRITES:
            return an.add(Not(a))
        an.depth += 1
        x, y = make_not(an, a.a), make_not(an, a.b)
        an.depth -= 1
        return make(an, Or if cls is And else And, x, y)
    if cls in _NEGATED and (cls in (EQ, NE) or not KINDS[a.a.dtype].is_float):
        other, swap = _NEGATED[cls]
        return known(an, an.binary(other, a.b, a.a) if swap else an.binary(other, a.a, a.b))
    return an.add(Not(a))


def make_select(an: Context, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
    value = literal_value(condition)
    if value is not None:
        return yes if value else no
    if yes is no:
        return yes
    if yes.dtype == "bool" and literal_value(yes) == 1 and literal_value(no) == 0:
        return condition
    return an.add(Select(condition, yes, no))


def make_ramp(an: Context, base: PrimExpr, stride: PrimExpr, lanes: int) -> PrimExpr:
    if lanes == 1:
        return base
    if literal_value(stride) == 0:
        return make_broadcast(an, base, lanes)
    return an.add(Ramp(base, stride, lanes))


def make_broadcast(an: Context, value: PrimExpr, lanes: int) -> PrimExpr:
    return value if lanes == 1 else an.add(Broadcast(value, lanes))
