"""Canonical simplification: represents integer expressions as sums of split indices.

A split is ``(index % upper) // lower`` with constant lower and upper, stored as the key (index, lower, upper, mode).
Mode 0 is floor division, mode 1 truncating division. A sum maps splits to their factors and has a constant. Divisions
and remainders by constants operate on sums: they factor out divisible terms, drop terms that are too small to change
the result, and join adjacent splits of one index, as in x // 4 * 4 + x % 4 = x.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from ..dtype import info
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Cast,
    Mul,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
)
from . import rewrite, rewrite_make
from .canonical_division import DIVIDE, quotient_of_bounds, refine, sum_bound, symbolic_division, to_expr
from .canonical_sum import (
    MAX_TERMS,
    MODE_OF_DIVISION,
    add,
    scale,
    to_sum,
)
from .compare import BINARY
from .const_bound import POS_INF, dtype_bound, is_index
from .products import product
from .rule_compiler import LiteralOverflow
from .sums import Sum, fits

if TYPE_CHECKING:
    from .context import Context


def canonical_expr(an: Context, root: PrimExpr) -> PrimExpr:
    """Return the canonical form of an interned expression in the analyzer's current context."""
    done, sums = an.canonical, an.sums
    got = done.get(root)
    if got is not None:
        return got
    walk, an.walk = an.walk, canonical_expr
    view = _Exprs(an, done, sums)
    stack = [root]
    while stack:
        n = stack[-1]
        if n in done or n in sums:
            stack.pop()
            continue
        cls = n.__class__
        if cls in BINARY:
            a, b = n.a, n.b
            ready = True
            if b not in done and b not in sums:
                stack.append(b)
                ready = False
            if a not in done and a not in sums:
                stack.append(a)
                ready = False
            if not ready:
                continue
            _binary(an, n, cls, view)
        elif cls is Var or cls is SizeVar:
            done[n] = an.values.get(n, n)
        elif cls in rewrite.LEAVES:
            done[n] = n
        else:
            missing = [c for c in rewrite.operands(an, n, view) if c not in done and c not in sums]
            if missing:
                missing.reverse()
                stack.extend(missing)
                continue
            if cls is Cast and _cast(an, n, view):
                pass
            else:
                done[n] = rewrite.node(an, n, view)
        stack.pop()
    an.walk = walk
    return view[root]


def is_plain(an: Context, n: PrimExpr) -> bool:
    """Return whether a canonical form is a sum over variables, which rewrite rules cannot simplify further."""
    kind = rewrite_make.KINDS[n.dtype]
    if not (kind.is_index and kind.is_scalar):
        return False
    s = to_sum(an, n)
    for index, _, _, _ in s[0]:
        if index.__class__ is not Var and index.__class__ is not SizeVar:
            return False
    return True


class _Exprs:
    """A table of the canonical form of each node as an expression. Sums are converted to expressions on first use."""

    __slots__ = ("an", "done", "sums")

    def __init__(self, an: Context, done: dict[Any, Any], sums: dict[Any, Any]):
        self.an, self.done, self.sums = an, done, sums

    def __getitem__(self, n: PrimExpr) -> PrimExpr:
        got = self.done.get(n)
        if got is None:
            got = self.done[n] = to_expr(self.an, self.sums[n], n.dtype)
        return got

    def __contains__(self, n: PrimExpr) -> bool:
        return n in self.done or n in self.sums

    def get(self, n: PrimExpr):
        return self[n] if n in self else None

    def sum(self, n: PrimExpr) -> Sum:
        got = self.sums.get(n)
        if got is None:
            got = self.sums[n] = to_sum(self.an, self.done[n])
        return got


def _binary(an: Context, n: Any, cls: type[Any], view: _Exprs) -> None:
    """Compute the canonical form of a two-operand node whose operands already have theirs."""
    rewrite_make.stats.visits += 1
    dtype = n.a.dtype
    kind = rewrite_make.KINDS[dtype]
    if not (kind.is_index and kind.is_scalar):
        view.done[n] = rewrite_make.make(an, cls, view[n.a], view[n.b])
        return
    if cls is Add or cls is Sub:
        got = add(an, view.sum(n.a), view.sum(n.b), 1 if cls is Add else -1)
        if len(got[0]) <= MAX_TERMS and fits(got, dtype):
            view.sums[n] = got
            return
    elif cls is Mul:
        a, b = view.sum(n.a), view.sum(n.b)
        if not a[0]:
            a, b = b, a
        if b[0]:
            view.sums[n] = to_sum(an, product(an, view[n.a], view[n.b]))
            return
        got = scale(a, b[1])
        if fits(got, dtype):
            view.sums[n] = got
            return
    elif cls in MODE_OF_DIVISION:
        b = view.sum(n.b)
        if not b[0] and b[1] != 0:
            try:
                got = DIVIDE[cls](an, view.sum(n.a), b[1], dtype)
            except LiteralOverflow:
                got = None
            if got is not None and fits(got, dtype):
                view.sums[n] = got
                return
        got = symbolic_division(an, cls, view[n.a], view[n.b])
        if got is not None:
            view.sums[n] = to_sum(an, got)
            return
    elif cls in (LT, LE, GT, GE):
        view.done[n] = _compare(an, cls, n, view)
        return
    elif cls is EQ or cls is NE:
        view.done[n] = _equal(an, cls, n, view)
        return
    # Sums that are too large are not changed.
    plain = cls in (Add, Sub, Mul)
    view.done[n] = an.binary(cls, view[n.a], view[n.b]) if plain else rewrite_make.make(an, cls, view[n.a], view[n.b])


