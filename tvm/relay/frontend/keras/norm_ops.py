"""Converters of normalization layers, which compute in at least float32, as in Keras."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from .table import Context, axis_of, layer
from .weights import weight_array


def _wide(ctx: Context, x: RelayExpr) -> RelayExpr:
    return ctx.cast(x, "float32") if ctx.dtype(x) in ("float16", "bfloat16") else x


def _vector(ctx: Context, name: str, x: RelayExpr) -> np.ndarray:
    return weight_array(ctx.layer, name).astype(ctx.dtype(x))


def _axes(ctx: Context, rank: int, default: int = -1) -> list[int]:
    found = ctx.get("axis", default)
    found = [found] if isinstance(found, int) else list(found)
    return sorted(axis_of(a, rank) for a in found)


@layer("BatchNormalization", "SyncBatchNormalization", masked=True)
def batch_normalization(ctx, x):
    kept, x = ctx.dtype(x), _wide(ctx, x)
    axes = _axes(ctx, ctx.rank(x))
    if len(axes) != 1:
        raise TVMError(f"normalization along several axes ({axes}) is not supported")
    mean, variance = _vector(ctx, "moving_mean", x), _vector(ctx, "moving_variance", x)
    gamma = _vector(ctx, "gamma", x) if ctx.get("scale", True) else np.ones_like(mean)
    beta = _vector(ctx, "beta", x) if ctx.get("center", True) else np.zeros_like(mean)
    parts = [Constant(v) for v in (gamma, beta, mean, variance)]
    out = relay.nn.batch_norm(x, *parts, axis=axes[0], epsilon=float(ctx.get("epsilon", 1e-3)))[0]
    return ctx.cast(ctx.infer(out), kept)


def _centered(x: RelayExpr, axes) -> tuple[RelayExpr, RelayExpr]:
    """Return the differences from the mean, and their mean square."""
    centered = relay.subtract(x, relay.mean(x, axes, True))
    return centered, relay.mean(relay.multiply(centered, centered), axes, True)


def _scaled(ctx: Context, out: RelayExpr, x: RelayExpr, shape: list[int]) -> RelayExpr:
    if ctx.has("gamma"):
        out = relay.multiply(out, Constant(_vector(ctx, "gamma", x).reshape(shape)))
    if ctx.has("beta") and ctx.get("center", True):
        out = relay.add(out, Constant(_vector(ctx, "beta", x).reshape(shape)))
    return out


@layer("LayerNormalization", masked=True)
def layer_normalization(ctx, x):
    kept, x = ctx.dtype(x), _wide(ctx, x)
    rank = ctx.rank(x)
    axes = _axes(ctx, rank)
    if ctx.get("scale", True) != ctx.has("gamma") or ctx.get("center", True) != ctx.has("beta"):
        if not ctx.get("rms_scaling", False):
            raise TVMError("the model contains no weights gamma or beta for the layer")
    shape = [ctx.known_size(x, i) if i in axes else 1 for i in range(rank)]
    epsilon = float(ctx.get("epsilon", 1e-3))
    if axes == [rank - 1] and not ctx.get("rms_scaling", False):
        size = shape[-1]
        gamma = _vector(ctx, "gamma", x) if ctx.has("gamma") else np.ones(size, ctx.dtype(x))
        beta = _vector(ctx, "beta", x) if ctx.has("beta") else np.zeros(size, ctx.dtype(x))
        out = relay.nn.layer_norm(x, Constant(gamma), Constant(beta), axis=-1, epsilon=epsilon)
        return ctx.cast(ctx.infer(out), kept)
    centered, variance = _centered(x, axes)
    inverse = relay.rsqrt(relay.add(variance, ctx.like(epsilon, x)))
    out = relay.multiply(x if ctx.get("rms_scaling", False) else centered, inverse)
    return ctx.cast(ctx.infer(_scaled(ctx, out, x, shape)), kept)


@layer("GroupNormalization", masked=True)
def group_normalization(ctx, x):
    kept, x = ctx.dtype(x), _wide(ctx, x)
    rank = ctx.rank(x)
    axis = axis_of(ctx.get("axis", -1), rank)
    sizes = ctx.sizes(x)
    channels = ctx.known_size(x, axis)
    groups = ctx.get("groups", 32)
    groups = channels if groups == -1 else groups
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise TVMError(f"the number of channels, {channels}, must be divisible by the number of groups, {groups}")
    parted = relay.reshape(x, (*sizes[:axis], groups, channels // groups, *sizes[axis + 1 :]))
    centered, variance = _centered(parted, [i for i in range(1, rank + 1) if i != axis])
    out = relay.multiply(centered, relay.rsqrt(relay.add(variance, ctx.like(ctx.get("epsilon", 1e-3), x))))
    shape = [channels if i == axis else 1 for i in range(rank)]
    return ctx.cast(ctx.infer(_scaled(ctx, relay.reshape(out, sizes), x, shape)), kept)


@layer("RMSNormalization")
def rms_normalization(ctx, x):
    kept, x = ctx.dtype(x), _wide(ctx, x)
    rank = ctx.rank(x)
    axes = _axes(ctx, rank)
    square = relay.mean(relay.multiply(x, x), axes, True)
    out = relay.multiply(x, relay.rsqrt(relay.add(square, ctx.like(ctx.get("epsilon", 1e-6), x))))
    shape = [ctx.known_size(x, i) if i in axes else 1 for i in range(rank)]
    return ctx.cast(ctx.infer(relay.multiply(out, Constant(_vector(ctx, "scale", x).reshape(shape)))), kept)


@layer("UnitNormalization", masked=True)
def unit_normalization(ctx, x):
    axes = _axes(ctx, ctx.rank(x))
    square = relay.sum(relay.multiply(x, x), axes, True)
    return relay.multiply(x, relay.rsqrt(relay.maximum(square, ctx.like(1e-12, x))))


@layer("SpectralNormalization")
def spectral_normalization(ctx, x):
    # The saved kernel is already normalized.
    return ctx.call(ctx.layer.inner["layer"], x)


@layer("LayerScale", masked=True)
def layer_scale(ctx, x):
    """Convert the LayerScale layer of keras.applications' ConvNeXt."""
    return relay.multiply(x, Constant(_vector(ctx, "gamma", x)))
