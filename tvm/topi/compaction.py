"""Stream compaction: moves the elements that satisfy a condition to the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te, tir
from ..error import ExprValueError
from ..ir import primop
from ..ir.prim import const, convert
from ..tir.ir_builder import create
from .loops import nest
from .scan import cumsum
from .utils import check_tensor


def argwhere(output_shape, condition, *, gpu=None):
    """The indices of the nonzero elements, one row for each, in row-major order. ``output_shape`` (a shape, or a tensor
    with that shape) gives the number of rows. With ``gpu`` (a target), a separate thread writes each element.

    Raises
    ------
    ExprValueError
        ``output_shape`` does not have two dimensions.
    """
    check_tensor(condition, "argwhere")
    shape = output_shape.shape if isinstance(output_shape, te.Tensor) else tuple(convert(d) for d in output_shape)
    if len(shape) != 2:
        raise ExprValueError(
            f"argwhere: the output has 2 dimensions (one row of indices for each element), got {len(shape)}"
        )

    if gpu is not None and condition.shape:
        return _argwhere_on_gpu(shape, condition, gpu)

    def statement(ins, out):
        ib = create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(out)
        count = ib.allocate("int32", (1,), name="count", scope="local")
        count[0] = 0

        def body(i):
            value = source[tuple(i)]
            found = tir.all(primop.not_equal(value, const(0, value.dtype)), count[0] < out.shape[0])
            with ib.if_scope(found):
                for place, index in enumerate(i):
                    result[count[0], place] = primop.cast("int32", index)
                count[0] = count[0] + 1

        nest(ib, condition.shape, body)
        return ib.get()

    return te.extern(
        [tuple(shape)], [condition], lambda ins, outs: statement(ins, outs[0]), dtype="int32", name="argwhere",
        tag="argwhere",
    )  # fmt: skip


def _argwhere_on_gpu(shape: Sequence, condition: te.Tensor, gpu: Any) -> te.Tensor:
    """Compute ``argwhere`` so that each element finds its row independently: the row is the number of nonzero elements
    before it."""

    def mark(*i):
        value = condition(*i)
        return primop.cast("int32", primop.not_equal(value, const(0, value.dtype)))

    marks = te.compute(condition.shape, mark, name="is_found", tag="injective")
    before = cumsum(marks, gpu=gpu)

    def statement(ins, outs):
        ib = create()
        found, numbers, result = (ib.buffer_ptr(b) for b in (*ins, outs[0]))

        def one(i):
            flat: Any = 0
            for index, size in zip(i, condition.shape):
                flat = flat * size + index
            row = numbers[flat] - 1
            with ib.if_scope(tir.all(primop.not_equal(found[tuple(i)], 0), row < shape[0])):
                for place, index in enumerate(i):
                    result[row, place] = primop.cast("int32", index)

        nest(ib, condition.shape, one, independent_axes=True)
        return ib.get()

    return te.extern([tuple(shape)], [marks, before], statement, dtype="int32", name="argwhere", tag="argwhere")


__all__ = ["argwhere"]
