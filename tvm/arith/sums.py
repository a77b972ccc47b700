"""Sums of atoms with integer coefficients: ``3 * x - 2 * f(y) + 7`` as a map of coefficients and a constant.

This linear form is shared by the whole compiler: rules and solvers add and scale it, passes read strides from it, and
code generators compute addresses with it. Arithmetic uses Python integers, which do not overflow, as is assumed for
indices; ``fits`` and ``integer_sum`` test whether the result is a value of the type. Atoms are compared by identity, so
equal expressions are one atom only if an Interner made them the same object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..dtype import info, int_range
from ..ir.prim import Add, Cast, IntImm, Mul, PrimExpr, Sub, Var, const
from ..ir.primop import add, multiply, subtract
from ..ir.visit import post_order
from .compare import Interner
from .const_bound import dtype_bound

# After this many nodes, assume that the expression shares subexpressions, which would otherwise be visited once per
# path.
_SHARED = 256


class Sum(NamedTuple):
    """``sum(coefficient * atom) + constant``. No coefficient is zero; atoms are in order of first occurrence."""

    terms: dict[Any, int]
    constant: int

    def coefficient(self, atom: PrimExpr) -> int:
        return self.terms.get(atom, 0)

    def without(self, atom: PrimExpr) -> Sum:
        return Sum({a: c for a, c in self.terms.items() if a is not atom}, self.constant)


def linear_sum(root: PrimExpr, widened: bool = False, cancelled: list[PrimExpr] | None = None) -> Sum:
    """Convert ``root`` to a sum. A node that is not a sum, difference or multiple becomes an atom. With ``widened``, an
    int32 expression cast to int64 is treated as the int32 expression. Atoms that cancel are appended to ``cancelled``.
    The cost is linear in the number of nodes, shared or not."""
    terms: dict[PrimExpr, int] = {}
    constant = 0
    stack = [(root, 1)]
    budget = _SHARED
    while stack:
        node, weight = stack.pop()
        budget -= 1
        if not budget:
            return _shared_sum(root, widened, cancelled)
        cls = type(node)
        if cls is IntImm:
            constant += weight * node.value
        elif cls is Add:
            stack.append((node.b, weight))
            stack.append((node.a, weight))
        elif cls is Sub:
            stack.append((node.b, -weight))
            stack.append((node.a, weight))
        elif cls is Mul and type(node.b) is IntImm:
            stack.append((node.a, weight * node.b.value))
        elif cls is Mul and type(node.a) is IntImm:
            stack.append((node.b, weight * node.a.value))
        elif widened and cls is Cast and node.dtype == "int64" and node.value.dtype == "int32":
            stack.append((node.value, weight))
        else:
            terms[node] = terms.get(node, 0) + weight
    return _without_zeros(terms, constant, cancelled)


def _without_zeros(terms: dict[PrimExpr, int], constant: int, cancelled: list[PrimExpr] | None) -> Sum:
    if all(terms.values()):
        return Sum(terms, constant)
    if cancelled is not None:
        cancelled += [atom for atom, c in terms.items() if not c]
    return Sum({atom: c for atom, c in terms.items() if c}, constant)


def _addends(node: PrimExpr, widened: bool) -> list[tuple[PrimExpr, int]]:
    """Return the operands of a sum, difference or multiple with their weights, left to right; an empty list for an
    atom."""
    cls = type(node)
    if cls is Add or cls is Sub:
        return [(node.a, 1), (node.b, 1 if cls is Add else -1)]
    if cls is Mul and type(node.b) is IntImm:
        return [(node.a, node.b.value)]
    if cls is Mul and type(node.a) is IntImm:
        return [(node.b, node.a.value)]
    if widened and cls is Cast and node.dtype == "int64" and node.value.dtype == "int32":
        return [(node.value, 1)]
    return []


def _shared_sum(root: PrimExpr, widened: bool, cancelled: list[PrimExpr] | None = None) -> Sum:
    """Compute ``linear_sum`` of an expression with shared subexpressions. The weight of a node is the sum of the
    weights of all its users."""
    nodes = list(post_order(root, operands=lambda node: [n for n, _ in _addends(node, widened)]))
    weights = {id(root): 1}
    constant = 0
    # In reverse post-order, users precede operands, so the weight of a node is complete when it is visited.
    for node in reversed(nodes):
        weight = weights[id(node)]
        if type(node) is IntImm:
            constant += weight * node.value
        for operand, factor in _addends(node, widened):
            weights[id(operand)] = weights.get(id(operand), 0) + weight * factor
    atoms = [n for n in nodes if type(n) is not IntImm and not _addends(n, widened)]
    return _without_zeros({n: weights[id(n)] for n in atoms}, constant, cancelled)


def decompose(expr: PrimExpr, interner: Interner) -> Sum:
    """Compute ``linear_sum`` with equal atoms merged."""
    got = linear_sum(expr)
    terms: dict[PrimExpr, int] = {}
    for atom, c in got.terms.items():
        atom = interner.intern(atom)
        terms[atom] = terms.get(atom, 0) + c
    return Sum({a: c for a, c in terms.items() if c}, got.constant)


def integer_sum(e: PrimExpr, cancelled: list[PrimExpr] | None = None) -> Sum | None:
    """Convert ``e`` to a sum. Return None if ``e`` is not a scalar integer or a constant of the sum does not fit its
    type. Atoms that cancel are appended to ``cancelled``."""
    kind = info(e.dtype)
    if kind.lanes != 1 or kind.code not in ("int", "uint"):
        return None
    got = linear_sum(e, cancelled=cancelled)
    low, high = int_range(e.dtype)
    if not low < got.constant <= high or not all(low <= c <= high and -high <= c for c in got.terms.values()):
        return None
    return got


def fits(value: Sum, dtype: str) -> bool:
    """Return whether the constants of the sum fit the type. Sums that overflow are not rewritten."""
    low, high = dtype_bound(dtype)
    if not low <= value[1] <= high:
        return False
    for c in value[0].values():
        if not low <= c <= high:
            return False
    return True


def combine(a: Sum, b: Sum, sign: int) -> Sum:
    """Return ``a + sign * b`` without changing the operands."""
    if not b[0]:
        return Sum(a[0], a[1] + sign * b[1])
    terms = dict(a[0])
    for atom, c in b[0].items():
        c = terms.get(atom, 0) + sign * c
        if c:
            terms[atom] = c
        else:
            del terms[atom]
    return Sum(terms, a[1] + sign * b[1])


def scaled(a: Sum, factor: int) -> Sum:
    return Sum({atom: c * factor for atom, c in a[0].items()} if factor else {}, a[1] * factor)


def weighted(a: Sum, factor: int, b: Sum, other: int) -> Sum:
    """Return ``a * factor + b * other``."""
    return combine(scaled(a, factor), b, other) if other else scaled(a, factor)


def written(value: Sum, dtype: str, order: Callable[[PrimExpr], Any] | None = None) -> PrimExpr:
    """Convert a sum to an expression, with its terms sorted by ``order`` and the constant last."""
    items = list(value.terms.items())
    if order is not None:
        items.sort(key=lambda item: order(item[0]))
    # A leading negative term would need a multiplication by -1, so start with a positive term if there is one.
    if items and items[0][1] < 0:
        first = next((i for i, item in enumerate(items) if item[1] > 0), None)
        if first is not None:
            items.insert(0, items.pop(first))
    total: PrimExpr | None = None
    constant = value.constant
    if items and items[0][1] < 0 and constant > 0:
        total, constant = const(constant, dtype), 0
    for atom, c in items:
        if total is None:
            total = multiply(atom, const(c, dtype))
        elif c > 0:
            total = Add(total, multiply(atom, const(c, dtype)))
        else:
            total = Sub(total, multiply(atom, const(-c, dtype)))
    if total is None:
        return const(constant, dtype)
    if constant > 0:
        return Add(total, const(constant, dtype))
    return Sub(total, const(-constant, dtype)) if constant else total


def compose(value: Sum, dtype: str, order: Sequence[Var] = ()) -> PrimExpr:
    """Convert a sum to an expression: positive terms first (those in ``order`` leading), then the constant and the
    negative terms. A positive constant leads if there is no positive term."""
    rank: dict[Any, int] = {var: i for i, var in enumerate(order)}
    atoms = sorted(value.terms, key=lambda a: rank.get(a, len(rank)))
    total: PrimExpr | None = None
    for atom in atoms:
        if value.terms[atom] > 0:
            part = multiply(atom, const(value.terms[atom], dtype))
            total = part if total is None else add(total, part)
    if value.constant > 0 or (total is None and not atoms):
        part = const(value.constant, dtype)
        total = part if total is None else add(total, part)
    for atom in atoms:
        c = value.terms[atom]
        if c < 0:
            part = multiply(atom, const(c if total is None else -c, dtype))
            total = part if total is None else subtract(total, part)
    assert total is not None, "without atoms the constant is the sum"
    return subtract(total, const(-value.constant, dtype)) if value.constant < 0 and atoms else total


def reduced(value: Sum) -> Sum:
    """Return a sum that is at most zero exactly if ``value`` is, with coefficients without a common factor."""
    common = math.gcd(*value.terms.values()) if value.terms else 0
    if common <= 1:
        return value
    return Sum({a: c // common for a, c in value.terms.items()}, -(-value.constant // common))
