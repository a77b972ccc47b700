"""GPU operators under Apache TVM's names, for the current target: ``topi.cuda.conv2d_nchw``, ``topi.mali.dense``.

They take the arguments of the ``topi.nn`` functions with the same names, and compute the operators with the tiles of
the templates.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ...target import Target
from ...target.backend import templates_of
from ...te.tensor import Tensor
from .. import compaction, random, scan, vision
from .conv_transpose import conv_transpose
from .convolution import conv, depthwise_conv2d_nchw, depthwise_conv2d_nhwc
from .matmul import batch_matmul, dense, matmul
from .winograd import conv2d_winograd_nchw

# Import the module by name, because ``topi.sort`` refers to the function.
sort = importlib.import_module("..sort", __package__)


def gpu_target(default: str) -> Target:
    """Return the current target if it is a GPU, else the default."""
    current = Target.current(allow_none=True)
    return current if current is not None and templates_of(current) == "gpu" else Target(default)


def _convolution(data_layout: str, kernel_layout: str, name: str) -> Callable[..., Tensor]:
    def convolution(data, kernel, strides=1, padding="VALID", dilation=1, out_dtype=None, *, target):
        return conv(
            data, kernel, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype, name, target=target
        )

    return convolution


def _grouped(data_layout: str, kernel_layout: str, name: str) -> Callable[..., Tensor]:
    def convolution(data, kernel, stride, padding, dilation, groups=1, out_dtype=None, *, target):
        return conv(
            data, kernel, stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype, name, target=target
        )

    return convolution


def _transposed(data_layout: str, kernel_layout: str, name: str) -> Callable[..., Tensor]:
    def transposed(data, kernel, strides, padding, out_dtype, output_padding, groups=1, *, target):
        return conv_transpose(
            data,
            kernel,
            strides,
            padding,
            1,
            groups,
            data_layout,
            kernel_layout,
            output_padding,
            out_dtype,
            name,
            target=target,
        )

    return transposed


def _conv2d(input, filter, strides, padding, dilation, data_layout="NCHW", kernel_layout="", out_dtype=None, *, target):
    return conv(
        input, filter, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype, "conv2d", target=target
    )


def _conv1d(
    data,
    kernel,
    strides=1,
    padding="VALID",
    dilation=1,
    groups=1,
    data_layout="NCW",
    kernel_layout="",
    out_dtype=None,
    *,
    target,
):
    return conv(
        data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype, "conv1d", target=target
    )


_OPERATORS: dict[str, Callable[..., Any]] = {
    "batch_matmul": batch_matmul,
    "conv": conv,
    "conv1d": _conv1d,
    "conv1d_ncw": _convolution("NCW", "OIW", "conv1d"),
    "conv1d_nwc": _convolution("NWC", "WIO", "conv1d"),
    "conv1d_transpose_ncw": _transposed("NCW", "IOW", "conv1d_transpose"),
    "conv2d": _conv2d,
    "conv2d_hwcn": _convolution("HWCN", "HWIO", "conv2d"),
    "conv2d_nchw": _convolution("NCHW", "OIHW", "conv2d"),
    "conv2d_nhwc": _convolution("NHWC", "HWIO", "conv2d"),
    "conv2d_transpose_nchw": _transposed("NCHW", "IOHW", "conv2d_transpose"),
    "conv2d_winograd_nchw": conv2d_winograd_nchw,
    "conv3d_ncdhw": _grouped("NCDHW", "OIDHW", "conv3d"),
    "conv3d_ndhwc": _grouped("NDHWC", "DHWIO", "conv3d"),
    "conv3d_transpose_ncdhw": _transposed("NCDHW", "IODHW", "conv3d_transpose"),
    "conv_transpose": conv_transpose,
    "dense": dense,
    "depthwise_conv2d_nchw": depthwise_conv2d_nchw,
    "depthwise_conv2d_nhwc": depthwise_conv2d_nhwc,
    "group_conv1d_ncw": _grouped("NCW", "OIW", "conv1d"),
    "group_conv1d_nwc": _grouped("NWC", "WIO", "conv1d"),
    "group_conv2d_nchw": _grouped("NCHW", "OIHW", "group_conv2d"),
    "group_conv2d_nhwc": _grouped("NHWC", "HWIO", "group_conv2d"),
    "group_conv2d_transpose_nchw": _transposed("NCHW", "IOHW", "conv2d_transpose"),
    "matmul": matmul,
}
# Statement operators whose rows are distributed over the threads of ``gpu``.
_STATEMENTS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        sort.sort, sort.argsort, sort.topk, sort.unique, compaction.argwhere, scan.cumsum, scan.cumprod, scan.scanop,
        random.threefry_generate, random.uniform, random.normal, random.multinomial, vision.get_valid_counts,
        vision.non_max_suppression, vision.all_class_non_max_suppression, vision.proposal,
        vision.multibox_transform_loc, vision.multibox_detection,
    )
}  # fmt: skip


def operators(default: str) -> dict[str, Callable[..., Any]]:
    """Return the operators for the current target if it is a GPU, else for ``default``."""

    def named(name: str, function: Callable[..., Any], key: str) -> Callable[..., Any]:
        def operator(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs, **{key: gpu_target(default)})

        operator.__name__ = operator.__qualname__ = name
        operator.__doc__ = f"The operator ``{name}`` of ``topi``, for the current GPU."
        return functools.wraps(function, assigned=())(operator)

    tables = (_OPERATORS, "target"), (_STATEMENTS, "gpu")
    return {name: named(name, function, key) for table, key in tables for name, function in table.items()}


__all__ = ["gpu_target", "operators"]
