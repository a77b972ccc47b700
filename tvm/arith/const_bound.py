"""Constant bounds: the smallest and largest value of an integer expression.

A bound is a pair of Python integers; ``NEG_INF`` and ``POS_INF`` mean unbounded. int32 and int64 index arithmetic is
assumed not to overflow. Narrower types wrap around: a bound outside the range of such a type becomes the range of the
type.

The rules run in a context: an analyzer, or the light context of code generators (`ranges.py`), which decides which
arithmetic may overflow.
"""

from __future__ import annotations

from collections.abc import Callable
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
    Broadcast,
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
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    SizeVar,
    Sub,
    Var,
)
from ..ir.primop import trunc_div

POS_INF = (1 << 63) - 1
NEG_INF = -POS_INF
EVERYTHING = (NEG_INF, POS_INF)
Bound = tuple[int, int]

# Beyond this nesting depth an operand's bound is the range of its type. The bound stays correct, and the recursion
# stays shallow.
MAX_DEPTH = 60
# The largest n for each float type such that all integers up to n are exact.
_EXACT_FLOAT = {"float64": 1 << 53, "float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}

_DTYPE_BOUNDS: dict[str, Bound] = {}


def dtype_bound(dtype: str) -> Bound:
    got = _DTYPE_BOUNDS.get(dtype)
    if got is None:
        kind = info(dtype)
        if kind.code == "bool":
            got = (0, 1)
        elif kind.code == "uint":
            got = (0, min((1 << kind.bits) - 1, POS_INF))
        elif kind.code == "int":
            got = (max(-(1 << (kind.bits - 1)), NEG_INF), min((1 << (kind.bits - 1)) - 1, POS_INF))
        else:
            got = EVERYTHING
        _DTYPE_BOUNDS[dtype] = got
    return got


_INDEX: dict[str, bool] = {}


def is_index(dtype: str) -> bool:
    """Return whether a dtype is int32 or int64 (scalar or vector), whose arithmetic is assumed not to overflow."""
    got = _INDEX.get(dtype)
    if got is None:
        kind = info(dtype)
        got = _INDEX[dtype] = kind.code == "int" and kind.bits in (32, 64)
    return got


def clamp(value: int) -> int:
    return POS_INF if value >= POS_INF else max(NEG_INF, value)


def add_bounds(a: Bound, b: Bound) -> Bound:
    lo = NEG_INF if a[0] == NEG_INF or b[0] == NEG_INF else clamp(a[0] + b[0])
    hi = POS_INF if a[1] == POS_INF or b[1] == POS_INF else clamp(a[1] + b[1])
    return lo, hi


def scale_bound(a: Bound, c: int) -> Bound:
    """Return the bound of ``a * c``. The infinities are so large that any nonzero multiple of one is clamped to it
    again."""
    if c == 0:
        return 0, 0
    lo, hi = clamp(a[0] * c), clamp(a[1] * c)
    return (lo, hi) if c > 0 else (hi, lo)


def multiply_bounds(a: Bound, b: Bound) -> Bound:
    corners = [clamp(x * y) for x in a for y in b]
    return min(corners), max(corners)


def intersect(a: Bound, b: Bound) -> Bound:
    lo, hi = max(a[0], b[0]), min(a[1], b[1])
    # Contradicting facts occur only in unreachable code, where either bound is valid. Keep the bound of the narrower
    # operand.
    return (lo, hi) if lo <= hi else b


def _divide(a: int, b: int, floor: bool) -> int:
    if a in EVERYTHING:
        return a if b > 0 else -a
    if b in EVERYTHING:
        return -1 if floor and a and (a < 0) != (b < 0) else 0
    return clamp(a // b if floor else trunc_div(a, b))


def divide_bounds(a: Bound, b: Bound, floor: bool) -> Bound:
    lo, hi = b
    # A division by zero has no value, so exclude the divisor 0.
    if lo == 0:
        lo = 1
    if hi == 0:
        hi = -1
    if lo > hi:
        return EVERYTHING
    if lo < 0 < hi:
        most = max(abs(a[0]), abs(a[1]))
        return clamp(-most), clamp(most)
    corners = [_divide(x, y, floor) for x in a for y in (lo, hi)]
    return min(corners), max(corners)


def floormod_bound(a: Bound, b: Bound) -> Bound:
    lo, hi = b
    if lo == 0 < hi:
        # A division by zero has no value, so exclude the divisor 0.
        lo = 1
    # An infinite bound may exceed the representable bounds, and so may the neighbouring value.
    most = hi if hi == POS_INF else hi - 1
    if lo > 0:
        if a[0] >= 0:
            return (a[0], a[1]) if a[1] < lo else (0, min(a[1], most))
        if lo == hi and a[0] != NEG_INF and a[1] != POS_INF and a[0] // lo == a[1] // lo:
            return a[0] % lo, a[1] % lo
        return 0, most
    return (lo if lo == NEG_INF else min(lo + 1, 0)), max(most, 0)


def truncmod_bound(a: Bound, b: Bound) -> Bound:
    most = clamp(max(abs(b[0]), abs(b[1])))
    most = most if most == POS_INF else max(most - 1, 0)
    lo = 0 if a[0] >= 0 else max(a[0], -most)
    hi = 0 if a[1] <= 0 else min(a[1], most)
    if 0 <= a[0] and a[1] < b[0]:
        lo = a[0]
    return lo, hi


def linear_bound(an: Any, terms: dict[PrimExpr, int], base: int, depth: int = 0) -> Bound:
    """Return the bound of ``sum(atom * coefficient) + base`` from the atoms' bounds and the known inequalities."""
    got = _sum_bound(an, terms, depth)
    if len(terms) > 1:
        if an.facts:
            got = _with_facts(an, terms, got, depth)
        for atom, c in terms.items():
            cls = atom.__class__
            if (
                (cls is FloorDiv or cls is Div)
                and atom.b.__class__ is IntImm
                and atom.b.value
                and c % atom.b.value == 0
            ):
                got = intersect(got, _without_division(an, terms, atom, depth))
            elif (
                cls is FloorDiv
                and an.facts
                and atom.b.__class__ is IntImm
                and atom.b.value > 1
                and any(t.__class__ is SizeVar for t in terms)
            ):
                got = intersect(got, _of_quotient(an, terms, atom, depth))
    if base:
        got = add_bounds(got, (base, base))
    return got


def _sum_bound(an: Any, terms: dict[PrimExpr, int], depth: int) -> Bound:
    lo = hi = 0
    for atom, c in terms.items():
        a, b = bound_of(an, atom, depth + 1)
        if c < 0:
            a, b = b, a
        lo = NEG_INF if lo == NEG_INF or a in EVERYTHING else lo + a * c
        hi = POS_INF if hi == POS_INF or b in EVERYTHING else hi + b * c
    return clamp(lo), clamp(hi)


def _add_terms(terms: dict[PrimExpr, int], more: dict[PrimExpr, int], factor: int) -> None:
    """Add ``factor * more`` to a linear expression in place. Terms whose coefficient becomes 0 are removed."""
    for term, c in more.items():
        c = terms.get(term, 0) + c * factor
        if c:
            terms[term] = c
        else:
            terms.pop(term, None)


def _without_division(an: Any, terms: dict[PrimExpr, int], atom: PrimExpr, depth: int) -> Bound:
    """Return the bound after replacing one ``x // c * c`` by ``x - x % c``, which may cancel other terms."""
    divisor = atom.b.value
    times = terms[atom] // divisor
    inner, base = an.linear(atom.a)
    if not any(t in terms for t in inner):
        return EVERYTHING
    rest = dict(terms)
    del rest[atom]
    _add_terms(rest, inner, times)
    dividend = bound_of(an, atom.a, depth + 1)
    modulus = (divisor, divisor)
    left = floormod_bound(dividend, modulus) if atom.__class__ is FloorDiv else truncmod_bound(dividend, modulus)
    got = add_bounds(_sum_bound(an, rest, depth), scale_bound(left, -times))
    return add_bounds(got, (base * times, base * times))


def _of_quotient(an: Any, terms: dict[PrimExpr, int], atom: PrimExpr, depth: int) -> Bound:
    """Return the bound from what is known of the dividend of one ``x // c`` with symbolic ``c``. Multiplying all terms
    by c gives ``x - x % c`` in its place."""
    divisor = atom.b.value
    inner, base = an.linear(atom.a)
    if not any(t in inner for known, _ in an.facts.values() for t, _ in known):
        return EVERYTHING
    scale = divisor // _gcd(divisor, terms[atom])
    times = terms[atom] * scale // divisor
    rest = {t: c * scale for t, c in terms.items() if t is not atom}
    _add_terms(rest, inner, times)
    left = floormod_bound(bound_of(an, atom.a, depth + 1), (divisor, divisor))
    got = _with_facts(an, rest, _sum_bound(an, rest, depth), depth)
    lo, hi = add_bounds(add_bounds(got, scale_bound(left, -times)), (base * times, base * times))
    return lo if lo in EVERYTHING else -(-lo // scale), hi if hi in EVERYTHING else hi // scale


def _with_facts(an: Any, terms: dict[PrimExpr, int], got: Bound, depth: int) -> Bound:
    """Tighten the bound with each known inequality ``lo <= sum <= hi``: add the bound of the remaining terms to that of
    the inequality."""
    for known, fact in an.facts.values():
        first, factor = known[0]
        share = terms.get(first)
        if not share or share % factor:
            continue
        times = share // factor
        rest = dict(terms)
        for atom, c in known:
            left = rest.get(atom, 0) - c * times
            if left:
                rest[atom] = left
            else:
                rest.pop(atom, None)
        if len(rest) >= len(terms):
            continue
        got = intersect(got, add_bounds(_sum_bound(an, rest, depth), scale_bound(fact, times)))
    return got


def bound_of(an: Any, e: PrimExpr, depth: int = 0) -> Bound:
    """Return the bound of an interned expression in the analyzer's context."""
    memo = an.bounds
    got = memo.get(e)
    if got is not None:
        return got
    cls = e.__class__
    if cls is IntImm:
        return e.value, e.value
    dtype = e.dtype
    if depth > MAX_DEPTH:
        return dtype_bound(dtype)
    got = raw_bound(an, e, depth)
    if cls in _WRAPS:
        if an.light:
            got = dtype_bound(dtype) if an.overflows(e, got) else got
        elif not is_index(dtype):
            got = _wrapped(dtype, got)
    if an.atom_facts:
        fact = an.atom_facts.get(e)
        if fact is not None:
            got = intersect(got, fact)
    memo[e] = got
    return got


def raw_bound(an: Any, e: PrimExpr, depth: int) -> Bound:
    """Return the bound of the mathematical result of an operation, before it wraps around in its type."""
    handler = _BOUNDS.get(e.__class__)
    return dtype_bound(e.dtype) if handler is None else handler(an, e, depth)


def _wrapped(dtype: str, got: Bound) -> Bound:
    exact = _exact_float(dtype)
    if exact is not None:
        return got if -exact <= got[0] and got[1] <= exact else EVERYTHING
    limit = dtype_bound(dtype)
    return got if limit[0] <= got[0] and got[1] <= limit[1] else limit


def _exact_float(dtype: str) -> int | None:
    kind = info(dtype)
    return None if kind.is_integer else _EXACT_FLOAT.get(f"{kind.code}{kind.bits}")


def in_type(dtype: str, bound: Bound) -> bool:
    """Return whether a whole bound fits into a type; False for infinite and clamped bounds."""
    low, high = dtype_bound(dtype)
    return low <= bound[0] and bound[1] <= high and bound[0] != NEG_INF and bound[1] != POS_INF


def _var(an: Any, e: PrimExpr, depth: int):
    got = an.var_bounds.get(e)
    if got is not None:
        return got
    if isinstance(e, SizeVar):
        return 0, dtype_bound(e.dtype)[1] if an.light else POS_INF
    return dtype_bound(e.dtype)


def _linear(an: Any, e: PrimExpr, depth: int):
    if not an.light and is_index(e.dtype):
        terms, base = an.linear(e)
        if e not in terms:
            return linear_bound(an, terms, base, depth)
    a, b = bound_of(an, e.a, depth + 1), bound_of(an, e.b, depth + 1)
    return add_bounds(a, b if e.__class__ is Add else scale_bound(b, -1))


def _mul(an: Any, e: PrimExpr, depth: int):
    return multiply_bounds(bound_of(an, e.a, depth + 1), bound_of(an, e.b, depth + 1))


def _div(an: Any, e: PrimExpr, depth: int):
    floor = e.__class__ is FloorDiv
    if not floor and not info(e.dtype).is_integer:
        # The quotient of floats is not an integer.
        return EVERYTHING
    return divide_bounds(bound_of(an, e.a, depth + 1), bound_of(an, e.b, depth + 1), floor)


def _floormod(an: Any, e: PrimExpr, depth: int):
    b = bound_of(an, e.b, depth + 1)
    got = floormod_bound(bound_of(an, e.a, depth + 1), b)
    if b[0] == b[1] and b[0] > 0 and got[1] - got[0] == b[0] - 1:
        coeff, base = an.modular(e.a, depth + 1)
        step = _gcd(coeff, b[0])
        if step > 1:
            base %= step
            got = (base, b[0] - step + base)
    return got


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return abs(a)


def _mod(an: Any, e: PrimExpr, depth: int):
    return truncmod_bound(bound_of(an, e.a, depth + 1), bound_of(an, e.b, depth + 1))


def _min(an: Any, e: PrimExpr, depth: int):
    a, b = bound_of(an, e.a, depth + 1), bound_of(an, e.b, depth + 1)
    return min(a[0], b[0]), min(a[1], b[1])


def _max(an: Any, e: PrimExpr, depth: int):
    a, b = bound_of(an, e.a, depth + 1), bound_of(an, e.b, depth + 1)
    return max(a[0], b[0]), max(a[1], b[1])


def _either(an: Any, x: Any, y: Any, depth: int):
    a, b = bound_of(an, x, depth + 1), bound_of(an, y, depth + 1)
    return min(a[0], b[0]), max(a[1], b[1])


def _select(an: Any, e: PrimExpr, depth: int):
    return _either(an, e.true_value, e.false_value, depth)


def _boolean_bounds(an: Any, e: PrimExpr, depth: int):
    return 0, 1


def _cast(an: Any, e: PrimExpr, depth: int):
    source, limit = e.value.dtype, dtype_bound(e.dtype)
    got = bound_of(an, e.value, depth + 1)
    exact = _exact_float(e.dtype)
    if exact is not None:
        return got if info(source).is_integer and -exact <= got[0] and got[1] <= exact else EVERYTHING
    if an.light:
        return limit if an.overflows(e, got) else got
    # The largest values of uint64 exceed the representable bounds.
    open_end = got[1] == POS_INF and info(source).is_uint
    return got if limit[0] <= got[0] and got[1] <= limit[1] and not open_end else limit


def _broadcast(an: Any, e: PrimExpr, depth: int):
    return bound_of(an, e.value, depth + 1)


def _ramp(an: Any, e: PrimExpr, depth: int):
    step = scale_bound(bound_of(an, e.stride, depth + 1), e.lanes - 1)
    return add_bounds(bound_of(an, e.base, depth + 1), (min(step[0], 0), max(step[1], 0)))


def _shift_right(an: Any, e: PrimExpr, depth: int):
    a, b = bound_of(an, e.args[0], depth + 1), bound_of(an, e.args[1], depth + 1)
    if b[0] < 0 or b[1] > 63:
        return dtype_bound(e.dtype)
    corners = [x if x in EVERYTHING else x >> y for x in a for y in b]
    return min(corners), max(corners)


def _shift_left(an: Any, e: PrimExpr, depth: int):
    a, b = bound_of(an, e.args[0], depth + 1), bound_of(an, e.args[1], depth + 1)
    if b[0] < 0 or b[1] > 63:
        return dtype_bound(e.dtype)
    got = multiply_bounds(a, (1 << b[0], 1 << b[1]))
    limit = dtype_bound(e.dtype)
    if an.light:
        return got if in_type(e.dtype, got) else limit
    return got if limit[0] <= got[0] and got[1] <= limit[1] else limit


def _bitwise_and(an: Any, e: PrimExpr, depth: int):
    a, b = bound_of(an, e.args[0], depth + 1), bound_of(an, e.args[1], depth + 1)
    tops = [x[1] for x in (a, b) if x[0] >= 0]
    return (0, min(tops)) if tops else dtype_bound(e.dtype)


def _let(an: Any, e: PrimExpr, depth: int):
    with an.known_value(e.var, bound_of(an, e.value, depth + 1), an.modular(e.value, depth + 1)):
        return bound_of(an, e.body, depth + 1)


_CALLS: dict[str, Callable[[Any, Any, int], tuple[int, int]]] = {
    "tir.likely": lambda an, e, depth: bound_of(an, e.args[0], depth + 1),
    "tir.if_then_else": lambda an, e, depth: _either(an, e.args[1], e.args[2], depth),
    "tir.shift_right": _shift_right,
    "tir.shift_left": _shift_left,
    "tir.bitwise_and": _bitwise_and,
}


def _call(an: Any, e: PrimExpr, depth: int):
    handler = _CALLS.get(getattr(e.op, "name", ""))
    return dtype_bound(e.dtype) if handler is None else handler(an, e, depth)


_BOUNDS: dict[type[Any], Callable[..., Any]] = {
    Var: _var,
    SizeVar: _var,
    Add: _linear,
    Sub: _linear,
    Mul: _mul,
    Div: _div,
    FloorDiv: _div,
    Mod: _mod,
    FloorMod: _floormod,
    Min: _min,
    Max: _max,
    Select: _select,
    Cast: _cast,
    Broadcast: _broadcast,
    Ramp: _ramp,
    Call: _call,
    Let: _let,
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE, And, Or, Not), _boolean_bounds),
}
_WRAPS = frozenset({Add, Sub, Mul, Div, FloorDiv, Ramp})
