"""Slices of a tensor: begin, end and stride along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te, tir
from ..error import ExprValueError
from ..ir import primop
from ..ir.prim import IntImm, PrimExpr, const, convert
from . import tag, utils
from .utils import check_tensor, get_const_int, normalize_axes


def _entry(values: Any, place: int) -> Any:
    """Return the entry of a list that may be too short or contain None. Constants are returned as Python integers."""
    if values is None or place >= len(values) or values[place] is None:
        return None
    value = values[place]
    return value.value if isinstance(value, IntImm) else value


def _static_bounds(begin: Any, end: Any, stride: int, dim: int) -> tuple[int, int]:
    """Return the first index and the number of elements, with the semantics of Python slices."""
    chosen = range(dim)[slice(begin, end, stride)]
    return chosen.start, len(chosen)


def _symbolic_bounds(begin: Any, end: Any, stride: int, dim: PrimExpr) -> tuple[Any, Any]:
    """Return the result of _static_bounds if the dimension or a bound is an expression."""
    low, high = (0, dim) if stride > 0 else (-1, dim - 1)

    def clamp(value, default):
        if value is None:
            return convert(default)
        value = convert(value)
        sign = primop.literal(value)
        moved = tir.Select(value < 0, value + dim, value) if sign is None else (value + dim if sign < 0 else value)
        return te.min(te.max(moved, low), high)

    first = clamp(begin, low if stride > 0 else high)
    last = clamp(end, high if stride > 0 else low)
    span = last - first if stride > 0 else first - last
    return utils.simplify(first), utils.simplify(te.max((span + abs(stride) - 1) // abs(stride), 0))


def slice_bounds(shape: Sequence, begin, end, strides, axes, slice_mode: str, what: str) -> list[tuple]:
    """Return (first index, number of elements, stride) for every axis of ``shape``."""
    if slice_mode not in ("end", "size"):
        raise ExprValueError(f"{what}: slice_mode must be 'end' or 'size', got '{slice_mode}'")
    longest = max(len(x) for x in (begin or (), end or (), strides or ()))
    axes = list(range(longest)) if axes is None else axes
    if longest > len(axes):
        raise ExprValueError(f"{what}: {longest} bounds for {len(axes)} axes")
    axes = normalize_axes(axes, len(shape), what)
    bounds = [(const(0, dim.dtype), dim, 1) for dim in shape]
    for place, axis in enumerate(axes):
        first, last, dim = _entry(begin, place), _entry(end, place), shape[axis]
        stride = 1 if slice_mode == "size" else _entry(strides, place)
        stride = 1 if stride is None else get_const_int(stride)
        if stride == 0:
            raise ExprValueError(f"{what}: the stride of axis {axis} must not be zero")
        if slice_mode == "size":
            last = _end_of_size(first, last, dim)
        known = isinstance(dim, IntImm) and all(v is None or isinstance(v, int) for v in (first, last))
        bound = _static_bounds(first, last, stride, dim.value) if known else _symbolic_bounds(first, last, stride, dim)
        bounds[axis] = (*bound, stride)
    return bounds


def _end_of_size(begin: Any, size: Any, dim: PrimExpr) -> Any:
    """Return the end of a range of ``size`` elements; a negative size means all remaining elements."""
    if size is None or (isinstance(size, int) and size < 0):
        return None
    first = 0 if begin is None else begin
    if isinstance(first, int) and first < 0:
        first = dim.value + first if isinstance(dim, IntImm) else dim + first
    return first + size


def strided_slice(a, begin, end, strides=None, axes=None, slice_mode="end"):
    """The elements from ``begin`` to ``end`` (exclusive) with step ``strides``, with the semantics of Python slices,
    along ``axes`` (the first axes if None). With slice_mode "size", ``end`` is a number of elements (-1: all remaining
    elements) and strides are 1. Bounds may be one-dimensional tensors: see dynamic_strided_slice.

    Raises
    ------
    ExprValueError
        The bounds are tensors, but ``axes`` or ``slice_mode`` is given.
    """
    check_tensor(a, "strided_slice")
    if isinstance(begin, te.Tensor) or isinstance(end, te.Tensor) or isinstance(strides, te.Tensor):
        if axes is not None or slice_mode != "end":
            raise ExprValueError("strided_slice: with tensors as bounds, axes and slice_mode are not supported")
        return dynamic_strided_slice(a, begin, end, strides)
    bounds = slice_bounds(a.shape, begin, end, strides, axes, slice_mode, "strided_slice")

    def element(*indices):
        own = [i * stride + first if stride != 1 else i + first for i, (first, _, stride) in zip(indices, bounds)]
        return a(*own)

    return te.compute([count for _, count, _ in bounds], element, name="T_strided_slice", tag=tag.INJECTIVE)


def _bound(values: Any, place: int, dtype: str) -> PrimExpr | None:
    """Return a bound of one axis read from a tensor or a list, or None if it is missing."""
    if place >= _entries(values):
        return None
    if isinstance(values, te.Tensor):
        return primop.cast(dtype, values(place))
    value = values[place]
    return None if value is None else primop.cast(dtype, convert(value))


def _entries(values: Any) -> int:
    if values is None:
        return 0
    return get_const_int(values.shape[0]) if isinstance(values, te.Tensor) else len(values)


def dynamic_strided_slice(a, begin, end, strides, output_shape=None):
    """strided_slice with bounds that are known only at run time, as one-dimensional tensors. The output has the shape
    ``output_shape``, or dimensions that are variables bound by the caller.

    Raises
    ------
    ExprValueError
        There are more bounds than dimensions.
    """
    check_tensor(a, "dynamic_strided_slice")
    count = max(_entries(begin), _entries(end), _entries(strides))
    if count > len(a.shape):
        raise ExprValueError(f"dynamic_strided_slice: {count} bounds for a tensor of {len(a.shape)} dimensions")
    if output_shape is None:
        output_shape = [te.size_var("dim") if place < count else dim for place, dim in enumerate(a.shape)]

    def element(*indices):
        own = list(indices)
        for place in range(count):
            index, dim = indices[place], a.shape[place]
            stride = _bound(strides, place, index.dtype)
            stride = const(1, index.dtype) if stride is None else stride
            first = _bound(begin, place, index.dtype)
            if first is None:
                first = tir.Select(stride > 0, const(0, index.dtype), dim - 1)
            first = tir.Select(first < 0, first + dim, first)
            first = te.max(te.min(first, tir.Select(stride > 0, dim, dim - 1)), 0)
            # Clamp the index, because the caller's shape may exceed the data.
            own[place] = te.max(te.min(first + index * stride, dim - 1), 0)
        return a(*own)

    return te.compute(output_shape, element, name="T_strided_slice_dynamic", tag=tag.INJECTIVE)


def strided_set(a, v, begin, end, strides=None):
    """``a`` with the elements selected by strided_slice replaced by those of ``v``. Bounds are lists or one-dimensional
    tensors.

    Raises
    ------
    ExprValueError
        The values have a different dtype or number of dimensions than the tensor, or there are more bounds than
        dimensions.
    """
    check_tensor(a, "strided_set"), check_tensor(v, "strided_set")
    if len(a.shape) != len(v.shape):
        raise ExprValueError(
            f"strided_set: values of {len(v.shape)} dimensions cannot be written to a tensor of {len(a.shape)}"
        )
    if v.dtype != a.dtype:
        raise ExprValueError(f"strided_set: values of {v.dtype} cannot be written to a tensor of {a.dtype}")
    for what, values in (("begin", begin), ("end", end), ("strides", strides)):
        if _entries(values) > len(a.shape):
            raise ExprValueError(f"strided_set: {what} has {_entries(values)} entries for {len(a.shape)} dimensions")

    def element(*indices):
        chosen, own = [], []
        for place, index in enumerate(indices):
            dim = a.shape[place]
            stride = _bound(strides, place, index.dtype)
            stride = const(1, index.dtype) if stride is None else stride
            if primop.literal(stride) is None:
                # A stride of 0 selects no element, but the divisor must not be 0.
                stride = tir.Select(primop.equal(stride, 0), const(1, index.dtype), stride)
            low = tir.Select(stride > 0, const(0, index.dtype), const(-1, index.dtype))
            high = tir.Select(stride > 0, dim, dim - 1)

            def clamp(value, default, dim=dim, low=low, high=high):
                if value is None:
                    return default
                return te.min(te.max(tir.Select(value < 0, value + dim, value), low), high)

            first = clamp(_bound(begin, place, index.dtype), tir.Select(stride > 0, low, high))
            last = clamp(_bound(end, place, index.dtype), tir.Select(stride > 0, high, low))
            chosen.append(utils.within_index(first, last, stride, index))
            own.append(utils.make_idx(first, last, stride, v.shape[place], index))
        if not indices:
            return v()
        return te.if_then_else(tir.all(*chosen), v(*own), a(*indices))

    return te.compute(a.shape, element, name="T_strided_set", tag=tag.INJECTIVE)


__all__ = ["dynamic_strided_slice", "strided_set", "strided_slice"]
