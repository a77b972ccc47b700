"""Converters of reductions, argmax, argmin and top-k."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from .table import Context, axis_of, check_count, op


def _axes(ctx: Context, x: RelayExpr, axes: RelayExpr) -> list[int]:
    return sorted({axis_of(a, ctx.rank(x)) for a in ctx.ints(axes, "the axes")})


def _keeps(attrs) -> bool:
    return bool(attrs.get("keep_dims", attrs.get("keepdims", False)))


def _reduce(name: str, function) -> None:
    def convert(ctx, inputs, attrs):
        axes = _axes(ctx, *inputs[:2])
        return function(ctx, inputs[0], axes, _keeps(attrs)) if axes else inputs[0]

    op(name)(convert)


for _name, _function in (("Sum", relay.sum), ("Prod", relay.prod), ("Max", relay.max), ("Min", relay.min),
                         ("All", relay.all), ("Any", relay.any)):  # fmt: skip
    _reduce(_name, lambda ctx, x, axes, keep, f=_function: f(x, axis=axes, keepdims=keep))


def _mean(ctx: Context, x: RelayExpr, axes: list[int], keep: bool) -> RelayExpr:
    if ctx.is_float(x):
        return relay.mean(x, axis=axes, keepdims=keep)
    shape = ctx.known_shape(x)
    total = relay.sum(relay.cast(x, "int64"), axis=axes, keepdims=keep)
    count = int(np.prod([shape[a] for a in axes]))
    return relay.cast(relay.trunc_divide(total, const(max(count, 1), "int64")), ctx.dtype(x))


_reduce("Mean", _mean)


@op("EuclideanNorm")
def euclidean_norm(ctx, inputs, attrs):
    axes = _axes(ctx, *inputs[:2])
    squares = relay.multiply(inputs[0], inputs[0])
    return relay.sqrt(relay.sum(squares, axis=axes, keepdims=_keeps(attrs)) if axes else squares)


@op("L2Loss")
def l2_loss(ctx, inputs, attrs):
    squares = relay.multiply(inputs[0], inputs[0])
    return relay.multiply(relay.sum(squares), ctx.like(0.5, inputs[0]))


@op("ArgMax", "ArgMin")
def arg(ctx, inputs, attrs):
    function = relay.argmax if ctx.node.op == "ArgMax" else relay.argmin
    found = function(inputs[0], axis=axis_of(ctx.single(inputs[1], "the axis"), ctx.rank(inputs[0])))
    return relay.cast(found, ctx.kind(attrs, "output_type", "int64"))


@op("Cumsum", "Cumprod")
def running(ctx, inputs, attrs):
    at = axis_of(ctx.single(inputs[1], "the axis"), ctx.rank(inputs[0]))
    backwards = attrs.get("reverse", False)
    x = relay.reverse(inputs[0], at) if backwards else inputs[0]
    function = relay.cumsum if ctx.node.op == "Cumsum" else relay.cumprod
    out = function(x, at, ctx.dtype(x), bool(attrs.get("exclusive", False)))
    return relay.reverse(out, at) if backwards else out


@op("TopKV2", "TopK")
def topk(ctx, inputs, attrs):
    kind = ctx.kind(attrs, "index_type", "int32")
    if ctx.node.op == "TopKV2" and ctx.is_run_time_value(inputs[1]):
        values, places = run_time.largest(ctx, inputs[0], inputs[1], ctx.rank(inputs[0]) - 1, False)
        return [values, relay.cast(places, kind)]
    k = attrs.get("k", 0) if ctx.node.op == "TopK" else ctx.single(inputs[1], "k")
    size = ctx.shape(inputs[0])[-1]
    if k < 0 or isinstance(size, int) and k > size:
        raise TVMError(f"k is {k}, but the axis has only {size} elements")
    if not k:
        none = relay.strided_slice(inputs[0], [0], [0], [1], [ctx.rank(inputs[0]) - 1])
        return [none, relay.cast(none, kind)]
    return list(relay.topk(inputs[0], k, axis=-1, ret_type="both", dtype=kind))


@op("InTopK", "InTopKV2")
def in_topk(ctx, inputs, attrs):
    """Return whether fewer than k classes have a higher score than the target."""
    scores, targets = inputs[:2]
    k = attrs["k"] if ctx.node.op == "InTopK" else ctx.single(inputs[2], "k")
    own = relay.take(scores, relay.cast(targets, "int32"), axis=1, batch_dims=1)
    above = relay.greater(scores, relay.expand_dims(own, 1))
    return relay.less(relay.sum(relay.cast(above, "int32"), axis=1), const(k, "int32"))


# -- segments ---------------------------------------------------------------------------------------------------------


def _segments(ctx: Context, x: RelayExpr, places: RelayExpr, count: int, start, mode: str) -> RelayExpr:
    """Combine the rows of each segment by scattering them into a tensor of neutral values."""
    rest = ctx.known_shape(x)[ctx.rank(places) :]
    check_count("the segments", [count, *rest])
    begin = Constant(np.full((count, *rest), start, ctx.dtype(x)))
    return relay.scatter_nd(begin, relay.expand_dims(relay.cast(places, "int64"), 0), x, mode)


def _neutral(ctx: Context, x: RelayExpr, mode: str):
    kind = ctx.dtype(x)
    facts = np.finfo(kind) if ctx.is_float(x) else np.iinfo(kind)
    return {"add": 0, "mul": 1, "max": facts.min, "min": facts.max}[mode]


_MODES = {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}


@op(*(f"UnsortedSegment{k}" for k in _MODES))
def unsorted_segment(ctx, inputs, attrs):
    x, places = inputs[:2]
    mode = _MODES[ctx.node.op.removeprefix("UnsortedSegment")]
    return _segments(ctx, x, places, ctx.single(inputs[2], "the number of segments"), _neutral(ctx, x, mode), mode)


@op(*(f"Segment{k}" for k in (*_MODES, "Mean")))
def segment(ctx, inputs, attrs):
    """Reduce segments. The segment indices must be constant; an empty segment is 0, or 1 for a product."""
    x, places = inputs[:2]
    kind = ctx.node.op.removeprefix("Segment")
    known = ctx.array(places, "the segments").reshape(-1)
    count = int(known.max()) + 1 if known.size else 0
    check_count("the segments", [count])
    rows = np.bincount(known, minlength=count).reshape(-1, *[1] * (ctx.rank(x) - 1))
    mode = _MODES.get(kind, "add")
    out = _segments(ctx, x, places, count, _neutral(ctx, x, mode), mode)
    if kind == "Mean":
        return relay.divide(out, const(np.maximum(rows, 1).astype(ctx.dtype(x))))
    if kind in ("Max", "Min") and not rows.all():
        return relay.where(const(rows > 0), out, ctx.like(0, x))
    return out
