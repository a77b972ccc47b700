"""Reference normalizations and small matmuls in NumPy."""

from __future__ import annotations

import numpy as np


def _along(vector, axes, rank: int):
    shape = [1] * rank
    for axis, size in zip(axes, np.shape(vector)):
        shape[axis] = size
    return np.reshape(vector, shape)


def _normal(data, axes, epsilon: float):
    wide = data.astype("float64")
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + epsilon)


def batch_norm(
    x, gamma, beta, moving_mean, moving_var, axis, epsilon, center=True, scale=True, training=False, momentum=0.1
):
    """[normalized x, moving mean, moving variance]"""
    others = tuple(i for i in range(x.ndim) if i != axis)
    mean, var = (x.mean(others), x.var(others)) if training else (moving_mean, moving_var)
    out = (x - _along(mean, [axis], x.ndim)) / np.sqrt(_along(var, [axis], x.ndim) + epsilon)
    out = out * _along(gamma, [axis], x.ndim) if scale else out
    out = out + _along(beta, [axis], x.ndim) if center else out
    if training:
        moving_mean = (1 - momentum) * moving_mean + momentum * mean
        moving_var = (1 - momentum) * moving_var + momentum * var
    return [out.astype(x.dtype), moving_mean, moving_var]


def layer_norm_python(data, gamma, beta, axis, epsilon=1e-5):
    """The data normalized over axes; gamma and beta have the sizes of the axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    out = _normal(data, axes, epsilon) * _along(gamma, axes, data.ndim)
    return (out if beta is None else out + _along(beta, axes, data.ndim)).astype(data.dtype)


def group_norm_python(data, gamma, beta, num_groups, channel_axis, axes, epsilon=1e-5):
    """The data normalized over axes and the channels of each group."""
    shape = data.shape
    channels = shape[channel_axis]
    split = data.reshape([*shape[:channel_axis], num_groups, channels // num_groups, *shape[channel_axis + 1 :]])
    over = (channel_axis + 1, *(a + (a > channel_axis) for a in axes))
    out = _normal(split, over, epsilon).reshape(shape)
    parts = (_along(v, [channel_axis], data.ndim) for v in (gamma, beta))
    weight, bias = parts
    return (out * weight + bias).astype(data.dtype)


def instance_norm_python(data, gamma, beta, axis, epsilon=1e-5):
    """The data normalized over axes for each channel, which is axis 1."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    out = _normal(data, axes, epsilon)
    return (out * _along(gamma, [1], data.ndim) + _along(beta, [1], data.ndim)).astype(data.dtype)


def rms_norm_python(data, weight, bias, axis, epsilon=1e-5):
    """x divided by the square root of the mean of its squares."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    wide = data.astype("float64")
    out = wide / np.sqrt((wide * wide).mean(axes, keepdims=True) + epsilon) * _along(weight, axes, data.ndim)
    return (out if bias is None else out + _along(bias, axes, data.ndim)).astype(data.dtype)


def dense(x, y, bias, use_bias=False, use_relu=False, out_dtype=None):
    """The matmul of x and the transposed y, optionally with a bias and a ReLU."""
    dtype = x.dtype if out_dtype is None else out_dtype
    out = np.dot(x.astype(dtype), y.T.astype(dtype))
    out = out + bias if use_bias else out
    return np.maximum(out, 0) if use_relu else out


def slice_axis_python(data, axis, begin, end=None):
    """A range of one axis."""
    cut = [slice(None)] * data.ndim
    cut[axis] = slice(begin, end)
    return data[tuple(cut)]
