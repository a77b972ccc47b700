"""Linear forms of expressions, and the bounds that conditions imply for variables.

``linear_form`` is the shared core: ``expr = sum(coefficient[v] * v) + base``, where coefficients and base do not
contain the variables. Integers are assumed not to overflow, as for index arithmetic, so the difference of unsigned
integers has type int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..dtype import info
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Sub,
    Var,
    const,
    convert,
)
from ..ir.primop import add, cast, floordiv, logical_not, maximum, minimum, multiply, negative, subtract
from ..ir.visit import post_order
from .analyzer import Analyzer

# Coefficients by variable (missing means zero), and the base.
LinearForm = tuple[dict[Var, PrimExpr], PrimExpr]

_OPPOSITE = {LT: GE, LE: GT, GT: LE, GE: LT, EQ: NE, NE: EQ}


def _signed(value: PrimExpr) -> PrimExpr:
    return cast("int64", value) if info(value.dtype).is_uint else value


def _matched(function: Callable[[PrimExpr, PrimExpr], PrimExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Apply a sum, difference or product. With unsigned and signed operands the result is signed, and so is every
    difference, because it may be negative."""
    if a.dtype != b.dtype or function is subtract:
        a, b = _signed(a), _signed(b)
    return function(a, b)


def _combine(a: LinearForm, b: LinearForm, sign: int) -> LinearForm:
    function = add if sign > 0 else subtract
    coefficients = dict(a[0])
    for var, value in b[0].items():
        have = coefficients.get(var)
        if have is None:
            coefficients[var] = value if sign > 0 else negative(_signed(value))
        else:
            coefficients[var] = _matched(function, have, value)
    return coefficients, _matched(function, a[1], b[1])


def _scaled(form: LinearForm, factor: PrimExpr) -> LinearForm:
    return {v: _matched(multiply, c, factor) for v, c in form[0].items()}, _matched(multiply, form[1], factor)


def linear_form(expr: PrimExpr, variables: Iterable[Var]) -> LinearForm | None:
    """Return ``expr`` as a linear form in ``variables``, or None if it is not linear in them."""
    wanted = set(variables)
    forms: dict[int, LinearForm] = {}
    for node in post_order(expr):
        form = _node_form(node, wanted, forms)
        if form is None:
            # Every visited node is part of ``expr``, so one nonlinear node makes it nonlinear.
            return None
        forms[id(node)] = form
    return forms[id(expr)]


def _node_form(node: Any, wanted: set[Var], forms: dict[int, LinearForm]) -> LinearForm | None:
    if isinstance(node, Var):
        return ({node: const(1, node.dtype)}, const(0, node.dtype)) if node in wanted else ({}, node)
    parts = [forms[id(child)] for child in node.children()]
    if not any(p[0] for p in parts):
        return {}, node
    kind = node.__class__
    if kind is Add:
        return _combine(parts[0], parts[1], 1)
    if kind is Sub:
        return _combine(parts[0], parts[1], -1)
    if kind is Mul:
        if not parts[1][0]:
            return _scaled(parts[0], parts[1][1])
        if not parts[0][0]:
            return _scaled(parts[1], parts[0][1])
    return None


def detect_linear_equation(expr: PrimExpr, var_list: Sequence[Var]) -> list[PrimExpr]:
    """Return the coefficient of each variable followed by the base, or an empty list if ``expr`` is not linear in the
    variables."""
    expr = convert(expr)
    variables = [getattr(v, "var", v) for v in var_list]
    form = linear_form(expr, variables)
    if form is None:
        return []
    zero = const(0, expr.dtype)
    return [form[0].get(v, zero) for v in variables] + [form[1]]


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """Split ``condition`` into the terms of its conjunction, left to right.

    ``not`` is moved inwards; ``min(a, b) > c`` and ``max(a, b) < c`` become two conditions each.
    """
    out: list[PrimExpr] = []
    stack = [condition]
    seen: set[PrimExpr] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        kind = node.__class__
        if kind is And:
            stack += (node.b, node.a)
            continue
        if kind is Not:
            opened = _negation(node.a)
            if opened is not None:
                stack.append(opened)
                continue
        elif kind in (LT, LE, GT, GE):
            pair = _both_sides(node)
            if pair is not None:
                stack += (pair[1], pair[0])
                continue
        out.append(node)
    return out


