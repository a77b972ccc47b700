"""Converters of matmul, softmax and loss functions."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ..common.matmul import numpy_matmul
from .table import Context, Tensor, op


def _stack(ctx: Context, t: Tensor, rows: tuple, columns: tuple) -> Tensor:
    """Reshape to one matrix for each sample."""
    return ctx.reshaped(t, (math.prod(rows), math.prod(columns)))


def _times(ctx: Context, left: Tensor, right: Tensor, kept: int) -> Tensor:
    """Contract the first axes of ``left`` with those of ``right``, and keep the last ``kept`` axes of ``left``.

    Axes are in the order of expressions, which is the reverse of CNTK's: the right operand comes first in the matmul.
    """
    own = ctx.sizes(left)
    kept = min(kept, len(own))
    inner, outer = own[: len(own) - kept], own[len(own) - kept :]
    if not right.lead and math.prod(ctx.sizes(right)) == 1 != math.prod(inner):
        # A scalar broadcasts to a full tensor.
        right = ctx.tensor(relay.broadcast_to(relay.reshape(right.expr, ()), inner), 0)
    other = ctx.sizes(right)
    if len(other) < len(inner) or other[len(other) - len(inner) :] != inner:
        if math.prod(other) != math.prod(inner):
            raise TVMError(
                f"cannot multiply samples of shapes {other[::-1]} and {own[::-1]}: the reduction axes differ"
            )
        rest: tuple = ()
    else:
        rest = other[: len(other) - len(inner)]
    a, b = _stack(ctx, right, rest, inner), _stack(ctx, left, inner, outer)
    lead = max(a.lead, b.lead)
    sizes = (*rest, *outer)
    if not b.lead:
        # All samples share one matrix: a single matmul.
        flat = relay.reshape(a.expr, (-1, math.prod(inner))) if ctx.rank(a.expr) != 2 else a.expr
        out = numpy_matmul(ctx, ctx.made(flat), b.expr)
        return ctx.tensor(relay.reshape(out, (*ctx.leading(right), *sizes)), lead)
    (x, y), lead = ctx.aligned(a, b)
    out = ctx.tensor(numpy_matmul(ctx, x, y), lead)
    return ctx.reshaped(out, sizes)


@op("Times")
def times(ctx, inputs, attrs):
    if not ctx.rank_of(inputs[0]):
        sides, lead = ctx.aligned(*inputs)
        return Tensor(relay.multiply(*sides), lead)
    return _times(ctx, inputs[0], inputs[1], attrs.get("outputRank", 1))


@op("TransposeTimes")
def transpose_times(ctx, inputs, attrs):
    """Multiply with the left operand transposed; a vector is a column."""
    left = inputs[0]
    sizes = ctx.sizes(left)
    if len(sizes) > 2:
        raise TVMError(f"TransposeTimes: the left operand must have at most 2 dimensions, got {len(sizes)}")
    if len(sizes) == 1:
        left = ctx.reshaped(left, (1, *sizes))
    lead = left.lead
    turned = ctx.tensor(relay.transpose(left.expr, (*range(lead), lead + 1, lead)), lead)
    return _times(ctx, turned, inputs[1], attrs.get("outputRank", 1))


@op("CosDistance")
def cosine(ctx, inputs, attrs):
    """Return the cosine similarity of two vectors as a tensor with one element."""
    (x, y), lead = ctx.aligned(*inputs)
    axes = list(range(lead, ctx.rank(x)))
    dot, a, b = (relay.sum(relay.multiply(p, q), axes) for p, q in ((x, y), (x, x), (y, y)))
    length = relay.multiply(*(relay.sqrt(relay.maximum(v, ctx.like(1e-16, x))) for v in (a, b)))
    return ctx.reshaped(ctx.tensor(relay.divide(dot, length), lead), (1,))


# -- softmax ----------------------------------------------------------------------------------------------------------


def _over(ctx: Context, t: Tensor, attrs, build) -> Tensor:
    """Apply ``build`` along the axis of the attribute, or over all elements of a sample."""
    if "axis" in attrs and attrs["axis"].name == "":
        return Tensor(build(t.expr, ctx.axis(t, attrs["axis"])), t.lead)
    sizes = ctx.sizes(t)
    if len(sizes) == 1:
        return Tensor(build(t.expr, t.lead), t.lead)
    flat = ctx.reshaped(t, (math.prod(sizes),))
    return ctx.reshaped(ctx.tensor(build(flat.expr, t.lead), t.lead), sizes)


@op("Softmax")
def softmax(ctx, inputs, attrs):
    return _over(ctx, inputs[0], attrs, relay.nn.softmax)


@op("LogSoftmax")
def log_softmax(ctx, inputs, attrs):
    return _over(ctx, inputs[0], attrs, relay.nn.log_softmax)


@op("Hardmax")
def hardmax(ctx, inputs, attrs):
    """Return 1 at the first maximum and 0 elsewhere."""

    def build(x, axis):
        count = ctx.known_size(ctx.made(x), axis)
        places = relay.argmax(x, axis)
        return relay.one_hot(places, ctx.like(1, x), ctx.like(0, x), count, axis, ctx.dtype(x))

    return _over(ctx, inputs[0], attrs, build)


# -- loss functions, summed over all samples ---------------------------------------------------------------------------


@op("SquaredError")
def squared_error(ctx, inputs, attrs):
    (x, y), _ = ctx.aligned(*inputs)
    gap = relay.subtract(x, y)
    return Tensor(relay.sum(relay.multiply(gap, gap)), 0)


@op("CrossEntropyWithSoftmax")
def cross_entropy_with_softmax(ctx, inputs, attrs):
    """Cross entropy of labels (first input) and logits."""
    chances = ctx.tensor(_over(ctx, inputs[1], {}, relay.nn.log_softmax).expr, inputs[1].lead)
    (labels, logs), _ = ctx.aligned(inputs[0], chances)
    return Tensor(relay.negative(relay.sum(relay.multiply(labels, logs))), 0)


@op("CrossEntropy")
def cross_entropy(ctx, inputs, attrs):
    (labels, chances), _ = ctx.aligned(*inputs)
    return Tensor(relay.negative(relay.sum(relay.multiply(labels, relay.log(chances)))), 0)


@op("Logistic")
def logistic(ctx, inputs, attrs):
    """Logistic loss of labels and predicted probabilities, with optional weights."""
    tensors, _ = ctx.aligned(*inputs)
    labels, chances = tensors[:2]
    one = ctx.like(1, chances)
    logs = relay.add(
        relay.multiply(labels, relay.log(chances)),
        relay.multiply(relay.subtract(one, labels), relay.log(relay.subtract(one, chances))),
    )
    logs = relay.multiply(logs, tensors[2]) if len(tensors) > 2 else logs
    return Tensor(relay.negative(relay.sum(logs)), 0)


@op("ClassificationError")
def classification_error(ctx, inputs, attrs):
    """Return the number of samples whose label is not the prediction, or not among the top k of a third input."""
    labels, found = inputs[:2]
    count = int(ctx.array(inputs[2].expr, "the number of guesses").reshape(-1)[0]) if len(inputs) > 2 else 1
    size = math.prod(ctx.sizes(found))
    if not 1 <= count <= size:
        raise TVMError(f"the number of guesses {count} is out of range for {size} classes")
    rows = [ctx.made(relay.reshape(t.expr, (-1, math.prod(ctx.sizes(t))))) for t in (labels, found)]
    wanted = relay.expand_dims(relay.argmax(rows[0], 1), 1)
    guesses = relay.topk(rows[1], count, 1, "indices", False, "int32")
    hit = relay.max(relay.cast(relay.equal(relay.cast(wanted, "int32"), guesses), ctx.dtype(found.expr)), [1])
    return Tensor(relay.sum(relay.subtract(ctx.like(1, found.expr), hit)), 0)
