"""Converters of normalization operations."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from .activations import along_channels
from .table import Context, Ints, axis_of, constant, half, op


def normalized(ctx: Context, x, axes: list[int], epsilon: float, with_variance: bool = True):
    """Subtract the mean along axes and divide by the standard deviation."""
    centered = relay.subtract(x, relay.mean(x, axes, True))
    if not with_variance:
        return centered
    variance = relay.mean(relay.multiply(centered, centered), axes, True)
    return relay.multiply(centered, relay.rsqrt(relay.add(variance, ctx.like(epsilon, x))))


def scaled(ctx: Context, x, gamma, beta, axis: int):
    x = x if gamma is None else relay.multiply(x, along_channels(ctx, gamma, x, axis))
    return x if beta is None else relay.add(x, along_channels(ctx, beta, x, axis))


def batch_normalized(ctx: Context, x, mean, variance, gamma, beta, epsilon: float, axis: int):
    """Normalize along an axis with given statistics."""
    axis = axis_of(axis, ctx.rank(x))
    size = ctx.known_size(x, axis)
    gamma = constant([1.0] * size, "float32") if gamma is None else gamma
    beta = constant([0.0] * size, "float32") if beta is None else beta
    for name, e in (("mean", mean), ("variance", variance), ("gamma", gamma), ("beta", beta)):
        if ctx.shape(e) != (size,):
            raise TVMError(f"{name} has shape {ctx.shape(e)}, but there are {size} channels")
    return relay.nn.batch_norm(x, gamma, beta, mean, variance, axis=axis, epsilon=epsilon)[0]


@op("batch_norm")
@half
def batch_norm(ctx, x, mean, variance, gamma=None, beta=None, epsilon: float = 1e-5):
    return batch_normalized(ctx, x, mean, variance, gamma, beta, epsilon, 1)


@op("instance_norm")
@half
def instance_norm(ctx, x, gamma=None, beta=None, epsilon: float = 1e-5):
    if ctx.rank(x) < 3:
        raise TVMError(f"expected data of at least 3 dimensions, got {ctx.rank(x)}")
    out = ctx.made(normalized(ctx, x, list(range(2, ctx.rank(x))), epsilon))
    return scaled(ctx, out, gamma, beta, 1)


@op("layer_norm")
@half
def layer_norm(ctx, x, axes: Ints | None = None, gamma=None, beta=None, epsilon: float = 1e-5):
    rank = ctx.rank(x)
    axes = list(range(rank)) if axes is None else sorted(axis_of(a, rank) for a in axes)
    if axes == [rank - 1] and gamma is not None and beta is not None:
        return relay.nn.layer_norm(x, gamma, beta, rank - 1, epsilon)
    out = ctx.made(normalized(ctx, x, axes, epsilon))
    for build, vector in ((relay.multiply, gamma), (relay.add, beta)):
        if vector is not None:
            sizes = ctx.shape(x)
            column = [sizes[a] if a in axes else 1 for a in range(rank)]
            out = build(out, relay.reshape(vector, column))
    return out


@op("l2_norm")
@half
def l2_norm(ctx, x, epsilon: float = 1e-6):
    """Divide by the L2 norm of the last three dimensions."""
    rank = ctx.rank(x)
    if rank < 3:
        raise TVMError(f"expected data of at least 3 dimensions, got {rank}")
    total = relay.sum(relay.multiply(x, x), [rank - 3, rank - 2, rank - 1], True)
    return relay.multiply(x, relay.rsqrt(relay.add(total, ctx.like(epsilon, x))))


@op("local_response_norm")
@half
def local_response_norm(ctx, x, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
    return response_normalized(ctx, x, size, alpha, beta, k, 1)


def response_normalized(ctx: Context, x, size: int, alpha: float, beta: float, k: float, axis: int):
    """Local response normalization over a window of channels.

    A window of even size extends one more channel before than after.
    """
    axis, rank = axis_of(axis, ctx.rank(x)), ctx.rank(x)
    if not 0 < size < 1 << 16:
        raise TVMError(f"a window of {size} channels is not supported")
    if size % 2:
        return relay.nn.lrn(x, size, axis, k, alpha, beta)
    before, channels = size // 2, ctx.known_size(x, axis)
    wide = relay.nn.pad(relay.multiply(x, x), [(before, size - 1 - before) if a == axis else (0, 0)
                                               for a in range(rank)], ctx.like(0, x))  # fmt: skip
    total = None
    for i in range(size):
        part = relay.strided_slice(wide, [i], [i + channels], [1], [axis])
        total = part if total is None else relay.add(total, part)
    base = relay.add(relay.multiply(total, ctx.like(alpha / size, x)), ctx.like(k, x))
    return relay.divide(x, relay.power(base, ctx.like(beta, x)))


__all__ = ["batch_normalized", "l2_norm", "layer_norm", "normalized", "response_normalized", "scaled"]
