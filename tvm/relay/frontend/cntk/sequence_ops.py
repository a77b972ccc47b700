"""Converters of operators on sequences, all of which have one length that is known when compiling."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .table import Context, Tensor, op


def initial_of(ctx: Context, inputs: list[Tensor], attrs) -> Tensor:
    """What a delay gives before the sequence begins: an input, or a number of the file."""
    if len(inputs) > 1:
        return inputs[1]
    return Tensor(const(attrs.get("initial", 0.0), ctx.dtype(inputs[0].expr)), 0)


def offset_of(attrs) -> int:
    found = int(attrs.get("offset", 1))
    if found < 1:
        raise TVMError(f"a delay of {found} steps is not supported")
    return found


def _delayed(past: bool):
    def convert(ctx: Context, inputs, attrs):
        """A sequence moved by some steps; recurrent ones are converted step by step in ``reader.py``."""
        x = inputs[0]
        if x.lead != 2:
            raise TVMError("a delay is asked for where there is no sequence; give the model's input shapes")
        batch, length = ctx.known_shape(x.expr)[:2]
        count = min(offset_of(attrs), length)
        first = initial_of(ctx, inputs, attrs)
        e = relay.expand_dims(first.expr, 1) if first.lead == 1 else first.expr
        if first.lead == 2:
            raise TVMError("a beginning that is a sequence is not supported")
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
    """The steps at which a condition is not zero, as a vector; they are the same for all samples. Its dynamic axes are
    those of what is gathered there: one where a single step is left."""
    condition = ctx.value(inputs[0].expr)
    if condition is None or inputs[0].lead != 2:
        raise TVMError("steps of a sequence that the data choose are not supported")
    steps = (condition != 0).reshape(*condition.shape[:2], -1).any(2)
    if (steps != steps[:1]).any():
        raise TVMError("steps of a sequence that differ between samples are not supported")
    axes = attrs.get("newDynamicAxes") or []
    return Tensor(const(np.flatnonzero(steps[0]).astype("int64")), 1 if len(axes) == 1 else 2)


@op("PackedIndex")
def packed_index(ctx: Context, inputs, attrs):
    return inputs[1]


@op("GatherPacked")
def gather_packed(ctx: Context, inputs, attrs):
    """Some steps of a sequence."""
    x, steps = inputs
    count = ctx.known_size(steps.expr, 0)
    if x.lead != 2 or not count or steps.lead == 1 != count:
        raise TVMError(f"{count} steps of a sequence cannot be gathered here")
    out = relay.take(x.expr, steps.expr, 1)
    return Tensor(relay.squeeze(out, [1]), 1) if steps.lead == 1 else Tensor(out, 2)


@op("UnpackSequence")
def unpack(ctx, inputs, attrs):
    """The sequence as a static axis, and which of its elements there are: all."""
    x = inputs[0]
    if x.lead != 2:
        raise TVMError("there is no sequence to unpack")
    out = [Tensor(x.expr, 1)]
    if not attrs.get("sequenceUnpackSuppressMaskOutput"):
        mask = relay.ones(ctx.known_shape(x.expr)[:2], ctx.dtype(x.expr))
        out.append(Tensor(mask, 1))
    return out


@op("ToSequence", "ToSequenceLike")
def to_sequence(ctx, inputs, attrs):
    """The slowest static axis as a sequence of its whole length."""
    x = inputs[0]
    if x.lead != 1 or not ctx.rank_of(x):
        raise TVMError("only samples of a batch become sequences")
    if len(inputs) > 1 and ctx.node.op == "ToSequence":
        raise TVMError("sequences whose lengths the run knows are not supported")
    return Tensor(x.expr, 2)


@op("ReconcileDynamicAxis")
def reconcile(ctx, inputs, attrs):
    """The same value for each step of another tensor."""
    x, like = inputs
    if x.lead == like.lead:
        return x
    if x.lead > like.lead:
        raise TVMError("a sequence cannot be brought to a single step")
    shape = (*ctx.known_shape(like.expr)[: like.lead], *ctx.sizes(x))
    e = relay.expand_dims(x.expr, 1) if x.lead == 1 else x.expr
    return Tensor(relay.broadcast_to(e, shape), like.lead)


@op("UnpackBatch")
def unpack_batch(ctx, inputs, attrs):
    """The batch as a static axis."""
    if inputs[0].lead != 1:
        raise TVMError("a batch of sequences cannot be unpacked")
    return Tensor(inputs[0].expr, 0)


@op("ToBatch")
def to_batch(ctx, inputs, attrs):
    if inputs[0].lead or not ctx.rank_of(inputs[0]):
        raise TVMError("only a tensor without a batch becomes one")
    return Tensor(inputs[0].expr, 1)


__all__ = ["initial_of", "offset_of"]
