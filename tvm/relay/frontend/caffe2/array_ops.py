"""Converters of gather, one-hot and other indexing operators."""

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
    """Gather elements along axis 1 of each sample."""
    return relay.take(inputs[0], inputs[1], 1)


@op("OneHot")
def one_hot(ctx, inputs, args):
    """Return the one-hot encoding of indices."""
    places, count = inputs[0], (ctx.ints(inputs[1], "the number of classes") or [0])[0]
    check_count("the one-hot tensor", [max(count, 0), *(d for d in ctx.shape(places) if isinstance(d, int))])
    if count < 1:
        raise TVMError(f"OneHot: the number of classes is {count}; it must be positive")
    wide = relay.expand_dims(places, ctx.rank(places))
    return relay.cast(relay.equal(wide, const(np.arange(count).astype(ctx.dtype(places)))), "float32")


@op("BatchOneHot")
def batch_one_hot(ctx, inputs, args):
    """Compare each column of the data with its own list of values; ``lengths`` is the number of values per column."""
    data, lengths, values = inputs
    counts = ctx.ints(lengths, "the lengths") or []
    columns = [i for i, n in enumerate(counts) for _ in range(max(n, 0))]
    if len(columns) != ctx.known_size(values, 0) or len(counts) != ctx.known_size(data, 1):
        raise TVMError(
            f"BatchOneHot: the lengths {counts} do not match the columns of the data or the number of values"
        )
    parts = [relay.strided_slice(data, [c], [c + 1], [1], [1]) for c in columns]
    wide = relay.concatenate(parts, 1) if len(parts) > 1 else parts[0]
    return relay.cast(relay.equal(wide, relay.expand_dims(values, 0)), ctx.dtype(data))


@op("LengthsToShape")
def lengths_to_shape(ctx, inputs, args):
    """Return the number of lengths and their common value. All lengths must be equal."""
    found = ctx.ints(inputs[0], "the lengths") or []
    if not found or len(set(found)) != 1:
        raise TVMError(f"LengthsToShape: the lengths {found} are not all equal")
    return const(np.array([len(found), found[0]], "int32"))
