"""Converters of reductions and sorting.

A reduction over all elements is a vector of one element in ``mx.nd``, and a scalar in ``mx.np``.
"""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .elementwise import converted
from .table import Context, axis_of, check_count, one_of, op

_REDUCE = "axis:dims?=None keepdims:bool=False exclude:bool=False"


def axes_of(ctx: Context, x: RelayExpr, axis, exclude: bool = False) -> list[int]:
    """Return the reduced axes; all axes if none are given."""
    rank = ctx.rank(x)
    if axis is None or axis == ():
        return [] if exclude and axis == () else list(range(rank))
    found = [axis_of(a, rank) for a in axis]
    if len(set(found)) != len(found):
        raise TVMError(f"the attribute axis={axis} contains an axis twice")
    return [i for i in range(rank) if i not in found] if exclude else sorted(found)


def vector(ctx: Context, e: RelayExpr) -> RelayExpr:
    """Reshape a scalar to a vector of one element, as in ``mx.nd``."""
    e = ctx.made(e)
    return e if ctx.rank(e) or ctx.importer.scalars else relay.reshape(e, (1,))


def _reduced(ctx: Context, x: RelayExpr, attrs, function) -> RelayExpr:
    axes = axes_of(ctx, x, attrs.axis, attrs.exclude)
    if not axes:
        return x
    return vector(ctx, function(x, axes, attrs.keepdims))


def _mean(ctx: Context):
    def mean(x, axes, keepdims):
        if ctx.is_float(x):
            return relay.mean(x, axes, keepdims)
        count = math.prod(ctx.known_size(x, a) for a in axes)
        return relay.trunc_divide(relay.sum(x, axes, keepdims), ctx.like(max(count, 1), x))

    return mean


for _name, _function in (("sum", relay.sum), ("prod", relay.prod), ("max", relay.max), ("min", relay.min)):
    op(_name, _REDUCE)(lambda ctx, inputs, attrs, f=_function: _reduced(ctx, inputs[0], attrs, f))
op("mean", _REDUCE)(lambda ctx, inputs, attrs: _reduced(ctx, inputs[0], attrs, _mean(ctx)))


def _without_nan(name: str, function, neutral: int):
    @op(name, _REDUCE)
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        kept = relay.where(relay.isnan(x), ctx.like(neutral, x), x) if ctx.is_float(x) else x
        return _reduced(ctx, ctx.made(kept), attrs, function)


_without_nan("nansum", relay.sum, 0)
_without_nan("nanprod", relay.prod, 1)


@op("_square_sum", _REDUCE)
def square_sum(ctx, inputs, attrs):
    return _reduced(ctx, ctx.made(relay.multiply(inputs[0], inputs[0])), attrs, relay.sum)


@op("moments", "axes:dims?=None keepdims:bool=False")
def moments(ctx, inputs, attrs):
    x = inputs[0]
    axes = axes_of(ctx, x, attrs.axes)
    return [vector(ctx, f(x, axes, attrs.keepdims)) for f in (relay.mean, relay.variance)]


@op("norm", "ord:int=2 axis:dims?=None out_dtype:dtype?=None keepdims:bool=False")
def norm(ctx, inputs, attrs):
    x = inputs[0]
    one_of(attrs.ord, "ord", 1, 2)
    axes = axes_of(ctx, x, attrs.axis)
    if len(axes) > 2 and attrs.axis:
        raise TVMError(f"the attribute axis={attrs.axis} has more than two axes")
    if attrs.out_dtype is not None:
        x = ctx.made(ctx.cast(x, attrs.out_dtype))
    total = relay.sum(relay.abs(x) if attrs.ord == 1 else relay.multiply(x, x), axes, attrs.keepdims)
    return vector(ctx, total if attrs.ord == 1 else relay.sqrt(total))


# -- argmax and argmin ------------------------------------------------------------------------------------------------


def _index_of(ctx: Context, x: RelayExpr, attrs, function) -> RelayExpr:
    if attrs.axis is None:
        flat = relay.reshape(x, (-1,))
        out = function(flat, 0, True)
        return relay.reshape(out, (1,) * ctx.rank(x)) if attrs.keepdims else relay.reshape(out, ())
    return function(x, axis_of(attrs.axis, ctx.rank(x)), attrs.keepdims)


for _name, _function in (("argmax", relay.argmax), ("argmin", relay.argmin)):
    op(_name, "axis:int?=None keepdims:bool=False")(
        lambda ctx, inputs, attrs, f=_function: vector(ctx, relay.cast(_index_of(ctx, inputs[0], attrs, f), "float32"))
    )
    op(f"_npi_{_name}", "axis:int?=None keepdims:bool=False")(
        lambda ctx, inputs, attrs, f=_function: relay.cast(_index_of(ctx, inputs[0], attrs, f), "int64")
    )


@op("argmax_channel")
def argmax_channel(ctx, inputs, attrs):
    return relay.cast(relay.argmax(inputs[0], -1), ctx.dtype(inputs[0]))


# -- mx.np ------------------------------------------------------------------------------------------------------------


def _np_reduced(name: str, function):
    @op(name, "axis:dims?=None dtype:dtype?=None keepdims:bool=False initial:float?=None")
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        if attrs.initial is not None:
            raise TVMError("the attribute initial is not supported")
        kind = attrs.dtype or ctx.dtype(x)
        axes = axes_of(ctx, x, attrs.axis)
        wide = ctx.made(converted(ctx, x, "int32" if kind == "bool" else kind))
        out = function(wide, axes, attrs.keepdims) if axes else wide
        return out if kind != "bool" else converted(ctx, ctx.made(out), "bool")


_np_reduced("_np_sum", relay.sum)
_np_reduced("_np_prod", relay.prod)


