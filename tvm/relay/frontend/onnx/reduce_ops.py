"""Converters of reductions."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import const
from ..common import run_time
from . import declared
from .shape_ops import axes_of, has_run_time_axes
from .table import axis_of, op


def _log_sum_exp(x, axis, keepdims):
    top = relay.max(x, axis=axis, keepdims=True)
    safe = relay.where(relay.isfinite(top), top, relay.zeros_like(top))
    total = relay.log(relay.sum(relay.exp(relay.subtract(x, safe)), axis=axis, keepdims=keepdims))
    return relay.add(total, safe if keepdims else relay.sum(safe, axis=axis, keepdims=False))


def _squares(x, axis, keepdims):
    return relay.sum(relay.multiply(x, x), axis=axis, keepdims=keepdims)


_FORMS = {
    "ReduceSum": lambda x, a, k: relay.sum(x, axis=a, keepdims=k),
    "ReduceMean": lambda x, a, k: relay.mean(x, axis=a, keepdims=k),
    "ReduceMax": lambda x, a, k: relay.max(x, axis=a, keepdims=k),
    "ReduceMin": lambda x, a, k: relay.min(x, axis=a, keepdims=k),
    "ReduceProd": lambda x, a, k: relay.prod(x, axis=a, keepdims=k),
    "ReduceL1": lambda x, a, k: relay.sum(relay.abs(x), axis=a, keepdims=k),
    "ReduceL2": lambda x, a, k: relay.sqrt(_squares(x, a, k)),
    "ReduceSumSquare": _squares,
    "ReduceLogSum": lambda x, a, k: relay.log(relay.sum(x, axis=a, keepdims=k)),
    "ReduceLogSumExp": _log_sum_exp,
}
# The element-wise function of each reduction for an empty list of axes that means "reduce nothing".
_NO_AXES = {
    "ReduceL1": relay.abs,
    "ReduceL2": relay.abs,
    "ReduceSumSquare": lambda x: relay.multiply(x, x),
    "ReduceLogSum": relay.log,
}


def _reduce(name: str, since_input: int):
    form = _FORMS[name]

    def convert(ctx, inputs, attrs):
        x = inputs[0]
        if has_run_time_axes(ctx, inputs) and not declared.decides(ctx, x):
            return _run_time_reduction(ctx, name, inputs, attrs)
        if has_run_time_axes(ctx, inputs):
            rows = [
                (c, convert(ctx, [x], {**attrs, "axes": a})) for a, c in declared.reduced_axes(ctx, x, inputs[1], attrs)
            ]
            out = rows[-1][1]
            for condition, row in rows[-2::-1]:
                out = relay.where(condition, row, out)
            return out
        axes = axes_of(ctx, inputs, attrs, since_input)
        if not axes and attrs.get("noop_with_empty_axes", 0):
            return _NO_AXES.get(name, lambda e: e)(x)
        rank = ctx.rank(x)
        axes = sorted({axis_of(a, rank) for a in axes}) if axes else list(range(rank))
        if not axes:
            return _NO_AXES.get(name, lambda e: e)(x)
        keepdims = bool(attrs.get("keepdims", 1))
        kind = ctx.dtype(x)
        if kind == "bool":
            return relay.cast(form(relay.cast(x, "uint8"), axes, keepdims), "bool")
        if name in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean") and not ctx.is_float(x):
            return relay.cast(form(relay.cast(x, "float64"), axes, keepdims), kind)
        shape = ctx.shape(x)
        if any(shape[a] == 0 for a in axes) and all(isinstance(d, int) for d in shape):
            return _empty(ctx, name, x, axes, keepdims)
        return form(x, axes, keepdims)

    return convert


def _run_time_reduction(ctx, name: str, inputs, attrs):
    """Convert a reduction over axes that are known at run time."""
    data, axes = inputs
    none = ctx.length(axes, "the axes") == 0
    if none or not ctx.rank(data):
        rest = {**attrs, "axes": []}
        return ctx.convert(name, data, **rest)
    keepdims = bool(attrs.get("keepdims", 1))
    return run_time.reduced(ctx, data, axes, keepdims, lambda rows, a, k: _reduce(name, 0)(
        ctx, [rows], {"axes": a, "keepdims": int(k)}))  # fmt: skip


def _empty(ctx, name: str, x, axes, keepdims: bool):
    """Return the neutral element of a reduction over zero elements."""
    shape = [1 if i in axes else d for i, d in enumerate(ctx.known_shape(x)) if keepdims or i not in axes]
    low, high = limits(ctx.dtype(x))
    neutral = {
        "ReduceProd": 1,
        "ReduceMax": low,
        "ReduceMin": high,
        "ReduceLogSum": float("-inf"),
        "ReduceLogSumExp": float("-inf"),
        "ReduceMean": float("nan"),
    }.get(name, 0)
    return relay.full(const(neutral, ctx.dtype(x)), shape, ctx.dtype(x))


def limits(dtype: str):
    """Return the minimum and maximum value of an element type."""
    if dtype.startswith(("float", "bfloat")):
        return float("-inf"), float("inf")
    if dtype == "bool":
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


for _name in _FORMS:
    op(_name)(_reduce(_name, 13 if _name == "ReduceSum" else 18))
