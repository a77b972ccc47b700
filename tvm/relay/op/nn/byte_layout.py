"""Layouts of 8-bit convolutions and dense layers for targets whose kernels call C functions (``byte_kernels``)."""

from __future__ import annotations

import numpy as np

from ....topi.cpu.byte_functions import ByteKernels
from ....topi.nn.byte_windows import largest_group
from ...expr import Constant, RelayExpr
from . import byte_conv


def interleaved(filters: np.ndarray, kernels: ByteKernels) -> Constant:
    """Pack rows of filters as (o/f, blocks, 1, f, terms), with zeros after the last term."""
    count, terms = filters.shape
    group, block = largest_group(count), kernels.block(terms)
    whole = np.pad(filters, ((0, 0), (0, -terms % block)))
    return Constant(whole.reshape(count // group, group, -1, 1, block).transpose(0, 2, 3, 1, 4))


def channel_taps(taps: np.ndarray) -> Constant:
    """Pack the taps of each channel (c, taps) for a depthwise convolution as (c/f, taps, f)."""
    channels, count = taps.shape
    return Constant(taps.reshape(channels // largest_group(channels), -1, count).transpose(0, 2, 1))


def convolution(attrs, data: RelayExpr, kernel: np.ndarray, channels: int, kernels: ByteKernels) -> RelayExpr | None:
    """Return a convolution in NHWC with weights OIHW; None if there is no kernel for its groups or types."""
    if data.checked_type_.dtype not in kernels.data or kernel.dtype != np.int8:
        return None
    options = {"strides": attrs.strides, "padding": attrs.padding, "dilation": attrs.dilation,
               "kernel_size": kernel.shape[2:]}  # fmt: skip
    if attrs.groups == 1:
        weight = interleaved(kernel.transpose(0, 2, 3, 1).reshape(kernel.shape[0], -1), kernels)
        return byte_conv.contrib_conv2d_nhwc_int8(data, weight, **options)
    if attrs.groups == channels == kernel.shape[0]:
        weight = channel_taps(kernel.reshape(channels, -1))
        return byte_conv.contrib_depthwise_conv2d_nhwc_int8(data, weight, **options)
    return None


__all__ = ["channel_taps", "convolution", "interleaved"]
