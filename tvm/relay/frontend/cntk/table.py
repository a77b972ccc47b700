"""The table of CNTK converters and what a converter can ask.

A converter is ``f(ctx, inputs, attrs)``: inputs are ``Tensor``, attrs the attributes of the second format. It returns a
``Tensor``, or a list with one for each output. Shapes of CNTK have the fastest axis first; those of expressions have it
last, behind the batch and the sequence.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.context import NodeContext, check_count
from ..common.converters import Converters
from .dictionary import ALL_AXES, ALL_STATIC_AXES, Axis
from .load import Node

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("CNTK")
op = partial(CONVERTERS.op, since=0)


class Tensor(NamedTuple):
    """An expression; ``lead`` counts its dynamic axes, which come first: none, a batch, or a batch and a sequence."""

    expr: RelayExpr
    lead: int


class Context(NodeContext):
    """The operator being converted."""

    __slots__ = ("node",)

    importer: Importer

    def __init__(self, importer: Importer, node: Node):
        super().__init__(importer, node.where)
        self.node = node

    def rank_of(self, t: Tensor) -> int:
        """How many static axes a tensor has."""
        return self.rank(t.expr) - t.lead

    def sizes(self, t: Tensor) -> tuple[int, ...]:
        """The static sizes, as expressions have them."""
        found = self.shape(t.expr)[t.lead :]
        if any(not isinstance(d, int) for d in found):
            raise TVMError("the sizes of a sample must be known; give the model's input shapes")
        return found

    def leading(self, t: Tensor) -> tuple:
        """The dynamic sizes, which reshaping keeps."""
        found = self.shape(t.expr)[: t.lead]
        if sum(not isinstance(d, int) for d in found) > 1:
            raise TVMError("a batch and a sequence cannot both be open; give the model's input shapes")
        return tuple(d if isinstance(d, int) else -1 for d in found)

    def reshaped(self, t: Tensor, sizes) -> Tensor:
        """A tensor with other static sizes."""
        return self.tensor(relay.reshape(t.expr, (*self.leading(t), *sizes)), t.lead)

    def tensor(self, e, lead: int) -> Tensor:
        return Tensor(self.made(e), lead)

    def axis(self, t: Tensor, axis: Axis) -> int:
        """The axis of the expression for a static one of CNTK."""
        rank = self.rank_of(t)
        index = axis.index + rank if axis.index < 0 else axis.index
        if not 0 <= index < rank:
            raise TVMError(f"there is no axis {axis.index} in a sample of {rank} dimensions")
        return t.lead + rank - 1 - index

    def aligned(self, *tensors: Tensor) -> tuple[list[RelayExpr], int]:
        """Expressions that broadcast against each other, and how many dynamic axes the result has."""
        lead = max(t.lead for t in tensors)
        rank = max(self.rank_of(t) for t in tensors)
        out = []
        for t in tensors:
            missing = lead - t.lead + rank - self.rank_of(t)
            # Without a batch the last axes meet, as it should be.
            out.append(self.made(relay.expand_dims(t.expr, t.lead, missing)) if t.lead and missing else t.expr)
        return out, lead


def is_sequence(axis: Axis) -> bool:
    """Whether an axis is the one of the sequence, which has a name and an order."""
    return axis.name != "" and axis.ordered


def is_all(axis: Axis) -> bool:
    """Whether an axis stands for all static ones."""
    return axis.name in (ALL_STATIC_AXES, ALL_AXES)


__all__ = ["ALL_AXES", "CONVERTERS", "Axis", "Context", "Tensor", "check_count", "is_all", "is_sequence", "op"]
