"""The table of Caffe2 converters and the context that converters use.

A converter is ``f(ctx, inputs, args)``: ``inputs`` are expressions, ``args`` the arguments of the operator that the
file sets, by name. It returns an expression, or a list with one expression for each output.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.context import NodeContext, axis_of, check_count, check_steps
from ..common.converters import Converters
from .load import Operator

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("Caffe2")
op = partial(CONVERTERS.op, since=0)


class Context(NodeContext):
    """The operator that is being converted."""

    __slots__ = ("marks", "operator")

    importer: Importer

    def __init__(self, importer: Importer, operator: Operator):
        super().__init__(importer, operator.where)
        self.operator = operator
        # The masks of valid rows by output index. An output without a mask has only valid rows.
        self.marks: dict[int, RelayExpr] = {}

    def real(self, i: int) -> RelayExpr:
        """Return the mask of valid rows of an input.

        Region operators pad their outputs to the maximum number of rows.
        """
        found = self.importer.real.get(self.operator.inputs[i])
        if found is not None:
            return found
        return const(np.ones(self.known_shape(self.importer.value(self.operator.inputs[i], ""))[:1], "bool"))

    def wants(self, output: int) -> bool:
        """Return whether the file names the output with this index."""
        return output < len(self.operator.outputs)

    def channels_last(self, args: dict[str, Any]) -> bool:
        """Return whether the channels are the last axis (``order`` is NHWC)."""
        order = args.get("order", b"NCHW")
        if order not in (b"NCHW", b"NHWC"):
            raise TVMError(f"order {order!r} is not supported; it must be NCHW or NHWC")
        return order == b"NHWC"

    def channel(self, e: RelayExpr, args: dict[str, Any]) -> int:
        """Return the index of the channel axis."""
        rank = self.rank(e)
        if rank < 2:
            raise TVMError(f"a tensor of {rank} dimensions has no channel axis")
        return rank - 1 if self.channels_last(args) else 1

    def along(self, vector: RelayExpr, axis: int, like: RelayExpr) -> RelayExpr:
        """Reshape a vector to broadcast along an axis of another tensor."""
        return relay.reshape(vector, [-1 if i == axis else 1 for i in range(self.rank(like))])


def numbers(args: dict[str, Any], name: str, default=None) -> list[int]:
    """Return an argument that is a list of integers."""
    found = args.get(name, default)
    if not isinstance(found, list) or any(not isinstance(v, int) for v in found):
        raise TVMError(f"the argument {name} must be a list of integers, got {found!r}")
    return found


__all__ = ["CONVERTERS", "Context", "axis_of", "check_count", "check_steps", "numbers", "op"]
