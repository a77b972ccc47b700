"""Converters of attention layers."""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .config import Layer
from .core_ops import einsum
from .table import Context, axis_of, check_count, layer


def _combined_masks(ctx: Context, masks: list[RelayExpr | None]) -> RelayExpr | None:
    """Return the logical and of all masks."""
    found = [m for m in masks if m is not None]
    out = found[0] if found else None
    for m in found[1:]:
        out = ctx.infer(relay.logical_and(out, m))
    return out


def _rows_and_columns(ctx: Context, query: RelayExpr, value: RelayExpr) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = ctx.known_size(query, 1), ctx.known_size(value, 1)
    check_count("the attention mask", [rows, columns])
    return np.arange(rows)[:, None], np.arange(columns)[None]


def _projected(ctx: Context, inner: Layer, x: RelayExpr) -> RelayExpr:
    """Project the last axis of the data to one or several axes."""
    own = Context(ctx.importer, inner, ctx.where)
    kernel = own.array("kernel").astype(ctx.dtype(x))
    sizes = ctx.known_shape(x)
    if kernel.shape[0] != sizes[-1]:
        raise TVMError(f"data of shape {sizes} does not match a projection weight of shape {kernel.shape}")
    out = ctx.product(x, kernel.reshape(sizes[-1], -1))
    out = relay.reshape(out, (*sizes[:-1], *kernel.shape[1:]))
    return ctx.infer(_with_bias(ctx, inner, own, out))


def _joined(ctx: Context, inner: Layer, x: RelayExpr) -> RelayExpr:
    """Project the last two axes (heads and their features) to the axes of the output."""
    own = Context(ctx.importer, inner, ctx.where)
    kernel, sizes = own.array("kernel").astype(ctx.dtype(x)), ctx.known_shape(x)
    if kernel.ndim < 3 or kernel.shape[:2] != tuple(sizes[-2:]):
        raise TVMError(f"data of shape {sizes} does not match a projection weight of shape {kernel.shape}")
    flat = relay.reshape(x, (*sizes[:-2], sizes[-2] * sizes[-1]))
    out = ctx.product(ctx.infer(flat), kernel.reshape(sizes[-2] * sizes[-1], -1))
    out = relay.reshape(out, (*sizes[:-2], *kernel.shape[2:]))
    return ctx.infer(_with_bias(ctx, inner, own, out))


def _with_bias(ctx: Context, inner: Layer, own: Context, out: RelayExpr) -> RelayExpr:
    if inner.get("bias_axes") is None:
        return out
    return relay.add(out, Constant(own.array("bias").astype(ctx.dtype(ctx.infer(out)))))


def _mask(ctx: Context, query, value, query_mask, value_mask, key_mask, attention_mask, causal: bool):
    """Return the mask of the scores that are used, as [batch, rows, columns]."""
    masks: list[RelayExpr | None] = []
    if query_mask is not None:
        masks.append(relay.expand_dims(ctx.cast(query_mask, "bool"), ctx.rank(query_mask)))
    for m in (value_mask, key_mask):
        masks.append(None if m is None else relay.expand_dims(ctx.cast(m, "bool"), ctx.rank(m) - 1))
    window = ctx.get("sliding_window")
    if causal or window is not None:
        rows, columns = _rows_and_columns(ctx, query, value)
        if causal:
            masks.append(const((rows >= columns)[None]))
        if window is not None:
            masks.append(const((np.abs(rows - columns) < window)[None]))
    masks.append(None if attention_mask is None else ctx.cast(attention_mask, "bool"))
    return _combined_masks(ctx, [None if m is None else ctx.infer(m) for m in masks])


