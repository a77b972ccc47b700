"""Integer sums over atoms: ``3 * x - 2 * f(y) + 7`` as a table of coefficients and a constant.

The arithmetic of the solvers happens here, on Python integers; expressions are made again only for the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..ir.prim import Add, IntImm, Mul, PrimExpr, Sub, Var, const
from ..ir.primop import add, multiply, subtract
from ..ir.visit import post_order
from .analyzer import Analyzer
from .compare import Interner


class Sum(NamedTuple):
    """``sum(coefficient * atom) + constant``; no coefficient is zero."""

    terms: Mapping[PrimExpr, int]
    constant: int


def decompose(expr: PrimExpr, interner: Interner) -> Sum:
    """``expr`` as a sum; what is no sum, difference or multiple is an atom. Shared parts are visited once."""
    nodes = list(post_order(expr))
    weights = {id(expr): 1}
    atoms: list[tuple[PrimExpr, int]] = []
    constant = 0
    # Users come before operands in reverse, so a node's weight is complete when it is reached.
    for node in reversed(nodes):
        weight = weights.pop(id(node), 0)
        if not weight:
            continue
        if isinstance(node, IntImm):
            constant += weight * node.value
        elif isinstance(node, (Add, Sub)):
            weights[id(node.a)] = weights.get(id(node.a), 0) + weight
            weights[id(node.b)] = weights.get(id(node.b), 0) + (weight if isinstance(node, Add) else -weight)
        elif isinstance(node, Mul) and isinstance(node.b, IntImm):
            weights[id(node.a)] = weights.get(id(node.a), 0) + weight * node.b.value
        elif isinstance(node, Mul) and isinstance(node.a, IntImm):
            weights[id(node.b)] = weights.get(id(node.b), 0) + weight * node.a.value
        else:
            atoms.append((interner.intern(node), weight))
    terms: dict[PrimExpr, int] = {}
    for atom, weight in reversed(atoms):
        terms[atom] = terms.get(atom, 0) + weight
    return Sum({a: c for a, c in terms.items() if c}, constant)


def weighted(a: Sum, factor: int, b: Sum = Sum({}, 0), other: int = 0) -> Sum:
    """``a * factor + b * other``."""
    terms = {atom: c * factor for atom, c in a.terms.items()}
    for atom, c in b.terms.items():
        terms[atom] = terms.get(atom, 0) + c * other
    return Sum({atom: c for atom, c in terms.items() if c}, a.constant * factor + b.constant * other)


def compose(value: Sum, dtype: str, order: Sequence[Var] = ()) -> PrimExpr:
    """The expression of a sum: added terms first (those in ``order`` leading), then the constant and what is taken
    away; a positive constant leads when nothing is added."""
    rank: dict[Any, int] = {var: i for i, var in enumerate(order)}
    atoms = sorted(value.terms, key=lambda a: rank.get(a, len(rank)))
    total = None
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
    if value.constant < 0 and atoms:
        total = subtract(total, const(-value.constant, dtype))
    return total


def reduced(value: Sum) -> Sum:
    """A sum that is at most zero exactly where ``value`` is, with coefficients that have no common factor."""
    common = math.gcd(*value.terms.values()) if value.terms else 0
    if common <= 1:
        return value
    return Sum({a: c // common for a, c in value.terms.items()}, -(-value.constant // common))


def largest(value: Sum, analyzer: Analyzer) -> float:
    """The largest value of the sum that the constant bounds of its atoms allow."""
    total: float = value.constant
    for atom, c in value.terms.items():
        bound = analyzer.const_int_bound(atom)
        end = bound.max_value if c > 0 else bound.min_value
        if end in (bound.POS_INF, bound.NEG_INF):
            return math.inf
        total += c * end
    return total


def mentions(atoms: Iterable[PrimExpr], variables: set[Var], uses) -> bool:
    """Whether an atom that is not itself one of the variables contains one."""
    return any(not isinstance(atom, Var) and uses(atom, variables) for atom in atoms)
