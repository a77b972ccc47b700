"""Converters of attention operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .elementwise import as_bool
from .nn_ops import product
from .table import op


@op("scaled_dot_product_attention")
def attention(ctx, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p:
        raise TVMError("the model is in training mode; call eval() before it is traced or exported")
    if enable_gqa and ctx.shape(query)[-3] != ctx.shape(key)[-3]:
        times = ctx.known_size(query, -3) // ctx.known_size(key, -3)
        axis = ctx.rank(key) - 3
        key, value = (ctx.infer(relay.repeat(v, times, axis)) for v in (key, value))
    return product(ctx, _weights(ctx, query, key, attn_mask, is_causal, scale), value)


def _weights(ctx, query, key, attn_mask, is_causal=False, scale=None):
    """Return the attention weights: the softmax of the scaled and masked scores."""
    width = ctx.known_size(query, -1)
    factor = 1 / math.sqrt(width) if scale is None else scale
    rank = ctx.rank(key)
    turned = ctx.infer(relay.transpose(key, [*range(rank - 2), rank - 1, rank - 2]))
    scores = ctx.infer(product(ctx, query, turned))
    scores = ctx.infer(relay.multiply(scores, ctx.like(factor, scores)))
    if is_causal:
        scores = _causal(ctx, scores)
    if attn_mask is not None:
        if ctx.dtype(attn_mask) == "bool":
            scores = relay.where(attn_mask, scores, ctx.like(-math.inf, scores))
        else:
            scores = relay.add(scores, ctx.tensor(attn_mask, ctx.dtype(scores)))
    safe = attn_mask is not None and ctx.dtype(attn_mask) == "bool"
    return ctx.convert("_safe_softmax" if safe else "softmax", ctx.infer(scores), -1)


def _causal(ctx, scores):
    """Mask the scores so that each query attends only to keys at its own and earlier positions."""
    sizes = [ctx.shape(scores)[a] for a in (-2, -1)]
    if all(isinstance(s, int) for s in sizes):
        seen: RelayExpr = const(np.tri(*sizes, dtype=bool))
    else:
        rows, columns = (
            relay.arange(const(0, "int64"), ctx.tensor(ctx.size(scores, a), "int64"), const(1, "int64"), "int64")
            for a in (-2, -1)
        )
        seen = relay.less_equal(relay.expand_dims(columns, 0), relay.expand_dims(rows, 1))
    return ctx.infer(relay.where(seen, scores, ctx.like(-math.inf, scores)))


@op("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_attention_math")  # fmt: skip
def flash_attention(
    ctx,
    query,
    key,
    value,
    dropout_p=0.0,
    is_causal=False,
    return_debug_mask=False,
    attn_mask=None,
    attn_bias=None,
    compute_log_sumexp=False,
    dropout_mask=None,
    scale=None,
    enable_gqa=False,
):
    if any(ctx.wants(i) for i in range(1, ctx.outputs)):
        raise TVMError("only the first output (the attention values) is supported")
    mask = attn_mask if attn_mask is not None else attn_bias
    out = attention(ctx, query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)
    return (out, *[const(0.0)] * 8)


@op("_native_multi_head_attention")
def native_multi_head_attention(
    ctx,
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    if key is not query or value is not query:
        raise TVMError("query, key and value must be the same tensor")
    batch, length, _ = ctx.known_shape(query)
    joined = ctx.convert("linear", query, qkv_weight, qkv_bias)
    parts = relay.transpose(relay.reshape(joined, (batch, length, 3, num_head, embed_dim // num_head)), (2, 0, 3, 1, 4))
    q, k, v = (ctx.infer(relay.squeeze(p, [0])) for p in relay.split(parts, 3, 0))
    weights = _weights(ctx, q, k, None if mask is None else _mask(ctx, mask, mask_type))
    flat = relay.reshape(relay.transpose(product(ctx, weights, v), (0, 2, 1, 3)), (batch, length, embed_dim))
    shown = relay.mean(weights, axis=1) if average_attn_weights else weights
    return ctx.convert("linear", ctx.infer(flat), proj_weight, proj_bias), shown if need_weights else const(0.0)


def _mask(ctx, mask, mask_type):
    """Return the mask of the visible positions: those where ``mask`` is false or 0. A padding mask has one row per
    batch element.
    """
    seen = ctx.infer(relay.logical_not(as_bool(ctx, mask)))
    if mask_type == 1 and ctx.rank(seen) == 2:
        seen = ctx.infer(relay.expand_dims(relay.expand_dims(seen, 1), 1))
    return seen


@op("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    ctx,
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    """Convert the operator that a trace contains for nn.TransformerEncoderLayer when gradients are disabled."""

    def attend(x):
        return native_multi_head_attention(
            ctx,
            x,
            x,
            x,
            embed_dim,
            num_heads,
            qkv_weight,
            qkv_bias,
            proj_weight,
            proj_bias,
            mask,
            False,
            mask_type=mask_type,
        )[0]

    def feed(x):
        inner = ctx.convert("gelu" if use_gelu else "relu", ctx.convert("linear", x, ffn_weight_1, ffn_bias_1))
        return ctx.convert("linear", inner, ffn_weight_2, ffn_bias_2)

    for part, *scales in ((attend, norm_weight_1, norm_bias_1), (feed, norm_weight_2, norm_bias_2)):
        if norm_first:
            src = ctx.infer(relay.add(src, part(ctx.convert("layer_norm", src, [embed_dim], *scales, eps))))
        else:
            src = ctx.convert("layer_norm", ctx.infer(relay.add(src, part(src))), [embed_dim], *scales, eps)
    return src
