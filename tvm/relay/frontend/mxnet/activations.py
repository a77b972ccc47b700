"""Converters of activation functions."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .table import Context, op
from .unary_ops import expm1, softsign


def softplus(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return log(1 + exp(x)) without overflow."""
    return relay.add(relay.nn.relu(x), relay.log1p(relay.exp(relay.negative(relay.abs(x)))))


def activated(ctx: Context, x: RelayExpr, kind: str) -> RelayExpr:
    if kind == "softrelu":
        return softplus(ctx, x)
    if kind == "softsign":
        return softsign(ctx, x)
    return {"relu": relay.nn.relu, "sigmoid": relay.sigmoid, "tanh": relay.tanh}[kind](x)


@op("Activation", "act_type:relu|sigmoid|softrelu|softsign|tanh")
def activation(ctx, inputs, attrs):
    return activated(ctx, inputs[0], attrs.act_type)


def _slopes(ctx, known, attrs) -> dict:
    rank = ctx.rank(known[0])
    return {1: (ctx.known_size(known[0], 1 if rank > 1 else 0),)}


@op(
    "LeakyReLU",
    "act_type:elu|gelu|leaky|prelu|rrelu|selu=leaky slope:float=0.25 lower_bound:float=0.125 upper_bound:float=0.334",
    shapes=_slopes,
)
def leaky_relu(ctx, inputs, attrs):
    x, kind = inputs[0], attrs.act_type
    if kind == "leaky":
        return relay.nn.leaky_relu(x, attrs.slope)
    if kind == "rrelu":
        # At inference the slope is the mean of the two bounds.
        return relay.nn.leaky_relu(x, (attrs.lower_bound + attrs.upper_bound) / 2)
    if kind == "prelu":
        return _prelu(ctx, x, inputs[1])
    if kind == "gelu":
        inner = relay.erf(relay.multiply(x, ctx.like(math.sqrt(0.5), x)))
        return relay.multiply(relay.multiply(x, ctx.like(0.5, x)), relay.add(ctx.like(1, x), inner))
    scale, alpha = (1.0507009873554804934, 1.6732632423543772848) if kind == "selu" else (1.0, attrs.slope)
    below = relay.multiply(ctx.like(alpha, x), expm1(ctx, relay.minimum(x, ctx.like(0, x))))
    out = relay.where(relay.greater(x, ctx.like(0, x)), x, below)
    return relay.multiply(out, ctx.like(scale, x)) if kind == "selu" else out


def _prelu(ctx: Context, x: RelayExpr, slope: RelayExpr) -> RelayExpr:
    """Apply PReLU. A vector of slopes is per channel; a tensor of any other rank broadcasts."""
    if ctx.rank(slope) == 1 and ctx.rank(x) > 1:
        count = ctx.known_size(slope, 0)
        if count not in (1, ctx.known_size(x, 1)):
            raise TVMError(f"{count} slopes do not match {ctx.known_size(x, 1)} channels")
        slope = relay.reshape(slope, (1, count, *[1] * (ctx.rank(x) - 2)))
    return relay.where(relay.greater(x, ctx.like(0, x)), x, relay.multiply(x, slope))
