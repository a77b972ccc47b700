"""Layers that create the variables of their parameters, named after the layer."""

from __future__ import annotations

from ..expr import var
from ..op import nn


def _weight(name: str, weight):
    return weight if weight is not None else var(name + "_weight")


def batch_norm_infer(data, gamma=None, beta=None, moving_mean=None, moving_var=None, **kwargs):
    """Return batch normalization at inference, without the updated statistics."""
    name = kwargs.pop("name")
    given = (gamma, beta, moving_mean, moving_var)
    names = ("gamma", "beta", "moving_mean", "moving_var")
    vectors = [g if g is not None else var(f"{name}_{n}") for g, n in zip(given, names)]
    return nn.batch_norm(data, *vectors, **kwargs)[0]


def conv1d(data, weight=None, **kwargs):
    name = kwargs.pop("name")
    return nn.conv1d(data, _weight(name, weight), **kwargs)


def conv2d(data, weight=None, **kwargs):
    name = kwargs.pop("name")
    return nn.conv2d(data, _weight(name, weight), **kwargs)


def conv3d(data, weight=None, **kwargs):
    name = kwargs.pop("name")
    return nn.conv3d(data, _weight(name, weight), **kwargs)


def conv2d_transpose(data, weight=None, **kwargs):
    name = kwargs.pop("name")
    return nn.conv2d_transpose(data, _weight(name, weight), **kwargs)


def dense_without_bias(data, weight=None, units=None, **kwargs):
    name = kwargs.pop("name")
    return nn.dense(data, _weight(name, weight), units, **kwargs)


def dense_add_bias(data, weight=None, bias=None, units=None, **kwargs):
    """Return a dense layer with a bias."""
    name = kwargs.pop("name")
    bias = bias if bias is not None else var(name + "_bias")
    return nn.bias_add(nn.dense(data, _weight(name, weight), units, **kwargs), bias, axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the weight layout that matches a data layout."""
    known = {
        "NCHW": "OIHW",
        "NCHW4c": "OIHW4o4i",
        "NHWC": "HWOI" if is_depthwise else "HWIO",
        "NCDHW": "OIDHW",
        "NDHWC": "DHWIO",
    }
    if data_layout not in known:
        raise ValueError(f"no weight layout for data layout '{data_layout}'; expected one of {', '.join(known)}")
    return known[data_layout]