def _softmax(ctx: Context, scores: RelayExpr, mask: RelayExpr | None, axes: list[int], heads: int, zeros: bool):
    """Return the softmax of masked scores; with ``zeros``, masked elements of the output are zero."""
    least = ctx.like(-3e4 if ctx.dtype(scores) == "float16" else -1e9, scores)
    if mask is not None:
        for _ in range(ctx.rank(scores) - ctx.rank(mask)):
            mask = ctx.infer(relay.expand_dims(mask, heads))
        scores = ctx.infer(relay.where(mask, scores, least))
    if len(axes) == 1:
        out = relay.nn.softmax(scores, axes[0])
    else:
        sizes = ctx.known_shape(scores)
        flat = relay.reshape(scores, (*sizes[: axes[0]], -1))
        out = relay.reshape(relay.nn.softmax(flat, axes[0]), sizes)
    if mask is not None and zeros:
        out = relay.where(mask, out, ctx.like(0, scores))
    return ctx.infer(out)


def _given_mask(ctx: Context, explicit: Any, *places: int | str) -> Any:
    if explicit is not None:
        return explicit
    return next((ctx.masks[p] for p in places if ctx.masks.get(p) is not None), None)


def _operands(ctx: Context, query, value, key, masks: tuple, use_causal_mask: bool) -> tuple[list, Any]:
    """Return the projections of query, key and value to their heads, and the mask of the scores."""
    query_mask, value_mask, key_mask, attention_mask = masks
    value_mask = _given_mask(ctx, value_mask, 1, "value")
    key_mask = _given_mask(ctx, key_mask, 2, "key") if key is not None else key_mask
    mask = _mask(ctx, query, value, query_mask, value_mask, key_mask, attention_mask, use_causal_mask)
    named = {"query": query, "key": value if key is None else key, "value": value}
    return [_projected(ctx, ctx.layer.inner[f"{name}_dense"], e) for name, e in named.items()], mask


@layer("MultiHeadAttention")
def multi_head_attention(
    ctx,
    query,
    value,
    key=None,
    query_mask=None,
    value_mask=None,
    key_mask=None,
    attention_mask=None,
    return_attention_scores=False,
    use_causal_mask=False,
):
    inner, query_mask = ctx.layer.inner, _given_mask(ctx, query_mask, 0, "query")
    masks = query_mask, value_mask, key_mask, attention_mask
    (q, k, v), mask = _operands(ctx, query, value, key, masks, use_causal_mask)
    rank = ctx.rank(q)
    axes = ctx.get("attention_axes") or list(range(1, rank - 2))
    axes = sorted(axis_of(a, rank - 1) for a in ([axes] if isinstance(axes, int) else axes))
    batch = [i for i in range(rank - 2) if i not in axes]
    letters = string.ascii_lowercase
    left = [letters[i] for i in range(rank)]
    right = [letters[i] if i in batch or i >= rank - 2 else letters[rank + i] for i in range(rank)]
    scores = [*(left[i] for i in batch), left[rank - 2], *(left[i] for i in axes), *(right[i] for i in axes)]
    q = ctx.infer(relay.multiply(q, ctx.like(1 / math.sqrt(ctx.known_size(q, rank - 1)), q)))
    made = einsum(ctx, f"{''.join(left)},{''.join(right)}->{''.join(scores)}", q, k)
    last = list(range(len(scores) - len(axes), len(scores)))
    plain = ctx.version >= 3 and rank == 4 and not ctx.get("dropout", 0) and not return_attention_scores
    weights = _softmax(ctx, made, mask, last, len(batch), ctx.version >= 3 and not plain)
    values = [*right[:-1], letters[2 * rank]]
    result = [*left[:-1], letters[2 * rank]]
    out = einsum(ctx, f"{''.join(scores)},{''.join(values)}->{''.join(result)}", weights, v)
    if "gate_dense" in inner:
        out = ctx.infer(relay.multiply(out, relay.sigmoid(_projected(ctx, inner["gate_dense"], query))))
    out = _joined(ctx, inner["output_dense"], out)
    ctx.result_mask = [query_mask, None] if return_attention_scores else query_mask
    return [out, weights] if return_attention_scores else out


