"""Analysis of the memory layout of a matmul operand, and of the vector width with which a block copies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import te
from ...arith import Analyzer
from ...dtype import info
from ...ir.prim import PrimExpr, ProducerLoad, Range, Var, const, convert
from ...ir.subst import substitute
from ...ir.visit import post_order
from ...te.tensor import ComputeOp
from .. import access
from .classes import as_number, is_known

# The maximum bytes of one copy, and the possible numbers of elements.
COPY_BYTES, VECTOR_WIDTHS = 16, (8, 4, 2)


class Operand(NamedTuple):
    """The memory layout of an operand: whether it is contiguous along k instead of m or n, and the number of contiguous
    elements in one copy."""

    k_contiguous: bool
    vector_width: int


def operand(read: Callable[..., Any], batch: Sequence[Any], size: Any, reduction: Any) -> Operand:
    """Return the memory layout of the operand ``read(*batch, k, i)`` for i below ``size`` and k below ``reduction``."""
    lead = [Var(f"b{i}", "int32") for i in range(len(batch))]
    k, i = Var("k", "int32"), Var("i", "int32")
    analyzer = Analyzer()
    for var, extent in zip([*lead, k, i], [*batch, reduction, size]):
        analyzer.bind(var, Range(min=const(0, "int32"), extent=convert(extent)))
    value = _through_padding(read(*lead, k, i))
    most = COPY_BYTES // info(value.dtype).bytes
    along_k, across_k = (_vector_width(value, *axis, most, analyzer) for axis in ((k, reduction), (i, size)))
    if along_k == across_k == 1:
        return Operand(_is_next(value, k, analyzer) or not _is_next(value, i, analyzer), 1)
    return Operand(along_k >= across_k, max(along_k, across_k))


def _is_next(value: PrimExpr, var: Var, analyzer: Analyzer) -> bool:
    """Return whether neighbours along ``var`` are adjacent in memory."""
    while access.is_choosing(value):
        value = value.args[1]
    return type(value) is ProducerLoad and access.stride_along(_offset(value, analyzer), var) == 1


def _through_padding(value: PrimExpr) -> PrimExpr:
    """Return the load with the preceding padding inlined."""
    while True:
        op = value.producer.op if type(value) is ProducerLoad else None
        if not isinstance(op, ComputeOp) or not (op.tag or "").endswith(",pad"):
            return value
        value = substitute(op.body[0], {a.var: x for a, x in zip(op.axis, value.indices)})


def _vector_width(value: PrimExpr, var: Var, extent: Any, most: int, analyzer: Analyzer) -> int:
    """Return the number of elements along ``var`` that are contiguous and aligned, and all inside or all outside the
    padding."""
    known = as_number(extent) if is_known(extent) else 1
    for lanes in (x for x in VECTOR_WIDTHS if x <= most and known % x == 0):
        group, lane = Var("group", "int32"), Var("lane", "int32")
        analyzer.bind(group, Range(min=const(0, "int32"), extent=const(known // lanes, "int32")))
        analyzer.bind(lane, Range(min=const(0, "int32"), extent=const(lanes, "int32")))
        if _is_contiguous(substitute(value, {var: group * lanes + lane}), lane, lanes, analyzer):
            return lanes
    return 1


def _is_contiguous(value: PrimExpr, lane: Var, lanes: int, analyzer: Analyzer) -> bool:
    if access.is_choosing(value):
        condition = analyzer.simplify(value.args[0])
        if any(n is lane for n in post_order(condition)):
            return False
        return _is_contiguous(value.args[1], lane, lanes, analyzer)
    if type(value) is not ProducerLoad:
        return False
    offset = _offset(value, analyzer)
    if access.stride_along(offset, lane) != 1:
        return False
    start = analyzer.modular_set(analyzer.simplify(substitute(offset, {lane: const(0, "int32")})))
    return start.coeff % lanes == 0 and start.base % lanes == 0


def _offset(load: ProducerLoad, analyzer: Analyzer) -> PrimExpr:
    """Return the offset of an element in memory."""
    offset: Any = const(0, "int32")
    for index, size in zip(load.indices, load.producer.shape):
        offset = offset * size + index
    return analyzer.simplify(offset)


def below(x: Any, limit: Any, lanes: int) -> PrimExpr:
    """Return ``x < limit`` in a form that is the same for all lanes of a copy."""
    return te.indexdiv(x, lanes) < limit // lanes if lanes > 1 else x < limit
