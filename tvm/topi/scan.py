"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..dtype import canonical
from ..error import ExprValueError
from ..ir import primop
from ..ir.prim import IntImm, PrimExpr, const
from ..tir.ir_builder import create
from .scatter import nest, on_gpu
from .transform import reshape
from .utils import check_tensor, normalize_axis, prod


def scanop(data, binop: Callable, identity_value: Any, op_name: str, axis=None, dtype=None, exclusive=None):
    """out[k] = binop(out[k - 1], data[k]) along ``axis``, or over all elements if it is None. Exclusive: without
    data[k] itself, beginning with ``identity_value``."""
    check_tensor(data, op_name)
    dtype = canonical(dtype) if dtype else data.dtype
    if axis is None:
        data, axis = reshape(data, (prod(data.shape),)), 0
    axis = normalize_axis(axis, len(data.shape), op_name)
    n = data.shape[axis]
    start = identity_value if isinstance(identity_value, PrimExpr) else const(identity_value, dtype)
    start = primop.cast(dtype, start)
    inner = data.shape[axis + 1 :]

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

        if on_gpu():
            # A thread for each line.
            nest(ib, [n, *data.shape[:axis], *inner], element, together=range(1, len(data.shape)))
        else:
            nest(ib, data.shape[:axis], line, together=True)
        return ib.get()

    if isinstance(n, IntImm) and n.value == 0:
        return te.compute(data.shape, lambda *i: start, name=op_name)
    return te.extern([tuple(data.shape)], [data], statement, dtype=dtype, name=op_name, tag=op_name)


def _flag(exclusive: Any) -> bool:
    if exclusive not in (None, 0, 1, False, True):
        raise ExprValueError(f"exclusive is true or false, got {exclusive!r}")
    return bool(exclusive)


def cumsum(data, axis=None, dtype=None, exclusive=None):
    """The sum of the elements up to each; without the element itself if ``exclusive``."""
    return scanop(data, primop.add, 0, "cumsum", axis, dtype, _flag(exclusive))


def cumprod(data, axis=None, dtype=None, exclusive=None):
    """The product of the elements up to each; without the element itself if ``exclusive``."""
    return scanop(data, primop.multiply, 1, "cumprod", axis, dtype, _flag(exclusive))


__all__ = ["cumprod", "cumsum", "scanop"]
