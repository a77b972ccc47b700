"""Converters of the attention operators of onnxruntime, in float and quantized form, with one packed QKV weight."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ..common import run_time
from ..common.matmul import numpy_matmul
from .quantize import centered_integers
from .table import argument, op

_UNSUPPORTED = ("do_rotary", "past_present_share_buffer", "rotary_embedding_dim")


@op("com.microsoft.Attention")
def attention(ctx, inputs, attrs):
    x, weight, bias = (argument(inputs, i) for i in range(3))
    joined = numpy_matmul(ctx, x, weight)
    joined = joined if bias is None else relay.add(joined, bias)
    if argument(inputs, 6) is not None:
        raise TVMError("input 6 (past_sequence_length) is not supported")
    return _attended(ctx, joined, argument(inputs, 3), argument(inputs, 4), argument(inputs, 5), attrs)


@op("com.microsoft.QAttention")
def quantized_attention(ctx, inputs, attrs):
    x, weight, bias, x_scale, w_scale, mask, x_zero, w_zero, past = (argument(inputs, i) for i in range(9))
    whole = numpy_matmul(
        ctx, centered_integers(ctx, x, x_zero, -1), centered_integers(ctx, weight, w_zero, -1), "int32"
    )
    scales = [relay.reshape(s, ()) if ctx.shape(s) == (1,) else s for s in (x_scale, w_scale)]
    joined = relay.multiply(relay.cast(whole, "float32"), relay.multiply(*scales))
    return _attended(ctx, joined if bias is None else relay.add(joined, bias), mask, past, None, attrs)


def _attended(ctx, joined, mask, past, extra, attrs):
    """Compute multi-head attention from ``joined``, which contains queries, keys and values along its last axis."""
    for name in _UNSUPPORTED:
        if attrs.get(name, 0):
            raise TVMError(f"attribute '{name}' is not supported")
    batch, width = ctx.shape(joined)[0], ctx.known_size(joined, 2)
    heads = attrs["num_heads"]
    if heads < 1 or width % (3 * heads) or len(set(attrs.get("qkv_hidden_sizes", [width // 3]))) > 1:
        raise TVMError(
            f"the last axis of the QKV projection has size {width}; it must be divisible by 3 * {heads} heads, and "
            "queries, keys and values must have the same size"
        )
    size = width // 3 // heads
    parts = relay.transpose(relay.reshape(joined, (0, 0, 3, heads, size)), (2, 0, 3, 1, 4))
    query, key, value = (relay.squeeze(p, [0]) for p in relay.split(parts, 3, 0))
    if past is not None:
        wanted = (2, batch, heads, None, size)
        if ctx.rank(past) != 5 or not all(map(_fits, ctx.shape(past), wanted)):
            raise TVMError(
                f"the past state must have the shape (2, {batch}, {heads}, length, {size}), got {ctx.shape(past)}"
            )
        old = [relay.squeeze(p, [0]) for p in relay.split(past, 2, 0)]
        key, value = relay.concatenate([old[0], key], 2), relay.concatenate([old[1], value], 2)
    scores = numpy_matmul(ctx, query, relay.transpose(key, (0, 1, 3, 2)))
    scores = relay.multiply(scores, ctx.like(attrs.get("scale", 0) or 1 / math.sqrt(size), scores))
    scores = _masked(ctx, ctx.made(scores), mask, attrs)
    scores = scores if extra is None else relay.add(scores, extra)
    out = numpy_matmul(ctx, relay.nn.softmax(scores, -1), value)
    out = relay.reshape(relay.transpose(out, (0, 2, 1, 3)), (0, 0, width // 3))
    return [out, relay.stack([key, value], 0)] if ctx.wants(1) else out


def _fits(have, wanted) -> bool:
    """Return whether dimension ``have`` can equal ``wanted``; a dynamic dimension is compared at run time."""
    return not (isinstance(have, int) and isinstance(wanted, int)) or have == wanted


def _masked(ctx, scores, mask, attrs):
    """Add the mask filter value, a large negative number, to the scores of masked keys."""
    batch, _, length, total = ctx.shape(scores)
    off = ctx.like(attrs.get("mask_filter_value", -10000.0), scores)
    none = ctx.like(0, scores)
    keys = run_time.counted(ctx, run_time.size_of(ctx, scores, 3))
    if mask is not None:
        shape = ctx.shape(mask)
        wanted = {1: (batch,), 2: (batch, total), 3: (batch, length, total)}.get(len(shape), ())
        if not wanted or not all(map(_fits, shape, wanted)):
            raise TVMError(
                f"a mask of shape {shape} is not supported; it must have the shape ({batch},), ({batch}, {total}) "
                f"or ({batch}, {length}, {total})"
            )
        if len(shape) == 1:
            counts = relay.less(relay.cast(keys, ctx.dtype(mask)), relay.expand_dims(mask, 1))
        else:
            counts = relay.greater(mask, ctx.like(0, mask))
        rows = relay.expand_dims(counts, 1, 2 if len(shape) < 3 else 1)
        scores = relay.add(scores, relay.where(rows, none, off))
    if attrs.get("unidirectional", 0):
        # The queries are at the last positions of the keys.
        places = run_time.counted(ctx, run_time.size_of(ctx, scores, 2))
        before = relay.subtract(run_time.size_of(ctx, scores, 3), run_time.size_of(ctx, scores, 2))
        later = relay.greater(relay.expand_dims(keys, 0), relay.expand_dims(relay.add(places, before), 1))
        scores = relay.where(ctx.made(later), ctx.like(float("-inf"), scores), scores)
    return scores
