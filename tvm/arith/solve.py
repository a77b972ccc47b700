"""Solvers for systems of linear equations and inequalities over the integers.

Equations are solved by diagonalizing the coefficient matrix with row and column operations; inequalities by
Fourier-Motzkin elimination, one variable at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dtype import info
from ..ir.node import Node
from ..ir.prim import EQ, GE, LE, Call, IntImm, PrimExpr, Range, Var, const, convert
from ..ir.primop import add, equal, floordiv, floormod, multiply, subtract
from ..ir.subst import substitute, uses_var
from ..ir.visit import post_order
from .analyzer import Analyzer
from .diagonal import diagonalize
from .interval_set import IntSet, as_set
from .linear import conjuncts, nonnegative_form
from .sums import Sum, compose, decompose, reduced, scaled, weighted

if TYPE_CHECKING:
    from ..ir.span import Span

# Derived inequalities only narrow the ranges, so elimination may stop deriving them when there are too many.
_MOST_DERIVED = 300


class IntGroupBounds(Node, key="arith.IntGroupBounds"):
    """Bounds of ``coef * variable``: lower bounds, equal values, upper bounds."""

    coef: PrimExpr
    lower: tuple[PrimExpr, ...]
    equal: tuple[PrimExpr, ...]
    upper: tuple[PrimExpr, ...]

    @staticmethod
    def from_range(rng: Range) -> IntGroupBounds:
        one = const(1, rng.min.dtype)
        if isinstance(rng.extent, IntImm) and rng.extent.value == 1:
            return IntGroupBounds(one, (), (rng.min,), ())
        last = Analyzer().simplify(subtract(add(rng.min, rng.extent), 1))
        return IntGroupBounds(one, (rng.min,), (), (last,))

    def find_best_range(self, vranges_addl: Mapping[Var, Range] | None = None) -> Range | None:
        """Return the range from the pair of bounds that leaves the fewest values for any values of the other variables,
        or None without such a pair."""
        analyzer = Analyzer()
        domains: dict[Any, Any] = {}
        for var, dom in (vranges_addl or {}).items():
            analyzer.bind(var, dom)
            domains[var] = as_set(dom)
        best: tuple[PrimExpr, PrimExpr] | None = None
        for low in (*self.equal, *self.lower):
            for high in (*self.equal, *self.upper):
                got = _spread(low, high, self.coef, domains, analyzer)
                if got is not None and (best is None or analyzer.can_prove(got[1] < best[1])):
                    best = got
        return None if best is None else Range(min=best[0], extent=analyzer.simplify(add(best[1], 1)))


def _spread(
    low: Any, high: Any, coef: Any, domains: Mapping[Var, IntSet], analyzer: Analyzer
) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the smallest integer that is at least ``low / coef``, and an upper bound of the distance to ``high /
    coef``."""
    first = analyzer.simplify(floordiv(subtract(add(low, coef), 1), coef))
    found: PrimExpr | None = None
    for difference in (floordiv(subtract(high, low), coef), subtract(floordiv(high, coef), first)):
        most = analyzer.int_set(analyzer.simplify(difference), domains).max_value
        if most.dtype == "handle" or not _is_index(most):
            continue
        if found is None or analyzer.can_prove(most < found):
            found = most
    return None if found is None else (first, found)  # pyright: ignore[reportUnnecessaryComparison]


def _is_index(expr: PrimExpr) -> bool:
    """Return whether ``expr`` contains only integer arithmetic, without calls and floats, whose values are unknown."""
    return not any(isinstance(n, Call) or info(n.dtype).is_float for n in post_order(expr))


class IntConstraints(Node, key="arith.IntConstraints"):
    """Variables, their ranges, and the relations between them."""

    variables: tuple[Any, ...]
    ranges: dict[Any, Any]
    relations: tuple[PrimExpr, ...]

    def __init__(self, variables: Any = (), ranges: Any = None, relations: Any = (), span: Span | None = None):
        self.variables = tuple(getattr(v, "var", v) for v in variables or ())
        given: Mapping[Any, Any] = ranges or {}
        self.ranges = {getattr(v, "var", v): r for v, r in given.items()}
        self.relations = tuple(convert(r) for r in relations or ())
        self.span = span


