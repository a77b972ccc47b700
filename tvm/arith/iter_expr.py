"""Quasi-affine iterator forms: the node classes, and their conversion back to expressions.

An ``IterMark`` takes every value in [0, extent): it is a loop variable, or a fused sum of splits. An ``IterSplitExpr``
is ``(mark // lower_factor) % extent * scale``. An ``IterSumExpr`` is a sum of splits and a base without iterators.
``iter_rewrite`` detects these forms and checks that they are independent.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import islice
from typing import Any

from ..ir.node import Node
from ..ir.prim import BaseExpr, IntImm, PrimExpr, const, convert
from ..ir.primop import add, floordiv, floormod, multiply
from ..ir.visit import post_order
from .analyzer import Analyzer


class IterMapLevel(IntEnum):
    """The requirement on a map: bijective, surjective, or none."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel | None:
        """Return the level with this name in any case, or None for an unknown name."""
        return {level.name.lower(): level for level in IterMapLevel}.get(name.lower())


class IterMapExpr(PrimExpr):
    """The base class of the iterator forms."""


class IterMark(BaseExpr, key="arith.IterMark"):
    """An iterator: ``source`` (an expression or an IterSumExpr) takes the values [0, extent)."""

    _followed = True

    source: PrimExpr
    extent: PrimExpr


class IterSplitExpr(IterMapExpr, key="arith.IterSplitExpr", derived={"dtype": "source.source.dtype"}):
    """The split ``(source // lower_factor) % extent * scale`` of an iterator."""

    _followed = True

    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr


class IterSumExpr(IterMapExpr, key="arith.IterSumExpr", derived={"dtype": "base.dtype"}):
    """The sum of the splits ``args`` and ``base``."""

    _followed = True

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr


class IterMapResult(Node, key="arith.IterMapResult"):
    """The result of detection: one IterSumExpr per index (none on failure), the reasons of a failure, and the condition
    under which padded iterators are outside their original range, in terms of the padded expressions."""

    indices: tuple[IterSumExpr, ...]
    errors: tuple[Any, ...]
    padding_predicate: PrimExpr


class NotAffine(Exception):
    """An expression, predicate or map has no iterator form; the message gives the reason."""


def short(e: PrimExpr) -> str:
    """Return the text of an expression for a message. A large expression is described by its type only."""
    sizes: dict[int, int] = {}
    for node in islice(post_order(e), 41):
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in node.children())
    return str(e) if sizes.get(id(e), 41) <= 40 else f"a large {type(e).__name__}"


def whole(mark: IterMark, scale: PrimExpr | int = 1) -> IterSplitExpr:
    """Return the split that covers all of ``mark``."""
    dtype = mark.source.dtype
    return IterSplitExpr(mark, const(1, dtype), mark.extent, const(scale, dtype) if isinstance(scale, int) else scale)


def same_value(a: PrimExpr, b: PrimExpr) -> bool:
    """Return whether two extents are the same object or equal literals."""
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)


def _covers(split: IterSplitExpr, factor: PrimExpr) -> bool:
    """Return whether ``factor`` is the extent of the split's mark, with cheap tests first."""
    extent = split.source.extent
    if same_value(factor, extent):
        return True
    if isinstance(factor, IntImm) and isinstance(extent, IntImm):
        return False
    return Analyzer().can_prove_equal(factor, extent)


def _split_value(split: IterSplitExpr, value: PrimExpr) -> PrimExpr:
    """Return the split's value without its scale, for a given value of its mark."""
    lower, extent = split.lower_factor, split.extent
    one = isinstance(lower, IntImm) and lower.value == 1
    period = extent if one else multiply(lower, extent)
    if _covers(split, period):
        return value if one else floordiv(value, lower)
    value = floormod(value, period)
    return value if one else floordiv(value, lower)


def normalize_iter_map_to_expr(expr: PrimExpr) -> PrimExpr:
    """Convert an iterator form to a plain expression. A plain expression is returned unchanged."""
    expr = convert(expr)
    values: dict[int, PrimExpr] = {}
    for node in post_order(expr):
        kind = node.__class__
        if kind is IterMark:
            source: PrimExpr = node.source
            values[id(node)] = values.get(id(source), source)
        elif kind is IterSplitExpr:
            values[id(node)] = multiply(_split_value(node, values[id(node.source)]), node.scale)
        elif kind is IterSumExpr:
            total = const(0, node.dtype)
            for arg in node.args:
                total = add(total, values[id(arg)])
            values[id(node)] = add(total, node.base)
    return values.get(id(expr), expr)
