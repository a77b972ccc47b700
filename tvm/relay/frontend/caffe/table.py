"""The table of Caffe converters and the context that converters use.

A converter is ``f(ctx, inputs)``: ``inputs`` are expressions, and ``ctx`` provides parameters and weights. A parameter
that the converter did not read is an error, unless it only affects training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ....error import TVMError
from ...expr import Constant, RelayExpr
from ..common.context import NodeContext
from ..common.converters import Converters
from .load import Layer
from .prototxt import Message
from .schema import FOR_TRAINING

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("Caffe")
# The name of the message field with a layer's parameters, by layer type.
PARAMETERS: dict[str, str] = {}


def layer(*names: str, param: str = "") -> Callable:
    """Register a converter for some layer types, whose parameters are in the message field ``param``."""
    PARAMETERS.update(dict.fromkeys(names, param))
    return CONVERTERS.op(*names, since=0)


class Parameters:
    """The parameters of a layer. It records which parameters were read."""

    def __init__(self, message: Message, field: str):
        self.message, self.field = message, field
        self.asked: set[str] = set()

    def has(self, name: str) -> bool:
        self.asked.add(name)
        return name in self.message

    def text(self, name: str, default: str) -> str:
        self.asked.add(name)
        return self.message.word(name, default)

    def floats(self, name: str) -> list[float]:
        self.asked.add(name)
        return [self._number(name, word) for word in self.message.words(name)]

    def float(self, name: str, default: float) -> float:
        found = self.floats(name)
        return found[-1] if found else default

    def ints(self, name: str) -> list[int]:
        found = self.floats(name)
        if any(v != int(v) for v in found):
            raise TVMError(f"{name} must be an integer, got {found}")
        return [int(v) for v in found]

    def int(self, name: str, default: int) -> int:
        found = self.ints(name)
        return found[-1] if found else default

    def bool(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false", "1", "0", "t", "f"):
            raise TVMError(f"{name} must be true or false, got {text}")
        return text in ("true", "1", "t")

    def choice(self, name: str, names: dict[str, str], default: str) -> str:
        """Return the value of an enum, which the file may give by name or by number."""
        text = self.text(name, default)
        found = names.get(text, text)
        if found not in names.values():
            raise TVMError(f"{name} must be one of {', '.join(names.values())}, got {text}")
        return found

    def inner(self, name: str) -> Parameters:
        self.asked.add(name)
        return Parameters(self.message.merged(name), name)

    def _number(self, name: str, word: str) -> float:
        try:
            found = float(word.rstrip("fF") if not word.startswith("0x") else int(word, 16))
        except ValueError:
            raise TVMError(f"{name} must be a number, got {word[:40]}") from None
        if not -(2.0**63) <= found <= 2.0**63:
            raise TVMError(f"{name} is {word[:40]}, which is out of range or not a number")
        return found

    def check(self) -> None:
        """Report an error for parameters that the converter did not read."""
        left = [k for k in self.message if k not in self.asked and k not in FOR_TRAINING]
        if left:
            raise TVMError(f"parameter {left[0]} of {self.field} is not supported")


class Context(NodeContext):
    """The layer that is being converted."""

    __slots__ = ("layer", "p")

    importer: Importer

    def __init__(self, importer: Importer, record: Layer, where: str):
        super().__init__(importer, where)
        self.layer = record
        field = PARAMETERS[record.type]
        self.p = Parameters(record.message.merged(field) if field else Message(), field)

    def blob(self, number: int, what: str, *shape: int) -> np.ndarray:
        """Return weights of the layer, reshaped to ``shape``. Older files store them with leading dimensions of 1."""
        blobs = self.layer.blobs
        if number >= len(blobs):
            raise TVMError(f"the {what} are missing: the weights file has {len(blobs)} arrays for this layer")
        found = blobs[number]
        count = 1
        for size in shape:
            count *= size
        if count != found.size:
            raise TVMError(f"the {what} must have shape {shape}, but the weights file has {found.shape}")
        return found.reshape(shape)

    def constant(self, array: np.ndarray) -> RelayExpr:
        return Constant(np.array(array, "float32", order="C"))

    def one(self, inputs: list[RelayExpr]) -> RelayExpr:
        """Return the only input of a layer."""
        if len(inputs) != 1:
            raise TVMError(f"expected 1 input, got {len(inputs)}")
        return inputs[0]


__all__ = ["CONVERTERS", "PARAMETERS", "Context", "Parameters", "layer"]
