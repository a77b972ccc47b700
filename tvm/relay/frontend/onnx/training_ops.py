"""Converters of optimizer steps, which update tensors by their gradients."""

from __future__ import annotations

from collections.abc import Callable

from ....error import TVMError
from ... import op as relay
from .table import op

_DOMAIN = "ai.onnx.preview.training"


def _each(ctx, inputs: list, kinds: int, step: Callable[..., tuple]) -> list:
    """Apply an optimizer step to each tensor.

    The inputs are the learning rate, the step count, all tensors, their gradients, and the groups of optimizer states.
    The outputs have the same order, without the gradients.
    """
    rate, done, rest = inputs[0], inputs[1], inputs[2:]
    if len(rest) % kinds:
        raise TVMError(f"the number of inputs after R and T must be divisible by {kinds}, got {len(rest)}")
    count = len(rest) // kinds
    rows = [step(rate, done, *rest[i::count]) for i in range(count)]
    return [row[k] for k in range(kinds - 1) for row in rows]


def _scaled(ctx, number: float, x):
    return relay.multiply(ctx.like(number, x), x)


def _regularized(ctx, attrs, x, gradient):
    return relay.add(_scaled(ctx, attrs.get("norm_coefficient", 0.0), x), gradient)


@op(f"{_DOMAIN}.Adagrad")
def adagrad(ctx, inputs, attrs):
    def step(rate, done, x, gradient, squares):
        one = ctx.like(1, rate)
        slower = relay.add(one, _scaled(ctx, attrs.get("decay_factor", 0.0), relay.cast(done, ctx.dtype(rate))))
        gradient = _regularized(ctx, attrs, x, gradient)
        squares = relay.add(squares, relay.multiply(gradient, gradient))
        size = relay.add(relay.sqrt(squares), ctx.like(attrs.get("epsilon", 1e-6), x))
        return relay.subtract(x, relay.divide(relay.multiply(relay.divide(rate, slower), gradient), size)), squares

    return _each(ctx, inputs, 3, step)


@op(f"{_DOMAIN}.Adam")
def adam(ctx, inputs, attrs):
    alpha, beta = attrs.get("alpha", 0.9), attrs.get("beta", 0.999)

    def averaged(weight: float, past, new):
        return relay.add(_scaled(ctx, weight, past), _scaled(ctx, 1 - weight, new))

    def step(rate, done, x, gradient, mean, squares):
        gradient = _regularized(ctx, attrs, x, gradient)
        mean = averaged(alpha, mean, gradient)
        squares = averaged(beta, squares, relay.multiply(gradient, gradient))
        size = relay.add(relay.sqrt(squares), ctx.like(attrs.get("epsilon", 1e-6), x))
        new = relay.subtract(x, relay.divide(relay.multiply(_adam_rate(ctx, rate, done, alpha, beta), mean), size))
        return _scaled(ctx, 1 - attrs.get("norm_coefficient_post", 0.0), new), mean, squares

    return _each(ctx, inputs, 4, step)


def _adam_rate(ctx, rate, done, alpha: float, beta: float):
    """Return the bias-corrected learning rate: the moving averages start at zero."""
    times, one = relay.cast(done, ctx.dtype(rate)), ctx.like(1, rate)
    missing = [relay.subtract(one, relay.power(ctx.like(weight, rate), times)) for weight in (alpha, beta)]
    later = relay.divide(relay.multiply(rate, relay.sqrt(missing[1])), missing[0])
    return relay.where(relay.greater(done, ctx.like(0, done)), later, rate)


@op(f"{_DOMAIN}.Momentum")
def momentum(ctx, inputs, attrs):
    mode = attrs["mode"]
    if mode not in ("standard", "nesterov"):
        raise TVMError(f"mode must be 'standard' or 'nesterov', got '{mode}'")

    def step(rate, done, x, gradient, past):
        gradient = _regularized(ctx, attrs, x, gradient)
        later = relay.greater(done, ctx.like(0, done))
        weight = relay.where(later, ctx.like(attrs["beta"], x), ctx.like(1, x))
        new = relay.add(_scaled(ctx, attrs["alpha"], past), relay.multiply(weight, gradient))
        way = new if mode == "standard" else relay.add(gradient, _scaled(ctx, attrs["alpha"], new))
        return relay.subtract(x, relay.multiply(rate, way)), new

    return _each(ctx, inputs, 3, step)
