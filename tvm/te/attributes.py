"""The attributes of a loop in a schedule, and the kinds of attach points."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ..ir.prim import IterVar, StringImm
from .tensor import Tensor

ITER_TYPE_NAMES = {
    IterVar.DataPar: "data parallel",
    IterVar.ThreadIndex: "thread",
    IterVar.CommReduce: "reduction",
    IterVar.Ordered: "ordered",
    IterVar.DimInfo: "opaque",
    IterVar.Unrolled: "unrolled",
    IterVar.Vectorized: "vectorized",
    IterVar.Parallelized: "parallel",
    IterVar.Tensorized: "tensorized",
}


class AttachType(IntEnum):
    """The kind of a stage's attach point."""

    GROUP_ROOT = 1
    INLINE = 2
    SCOPE = 4
    SCAN_UPDATE = 5


class AxisAttributes:
    """The schedule attributes of one loop."""

    __slots__ = (
        "iter_type",
        "bind_thread",
        "prefetch",
        "tensor_intrin",
        "dim_align_factor",
        "dim_align_offset",
        "pragmas",
        "region_factor",
        "skips_padding",
    )

    def __init__(self):
        self.iter_type = IterVar.DataPar
        self.bind_thread: IterVar | None = None
        self.prefetch: list[tuple[Tensor, Any]] = []
        self.tensor_intrin: Any = None
        self.dim_align_factor = 0
        self.dim_align_offset = 0
        self.region_factor = 0
        self.skips_padding = False
        self.pragmas: list[tuple[str, Any]] = []

    def copy(self) -> AxisAttributes:
        new = AxisAttributes()
        for slot in self.__slots__:
            value = getattr(self, slot)
            setattr(new, slot, list(value) if isinstance(value, list) else value)
        return new

    @property
    def pragma_keys(self):
        return [StringImm(k) for k, _ in self.pragmas]

    @property
    def pragma_values(self):
        return [v for _, v in self.pragmas]
