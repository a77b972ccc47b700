"""The interface of converters to the node that is being converted and to its operands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ....error import TVMError
from ....ir.prim import IntImm
from ....ir.tensor_type import TensorType
from ...expr import RelayExpr, const
from ...substitute import free_vars
from .incremental import tensor_type

if TYPE_CHECKING:
    from .importer import GraphImporter

# Maximum number of unrolled elements (window elements, loop iterations): larger programs take too long to compile.
MOST_STEPS = 4096
# Maximum number of elements of tables that an importer computes, such as indices and dense forms of sparse weights. A
# larger table indicates an invalid number in the model, and would exhaust the memory.
MOST_ELEMENTS = 1 << 28


class NodeContext:
    """The node that is being converted. ``where`` identifies the node in error messages."""

    __slots__ = ("importer", "where")

    def __init__(self, importer: GraphImporter, where: str):
        self.importer = importer
        self.where = where

    def type(self, e: RelayExpr) -> TensorType:
        """Return the type of an expression."""
        return tensor_type(self.importer.typer.typed(e))

    def shape(self, e: RelayExpr) -> tuple:
        """Return the dimensions of an expression: integers, or expressions for dynamic dimensions."""
        return tuple(d.value if isinstance(d, IntImm) else d for d in self.type(e).shape)

    def known_shape(self, e: RelayExpr) -> tuple[int, ...]:
        return self._known(e, self.shape(e))

    def known_size(self, e: RelayExpr, axis: int) -> int:
        """Return one dimension, which must be static; the others can be dynamic."""
        return self._known(e, (self.shape(e)[axis],))[0]

    def spatial(self, e: RelayExpr) -> tuple[int, ...]:
        """Return the dimensions after batch and channels, which must be static; the batch dimension can be dynamic."""
        return self._known(e, self.shape(e)[2:])

    def _known(self, e: RelayExpr, sizes: tuple) -> tuple[int, ...]:
        if any(not isinstance(d, int) for d in sizes):
            text = ", ".join(str(d) for d in self.shape(e))
            raise TVMError(f"the shape ({text}) of an input must be static; pass the input shapes to the importer")
        return sizes

    def rank(self, e: RelayExpr) -> int:
        return len(self.type(e).shape)

    def dtype(self, e: RelayExpr) -> str:
        return self.type(e).dtype

    def is_float(self, e: RelayExpr) -> bool:
        return self.dtype(e).startswith(("float", "bfloat"))

    def like(self, value, e: RelayExpr) -> RelayExpr:
        """Return a number as a constant of the element type of ``e``."""
        return const(value, self.dtype(e))

    def made(self, e: RelayExpr) -> RelayExpr:
        """Infer the type of an expression that a converter has built; small constant expressions are folded."""
        return self.importer.typer.infer(e)

    def value(self, e: RelayExpr | None):
        """Return the array of an expression that is constant at compile time, otherwise None."""
        return None if e is None else self.importer.typer.array(e)

    def array(self, e: RelayExpr | None, what: str):
        """Return the value of an input that must be constant at compile time; None for an omitted input."""
        if e is None:
            return None
        found = self.importer.typer.array(e)
        if found is None:
            raise self.not_constant(what, [e])
        return found

    def not_constant(self, what: str, values: list) -> TVMError:
        """Return the error that a value must be constant but is computed at run time, with the input that causes it."""
        inputs = {v.name_hint: v for e in values if e is not None for v in free_vars(e)}
        sized = [n for n, v in inputs.items() if any(not isinstance(d, IntImm) for d in tensor_type(v).shape)]
        text = f"{what} must be constant at compile time, but depends on"
        if sized:
            return TVMError(f"{text} dynamic dimensions; pass the shape of input {_listed(sized)} to the importer")
        return TVMError(f"{text} input {_listed(list(inputs))}; make it a constant in the model")

    def is_run_time_value(self, *values: RelayExpr | None) -> bool:
        """Return whether one of the values is computed at run time."""
        return any(e is not None and self.value(e) is None for e in values)

    def length(self, e: RelayExpr, what: str) -> int:
        """Return the static number of elements of a vector, which determines the rank of an output."""
        sizes = self.shape(e)
        if len(sizes) > 1 or any(not isinstance(d, int) for d in sizes):
            text = ", ".join(str(d) for d in sizes)
            raise TVMError(f"{what} must be a vector with a static number of elements, which determines the rank of "
                           f"the output; its shape is ({text})")  # fmt: skip
        return math.prod(sizes)

    def numbers(self, e: RelayExpr) -> list:
        """Return the elements of a small integer vector that follow from shapes.

        Each element is an integer, an expression over the dynamic dimensions of the inputs, or None if it is unknown.
        """
        found = self.importer.typer.sizes.of(self.importer.typer.typed(e))
        return [None] * math.prod(self.known_shape(e)) if found is None else list(found.reshape(-1))

    def ints(self, e: RelayExpr | None, what: str) -> list[int] | None:
        array = self.array(e, what)
        return None if array is None else [int(v) for v in array.reshape(-1)]


def _listed(names: list[str]) -> str:
    return " and ".join(f"'{n}'" for n in names[:3]) + (" and others" if len(names) > 3 else "")


def check_steps(what: str, count: int) -> None:
    if count > MOST_STEPS:
        raise TVMError(f"{what} of {count} elements is not supported; the maximum is {MOST_STEPS}")


def check_count(what: str, dims) -> None:
    """Reject a table with more elements than the importer computes, or with a negative dimension."""
    count = math.prod(int(d) for d in dims)
    if count > MOST_ELEMENTS or any(d < 0 for d in dims):
        shown = " x ".join(str(int(d)) for d in dims)
        raise TVMError(f"{what} would have {shown} elements; the maximum at compile time is {MOST_ELEMENTS}")


def axis_of(axis: int, rank: int) -> int:
    """Return a non-negative axis; negative axes count from the end."""
    if not -rank <= axis < rank:
        raise TVMError(f"axis {axis} is out of range for a tensor with {rank} dimensions")
    return int(axis) % rank


__all__ = ["MOST_STEPS", "NodeContext", "axis_of", "check_count", "check_steps"]
