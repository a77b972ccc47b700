"""The table of DarkNet converters and the context that converters use.

A converter is ``f(ctx, x)``, where ``x`` is the output of the previous layer; ``ctx`` provides the options of the
section and the weights.
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
# DarkNet adds this to a variance to avoid a division by zero.
EPSILON = 1e-6


class Context(NodeContext):
    """The layer that is being converted."""

    __slots__ = ("section",)

    importer: Importer

    def __init__(self, importer: Importer, section: Section, where: str):
        super().__init__(importer, where)
        self.section = section

    def positive(self, option: str, default: int) -> int:
        """Return an option that must be a positive integer."""
        found = self.section.int(option, default)
        if found < 1:
            raise TVMError(f"{option}={found} is not supported; it must be at least 1")
        return found

    def flag(self, option: str) -> bool:
        return bool(self.section.int(option, 0))

    def take(self, what: str, *shape: int) -> np.ndarray:
        """Consume floats of the weights file, which are stored in layer order."""
        return self.importer.weights.take(what, *shape)

    def constant(self, array: np.ndarray) -> RelayExpr:
        """Return weights as a constant in the element type of the network."""
        return Constant(np.ascontiguousarray(array.astype(self.importer.dtype)))

    def before(self, number: int, option: str) -> RelayExpr:
        """Return the output of another layer. A negative number is relative to this layer."""
        at = self.section.number + number if number < 0 else number
        if not 0 <= at < self.section.number:
            raise TVMError(f"{option}={number} does not refer to a layer before this one (layer {self.section.number})")
        return self.importer.results[at]

    def image(self, x: RelayExpr) -> tuple[int, ...]:
        """Return batch, channels, height and width of a tensor that must have four dimensions."""
        shape = self.known_shape(x)
        if len(shape) != 4:
            raise TVMError(f"expected an image with channels, height and width, got a tensor of shape {shape}")
        return shape


class Normalization:
    """The scales and statistics of a batch normalization, folded into one factor and one offset for each channel."""

    def __init__(self, ctx: Context, channels: int):
        scales, mean, variance = (
            ctx.take(what, channels).astype("float64") for what in ("scales", "means", "variances")
        )
        if (variance < 0).any() or not np.isfinite(variance).all():
            raise TVMError("a variance is negative or not finite: the weights file belongs to another configuration")
        self.factor = scales / np.sqrt(variance + EPSILON)
        self.addend = -mean * self.factor


__all__ = ["CONVERTERS", "Context", "Normalization", "layer"]
