"""Converters of operators that take elements by their places."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .table import axis_of, check_count, op


@op("Gather")
def gather(ctx, inputs, args):
    data, places = inputs
    return relay.take(data, places, axis_of(args.get("axis", 0), ctx.rank(data)))


@op("BatchGather")
def batch_gather(ctx, inputs, args):
    """Rows of each sample, behind its first axis."""
    return relay.take(inputs[0], inputs[1], 1)


@op("OneHot")
def one_hot(ctx, inputs, args):
    """A row for each place, of 1 and 0."""
    places, count = inputs[0], (ctx.ints(inputs[1], "the number of classes") or [0])[0]
    check_count("the rows", [max(count, 0), *(d for d in ctx.shape(places) if isinstance(d, int))])
    if count < 1:
        raise TVMError(f"rows of {count} classes are not supported")
    wide = relay.expand_dims(places, ctx.rank(places))
    return relay.cast(relay.equal(wide, const(np.arange(count).astype(ctx.dtype(places)))), "float32")


@op("BatchOneHot")
def batch_one_hot(ctx, inputs, args):
    """For each column whether it is equal to each of its own values, which ``lengths`` counts, as 1 and 0."""
    data, lengths, values = inputs
    counts = ctx.ints(lengths, "the lengths") or []
    columns = [i for i, n in enumerate(counts) for _ in range(max(n, 0))]
    if len(columns) != ctx.known_size(values, 0) or len(counts) != ctx.known_size(data, 1):
        raise TVMError(f"the lengths {counts} do not fit the values")
    parts = [relay.strided_slice(data, [c], [c + 1], [1], [1]) for c in columns]
    wide = relay.concatenate(parts, 1) if len(parts) > 1 else parts[0]
    return relay.cast(relay.equal(wide, relay.expand_dims(values, 0)), ctx.dtype(data))


@op("LengthsToShape")
def lengths_to_shape(ctx, inputs, args):
    """How many lengths there are, and the one that all of them are."""
    found = ctx.ints(inputs[0], "the lengths") or []
    if not found or len(set(found)) != 1:
        raise TVMError(f"the lengths {found} are not one and the same")
    return const(np.array([len(found), found[0]], "int32"))