def _np_extreme(name: str, function):
    @op(name, "axis:dims?=None keepdims:bool=False initial:float?=None")
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        if attrs.initial is not None:
            raise TVMError("the attribute initial is not supported")
        axes = axes_of(ctx, x, attrs.axis)
        return function(x, axes, attrs.keepdims) if axes else x


_np_extreme("_np_max", relay.max)
_np_extreme("_np_min", relay.min)


def _np_any_or_all(name: str, function):
    @op(name, "axis:dims?=None keepdims:bool=False")
    def convert(ctx, inputs, attrs):
        x = ctx.made(converted(ctx, inputs[0], "bool"))
        return function(x, axes_of(ctx, x, attrs.axis), attrs.keepdims)


_np_any_or_all("_np_all", relay.all)
_np_any_or_all("_np_any", relay.any)


@op("_npi_mean", "axis:dims?=None dtype:dtype?=None keepdims:bool=False initial:float?=None")
def np_mean(ctx, inputs, attrs):
    x = inputs[0]
    if attrs.initial is not None:
        raise TVMError("the attribute initial is not supported")
    x = ctx.made(ctx.cast(x, attrs.dtype or (ctx.dtype(x) if ctx.is_float(x) else "float32")))
    axes = axes_of(ctx, x, attrs.axis)
    return relay.mean(x, axes, attrs.keepdims) if axes else x


def _np_spread(name: str, root: bool):
    @op(name, "axis:dims?=None dtype:dtype?=None ddof:int=0 keepdims:bool=False")
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        x = ctx.made(ctx.cast(x, attrs.dtype or (ctx.dtype(x) if ctx.is_float(x) else "float32")))
        axes = axes_of(ctx, x, attrs.axis)
        out = relay.variance(x, axes, attrs.keepdims)
        count = math.prod(ctx.known_size(x, a) for a in axes)
        if attrs.ddof:
            if attrs.ddof >= count:
                raise TVMError(f"ddof={attrs.ddof} must be less than the number of elements, {count}")
            out = relay.multiply(out, ctx.like(count / (count - attrs.ddof), x))
        return relay.sqrt(out) if root else out


_np_spread("_npi_var", False)
_np_spread("_npi_std", True)


@op("_npi_average", "axis:dims?=None returned:bool=False weighted:bool=True")
def np_average(ctx, inputs, attrs):
    x = inputs[0]
    axes = axes_of(ctx, x, attrs.axis)
    if not attrs.weighted:
        count = math.prod(ctx.known_size(x, a) for a in axes)
        out = ctx.made(relay.mean(x, axes))
        return [out, relay.full_like(out, ctx.like(count, x))]
    weights = inputs[1]
    if ctx.rank(weights) != ctx.rank(x):
        if len(axes) != 1 or ctx.rank(weights) != 1:
            raise TVMError("the weights must have the shape of the data, or be a vector for one axis")
        weights = relay.reshape(weights, [-1 if i == axes[0] else 1 for i in range(ctx.rank(x))])
    weights = ctx.made(relay.broadcast_to(weights, ctx.known_shape(x)))
    total = ctx.made(relay.sum(weights, axes))
    return [relay.divide(relay.sum(relay.multiply(x, weights), axes), total), total]


@op("_np_cumsum", "axis:int?=None dtype:dtype?=None")
def cumsum(ctx, inputs, attrs):
    x = inputs[0]
    if attrs.axis is None:
        x = ctx.made(relay.reshape(x, (-1,)))
    out = relay.cumsum(x, axis=axis_of(attrs.axis or 0, ctx.rank(x)), dtype=attrs.dtype or ctx.dtype(x))
    return out


# -- sorting ----------------------------------------------------------------------------------------------------------


def _flat(ctx: Context, x: RelayExpr, axis: int | None) -> tuple[RelayExpr, int]:
    if axis is None:
        return ctx.made(relay.reshape(x, (-1,))), 0
    return x, axis_of(axis, ctx.rank(x))


@op("sort", "axis:int?=-1 is_ascend:bool=True")
def sort(ctx, inputs, attrs):
    x, axis = _flat(ctx, inputs[0], attrs.axis)
    return relay.sort(x, axis=axis, is_ascend=attrs.is_ascend)


@op("argsort", "axis:int?=-1 is_ascend:bool=True dtype:dtype=float32")
def argsort(ctx, inputs, attrs):
    x, axis = _flat(ctx, inputs[0], attrs.axis)
    return relay.cast(relay.argsort(x, axis=axis, is_ascend=attrs.is_ascend, dtype="int32"), attrs.dtype)


@op("topk", "axis:int?=-1 k:int=1 ret_typ:both|indices|mask|value=indices is_ascend:bool=False dtype:dtype=float32")
def topk(ctx, inputs, attrs):
    """Return the top k values, indices or both. A mask has ones at the positions of the top k elements."""
    x, axis = _flat(ctx, inputs[0], attrs.axis)
    size = ctx.known_size(x, axis)
    k = size if attrs.k < 1 else attrs.k
    if k > size:
        raise TVMError(f"k={attrs.k} exceeds the axis size {size}")
    values, places = relay.topk(x, k=k, axis=axis, ret_type="both", is_ascend=attrs.is_ascend, dtype="int32")
    if attrs.ret_typ == "value":
        return values
    if attrs.ret_typ == "mask":
        check_count("the mask", ctx.known_shape(x))
        ones = relay.ones_like(values)
        mask = relay.scatter_elements(relay.zeros_like(x), places, ones, axis)
        return relay.reshape(mask, ctx.known_shape(inputs[0]))
    places = relay.cast(places, attrs.dtype)
    return places if attrs.ret_typ == "indices" else [values, places]


__all__ = ["axes_of", "vector"]
