"""Recognize loops that copy or fill consecutive elements, which C programs express as memcpy and memset."""

from __future__ import annotations

from typing import NamedTuple

from ...arith import Analyzer
from ...dtype import info
from ...ir.prim import BufferLoad, IntImm, PrimExpr, Var
from ...ir.visit import pre_order
from ...tir.buffer import Buffer
from ...tir.stmt import BufferStore, For
from ...tir.stmt_functor import substitute
from ..linear import one_index

# Shorter runs are loops: a call costs more than a few elements.
MIN_ELEMENTS = 8


class ByteRun(NamedTuple):
    """Consecutive elements that are written: the buffer, the index of the first element, the load of the first source
    element or the byte that fills all of them, and the number of bytes."""

    buffer: Buffer
    start: PrimExpr
    source: BufferLoad | int
    size: int


def _start(index: PrimExpr, loop: For) -> PrimExpr | None:
    """Return the index of the first iteration if consecutive iterations access consecutive elements."""
    analyzer, var = Analyzer(), loop.loop_var
    first = substitute(index, {var: loop.min})
    is_next = analyzer.can_prove_equal(index - first, var - loop.min)
    return analyzer.simplify(first) if is_next else None


def byte_run(loop: For) -> ByteRun | None:
    """Return the elements that a loop copies or fills, or None for other loops."""
    body = loop.body
    if not isinstance(body, BufferStore) or not isinstance(loop.extent, IntImm) or len(body.indices) != 1:
        return None
    dtype, value = info(body.buffer.dtype), body.value
    size = loop.extent.value * dtype.bytes
    if loop.extent.value < MIN_ELEMENTS or dtype.lanes != 1 or dtype.is_bool or info(body.indices[0].dtype).lanes != 1:
        return None
    is_copy = isinstance(value, BufferLoad) and value.buffer.dtype == body.buffer.dtype == value.dtype
    if not is_copy and not isinstance(value, IntImm):
        return None
    start = _start(one_index(body.buffer, body.indices), loop)
    if start is None:
        return None
    if isinstance(value, IntImm):
        is_filled = dtype.bytes == 1 or value.value == 0
        return ByteRun(body.buffer, start, value.value, size) if is_filled else None
    assert isinstance(value, BufferLoad)
    index = one_index(value.buffer, value.indices)
    if any(isinstance(node, BufferLoad) for node in pre_order(index)) or not _uses(index, loop.loop_var):
        return None
    source = _start(index, loop)
    return None if source is None else ByteRun(body.buffer, start, BufferLoad(value.buffer, (source,)), size)


def _uses(index: PrimExpr, var: Var) -> bool:
    return any(node is var for node in pre_order(index))


__all__ = ["MIN_ELEMENTS", "ByteRun", "byte_run"]
