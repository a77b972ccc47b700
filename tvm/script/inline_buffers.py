"""The buffers that TVMScript declares in the parameters of a function (``T.Buffer``)."""

from __future__ import annotations

from ..ir.prim import IntImm, Var
from ..ir.visit import post_order
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc


def inline_buffers(func: PrimFunc) -> set[int]:
    """Return the parameter buffers that an annotation describes completely and whose handle the body does not use."""
    shared: dict[int, int] = {}
    for buffer in func.buffer_map.values():
        shared[id(buffer.data)] = shared.get(id(buffer.data), 0) + 1
    used = {id(n) for n in post_order(func.body) if isinstance(n, Var)}
    return {
        id(buffer)
        for param, buffer in func.buffer_map.items()
        if id(param) not in used and shared[id(buffer.data)] == 1 and is_simple(buffer)
    }


def is_simple(buffer: Buffer) -> bool:
    return (
        all(isinstance(s, IntImm) for s in buffer.shape)
        and not buffer.strides
        and isinstance(buffer.elem_offset, IntImm)
        and buffer.elem_offset.value == 0
        and buffer.scope() == "global"
        and buffer.data_alignment == 64
        and buffer.offset_factor == 1
        and not buffer.buffer_type
        and not buffer.axis_separators
    )
