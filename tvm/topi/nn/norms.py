"""Normalization over batches, groups and rows, composed of ``topi`` operators."""

from __future__ import annotations

from collections.abc import Sequence

from ...error import TVMError
from ...te.tensor import Tensor
from ..broadcast import add, divide, multiply, subtract
from ..math import rsqrt, sqrt
from ..reduction import mean
from ..transform import reshape
from ..utils import get_const_int, normalize_axes, normalize_axis


def _along(vector: Tensor, axes: Sequence[int], rank: int) -> Tensor:
    """Return a vector reshaped to the sizes of some axes, with size 1 along the others."""
    shape: list = [1] * rank
    for axis, size in zip(axes, vector.shape):
        shape[axis] = size
    return reshape(vector, shape)


def batch_norm(
    data, gamma, beta, moving_mean, moving_var, axis=None, epsilon=None, center=None, scale=None, training=None,
    momentum=None,
):  # fmt: skip
    """[(x - mean) / sqrt(variance + epsilon) * gamma + beta, mean, variance] for each index of ``axis``.

    Mean and variance are the moving ones. In training they are computed from the data, and the moving ones are updated
    with ``momentum``.
    """
    rank = len(data.shape)
    axis = normalize_axis(1 if axis is None else axis, rank, "batch_norm")
    epsilon = 1e-5 if epsilon is None else epsilon
    momentum = 0.1 if momentum is None else momentum
    used_mean, used_var = moving_mean, moving_var
    if training:
        others = [i for i in range(rank) if i != axis]
        used_mean = mean(data, axis=others)
        apart = subtract(data, _along(used_mean, [axis], rank))
        used_var = mean(multiply(apart, apart), axis=others)
    out = divide(subtract(data, _along(used_mean, [axis], rank)), sqrt(add(_along(used_var, [axis], rank), epsilon)))
    out = multiply(out, _along(gamma, [axis], rank)) if scale is None or scale else out
    out = add(out, _along(beta, [axis], rank)) if center is None or center else out
    if not training:
        # Outputs must be new tensors, not aliases of inputs.
        return [out, multiply(moving_mean, 1), multiply(moving_var, 1)]
    return [
        out,
        add(multiply(moving_mean, 1 - momentum), multiply(used_mean, momentum)),
        add(multiply(moving_var, 1 - momentum), multiply(used_var, momentum)),
    ]


def _normal(data: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) over axes, computed in float32 if x has fewer bits."""
    wide = data.astype("float32") if data.dtype in ("float16", "bfloat16") else data
    apart = subtract(wide, mean(wide, axis=axes, keepdims=True))
    return multiply(apart, rsqrt(add(mean(multiply(apart, apart), axis=axes, keepdims=True), epsilon)))


def group_norm(data, gamma, beta, num_groups, channel_axis, axes, epsilon=1e-5):
    """``data`` normalized over ``axes`` and the channels of each of ``num_groups`` groups. gamma and beta have one
    value for each channel.

    Raises
    ------
    TVMError
        The channels are not divisible into the groups.
    """
    rank = len(data.shape)
    channel_axis = normalize_axis(channel_axis, rank, "group_norm")
    axes = normalize_axes(axes, rank, "group_norm")
    channels = get_const_int(data.shape[channel_axis])
    if channels % num_groups:
        raise TVMError(f"group_norm: {channels} channels are not divisible into {num_groups} groups")
    shape = list(data.shape)
    split = reshape(data, [*shape[:channel_axis], num_groups, channels // num_groups, *shape[channel_axis + 1 :]])
    over = [channel_axis + 1, *(a + (a > channel_axis) for a in axes)]
    out = reshape(_normal(split, over, epsilon), shape)
    return _scaled(out, gamma, beta, [channel_axis], rank, data.dtype)


def instance_norm(data, gamma, beta, channel_axis, axis, epsilon=1e-5):
    """``data`` normalized over ``axis`` for each channel of each batch element."""
    rank = len(data.shape)
    axes = normalize_axes(axis, rank, "instance_norm")
    channel_axis = normalize_axis(channel_axis, rank, "instance_norm")
    return _scaled(_normal(data, axes, epsilon), gamma, beta, [channel_axis], rank, data.dtype)


def _scaled(out: Tensor, gamma, beta, axes: Sequence[int], rank: int, dtype: str) -> Tensor:
    for value, combine in ((gamma, multiply), (beta, add)):
        if value is not None:
            out = combine(out, _along(value.astype(out.dtype), axes, rank))
    return out.astype(dtype)


def rms_norm(data, weight, bias, axis, epsilon=1e-5):
    """x / sqrt(mean(x * x) + epsilon) * weight + bias over axes; ``bias`` may be None."""
    rank = len(data.shape)
    axes = normalize_axes(axis, rank, "rms_norm")
    wide = data.astype("float32") if data.dtype in ("float16", "bfloat16") else data
    out = multiply(wide, rsqrt(add(mean(multiply(wide, wide), axis=axes, keepdims=True), epsilon)))
    return _scaled(out, weight, bias, axes, rank, data.dtype)


__all__ = ["batch_norm", "group_norm", "instance_norm", "rms_norm"]
