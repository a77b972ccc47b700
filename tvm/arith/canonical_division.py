"""Division and remainder of sums of split indices by constants, and conversion of sums to expressions (see
canonical.py)."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

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
from ..ir.primop import trunc_div, trunc_mod
from . import rewrite_make
from .canonical_sum import (
    FLOOR,
    TRUNC,
    Split,
    add,
    atom,
    order_of,
    scale,
    split_expr,
    to_sum,
)
from .const_bound import POS_INF, dtype_bound, linear_bound
from .products import factors_of, times
from .rule_compiler import LiteralOverflow
from .sums import Sum, fits

if TYPE_CHECKING:
    from .context import Context


def to_expr(an: Context, s: Sum, dtype: str) -> PrimExpr:
    """Convert a sum to an expression: terms with larger factors first, then the constant, then negative terms."""
    fine = refine(an, s, dtype)
    terms, base = s = fine if fits(fine, dtype) else s
    high = dtype_bound(dtype)[1]
    if not fits(s, dtype):
        raise LiteralOverflow
    if not terms:
        return an.literal(base, dtype)
    items = sorted(terms.items(), key=order_of)
    if len(items) == 1 and base == 0:
        return _scaled(an, split_expr(an, items[0][0]), items[0][1], dtype)
    got = None
    for key, c in items:
        if c > 0:
            part = _scaled(an, split_expr(an, key), c, dtype)
            got = part if got is None else an.binary(Add, got, part)
    if base > 0:
        constant = an.literal(base, dtype)
        got = constant if got is None else an.binary(Add, got, constant)
    if got is None:
        got = an.literal(0, dtype)
    for key, c in items:
        if c < 0:
            if -c > high:
                got = an.binary(Add, got, _scaled(an, split_expr(an, key), c, dtype))
            else:
                got = an.binary(Sub, got, _scaled(an, split_expr(an, key), -c, dtype))
    if base < 0:
        if -base > high:
            got = an.binary(Add, got, an.literal(base, dtype))
        else:
            got = an.binary(Sub, got, an.literal(-base, dtype))
    return got


_COMPOUND = frozenset({Add, Sub, Mul})


def refine(an: Context, s: Sum, dtype: str) -> Sum:
    """Simplify the splits of sums as far as the bounds of their terms allow.

    This happens only when a sum is converted to an expression, because splits of one index must be joined before they
    are simplified.
    """
    for _ in range(3):
        work = [k for k in s[0] if k[0].__class__ in _COMPOUND and (k[1] != 1 or k[2] != POS_INF)]
        new: Sum | None = None
        for key in work:
            got = _resolve(an, key, dtype)
            if got is None:
                continue
            if new is None:
                new = Sum(dict(s[0]), s[1])
            factor = new[0].pop(key, 0)
            new = add(an, new, scale(got, factor), 1)
            new = Sum(dict(new[0]), new[1])
        if new is None:
            return s
        s = new
    return s


def _resolve(an: Context, key: Split, dtype: str) -> Sum | None:
    """Return the split as a sum of simpler splits, or None."""
    got = an.sums.get(key)
    if got is None:
        index, lower, upper, mode = key
        an.sums[key] = got = Sum({key: 1}, 0)
        try:
            s = to_sum(an, index)
            if upper != POS_INF:
                s = (truncmod if mode else floormod)(an, s, upper, dtype, True)
            got = (truncdiv if mode else floordiv)(an, s, lower, dtype, True)
        except LiteralOverflow:
            pass
        an.sums[key] = got
    return None if len(got[0]) == 1 and key in got[0] else got


def _scaled(an: Context, e: PrimExpr, c: int, dtype: str) -> PrimExpr:
    return e if c == 1 else an.binary(Mul, e, an.literal(c, dtype))


def sum_bound(an: Context, s: Sum):
    if not s[0]:
        return s[1], s[1]
    return linear_bound(an, {split_expr(an, k): c for k, c in s[0].items()}, s[1])


def _parts(s: Sum, c: int) -> tuple[Sum, Sum]:
    """Return the terms of the sum whose factors are multiples of ``c``, and the remaining terms."""
    whole, rest = {}, {}
    for key, factor in s[0].items():
        (rest if factor % c else whole)[key] = factor
    if s[1] % c == 0:
        return Sum(whole, s[1]), Sum(rest, 0)
    return Sum(whole, 0), Sum(rest, s[1])


def quotient_of_bounds(an: Context, s: Sum, c: int) -> int | None:
    """Return the quotient by ``c`` > 0 if it is the same for all values of the sum, else None."""
    lo, hi = sum_bound(an, s)
    if lo <= -POS_INF or hi >= POS_INF or lo // c != hi // c:
        return None
    return lo // c


def is_single(s: Sum) -> bool:
    return len(s[0]) == 1 and s[1] == 0


def _coarse(an: Context, s: Sum, c: int) -> tuple[int, Sum, Sum] | None:
    """Write ``s`` as g * A + B with g > 1 dividing ``c`` and B in [0, g). Return the (g, A, B) with the most terms in
    A, or None."""
    items = sorted(s[0].items(), key=lambda item: -abs(item[1]))
    steps: list[int] = []
    g = c
    for _, factor in items:
        g = gcd(g, factor)
        steps.append(g)
    for count in range(len(items), 0, -1):
        g = steps[count - 1]
        if g == 1:
            continue
        small = Sum(dict(items[count:]), s[1])
        q = quotient_of_bounds(an, small, g)
        if q is not None:
            big = {k: f // g for k, f in items[:count]}
            return g, Sum(big, q), Sum(small[0], small[1] - q * g)
    return None


def floordiv(an: Context, s: Sum, c: int, dtype: str, deep: bool = False) -> Sum:
    if c < 0:
        s, c = scale(s, -1), -c
    if c == 1:
        return s
    whole, rest = _parts(s, c)
    out = Sum({k: f // c for k, f in whole[0].items()}, whole[1] // c)
    if not rest[0]:
        return Sum(out[0], out[1] + rest[1] // c)
    return add(an, out, _floordiv_rest(an, rest, c, dtype, deep), 1)


def _floordiv_rest(an: Context, s: Sum, c: int, dtype: str, deep: bool) -> Sum:
    q = quotient_of_bounds(an, s, c)
    if q is not None:
        return Sum({}, q)
    found = _coarse(an, s, c) if deep or is_single(s) else None
    if found is not None:
        g, big, _ = found
        return floordiv(an, big, c // g, dtype, deep)
    return _split_quotient(an, s, c, dtype, FLOOR)


def _split_quotient(an: Context, s: Sum, c: int, dtype: str, mode: int) -> Sum:
    """Return the quotient as one split."""
    if c == 1:
        return s
    if is_single(s):
        ((key, factor),) = s[0].items()
        index, lower, upper, old = key
        if factor == 1 and (old == mode or (lower == 1 and upper == POS_INF)):
            if lower * c >= upper:
                return Sum({}, 0)
            return Sum({(index, lower * c, upper, mode): 1}, 0)
    return Sum({(to_expr(an, s, dtype), c, POS_INF, mode): 1}, 0)


def floormod(an: Context, s: Sum, c: int, dtype: str, deep: bool = False) -> Sum:
    if c < 0:
        return Sum({atom(rewrite_make.make(an, FloorMod, to_expr(an, s, dtype), an.literal(c, dtype))): 1}, 0)
    terms: dict[Split, int] = {}
    extra: list[Sum] = []
    for key, factor in s[0].items():
        if factor % c == 0:
            continue
        index, lower, upper, mode = key
        if upper != POS_INF and mode == FLOOR and upper % lower == 0 and upper // lower * factor % c == 0:
            # The inner remainder subtracts only multiples of c.
            if lower == 1:
                extra.append(scale(to_sum(an, index), factor % c))
                continue
            key = index, lower, POS_INF, mode
        terms[key] = terms.get(key, 0) + factor
    got = Sum({k: f for k, f in terms.items() if f % c}, s[1])
    for more in extra:
        got = add(an, got, more, 1)
    if extra:
        return floormod(an, got, c, dtype, deep)
    return _floormod_rest(an, Sum(got[0], got[1] % c), c, dtype, deep)


def _floormod_rest(an: Context, s: Sum, c: int, dtype: str, deep: bool) -> Sum:
    q = quotient_of_bounds(an, s, c)
    if q is not None:
        return Sum(s[0], s[1] - q * c)
    found = _coarse(an, s, c) if deep or is_single(s) else None
    if found is not None:
        g, big, small = found
        return add(an, scale(floormod(an, big, c // g, dtype, deep), g), small, 1)
    return _split_remainder(an, s, c, dtype, FLOOR)


def _split_remainder(an: Context, s: Sum, c: int, dtype: str, mode: int) -> Sum:
    """Return the remainder as one split."""
    if is_single(s):
        ((key, factor),) = s[0].items()
        index, lower, upper, old = key
        plain = lower == 1 and upper == POS_INF
        if factor == 1 and (old == mode or plain):
            if upper == POS_INF or upper % (lower * c) == 0:
                return Sum({(index, lower, lower * c, mode): 1}, 0)
            if upper <= lower * c:
                return s
        if factor < 0 and c % factor == 0 and plain:
            cls = FloorMod if mode == FLOOR else Mod
            return Sum({atom(an.binary(cls, index, an.literal(c // factor, dtype))): factor}, 0)
    return Sum({(to_expr(an, s, dtype), 1, c, mode): 1}, 0)


def _same_sign(an: Context, *sums: Sum) -> bool:
    """Return whether all sums are known to be nonnegative."""
    return all(sum_bound(an, s)[0] >= 0 for s in sums)


def truncdiv(an: Context, s: Sum, c: int, dtype: str, deep: bool = False) -> Sum:
    if c < 0:
        return scale(truncdiv(an, s, -c, dtype, deep), -1)
    if c == 1:
        return s
    whole, rest = _parts(s, c)
    out = Sum({k: f // c for k, f in whole[0].items()}, whole[1] // c)
    if not rest[0] and rest[1] == 0:
        return out
    if whole[0] or whole[1]:
        if not _same_sign(an, whole, rest):
            return _truncdiv_rest(an, s, c, dtype, deep)
        return add(an, out, _truncdiv_rest(an, rest, c, dtype, deep), 1)
    return _truncdiv_rest(an, s, c, dtype, deep)


def _truncdiv_rest(an: Context, s: Sum, c: int, dtype: str, deep: bool) -> Sum:
    if not s[0]:
        return Sum({}, trunc_div(s[1], c))
    lo, hi = sum_bound(an, s)
    if -c < lo and hi < c:
        return Sum({}, 0)
    if lo >= 0:
        if hi < POS_INF and lo // c == hi // c:
            return Sum({}, lo // c)
        found = _coarse(an, s, c) if deep or is_single(s) else None
        if found is not None:
            g, big, _ = found
            return truncdiv(an, big, c // g, dtype, deep)
    elif is_single(s):
        ((key, factor),) = s[0].items()
        g = gcd(factor, c)
        if g > 1:
            return truncdiv(an, Sum({key: factor // g}, 0), c // g, dtype)
    return _split_quotient(an, s, c, dtype, TRUNC)


def truncmod(an: Context, s: Sum, c: int, dtype: str, deep: bool = False) -> Sum:
    c = abs(c)
    if c == 1:
        return Sum({}, 0)
    whole, rest = _parts(s, c)
    if not rest[0] and rest[1] == 0:
        return Sum({}, 0)
    if (whole[0] or whole[1]) and _same_sign(an, s, rest):
        s = rest
    reduced = Sum(s[0], trunc_mod(s[1], c))
    if reduced[1] != s[1] and _same_sign(an, s, reduced):
        s = reduced
    return _truncmod_rest(an, s, c, dtype, deep)


def _truncmod_rest(an: Context, s: Sum, c: int, dtype: str, deep: bool) -> Sum:
    if not s[0]:
        return Sum({}, trunc_mod(s[1], c))
    s = _drop_inner_truncmod(an, s, c)
    lo, hi = sum_bound(an, s)
    if -c < lo and hi < c:
        return s
    if lo >= 0:
        if hi < POS_INF and lo // c == hi // c:
            return Sum(s[0], s[1] - lo // c * c)
        found = _coarse(an, s, c) if deep or is_single(s) else None
        if found is not None:
            g, big, small = found
            if _same_sign(an, big):
                return add(an, scale(truncmod(an, big, c // g, dtype, deep), g), small, 1)
    elif is_single(s):
        ((key, factor),) = s[0].items()
        g = gcd(factor, c)
        if g > 1:
            return scale(truncmod(an, Sum({key: factor // g}, 0), c // g, dtype), g)
    return _split_remainder(an, s, c, dtype, TRUNC)


def _drop_inner_truncmod(an: Context, s: Sum, c: int) -> Sum:
    """Replace an inner truncating remainder by its dividend, if this changes the sum only by multiples of ``c`` and
    keeps every sum nonnegative."""
    for key, factor in s[0].items():
        index, lower, upper, mode = key
        if upper == POS_INF or mode != TRUNC or lower != 1 or upper * factor % c:
            continue
        rest = {k: f for k, f in s[0].items() if k is not key}
        wide = add(an, Sum(rest, s[1]), scale(to_sum(an, index), factor), 1)
        wide = Sum(wide[0], trunc_mod(wide[1], c))
        if _same_sign(an, s, to_sum(an, index), wide):
            return wide
    return s


DIVIDE = {FloorDiv: floordiv, FloorMod: floormod, Div: truncdiv, Mod: truncmod}


def symbolic_division(an: Context, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Cancel common factors of two products that are divided. Return None if there are none."""
    if b.__class__ is IntImm:
        return None
    p, left = factors_of(a)
    q, right = factors_of(b)
    common: list[PrimExpr] = []
    for f in list(right):
        if f in left:
            left.remove(f)
            right.remove(f)
            common.append(f)
    if not common or q == 0:
        return None
    step = gcd(p, q)
    dtype = a.dtype
    try:
        top, bottom = times(an, p // step, left, dtype), times(an, q // step, right, dtype)
        if cls is FloorDiv or cls is Div:
            if bottom.__class__ is IntImm:
                return to_expr(an, DIVIDE[cls](an, to_sum(an, top), bottom.value, dtype), dtype)
            return rewrite_make.make(an, cls, top, bottom)
        if bottom.__class__ is IntImm:
            if abs(bottom.value) == 1:
                return an.literal(0, dtype)
            inner = to_expr(an, DIVIDE[cls](an, to_sum(an, top), bottom.value, dtype), dtype)
        else:
            inner = rewrite_make.make(an, cls, top, bottom)
        factor = times(an, step, common, dtype)
        return an.literal(0, dtype) if inner.__class__ is IntImm and inner.value == 0 else an.binary(Mul, inner, factor)
    except LiteralOverflow:
        return None
