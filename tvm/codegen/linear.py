"""Index expressions as sums: coefficients of atoms and a constant. The part of unrolled variables is then a number."""

from __future__ import annotations

from typing import NamedTuple

from ..dtype import info
from ..ir.prim import Add, Broadcast, Cast, IntImm, Mul, PrimExpr, Ramp, Sub

# A shared sub-expression is counted once per path; an index that has this many is cut into atoms instead.
_LIMIT = 2048
_INDEX = frozenset({"int32", "int64"})


class Linear(NamedTuple):
    """constant + sum of coefficient * atom; atoms are distinct objects, in order of first appearance."""

    terms: tuple[tuple[PrimExpr, int], ...]
    constant: int


class Access(NamedTuple):
    """Elements base, base + stride, ...; ``stride`` is None where only the lanes of ``vector`` tell."""

    base: Linear | None
    stride: int | None
    lanes: int


def linear_form(root: PrimExpr) -> Linear:
    """Split ``root`` (int32 or int64) into a sum. Overflow of the parts is assumed not to happen: it is an index."""
    if isinstance(root, IntImm):
        return Linear((), root.value)
    if root.dtype not in _INDEX:
        # Narrow and unsigned types wrap; their arithmetic is not ours to change.
        return Linear(((root, 1),), 0)
    coefficients: dict[int, list] = {}
    constant = 0
    steps = 0
    stack = [(root, 1)]
    while stack:
        node, scale = stack.pop()
        kind = type(node)
        steps += 1
        if kind is IntImm:
            constant += node.value * scale
            continue
        if steps < _LIMIT:
            if kind is Add:
                stack.append((node.b, scale))
                stack.append((node.a, scale))
                continue
            if kind is Sub:
                stack.append((node.b, -scale))
                stack.append((node.a, scale))
                continue
            if kind is Mul:
                if type(node.b) is IntImm:
                    stack.append((node.a, scale * node.b.value))
                    continue
                if type(node.a) is IntImm:
                    stack.append((node.b, scale * node.a.value))
                    continue
            if kind is Cast and node.dtype == "int64" and node.value.dtype == "int32":
                stack.append((node.value, scale))
                continue
        entry = coefficients.get(id(node))
        if entry is None:
            coefficients[id(node)] = [node, scale]
        else:
            entry[1] += scale
    return Linear(tuple((node, scale) for node, scale in coefficients.values() if scale), constant)


def access_form(index: PrimExpr) -> Access:
    """What a scalar or vector index touches."""
    lanes = info(index.dtype).lanes
    if lanes == 1:
        return Access(linear_form(index), 0, 1)
    got = _ramp(index, 0)
    if got is None:
        return Access(None, None, lanes)
    return Access(got[0], got[1], lanes)


def _ramp(node: PrimExpr, depth: int) -> tuple[Linear, int] | None:
    """Base and stride of a vector that is an arithmetic progression."""
    if isinstance(node, Ramp):
        return (linear_form(node.base), node.stride.value) if isinstance(node.stride, IntImm) else None
    if isinstance(node, Broadcast):
        return (linear_form(node.value), 0) if info(node.value.dtype).lanes == 1 else None
    if depth < 16 and isinstance(node, (Add, Sub)):
        a, b = _ramp(node.a, depth + 1), _ramp(node.b, depth + 1)
        if a is None or b is None:
            return None
        sign = 1 if isinstance(node, Add) else -1
        return add(a[0], b[0], sign), a[1] + sign * b[1]
    if depth < 16 and isinstance(node, Mul):
        for x, y in ((node.a, node.b), (node.b, node.a)):
            if isinstance(y, Broadcast) and isinstance(y.value, IntImm):
                got = _ramp(x, depth + 1)
                return None if got is None else (scaled(got[0], y.value.value), got[1] * y.value.value)
    return None


def add(a: Linear, b: Linear, sign: int = 1) -> Linear:
    merged = {id(node): [node, scale] for node, scale in a.terms}
    for node, scale in b.terms:
        if id(node) in merged:
            merged[id(node)][1] += sign * scale
        else:
            merged[id(node)] = [node, sign * scale]
    return Linear(tuple((n, s) for n, s in merged.values() if s), a.constant + sign * b.constant)


def scaled(a: Linear, factor: int) -> Linear:
    return Linear(tuple((n, s * factor) for n, s in a.terms) if factor else (), a.constant * factor)


def same(a: Linear | None, b: Linear | None) -> bool:
    """Whether two sums are equal by their atoms' identity."""
    if a is None or b is None or a.constant != b.constant or len(a.terms) != len(b.terms):
        return False
    other = {id(node): scale for node, scale in b.terms}
    return all(other.get(id(node)) == scale for node, scale in a.terms)
