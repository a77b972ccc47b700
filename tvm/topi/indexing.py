"""Operators that select elements by index tensors, and masks by position."""

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
from .broadcast import broadcast_index, broadcast_shape, floor_quotient, floor_remainder
from .utils import check_tensor, equal_const_int, get_const_int, normalize_axis


def as_index(value: PrimExpr) -> PrimExpr:
    """Return an element of an index tensor as a signed integer of sufficient width."""
    kind = info(value.dtype)
    if not kind.is_integer:
        raise ExprTypeError(f"an index tensor must have integer elements, got {value.dtype}")
    if value.dtype in ("int32", "int64"):
        return value
    return primop.cast("int64" if kind.is_uint and kind.bits >= 32 else "int32", value)


def from_end(index: PrimExpr, dim: PrimExpr) -> PrimExpr:
    """Return an index in which negative values count from the end."""
    moved = index + dim
    return tir.Select(index < 0, moved, primop.cast(moved.dtype, index))


def _integers(value: Any, what: str) -> te.Tensor:
    check_tensor(value, what)
    if not info(value.dtype).is_integer:
        raise ExprTypeError(f"{what}: indices must be integers, got {value.dtype}")
    return value


def inside(index: PrimExpr, dim: PrimExpr) -> PrimExpr:
    """Return a valid index: negative values count from the end, and indices out of bounds are clamped to the first or
    last element."""
    return te.max(te.min(from_end(index, dim), dim - 1), 0)


_INSIDE = {
    "clip": lambda index, dim: te.max(te.min(index, dim - 1), 0),
    # A dimension of size 0 has no elements to select, and 0 is not a valid divisor.
    "wrap": lambda index, dim: primop.floormod(index, 1 if equal_const_int(dim, 0) else dim),
    "fast": lambda index, dim: index,
}


def take(a, indices, axis=None, batch_dims=0, mode="clip"):
    """The elements (or slices) at ``indices`` along ``axis``; of the flattened tensor if axis is None. Indices out of
    bounds are clipped, wrapped, or (mode "fast") not checked. The first ``batch_dims`` dimensions are batch dimensions
    of both tensors.

    Raises
    ------
    ExprValueError
        ``mode`` is unknown, or there are too many batch dimensions.
    """
    check_tensor(a, "take"), _integers(indices, "take")
    if mode not in _INSIDE:
        raise ExprValueError(f"take: mode must be one of {', '.join(_INSIDE)}, got '{mode}'")
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
        raise ExprValueError(f"take: {batch_dims} batch dimensions do not fit {given}")
    refuse_empty(a.shape[axis], indices.shape, "take")
    own = len(indices.shape) - batch_dims
    for place in range(batch_dims):
        assume(indices.shape[place] <= a.shape[place], f"at most as many indices along axis {place} as elements")
    shape = [*a.shape[:axis], *indices.shape[batch_dims:], *a.shape[axis + 1 :]]

    def element_along(*i):
        place = as_index(indices(*i[:batch_dims], *i[axis : axis + own]))
        return a(*i[:axis], within(place, a.shape[axis]), *i[axis + own :])

    return te.compute(shape, element_along, name="T_take", tag=tag.INJECTIVE)


def gather(data, axis, indices):
    """out[i][j][k] = data[indices[i][j][k]][j][k] for axis 0, and analogously for other axes; negative indices count
    from the end.

    Raises
    ------
    ExprValueError
        Data and indices have different numbers of dimensions, or a dimension of the indices other than ``axis`` is
        longer than that of the data.
    """
    check_tensor(data, "gather"), _integers(indices, "gather")
    axis = normalize_axis(axis, len(data.shape), "gather")
    if len(indices.shape) != len(data.shape):
        raise ExprValueError(f"gather: data has {len(data.shape)} dimensions, but indices have {len(indices.shape)}")
    for place, (dim, own) in enumerate(zip(data.shape, indices.shape)):
        if place != axis:
            assume(own <= dim, f"at most as many indices along axis {place} as elements")
        if place != axis and isinstance(dim, IntImm) and isinstance(own, IntImm) and own.value > dim.value:
            raise ExprValueError(
                f"gather: dimension {place} of the indices is {own.value}, but that of the data is {dim.value}"
            )
    refuse_empty(data.shape[axis], indices.shape, "gather")

    def element(*i):
        place = inside(as_index(indices(*i)), data.shape[axis])
        return data(*i[:axis], place, *i[axis + 1 :])

    return te.compute(indices.shape, element, name="T_gather", tag=tag.INJECTIVE)


