"""Converters of reductions."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from .table import ALL_AXES, Axis, Context, Tensor, is_all, is_sequence, op


def _log_sum(x, axes, keepdims):
    greatest = relay.max(x, axes, keepdims=True)
    total = relay.log(relay.sum(relay.exp(relay.subtract(x, greatest)), axes, keepdims=True))
    out = relay.add(total, greatest)
    return out if keepdims else relay.squeeze(out, axes)


def _arg_reduction(build):
    def reduce(x, axes, keepdims):
        if len(axes) != 1:
            raise TVMError(f"argmax and argmin over {len(axes)} axes are not supported; expected one axis")
        return relay.cast(build(x, axes[0], keepdims), "float32")

    return reduce


def _bool_reduction(build):
    return lambda x, axes, keepdims: build(relay.cast(x, "bool"), axes, keepdims)


_KINDS = {
    "Sum": relay.sum, "LogSum": _log_sum, "Mean": relay.mean, "Max": relay.max, "Min": relay.min, "Prod": relay.prod,
    "Argmax": _arg_reduction(relay.argmax), "Argmin": _arg_reduction(relay.argmin),
    "All": _bool_reduction(relay.all), "Any": _bool_reduction(relay.any),
}  # fmt: skip


def _axes(attrs) -> list[Axis]:
    found = attrs.get("axisVec") or attrs.get("axis")
    found = found if isinstance(found, list) else [found]
    if not found or any(not isinstance(a, Axis) for a in found):
        raise TVMError("a reduction has no valid axes")
    return found


@op("ReduceElements")
def reduce_elements(ctx: Context, inputs, attrs):
    x, lead = inputs[0]
    build = _KINDS.get(attrs.get("reductionOpName", ""))
    if build is None:
        raise TVMError(f"reductionOpName {attrs.get('reductionOpName')!r} is not supported")
    axes, keep = _axes(attrs), bool(attrs.get("reductionKeepDimensions", True))
    dtype = ctx.dtype(x)
    if any(is_sequence(a) for a in axes):
        if len(axes) > 1 or lead != 2:
            raise TVMError(
                "the sequence axis cannot be reduced together with other axes, or the input has no sequence axis"
            )
        return Tensor(relay.cast(build(x, [1], False), dtype), 1)
    if any(a.name and not is_all(a) for a in axes):
        raise TVMError("a reduction over the batch axis is not supported")
    if any(a.name == ALL_AXES for a in axes):
        return Tensor(relay.cast(build(x, list(range(ctx.rank(x))), False), dtype), 0)
    if any(is_all(a) for a in axes):
        places = list(range(lead, ctx.rank(x)))
        keep = False
    else:
        places = sorted({ctx.axis(inputs[0], a) for a in axes})
    if not places:
        return inputs[0]
    return Tensor(relay.cast(build(x, places, keep), dtype), lead)


@op("SumAll")
def sum_all(ctx, inputs, attrs):
    """Sum the elements of all samples."""
    return Tensor(relay.sum(inputs[0].expr), 0)


@op("SumColumnElements")
def sum_columns(ctx, inputs, attrs):
    x, lead = inputs[0]
    return Tensor(relay.sum(x, [ctx.rank(x) - 1], keepdims=True), lead)


@op("TopK")
def top_k(ctx, inputs, attrs):
    x = inputs[0]
    axis, count = ctx.axis(x, attrs["axis"]), int(attrs.get("numItems", 1))
    size = ctx.known_size(x.expr, axis)
    if not 0 < count <= size:
        raise TVMError(f"TopK: {count} is out of range for an axis of {size} elements")
    values, places = relay.topk(x.expr, count, axis, "both", False, "int32")
    return [Tensor(values, x.lead), Tensor(relay.cast(places, ctx.dtype(x.expr)), x.lead)]
