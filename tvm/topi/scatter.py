"""Operators that write values to positions given by index tensors, as loop statements. If two values have the same
position, the later one is used; positions outside the tensor are ignored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te, tir
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import IntImm, PrimExpr, Var, const, convert
from ..tir.ir_builder import IRBuilder, create
from .assumptions import agree, assume
from .indexing import _integers, as_index, from_end
from .loops import nest
from .utils import check_tensor, get_const_int, normalize_axis

# The combination of a new value with the existing one.
_COMBINE: dict[str, Callable] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": lambda old, new: te.min(old, new),
    "max": lambda old, new: te.max(old, new),
}


def _combiner(name: str, what: str, known: Sequence[str] = (*_COMBINE, "mean")) -> str:
    if name not in known:
        raise ExprValueError(f"{what}: the combination must be one of {', '.join(known)}, got '{name}'")
    return name


def _extern(data: te.Tensor, others: Sequence, statement: Callable, name: str, dtype: str | None = None, shape=None):
    return te.extern(
        [tuple(data.shape if shape is None else shape)],
        [data, *others],
        lambda ins, outs: statement(ins, outs[0]),
        dtype=dtype or data.dtype,
        name=name,
        tag=name,
    )


def _copy(ib: IRBuilder, source: Any, target: Any) -> None:
    from_, to = ib.buffer_ptr(source), ib.buffer_ptr(target)

    def body(indices):
        to[tuple(indices)] = from_[tuple(indices)]

    nest(ib, source.shape, body, independent_axes=True)


def scatter_elements(data, indices, updates, axis=0, reduction="update"):
    """``data`` with data[indices[i, j]][j] = updates[i, j] along ``axis``, combined by ``reduction``: update, add, mul,
    mean, min or max. Negative indices count from the end.

    Raises
    ------
    ExprValueError
        Data, indices and updates have different numbers of dimensions.
    """
    check_tensor(data, "scatter_elements"), _integers(indices, "scatter_elements")
    check_tensor(updates, "scatter_elements")
    axis = normalize_axis(axis, len(data.shape), "scatter_elements")
    _combiner(reduction, "scatter_elements")
    if not len(indices.shape) == len(updates.shape) == len(data.shape):
        raise ExprValueError(
            "scatter_elements: data, indices and updates must have the same number of dimensions, got "
            f"{len(data.shape)}, {len(indices.shape)} and {len(updates.shape)}"
        )
    _check_values(data, updates, "scatter_elements")
    for place, (dim, own, new) in enumerate(zip(data.shape, indices.shape, updates.shape)):
        _fits(place, own, new, "scatter_elements: the updates")
        if place != axis:
            _fits(place, own, dim, "scatter_elements: the data")

    def statement(ins, out):
        ib = create()
        _copy(ib, ins[0], out)
        where, new, result = ib.buffer_ptr(ins[1]), ib.buffer_ptr(ins[2]), ib.buffer_ptr(out)

        def target(i):
            place = from_end(as_index(where[tuple(i)]), data.shape[axis])
            return (*i[:axis], place, *i[axis + 1 :])

        lines = [d for d in range(len(data.shape)) if d != axis]
        _write(ib, out, result, indices.shape, target, lambda i: new[tuple(i)], reduction, lines)
        return ib.get()

    return _extern(data, [indices, updates], statement, "scatter_elements")


def _write(
    ib: IRBuilder, out, result, shape, target: Callable, value: Callable, reduction: str, apart: Sequence[int] = ()
) -> None:
    """Combine result[target(i)] with value(i) for all i; a mean includes the initial value of each position. Values
    with different indices along the dimensions ``apart`` never have the same position."""
    if reduction != "mean":

        def body(i):
            at = target(i)
            with ib.if_scope(_within(at, out.shape)):
                result[at] = _COMBINE[reduction](result[at], value(i))

        nest(ib, shape, body, independent_axes=apart)
        return
    counts = ib.allocate("int32", out.shape, name="counts")

    def start(i):
        counts[tuple(i)] = 1

    def add(i):
        at = target(i)
        with ib.if_scope(_within(at, out.shape)):
            result[at] = result[at] + value(i)
            counts[at] = counts[at] + 1

    def divide(i):
        at = tuple(i)
        result[at] = primop.div(result[at], primop.cast(out.dtype, counts[at]))

    nest(ib, out.shape, start, independent_axes=True)
    nest(ib, shape, add, independent_axes=apart)
    nest(ib, out.shape, divide, independent_axes=True)


def _within(places: Sequence, shape: Sequence) -> PrimExpr:
    """Return the condition that a position is inside. Loop variables are inside and need no condition."""
    asked = [(p, dim) for p, dim in zip(places, shape) if not isinstance(p, Var)]
    return tir.all(*[tir.all(p >= 0, p < dim) for p, dim in asked]) if asked else const(True, "bool")


def _fits(place: int, own: Any, other: Any, what: str) -> None:
    assume(convert(own) <= convert(other), f"at most as many indices along axis {place} as updates")
    if isinstance(own, IntImm) and isinstance(other, IntImm) and own.value > other.value:
        raise ExprValueError(f"{what}: dimension {place} is {other.value}, but that of the indices is {own.value}")


def _check_values(data: te.Tensor, updates: te.Tensor, what: str) -> None:
    if data.dtype != updates.dtype:
        raise ExprTypeError(f"{what}: the data is {data.dtype}, but the updates are {updates.dtype}")


def scatter_nd(data, indices, updates, mode="update"):
    """``data`` with data[indices[0, y...], ..., indices[m-1, y...], x...] = updates[y..., x...], combined by ``mode``:
    update, add, mul, min or max. Negative indices count from the end.

    Raises
    ------
    ExprValueError
        The indices have more components than the data has dimensions, or the updates do not have the shape that data
        and indices require.
    """
    check_tensor(data, "scatter_nd"), _integers(indices, "scatter_nd"), check_tensor(updates, "scatter_nd")
    _combiner(mode, "scatter_nd", tuple(_COMBINE))
    _check_values(data, updates, "scatter_nd")
    if not indices.shape:
        raise ExprValueError("scatter_nd: the indices need at least one dimension")
    depth, own = get_const_int(indices.shape[0]), len(indices.shape) - 1
    if depth > len(data.shape):
        raise ExprValueError(
            f"scatter_nd: {depth} index components exceed the {len(data.shape)} dimensions of the tensor"
        )
    wanted = [*indices.shape[1:], *data.shape[depth:]]
    alike = (agree(a, b, "equal dimensions of updates and data") for a, b in zip(wanted, updates.shape))
    if len(wanted) != len(updates.shape) or not all(alike):
        raise ExprValueError(f"scatter_nd: the updates have shape {list(updates.shape)}, expected {wanted}")

    def statement(ins, out):
        ib = create()
        _copy(ib, ins[0], out)
        where, new, result = ib.buffer_ptr(ins[1]), ib.buffer_ptr(ins[2]), ib.buffer_ptr(out)

        def target(i):
            places = [from_end(as_index(where[(const(m, "int32"), *i[:own])]), data.shape[m]) for m in range(depth)]
            return (*places, *i[own:])

        rest = range(own, len(updates.shape))
        _write(ib, out, result, updates.shape, target, lambda i: new[tuple(i)], mode, rest)
        return ib.get()

    return _extern(data, [indices, updates], statement, "scatter_nd")


def sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0):
    """A tensor of ``default_value`` with ``sparse_values`` at the given positions: one index, a vector of indices along
    one axis, or a row of indices for each value.

    Raises
    ------
    ExprValueError
        Indices or values have too many dimensions, or the rows of indices do not have one index for each output
        dimension.
    """
    _integers(sparse_indices, "sparse_to_dense"), check_tensor(sparse_values, "sparse_to_dense")
    shape = [convert(dim) for dim in output_shape]
    depth = len(sparse_indices.shape)
    if depth > 2 or len(sparse_values.shape) > 1:
        raise ExprValueError(
            f"sparse_to_dense: indices may have at most 2 dimensions and values 1, got {depth} and "
            f"{len(sparse_values.shape)}"
        )
    width = get_const_int(sparse_indices.shape[1]) if depth == 2 else 1
    if width != len(shape):
        raise ExprValueError(f"sparse_to_dense: {width} indices for an output of {len(shape)} dimensions")
    count = sparse_indices.shape[0] if depth else convert(1)
    if sparse_values.shape and depth:
        _fits(0, count, sparse_values.shape[0], "sparse_to_dense: the values")
    extra = [default_value] if isinstance(default_value, te.Tensor) else []

    def statement(ins, out):
        ib = create()
        values, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(out)
        where = ib.buffer_ptr(ins[1])
        if extra:
            default = ib.buffer_ptr(ins[2])[tuple([0] * len(default_value.shape))]
        else:
            default = primop.cast(out.dtype, convert(default_value))

        def fill(i):
            result[tuple(i)] = default

        def put(i):
            at = i if depth else ()
            places = [where[(*at, const(m, "int32"))] for m in range(width)] if depth == 2 else [where[tuple(at)]]
            to = tuple(as_index(p) for p in places)
            with ib.if_scope(_within(to, shape)):
                result[to] = values[tuple(i) if sparse_values.shape else ()]

        nest(ib, shape, fill, independent_axes=True)
        nest(ib, [count], put)
        return ib.get()

    return _extern(sparse_values, [sparse_indices, *extra], statement, "sparse_to_dense", sparse_values.dtype, shape)


def invert_permutation(data):
    """The inverse of the permutation ``data``.

    Raises
    ------
    ExprValueError
        The data is not a vector.
    """
    _integers(data, "invert_permutation")
    if len(data.shape) != 1:
        raise ExprValueError(f"invert_permutation: data must be a vector, got {len(data.shape)} dimensions")

    def statement(ins, out):
        ib = create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(out)

        def put(i):
            to = as_index(source[i[0]])
            with ib.if_scope(_within([to], data.shape)):
                result[to] = i[0]

        nest(ib, data.shape, put)
        return ib.get()

    return _extern(data, [], statement, "invert_permutation")


__all__ = ["invert_permutation", "scatter_elements", "scatter_nd", "sparse_to_dense"]