def gather_nd(a, indices, batch_dims=0):
    """The slices of ``a`` at the indices in the first dimension of ``indices``: out[y..., x...] = a[indices[0, y...],
    ..., indices[m-1, y...], x...]. Negative indices count from the end; float indices are truncated.

    Raises
    ------
    ExprValueError
        The indices have no dimension, or more index components than the data has dimensions.
    """
    check_tensor(a, "gather_nd"), check_tensor(indices, "gather_nd")
    if not indices.shape:
        raise ExprValueError("gather_nd: the indices need at least one dimension")
    depth, batch_dims = get_const_int(indices.shape[0]), get_const_int(batch_dims)
    if not 0 <= batch_dims < len(indices.shape) or depth + batch_dims > len(a.shape):
        raise ExprValueError(
            f"gather_nd: {depth} index components and {batch_dims} batch dimensions exceed the {len(a.shape)} "
            "dimensions of the data"
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
    """NumPy's data[indices[0], indices[1], ...]: the index tensors are broadcast together and index the first
    dimensions.

    Raises
    ------
    ExprValueError
        There is no index tensor, or more index tensors than dimensions.
    """
    check_tensor(data, "adv_index")
    indices = [_integers(t, "adv_index") for t in indices]
    if not indices or len(indices) > len(data.shape):
        raise ExprValueError(
            f"adv_index: {len(indices)} index tensors cannot index a tensor of {len(data.shape)} dimensions"
        )
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
    """A new axis of length ``depth`` that contains ``on_value`` at the index and ``off_value`` elsewhere."""
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
    """The index along each dimension of elements that are numbered in row-major order, one row per dimension.

    Raises
    ------
    ExprValueError
        The shape has no dimensions.
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
            parts.append(floor_remainder(rest, dim))
            rest = floor_quotient(rest, dim)
        value = parts[0]
        for place, part in enumerate(parts[1:], 1):
            value = tir.Select(primop.equal(i[0], len(dims) - 1 - place), part, value)
        return primop.cast(indices.dtype, value)

    if not dims:
        raise ExprValueError("unravel_index: the shape must have at least one dimension")
    return te.compute([len(dims), *indices.shape], element, name="T_unravel_index", tag=tag.INJECTIVE)


def sequence_mask(data, valid_length, mask_value=0, axis=0):
    """``data`` with the elements after the valid length of each sequence replaced. Sequences run along ``axis`` (0 or
    1), batches along the other of these axes.

    Raises
    ------
    ExprValueError
        The data has fewer than two axes, ``axis`` is neither 0 nor 1, or the lengths are not a vector.
    """
    check_tensor(data, "sequence_mask"), check_tensor(valid_length, "sequence_mask")
    if len(data.shape) < 2:
        raise ExprValueError(f"sequence_mask: data must have at least two axes, got {len(data.shape)}")
    if axis not in (0, 1):
        raise ExprValueError(f"sequence_mask: axis must be 0 or 1, got {axis}")
    if len(valid_length.shape) != 1:
        raise ExprValueError(f"sequence_mask: the lengths must have 1 dimension, got {len(valid_length.shape)}")
    if not agree(valid_length.shape[0], data.shape[1 - axis], "lengths against batches"):
        raise ExprValueError(
            f"sequence_mask: there are {valid_length.shape[0]} lengths for {data.shape[1 - axis]} sequences"
        )
    mask = primop.cast(data.dtype, convert(mask_value))

    def element(*i):
        beyond = i[axis] >= valid_length(i[1 - axis])
        return tir.Select(beyond, mask, data(*i))

    return te.compute(data.shape, element, name="T_sequence_mask", tag=tag.INJECTIVE)


def trilu(data, k, upper):
    """The upper (or lower) triangle of matrices, starting at the ``k``-th diagonal; zero elsewhere.

    Raises
    ------
    ExprValueError
        The data has fewer than two dimensions.
    """
    check_tensor(data, "trilu")
    if len(data.shape) < 2:
        raise ExprValueError(f"trilu: data must have at least two dimensions, got {len(data.shape)}")
    zero = const(0, data.dtype)

    def element(*i):
        shift = as_index(k(*[0] * len(k.shape))) if isinstance(k, te.Tensor) else convert(k)
        row, column = i[-2], i[-1]
        kept = row + shift <= column if upper else row + shift >= column
        return tir.Select(kept, data(*i), zero)

    return te.compute(data.shape, element, name="T_trilu", tag=tag.ELEMWISE)


# Whether diagonals are aligned to the right: those above the main diagonal, those below.
_ALIGN = {
    "LEFT_LEFT": (False, False), "LEFT_RIGHT": (False, True),
    "RIGHT_LEFT": (True, False), "RIGHT_RIGHT": (True, True),
}  # fmt: skip


def matrix_set_diag(data, diagonal, k=0, align="RIGHT_LEFT"):
    """``data`` with its ``k``-th diagonal (or diagonals k[0] to k[1]) replaced. Each row of ``diagonal`` is one
    diagonal; shorter diagonals are aligned to the left or right of their row, as ``align`` defines for those above and
    below the main diagonal.

    Raises
    ------
    ExprValueError
        ``align`` is unknown.
    """
    check_tensor(data, "matrix_set_diag"), check_tensor(diagonal, "matrix_set_diag")
    if align not in _ALIGN:
        raise ExprValueError(f"matrix_set_diag: align must be one of {', '.join(_ALIGN)}, got '{align}'")
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
        raise ExprValueError(f"matrix_set_diag: the range of diagonals {low} to {high} is empty")
    if len(data.shape) < 2:
        raise ExprValueError(f"matrix_set_diag: data must have at least two dimensions, got {len(data.shape)}")
    wanted = len(data.shape) - (low == high)
    if len(diagonal.shape) != wanted:
        raise ExprValueError(f"matrix_set_diag: the diagonal must have {wanted} dimensions, got {len(diagonal.shape)}")
    _same_known(diagonal.shape[: len(data.shape) - 2], data.shape[:-2])
    if low != high and not equal_const_int(diagonal.shape[-2], high - low + 1):
        raise ExprValueError(f"matrix_set_diag: there are {diagonal.shape[-2]} rows for {high - low + 1} diagonals")
    rows, columns = data.shape[-2:]
    if isinstance(rows, IntImm) and isinstance(columns, IntImm):
        longest = min(rows.value + min(high, 0), columns.value - max(low, 0))
        if longest <= 0 or not equal_const_int(diagonal.shape[-1], longest):
            raise ExprValueError(
                f"matrix_set_diag: diagonals {low} to {high} of a {rows.value} x {columns.value} matrix have "
                f"{longest} elements, but {diagonal.shape[-1]} are given"
            )


def _same_known(first: Sequence, second: Sequence) -> None:
    for a, b in zip(first, second):
        if not agree(a, b, "equal batch dimensions of data and diagonals"):
            raise ExprValueError(f"matrix_set_diag: batch dimensions {a.value} and {b.value} must be equal")


__all__ = [
    "adv_index", "gather", "gather_nd", "matrix_set_diag", "one_hot", "sequence_mask", "take", "trilu", "unravel_index",
]  # fmt: skip
