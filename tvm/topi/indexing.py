"""Elements chosen by index tensors, and masks by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te, tir
from ..dtype import canonical, info
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import IntImm, PrimExpr, const, convert
from . import tag, utils
from .assumptions import agree, assume, refuse_empty
from .broadcast import broadcast_index, broadcast_shape, floor_quotient, floor_rest
from .utils import check_tensor, equal_const_int, get_const_int, normalize_axis


def as_index(value: PrimExpr) -> PrimExpr:
    """An element of an index tensor as a signed integer wide enough for it."""
    kind = info(value.dtype)
    if not kind.is_integer:
        raise ExprTypeError(f"an index tensor holds integers, got {value.dtype}")
    if value.dtype in ("int32", "int64"):
        return value
    return primop.cast("int64" if kind.is_uint and kind.bits >= 32 else "int32", value)


def from_end(index: PrimExpr, dim: PrimExpr) -> PrimExpr:
    """An index of which the negative ones count from the end."""
    moved = index + dim
    return tir.Select(index < 0, moved, primop.cast(moved.dtype, index))


def _integers(value: Any, what: str) -> te.Tensor:
    check_tensor(value, what)
    if not info(value.dtype).is_integer:
        raise ExprTypeError(f"{what}: indices must be integers, got {value.dtype}")
    return value


def inside(index: PrimExpr, dim: PrimExpr) -> PrimExpr:
    """As from_end; an index beyond either end reads the last element there, never other memory."""
    return te.max(te.min(from_end(index, dim), dim - 1), 0)


_INSIDE = {
    "clip": lambda index, dim: te.max(te.min(index, dim - 1), 0),
    # Nothing is taken from a dimension that is known to be 0, and nothing can be divided by it.
    "wrap": lambda index, dim: primop.floormod(index, 1 if equal_const_int(dim, 0) else dim),
    "fast": lambda index, dim: index,
}


def take(a, indices, axis=None, batch_dims=0, mode="clip"):
    """Elements (or slices) at ``indices`` along ``axis``; of the flattened tensor if axis is None. Indices outside are
    clipped, wrapped round, or (mode "fast") trusted. The first ``batch_dims`` dimensions go together.

    Raises
    ------
    ExprValueError
        ``mode`` is not known, or there are too many batch dimensions.
    """
    check_tensor(a, "take"), _integers(indices, "take")
    if mode not in _INSIDE:
        raise ExprValueError(f"take: mode is one of {', '.join(_INSIDE)}, got '{mode}'")
    within = _INSIDE[mode]
    if axis is None:
        total = convert(utils.prod(a.shape))
        refuse_empty(total, indices.shape, "take")

        def element(*i):
            flat = within(as_index(indices(*i)), total)
            return a(*utils.unravel_index(flat, a.shape)) if a.shape else a()

        return te.compute(indices.shape, element, name="T_take", tag=tag.INJECTIVE)
    axis = normalize_axis(axis, len(a.shape), "take")
    batch_dims = get_const_int(batch_dims)
    batch_dims += len(indices.shape) if batch_dims < 0 else 0
    if not 0 <= batch_dims <= min(axis, len(indices.shape)):
        given = f"axis {axis} and indices of {len(indices.shape)} dimensions"
        raise ExprValueError(f"take: {batch_dims} batch dimensions with {given}")
    refuse_empty(a.shape[axis], indices.shape, "take")
    own = len(indices.shape) - batch_dims
    for place in range(batch_dims):
        assume(indices.shape[place] <= a.shape[place], f"indices along axis {place}, which are no more than elements")
    shape = [*a.shape[:axis], *indices.shape[batch_dims:], *a.shape[axis + 1 :]]

    def element_along(*i):
        place = as_index(indices(*i[:batch_dims], *i[axis : axis + own]))
        return a(*i[:axis], within(place, a.shape[axis]), *i[axis + own :])

    return te.compute(shape, element_along, name="T_take", tag=tag.INJECTIVE)


def gather(data, axis, indices):
    """out[i][j][k] = data[indices[i][j][k]][j][k] for axis 0, and so on; negative indices count from the end.

    Raises
    ------
    ExprValueError
        The indices have another number of dimensions than the data, or are longer than it beside ``axis``.
    """
    check_tensor(data, "gather"), _integers(indices, "gather")
    axis = normalize_axis(axis, len(data.shape), "gather")
    if len(indices.shape) != len(data.shape):
        raise ExprValueError(f"gather: data has {len(data.shape)} dimensions, the indices {len(indices.shape)}")
    for place, (dim, own) in enumerate(zip(data.shape, indices.shape)):
        if place != axis:
            assume(own <= dim, f"indices along axis {place}, which are no more than elements")
        if place != axis and isinstance(dim, IntImm) and isinstance(own, IntImm) and own.value > dim.value:
            raise ExprValueError(f"gather: dimension {place} of the indices is {own.value}, of the data {dim.value}")
    refuse_empty(data.shape[axis], indices.shape, "gather")

    def element(*i):
        place = inside(as_index(indices(*i)), data.shape[axis])
        return data(*i[:axis], place, *i[axis + 1 :])

    return te.compute(indices.shape, element, name="T_gather", tag=tag.INJECTIVE)


def gather_nd(a, indices, batch_dims=0):
    """Slices of ``a`` at places given by the first dimension of ``indices``: out[y..., x...] =
    a[indices[0, y...], ..., indices[m-1, y...], x...]; negative indices count from the end, and floats count without
    their fraction.

    Raises
    ------
    ExprValueError
        The indices have no dimension, or name more dimensions than the data has.
    """
    check_tensor(a, "gather_nd"), check_tensor(indices, "gather_nd")
    if not indices.shape:
        raise ExprValueError("gather_nd: the indices need at least one dimension")
    depth, batch_dims = get_const_int(indices.shape[0]), get_const_int(batch_dims)
    if not 0 <= batch_dims < len(indices.shape) or depth + batch_dims > len(a.shape):
        raise ExprValueError(
            f"gather_nd: {depth} indices after {batch_dims} batch dimensions, but the data has {len(a.shape)}"
        )
    own = len(indices.shape) - 1
    shape = [*indices.shape[1:], *a.shape[depth + batch_dims :]]
    for dim in a.shape[batch_dims : batch_dims + depth]:
        refuse_empty(dim, shape, "gather_nd")

    def element(*i):
        chosen = [indices(const(m, "int32"), *i[:own]) for m in range(depth)]
        whole = [primop.cast("int32", index) if info(index.dtype).is_float else as_index(index) for index in chosen]
        places = [inside(index, a.shape[batch_dims + m]) for m, index in enumerate(whole)]
        return a(*i[:batch_dims], *places, *i[own:])

    return te.compute(shape, element, name="T_gather_nd", tag=tag.INJECTIVE)


def adv_index(data, indices):
    """NumPy's data[indices[0], indices[1], ...]: index tensors broadcast together for the first dimensions.

    Raises
    ------
    ExprValueError
        There is no index tensor, or more than dimensions.
    """
    check_tensor(data, "adv_index")
    indices = [_integers(t, "adv_index") for t in indices]
    if not indices or len(indices) > len(data.shape):
        raise ExprValueError(f"adv_index: {len(indices)} index tensors for a tensor of {len(data.shape)} dimensions")
    joint = broadcast_shape(*(t.shape for t in indices), what="adv_index")
    shape = [*joint, *data.shape[len(indices) :]]
    for dim in data.shape[: len(indices)]:
        refuse_empty(dim, shape, "adv_index")

    def element(*i):
        at = i[: len(joint)]
        places = [inside(as_index(t(*broadcast_index(t.shape, joint, at))), dim) for t, dim in zip(indices, data.shape)]
        return data(*places, *i[len(joint) :])

    return te.compute(shape, element, name="T_adv_index", tag=tag.INJECTIVE)


def one_hot(indices, on_value, off_value, depth, axis, dtype):
    """A new axis of length ``depth`` with ``on_value`` at the index and ``off_value`` elsewhere."""
    _integers(indices, "one_hot")
    dtype = canonical(dtype)
    axis = normalize_axis(axis, len(indices.shape) + 1, "one_hot")
    on, off = (primop.cast(dtype, v() if isinstance(v, te.Tensor) else convert(v)) for v in (on_value, off_value))
    shape = [*indices.shape[:axis], convert(depth), *indices.shape[axis:]]

    def element(*i):
        index = as_index(indices(*i[:axis], *i[axis + 1 :]))
        return tir.Select(primop.equal(index, i[axis]), on, off)

    return te.compute(shape, element, name="T_one_hot", tag=tag.INJECTIVE)


def unravel_index(indices, shape):
    """The index along each dimension of elements counted in row-major order, one row per dimension.

    Raises
    ------
    ExprValueError
        The shape has no dimension.
    """
    _integers(indices, "unravel_index")
    if isinstance(shape, te.Tensor):
        dims = [as_index(shape(place)) for place in range(get_const_int(shape.shape[0]))]
    else:
        dims = [convert(dim) for dim in shape]

    def element(*i):
        rest = as_index(indices(*i[1:]))
        parts = []
        for dim in reversed(dims):
            parts.append(floor_rest(rest, dim))
            rest = floor_quotient(rest, dim)
        value = parts[0]
        for place, part in enumerate(parts[1:], 1):
            value = tir.Select(primop.equal(i[0], len(dims) - 1 - place), part, value)
        return primop.cast(indices.dtype, value)

    if not dims:
        raise ExprValueError("unravel_index: a shape of 0 dimensions has no indices")
    return te.compute([len(dims), *indices.shape], element, name="T_unravel_index", tag=tag.INJECTIVE)


def sequence_mask(data, valid_length, mask_value=0, axis=0):
    """``data`` with what lies beyond the valid length of its sequence replaced. Sequences run along ``axis`` (0 or 1),
    batches along the other of the two.

    Raises
    ------
    ExprValueError
        The data has less than two axes, ``axis`` is neither 0 nor 1, or the lengths are no vector.
    """
    check_tensor(data, "sequence_mask"), check_tensor(valid_length, "sequence_mask")
    if len(data.shape) < 2:
        raise ExprValueError(f"sequence_mask: two axes are needed, got {len(data.shape)}")
    if axis not in (0, 1):
        raise ExprValueError(f"sequence_mask: axis is 0 or 1, got {axis}")
    if len(valid_length.shape) != 1:
        raise ExprValueError(f"sequence_mask: the lengths have {len(valid_length.shape)} dimensions instead of 1")
    if not agree(valid_length.shape[0], data.shape[1 - axis], "lengths against batches"):
        raise ExprValueError(f"sequence_mask: {valid_length.shape[0]} lengths for {data.shape[1 - axis]} sequences")
    mask = primop.cast(data.dtype, convert(mask_value))

    def element(*i):
        beyond = i[axis] >= valid_length(i[1 - axis])
        return tir.Select(beyond, mask, data(*i))

    return te.compute(data.shape, element, name="T_sequence_mask", tag=tag.INJECTIVE)


def trilu(data, k, upper):
    """The upper (or lower) triangle of matrices, from the ``k``-th diagonal on; zero elsewhere.

    Raises
    ------
    ExprValueError
        The data has less than two dimensions.
    """
    check_tensor(data, "trilu")
    if len(data.shape) < 2:
        raise ExprValueError(f"trilu: takes matrices, got {len(data.shape)} dimensions")
    zero = const(0, data.dtype)

    def element(*i):
        shift = as_index(k(*[0] * len(k.shape))) if isinstance(k, te.Tensor) else convert(k)
        row, column = i[-2], i[-1]
        kept = row + shift <= column if upper else row + shift >= column
        return tir.Select(kept, data(*i), zero)

    return te.compute(data.shape, element, name="T_trilu", tag=tag.ELEMWISE)


# Which diagonals lie at the far end of their row: those above the main one, those below.
_ALIGN = {
    "LEFT_LEFT": (False, False), "LEFT_RIGHT": (False, True),
    "RIGHT_LEFT": (True, False), "RIGHT_RIGHT": (True, True),
}  # fmt: skip


def matrix_set_diag(data, diagonal, k=0, align="RIGHT_LEFT"):
    """``data`` with its ``k``-th diagonal (or diagonals k[0] to k[1]) replaced, each a row of ``diagonal``. Shorter
    diagonals lie at the left or right end of their row; ``align`` says which for those above and below.

    Raises
    ------
    ExprValueError
        ``align`` is not known.
    """
    check_tensor(data, "matrix_set_diag"), check_tensor(diagonal, "matrix_set_diag")
    if align not in _ALIGN:
        raise ExprValueError(f"matrix_set_diag: align is one of {', '.join(_ALIGN)}, got '{align}'")
    low, high = (get_const_int(v) for v in k) if isinstance(k, (tuple, list)) else (get_const_int(k),) * 2
    _check_diagonal(data, diagonal, low, high)
    rows, columns = data.shape[-2:]
    above, below = _ALIGN[align]
    longest = diagonal.shape[-1]

    def element(*i):
        row, column = i[-2], i[-1]
        which = column - row
        length = te.min(columns - te.max(which, 0), rows + te.min(which, 0))
        far = [which >= 0] * above + [which <= 0] * below
        place = column - te.max(which, 0)
        if far:
            place = place + tir.Select(tir.any(*far), longest - length, const(0, row.dtype))
        line = (high - which,) if low != high else ()
        among = tir.all(which >= low, which <= high)
        return te.if_then_else(among, diagonal(*i[:-2], *line, place), data(*i))

    return te.compute(data.shape, element, name="T_matrix_set_diag", tag=tag.INJECTIVE)


def _check_diagonal(data: te.Tensor, diagonal: te.Tensor, low: int, high: int) -> None:
    if low > high:
        raise ExprValueError(f"matrix_set_diag: diagonals {low} to {high} are none")
    if len(data.shape) < 2:
        raise ExprValueError(f"matrix_set_diag: takes matrices, got {len(data.shape)} dimensions")
    wanted = len(data.shape) - (low == high)
    if len(diagonal.shape) != wanted:
        raise ExprValueError(f"matrix_set_diag: the diagonal has {len(diagonal.shape)} dimensions instead of {wanted}")
    _same_known(diagonal.shape[: len(data.shape) - 2], data.shape[:-2])
    if low != high and not equal_const_int(diagonal.shape[-2], high - low + 1):
        raise ExprValueError(f"matrix_set_diag: {diagonal.shape[-2]} rows for {high - low + 1} diagonals")
    rows, columns = data.shape[-2:]
    if isinstance(rows, IntImm) and isinstance(columns, IntImm):
        longest = min(rows.value + min(high, 0), columns.value - max(low, 0))
        if longest <= 0 or not equal_const_int(diagonal.shape[-1], longest):
            raise ExprValueError(
                f"matrix_set_diag: diagonals {low} to {high} of {rows.value} x {columns.value} have {longest} "
                f"elements, {diagonal.shape[-1]} are given"
            )


def _same_known(first: Sequence, second: Sequence) -> None:
    for a, b in zip(first, second):
        if not agree(a, b, "batches of the data against the diagonals'"):
            raise ExprValueError(f"matrix_set_diag: dimensions of {a.value} and {b.value} should be the same")


__all__ = [
    "adv_index", "gather", "gather_nd", "matrix_set_diag", "one_hot", "sequence_mask", "take", "trilu", "unravel_index",
]  # fmt: skip
