"""Modular sets: an integer expression as ``coefficient * k + base`` for some integer k. Coefficient 0 means
constant."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Any

from ..dtype import info
from ..ir.prim import (
    Add,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Select,
    SizeVar,
    Sub,
    Var,
)
from .const_bound import MAX_DEPTH, dtype_bound, is_index

if TYPE_CHECKING:
    from .context import Context

ANYTHING = (1, 0)
Modular = tuple[int, int]


def normal(coeff: int, base: int) -> Modular:
    coeff = abs(coeff)
    return (coeff, base % coeff) if coeff else (0, base)


def union(a: Modular, b: Modular) -> Modular:
    """Return the smallest modular set that contains both sets."""
    step = gcd(gcd(a[0], b[0]), a[1] - b[1])
    return (step, a[1] % step) if step else a


def intersect(a: Modular, b: Modular) -> Modular:
    """Return a modular set that contains the intersection, or ``a`` if the sets are disjoint."""
    (p, x), (q, y) = a, b
    if p == 0 or q == 0:
        return a if p == 0 else b
    step = gcd(p, q)
    if (x - y) % step:
        return a
    # Chinese remainder theorem: x + p*k = y (mod q).
    k = ((y - x) // step * pow(p // step, -1, q // step)) % (q // step) if q != step else 0
    return normal(p // step * q, x + p * k)


def modular_of(an: Context, e: PrimExpr, depth: int = 0) -> Modular:
    """Return the modular set of an interned expression in the analyzer's context."""
    memo = an.moduli
    got = memo.get(e)
    if got is not None:
        return got
    cls = e.__class__
    if cls is IntImm:
        return 0, e.value
    handler = _MODULI.get(cls)
    if handler is None or depth > MAX_DEPTH:
        got = ANYTHING
        if depth > MAX_DEPTH:
            return got
    else:
        got = handler(an, e, depth + 1)
    if an.mod_facts:
        fact = an.mod_facts.get(e)
        if fact is not None:
            got = intersect(got, fact)
    memo[e] = got
    return got


def _var(an: Context, e: PrimExpr, depth: int) -> tuple[int, int]:
    return an.var_moduli.get(e, ANYTHING)


def _wraps(e: PrimExpr) -> bool:
    # For arithmetic that may wrap around, only divisibility by powers of two would be known, so return no information.
    return not is_index(e.dtype)


def _add(an: Context, e: PrimExpr, depth: int):
    if _wraps(e):
        return ANYTHING
    a, b = modular_of(an, e.a, depth), modular_of(an, e.b, depth)
    base = a[1] + b[1] if e.__class__ is Add else a[1] - b[1]
    return normal(gcd(a[0], b[0]), base)


def _mul(an: Context, e: PrimExpr, depth: int):
    if _wraps(e):
        return ANYTHING
    (p, x), (q, y) = modular_of(an, e.a, depth), modular_of(an, e.b, depth)
    return normal(gcd(gcd(p * q, p * y), q * x), x * y)


def _divide(an: Context, e: PrimExpr, depth: int):
    b = e.b
    if _wraps(e) or b.__class__ is not IntImm or b.value == 0:
        return ANYTHING
    coeff, base = modular_of(an, e.a, depth)
    c = b.value
    if coeff % c:
        return ANYTHING
    # Truncating division equals floor division only if the remainder is zero or the dividend is nonnegative.
    if e.__class__ is FloorDiv or base == 0 or (c > 0 and an.bound(e.a, depth)[0] >= 0):
        return normal(coeff // c, base // c)
    return ANYTHING


def _remainder(an: Context, e: PrimExpr, depth: int):
    b = e.b
    if b.__class__ is not IntImm or b.value == 0:
        return ANYTHING
    coeff, base = modular_of(an, e.a, depth)
    step = gcd(coeff, b.value)
    if e.__class__ is FloorMod or base % step == 0 or an.bound(e.a, depth)[0] >= 0:
        return normal(step, base)
    return ANYTHING


def _extreme(an: Context, e: PrimExpr, depth: int):
    return union(modular_of(an, e.a, depth), modular_of(an, e.b, depth))


def _select(an: Context, e: PrimExpr, depth: int):
    return union(modular_of(an, e.true_value, depth), modular_of(an, e.false_value, depth))


def _cast(an: Context, e: PrimExpr, depth: int):
    to, source = info(e.dtype), info(e.value.dtype)
    if not (to.is_integer and source.is_integer) or to.is_bool or source.is_bool:
        return ANYTHING
    lo, hi = an.bound(e.value, depth)
    limit = dtype_bound(e.dtype)
    return modular_of(an, e.value, depth) if limit[0] <= lo and hi <= limit[1] else ANYTHING


def _call(an: Context, e: PrimExpr, depth: int):
    name = getattr(e.op, "name", None)
    if name == "tir.shift_right" and e.args[1].__class__ is IntImm:
        coeff, base = modular_of(an, e.args[0], depth)
        c = 1 << e.args[1].value
        return normal(coeff // c, base // c) if coeff % c == 0 else ANYTHING
    if name == "tir.bitwise_and" and e.args[1].__class__ is IntImm:
        mask = e.args[1].value
        if mask > 0 and mask & (mask + 1) == 0:
            coeff, base = modular_of(an, e.args[0], depth)
            step = gcd(coeff, mask + 1)
            return (0, base % step) if step == mask + 1 else normal(step, base)
    if name == "tir.likely":
        return modular_of(an, e.args[0], depth)
    return ANYTHING


def _let(an: Context, e: PrimExpr, depth: int):
    with an.known_value(e.var, an.bound(e.value, depth), modular_of(an, e.value, depth)):
        return modular_of(an, e.body, depth)


_MODULI: dict[type[Any], Callable[..., Any]] = {
    Var: _var,
    SizeVar: _var,
    Add: _add,
    Sub: _add,
    Mul: _mul,
    Div: _divide,
    FloorDiv: _divide,
    Mod: _remainder,
    FloorMod: _remainder,
    Min: _extreme,
    Max: _extreme,
    Select: _select,
    Cast: _cast,
    Call: _call,
    Let: _let,
}
