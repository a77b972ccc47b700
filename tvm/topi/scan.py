"""Cumulative sums and products along an axis.

On a GPU, a few long rows are divided into chunks, one for each thread: the chunks are reduced first, then the results
of the chunks are scanned, and each chunk is scanned starting from the result before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
_MANY_ROWS = 8192


class _Scan(NamedTuple):
    """A scan along rows. ``read(k, row)`` returns element ``k`` of the row at the indices ``row``, and ``write(k, row,
    value)`` stores its output, possibly in place of the element."""

    binop: Callable
    start: PrimExpr
    exclusive: bool
    read: Callable
    write: Callable


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

        def read(k, row):
            return primop.cast(dtype, source[(*row[:axis], k, *row[axis:])])

        def read_output(k, row):
            return result[(*row[:axis], k, *row[axis:])]

        def write(k, row, value):
            result[(*row[:axis], k, *row[axis:])] = value

        scan = _Scan(binop, start, bool(exclusive), read, write)
        outer = data.shape[:axis]
        if gpu is None:
            _run_in_rows(ib, scan, read_output, n, outer, inner)
        elif _is_long(data.shape, n):
            _run_in_chunks(ib, scan, n.value, [*outer, *inner])
        else:
            _run_in_threads(ib, scan, read_output, n, [*outer, *inner])
        return ib.get()

    if isinstance(n, IntImm) and n.value == 0:
        return te.compute(data.shape, lambda *i: start, name=op_name)
    return te.extern([tuple(data.shape)], [data], statement, dtype=dtype, name=op_name, tag=op_name)


def _is_long(shape: Any, n: Any) -> bool:
    """Return whether there are few rows that are long enough to be divided."""
    if not all(isinstance(d, IntImm) for d in shape) or n.value <= _CHUNK:
        return False
    return prod(d.value for d in shape) // n.value < _MANY_ROWS


def _run_in_rows(
    ib: IRBuilder, scan: _Scan, read_output: Callable, n: PrimExpr, outer: Sequence, inner: Sequence
) -> None:
    """Scan ``n`` elements of each row in loops. Rows that differ only in their ``inner`` indices are scanned together,
    because their elements are adjacent."""

    def rows(at):
        def first(rest):
            row = [*at, *rest]
            scan.write(0, row, scan.start if scan.exclusive else scan.read(0, row))

        with ib.if_scope(n > 0):
            nest(ib, inner, first)
        with ib.for_range(1, n, name="k") as k:

            def step(rest):
                row = [*at, *rest]
                element = scan.read(k - 1 if scan.exclusive else k, row)
                scan.write(k, row, scan.binop(read_output(k - 1, row), element))

            nest(ib, inner, step)

    nest(ib, outer, rows, independent_axes=True)


def _run_in_threads(ib: IRBuilder, scan: _Scan, read_output: Callable, n: PrimExpr, rows: Sequence) -> None:
    """Scan ``n`` elements of each row with one thread for each row."""

    def element(i):
        k, row = i[0], i[1:]
        before = te.max(k - 1, 0)
        value = scan.read(before if scan.exclusive else k, row)
        first = scan.start if scan.exclusive else value
        scan.write(k, row, te.if_then_else(k > 0, scan.binop(read_output(before, row), value), first))

    nest(ib, [n, *rows], element, independent_axes=range(1, len(rows) + 1))


def _run_in_chunks(ib: IRBuilder, scan: _Scan, n: int, rows: Sequence) -> None:
    """Scan ``n`` elements of each row with one thread for each chunk."""
    binop, start, exclusive, read, write = scan
    count = -(-n // _CHUNK)
    before: BufferVar | None = None
    if count > 1:
        before = ib.allocate(start.dtype, (count, *rows), name="before")
        totals = before

        def add_up(i):
            value = ib.allocate(start.dtype, (1,), name="value", scope="local")
            value[0] = start
            with ib.for_range(0, te.min(_CHUNK, n - i[0] * _CHUNK), name="k") as k:
                value[0] = binop(value[0], read(i[0] * _CHUNK + k, i[1:]))
            totals[tuple(i)] = value[0]

        def put(k, row, value):
            totals[(k, *row)] = value

        nest(ib, [count, *rows], add_up, independent_axes=True)
        of_totals = scan._replace(exclusive=True, read=lambda k, row: totals[(k, *row)], write=put)
        _run_in_chunks(ib, of_totals, count, rows)

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

    nest(ib, [count, *rows], go_on, independent_axes=True)


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
