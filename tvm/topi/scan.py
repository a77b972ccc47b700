"""Cumulative sums and products along an axis.

On a GPU, a few long rows are divided into chunks, one for each thread: the chunks are reduced first, then the results
of the chunks are scanned, and each chunk is scanned starting from the result before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..dtype import canonical
from ..error import ExprValueError
from ..ir import primop
from ..ir.prim import IntImm, PrimExpr, const
from ..tir.ir_builder import BufferVar, IRBuilder, create
from .loops import nest
from .transform import reshape
from .utils import check_tensor, normalize_axis, prod

# The elements of a chunk, and the number of rows for which one thread per row is enough.
_CHUNK = 64
_MANY_LINES = 8192


def scanop(
    data, binop: Callable, identity_value: Any, op_name: str, axis=None, dtype=None, exclusive=None, *, gpu=None
):
    """out[k] = binop(out[k - 1], data[k]) along ``axis``, or over all elements if it is None. With ``exclusive``,
    data[k] itself is excluded and the first output is ``identity_value``. With ``gpu`` (a target), rows are distributed
    over its threads."""
    check_tensor(data, op_name)
    dtype = canonical(dtype) if dtype else data.dtype
    if axis is None:
        data, axis = reshape(data, (prod(data.shape),)), 0
    axis = normalize_axis(axis, len(data.shape), op_name)
    n, inner = data.shape[axis], data.shape[axis + 1 :]
    start = identity_value if isinstance(identity_value, PrimExpr) else const(identity_value, dtype)
    start = primop.cast(dtype, start)

    def statement(ins, outs):
        ib = create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])

        def at(outer, k, rest):
            return (*outer, k, *rest)

        def line(outer):
            def first(rest):
                value = start if exclusive else primop.cast(dtype, source[at(outer, 0, rest)])
                result[at(outer, 0, rest)] = value

            with ib.if_scope(n > 0):
                nest(ib, inner, first)
            with ib.for_range(1, n, name="k") as k:

                def step(rest):
                    read = source[at(outer, k - 1 if exclusive else k, rest)]
                    result[at(outer, k, rest)] = binop(result[at(outer, k - 1, rest)], primop.cast(dtype, read))

                nest(ib, inner, step)

        def element(i):
            k, outer, rest = i[0], i[1 : axis + 1], i[axis + 1 :]
            value = primop.cast(dtype, source[at(outer, te.max(k - 1, 0) if exclusive else k, rest)])
            before = result[at(outer, te.max(k - 1, 0), rest)]
            first = start if exclusive else value
            result[at(outer, k, rest)] = te.if_then_else(k > 0, binop(before, value), first)

        if gpu is not None and _is_long(data.shape, n):

            def read(k, rest):
                return primop.cast(dtype, source[at(rest[:axis], k, rest[axis:])])

            def write(k, rest, value):
                result[at(rest[:axis], k, rest[axis:])] = value

            lines = [*data.shape[:axis], *inner]
            _run_in_chunks(ib, read, write, n.value, lines, binop, start, bool(exclusive))
        elif gpu is not None:
            # One thread for each row.
            nest(ib, [n, *data.shape[:axis], *inner], element, independent_axes=range(1, len(data.shape)))
        else:
            nest(ib, data.shape[:axis], line, independent_axes=True)
        return ib.get()

    if isinstance(n, IntImm) and n.value == 0:
        return te.compute(data.shape, lambda *i: start, name=op_name)
    return te.extern([tuple(data.shape)], [data], statement, dtype=dtype, name=op_name, tag=op_name)


def _is_long(shape: Any, n: Any) -> bool:
    """Return whether there are few rows that are long enough to be divided."""
    if not all(isinstance(d, IntImm) for d in shape) or n.value <= _CHUNK:
        return False
    return prod(d.value for d in shape) // n.value < _MANY_LINES


def _run_in_chunks(
    ib: IRBuilder,
    read: Callable,
    write: Callable,
    n: int,
    lines: list,
    binop: Callable,
    start: PrimExpr,
    exclusive: bool,
) -> None:
    """Scan ``n`` elements of each row: ``read(k, line)`` returns them, ``write(k, line, value)`` stores the results,
    possibly in place of the elements."""
    count = -(-n // _CHUNK)
    before: BufferVar | None = None
    if count > 1:
        before = ib.allocate(start.dtype, (count, *lines), name="before")
        totals = before

        def add_up(i):
            value = ib.allocate(start.dtype, (1,), name="value", scope="local")
            value[0] = start
            with ib.for_range(0, te.min(_CHUNK, n - i[0] * _CHUNK), name="k") as k:
                value[0] = binop(value[0], read(i[0] * _CHUNK + k, i[1:]))
            totals[tuple(i)] = value[0]

        def put(k, line, value):
            totals[(k, *line)] = value

        nest(ib, [count, *lines], add_up, independent_axes=True)
        _run_in_chunks(ib, lambda k, line: totals[(k, *line)], put, count, lines, binop, start, True)

    def go_on(i):
        value, element = (ib.allocate(start.dtype, (1,), name=name, scope="local") for name in ("value", "element"))
        value[0] = start if before is None else before[tuple(i)]
        with ib.for_range(0, te.min(_CHUNK, n - i[0] * _CHUNK), name="k") as k:
            element[0] = read(i[0] * _CHUNK + k, i[1:])
            if exclusive:
                write(i[0] * _CHUNK + k, i[1:], value[0])
            value[0] = binop(value[0], element[0])
            if not exclusive:
                write(i[0] * _CHUNK + k, i[1:], value[0])

    nest(ib, [count, *lines], go_on, independent_axes=True)


def _flag(exclusive: Any) -> bool:
    if exclusive not in (None, 0, 1, False, True):
        raise ExprValueError(f"exclusive must be true or false, got {exclusive!r}")
    return bool(exclusive)


def cumsum(data, axis=None, dtype=None, exclusive=None, *, gpu=None):
    """The sum of all elements up to each element; with ``exclusive``, without the element itself."""
    return scanop(data, primop.add, 0, "cumsum", axis, dtype, _flag(exclusive), gpu=gpu)


def cumprod(data, axis=None, dtype=None, exclusive=None, *, gpu=None):
    """The product of all elements up to each element; with ``exclusive``, without the element itself."""
    return scanop(data, primop.multiply, 1, "cumprod", axis, dtype, _flag(exclusive), gpu=gpu)


__all__ = ["cumprod", "cumsum", "scanop"]