class IntConstraintsTransform(Node, key="arith.IntConstraintsTransform"):
    """Two equivalent systems, and the variables of each expressed by those of the other."""

    src: Node
    dst: Node
    src_to_dst: dict[Any, Any]
    dst_to_src: dict[Any, Any]


def _system(equations: Any, variables: Any, ranges: Any) -> IntConstraints:
    if isinstance(equations, IntConstraints):
        return equations
    if not isinstance(equations, (list, tuple)):
        equations = [equations]
    return IntConstraints(variables, ranges, equations)


def _impossible() -> IntConstraints:
    return IntConstraints((), {}, (const(False, "bool"),))


def _analyzer(ranges: Mapping[Var, Range]) -> Analyzer:
    analyzer = Analyzer()
    for var, dom in ranges.items():
        analyzer.bind(var, dom)
    return analyzer


# -- equations ------------------------------------------------------------------------------------------------------


def solve_linear_equations(
    equations: Sequence[PrimExpr] | IntConstraints,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
) -> IntConstraintsTransform:
    """Transform the system to as few variables as the equations leave free.

    Relations that are not linear equations in ``variables`` are kept. A system without a solution becomes a system
    without variables and with the relation false.
    """
    src = _system(equations, variables, ranges)
    if not src.variables:
        return IntConstraintsTransform(src, src, {}, {})
    analyzer = _analyzer(src.ranges)
    rows, right, others = _equations(src, analyzer)
    solved = _solve_rows(src, rows, right, analyzer)
    if solved is None:
        return IntConstraintsTransform(src, _impossible(), {}, {})
    src_to_dst, dst_to_src, relations = solved
    new_ranges: dict[Var, Range] = {}
    for var, value in dst_to_src.items():
        values = analyzer.int_set(value, {v: as_set(r) for v, r in src.ranges.items()})
        if isinstance(values.min_value, IntImm) and isinstance(values.max_value, IntImm):
            new_ranges[var] = values.range()
    for var, dom in new_ranges.items():
        analyzer.bind(var, dom)
    relations += _range_conditions(src, src_to_dst, analyzer)
    relations += [analyzer.simplify(substitute(other, src_to_dst)) for other in others]
    relations = [r for r in relations if not (isinstance(r, IntImm) and r.value)]
    dst = IntConstraints(tuple(dst_to_src), new_ranges, relations)
    return IntConstraintsTransform(src, dst, src_to_dst, dst_to_src)


def _largest(value: Sum, analyzer: Analyzer) -> float:
    """Return an upper bound of the sum from the constant bounds of its atoms."""
    total: float = value.constant
    for atom, c in value.terms.items():
        bound = analyzer.const_int_bound(atom)
        end = bound.max_value if c > 0 else bound.min_value
        if end in (bound.POS_INF, bound.NEG_INF):
            return math.inf
        total += c * end
    return total


def _mentions(value: Sum, variables: set[Var]) -> bool:
    """Return whether an atom that is not itself one of the variables contains one."""
    return any(not isinstance(atom, Var) and uses_var(atom, variables) for atom in value.terms)


def _equations(src: IntConstraints, analyzer: Analyzer) -> tuple[list[list[int]], list[Sum], list[PrimExpr]]:
    """Return the rows of coefficients with their right-hand sides, and the relations that are not linear equations."""
    wanted = set(src.variables)
    rows: list[list[int]] = []
    right: list[Sum] = []
    others: list[PrimExpr] = []
    for relation in src.relations:
        form = nonnegative_form(relation) if isinstance(relation, EQ) else None
        total = None if form is None else decompose(form[0], analyzer)
        if total is None or _mentions(total, wanted):
            others.append(relation)
            continue
        rows.append([total.terms.get(v, 0) for v in src.variables])
        rest = Sum({a: c for a, c in total.terms.items() if a not in wanted}, total.constant)
        right.append(scaled(rest, -1))
    return rows, right, others


