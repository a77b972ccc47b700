"""Canonical simplification: integer expressions as sums of split indices.

A split is ``(index % upper) // lower`` for a constant lower and upper, written as the key (index, lower, upper, mode);
mode says whether the division floors (0) or truncates (1). A sum maps splits to their factors and has a constant.
Divisions and remainders by constants are done on sums: what divides is taken out, what is too small to matter is
dropped, and neighbouring splits of one index are joined again: x // 4 * 4 + x % 4 is x.
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
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
)
from ..ir.primop import trunc_div, trunc_mod
from . import rewrite
from .compare import BINARY
from .const_bound import POS_INF, dtype_bound, is_index, linear_bound
from .products import factors_of, product, times
from .rule_compiler import LiteralOverflow
from .sums import Sum, combine, fits, scaled

if TYPE_CHECKING:
    from .context import Context

FLOOR, TRUNC = 0, 1
Split = tuple[PrimExpr, int, int, int]

# Sums of more terms than this are taken as they are: their pieces are simplified, they are not.
MAX_TERMS = 40

_DIVISIONS = {FloorDiv: FLOOR, FloorMod: FLOOR, Div: TRUNC, Mod: TRUNC}


def canonical_expr(an: Context, root: PrimExpr) -> PrimExpr:
    """The canonical form of an interned expression in the analyzer's present context."""
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
    """Whether a canonical form is a sum over variables: rewriting has nothing to add to it."""
    kind = rewrite.KINDS[n.dtype]
    if not (kind.is_index and kind.is_scalar):
        return False
    s = to_sum(an, n)
    for index, _, _, _ in s[0]:
        if index.__class__ is not Var and index.__class__ is not SizeVar:
            return False
    return True


class _Exprs:
    """What is known of each node, as an expression: sums are written out when first asked for."""

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
    """Canonical form of a two-operand node whose operands are done."""
    rewrite.stats.visits += 1
    dtype = n.a.dtype
    kind = rewrite.KINDS[dtype]
    if not (kind.is_index and kind.is_scalar):
        view.done[n] = rewrite.make(an, cls, view[n.a], view[n.b])
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
    elif cls in _DIVISIONS:
        b = view.sum(n.b)
        if not b[0] and b[1] != 0:
            try:
                got = _DIVIDE[cls](an, view.sum(n.a), b[1], dtype)
            except LiteralOverflow:
                got = None
            if got is not None and fits(got, dtype):
                view.sums[n] = got
                return
        got = _symbolic_division(an, cls, view[n.a], view[n.b])
        if got is not None:
            view.sums[n] = to_sum(an, got)
            return
    elif cls in (LT, LE, GT, GE):
        view.done[n] = _compare(an, cls, n, view)
        return
    elif cls is EQ or cls is NE:
        view.done[n] = _equal(an, cls, n, view)
        return
    # Sums that are too large stay as they are written.
    plain = cls in (Add, Sub, Mul)
    view.done[n] = an.binary(cls, view[n.a], view[n.b]) if plain else rewrite.make(an, cls, view[n.a], view[n.b])


# --- sums ----------------------------------------------------------------------------------------------------------


def atom(e: PrimExpr) -> Split:
    return e, 1, POS_INF, FLOOR


def split_of(e: PrimExpr) -> Split:
    """The split an expression is."""
    cls = e.__class__
    if cls not in _DIVISIONS or e.b.__class__ is not IntImm or e.b.value <= 0:
        return atom(e)
    mode, c = _DIVISIONS[cls], e.b.value
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
    """Join remainders of divisions by what is no literal with their quotients: x // n * n + x % n is x."""
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
    """Join splits of one index that continue each other: (x % u) // m * (m / l) + (x % m) // l is (x % u) // l."""
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
                if index.__class__ in (Add, Sub, Mul) or index.__class__ in _DIVISIONS:
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
    """The first two splits of one index of which one continues the other."""
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


