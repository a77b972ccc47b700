"""The table of DarkNet's converters and what a converter can ask.

A converter is ``f(ctx, x)`` with the result of the layer before; the options of the section and the weights it takes
are asked of ``ctx``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ....error import TVMError
from ...expr import Constant, RelayExpr
from ..common.context import NodeContext
from ..common.converters import Converters
from .load import Section

if TYPE_CHECKING:
    from .reader import Importer

CONVERTERS = Converters("DarkNet")
layer = partial(CONVERTERS.op, since=0)
# What DarkNet adds to a variance before its root, so that it does not divide by zero.
EPSILON = 1e-6


class Context(NodeContext):
    """The layer being converted."""

    __slots__ = ("section",)

    importer: Importer

    def __init__(self, importer: Importer, section: Section, where: str):
        super().__init__(importer, where)
        self.section = section

    def positive(self, option: str, default: int) -> int:
        """An option that is a whole number above zero."""
        found = self.section.int(option, default)
        if found < 1:
            raise TVMError(f"{option}={found} is not supported; it must be at least 1")
        return found

    def flag(self, option: str) -> bool:
        return bool(self.section.int(option, 0))

    def take(self, what: str, *shape: int) -> np.ndarray:
        """Numbers of the file of weights, which come in the order of the layers."""
        return self.importer.weights.take(what, *shape)

    def constant(self, array: np.ndarray) -> RelayExpr:
        """Weights in the element type of the network."""
        return Constant(np.ascontiguousarray(array.astype(self.importer.dtype)))

    def before(self, number: int, option: str) -> RelayExpr:
        """The result of another layer: counted from here where negative, otherwise from the first."""
        at = self.section.number + number if number < 0 else number
        if not 0 <= at < self.section.number:
            raise TVMError(f"{option}={number} names no layer before this one, which is number {self.section.number}")
        return self.importer.results[at]

    def image(self, x: RelayExpr) -> tuple[int, ...]:
        """Batch, channels, height and width of a value that must have them."""
        shape = self.known_shape(x)
        if len(shape) != 4:
            raise TVMError(f"an image with channels, height and width is wanted, got a value of shape {shape}")
        return shape


class Normalization:
    """The scales and statistics of a batch normalization, as one factor and one addend for each channel."""

    def __init__(self, ctx: Context, channels: int):
        scales, mean, variance = (ctx.take(what, channels).astype("float64")
                                  for what in ("scales", "means", "variances"))
        if (variance < 0).any() or not np.isfinite(variance).all():
            raise TVMError("a variance is negative or no number: the file of weights belongs to another configuration")
        self.factor = scales / np.sqrt(variance + EPSILON)
        self.addend = -mean * self.factor


__all__ = ["CONVERTERS", "Context", "Normalization", "layer"]