@layer("GroupQueryAttention", "GroupedQueryAttention")
def grouped_query_attention(
    ctx,
    query,
    value,
    key=None,
    query_mask=None,
    value_mask=None,
    key_mask=None,
    attention_mask=None,
    return_attention_scores=False,
    use_causal_mask=False,
):
    inner, query_mask = ctx.layer.inner, _given_mask(ctx, query_mask, 0, "query")
    masks = query_mask, value_mask, key_mask, attention_mask
    (q, k, v), mask = _operands(ctx, query, value, key, masks, use_causal_mask)
    repeats = ctx.get("num_query_heads", 1) // max(ctx.get("num_key_value_heads", 1), 1)
    k, v = (ctx.infer(relay.repeat(e, repeats, 2)) for e in (k, v))
    q = ctx.infer(relay.multiply(q, ctx.like(1 / math.sqrt(ctx.known_size(q, 3)), q)))
    scores = einsum(ctx, "bquh,bkuh->buqk", q, k)
    plain = not ctx.get("dropout", 0) and not return_attention_scores
    weights = _softmax(ctx, scores, mask, [3], 1, not plain)
    out = einsum(ctx, "buqk,bkuh->bquh", weights, v)
    if "gate_dense" in inner:
        out = ctx.infer(relay.multiply(out, relay.sigmoid(_projected(ctx, inner["gate_dense"], query))))
    out = _joined(ctx, inner["output_dense"], out)
    ctx.result_mask = [query_mask, None] if return_attention_scores else query_mask
    return [out, weights] if return_attention_scores else out


def _attention(scores_of):
    def convert(ctx, inputs, mask=None, return_attention_scores=False, use_causal_mask=False):
        if not isinstance(inputs, list) or len(inputs) not in (2, 3):
            raise TVMError("the input must be a list of query, value and optionally key")
        query, value = inputs[:2]
        key = inputs[2] if len(inputs) > 2 else value
        masks = ctx.mask if isinstance(ctx.mask, list) else [None, None]
        scores = ctx.infer(scores_of(ctx, query, key))
        causal = use_causal_mask or ctx.get("causal", False)
        kept = _mask(ctx, query, value, None, masks[1], None, None, causal)
        if kept is not None:
            least = ctx.like(65504.0 if ctx.dtype(scores) == "float16" else 1e9, scores)
            scores = relay.where(kept, scores, relay.subtract(scores, least))
        weights = ctx.infer(relay.nn.softmax(scores, -1))
        out = einsum(ctx, "bqk,bkd->bqd", weights, value)
        if masks[0] is not None:
            shown = relay.expand_dims(ctx.cast(masks[0], "bool"), 2)
            out = relay.where(shown, out, ctx.like(0, out))
        ctx.result_mask = [masks[0], None] if return_attention_scores else masks[0]
        return [out, weights] if return_attention_scores else out

    return convert


def _sums(ctx: Context, query: RelayExpr, key: RelayExpr) -> RelayExpr:
    """Return the sum of each query and each key."""
    return relay.add(relay.expand_dims(query, 2), relay.expand_dims(key, 1))


def _dot_scores(ctx: Context, query: RelayExpr, key: RelayExpr) -> RelayExpr:
    mode = ctx.get("score_mode", "dot")
    if mode == "dot":
        out = einsum(ctx, "bqd,bkd->bqk", query, key)
        return relay.multiply(out, ctx.weight("scale")) if ctx.get("use_scale", False) else out
    if mode != "concat":
        raise TVMError(f"score_mode '{mode}' is not supported")
    total = _sums(ctx, query, key)
    if ctx.get("use_scale", False):
        total = relay.multiply(total, ctx.weight("scale"))
    return relay.multiply(relay.sum(relay.tanh(total), -1), ctx.weight("concat_score_weight"))


def _additive_scores(ctx: Context, query: RelayExpr, key: RelayExpr) -> RelayExpr:
    shown = relay.tanh(_sums(ctx, query, key))
    if ctx.get("use_scale", True):
        shown = relay.multiply(shown, ctx.weight("scale"))
    return relay.sum(shown, -1)


layer("Attention")(_attention(_dot_scores))
layer("AdditiveAttention")(_attention(_additive_scores))
