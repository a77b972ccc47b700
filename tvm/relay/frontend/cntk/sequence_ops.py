"""Converters of sequence operators. All sequences have the same length, known at compile time."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .table import Context, Tensor, op


def initial_of(ctx: Context, inputs: list[Tensor], attrs) -> Tensor:
    """Return the initial value of a delay: an input, or a constant of the file."""
    if len(inputs) > 1:
        return inputs[1]
    return Tensor(const(attrs.get("initial", 0.0), ctx.dtype(inputs[0].expr)), 0)


def offset_of(attrs) -> int:
    found = int(attrs.get("offset", 1))
    if found < 1:
        raise TVMError(f"a delay of {found} steps is not supported; it must be positive")
    return found


def _delayed(past: bool):
    def convert(ctx: Context, inputs, attrs):
        """Shift a sequence by some steps. ``reader.py`` converts the delays of recurrences."""
        x = inputs[0]
        if x.lead != 2:
            raise TVMError("the input of a delay is not a sequence; pass the model's input shapes")
        batch, length = ctx.known_shape(x.expr)[:2]
        count = min(offset_of(attrs), length)
        first = initial_of(ctx, inputs, attrs)
        e = relay.expand_dims(first.expr, 1) if first.lead == 1 else first.expr
        if first.lead == 2:
            raise TVMError("an initial state that is a sequence is not supported")
        edge = relay.broadcast_to(e, (batch, count, *ctx.sizes(x)))
        if count == length:
            return Tensor(edge, 2)
        begin, end = (0, length - count) if past else (count, length)
        rest = relay.strided_slice(x.expr, [begin], [end], [1], [1])
        return Tensor(relay.concatenate([edge, rest] if past else [rest, edge], 1), 2)

    return convert


op("PastValue")(_delayed(True))
op("FutureValue")(_delayed(False))


@op("Where")
def where(ctx: Context, inputs, attrs):
    """Return the indices of the steps at which a constant condition is not zero, equal for all samples.

    The output has the dynamic axes of the gathered value: only the batch axis if a single step remains.
    """
    condition = ctx.value(inputs[0].expr)
    if condition is None or inputs[0].lead != 2:
        raise TVMError("the condition must be a constant sequence; steps selected at run time are not supported")
    steps = (condition != 0).reshape(*condition.shape[:2], -1).any(2)
    if (steps != steps[:1]).any():
        raise TVMError("a selection of steps that differs between samples is not supported")
    axes = attrs.get("newDynamicAxes") or []
    return Tensor(const(np.flatnonzero(steps[0]).astype("int64")), 1 if len(axes) == 1 else 2)


@op("PackedIndex")
def packed_index(ctx: Context, inputs, attrs):
    return inputs[1]


@op("GatherPacked")
def gather_packed(ctx: Context, inputs, attrs):
    """Select steps of a sequence."""
    x, steps = inputs
    count = ctx.known_size(steps.expr, 0)
    if x.lead != 2 or not count or steps.lead == 1 != count:
        raise TVMError(f"cannot gather {count} steps: expected a sequence and a matching selection of steps")
    out = relay.take(x.expr, steps.expr, 1)
    return Tensor(relay.squeeze(out, [1]), 1) if steps.lead == 1 else Tensor(out, 2)


@op("UnpackSequence")
def unpack(ctx, inputs, attrs):
    """Turn the sequence axis into a static axis. The second output is the mask of valid elements, all ones."""
    x = inputs[0]
    if x.lead != 2:
        raise TVMError("UnpackSequence: the input is not a sequence")
    out = [Tensor(x.expr, 1)]
    if not attrs.get("sequenceUnpackSuppressMaskOutput"):
        mask = relay.ones(ctx.known_shape(x.expr)[:2], ctx.dtype(x.expr))
        out.append(Tensor(mask, 1))
    return out


@op("ToSequence", "ToSequenceLike")
def to_sequence(ctx, inputs, attrs):
    """Turn the slowest static axis into a sequence of full length."""
    x = inputs[0]
    if x.lead != 1 or not ctx.rank_of(x):
        raise TVMError("ToSequence: the input must have a batch axis and a static axis, and no sequence axis")
    if len(inputs) > 1 and ctx.node.op == "ToSequence":
        raise TVMError("sequence lengths given at run time are not supported")
    return Tensor(x.expr, 2)


@op("ReconcileDynamicAxis")
def reconcile(ctx, inputs, attrs):
    """Repeat a value for each step of another tensor."""
    x, like = inputs
    if x.lead == like.lead:
        return x
    if x.lead > like.lead:
        raise TVMError("a sequence cannot be reduced to the dynamic axes of a tensor without a sequence")
    shape = (*ctx.known_shape(like.expr)[: like.lead], *ctx.sizes(x))
    e = relay.expand_dims(x.expr, 1) if x.lead == 1 else x.expr
    return Tensor(relay.broadcast_to(e, shape), like.lead)


@op("UnpackBatch")
def unpack_batch(ctx, inputs, attrs):
    """Turn the batch axis into a static axis."""
    if inputs[0].lead != 1:
        raise TVMError("UnpackBatch: the input must have a batch axis and no sequence axis")
    return Tensor(inputs[0].expr, 0)


@op("ToBatch")
def to_batch(ctx, inputs, attrs):
    if inputs[0].lead or not ctx.rank_of(inputs[0]):
        raise TVMError("ToBatch: the input must have a static axis, and no batch or sequence axis")
    return Tensor(inputs[0].expr, 1)


__all__ = ["initial_of", "offset_of"]
