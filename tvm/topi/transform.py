"""Operators that change shape or order: reshape, transpose, concatenate, split, repeat and others."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import Any

from .. import te, tir
from ..dtype import canonical, info
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import FloatImm, IntImm, PrimExpr, const, convert
from ..target.layout import bijective_layout
from . import tag, utils
from .assumptions import agree, assume, divides
from .broadcast import _as_bool, broadcast_index, broadcast_shape
from .indexing import adv_index, gather, gather_nd, matrix_set_diag, one_hot, sequence_mask, take, trilu, unravel_index
from .nominal import Nominal
from .scatter import invert_permutation, scatter_elements, scatter_nd, sparse_to_dense
from .slicing import dynamic_strided_slice, strided_set, strided_slice
from .utils import check_tensor, equal_const_int, get_const_int, normalize_axes, normalize_axis, ravel_index, same_dim


def _injective(shape: Sequence, element, name: str) -> te.Tensor:
    return te.compute(shape, element, name=f"T_{name}", tag=tag.INJECTIVE)


# --- dimensions added, removed, moved ------------------------------------------------------------------------------


def expand_dims(a, axis, num_newaxis=1):
    """``a`` with ``num_newaxis`` dimensions of size 1 inserted before ``axis``.

    Raises
    ------
    ExprValueError
        ``num_newaxis`` is negative.
    """
    check_tensor(a, "expand_dims")
    axis = normalize_axis(axis, len(a.shape) + 1, "expand_dims")
    count = get_const_int(num_newaxis)
    if count < 0:
        raise ExprValueError(f"expand_dims: num_newaxis must not be negative, got {count}")
    shape = [*a.shape[:axis], *[convert(1)] * count, *a.shape[axis:]]
    return te.compute(shape, lambda *i: a(*i[:axis], *i[axis + count :]), name="T_expand_dims", tag=tag.BROADCAST)


def expand_like(a, shape_like, axis):
    """``a`` broadcast to the shape of ``shape_like``, which has the additional dimensions ``axis``.

    Raises
    ------
    ExprValueError
        The new dimensions do not complete the shape to that of ``shape_like``.
    """
    check_tensor(a, "expand_like"), check_tensor(shape_like, "expand_like")
    axes = normalize_axes(axis, len(shape_like.shape), "expand_like")
    kept = [place for place in range(len(shape_like.shape)) if place not in axes]
    if len(kept) != len(a.shape):
        # A reduction over all axes leaves one dimension of size 1.
        if len(a.shape) == 1 and equal_const_int(a.shape[0], 1) and not kept:
            return _injective(shape_like.shape, lambda *i: a(0), "expand_like")
        raise ExprValueError(
            f"expand_like: {len(a.shape)} dimensions and {len(axes)} new ones do not match "
            f"{len(shape_like.shape)} dimensions of shape_like"
        )
    return _injective(shape_like.shape, lambda *i: a(*[i[place] for place in kept]), "expand_like")


def squeeze(a, axis=None):
    """``a`` without the dimensions of size 1: those at ``axis``, or all.

    Raises
    ------
    ExprValueError
        A dimension at ``axis`` does not have size 1.
    """
    check_tensor(a, "squeeze")
    if axis is None:
        axes = [place for place, dim in enumerate(a.shape) if equal_const_int(dim, 1)]
    else:
        axes = normalize_axes(axis, len(a.shape), "squeeze")
    for place in axes:
        if not agree(a.shape[place], 1, f"size 1 of axis {place}, which is removed"):
            raise ExprValueError(
                f"squeeze: dimension {place} has size {a.shape[place].value}; only dimensions of size 1 can be removed"
            )
    kept = [place for place in range(len(a.shape)) if place not in axes]

    def element(*indices):
        own = dict(zip(kept, indices))
        return a(*[own.get(place, const(0, a.shape[place].dtype)) for place in range(len(a.shape))])

    return _injective([a.shape[place] for place in kept], element, "squeeze")


def transpose(a, axes=None):
    """``a`` with permuted dimensions; in reverse order by default.

    Raises
    ------
    ExprValueError
        The number of axes differs from the number of dimensions.

    Examples
    --------
    >>> topi.transpose(te.placeholder((2, 3)), (1, 0)).shape
    (3, 2)
    """
    check_tensor(a, "transpose")
    order = list(range(len(a.shape)))[::-1] if not axes else normalize_axes(axes, len(a.shape), "transpose")
    if len(order) != len(a.shape):
        raise ExprValueError(f"transpose: {len(order)} axes for a tensor of {len(a.shape)} dimensions")
    source = [order.index(place) for place in range(len(order))]
    return _injective([a.shape[place] for place in order], lambda *i: a(*[i[place] for place in source]), "transpose")


def flip(a, axis=0):
    """``a`` with the elements along ``axis`` (one axis or several) reversed."""
    check_tensor(a, "flip")
    axes = normalize_axes(axis, len(a.shape), "flip")

    def element(*indices):
        return a(*[a.shape[p] - 1 - i if p in axes else i for p, i in enumerate(indices)])

    return _injective(a.shape, element, "flip")


def reverse_sequence(a, seq_lengths, seq_axis=1, batch_axis=0):
    """``a`` with the first ``seq_lengths[batch]`` elements along ``seq_axis`` of each batch reversed.

    Raises
    ------
    ExprValueError
        The lengths are not a vector with one entry for each batch.
    """
    check_tensor(a, "reverse_sequence"), check_tensor(seq_lengths, "reverse_sequence")
    seq_axis = normalize_axis(seq_axis, len(a.shape), "reverse_sequence")
    batch_axis = normalize_axis(batch_axis, len(a.shape), "reverse_sequence")
    if len(seq_lengths.shape) != 1:
        raise ExprValueError(f"reverse_sequence: the lengths must have 1 dimension, got {len(seq_lengths.shape)}")
    lengths, batches = seq_lengths.shape[0], a.shape[batch_axis]
    if not agree(lengths, batches, "lengths against batches"):
        raise ExprValueError(f"reverse_sequence: there are {lengths.value} lengths for {batches.value} batches")

    def element(*indices):
        place = indices[seq_axis]
        length = primop.cast(place.dtype, seq_lengths(indices[batch_axis]))
        length = te.min(length, a.shape[seq_axis])
        own = list(indices)
        own[seq_axis] = tir.Select(tir.all(length > 1, place < length), length - 1 - place, place)
        return a(*own)

    return _injective(a.shape, element, "reverse_sequence")


# --- reshape -------------------------------------------------------------------------------------------------------


def reshape(a, newshape):
    """The elements in the same order with a new shape, which may contain one -1 for an inferred dimension."""
    check_tensor(a, "reshape")
    shape = _new_shape(a, newshape)
    if utils.is_empty_shape(shape) or utils.is_empty_shape(a.shape):
        zeros = [const(0, dim.dtype) for dim in a.shape]
        return _injective(shape, lambda *i: a(*zeros), "reshape")
    groups = _groups(a.shape, shape)

    def element(*indices):
        own: list = []
        for (old_begin, old_end), (new_begin, new_end) in groups:
            # Dimensions of size 1 are skipped, so that the index of an unchanged dimension stays the same variable.
            place = range(new_begin, new_end)
            new = [(indices[i], shape[i]) for i in place if not equal_const_int(shape[i], 1)]
            flat = convert(ravel_index([i for i, _ in new], [d for _, d in new]))
            old = a.shape[old_begin:old_end]
            found = iter(utils.unravel_index(flat, [d for d in old if not equal_const_int(d, 1)]))
            own.extend(const(0, d.dtype) if equal_const_int(d, 1) else next(found) for d in old)
        return a(*own)

    return _injective(shape, element, "reshape")


def _new_shape(a: te.Tensor, newshape: Any) -> list[PrimExpr]:
    if isinstance(newshape, (int, PrimExpr)):
        newshape = [newshape]
    shape = [convert(dim) for dim in newshape]
    free = [place for place, dim in enumerate(shape) if isinstance(dim, IntImm) and dim.value == -1]
    if len(free) > 1:
        raise ExprValueError(f"reshape: the shape {list(newshape)} may contain only one -1")
    total = utils.simplify(convert(utils.prod(a.shape)))
    if free:
        others = utils.simplify(convert(utils.prod(dim for place, dim in enumerate(shape) if place != free[0])))
        if isinstance(others, IntImm) and others.value == 0:
            raise ExprValueError(f"reshape: -1 cannot be inferred in {list(newshape)}, because another dimension is 0")
        shape[free[0]] = utils.simplify(total // others)
    wanted = utils.simplify(convert(utils.prod(shape)))
    if isinstance(total, IntImm) and isinstance(wanted, IntImm) and total.value != wanted.value:
        raise ExprValueError(
            f"reshape: a tensor of shape {list(a.shape)} has {total.value} elements and cannot be reshaped to "
            f"{list(newshape)}"
        )
    return shape


def _groups(old: Sequence, new: Sequence) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return groups of consecutive old and new dimensions with the same product. Indices are mapped group by group, so
    that an unchanged dimension needs no division. Products of dynamic dimensions are compared with primes as their
    values."""
    sizes = Nominal()
    groups, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        first_old, first_new = i, j
        if i < len(old) and j < len(new) and same_dim(old[i], new[j]):
            groups.append(((i, i + 1), (j, j + 1)))
            i, j = i + 1, j + 1
            continue
        left = right = 1
        while i < len(old) or j < len(new):
            if j >= len(new) or (i < len(old) and left <= right):
                left, i = left * sizes.size(old[i]), i + 1
            else:
                right, j = right * sizes.size(new[j]), j + 1
            if left == right and j > first_new and i > first_old:
                break
        groups.append(((first_old, i), (first_new, j)))
    return groups


