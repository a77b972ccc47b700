"""Converters of non-maximum suppression, unique values, segment reductions and bucketize."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import Constant, const
from ..common.context import check_count
from ..common.suppression import soft_suppression
from .table import Context, op


@op("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(ctx, inputs, options):
    """Return the indices of the best boxes, padded with 0 to the maximum number."""
    boxes, scores, most, overlap, least = inputs[:5]
    count = ctx.ints(most, "the number of boxes")[0]
    sigma = ctx.array(inputs[5], "the sigma") if len(inputs) > 5 else np.zeros(())
    check_count("a list of boxes", [count])
    limits = [relay.reshape(v, ()) for v in (overlap, least)]
    if sigma.any():
        return list(soft_suppression(ctx, boxes, scores, count, *limits, float(sigma.reshape(-1)[0])))
    each = [relay.expand_dims(boxes, 0), relay.reshape(scores, (1, 1, -1))]
    rows, found = relay.vision.all_class_non_max_suppression(*each, const(count, "int64"), *limits)
    known = min(count, ctx.known_size(boxes, 0))
    places = relay.squeeze(relay.strided_slice(rows, [0, 2], [known, 3]), [1])
    number = relay.reshape(relay.cast(found, "int32"), ())
    valid = relay.less(Constant(np.arange(known, dtype="int32")), number)
    places = relay.where(valid, relay.cast(places, "int32"), const(0, "int32"))
    results = [places]
    if ctx.node.operator == "NON_MAX_SUPPRESSION_V5":
        results.append(relay.where(valid, relay.take(scores, places, 0), const(0.0)))
    return [*(relay.nn.pad(r, ((0, count - known),)) if known < count else r for r in results), number]


@op("UNIQUE")
def unique(ctx, inputs, options):
    """Return the values in the order of their first occurrence, and the index of each element's value."""
    values, _, inverse, count = relay.unique(inputs[0], False)
    ends = [const([0], "int64"), relay.reshape(relay.cast(count, "int64"), (1,)), const([1], "int64")]
    return [relay.strided_slice(values, *map(ctx.made, ends), axes=[0]), relay.cast(inverse, ctx.result(1).dtype)]


@op("BUCKETIZE")
def bucketize(ctx, inputs, options):
    """Return the number of boundaries that are not above an element."""
    bounds = np.array(options.boundaries or [], "float32")
    x = relay.expand_dims(relay.cast(inputs[0], "float32"), ctx.rank(inputs[0]))
    return relay.sum(relay.cast(relay.greater_equal(x, Constant(bounds)), "int32"), axis=-1)


def _segments(mode: str, first):
    def convert(ctx: Context, inputs, options):
        data, ids = inputs[:2]
        count = ctx.ints(inputs[2], "the number of segments")
        rank = ctx.rank(ids)
        shape = [count[0], *ctx.known_shape(data)[rank:]]
        check_count("a tensor of segments", shape)
        kind = ctx.dtype(data)
        start = relay.full(const(first(kind), kind), shape, kind)
        # Slices with a negative segment index belong to no segment: they are written to an additional one, which is
        # removed.
        start = relay.concatenate([start, relay.full(const(first(kind), kind), [1, *shape[1:]], kind)], 0)
        places = relay.cast(ids, "int64")
        places = relay.where(relay.less(places, const(0, "int64")), const(count[0], "int64"), places)
        out = relay.scatter_nd(start, relay.expand_dims(places, 0), data, mode)
        return relay.strided_slice(out, [0], [count[0]], axes=[0])

    return convert


def _limit(which: str):
    def number(kind: str):
        if kind.startswith("float"):
            return float(getattr(np.finfo(kind), which))
        return int(getattr(np.iinfo(kind), which))

    return number


for _name, _mode, _first in (("SUM", "add", lambda kind: 0), ("PROD", "mul", lambda kind: 1),
                             ("MAX", "max", _limit("min")), ("MIN", "min", _limit("max"))):  # fmt: skip
    op(f"UNSORTED_SEGMENT_{_name}")(_segments(_mode, _first))
