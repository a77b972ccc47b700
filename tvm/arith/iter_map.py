"""Quasi-affine iterator maps: the public entry points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.prim import IntImm, PrimExpr, Range, Var, const, convert
from ..ir.primop import add, floordiv, floormod, multiply, subtract
from ..ir.visit import post_order
from .iter_divide import divide
from .iter_expr import (
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from .iter_rewrite import detect, normalize

__all__ = [
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "detect_iter_map",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "subspace_divide",
]


def _iterators(input_iters: Mapping[Var, Range]) -> dict[Var, Range]:
    return {getattr(v, "var", v): r for v, r in input_iters.items()}


def _level(check_level: IterMapLevel | int | str | None) -> IterMapLevel:
    if check_level is None:
        return IterMapLevel.NoCheck
    if isinstance(check_level, str):
        level = IterMapLevel.from_str(check_level)
        if level is None:
            raise ValueError(f"check_level must be bijective, surjective or nocheck, got '{check_level}'")
        return level
    return IterMapLevel(check_level)


def _predicate(predicate: PrimExpr | bool | int) -> PrimExpr:
    return const(predicate, "bool") if isinstance(predicate, (bool, int)) else convert(predicate)


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | str | None = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Return each index as an iterator form with at most one split, or no indices and the reasons of the failure.

    The forms equal the indices wherever ``predicate`` holds. At level Surjective they take every combination of values
    in their extents; at level Bijective they take each combination exactly once.
    """
    return detect(
        [convert(i) for i in indices],
        _iterators(input_iters),
        _predicate(predicate),
        _level(check_level),
        simplify_trivial_iterators,
    )


def normalize_to_iter_sum(index: PrimExpr, input_iters: Mapping[Var, Range]) -> IterSumExpr:
    """Write ``index`` as splits of the input iterators, largest scale first, plus a base that contains all terms that
    are not affine."""
    return normalize(convert(index), _iterators(input_iters))


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | str | None = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[PrimExpr]:
    """Return the indices simplified by their iterator map, or unchanged if there is no such map."""
    indices = [convert(i) for i in indices]
    iters, predicate, level = _iterators(input_iters), _predicate(predicate), _level(check_level)
    found = detect_iter_map(indices, iters, predicate, level, simplify_trivial_iterators).indices
    if not found and not isinstance(predicate, IntImm) and level != IterMapLevel.Bijective:
        found = detect_iter_map(indices, iters, True, level, simplify_trivial_iterators).indices
    return [normalize_iter_map_to_expr(e) for e in (found or indices)]


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: PrimExpr | bool = True,
    check_level: IterMapLevel | str | None = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[list[IterMark]]:
    """Split the bindings into an outer part without ``sub_iters`` and an inner part over them only.

    Return one pair of marks ``[outer, inner]`` per binding with ``binding = outer * inner.extent + inner``, then a pair
    whose extents are the outer and the inner predicate. Return an empty list if the bindings cannot be divided.
    """
    return divide(
        [convert(b) for b in bindings],
        _iterators(input_iters),
        [getattr(v, "var", v) for v in sub_iters],
        _predicate(predicate),
        _level(check_level),
        simplify_trivial_iterators,
    )


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    """Return the input iterators as expressions of ``outputs``, where ``iter_map[i]`` has the value ``outputs[i]``.

    ``iter_map`` is the result of ``detect_iter_map`` for a bijective map.
    """
    if len(iter_map) != len(outputs):
        raise ValueError(
            f"inverse_affine_iter_map: got {len(iter_map)} maps and {len(outputs)} outputs; pass one map for each "
            "output"
        )
    values: dict[IterMark, PrimExpr] = {}
    splits: list[tuple[IterSplitExpr, PrimExpr]] = []

    def put(split: IterSplitExpr, value: PrimExpr) -> None:
        part = multiply(value, split.lower_factor)
        have = values.get(split.source)
        values[split.source] = part if have is None else add(have, part)

    for sum_expr, output in zip(iter_map, outputs):
        if len(sum_expr.args) > 1:
            raise ValueError(
                "inverse_affine_iter_map: an index has more than one split; use the indices that detect_iter_map "
                "returns"
            )
        for split in sum_expr.args:
            splits.append((split, floordiv(subtract(convert(output), sum_expr.base), split.scale)))
    for split, value in splits:
        put(split, value)
    inverse: dict[Var, PrimExpr] = {}
    for mark in _marks_outside_in([s for s, _ in splits]):
        source, value = mark.source, values[mark]
        if isinstance(source, IterSumExpr):
            for split, part in _parts(source, value):
                put(split, part)
            continue
        var = source if isinstance(source, Var) else source.a
        inverse[var] = value if isinstance(source, Var) else add(value, source.b)
    return inverse


def _marks_outside_in(splits: list[IterSplitExpr]) -> list[IterMark]:
    """Return all marks of the splits, outer marks before the marks inside them."""
    root = IterSumExpr(tuple(splits), const(0, splits[0].dtype)) if splits else None
    order = [n for n in post_order(root) if isinstance(n, IterMark)] if splits else []
    return order[::-1]


def _parts(source: IterSumExpr, value: PrimExpr) -> list[tuple[IterSplitExpr, PrimExpr]]:
    """Return the value of each split of a fused sum, given the value of the sum. Splits are ordered from outermost to
    innermost."""
    value = subtract(value, source.base)
    out: list[tuple[IterSplitExpr, PrimExpr]] = []
    for position, split in enumerate(source.args):
        part = floordiv(value, split.scale)
        out.append((split, part if position == 0 else floormod(part, split.extent)))
    return out
