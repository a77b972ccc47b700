"""Sparse constants: tensors that are stored as a tree of their dimensions, and their dense form."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....error import TVMError
from ..common.context import check_count
from .flatbuffer import Flatbuffer

# The tables that contain the numbers of a level, by the type of the union.
_VECTORS = ("", "Int32Vector", "Uint16Vector", "Uint8Vector")
_DENSE, _COMPRESSED = 0, 1


class Level(NamedTuple):
    """One level of the tree.

    In a dense level, each node has ``size`` children; in a compressed level, node i has the children
    ``indices[segments[i]:segments[i + 1]]``.
    """

    size: int
    segments: np.ndarray | None
    indices: np.ndarray | None


class Sparsity(NamedTuple):
    """The levels of a tensor in the order of the tree; ``order`` contains the dimension of each level.

    Dimensions after those of the tensor are positions within a block of the dimensions ``blocked``.
    """

    order: list[int]
    blocked: list[int]
    levels: list[Level]

    def dense(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return the dense array of the stored values."""
        check_count("the dense form of sparse weights", shape)
        rank = len(shape)
        nodes, columns = np.zeros(1, "int64"), []
        for level in self.levels:
            parents, nodes, index = _children(level, nodes, math.prod(shape))
            columns = [c[parents] for c in columns] + [index]
        if nodes.size and not 0 <= nodes.max() < values.size:
            raise TVMError(
                f"the levels of the sparse tensor refer to value {nodes.max()}, but there are only {values.size} values"
            )
        place = [np.zeros(nodes.size, "int64") for _ in range(rank)]
        for dimension, index in sorted(zip(self.order, columns), key=lambda pair: pair[0]):
            if dimension < rank:
                place[dimension] = index
            else:
                block = dimension - rank
                size = self.levels[self.order.index(dimension)].size
                place[self.blocked[block]] = place[self.blocked[block]] * size + index
        if any(p.size and not 0 <= p.min() <= p.max() < d for p, d in zip(place, shape)):
            raise TVMError(f"an index of the sparse tensor is out of range for its shape {shape}")
        out = np.zeros(shape, values.dtype)
        out[tuple(place)] = values[nodes]
        return out


def _children(level: Level, nodes: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for all children of the nodes, the positions of their parents in ``nodes``, their numbers and their
    indices.
    """
    if level.segments is None or level.indices is None:
        counts, starts = np.full(nodes.size, level.size), nodes * level.size
    else:
        if nodes.size and nodes.max() + 1 >= level.segments.size:
            raise TVMError("a level of the sparse tensor has too few segments")
        starts = level.segments[nodes]
        counts = level.segments[nodes + 1] - starts
    if counts.size and (counts.min() < 0 or counts.sum() > most):
        raise TVMError("a level of the sparse tensor has segments that are not valid ranges of its indices")
    parents = np.repeat(np.arange(nodes.size), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = starts[parents] + within
    if level.indices is None:
        return parents, numbers, within
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < level.indices.size:
        raise TVMError("the segments of a level of the sparse tensor exceed its indices")
    return parents, numbers, level.indices[numbers]


def read(found, shape: tuple[int, ...], buffer: Flatbuffer, name: str) -> Sparsity:
    """Read the sparsity of a tensor from its table in the file."""
    order, blocked = list(found.traversal_order or []), list(found.block_map or [])
    levels = [_level(row, buffer, name) for row in found.dim_metadata or []]
    count = len(shape) + len(blocked)
    if sorted(order) != list(range(count)) or len(levels) != count:
        raise TVMError(
            f"tensor '{name}' with {len(shape)} dimensions has {len(levels)} levels in the invalid order {order}"
        )
    if any(not 0 <= b < len(shape) for b in blocked):
        raise TVMError(f"tensor '{name}' has blocks of the dimensions {blocked}, but only {len(shape)} dimensions")
    if any(levels[order.index(len(shape) + i)].indices is not None for i in range(len(blocked))):
        raise TVMError(f"tensor '{name}' has sparse blocks, which are not supported")
    return Sparsity(order, blocked, levels)


def _level(row, buffer: Flatbuffer, name: str) -> Level:
    if row.format == _DENSE and row.dense_size >= 0:
        return Level(row.dense_size, None, None)
    if row.format != _COMPRESSED:
        raise TVMError(f"tensor '{name}' has a level with the invalid format {row.format} or size {row.dense_size}")
    parts = []
    for what in ("array_segments", "array_indices"):
        number, place = getattr(row, f"{what}_type"), getattr(row, what)
        if not 0 < number < len(_VECTORS) or place is None:
            raise TVMError(f"tensor '{name}' has a sparse level without {what}")
        parts.append(np.array(buffer.table(place, _VECTORS[number]).values or [], "int64"))
    return Level(0, *parts)


__all__ = ["Sparsity", "read"]