def _order(item: Any):
    (_, lower, upper, _), factor = item
    return -factor, -lower, -upper


def to_expr(an: Context, s: Sum, dtype: str) -> PrimExpr:
    """The expression of a sum: larger factors first, then the constant, then what is subtracted."""
    fine = refine(an, s, dtype)
    terms, base = s = fine if fits(fine, dtype) else s
    high = dtype_bound(dtype)[1]
    if not fits(s, dtype):
        raise LiteralOverflow
    if not terms:
        return an.literal(base, dtype)
    items = sorted(terms.items(), key=_order)
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
    """Splits of sums resolved as far as the bounds of their terms allow.

    This is put off until a sum is written out: splits of one index must meet before they are taken apart.
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
    """The split as a sum of simpler ones, or None."""
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


# --- division by constants ------------------------------------------------------------------------------------------


def _parts(s: Sum, c: int) -> tuple[Sum, Sum]:
    """The part whose every factor is a multiple of ``c``, and the rest."""
    whole, rest = {}, {}
    for key, factor in s[0].items():
        (rest if factor % c else whole)[key] = factor
    if s[1] % c == 0:
        return Sum(whole, s[1]), Sum(rest, 0)
    return Sum(whole, 0), Sum(rest, s[1])


def _bucket(an: Context, s: Sum, c: int) -> int | None:
    """The quotient by ``c`` > 0 when all values of the sum have the same."""
    lo, hi = sum_bound(an, s)
    if lo <= -POS_INF or hi >= POS_INF or lo // c != hi // c:
        return None
    return lo // c


def _is_single(s: Sum) -> bool:
    return len(s[0]) == 1 and s[1] == 0


def _coarse(an: Context, s: Sum, c: int) -> tuple[int, Sum, Sum] | None:
    """``s`` as g * A + B with g > 1 dividing ``c`` and B in [0, g): gives (g, A, B), the most terms in A."""
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
        q = _bucket(an, small, g)
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
    q = _bucket(an, s, c)
    if q is not None:
        return Sum({}, q)
    found = _coarse(an, s, c) if deep or _is_single(s) else None
    if found is not None:
        g, big, _ = found
        return floordiv(an, big, c // g, dtype, deep)
    return _split_quotient(an, s, c, dtype, FLOOR)


def _split_quotient(an: Context, s: Sum, c: int, dtype: str, mode: int) -> Sum:
    """The quotient as one split."""
    if c == 1:
        return s
    if _is_single(s):
        ((key, factor),) = s[0].items()
        index, lower, upper, old = key
        if factor == 1 and (old == mode or (lower == 1 and upper == POS_INF)):
            if lower * c >= upper:
                return Sum({}, 0)
            return Sum({(index, lower * c, upper, mode): 1}, 0)
    return Sum({(to_expr(an, s, dtype), c, POS_INF, mode): 1}, 0)


def floormod(an: Context, s: Sum, c: int, dtype: str, deep: bool = False) -> Sum:
    if c < 0:
        return Sum({atom(rewrite.make(an, FloorMod, to_expr(an, s, dtype), an.literal(c, dtype))): 1}, 0)
    terms: dict[Split, int] = {}
    extra: list[Sum] = []
    for key, factor in s[0].items():
        if factor % c == 0:
            continue
        index, lower, upper, mode = key
        if upper != POS_INF and mode == FLOOR and upper % lower == 0 and upper // lower * factor % c == 0:
            # The inner remainder only takes away multiples of c.
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
    q = _bucket(an, s, c)
    if q is not None:
        return Sum(s[0], s[1] - q * c)
    found = _coarse(an, s, c) if deep or _is_single(s) else None
    if found is not None:
        g, big, small = found
        return add(an, scale(floormod(an, big, c // g, dtype, deep), g), small, 1)
    return _split_remainder(an, s, c, dtype, FLOOR)


def _split_remainder(an: Context, s: Sum, c: int, dtype: str, mode: int) -> Sum:
    """The remainder as one split."""
    if _is_single(s):
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
    """Whether all sums are known to be at least zero."""
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
        found = _coarse(an, s, c) if deep or _is_single(s) else None
        if found is not None:
            g, big, _ = found
            return truncdiv(an, big, c // g, dtype, deep)
    elif _is_single(s):
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
        found = _coarse(an, s, c) if deep or _is_single(s) else None
        if found is not None:
            g, big, small = found
            if _same_sign(an, big):
                return add(an, scale(truncmod(an, big, c // g, dtype, deep), g), small, 1)
    elif _is_single(s):
        ((key, factor),) = s[0].items()
        g = gcd(factor, c)
        if g > 1:
            return scale(truncmod(an, Sum({key: factor // g}, 0), c // g, dtype), g)
    return _split_remainder(an, s, c, dtype, TRUNC)


def _drop_inner_truncmod(an: Context, s: Sum, c: int) -> Sum:
    """Replace a truncating remainder inside by what it divides, where that changes multiples of ``c`` only and keeps
    every sum at zero or above."""
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


_DIVIDE = {FloorDiv: floordiv, FloorMod: floormod, Div: truncdiv, Mod: truncmod}


# --- symbolic divisors, comparisons, casts ------------------------------------------------------------------


def _symbolic_division(an: Context, cls: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Cancel common factors of a product divided by a product; None when there are none."""
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
                return to_expr(an, _DIVIDE[cls](an, to_sum(an, top), bottom.value, dtype), dtype)
            return rewrite.make(an, cls, top, bottom)
        if bottom.__class__ is IntImm:
            if abs(bottom.value) == 1:
                return an.literal(0, dtype)
            inner = to_expr(an, _DIVIDE[cls](an, to_sum(an, top), bottom.value, dtype), dtype)
        else:
            inner = rewrite.make(an, cls, top, bottom)
        factor = times(an, step, common, dtype)
        return an.literal(0, dtype) if inner.__class__ is IntImm and inner.value == 0 else an.binary(Mul, inner, factor)
    except LiteralOverflow:
        return None


