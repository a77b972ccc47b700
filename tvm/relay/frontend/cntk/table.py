"""The table of CNTK converters and the context that converters use.

A converter is ``f(ctx, inputs, attrs)``: ``inputs`` are ``Tensor``, ``attrs`` the attributes of CNTK 2. It returns a
``Tensor``, or a list with one for each output. CNTK shapes have the fastest axis first; expressions have it last,
after the batch and the sequence.
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
    """An expression and the number of its leading dynamic axes: 0, 1 (batch) or 2 (batch and sequence)."""

    expr: RelayExpr
    lead: int


class Context(NodeContext):
    """The operator that is being converted."""

    __slots__ = ("node",)

    importer: Importer

    def __init__(self, importer: Importer, node: Node):
        super().__init__(importer, node.where)
        self.node = node

    def rank_of(self, t: Tensor) -> int:
        """Return the number of static axes."""
        return self.rank(t.expr) - t.lead

    def sizes(self, t: Tensor) -> tuple[int, ...]:
        """Return the static dimensions in the order of expressions."""
        found = self.shape(t.expr)[t.lead :]
        if any(not isinstance(d, int) for d in found):
            raise TVMError("the dimensions of a sample must be static; pass static input shapes for the model")
        return found

    def leading(self, t: Tensor) -> tuple:
        """Return the dynamic dimensions, which a reshape preserves."""
        found = self.shape(t.expr)[: t.lead]
        if sum(not isinstance(d, int) for d in found) > 1:
            raise TVMError(
                "the batch size and the sequence length cannot both be dynamic; pass input shapes for the model"
            )
        return tuple(d if isinstance(d, int) else -1 for d in found)

    def reshaped(self, t: Tensor, sizes) -> Tensor:
        """Reshape the static dimensions."""
        return self.tensor(relay.reshape(t.expr, (*self.leading(t), *sizes)), t.lead)

    def tensor(self, e, lead: int) -> Tensor:
        return Tensor(self.made(e), lead)

    def axis(self, t: Tensor, axis: Axis) -> int:
        """Return the expression's axis of a static CNTK axis."""
        rank = self.rank_of(t)
        index = axis.index + rank if axis.index < 0 else axis.index
        if not 0 <= index < rank:
            raise TVMError(f"axis {axis.index} is out of range for a sample of {rank} dimensions")
        return t.lead + rank - 1 - index

    def aligned(self, *tensors: Tensor) -> tuple[list[RelayExpr], int]:
        """Return expressions that broadcast against each other, and the number of dynamic axes of the output."""
        lead = max(t.lead for t in tensors)
        rank = max(self.rank_of(t) for t in tensors)
        out = []
        for t in tensors:
            missing = lead - t.lead + rank - self.rank_of(t)
            # Without a batch, broadcasting aligns the trailing axes, which is correct.
            out.append(self.made(relay.expand_dims(t.expr, t.lead, missing)) if t.lead and missing else t.expr)
        return out, lead


def is_sequence(axis: Axis) -> bool:
    """Return whether an axis is the sequence axis, which has a name and is ordered."""
    return axis.name != "" and axis.ordered


def is_all(axis: Axis) -> bool:
    """Return whether an axis represents all static axes."""
    return axis.name in (ALL_STATIC_AXES, ALL_AXES)


__all__ = ["ALL_AXES", "CONVERTERS", "Axis", "Context", "Tensor", "check_count", "is_all", "is_sequence", "op"]
