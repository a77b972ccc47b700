"""ForceNarrowIndexToInt32: compute every index in 32 bits; report an error if an index may not fit."""

from __future__ import annotations

from ...dtype import info
from ...error import TVMError
from ...ir.prim import BufferLoad, IntImm
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import BufferStore, For
from .narrow_data_type import narrow_data_type


def force_narrow_index_to_int32(func: PrimFunc) -> PrimFunc:
    for buffer in func.buffer_map.values():
        elements = 1
        for extent in buffer.shape:
            elements *= extent.value if isinstance(extent, IntImm) else 1
        if elements >= 1 << 31:
            raise TVMError(f"{buffer.name} has {elements} elements; the largest 32-bit index is {(1 << 31) - 1}")
    new = narrow_data_type(func, 32)
    for n in post_order(new.body):
        wide = [n.loop_var.dtype] if isinstance(n, For) else []
        if isinstance(n, (BufferLoad, BufferStore)):
            wide = [i.dtype for i in n.indices]
        if any(info(d).bits > 32 for d in wide):
            what = f"loop {n.loop_var.name}" if isinstance(n, For) else f"an index of {n.buffer.name}"
            raise TVMError(f"{what} may not fit in 32 bits")
    return new
