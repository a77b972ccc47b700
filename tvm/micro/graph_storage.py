"""The storage of the values of a graph: sizes and data types of its blocks, from the graph as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..dtype import info


class Entry(NamedTuple):
    """A value of a graph: its storage block, its position in the block, its shape and its data type."""

    block: int
    offset: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * info(self.dtype).bytes


def entries_of(graph: Mapping[str, Any]) -> list[Entry]:
    """Return the values of a graph in the order of its entries.

    Parameters
    ----------
    graph : dict
        The graph.

    Returns
    -------
    list of Entry
        The values.
    """
    attrs = graph["attrs"]
    blocks = attrs["storage_id"][1]
    offsets = attrs["storage_offset"][1] if "storage_offset" in attrs else [0] * len(blocks)
    rows = zip(blocks, offsets, attrs["shape"][1], attrs["dltype"][1])
    return [Entry(int(block), int(offset), tuple(map(int, shape)), dtype) for block, offset, shape, dtype in rows]


def block_sizes(entries: list[Entry]) -> dict[int, int]:
    """Return the size in bytes of each storage block.

    Parameters
    ----------
    entries : list of Entry
        The values of the graph.

    Returns
    -------
    dict of int to int
        The sizes by block.
    """
    sizes: dict[int, int] = {}
    for entry in entries:
        sizes[entry.block] = max(sizes.get(entry.block, 0), entry.offset + entry.nbytes)
    return sizes


def rounded(size: int) -> int:
    """Return a size rounded up to the alignment of memory on boards.

    Parameters
    ----------
    size : int
        The size in bytes.

    Returns
    -------
    int
        The rounded size.
    """
    return -(-size // 16) * 16
