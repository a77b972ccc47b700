"""Compute a dilated convolution as undilated convolutions of its phases.

Outputs whose coordinates are equal modulo the dilation read only data elements whose coordinates are equal modulo the
dilation. Each such phase is a separate image, and the phases together form a batch. Data and output have a blocked
layout (NCHW<c>c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...expr import RelayExpr
from ...op import transform
from ...op.nn import space


class Phases(NamedTuple):
    """The phases of one spatial dimension: the sizes of data and output, the leading padding, and the dilation, which
    is the number of phases."""

    size: int
    output_size: int
    padding: int
    count: int

    @property
    def front(self) -> int:
        """Number of zeros inserted before the data if the dilation does not divide its padding."""
        return self.padding if self.padding % self.count else 0

    @property
    def length(self) -> int:
        """Number of data elements in a phase; the last phases are padded with zeros."""
        return -(-(self.front + self.size) // self.count)

    @property
    def phase_outputs(self) -> int:
        """Number of outputs of a phase; the last phases may compute one output too many."""
        return -(-self.output_size // self.count)

    @property
    def before(self) -> int:
        """Number of padding elements before a phase."""
        return (self.padding - self.front) // self.count

    def after(self, taps: int) -> int:
        """Return the number of padding elements after a phase, for a window of ``taps`` elements."""
        return self.phase_outputs + taps - 1 - self.length - self.before


def split_phases(data: RelayExpr, shape: Sequence[int], sides: Sequence[Phases]) -> RelayExpr:
    """Move the phases of the data into the batch dimension. ``shape`` is the shape of the data."""
    if all(s.count == 1 for s in sides):
        return data
    n, c, _, _, block = shape
    (h, w), (rows, columns) = ([s.count for s in sides], [s.length for s in sides])
    ends = [(s.front, s.length * s.count - s.size - s.front) for s in sides]
    if any(any(end) for end in ends):
        data = space.pad(data, ((0, 0), (0, 0), *ends, (0, 0)))
    data = transform.reshape(data, (n, c, rows, h, columns, w, block))
    data = transform.transpose(data, (0, 3, 5, 1, 2, 4, 6))
    return transform.reshape(data, (n * h * w, c, rows, columns, block))


def merge_phases(result: RelayExpr, shape: Sequence[int], sides: Sequence[Phases]) -> RelayExpr:
    """Move the phases from the batch dimension back into the spatial dimensions. ``shape`` is the shape of the
    output."""
    if all(s.count == 1 for s in sides):
        return result
    n, c, height, width, block = shape
    (h, w), (rows, columns) = ([s.count for s in sides], [s.phase_outputs for s in sides])
    result = transform.reshape(result, (n, h, w, c, rows, columns, block))
    result = transform.transpose(result, (0, 3, 4, 1, 5, 2, 6))
    result = transform.reshape(result, (n, c, rows * h, columns * w, block))
    if (rows * h, columns * w) == (height, width):
        return result
    return transform.strided_slice(result, (0, 0), (height, width), axes=(2, 3))


__all__ = ["Phases", "merge_phases", "split_phases"]
