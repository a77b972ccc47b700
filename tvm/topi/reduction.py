"""Reductions: sums, products, extrema and their indices along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te, tir
from ..dtype import info
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import PrimExpr, const, convert
from . import tag, utils
from .assumptions import agree, refuse_empty
from .utils import check_tensor, equal_const_int, normalize_axes, ravel_index


def least(dtype: str) -> PrimExpr:
    return -tir.infinity(dtype) if info(dtype).is_float else te.min_value(dtype)


def wide(dtype: str) -> str:
    """Return the accumulation dtype of an average, because sums in short dtypes overflow."""
    return "float32" if info(dtype).is_float and info(dtype).bits < 32 else dtype


def greatest(dtype: str) -> PrimExpr:
    return tir.infinity(dtype) if info(dtype).is_float else te.max_value(dtype)


_all = te.comm_reducer(lambda x, y: primop.logical_and(x, y), lambda dtype: const(True, dtype), "all")
_any = te.comm_reducer(lambda x, y: primop.logical_or(x, y), lambda dtype: const(False, dtype), "any")


def _reduced_shape(data: te.Tensor, axes: list[int], keepdims: bool) -> tuple:
    one = convert(1)
    if keepdims:
        return tuple(one if place in axes else dim for place, dim in enumerate(data.shape))
    return tuple(dim for place, dim in enumerate(data.shape) if place not in axes)


def _reading(data: te.Tensor, axes: list[int], keepdims: bool) -> tuple[list, Callable[[tuple], list]]:
    """Return one reduction axis for each of ``axes``, and a function from the indices of an output element to those of
    the input."""
    reduced = [te.reduce_axis((0, data.shape[axis]), name=f"k{axis}") for axis in axes]
    over = dict(zip(axes, reduced))

    def place(indices: tuple) -> list:
        left = list(indices)
        result = []
        for axis in range(len(data.shape)):
            own = left.pop(0) if keepdims or axis not in over else None
            result.append(over[axis].var if axis in over else own)
        return result

    return reduced, place


def comm_reduce(data, axis=None, keepdims=False, func=te.sum, is_idx_reduce=False):
    """``data`` reduced over ``axis`` (all axes if None) by a reduction of te, or by a reduction of pairs (index,
    value)."""
    check_tensor(data, "reduction")
    axes = sorted(normalize_axes(axis, len(data.shape), "reduction"))
    if is_idx_reduce:
        return _index_reduce(data, axes, keepdims, func)
    name = f"T_{func.__name__}"
    if not axes:
        return te.compute(data.shape, lambda *i: data(*i), name=name, tag=tag.ELEMWISE)
    reduced, place = _reading(data, axes, keepdims)
    shape = _reduced_shape(data, axes, keepdims)
    return te.compute(shape, lambda *i: func(data(*place(i)), axis=reduced), name=name, tag=tag.COMM_REDUCE)


def _index_reduce(data, axes, keepdims, func):
    if not axes:
        return te.compute(data.shape, lambda *i: const(0, "int32"), name="T_place", tag=tag.ELEMWISE)
    reduced, place = _reading(data, axes, keepdims)
    dims = [data.shape[axis] for axis in axes]
    shape = _reduced_shape(data, axes, keepdims)
    refuse_empty(utils.prod(dims), shape, func.__name__)

    def pair(*indices):
        index = ravel_index([axis.var for axis in reduced], dims)
        return func((primop.cast("int32", index), data(*place(indices))), axis=reduced)

    places, _ = te.compute(shape, pair, name=f"{data.op.name}_{func.__name__}", tag=tag.COMM_REDUCE_IDX)
    return te.compute(shape, lambda *i: places(*i), name=f"T_{func.__name__}", tag=tag.COMM_REDUCE)


def _index_reduction(name: str, beyond: Callable, worst: Callable[[str], PrimExpr], last: bool) -> Callable:
    """Return a reduction of pairs (index, value) to the extreme value. NaN counts as the most extreme value, as in
    NumPy. The result does not depend on the order of combination: of equal values the first (or last) index is
    chosen."""

    def combine(lhs, rhs):
        farther, level = beyond(lhs[1], rhs[1]), primop.equal(lhs[1], rhs[1])
        if info(lhs[1].dtype).is_float:
            left, right = te.isnan(lhs[1]), te.isnan(rhs[1])
            farther = tir.any(farther, tir.all(left, primop.logical_not(right)))
            level = tir.any(level, tir.all(left, right))
        sooner = lhs[0] > rhs[0] if last else lhs[0] < rhs[0]
        chosen = tir.any(farther, tir.all(level, sooner))
        return tir.Select(chosen, lhs[0], rhs[0]), tir.Select(chosen, lhs[1], rhs[1])

    def identity(place, value):
        return const(-1, place) if last else te.max_value(place), worst(value)

    return te.comm_reducer(combine, identity, name=name)


_ARGMAX = {last: _index_reduction("argmax", primop.greater, least, last) for last in (False, True)}
_ARGMIN = {last: _index_reduction("argmin", primop.less, greatest, last) for last in (False, True)}
# Combines pairs (index, value) to the pair with the largest value; of equal values the smallest index is chosen.
first_place = _ARGMAX[False]


def sum(data, axis=None, keepdims=False):
    """The sum over axes; 0 for an empty reduction.

    Examples
    --------
    >>> topi.sum(te.placeholder((2, 3)), axis=1, keepdims=True).shape
    (2, 1)
    """
    return comm_reduce(data, axis, keepdims, te.sum)


def prod(data, axis=None, keepdims=False):
    """The product over axes; 1 for an empty reduction."""
    return comm_reduce(data, axis, keepdims, te.prod)


def max(data, axis=None, keepdims=False):
    """The maximum over axes; NaN if a float element is NaN."""
    return comm_reduce(data, axis, keepdims, te.max)


def min(data, axis=None, keepdims=False):
    """The minimum over axes; NaN if a float element is NaN."""
    return comm_reduce(data, axis, keepdims, te.min)


def all(data, axis=None, keepdims=False):
    """Whether all elements are true (nonzero)."""
    return comm_reduce(_as_bool(data), axis, keepdims, _all)


def any(data, axis=None, keepdims=False):
    """Whether any element is true (nonzero)."""
    return comm_reduce(_as_bool(data), axis, keepdims, _any)


def _as_bool(data: Any) -> Any:
    check_tensor(data, "reduction")
    if info(data.dtype).is_bool:
        return data
    zero = const(0, data.dtype)
    return te.compute(data.shape, lambda *i: primop.not_equal(data(*i), zero), name="T_truth", tag=tag.ELEMWISE)


def argmax(data, axis=None, keepdims=False, select_last_index=False):
    """The index (int32) of the maximum over axes, counted in row-major order; NaN counts as the maximum."""
    return comm_reduce(data, axis, keepdims, _ARGMAX[bool(select_last_index)], is_idx_reduce=True)


def argmin(data, axis=None, keepdims=False, select_last_index=False):
    """The index (int32) of the minimum over axes, counted in row-major order; NaN counts as the minimum."""
    return comm_reduce(data, axis, keepdims, _ARGMIN[bool(select_last_index)], is_idx_reduce=True)


def mean(data, axis=None, keepdims=False):
    """The mean over axes.

    Raises
    ------
    ExprTypeError
        The data is bool.
    """
    check_tensor(data, "mean")
    if info(data.dtype).is_bool:
        raise ExprTypeError("mean: not defined for bool; cast to float32 first")
    kind = wide(data.dtype)
    source = data
    if kind != data.dtype:
        source = te.compute(data.shape, lambda *i: data(*i).astype(kind), name="T_wide", tag=tag.ELEMWISE)
    total = sum(source, axis, keepdims)
    axes = normalize_axes(axis, len(data.shape), "mean")
    count = primop.cast(kind, convert(utils.prod(data.shape[a] for a in axes)))
    # Integer means are truncated towards zero, like integer quotients.
    return te.compute(
        total.shape, lambda *i: te.div(total(*i), count).astype(data.dtype), name="T_mean", tag=tag.ELEMWISE
    )


def collapse_sum(data, target_shape):
    """The sum over the axes along which ``target_shape`` would be broadcast to the shape of ``data``.

    Raises
    ------
    ExprValueError
        The target shape does not broadcast to the shape of the data.
    """
    check_tensor(data, "collapse_sum")
    target = tuple(convert(dim) for dim in target_shape)
    skip = len(data.shape) - len(target)
    if skip < 0:
        raise ExprValueError(f"collapse_sum: {list(target)} has more dimensions than {list(data.shape)}")
    inner = []
    for place, (dim, whole) in enumerate(zip(target, data.shape[skip:]), skip):
        if utils.same_dim(dim, whole):
            continue
        if not equal_const_int(dim, 1):
            if agree(dim, whole, "a remaining dimension equal to that of the data"):
                continue
            raise ExprValueError(f"collapse_sum: {list(target)} does not broadcast to {list(data.shape)}")
        inner.append(place)
    if not inner and not skip:
        return data
    reduced, place = _reading(data, [*range(skip), *inner], False)
    kept = {place - skip for place in inner}

    def element(*indices):
        left = [index for axis, index in enumerate(indices) if axis not in kept]
        return te.sum(data(*place(tuple(left))), axis=reduced)

    return te.compute(target, element, name="T_collapse_sum", tag=tag.COMM_REDUCE)


__all__ = ["all", "any", "argmax", "argmin", "collapse_sum", "comm_reduce", "max", "mean", "min", "prod", "sum"]
