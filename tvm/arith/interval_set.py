"""Integer sets with symbolic bounds, and the set of values of an expression for given sets of its variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtype import info
from ..ir.node import Node
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
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Sub,
    Var,
    const,
    convert,
)
from ..ir.primop import add, cast, floordiv, maximum, minimum, multiply, select, subtract, truncdiv
from ..ir.subst import variables
from ..ir.visit import post_order
from .analyzer import Analyzer

_POS_INF = Var("pos_inf", "handle")
_NEG_INF = Var("neg_inf", "handle")


def pos_inf() -> Var:
    """Return the symbol for plus infinity as a bound of an interval."""
    return _POS_INF


def neg_inf() -> Var:
    """Return the symbol for minus infinity as a bound of an interval."""
    return _NEG_INF


class IntSet(Node):
    """A set of integers."""

    def is_nothing(self) -> bool:
        """Whether the set is known to be empty.

        Returns
        -------
        bool
            True if it is.
        """
        return False

    def is_everything(self) -> bool:
        """Whether the set is unbounded on both sides.

        Returns
        -------
        bool
            True if it is.
        """
        return False

    @staticmethod
    def vector(vec: Any) -> IntSet:
        """The set of the values of all lanes of a vector.

        Parameters
        ----------
        vec : PrimExpr
            The vector.

        Returns
        -------
        IntSet
            The set.
        """
        return eval_set(vec, {})

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """The set that contains one value.

        Parameters
        ----------
        point : PrimExpr
            The value.

        Returns
        -------
        IntervalSet
            The set.
        """
        return IntervalSet(point, point)

    @staticmethod
    def everything() -> IntervalSet:
        """The set of all integers.

        Returns
        -------
        IntervalSet
            The set.
        """
        return IntervalSet(_NEG_INF, _POS_INF)

    @staticmethod
    def nothing() -> IntervalSet:
        """The empty set.

        Returns
        -------
        IntervalSet
            The set.
        """
        return IntervalSet(_POS_INF, _NEG_INF)

    @staticmethod
    def interval(low: PrimExpr, high: PrimExpr) -> IntervalSet:
        """The integers from ``low`` to ``high``, both included.

        Parameters
        ----------
        low : PrimExpr
            The smallest integer.
        high : PrimExpr
            The largest integer.

        Returns
        -------
        IntervalSet
            The set.
        """
        return IntervalSet(low, high)

    @staticmethod
    def from_range(dom: Range) -> IntervalSet:
        """The integers of a range.

        Parameters
        ----------
        dom : Range
            The range.

        Returns
        -------
        IntervalSet
            The set.
        """
        return from_range(dom)

    @staticmethod
    def from_min_extent(low: Any, extent: PrimExpr) -> IntervalSet:
        """A number of consecutive integers.

        Parameters
        ----------
        low : PrimExpr
            The smallest integer.
        extent : PrimExpr
            The number of integers.

        Returns
        -------
        IntervalSet
            The set.
        """
        return from_min_extent(low, extent)


class IntervalSet(IntSet, key="arith.IntervalSet"):
    """All integers from ``min_value`` to ``max_value``, both included.

    Parameters
    ----------
    min_value : PrimExpr
        The smallest value.
    max_value : PrimExpr
        The largest value.
    """

    min_value: PrimExpr
    max_value: PrimExpr

    def __str__(self):
        return f"IntervalSet[{self.min_value}, {self.max_value}]"

    __repr__ = __str__

    def is_nothing(self) -> bool:
        if self.min_value is _POS_INF or self.max_value is _NEG_INF:
            return True
        low, high = self.min_value, self.max_value
        return isinstance(low, IntImm) and isinstance(high, IntImm) and low.value > high.value

    def is_everything(self) -> bool:
        return self.min_value is _NEG_INF and self.max_value is _POS_INF

    def is_single_point(self) -> bool:
        """Whether the set is known to have exactly one element.

        Returns
        -------
        bool
        """
        low, high = self.min_value, self.max_value
        return low is high or (isinstance(low, IntImm) and isinstance(high, IntImm) and low.value == high.value)

    def has_lower_bound(self) -> bool:
        """Whether the set has a lower bound.

        Returns
        -------
        bool
        """
        return self.min_value is not _NEG_INF and self.min_value is not _POS_INF

    def has_upper_bound(self) -> bool:
        """Whether the set has an upper bound.

        Returns
        -------
        bool
        """
        return self.max_value is not _POS_INF and self.max_value is not _NEG_INF

    def range(self, default: Range | None = None, analyzer: Analyzer | None = None) -> Range:
        """The set as a Range, or ``default`` if the set is unbounded.

        Parameters
        ----------
        default : Range, optional
            The result for a set without a lower or an upper bound.
        analyzer : Analyzer, optional
            The analyzer that simplifies the extent. Default: one with an empty context.

        Returns
        -------
        Range

        Raises
        ------
        ValueError
            A bound is missing and there is no ``default``.
        """
        if not (self.has_lower_bound() and self.has_upper_bound()):
            if default is None:
                raise ValueError(f"the set {self} has no finite range")
            return default
        if self.min_value is self.max_value:
            return Range(min=self.min_value, extent=const(1, self.min_value.dtype))
        an = analyzer or Analyzer()
        extent = an.simplify(add(subtract(self.max_value, self.min_value), const(1, self.max_value.dtype)))
        return Range(min=self.min_value, extent=extent)


def from_min_extent(low: Any, extent: PrimExpr) -> IntervalSet:
    low, extent = convert(low), convert(extent)
    if isinstance(extent, IntImm) and extent.value == 1:
        return IntervalSet(low, low)
    return IntervalSet(low, subtract(add(low, extent), const(1, extent.dtype)))


def from_range(dom: Range) -> IntervalSet:
    return from_min_extent(dom.min, dom.extent)


def as_set(value: Any) -> IntervalSet:
    """Convert a Range, an IterVar, a set or an expression to a set."""
    if isinstance(value, IntervalSet):
        return value
    if isinstance(value, Range):
        return from_range(value)
    if isinstance(value, IterVar):
        if value.dom is None:
            raise ValueError(f"axis {value.var.name} has no range, so it cannot be converted to a set")
        return from_range(value.dom)
    return IntSet.single_point(value)


# --- bounds: a bound is an expression, or None for unbounded --------------------------------------------------------


class _Evaluator:
    """Interval arithmetic with symbolic bounds. An interval is a pair of bounds; None means unbounded."""

    def __init__(self, dom_map: dict[Any, Any], analyzer: Analyzer | None):
        self.domains = {getattr(v, "var", v): as_set(s) for v, s in dom_map.items()}
        self.an = analyzer or Analyzer()
        self.sets: dict[PrimExpr, tuple[Any, ...]] = {}
        self.active: set[Var] = set()

    def simplify(self, e: Any):
        return None if e is None else self.an.simplify(e)

    def evaluate(self, root: PrimExpr) -> tuple[Any, ...]:
        sets = self.sets
        for e in post_order(root):
            if e in sets or not isinstance(e, PrimExpr):
                continue
            if isinstance(e, Var):
                sets[e] = self.variable(e)
            elif all(sets.get(c) is None or sets[c][0] is c is sets[c][1] for c in e.children()):
                # The expression has no relaxed variable, so it is a single point. A vector is the set of its lanes.
                sets[e] = self.lanes(e) if e.__class__ in (Ramp, Broadcast) else (e, e)
            else:
                handler = _HANDLERS.get(e.__class__)
                sets[e] = (None, None) if handler is None else handler(self, e, sets)
        return sets[root]

    def lanes(self, e: Any) -> tuple[Any, ...]:
        return _HANDLERS[e.__class__](self, e, self.sets)

    def variable(self, var: Var) -> tuple[Any, ...]:
        if var is _POS_INF or var is _NEG_INF:
            return var, var
        found = self.domains.get(var)
        if found is None or var in self.active:
            return var, var
        low = found.min_value if found.has_lower_bound() else None
        high = found.max_value if found.has_upper_bound() else None
        if found.is_nothing():
            return found.min_value, found.max_value
        # The bounds may contain variables that have sets themselves.
        self.active.add(var)
        low = low if low is None else self.end(low, 0)
        high = high if high is None else self.end(high, 1)
        self.active.discard(var)
        return low, high

    def end(self, e: Any, side: int):
        if isinstance(e, IntImm) or not any(v in self.domains and v not in self.active for v in variables(e)):
            return e
        inner = _Evaluator({}, self.an)
        inner.domains, inner.active = self.domains, self.active
        return self.simplify(inner.evaluate(self.an.simplify(e))[side])

    # Simplify a bound before testing its sign.
    def is_nonnegative(self, e: Any) -> bool:
        return e is not None and self.an.can_prove_greater_equal(e, 0)

    def is_positive(self, e: Any) -> bool:
        return e is not None and self.an.can_prove_greater_equal(e, 1)

    def is_negative(self, e: Any) -> bool:
        return e is not None and self.an.can_prove_less(e, 0)


def _both(f: Any, a: Any, b: Any):
    return None if a is None or b is None else f(a, b)


def _add(ev: Any, e: PrimExpr, sets: Any):
    a, b = sets[e.a], sets[e.b]
    return _both(add, a[0], b[0]), _both(add, a[1], b[1])


def _sub(ev: Any, e: PrimExpr, sets: Any):
    a, b = sets[e.a], sets[e.b]
    if a == b and a[0] is a[1] and a[0] is not None:
        return const(0, e.dtype), const(0, e.dtype)
    return _both(subtract, a[0], b[1]), _both(subtract, a[1], b[0])


def _is_point(pair: Any) -> bool:
    return pair[0] is pair[1] and pair[0] is not None


def _scale(ev: Any, pair: Any, factor: Any, function: Any):
    """Apply ``function(bound, factor)`` to both bounds, and swap them if the factor is negative."""
    low, high = pair
    if ev.is_nonnegative(factor):
        return _both(function, low, factor), _both(function, high, factor)
    if ev.is_negative(factor):
        return _both(function, high, factor), _both(function, low, factor)
    if low is None or high is None:
        return None, None
    sign = GE(factor, const(0, factor.dtype))
    first, last = function(low, factor), function(high, factor)
    return select(sign, first, last), select(sign, last, first)


def _mul(ev: Any, e: PrimExpr, sets: Any):
    a, b = sets[e.a], sets[e.b]
    if _is_point(a):
        a, b = b, a
    if _is_point(b):
        if isinstance(b[0], IntImm) and b[0].value == 0:
            return b
        return _scale(ev, a, b[0], multiply)
    if ev.is_nonnegative(a[0]) and ev.is_nonnegative(b[0]):
        return multiply(a[0], b[0]), _both(multiply, a[1], b[1])
    ends = [ev.simplify(x) for x in (*a, *b)]
    if all(isinstance(x, IntImm) for x in ends):
        corners = [x.value * y.value for x in ends[:2] for y in ends[2:]]
        return const(min(corners), e.dtype), const(max(corners), e.dtype)
    return None, None


def _divide(function: Any):
    def handler(ev: Any, e: PrimExpr, sets: Any):
        a, b = sets[e.a], sets[e.b]
        if _is_point(b):
            if isinstance(b[0], IntImm) and b[0].value == 0:
                return None, None
            return _scale(ev, a, b[0], function)
        if ev.is_positive(b[0]) and ev.is_nonnegative(a[0]):
            low = const(0, e.dtype) if b[1] is None else function(a[0], b[1])
            return low, _both(function, a[1], b[0])
        if ev.is_positive(b[0]):
            low = None if a[0] is None else minimum(a[0], const(0, e.dtype))
            high = None if a[1] is None else maximum(a[1], const(0, e.dtype))
            return low, high
        return None, None

    return handler


def _remainder(ev: Any, e: PrimExpr, sets: Any):
    a, b = sets[e.a], sets[e.b]
    divisor = b[1] if ev.is_positive(b[0]) else None
    if divisor is None:
        return None, None
    zero, top = const(0, e.dtype), subtract(divisor, const(1, e.dtype))
    trunc = e.__class__ is Mod
    if trunc and not ev.is_nonnegative(a[0]):
        return subtract(const(0, e.dtype), top), top
    if _is_point(b) and a[0] is not None and a[1] is not None:
        # If both bounds have the same quotient, the remainder increases with the dividend.
        first, last = ev.simplify(floordiv(a[0], divisor)), ev.simplify(floordiv(a[1], divisor))
        if first is last or ev.an.can_prove_equal(first, last):
            whole = multiply(first, divisor)
            return subtract(a[0], whole), subtract(a[1], whole)
    last = ev.simplify(a[1])
    if isinstance(last, IntImm) and isinstance(divisor, IntImm) and ev.is_nonnegative(a[0]):
        return zero, minimum(last, top)
    return zero, top


def _min(ev: Any, e: PrimExpr, sets: Any):
    a, b = sets[e.a], sets[e.b]
    high = b[1] if a[1] is None else a[1] if b[1] is None else minimum(a[1], b[1])
    return _both(minimum, a[0], b[0]), high


def _max(ev: Any, e: PrimExpr, sets: Any):
    a, b = sets[e.a], sets[e.b]
    low = b[0] if a[0] is None else a[0] if b[0] is None else maximum(a[0], b[0])
    return low, _both(maximum, a[1], b[1])


def _hull(a: Any, b: Any):
    return _both(minimum, a[0], b[0]), _both(maximum, a[1], b[1])


def _select(ev: Any, e: PrimExpr, sets: Any):
    return _hull(sets[e.true_value], sets[e.false_value])


def _cast(ev: Any, e: PrimExpr, sets: Any):
    low, high = sets[e.value]
    to, source = info(e.dtype), info(e.value.dtype)
    if not (to.code == source.code == "int") or to.bits < 32:
        return None, None
    return (None if low is None else cast(e.dtype, low)), (None if high is None else cast(e.dtype, high))


def _ramp(ev: Any, e: PrimExpr, sets: Any):
    base, stride = sets.get(e.base, (e.base, e.base)), sets.get(e.stride, (e.stride, e.stride))
    if not _is_point(stride):
        return None, None
    step = multiply(stride[0], const(e.lanes - 1, stride[0].dtype))
    zero = const(0, step.dtype)
    if ev.is_nonnegative(step):
        return base[0], _both(add, base[1], step)
    if ev.is_negative(step):
        return _both(add, base[0], step), base[1]
    return _both(add, base[0], minimum(step, zero)), _both(add, base[1], maximum(step, zero))


def _broadcast(ev: Any, e: PrimExpr, sets: Any):
    return sets[e.value]


def _boolean_bounds(ev: Any, e: PrimExpr, sets: Any):
    return const(0, "bool"), const(1, "bool")


def _call(ev: Any, e: PrimExpr, sets: Any):
    name = getattr(e.op, "name", None)
    if name == "tir.likely":
        return sets[e.args[0]]
    if name == "tir.if_then_else":
        return _hull(sets[e.args[1]], sets[e.args[2]])
    if name in ("tir.shift_right", "tir.shift_left") and isinstance(e.args[1], IntImm) and 0 <= e.args[1].value < 31:
        factor = const(1 << e.args[1].value, e.dtype)
        function = floordiv if name == "tir.shift_right" else multiply
        low, high = sets[e.args[0]]
        return _both(function, low, factor), _both(function, high, factor)
    return None, None


_HANDLERS: dict[type[Any], Callable[..., Any]] = {
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    Div: _divide(truncdiv),
    FloorDiv: _divide(floordiv),
    Mod: _remainder,
    FloorMod: _remainder,
    Min: _min,
    Max: _max,
    Select: _select,
    Cast: _cast,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Call: _call,
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE, And, Or, Not), _boolean_bounds),
}


def eval_set(expr: Any, dom_map: Any, analyzer: Analyzer | None = None) -> IntervalSet:
    """The interval of ``expr`` (an expression, a Range or a set) when variables take the values of their sets in
    ``dom_map``.

    Parameters
    ----------
    expr : PrimExpr, Range or IntSet
        The value to bound.
    dom_map : dict of Var to IntSet or Range
        The sets of the variables.
    analyzer : Analyzer, optional
        An analyzer with the known facts about variables.

    Returns
    -------
    IntervalSet
    """
    ev = _Evaluator(dict(dom_map), analyzer)
    if isinstance(expr, (Range, IntSet)):
        found = as_set(expr)
        if found.is_nothing():
            return found
        low = ev.evaluate(found.min_value)[0] if found.has_lower_bound() else None
        high = ev.evaluate(found.max_value)[1] if found.has_upper_bound() else None
    else:
        e = convert(expr)
        low, high = ev.evaluate(ev.an.simplify(e) if info(e.dtype).lanes == 1 else e)
    return _interval(ev.an, low, high)


def _interval(an: Analyzer, low: Any, high: Any) -> IntervalSet:
    if low is high and low is not None:
        point = an.simplify(low) if low.dtype != "handle" else low
        return IntervalSet(point, point)

    def end(e: Any, missing: Any):
        if e is None:
            return missing
        return e if e.dtype == "handle" else an.simplify(e)

    return IntervalSet(end(low, _NEG_INF), end(high, _POS_INF))


def _ends(s: IntervalSet) -> tuple[Any, ...]:
    return (s.min_value if s.has_lower_bound() else None), (s.max_value if s.has_upper_bound() else None)


def union(sets: Any, analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval that contains all the sets.

    Parameters
    ----------
    sets : list of IntSet
        The sets.
    analyzer : Analyzer, optional
        An analyzer with the known facts about variables.

    Returns
    -------
    IntervalSet
    """
    sets = [as_set(s) for s in sets]
    sets = [s for s in sets if not s.is_nothing()]
    if not sets:
        return IntSet.nothing()
    if len(sets) == 1:
        return sets[0]
    an = analyzer or Analyzer()
    low, high = _ends(sets[0])
    for s in sets[1:]:
        low, high = _hull((low, high), _ends(s))
    return _interval(an, low, high)


