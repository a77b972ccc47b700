"""Ranges, iteration axes, and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..node import Node, convert_field
from .base import ExprOp, PrimExpr, PrimExprWithOp, ops
from .values import Var, const

if TYPE_CHECKING:
    from ..span import Span


class Range(Node, key="Range"):
    """The integers [min, min + extent).

    Parameters
    ----------
    begin : PrimExpr, optional
        The first integer; without ``end``, the end of a range that starts at zero.
    end : PrimExpr, optional
        The integer after the last.
    min : PrimExpr, optional
        The first integer, given together with ``extent``.
    extent : PrimExpr, optional
        The number of integers.
    """

    _followed = True

    min: PrimExpr
    extent: PrimExpr

    def __init__(
        self, begin: Any = None, end: Any = None, span: Span | None = None, min: Any = None, extent: Any = None
    ):
        # Two forms: Range(end) or Range(begin, end) for users, and min=/extent= for reconstruction.
        if extent is None:
            if begin is None:
                raise TypeError("Range needs an end")
            if end is None:
                begin, end = convert_field(0), convert_field(begin)
                min, extent = const(0, end.dtype), end
            else:
                min = convert_field(begin)
                extent = ops().subtract(convert_field(end), min)
        self.min = convert_field(min)
        self.extent = convert_field(extent)
        self.span = span

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: Span | None = None) -> Range:
        """The range with a given start and length.

        Parameters
        ----------
        min_value : PrimExpr or int
            The first integer.
        extent : PrimExpr or int
            The number of integers.

        Returns
        -------
        Range
        """
        return Range(min=min_value, extent=extent)


class IterVar(ExprOp, Node, key="tir.IterVar"):
    """An iteration axis: its variable, its domain, and its type.

    Parameters
    ----------
    dom : Range
        The range of the variable.
    var : Var
        The variable.
    iter_type : int
        The type: data parallel, reduction, thread, and so on.
    thread_tag : str, optional
        The hardware thread to which the axis is bound.
    """

    _followed = True
    _compared = "dom var! iter_type thread_tag"

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    DimInfo = 4
    Unrolled = 5
    Vectorized = 6
    Parallelized = 7
    Tensorized = 8

    dom: Range | None
    var: Var
    iter_type: int
    thread_tag: str = ""

    def __init__(self, dom: Any, var: Any, iter_type: Any, thread_tag: Any = "", span: Span | None = None):
        if dom is not None and not isinstance(dom, Range):
            if not isinstance(dom, (list, tuple)) or len(dom) != 2:
                raise TypeError(f"the domain of an axis must be a Range or a pair (begin, end), got {dom!r}")
            dom = Range(dom[0], dom[1])
        self.dom = dom
        self.var = Var(var, dom.extent.dtype if dom is not None else "int32") if isinstance(var, str) else var
        self.iter_type = int(iter_type)
        self.thread_tag = thread_tag or ""
        self.span = span

    @property
    def dtype(self):
        return self.var.dtype


class CommReducer(Node, key="tir.CommReducer"):
    """A commutative, associative reduction operation: result[i] = f(lhs, rhs), with its identity element.

    Parameters
    ----------
    lhs : tuple of Var
        The accumulated values.
    rhs : tuple of Var
        The values to add.
    result : tuple of PrimExpr
        The combined values, one expression each.
    identity_element : tuple of PrimExpr
        The identity elements.
    """

    _compared = "lhs! rhs! result identity_element"

    lhs: tuple[Any, ...]
    rhs: tuple[Any, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]

    def __call__(self, a: Any, b: Any):
        from ..subst import substitute

        pairs = dict(zip(self.lhs, a if isinstance(a, (list, tuple)) else (a,)))
        pairs.update(zip(self.rhs, b if isinstance(b, (list, tuple)) else (b,)))
        return tuple(substitute(r, pairs) for r in self.result)


class Reduce(PrimExprWithOp, key="tir.Reduce", derived={"dtype": "source[value_index].dtype"}):
    """A reduction of ``source`` over ``axis`` where ``condition`` holds; allowed only as the whole value of a compute.

    Parameters
    ----------
    combiner : CommReducer
        The reduction operation.
    source : tuple of PrimExpr
        The reduced values.
    axis : tuple[IterVar, ...]
        The reduction axes.
    condition : PrimExpr
        Points at which the condition is false are skipped.
    value_index : int, optional
        The index of this value among those of the combiner.
    init : tuple of PrimExpr, optional
        The initial value, which replaces the identity element.
    """

    _compared = "axis! combiner source init condition value_index"

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int = 0
    init: tuple[PrimExpr, ...] = ()


__all__ = ["CommReducer", "IterVar", "Range", "Reduce"]
