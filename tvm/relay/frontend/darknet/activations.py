"""The activation functions of DarkNet."""

from __future__ import annotations

from collections.abc import Callable

from ....error import TVMError, did_you_mean
from ... import op as relay
from ...expr import RelayExpr
from .table import Context, layer


def _where_positive(slope: float) -> Callable:
    return lambda ctx, x: relay.nn.leaky_relu(x, slope)


def _ramp(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.add(relay.nn.relu(x), relay.multiply(x, ctx.like(0.1, x)))


def _negative_exponential(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return exp(x) - 1 for negative x, else 0. The argument of exp is clamped, so that it cannot overflow."""
    below = relay.minimum(x, ctx.like(0, x))
    return relay.subtract(relay.exp(below), ctx.like(1, x))


def _elu(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.add(relay.nn.relu(x), _negative_exponential(ctx, x))


def _selu(ctx: Context, x: RelayExpr) -> RelayExpr:
    below = relay.multiply(ctx.like(1.6732, x), _negative_exponential(ctx, x))
    return relay.multiply(ctx.like(1.0507, x), relay.add(relay.nn.relu(x), below))


def _plse(ctx: Context, x: RelayExpr) -> RelayExpr:
    middle = relay.add(relay.multiply(x, ctx.like(0.125, x)), ctx.like(0.5, x))
    low = relay.multiply(ctx.like(0.01, x), relay.add(x, ctx.like(4, x)))
    high = relay.add(relay.multiply(ctx.like(0.01, x), relay.subtract(x, ctx.like(4, x))), ctx.like(1, x))
    return relay.where(relay.less(x, ctx.like(-4, x)), low, relay.where(relay.greater(x, ctx.like(4, x)), high, middle))


def _lhtan(ctx: Context, x: RelayExpr) -> RelayExpr:
    inside = relay.clip(x, 0.0, 1.0)
    return relay.add(inside, relay.multiply(ctx.like(0.001, x), relay.subtract(x, inside)))


def _stair(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return a staircase function: constant from an even integer to the next odd one, then rising to the next even
    one."""
    low, half = relay.floor(x), relay.floor(relay.multiply(x, ctx.like(0.5, x)))
    odd = relay.subtract(low, relay.multiply(ctx.like(2, x), relay.floor(relay.multiply(low, ctx.like(0.5, x)))))
    return relay.add(half, relay.multiply(odd, relay.subtract(x, low)))


def _loggy(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.subtract(relay.multiply(ctx.like(2, x), relay.sigmoid(x)), ctx.like(1, x))


def _softplus(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return log(1 + exp(x)) without overflow."""
    return relay.add(relay.nn.relu(x), relay.log1p(relay.exp(relay.negative(relay.abs(x)))))


def _hard_mish(ctx: Context, x: RelayExpr) -> RelayExpr:
    curve = relay.add(relay.multiply(relay.multiply(x, x), ctx.like(0.5, x)), x)
    below = relay.where(relay.greater(x, ctx.like(-2, x)), curve, ctx.like(0, x))
    return relay.where(relay.greater(x, ctx.like(0, x)), x, below)


def _gelu(ctx: Context, x: RelayExpr) -> RelayExpr:
    inner = relay.add(
        relay.multiply(ctx.like(0.797885, x), x),
        relay.multiply(ctx.like(0.035677, x), relay.multiply(x, relay.multiply(x, x))),
    )
    return relay.multiply(relay.multiply(ctx.like(0.5, x), x), relay.add(ctx.like(1, x), relay.tanh(inner)))


def _channel_share(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Divide the positive part of each channel by the sum of the positive parts of all channels."""
    ctx.image(x)
    above = relay.nn.relu(x)
    return relay.divide(above, relay.add(relay.sum(above, axis=1, keepdims=True), ctx.like(1e-4, x)))


def _channel_softmax(least: bool) -> Callable:
    def convert(ctx: Context, x: RelayExpr) -> RelayExpr:
        ctx.image(x)
        moved = relay.subtract(x, relay.max(x, axis=1, keepdims=True)) if least else x
        powers = relay.exp(moved)
        return relay.divide(powers, relay.add(relay.sum(powers, axis=1, keepdims=True), ctx.like(1e-4, x)))

    return convert


ACTIVATIONS: dict[str, Callable] = {
    "linear": lambda ctx, x: x, "logistic": lambda ctx, x: relay.sigmoid(x), "loggy": _loggy,
    "relu": lambda ctx, x: relay.nn.relu(x), "relu6": lambda ctx, x: relay.clip(x, 0.0, 6.0), "elu": _elu,
    "selu": _selu, "relie": _where_positive(0.01), "ramp": _ramp, "leaky": _where_positive(0.1),
    "revleaky": _where_positive(0.1), "tanh": lambda ctx, x: relay.tanh(x), "plse": _plse, "stair": _stair,
    "hardtan": lambda ctx, x: relay.clip(x, -1.0, 1.0), "lhtan": _lhtan, "gelu": _gelu,
    "swish": lambda ctx, x: relay.multiply(x, relay.sigmoid(x)),
    "mish": lambda ctx, x: relay.multiply(x, relay.tanh(_softplus(ctx, x))), "hard_mish": _hard_mish,
    "normalize_channels": _channel_share, "normalize_channels_softmax": _channel_softmax(False),
    "normalize_channels_softmax_maxval": _channel_softmax(True),
}  # fmt: skip


def activated(ctx: Context, x: RelayExpr, name: str) -> RelayExpr:
    """Apply the activation function with the given name."""
    if name not in ACTIVATIONS:
        raise TVMError(f"the activation '{name}' is not supported{did_you_mean(name, ACTIVATIONS, '; ')}")
    return ACTIVATIONS[name](ctx, ctx.made(x))


@layer("activation")
def activation(ctx, x):
    return activated(ctx, x, ctx.section.text("activation", "linear"))


@layer("logistic")
def logistic(ctx, x):
    return relay.sigmoid(x)


__all__ = ["ACTIVATIONS", "activated"]
