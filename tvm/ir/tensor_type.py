"""The type of a tensor."""

from __future__ import annotations

from ..dtype import canonical
from .prim import IntImm, PrimExpr, const, convert
from .type import Type


class TensorType(Type, key="relay.TensorType"):
    """A shape (expressions; ``Any`` where unknown) and an element type."""

    shape: tuple[PrimExpr, ...]
    dtype: str = "float32"

    def __init__(self, shape, dtype="float32", span=None):
        if isinstance(shape, (int, PrimExpr)):
            shape = (shape,)
        self.shape = tuple([convert(s) for s in shape])
        self.dtype = canonical(dtype)
        self.span = span

    def _content(self):
        return self.dtype, tuple([s.value if isinstance(s, IntImm) else s for s in self.shape])

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as integers; a symbolic size is refused."""
        for size in self.shape:
            if not isinstance(size, IntImm):
                raise ValueError(f"the shape {list(self.shape)} has a size that is not a number: {size}")
        return tuple([s.value for s in self.shape])

    @property
    def size(self) -> PrimExpr:
        """The number of elements."""
        total = const(1, "int32")
        for size in self.shape:
            total = total * size
        return total


__all__ = ["TensorType"]
