"""The type of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..dtype import canonical
from .prim import Any_, IntImm, PrimExpr, Var, const, convert
from .structural import structural_equal, structural_hash
from .type import Type
from .visit import post_order

if TYPE_CHECKING:
    from .span import Span


class _Size:
    """A computed or unknown dimension in type comparisons, which equals dimensions with the same expression."""

    __slots__ = ("expr",)

    def __init__(self, expr: PrimExpr):
        self.expr = expr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Size) and structural_equal(self.expr, other.expr)

    def __hash__(self) -> int:
        return structural_hash(self.expr)


def _comparable(size: PrimExpr) -> object:
    return size.value if isinstance(size, IntImm) else size if isinstance(size, Var) else _Size(size)


# Dimensions without unknown parts, which the types of a program share.
_KNOWN: WeakValueDictionary[int, PrimExpr] = WeakValueDictionary()


def _size(given: Any) -> PrimExpr:
    """Convert a dimension of a shape; one that is computed from a dynamic dimension is dynamic."""
    size = convert(given)
    if isinstance(size, (IntImm, Var, Any_)) or _KNOWN.get(id(size)) is size:
        return size
    if any(isinstance(e, Any_) for e in post_order(size)):
        return Any_()
    _KNOWN[id(size)] = size
    return size


class TensorType(Type, key="relay.TensorType"):
    """The type of a tensor: a shape (expressions; ``Any`` for unknown dimensions) and an element type.

    Parameters
    ----------
    shape : tuple of int or PrimExpr
        The size of each dimension.
    dtype : str, optional
        The element type.
    """

    # Dimensions are compared by value, regardless of their integer types.
    _compared = "shape=_sizes dtype"

    shape: tuple[PrimExpr, ...]
    dtype: str = "float32"

    def __init__(self, shape: Any, dtype: str = "float32", span: Span | None = None):
        if isinstance(shape, (int, PrimExpr)):
            shape = (shape,)
        self.shape = tuple([_size(s) for s in shape])
        self.dtype = canonical(dtype)
        self.span = span

    def _content(self):
        return self.dtype, tuple([_comparable(s) for s in self.shape])

    @property
    def _sizes(self) -> tuple[PrimExpr | int, ...]:
        return tuple([s.value if isinstance(s, IntImm) else s for s in self.shape])

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """Return the shape as integers; raise an error for a symbolic dimension."""
        for size in self.shape:
            if not isinstance(size, IntImm):
                raise ValueError(f"the shape {list(self.shape)} has a dimension that is not constant: {size}")
        return tuple([s.value for s in self.shape])

    @property
    def size(self) -> PrimExpr:
        """The number of elements."""
        total = const(1, "int32")
        for size in self.shape:
            total = total * size
        return total


__all__ = ["TensorType"]
