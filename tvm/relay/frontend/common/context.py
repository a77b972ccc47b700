"""What a converter can ask about the expressions it is given."""

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

# What is written out element by element (windows, neighbours, steps of a loop) has at most so many parts; a program of
# more could not be compiled.
MOST_STEPS = 4096
# Tables that an importer computes have at most this many elements: places of elements, dense forms of sparse weights.
# More of them say that a number in the model is wrong, and would only fill the memory.
MOST_ELEMENTS = 1 << 28


class NodeContext:
    """The node being converted. ``where`` is how errors name it."""

    __slots__ = ("importer", "where")

    def __init__(self, importer: GraphImporter, where: str):
        self.importer = importer
        self.where = where

    def type(self, e: RelayExpr) -> TensorType:
        """The type of an expression."""
        return tensor_type(self.importer.typer.typed(e))

    def shape(self, e: RelayExpr) -> tuple:
        """Sizes of an expression: integers, or expressions where unknown."""
        return tuple(d.value if isinstance(d, IntImm) else d for d in self.type(e).shape)

    def known_shape(self, e: RelayExpr) -> tuple[int, ...]:
        return self._known(e, self.shape(e))

    def known_size(self, e: RelayExpr, axis: int) -> int:
        """One size, which must be known; the others need not be."""
        return self._known(e, (self.shape(e)[axis],))[0]

    def spatial(self, e: RelayExpr) -> tuple[int, ...]:
        """The sizes after batch and channels, which must be known; the batch need not be."""
        return self._known(e, self.shape(e)[2:])

    def _known(self, e: RelayExpr, sizes: tuple) -> tuple[int, ...]:
        if any(not isinstance(d, int) for d in sizes):
            text = ", ".join(str(d) for d in self.shape(e))
            raise TVMError(f"the shape ({text}) of an input must be known; give the model's input shapes")
        return sizes

    def rank(self, e: RelayExpr) -> int:
        return len(self.type(e).shape)

    def dtype(self, e: RelayExpr) -> str:
        return self.type(e).dtype

    def is_float(self, e: RelayExpr) -> bool:
        return self.dtype(e).startswith(("float", "bfloat"))

    def like(self, value, e: RelayExpr) -> RelayExpr:
        """A number as a constant of the element type of ``e``."""
        return const(value, self.dtype(e))

    def made(self, e: RelayExpr) -> RelayExpr:
        """A part of what a converter builds, with its type; of small constants it is a constant."""
        return self.importer.typer.infer(e)

    def value(self, e: RelayExpr | None):
        """The array of an expression if it is known when compiling, otherwise None."""
        return None if e is None else self.importer.typer.array(e)

    def array(self, e: RelayExpr | None, what: str):
        """The value of an input that must be known when compiling; None stays None."""
        if e is None:
            return None
        found = self.importer.typer.array(e)
        if found is None:
            raise self.late(what, [e])
        return found

    def late(self, what: str, values: list) -> TVMError:
        """The error that a value is computed when the model runs, with what can be done about it."""
        inputs = {v.name_hint: v for e in values if e is not None for v in free_vars(e)}
        sized = [n for n, v in inputs.items() if any(not isinstance(d, IntImm) for d in tensor_type(v).shape)]
        text = f"{what} must be known when compiling; it is computed when the model runs"
        if sized:
            return TVMError(f"{text}, from sizes left open: give the shape of input {_listed(sized)}")
        return TVMError(f"{text}, from input {_listed(list(inputs))}: make that a constant of the model")

    def is_late(self, *values: RelayExpr | None) -> bool:
        """Whether one of the values is computed when the model runs."""
        return any(e is not None and self.value(e) is None for e in values)

    def length(self, e: RelayExpr, what: str) -> int:
        """How many numbers a vector has, which says how many dimensions a result has."""
        sizes = self.shape(e)
        if len(sizes) > 1 or any(not isinstance(d, int) for d in sizes):
            text = ", ".join(str(d) for d in sizes)
            raise TVMError(f"{what}: a vector of a known number of elements is wanted, which says how many dimensions "
                           f"the result has; its shape is ({text})")  # fmt: skip
        return math.prod(sizes)

    def numbers(self, e: RelayExpr) -> list:
        """The elements of a short vector of integers as far as they follow from sizes: a number, an expression over the
        open sizes of inputs, or None."""
        found = self.importer.typer.sizes.of(self.importer.typer.typed(e))
        return [None] * math.prod(self.known_shape(e)) if found is None else list(found.reshape(-1))

    def ints(self, e: RelayExpr | None, what: str) -> list[int] | None:
        array = self.array(e, what)
        return None if array is None else [int(v) for v in array.reshape(-1)]


def _listed(names: list[str]) -> str:
    return " and ".join(f"'{n}'" for n in names[:3]) + (" and others" if len(names) > 3 else "")


def check_steps(what: str, count: int) -> None:
    if count > MOST_STEPS:
        raise TVMError(f"{what} of {count} elements is not supported; at most {MOST_STEPS} are written out")


def check_count(what: str, dims) -> None:
    """Refuse a table of more elements than the importer makes."""
    count = math.prod(int(d) for d in dims)
    if count > MOST_ELEMENTS or any(d < 0 for d in dims):
        shown = " x ".join(str(int(d)) for d in dims)
        raise TVMError(f"{what} would have {shown} elements; at most {MOST_ELEMENTS} are computed when compiling")


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise TVMError(f"there is no axis {axis} in a tensor of {rank} dimensions")
    return int(axis) % rank


__all__ = ["MOST_STEPS", "NodeContext", "axis_of", "check_count", "check_steps"]
