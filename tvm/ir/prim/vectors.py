"""Vectors built from scalars and other vectors."""

from __future__ import annotations

from .base import SCOPE, PrimExpr, PrimExprWithOp


class Ramp(PrimExprWithOp, key="tir.Ramp", derived={"dtype": "with_lanes(base.dtype, lanes)"}, scope=SCOPE):
    """The vector base, base + stride, ..., of ``lanes`` elements.

    Parameters
    ----------
    base : PrimExpr
        The first element.
    stride : PrimExpr
        The difference between consecutive elements.
    lanes : int
        The number of elements.
    """

    base: PrimExpr
    stride: PrimExpr
    lanes: int


class Broadcast(PrimExprWithOp, key="tir.Broadcast", derived={"dtype": "with_lanes(value.dtype, lanes)"}, scope=SCOPE):
    """A vector with the same value in all lanes.

    Parameters
    ----------
    value : PrimExpr
        The value.
    lanes : int
        The number of lanes.
    """

    value: PrimExpr
    lanes: int


class Shuffle(
    PrimExprWithOp,
    key="tir.Shuffle",
    derived={"dtype": "with_lanes(vectors[0].dtype, len(indices))"},
    scope=SCOPE,
):
    """A vector of the elements ``indices`` of the concatenated ``vectors``.

    Parameters
    ----------
    vectors : tuple of PrimExpr
        The vectors.
    indices : tuple[PrimExpr, ...]
        Indices into the concatenation of all vectors.
    """

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]


__all__ = ["Broadcast", "Ramp", "Shuffle"]
