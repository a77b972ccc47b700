"""Memory offsets of the elements of a tensor after reshapes, transposes and slices, computed from shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple


class Piece(NamedTuple):
    """A part of a dimension: ``size`` positions, ``stride`` elements apart in memory."""

    size: int
    stride: int


class StridedView(NamedTuple):
    """The pieces of each dimension, outermost first, and the offset of the first element."""

    dims: tuple[tuple[Piece, ...], ...]
    offset: int = 0

    @staticmethod
    def of_shape(shape: Sequence[int]) -> StridedView:
        return StridedView(tuple((Piece(size, prod(shape[i + 1 :])),) for i, size in enumerate(shape)))

    def transposed(self, axes: Iterable[int]) -> StridedView:
        return self._replace(dims=tuple(self.dims[axis] for axis in axes))

    def reshaped(self, shape: Sequence[int]) -> StridedView | None:
        """Return the view with a new shape, or None if a new dimension is neither a number of whole pieces nor a
        divisor of one."""
        left = list(joined(piece for dim in self.dims for piece in dim))
        dims = []
        for size in reversed(shape):
            dim: list[Piece] = []
            while size > 1:
                piece = left.pop()
                taken = min(piece.size, size)
                if piece.size % taken or size % taken:
                    return None
                dim.insert(0, Piece(taken, piece.stride))
                if piece.size > taken:
                    left.append(Piece(piece.size // taken, piece.stride * taken))
                size //= taken
            dims.insert(0, tuple(dim))
        return self._replace(dims=tuple(dims))

    def sliced(self, bounds: Sequence[tuple[int, int, int]]) -> StridedView | None:
        """Return the view of a slice, given (first index, number of indices, stride) for each dimension, or None if it
        cuts a dimension with several pieces."""
        dims, offset = [], self.offset
        for dim, (first, count, step) in zip(self.dims, bounds):
            pieces = joined(dim)
            if count != prod(piece.size for piece in dim) or step < 0 and count > 1:
                if len(pieces) != 1:
                    return None
                offset += first * pieces[0].stride
                pieces = (Piece(count, pieces[0].stride * step),)
            dims.append(pieces)
        return StridedView(tuple(dims), offset)

    def has_vectors(self, along: Sequence[int], lanes: int) -> bool:
        """Return whether groups of ``lanes`` elements along these dimensions, read as one, are contiguous and
        aligned."""
        inner = joined(piece for axis in along for piece in self.dims[axis])
        if not inner or inner[-1].stride != 1 or inner[-1].size % lanes:
            return False
        others = [*inner[:-1], *(p for axis, dim in enumerate(self.dims) if axis not in along for p in joined(dim))]
        return self.offset % lanes == 0 and all(piece.stride % lanes == 0 for piece in others)


def joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Return the pieces without those of size 1, with contiguous neighbours merged."""
    out: list[Piece] = []
    for piece in pieces:
        if piece.size == 1:
            continue
        if out and out[-1].stride == piece.size * piece.stride:
            piece = Piece(out.pop().size * piece.size, piece.stride)
        out.append(piece)
    return tuple(out)