def _compare(an: Context, cls: type, n: Any, view: _Exprs) -> PrimExpr:
    """Orderings: terms too small to matter beside a common factor of the others are dropped."""
    a, b = n.a, n.b
    if cls is GT or cls is GE:
        a, b, cls = b, a, LT if cls is GT else LE
    whole = rewrite.make(an, cls, view[a], view[b])
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
        q = _bucket(an, Sum(dict(items[count:]), base), g)
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
        return rewrite.make(an, cls, to_expr(an, x, dtype), to_expr(an, y, dtype))
    except LiteralOverflow:
        return whole


def _equal(an: Context, cls: type, n: Any, view: _Exprs) -> PrimExpr:
    """Equality, with added terms on the left, subtracted ones on the right."""
    dtype = n.a.dtype
    terms, base = refine(an, add(an, view.sum(n.a), view.sum(n.b), -1), dtype)
    left = {k: f for k, f in terms.items() if f > 0}
    right = {k: -f for k, f in terms.items() if f < 0}
    if left:
        x, y = Sum(left, max(base, 0) if right else 0), Sum(right, max(-base, 0) if right else -base)
    else:
        x, y = Sum(right, 0), Sum({}, base)
    if not (fits(x, dtype) and fits(y, dtype)):
        return rewrite.make(an, cls, view[n.a], view[n.b])
    return rewrite.make(an, cls, to_expr(an, x, dtype), to_expr(an, y, dtype))


def _cast(an: Context, n: Any, view: _Exprs) -> bool:
    """Move a cast between index types into a sum; False where that could change the value."""
    source = n.value.dtype
    if not (is_index(n.dtype) and is_index(source)) or info(n.dtype).lanes != 1:
        return False
    s = view.sum(n.value)
    low, high = dtype_bound(n.dtype)
    if info(n.dtype).bits < info(source).bits:
        # Every partial sum has to fit, in whatever order the terms are added.
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
