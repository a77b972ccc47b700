"""Workloads: 2D convolutions as records of their dimensions."""

from __future__ import annotations

from typing import NamedTuple

from ...error import TVMError
from ..utils import get_const_tuple
from .utils import pads, spatial


class Workload(NamedTuple):
    """The dimensions of a convolution; those of the kernel are without dilation."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    groups: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int

    @property
    def out_height(self) -> int:
        reach = (self.kernel_h - 1) * self.dilation_h + 1
        return (self.height + self.padt + self.padb - reach) // self.stride_h + 1

    @property
    def out_width(self) -> int:
        reach = (self.kernel_w - 1) * self.dilation_w + 1
        return (self.width + self.padl + self.padr - reach) // self.stride_w + 1


def _workload(image: tuple[int, int, int], filters: tuple[int, int, int, int], stride, padding, dilation, dtypes):
    """Return a workload; ``image`` is (channels, height, width), ``filters`` is (output channels, groups, height,
    width)."""
    strides, dilations = spatial(stride, 2, "strides"), spatial(dilation, 2, "dilation")
    window = filters[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilations)]
    before, after = pads(padding, reach, 2, "workload")
    return Workload(
        *dtypes, image[1], image[2], image[0], filters[1], filters[0], *window, *before, *after, *dilations, *strides
    )


def conv2d_workload(data, kernel, stride, padding, dilation, out_dtype, data_layout="NCHW") -> Workload:
    """The workload of a 2D convolution; it has groups if the kernel has fewer channels than the data."""
    x, w = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    if data_layout == "NCHW":
        image, (out, inside, kh, kw) = (x[1], x[2], x[3]), w
    elif data_layout == "NHWC":
        image, (kh, kw, inside, out) = (x[3], x[1], x[2]), w
    elif data_layout == "HWCN":
        image, (kh, kw, inside, out) = (x[2], x[0], x[1]), w
    else:
        raise TVMError(f"conv2d: unsupported layout '{data_layout}' for a workload; expected NCHW, NHWC or HWCN")
    dtypes = (data.dtype, out_dtype)
    return _workload(image, (out, image[0] // inside, kh, kw), stride, padding, dilation, dtypes)


def depthwise_workload(data, kernel, stride, padding, dilation, out_dtype, data_layout="NCHW") -> Workload:
    """The workload of a depthwise convolution."""
    x, w = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    if data_layout == "NCHW":
        image, out, window = (x[1], x[2], x[3]), w[0] * w[1], w[2:]
    elif data_layout == "NHWC":
        image, out, window = (x[3], x[1], x[2]), w[2] * w[3], w[:2]
    elif data_layout == "NCHWc":
        image, out, window = (x[1] * x[4], x[2], x[3]), w[0] * w[5], w[2:4]
    else:
        raise TVMError(
            f"depthwise_conv2d: unsupported layout '{data_layout}' for a workload; expected NCHW, NHWC or NCHWc"
        )
    return _workload(image, (out, image[0], *window), stride, padding, dilation, (data.dtype, out_dtype))


__all__ = ["Workload", "conv2d_workload", "depthwise_workload"]
