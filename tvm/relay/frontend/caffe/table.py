"""The table of Caffe's converters and what a converter can ask.

A converter is ``f(ctx, inputs)``: inputs are expressions; parameters and weights are asked of ``ctx``. Parameters that
a converter did not ask for are refused by name, unless they only say how the network is trained.
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
# The field of a layer that has its parameters, by the type of layer.
PARAMETERS: dict[str, str] = {}


def layer(*names: str, param: str = "") -> Callable:
    """Register the converter of some types of layers, whose parameters are in the field ``param``."""
    PARAMETERS.update(dict.fromkeys(names, param))
    return CONVERTERS.op(*names, since=0)


class Parameters:
    """The parameters of a layer, which note what was asked for."""

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
            raise TVMError(f"{name} must be whole numbers, got {found}")
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
        """One of some words, which may be given as their numbers."""
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
            raise TVMError(f"{name} is {word[:40]}, which is no number to compute with")
        return found

    def check(self) -> None:
        """Refuse parameters that nobody asked for."""
        left = [k for k in self.message if k not in self.asked and k not in FOR_TRAINING]
        if left:
            raise TVMError(f"{left[0]} of {self.field} is not supported")


class Context(NodeContext):
    """The layer being converted."""

    __slots__ = ("layer", "p")

    importer: Importer

    def __init__(self, importer: Importer, record: Layer, where: str):
        super().__init__(importer, where)
        self.layer = record
        field = PARAMETERS[record.type]
        self.p = Parameters(record.message.merged(field) if field else Message(), field)

    def blob(self, number: int, what: str, *shape: int) -> np.ndarray:
        """Weights of the layer, in a shape; older files have ones in front of it."""
        blobs = self.layer.blobs
        if number >= len(blobs):
            raise TVMError(f"the {what} are missing: the file of weights has {len(blobs)} arrays for this layer")
        found = blobs[number]
        count = 1
        for size in shape:
            count *= size
        if count != found.size:
            raise TVMError(f"the {what} must have the shape {shape}, the file of weights has {found.shape}")
        return found.reshape(shape)

    def constant(self, array: np.ndarray) -> RelayExpr:
        return Constant(np.array(array, "float32", order="C"))

    def one(self, inputs: list[RelayExpr]) -> RelayExpr:
        """The only input of a layer."""
        if len(inputs) != 1:
            raise TVMError(f"one input is wanted, got {len(inputs)}")
        return inputs[0]


__all__ = ["CONVERTERS", "PARAMETERS", "Context", "Parameters", "layer"]
