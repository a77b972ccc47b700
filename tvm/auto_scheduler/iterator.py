"""A loop of a state."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..ir.prim import Range


class IteratorKind(enum.IntEnum):
    """The kind of a loop: spatial, reduction, both (fused), or neither."""

    SPATIAL = 0
    REDUCTION = 1
    MIXED = 2
    SPECIAL = 3


class Annotation(enum.IntEnum):
    """The annotation of a loop; the numbers are those of records."""

    NONE = 0
    UNROLL = 1
    VECTORIZE = 2
    PARALLEL = 3
    VTHREAD = 4
    BLOCK_X = 5
    THREAD_X = 6
    BLOCK_Y = 7
    THREAD_Y = 8
    BLOCK_Z = 9
    THREAD_Z = 10
    TENSORIZE = 11


ANNOTATION_NAMES = {
    Annotation.NONE: "none",
    Annotation.UNROLL: "unroll",
    Annotation.VECTORIZE: "vectorize",
    Annotation.PARALLEL: "parallel",
    Annotation.VTHREAD: "vthread",
    Annotation.BLOCK_X: "blockIdx.x",
    Annotation.THREAD_X: "threadIdx.x",
    Annotation.BLOCK_Y: "blockIdx.y",
    Annotation.THREAD_Y: "threadIdx.y",
    Annotation.BLOCK_Z: "blockIdx.z",
    Annotation.THREAD_Z: "threadIdx.z",
    Annotation.TENSORIZE: "tensorize",
}


@lru_cache(maxsize=4096)
def _range(low: int, extent: int) -> Range:
    return Range.from_min_extent(low, extent)


@dataclass(frozen=True, slots=True, eq=False)
class Iterator:
    """A loop, compared by identity. ``extent`` is None if it is unknown. ``asked`` is the length that a split
    requested, which is the extent unless there are fewer iterations (an ``Open`` length in a skeleton)."""

    name: str
    min: int
    extent: int | None
    kind: IteratorKind
    annotation: Annotation = Annotation.NONE
    orig_iters: tuple[Iterator, ...] = ()
    asked: Any = None

    @property
    def range(self) -> Range | None:
        return None if self.extent is None else _range(self.min, self.extent)

    @property
    def iter_kind(self) -> int:
        return int(self.kind)

    def __str__(self) -> str:
        return self.name


__all__ = ["ANNOTATION_NAMES", "Annotation", "Iterator", "IteratorKind"]