# --- joining and splitting -------------------------------------------------------------------------------------------


def _check_alike(tensors: list, axis: int | None, what: str) -> None:
    first = tensors[0]
    for other in tensors[1:]:
        if other.dtype != first.dtype:
            raise ExprTypeError(f"{what}: the dtypes differ: {first.dtype} and {other.dtype}")
        alike = len(other.shape) == len(first.shape) and builtins.all(
            place == axis or agree(a, b, f"equal sizes along axis {place}")
            for place, (a, b) in enumerate(zip(first.shape, other.shape))
        )
        if not alike:
            besides = "" if axis is None else f" besides axis {axis}"
            raise ExprValueError(f"{what}: the shapes differ{besides}: {list(first.shape)} and {list(other.shape)}")


def _tensors(a_tuple: Any, what: str) -> list[te.Tensor]:
    tensors = [a_tuple] if isinstance(a_tuple, te.Tensor) else list(a_tuple)
    if not tensors:
        raise ExprValueError(f"{what}: at least one tensor is needed")
    return [check_tensor(t, what) for t in tensors]


def concatenate(a_tuple, axis=0):
    """The tensors joined along ``axis``.

    Raises
    ------
    ExprValueError
        The tensors have no dimensions.

    Examples
    --------
    >>> topi.concatenate((te.placeholder((2, 3)), te.placeholder((4, 3))), axis=0).shape
    (6, 3)
    """
    tensors = _tensors(a_tuple, "concatenate")
    if not tensors[0].shape:
        raise ExprValueError("concatenate: tensors of 0 dimensions have no axis; use stack")
    axis = normalize_axis(axis, len(tensors[0].shape), "concatenate")
    _check_alike(tensors, axis, "concatenate")
    tensors = [t for t in tensors if not equal_const_int(t.shape[axis], 0)] or tensors[:1]
    # Write the sum of sizes with the dtype of the output dimension.
    ends = list(itertools.accumulate(t.shape[axis] for t in tensors))
    shape = list(tensors[0].shape)
    shape[axis] = ends[-1]

    def element(*indices):
        place = indices[axis]
        value = tensors[0](*indices)
        for t, begin in zip(tensors[1:], ends):
            value = te.if_then_else(place >= begin, t(*indices[:axis], place - begin, *indices[axis + 1 :]), value)
        return value

    return _injective(shape, element, "concat")