# --- sums ----------------------------------------------------------------------------------------------------------


# --- division by constants ------------------------------------------------------------------------------------------


# --- symbolic divisors, comparisons, casts ------------------------------------------------------------------


def _compare(an: Context, cls: type, n: Any, view: _Exprs) -> PrimExpr:
    """Simplify an ordering: drop terms that are smaller than a common factor of the other terms."""
    a, b = n.a, n.b
    if cls is GT or cls is GE:
        a, b, cls = b, a, LT if cls is GT else LE
    whole = rewrite_make.make(an, cls, view[a], view[b])
    if whole.__class__ is not cls:
        return whole
    dtype = n.a.dtype
    s = refine(an, add(an, view.sum(a), view.sum(b), -1), dtype)
    items = sorted(s[0].items(), key=lambda item: -abs(item[1]))
    # a <= b is a - b - 1 < 0.
    base = s[1] - 1 if cls is LE else s[1]
    g = 0
    best = None
    for count, (_, factor) in enumerate(items, 1):
        g = gcd(g, factor)
        if g == 1:
            break
        q = quotient_of_bounds(an, Sum(dict(items[count:]), base), g)
        if q is not None:
            best = g, count, q
            break
    g, count, q = best or (1, len(items), base)
    left = {k: f // g for k, f in items[:count] if f > 0}
    right = {k: -f // g for k, f in items[:count] if f < 0}
    # sum + q < 0.
    limit = -q if cls is LT else -q - 1
    if left and right:
        x, y = Sum(left, max(-limit, 0)), Sum(right, max(limit, 0))
    elif left:
        x, y = Sum(left, 0), Sum({}, limit)
    else:
        x, y = Sum({}, -limit), Sum(right, 0)
    try:
        return rewrite_make.make(an, cls, to_expr(an, x, dtype), to_expr(an, y, dtype))
    except LiteralOverflow:
        return whole


def _equal(an: Context, cls: type, n: Any, view: _Exprs) -> PrimExpr:
    """Return an equality with positive terms on the left and negative ones on the right."""
    dtype = n.a.dtype
    terms, base = refine(an, add(an, view.sum(n.a), view.sum(n.b), -1), dtype)
    left = {k: f for k, f in terms.items() if f > 0}
    right = {k: -f for k, f in terms.items() if f < 0}
    if left:
        x, y = Sum(left, max(base, 0) if right else 0), Sum(right, max(-base, 0) if right else -base)
    else:
        x, y = Sum(right, 0), Sum({}, base)
    if not (fits(x, dtype) and fits(y, dtype)):
        return rewrite_make.make(an, cls, view[n.a], view[n.b])
    return rewrite_make.make(an, cls, to_expr(an, x, dtype), to_expr(an, y, dtype))


def _cast(an: Context, n: Any, view: _Exprs) -> bool:
    """Move a cast between index types into a sum. Return False if that could change the value."""
    source = n.value.dtype
    if not (is_index(n.dtype) and is_index(source)) or info(n.dtype).lanes != 1:
        return False
    s = view.sum(n.value)
    low, high = dtype_bound(n.dtype)
    if info(n.dtype).bits < info(source).bits:
        # Every partial sum must fit, in any order of the additions.
        up = Sum({k: f for k, f in s[0].items() if f > 0}, max(s[1], 0))
        down = Sum({k: f for k, f in s[0].items() if f < 0}, min(s[1], 0))
        parts = [s, up, down, *[Sum({k: f}, 0) for k, f in s[0].items()], *[Sum({k: 1}, 0) for k in s[0]]]
        for part in parts:
            lo, hi = sum_bound(an, part)
            if lo < low or hi > high:
                return False
        for index, _, upper, _ in s[0]:
            lo, hi = an.bound(index)
            if lo < low or hi > high or (upper != POS_INF and upper > high):
                return False
    if not low <= s[1] <= high:
        return False
    terms: dict[Any, Any] = {}
    for k, f in s[0].items():
        index = rewrite.uncast(an, n.dtype, k[0])
        if index is None:
            if k[0].__class__ is Cast and k[0].value.dtype == n.dtype:
                return False
            index = an.add(Cast(n.dtype, k[0]))
        key = (index, *k[1:])
        terms[key] = terms.get(key, 0) + f
    view.sums[n] = Sum({k: f for k, f in terms.items() if f}, s[1])
    return True