def _solve_rows(
    src: IntConstraints, rows: list[list[int]], right: list[Sum], analyzer: Analyzer
) -> tuple[dict[Any, Any], dict[Any, Any], list[PrimExpr]] | None:
    """Return ``(src_to_dst, dst_to_src, conditions)``, or None if the equations have no integer solution."""
    dtype = src.variables[0].dtype
    count = len(src.variables)
    form = diagonalize(rows, count)
    transformed: list[Sum] = []
    for row in form.left:
        total = Sum({}, 0)
        for factor, side in zip(row, right):
            total = weighted(total, 1, side, factor)
        transformed.append(total)
    known: list[Sum] = []
    conditions: list[PrimExpr] = []
    for i, side in enumerate(transformed):
        factor = form.diagonal[i] if i < len(form.diagonal) else 0
        if factor == 0 or not side.terms:
            if side.terms:
                conditions.append(equal(compose(side, dtype), const(0, dtype)))
            elif side.constant % factor if factor else side.constant:
                return None
            if factor:
                known.append(Sum({}, side.constant // factor))
            continue
        value = compose(side, dtype)
        if abs(factor) != 1:
            conditions.append(analyzer.simplify(equal(floormod(value, const(abs(factor), dtype)), const(0, dtype))))
        known.append(decompose(analyzer.simplify(floordiv(value, const(factor, dtype))), analyzer))
    free = [Var(f"n{k}", dtype) for k in range(count - len(known))]
    parts = known + [Sum({var: 1}, 0) for var in free]
    src_to_dst: dict[Any, Any] = {}
    for i, var in enumerate(src.variables):
        total = Sum({}, 0)
        for factor, part in zip(form.right[i], parts):
            total = weighted(total, 1, part, factor)
        src_to_dst[var] = compose(total, dtype, free)
    dst_to_src: dict[Any, Any] = {}
    for k, var in enumerate(free):
        row = form.right_inverse[len(known) + k]
        dst_to_src[var] = compose(Sum({v: c for v, c in zip(src.variables, row) if c}, 0), dtype)
    return src_to_dst, dst_to_src, conditions


def _range_conditions(src: IntConstraints, values: Mapping[Var, PrimExpr], analyzer: Analyzer) -> list[PrimExpr]:
    """Return the conditions on the new variables that follow from the ranges of the old ones but not from the new
    ranges."""
    out: list[PrimExpr] = []
    for var in src.variables:
        dom = src.ranges.get(var)
        if dom is None:
            continue
        value = values[var]
        last = analyzer.simplify(subtract(add(dom.min, dom.extent), 1))
        for low, high in ((dom.min, value), (value, last)):
            excess = decompose(subtract(low, high), analyzer)
            if _largest(excess, analyzer) > 0:
                out.append(LE(low, high) if excess.terms else const(False, "bool"))
    return out


# -- inequalities ---------------------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """Bounds of one variable: ``factor * variable`` is at least each of ``lower``, equal to each of ``equal``, at most
    each of ``upper``."""

    factor: int
    lower: list[Sum]
    equal: list[Sum]
    upper: list[Sum]


class _Contradiction(Exception):
    """An inequality between constants is false."""


class _Elimination:
    """Fourier-Motzkin elimination of the variables of a system, in order."""

    def __init__(self, system: IntConstraints):
        self.system = system
        self.analyzer = _analyzer(system.ranges)
        self.wanted = set(system.variables)
        self.order = list(reversed(system.variables))
        self.bounds: dict[Var, Bounds] = {}
        # Sums that are at most zero, and relations that are not linear inequalities.
        self.left: list[Sum] = []
        self.others: list[PrimExpr] = []
        for relation in system.relations:
            for condition in conjuncts(relation):
                self._add_condition(condition)
        for var in system.variables:
            self._eliminate(var)

    def dtype(self) -> str:
        return self.system.variables[0].dtype if self.system.variables else "int32"

    def _add_condition(self, condition: PrimExpr) -> None:
        if isinstance(condition, IntImm):
            if not condition.value:
                raise _Contradiction
            return
        form = nonnegative_form(condition)
        if form is None:
            self.others.append(condition)
            return
        total = decompose(form[0], self.analyzer)
        self._add(self.left, scaled(total, -1))
        if form[1]:
            self._add(self.left, total)

    def _add(self, sums: list[Sum], new: Sum) -> None:
        """Add ``new <= 0`` unless it follows from the ranges or from another sum. Remove sums that follow from it."""
        new = reduced(new)
        if not new.terms and new.constant > 0:
            raise _Contradiction
        if _largest(new, self.analyzer) <= 0:
            return
        kept: list[Sum] = []
        for old in sums:
            if _largest(weighted(new, 1, old, -1), self.analyzer) <= 0:
                return
            if _largest(weighted(old, 1, new, -1), self.analyzer) > 0:
                kept.append(old)
        sums[:] = [*kept, new]

    def _eliminate(self, var: Var) -> None:
        above: list[tuple[int, Sum]] = []  # factor * var + rest <= 0 with factor > 0
        below: list[tuple[int, Sum]] = []
        dom = self.system.ranges.get(var)
        if dom is not None:
            last = self.analyzer.simplify(subtract(add(dom.min, dom.extent), 1))
            below.append((-1, decompose(self.analyzer.simplify(dom.min), self.analyzer)))
            above.append((1, scaled(decompose(last, self.analyzer), -1)))
        left: list[Sum] = []
        for total in self.left:
            if _mentions(total, {var}):
                self.others.append(LE(compose(total, var.dtype, self.order), const(0, var.dtype)))
                continue
            factor = total.terms.get(var, 0)
            if factor == 0:
                self._add(left, total)
                continue
            rest = Sum({a: c for a, c in total.terms.items() if a is not var}, total.constant)
            (above if factor > 0 else below).append((factor, rest))
        for high, rest_high in above:
            for low, rest_low in below:
                if len(left) < _MOST_DERIVED:
                    common = math.gcd(high, low)
                    self._add(left, weighted(rest_low, high // common, rest_high, -low // common))
        self.left = left
        self.bounds[var] = self._collect(above, below)

    def _collect(self, above: list[tuple[int, Sum]], below: list[tuple[int, Sum]]) -> Bounds:
        factor = math.lcm(*(c for c, _ in above), *(-c for c, _ in below))
        upper: list[Sum] = []
        lower: list[Sum] = []
        for c, rest in above:
            self._keep_best(upper, scaled(rest, -factor // c), 1)
        for c, rest in below:
            self._keep_best(lower, scaled(rest, factor // -c), -1)
        same = [s for s in lower if s in upper]
        return Bounds(factor, [s for s in lower if s not in same], same, [s for s in upper if s not in same])

    def _keep_best(self, bounds: list[Sum], new: Sum, sign: int) -> None:
        """Keep the tighter of two comparable bounds: the smaller one for sign 1, the larger one for sign -1."""
        kept: list[Sum] = []
        for old in bounds:
            if _largest(weighted(old, sign, new, -sign), self.analyzer) <= 0:
                return
            if _largest(weighted(new, sign, old, -sign), self.analyzer) > 0:
                kept.append(old)
        bounds[:] = [*kept, new]

    def group(self, var: Var) -> IntGroupBounds:
        got = self.bounds[var]
        parts = [tuple(compose(s, var.dtype, self.order) for s in sums) for sums in got[1:]]
        return IntGroupBounds(const(got.factor, var.dtype), *parts)

    def remaining(self) -> list[PrimExpr]:
        """Return the conditions that bound no variable."""
        dtype = self.dtype()
        return [LE(compose(s, dtype, self.order), const(0, dtype)) for s in self.left] + self.others

    def conditions(self) -> list[PrimExpr]:
        """Return the whole system: for each variable its bounds, then the conditions that bound no variable."""
        out: list[PrimExpr] = []
        for var in self.system.variables:
            group = self.group(var)
            value = multiply(var, group.coef)
            out += [EQ(value, e) for e in group.equal]
            out += [GE(value, e) for e in group.lower]
            out += [LE(value, e) for e in group.upper]
        return out + self.remaining()


def solve_inequalities_as_conditions(
    variables: Sequence[Var], ranges: Mapping[Var, Range], inequalities: Sequence[PrimExpr]
) -> list[PrimExpr]:
    """Return an equivalent list of conditions in which each variable is bounded by the variables after it."""
    try:
        return _Elimination(IntConstraints(variables, ranges, inequalities)).conditions()
    except _Contradiction:
        return [const(False, "bool")]


def solve_linear_inequalities(
    equations: Sequence[PrimExpr] | IntConstraints,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform:
    """Return a range for each variable (in terms of the variables after it) and the conditions that the ranges do not
    imply.

    With ``deskew_range`` the variables are replaced by new ones that start at zero; the result then contains both
    systems.
    """
    system = _system(equations, variables, ranges)
    try:
        elimination = _Elimination(system)
        return _deskewed(elimination) if deskew_range else _ranged(elimination)
    except _Contradiction:
        if deskew_range:
            return IntConstraintsTransform(system, _impossible(), {}, {})
        return _impossible()


def _checked(dom: Range | None) -> Range | None:
    if dom is not None and isinstance(dom.extent, IntImm) and dom.extent.value <= 0:
        raise _Contradiction
    return dom


def _ranged(elimination: _Elimination) -> IntConstraints:
    system = elimination.system
    known, found = dict(system.ranges), {}
    for var in elimination.order:
        dom = _checked(elimination.group(var).find_best_range(known))
        if dom is not None:
            known[var] = found[var] = dom
    analyzer = _analyzer(known)
    relations = [c for c in elimination.conditions() if not _certain(c, analyzer)]
    return IntConstraints(system.variables, found, relations)


def _certain(condition: PrimExpr, analyzer: Analyzer) -> bool:
    form = nonnegative_form(condition)
    if form is None:
        return analyzer.can_prove(condition)
    total = decompose(form[0], analyzer)
    return _largest(scaled(total, -1), analyzer) <= 0 and (not form[1] or _largest(total, analyzer) <= 0)


def _deskewed(elimination: _Elimination) -> IntConstraintsTransform:
    system = elimination.system
    known = {v: r for v, r in system.ranges.items() if v not in elimination.wanted}
    src_to_dst: dict[Var, PrimExpr] = {}
    dst_to_src: dict[Var, PrimExpr] = {}
    found: dict[Var, Range] = {}
    made: list[Var] = []
    for var in elimination.order:
        group = elimination.group(var)
        parts = [tuple(substitute(e, src_to_dst) for e in side) for side in (group.lower, group.equal, group.upper)]
        dom = _checked(IntGroupBounds(group.coef, *parts).find_best_range(known))
        if dom is None:
            src_to_dst[var] = dst_to_src[var] = var
            made.append(var)
        elif isinstance(dom.extent, IntImm) and dom.extent.value == 1:
            src_to_dst[var] = dom.min
        else:
            new = Var(f"{var.name}.shifted", var.dtype)
            src_to_dst[var] = add(new, dom.min)
            start = decompose(substitute(dom.min, dst_to_src), elimination.analyzer)
            dst_to_src[new] = compose(weighted(Sum({var: 1}, 0), 1, start, -1), var.dtype, (var,))
            known[new] = found[new] = Range(min=const(0, var.dtype), extent=dom.extent)
            made.append(new)
    analyzer = _analyzer(known)
    relations = _carried(elimination.conditions(), src_to_dst, made, analyzer)
    dst = IntConstraints(tuple(reversed(made)), found, relations)
    return IntConstraintsTransform(system, dst, src_to_dst, dst_to_src)


def _carried(
    conditions: Sequence[PrimExpr], values: Mapping[Var, PrimExpr], order: Sequence[Var], analyzer: Analyzer
) -> list[PrimExpr]:
    """Return the conditions in the new variables, constants on the right, without those that the ranges imply."""
    out: list[PrimExpr] = []
    for condition in conditions:
        condition = substitute(condition, values)
        if _certain(condition, analyzer):
            continue
        form = nonnegative_form(condition)
        if form is None or not decompose(form[0], analyzer).terms:
            condition = analyzer.simplify(condition)
            if isinstance(condition, IntImm) and not condition.value:
                raise _Contradiction
            out.append(condition)
            continue
        excess = scaled(decompose(form[0], analyzer), -1)
        left, limit = Sum(excess.terms, 0), const(-excess.constant, condition.a.dtype)
        out.append((EQ if form[1] else LE)(compose(left, condition.a.dtype, order), limit))
    return out