def _negation(node: PrimExpr) -> PrimExpr | None:
    """Return ``not node`` with the ``not`` moved one level inwards, or None if it cannot be moved."""
    kind = node.__class__
    if kind is Not:
        return node.a
    if kind is Or:
        return And(logical_not(node.a), logical_not(node.b))
    if kind in _OPPOSITE and info(node.a.dtype).is_integer:
        return _OPPOSITE[kind](node.a, node.b)
    return None


def _both_sides(node: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """Split a comparison with a min or max operand into two conditions that are equivalent to ``node``, if possible."""
    kind, a, b = type(node), node.a, node.b
    if not info(a.dtype).is_integer:
        return None
    if (isinstance(a, Min) and kind in (GT, GE)) or (isinstance(a, Max) and kind in (LT, LE)):
        return kind(a.a, b), kind(a.b, b)
    if (isinstance(b, Min) and kind in (LT, LE)) or (isinstance(b, Max) and kind in (GT, GE)):
        return kind(a, b.a), kind(a, b.b)
    return None


def nonnegative_form(condition: PrimExpr) -> tuple[PrimExpr, bool] | None:
    """Return ``(e, False)`` if the condition means ``e >= 0``, ``(e, True)`` if it means ``e == 0``.

    Return None for anything except a comparison of signed integers, because unsigned differences wrap around.
    """
    kind = type(condition)
    if kind not in (LT, LE, GT, GE, EQ):
        return None
    a, b = condition.a, condition.b
    scalar = info(a.dtype)
    if not scalar.is_int or scalar.lanes != 1:
        return None
    if kind is LT:
        return subtract(subtract(b, a), 1), False
    if kind is LE:
        return subtract(b, a), False
    if kind is GT:
        return subtract(subtract(a, b), 1), False
    return subtract(a, b), kind is EQ


def ceildiv(a: PrimExpr, b: int) -> PrimExpr:
    """Return ``a / b`` rounded up, for positive ``b``."""
    return floordiv(add(a, b - 1), b)


def _clip(condition: PrimExpr, variables: Sequence[Var], analyzer: Analyzer):
    """Return ``(variable, min or None, max or None)`` equivalent to ``condition``, or None."""
    used = {n for n in post_order(condition) if isinstance(n, Var)}.intersection(variables)
    if len(used) != 1:
        return None
    var = used.pop()
    canonical = nonnegative_form(condition)
    if canonical is None:
        return None
    form = linear_form(analyzer.simplify(canonical[0]), (var,))
    if form is None or var not in form[0]:
        return None
    coefficient, base = analyzer.simplify(form[0][var]), form[1]
    if not isinstance(coefficient, IntImm) or coefficient.value == 0:
        return None
    factor, equality = coefficient.value, canonical[1]
    if equality and abs(factor) != 1:
        return None
    if factor > 0:
        low = negative(base) if factor == 1 else ceildiv(negative(base), factor)
        return var, low, low if equality else None
    high = base if factor == -1 else floordiv(base, -factor)
    return var, high if equality else None, high


def detect_clip_bound(expr: PrimExpr, var_list: Sequence[Var]) -> list[PrimExpr | None]:
    """Return ``[min0, max0, min1, max1, ...]`` of the variables if ``expr`` is equivalent to these bounds, else an
    empty list.

    An entry is None if a variable has no such bound. Each condition may contain only one of the variables.
    """
    variables = [getattr(v, "var", v) for v in var_list]
    analyzer = Analyzer()
    low: dict[Var, PrimExpr] = {}
    high: dict[Var, PrimExpr] = {}
    for condition in conjuncts(convert(expr)):
        got = _clip(condition, variables, analyzer)
        if got is None:
            return []
        var, at_least, at_most = got
        if at_least is not None:
            low[var] = maximum(low[var], at_least) if var in low else at_least
        if at_most is not None:
            high[var] = minimum(high[var], at_most) if var in high else at_most
    out: list[PrimExpr | None] = []
    for var in variables:
        for table in (low, high):
            value = table.get(var)
            out.append(None if value is None else analyzer.simplify(value))
    return out