def stack(a, axis=0):
    """Tensors of the same shape joined along a new axis."""
    tensors = _tensors(a, "stack")
    axis = normalize_axis(axis, len(tensors[0].shape) + 1, "stack")
    _check_alike(tensors, None, "stack")
    shape = [*tensors[0].shape[:axis], convert(len(tensors)), *tensors[0].shape[axis:]]

    def element(*indices):
        which, own = indices[axis], (*indices[:axis], *indices[axis + 1 :])
        value = tensors[0](*own)
        for number, t in enumerate(tensors[1:], 1):
            value = te.if_then_else(primop.equal(which, number), t(*own), value)
        return value

    return _injective(shape, element, "stack")


def split(ary, indices_or_sections, axis=0):
    """The parts along ``axis``: a number of equal parts, or parts split at the given indices.

    Raises
    ------
    ExprValueError
        The parts are not equal, or the split indices are not increasing and within the dimension.
    """
    check_tensor(ary, "split")
    axis = normalize_axis(axis, len(ary.shape), "split")
    whole = ary.shape[axis]
    if isinstance(indices_or_sections, (int, IntImm)):
        sections = get_const_int(indices_or_sections)
        if sections <= 0:
            raise ExprValueError(f"split: the number of parts must be positive, got {sections}")
        if not divides(whole, sections, f"a size divisible into {sections} equal parts"):
            raise ExprValueError(f"split: a dimension of {whole.value} is not divisible into {sections} equal parts")
        size = utils.simplify(whole // sections)
        begins = [utils.simplify(size * number) for number in range(sections)]
        ends = [utils.simplify(begin + size) for begin in begins]
    else:
        cuts = [convert(cut) for cut in indices_or_sections]
        begins = [const(0, whole.dtype), *cuts]
        ends = [*cuts, whole]
    for begin, end in zip(begins, ends):
        assume(end >= begin, "increasing split indices within the dimension")
        if isinstance(begin, IntImm) and isinstance(end, IntImm) and begin.value > end.value:
            raise ExprValueError(f"split: the indices {list(indices_or_sections)} are not increasing within 0..{whole}")

    def part(begin, end):
        shape = list(ary.shape)
        shape[axis] = utils.simplify(end - begin)
        return _injective(shape, lambda *i: ary(*i[:axis], i[axis] + begin, *i[axis + 1 :]), "split")

    return [part(begin, end) for begin, end in zip(begins, ends)]


def repeat(a, repeats, axis):
    """``a`` with every element repeated ``repeats`` times along ``axis``.

    Raises
    ------
    ExprValueError
        ``repeats`` is not positive.
    """
    check_tensor(a, "repeat")
    axis = normalize_axis(axis, len(a.shape), "repeat")
    repeats = get_const_int(repeats)
    if repeats < 1:
        raise ExprValueError(f"repeat: the number of repeats must be positive, got {repeats}")
    shape = list(a.shape)
    shape[axis] = utils.simplify(a.shape[axis] * repeats)
    return te.compute(
        shape, lambda *i: a(*i[:axis], i[axis] // repeats, *i[axis + 1 :]), name="T_repeat", tag=tag.BROADCAST
    )


def tile(a, reps):
    """The whole tensor repeated ``reps`` times along each axis."""
    check_tensor(a, "tile")
    reps = [convert(r) for r in (reps if isinstance(reps, (list, tuple)) else [reps])]
    ndim = max(len(a.shape), len(reps))
    shape = [convert(1)] * (ndim - len(a.shape)) + list(a.shape)
    reps = [convert(1)] * (ndim - len(reps)) + reps
    skip = ndim - len(a.shape)

    def element(*indices):
        own = []
        for index, dim, times in zip(indices[skip:], a.shape, reps[skip:]):
            if isinstance(times, IntImm) and times.value == 1:
                own.append(index)
            else:
                # An empty tensor has no elements, and its index would be a remainder by zero.
                single = equal_const_int(dim, 1) or equal_const_int(dim, 0)
                own.append(const(0, index.dtype) if single else index % dim)
        return a(*own)

    whole = [utils.simplify(dim * times) for dim, times in zip(shape, reps)]
    return te.compute(whole, element, name="T_tile", tag=tag.BROADCAST)


def meshgrid(a_tuple, indexing):
    """The coordinate tensors of vectors: one tensor for each vector, with the shape of the grid.

    Raises
    ------
    ExprValueError
        ``indexing`` is neither ij nor xy, or a tensor has more than one dimension.
    """
    vectors = _tensors(a_tuple, "meshgrid")
    if indexing not in ("ij", "xy"):
        raise ExprValueError(f"meshgrid: indexing must be 'ij' or 'xy', got '{indexing}'")
    if builtins.any(len(t.shape) > 1 for t in vectors):
        raise ExprValueError("meshgrid: tensors must be vectors or scalars")
    lengths = [t.shape[0] if t.shape else convert(1) for t in vectors]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[0], order[1] = 1, 0
    shape = [lengths[place] for place in order]

    def grid(number, t):
        along = order.index(number)
        return _injective(shape, lambda *i: t(i[along]) if t.shape else t(), "meshgrid")

    return [grid(number, t) for number, t in enumerate(vectors)]


def sliding_window(data, axis, window_shape, strides):
    """Sliding windows over the axes starting at ``axis``: the number of windows along each axis, then the dimensions of
    the window.

    Raises
    ------
    ExprValueError
        Window and strides do not have one positive value for each axis, or the window does not fit.
    """
    check_tensor(data, "sliding_window")
    ndim = len(data.shape)
    axis = normalize_axis(axis, ndim, "sliding_window")
    window, steps = [get_const_int(w) for w in window_shape], [get_const_int(s) for s in strides]
    count = ndim - axis
    if len(window) != count or len(steps) != count:
        raise ExprValueError(
            f"sliding_window: window {window} and strides {steps} must have one value for each of the {count} axes "
            f"starting at {axis}"
        )
    if min(window + steps) < 1:
        raise ExprValueError(f"sliding_window: window {window} and strides {steps} must be positive")
    moved = []
    for dim, size, step in zip(data.shape[axis:], window, steps):
        assume(dim >= size, f"a dimension with at least {size} elements for the window")
        if isinstance(dim, IntImm) and dim.value < size:
            raise ExprValueError(f"sliding_window: a window of {size} does not fit a dimension of {dim.value}")
        moved.append(utils.simplify((dim - size) // step + 1))

    def element(*indices):
        where = indices[axis : axis + count]
        inside = indices[axis + count :]
        return data(*indices[:axis], *[w * step + i for w, step, i in zip(where, steps, inside)])

    return _injective([*data.shape[:axis], *moved, *window], element, "sliding_window")


def layout_transform(array, src_layout, dst_layout, schedule_rule="None"):
    """``array`` in another layout, such as NCHW16c; padding of blocks is zero.

    Raises
    ------
    ExprValueError
        The layout cannot be converted, or has a different number of axes than the tensor.
    """
    check_tensor(array, "layout_transform")
    if str(src_layout) == str(dst_layout):
        return array
    mapping = bijective_layout(src_layout, dst_layout)
    if mapping is None:
        raise ExprValueError(f"layout_transform: layout {src_layout} cannot be converted to {dst_layout}")
    if len(array.shape) != len(mapping.src_layout):
        raise ExprValueError(
            f"layout_transform: layout {src_layout} has {len(mapping.src_layout)} axes, but the tensor has "
            f"{len(array.shape)}"
        )
    shape = [utils.simplify(convert(dim)) for dim in mapping.forward_shape(utils.get_const_tuple(array.shape))]

    def element(*indices):
        own = [utils.simplify(convert(index)) for index in mapping.backward_index(indices)]
        value = array(*own)
        spare = _beyond(mapping, array.shape, shape, own)
        return value if spare is None else te.if_then_else(spare, value, const(0, array.dtype))

    attrs = {"schedule_rule": schedule_rule, "src_layout": str(src_layout), "dst_layout": str(dst_layout)}
    return te.compute(shape, element, name="T_layout_trans", tag=tag.INJECTIVE, attrs=attrs)


def _beyond(mapping, old: Sequence, new: Sequence, own: Sequence) -> PrimExpr | None:
    """Return the condition that an element of the new layout exists in the old one, or None if all do."""
    back = [utils.simplify(convert(dim)) for dim in mapping.backward_shape(utils.get_const_tuple(new))]
    conditions = [index < dim for index, dim, wide in zip(own, old, back) if not same_dim(dim, wide)]
    return tir.all(*conditions) if conditions else None


# --- tensors created from shapes and numbers -------------------------------------------------------------------------


def arange(start, stop=None, step=1, dtype="float32"):
    """start, start + step, ... up to ``stop`` (exclusive); from 0 if only one number is given."""
    if stop is None:
        start, stop = 0, start
    dtype = canonical(dtype)
    count = _arange_count(start, stop, step)
    first, by = primop.cast(dtype, convert(start)), primop.cast(dtype, convert(step))
    return te.compute((count,), lambda i: first + by * primop.cast(dtype, i), name="T_arange", tag=tag.INJECTIVE)


def _arange_count(start: Any, stop: Any, step: Any) -> Any:
    values = [v.value if isinstance(v, (IntImm, FloatImm)) else v for v in (start, stop, step)]
    if builtins.all(isinstance(v, (int, float)) for v in values):
        begin, end, by = values
        if by == 0:
            raise ExprValueError("arange: the step must not be zero")
        return max(0, math.ceil((end - begin) / by))
    begin, end, by = (convert(v) for v in values)
    if builtins.any(info(v.dtype).is_float for v in (begin, end, by)):
        count = te.ceil(primop.cast("float64", end - begin) / primop.cast("float64", by))
        return te.max(primop.cast("int32", count), 0)
    upward = (end - begin + by - 1) // by
    downward = (begin - end - by - 1) // (-by)
    sign = primop.literal(by)
    count = upward if sign is not None and sign > 0 else downward if sign is not None else None
    return utils.simplify(te.max(tir.Select(by > 0, upward, downward) if count is None else count, 0))


def eye(n, m=None, k=0, dtype="float32"):
    """A matrix with ones on the ``k``-th diagonal and zeros elsewhere."""
    dtype = canonical(dtype)
    one, zero = const(1, dtype), const(0, dtype)
    return _injective((n, n if m is None else m), lambda i, j: tir.Select(primop.equal(j - i, k), one, zero), "eye")


def shape(array, dtype="int32"):
    """The shape as a tensor."""
    check_tensor(array, "shape")
    dtype = canonical(dtype)

    def element(i):
        value = const(0, dtype)
        for place, dim in reversed(list(enumerate(array.shape))):
            value = tir.Select(primop.equal(i, place), primop.cast(dtype, dim), value)
        return value

    return _injective((len(array.shape),), element, "shape")


def ndarray_size(array, dtype="int32"):
    """The number of elements as a tensor of 0 dimensions."""
    check_tensor(array, "ndarray_size")
    total = primop.cast(canonical(dtype), convert(utils.prod(array.shape)))
    return _injective((), lambda *i: total, "ndarray_size")


# --- selection and matmuls -------------------------------------------------------------------------------------------


def where(condition, x, y):
    """The elements of ``x`` where the condition is true (nonzero), else those of ``y``; all operands are broadcast
    together."""
    check_tensor(condition, "where")
    operands = [v if isinstance(v, te.Tensor) else convert(v) for v in (x, y)]
    joint = broadcast_shape(condition.shape, *(v.shape for v in operands if isinstance(v, te.Tensor)), what="where")

    def at(operand, indices):
        return operand(*broadcast_index(operand.shape, joint, indices)) if isinstance(operand, te.Tensor) else operand

    def element(*indices):
        a, b = primop.match_types(at(operands[0], indices), at(operands[1], indices))
        return tir.Select(_as_bool(at(condition, indices), "where"), a, b)

    return te.compute(joint, element, name="T_where", tag=tag.BROADCAST)


def matmul(a, b, transp_a=False, transp_b=False):
    """The matmul of two matrices, each optionally transposed.

    Raises
    ------
    ExprValueError
        An operand is not a matrix.
    """
    check_tensor(a, "matmul"), check_tensor(b, "matmul")
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ExprValueError(f"matmul: operands must be matrices, got {len(a.shape)} and {len(b.shape)} dimensions")
    rows, inner = a.shape[::-1] if transp_a else a.shape
    other, columns = b.shape[::-1] if transp_b else b.shape
    _check_inner([inner], [other], "matmul")
    k = te.reduce_axis((0, inner), name="k")

    def element(i, j):
        left = a(k, i) if transp_a else a(i, k)
        right = b(j, k) if transp_b else b(k, j)
        return te.sum(left * right, axis=k)

    return te.compute((rows, columns), element, name="T_matmul", tag="matmul")


def _check_inner(first: Sequence, second: Sequence, what: str) -> None:
    for a, b in zip(first, second):
        if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
            raise ExprValueError(f"{what}: reduction dimensions {a.value} and {b.value} must be equal")


def tensordot(a, b, axes):
    """Products reduced over ``axes``: the number of last axes of ``a`` and first axes of ``b``, or two lists of axes.

    Raises
    ------
    ExprValueError
        The operands have different numbers of reduction axes.
    """
    check_tensor(a, "tensordot"), check_tensor(b, "tensordot")
    if isinstance(axes, (int, IntImm)):
        count = get_const_int(axes)
        left, right = list(range(len(a.shape) - count, len(a.shape))), list(range(count))
    else:
        left, right = (list(side) if isinstance(side, (list, tuple)) else [side] for side in axes)
    left = normalize_axes(left, len(a.shape), "tensordot")
    right = normalize_axes(right, len(b.shape), "tensordot")
    if len(left) != len(right):
        raise ExprValueError(
            f"tensordot: {len(left)} axes of the first operand do not match {len(right)} of the second"
        )
    _check_inner([a.shape[p] for p in left], [b.shape[p] for p in right], "tensordot")
    free_a = [p for p in range(len(a.shape)) if p not in left]
    free_b = [p for p in range(len(b.shape)) if p not in right]
    over = [te.reduce_axis((0, a.shape[p]), name=f"k{n}") for n, p in enumerate(left)]

    def element(*indices):
        at_a = dict(zip(free_a, indices)) | {p: k.var for p, k in zip(left, over)}
        at_b = dict(zip(free_b, indices[len(free_a) :])) | {p: k.var for p, k in zip(right, over)}
        product = a(*[at_a[p] for p in range(len(a.shape))]) * b(*[at_b[p] for p in range(len(b.shape))])
        return te.sum(product, axis=over) if over else product

    out = [a.shape[p] for p in free_a] + [b.shape[p] for p in free_b]
    return te.compute(out, element, name="T_tensordot", tag="matmul" if over else tag.INJECTIVE)


__all__ = [
    "adv_index", "arange", "concatenate", "dynamic_strided_slice", "expand_dims", "expand_like", "eye",
    "flip", "gather", "gather_nd", "invert_permutation", "layout_transform", "matmul", "matrix_set_diag",
    "meshgrid", "ndarray_size", "one_hot", "repeat", "reshape", "reverse_sequence", "scatter_elements",
    "scatter_nd", "sequence_mask", "shape", "sliding_window", "sparse_to_dense", "split", "squeeze", "stack",
    "strided_set", "strided_slice", "take", "tensordot", "tile", "transpose", "trilu", "unravel_index", "where",
]  # fmt: skip