def intersect(sets: Any, analyzer: Analyzer | None = None) -> IntervalSet:
    """The intersection of the sets.

    Parameters
    ----------
    sets : list of IntSet
        The sets.
    analyzer : Analyzer, optional
        An analyzer with the known facts about variables.

    Returns
    -------
    IntervalSet
    """
    sets = [as_set(s) for s in sets]
    if any(s.is_nothing() for s in sets):
        return IntSet.nothing()
    an = analyzer or Analyzer()
    low = high = None
    for s in sets:
        a, b = _ends(s)
        low = a if low is None else low if a is None else maximum(low, a)
        high = b if high is None else high if b is None else minimum(high, b)
    got = _interval(an, low, high)
    if got.has_lower_bound() and got.has_upper_bound() and an.can_prove(GT(got.min_value, got.max_value)):
        return IntSet.nothing()
    return got


def union_lower_bound(sets: Any, analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval that the union of the sets covers completely. Only sets that provably overlap or touch are merged.

    Parameters
    ----------
    sets : list of IntSet
        The sets.
    analyzer : Analyzer, optional
        An analyzer with the known facts about variables.

    Returns
    -------
    IntervalSet
    """
    an = analyzer or Analyzer()
    sets = [as_set(s) for s in sets]
    sets = [s for s in sets if not s.is_nothing()]
    if not sets:
        return IntSet.nothing()

    def reaches(high: Any, low: Any) -> bool:
        """Return whether there is provably no integer between an interval that ends at ``high`` and one that starts at
        ``low``."""
        return high is None or low is None or an.can_prove(GE(add(high, const(1, high.dtype)), low))

    low, high = _ends(sets[0])
    rest = sets[1:]
    merged = True
    while merged and rest:
        merged = False
        for s in list(rest):
            a, b = _ends(s)
            if reaches(high, a) and reaches(b, low):
                low, high = _hull((low, high), (a, b))
                rest.remove(s)
                merged = True
    return _interval(an, low, high)
