"""The table of ONNX converters and what a converter can ask.

A converter is ``f(ctx, inputs, attrs)``: inputs are expressions (None where left out), attrs a dictionary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....error import TVMError
from ....ir.prim import Any_, IntImm
from ....ir.tensor_type import TensorType
from ...expr import RelayExpr, const
from ...substitute import free_vars
from ..common import Converters
from .load import tensor_array
from .settle import tensor_type
from .small_types import SmallType

CONVERTERS = Converters("ONNX")
op = CONVERTERS.op


class Sequence(NamedTuple):
    """A value that is a sequence of tensors; see sequence_ops.py."""

    items: tuple


class Context:
    """The node being converted."""

    __slots__ = ("attributes", "importer", "inputs", "integers", "made_small", "node", "sums", "version", "where")

    def __init__(self, importer, node, version: int, where: str):
        self.importer = importer
        self.node = node
        self.version = version
        self.where = where
        self.attributes: dict[str, Any] = {}
        self.inputs: list = []
        # Set by converters whose first result is integers times a scale; see quantize.py.
        self.integers: Any = None
        # Set by converters whose first result is sums of whole numbers times a scale; see quantize.py.
        self.sums: Any = None
        # Set by converters whose results are of a type carried in bytes; see small_types.py.
        self.made_small: SmallType | None = None

    @property
    def opset(self) -> int:
        return self.version

    def type(self, e: RelayExpr) -> TensorType:
        """The type of an expression."""
        return tensor_type(self.importer.settler.typed(e))

    def shape(self, e: RelayExpr) -> tuple:
        """Sizes of an expression: integers, or expressions where unknown."""
        return tuple(d.value if isinstance(d, IntImm) else d for d in self.type(e).shape)

    def known_shape(self, e: RelayExpr) -> tuple[int, ...]:
        shape = self.shape(e)
        if any(not isinstance(d, int) for d in shape):
            text = ", ".join(str(d) for d in shape)
            raise TVMError(f"the shape ({text}) of an input must be known; give the model's input shapes")
        return shape

    def spatial(self, e: RelayExpr) -> tuple[int, ...]:
        """The sizes after batch and channels, which must be known; the batch need not be."""
        sizes = self.shape(e)[2:]
        return sizes if all(isinstance(d, int) for d in sizes) else self.known_shape(e)[2:]

    def rank(self, e: RelayExpr) -> int:
        return len(self.type(e).shape)

    def dtype(self, e: RelayExpr) -> str:
        return self.type(e).dtype

    def small(self, e: RelayExpr | None) -> SmallType | None:
        """The small type that the bytes of an expression carry, or None."""
        kept = self.importer.small.get(id(e))
        return kept[1] if kept else None

    def is_float(self, e: RelayExpr) -> bool:
        return self.dtype(e).startswith(("float", "bfloat"))

    def like(self, value, e: RelayExpr) -> RelayExpr:
        """A number as a constant of the element type of ``e``."""
        return const(value, self.dtype(e))

    def value(self, e: RelayExpr | None):
        """The array of an expression if it is known when compiling, otherwise None."""
        return None if e is None else self.importer.settler.array(e)

    def array(self, e: RelayExpr | None, what: str):
        """The value of an input that must be known when compiling; None stays None."""
        if e is None:
            return None
        found = self.importer.settler.array(e)
        if found is None:
            raise self.late(what, [e])
        return found

    def late(self, what: str, values: list) -> TVMError:
        """The error that a value is computed when the model runs, with what can be done about it."""
        inputs = {v.name_hint: v for e in values if e is not None for v in free_vars(e)}
        sized = [n for n, v in inputs.items() if any(isinstance(d, Any_) for d in tensor_type(v).shape)]
        text = f"{what} must be known when compiling; it is computed when the model runs"
        if sized:
            return TVMError(f"{text}, from sizes left open: give the shape of input {_listed(sized)}")
        return TVMError(f"{text}, from input {_listed(list(inputs))}: make that a constant of the model")

    def ints(self, e: RelayExpr | None, what: str) -> list[int] | None:
        array = self.array(e, what)
        return None if array is None else [int(v) for v in array.reshape(-1)]

    def tensor(self, proto):
        """The array of a tensor that is an attribute."""
        return tensor_array(proto, self.importer.folder)

    def declared(self, index: int = 0) -> tuple[int, ...] | None:
        """The shape that the model declares for an output, if it is known."""
        return self.importer.declared.get(self.node.output[index]) if self.wants(index) else None

    def wants(self, index: int) -> bool:
        """Whether the node's output of this number is used."""
        return len(self.node.output) > index and bool(self.node.output[index])

    def convert(self, name: str, *inputs: RelayExpr, **attrs: Any):
        """Another operator of the same operator set, as a part of this one."""
        converter = CONVERTERS.find(name, self.version)
        assert converter is not None, name
        return converter(self, list(inputs), attrs)


def _listed(names: list[str]) -> str:
    return " and ".join(f"'{n}'" for n in names[:3]) + (" and others" if len(names) > 3 else "")


def argument(inputs: list, index: int):
    """An optional input."""
    return inputs[index] if len(inputs) > index else None


# What is written out element by element (windows, neighbours, steps of a loop) has at most so many parts; a program of
# more could not be compiled.
MOST_STEPS = 4096


def check_steps(what: str, count: int) -> None:
    if count > MOST_STEPS:
        raise TVMError(f"{what} of {count} elements is not supported; at most {MOST_STEPS} are written out")


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise TVMError(f"there is no axis {axis} in a tensor of {rank} dimensions")
    return int(axis) % rank


def attribute_values(node) -> dict[str, Any]:
    """Attributes of a node as Python values."""
    return {a.name: _READERS[a.type](a) if a.type in _READERS else a for a in node.attribute}


# AttributeProto.type -> value; numbers of the ONNX format.
_READERS = {
    1: lambda a: a.f,
    2: lambda a: a.i,
    3: lambda a: a.s.decode("utf-8", "replace"),
    4: lambda a: a.t,
    5: lambda a: a.g,
    6: lambda a: list(a.floats),
    7: lambda a: list(a.ints),
    8: lambda a: [s.decode("utf-8", "replace") for s in a.strings],
    11: lambda a: a.sparse_tensor,
}
