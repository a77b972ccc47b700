"""Sums of split indices: construction from expressions, addition, scaling and joining of splits (see canonical.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.prim import (
    Add,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    PrimExpr,
    Sub,
)
from .const_bound import POS_INF
from .products import factors_of
from .sums import Sum, combine, scaled

if TYPE_CHECKING:
    from .context import Context


FLOOR, TRUNC = 0, 1


Split = tuple[PrimExpr, int, int, int]


# Sums with more terms are not simplified as a whole; only their operands are.
MAX_TERMS = 40


MODE_OF_DIVISION = {FloorDiv: FLOOR, FloorMod: FLOOR, Div: TRUNC, Mod: TRUNC}


def atom(e: PrimExpr) -> Split:
    return e, 1, POS_INF, FLOOR


def split_of(e: PrimExpr) -> Split:
    """Return an expression as a split."""
    cls = e.__class__
    if cls not in MODE_OF_DIVISION or e.b.__class__ is not IntImm or e.b.value <= 0:
        return atom(e)
    mode, c = MODE_OF_DIVISION[cls], e.b.value
    if cls is FloorMod or cls is Mod:
        return e.a, 1, c, mode
    inner = e.a
    if inner.__class__ is (FloorMod if mode == FLOOR else Mod) and inner.b.__class__ is IntImm and inner.b.value > 0:
        return inner.a, c, inner.b.value, mode
    return inner, c, POS_INF, mode


def to_sum(an: Context, e: PrimExpr) -> Sum:
    if e.__class__ is IntImm:
        return Sum({}, e.value)
    terms, base = an.linear(e)
    if len(terms) > MAX_TERMS:
        return Sum({atom(e): 1}, 0)
    out: dict[Split, int] = {}
    for t, c in terms.items():
        key = split_of(t)
        out[key] = out.get(key, 0) + c
    return Sum(out, base)


def add(an: Context, a: Sum, b: Sum, sign: int) -> Sum:
    got = combine(a, b, sign)
    if b[0] and len(got[0]) > 1:
        remainders = [key for key in got[0] if key[0].__class__ is FloorMod and key[2] == POS_INF]
        if remainders:
            got = _join_symbolic(an, got, remainders)
        for key in got[0]:
            if key[1] != 1 or key[2] != POS_INF:
                return join(an, got)
    return got


def _join_symbolic(an: Context, s: Sum, remainders: list[Split]) -> Sum:
    """Join remainders and quotients by the same symbolic divisor: x // n * n + x % n is x."""
    for key in remainders:
        index, divisor = key[0].a, key[0].b
        constant, own = factors_of(divisor)
        factor = s[0].get(key, 0)
        for other, its in s[0].items():
            if its != factor * constant or other[0].__class__ is not Mul or not factor:
                continue
            scale_of, factors = factors_of(other[0])
            quotient = next((f for f in factors if f.__class__ is FloorDiv and f.a is index and f.b is divisor), None)
            if quotient is None or scale_of != 1 or len(factors) != len(own) + 1:
                continue
            factors.remove(quotient)
            if sorted(map(id, factors)) == sorted(map(id, own)):
                kept = {k: c for k, c in s[0].items() if k is not key and k is not other}
                s = add(an, Sum(kept, s[1]), scale(to_sum(an, index), factor), 1)
                break
    return s


def scale(s: Sum, c: int) -> Sum:
    return s if c == 1 else scaled(s, c)


def join(an: Context, s: Sum) -> Sum:
    """Join adjacent splits of one index: (x % u) // m * (m / l) + (x % m) // l is (x % u) // l."""
    groups: dict[PrimExpr, list[Split]] = {}
    for key in s[0]:
        groups.setdefault(key[0], []).append(key)
    terms = s[0]
    whole: list[tuple[PrimExpr, int]] = []
    for index, keys in groups.items():
        if len(keys) < 2:
            continue
        terms = dict(terms) if terms is s[0] else terms
        keys.sort(key=lambda k: -k[1])
        while (pair := _joinable(keys, terms)) is not None:
            upper, lower = pair
            joined = (index, lower[1], upper[2], lower[3] if lower[2] != POS_INF or lower[1] != 1 else upper[3])
            factor = terms.pop(lower)
            terms.pop(upper)
            keys.remove(lower)
            keys.remove(upper)
            if joined[1] == 1 and joined[2] == POS_INF:
                joined = atom(index)
                if index.__class__ in (Add, Sub, Mul) or index.__class__ in MODE_OF_DIVISION:
                    whole.append((index, factor))
                    continue
            new = terms.get(joined, 0) + factor
            if joined in keys:
                keys.remove(joined)
            if new:
                terms[joined] = new
                keys.append(joined)
            else:
                terms.pop(joined, None)
    got = Sum(terms, s[1])
    for index, factor in whole:
        got = add(an, got, scale(to_sum(an, index), factor), 1)
    return got


def _joinable(keys: list[Split], terms: dict[Split, int]) -> tuple[Split, Split] | None:
    """Return the first two adjacent splits of one index."""
    for lower in keys:
        for upper in keys:
            if upper is not lower and _continues(upper, lower, terms[upper], terms[lower]):
                return upper, lower
    return None


def _continues(upper: Split, lower: Split, high: int, low: int) -> bool:
    if upper[1] != lower[2] or high * lower[1] != low * upper[1] or upper[1] % lower[1]:
        return False
    return upper[3] == lower[3]


def split_expr(an: Context, key: Split) -> PrimExpr:
    index, lower, upper, mode = key
    dtype = index.dtype
    e = index
    if upper != POS_INF:
        e = an.binary(Mod if mode else FloorMod, e, an.literal(upper, dtype))
    if lower != 1:
        e = an.binary(Div if mode else FloorDiv, e, an.literal(lower, dtype))
    return e


def order_of(item: Any):
    (_, lower, upper, _), factor = item
    return -factor, -lower, -upper
