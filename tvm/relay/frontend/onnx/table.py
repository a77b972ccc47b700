"""The table of ONNX converters and what a converter can ask.

A converter is ``f(ctx, inputs, attrs)``: inputs are expressions (None where left out), attrs a dictionary.
"""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ....ir.prim import IntImm
from ....ir.tensor_type import TensorType
from ...expr import Constant, RelayExpr
from ...infer import infer_type
from ..common import Converters

CONVERTERS = Converters("ONNX")
op = CONVERTERS.op


class Context:
    """The node being converted."""

    def __init__(self, importer, node, opset: int, where: str):
        self.importer = importer
        self.node = node
        self.opset = opset
        self.where = where
        self.attributes = _attributes(node)

    def type(self, e: RelayExpr) -> TensorType:
        """The type of an input."""
        if e.checked_type_ is None:
            infer_type(e)
        if not isinstance(e.checked_type_, TensorType):
            raise TVMError(f"a tensor is wanted, got {e.checked_type_}")
        return e.checked_type_

    def shape(self, e: RelayExpr) -> tuple:
        """Sizes of an input: integers, or expressions where unknown."""
        return tuple(d.value if isinstance(d, IntImm) else d for d in self.type(e).shape)

    def known_shape(self, e: RelayExpr) -> tuple[int, ...]:
        shape = self.shape(e)
        if any(not isinstance(d, int) for d in shape):
            text = ", ".join(str(d) for d in shape)
            raise TVMError(f"the shape ({text}) of an input must be known; give the model's input shapes")
        return shape

    def rank(self, e: RelayExpr) -> int:
        return len(self.type(e).shape)

    def dtype(self, e: RelayExpr) -> str:
        return self.type(e).dtype

    def array(self, e: RelayExpr | None, what: str):
        """The value of an input that must be known when compiling; None stays None."""
        if e is None:
            return None
        if not isinstance(e, Constant):
            raise TVMError(f"{what} must be known when compiling; it is computed when the model runs")
        return e.data.numpy()

    def ints(self, e: RelayExpr | None, what: str) -> list[int] | None:
        array = self.array(e, what)
        return None if array is None else [int(v) for v in array.reshape(-1)]


def _attributes(node) -> dict[str, Any]:
    from onnx import AttributeProto

    out: dict[str, Any] = {}
    for a in node.attribute:
        kind = a.type
        if kind == AttributeProto.FLOAT:
            out[a.name] = a.f
        elif kind == AttributeProto.INT:
            out[a.name] = a.i
        elif kind == AttributeProto.STRING:
            out[a.name] = a.s.decode("utf-8")
        elif kind == AttributeProto.TENSOR:
            out[a.name] = a.t
        elif kind == AttributeProto.GRAPH:
            out[a.name] = a.g
        elif kind == AttributeProto.FLOATS:
            out[a.name] = list(a.floats)
        elif kind == AttributeProto.INTS:
            out[a.name] = list(a.ints)
        elif kind == AttributeProto.STRINGS:
            out[a.name] = [s.decode("utf-8") for s in a.strings]
        else:
            out[a.name] = a
    return out


from . import basic_ops, nn_ops  # noqa: E402, F401  (the families register themselves)
