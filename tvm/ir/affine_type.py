"""Types of quantized tensors, which describe how integers represent real values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dtype import canonical
from .node import Node

if TYPE_CHECKING:
    from .span import Span


class AffineType(Node):
    """Base class of affine types."""


class TensorAffineType(AffineType, key="TensorAffineType"):
    """real = (integer - zero_point) * scale, per channel of ``axis`` if scale is a vector; axis -1 means per tensor.

    Parameters
    ----------
    scale : Expr
        The scale, a scalar or one value per channel.
    zero_point : Expr
        The integer that represents zero.
    dtype : str
        The type of the stored integers.
    axis : int, optional
        The channel dimension.
    """

    scale: Any
    zero_point: Any
    dtype: str
    axis: int = -1

    def __init__(self, scale: Any, zero_point: Any, dtype: str, axis: Any = -1, span: Span | None = None):
        self.scale = scale
        self.zero_point = zero_point
        self.dtype = canonical(dtype)
        self.axis = int(axis)
        self.span = span


class TupleAffineType(AffineType, key="TupleAffineType"):
    """The affine types of the fields of a tuple.

    Parameters
    ----------
    types : list of TensorAffineType
        The types.
    """

    types: tuple[Any, ...]


__all__ = ["AffineType", "TensorAffineType", "TupleAffineType"]
