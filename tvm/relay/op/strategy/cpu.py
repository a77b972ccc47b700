"""Implementations for CPUs: functions of ``topi.cpu`` that replace those of ``topi.nn``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....topi.cpu import byte_windows, convolutions, matmul_nbits, matmuls
from ..implementation import FamilyImplementation


def _on(name: str, function: Callable[..., Any]) -> FamilyImplementation:
    """Return an implementation that replaces function ``name`` by one with the target as an argument."""
    return FamilyImplementation("cpu", lambda attrs, target: {name: partial(function, target=target)})


def _blocked(function: Callable[..., Any], takes_target: bool = False, **logical: str) -> FamilyImplementation:
    """Return an implementation of a convolution over channel blocks. ``logical`` maps function arguments to the call
    attributes that contain the sizes before padding."""

    def told(attrs: Any, target: Any) -> dict[str, Callable[..., Any]]:
        arguments = {name: attrs.entries.get(key) for name, key in logical.items()}
        return {"conv": partial(function, **arguments, **({"target": target} if takes_target else {}))}

    return FamilyImplementation("cpu", told)


ROWS: dict[str, FamilyImplementation] = {
    "nn.batch_matmul": _on("batch_matmul", matmuls.batch_matmul),
    "nn.contrib_dense_pack": _on("dense", matmuls.dense_pack),
    "nn.contrib_dense_nbits": _on("dense", matmul_nbits.dense_nbits_pack),
    "nn.contrib_conv2d_NCHWc": _blocked(convolutions.conv2d_NCHWc, takes_target=True, logical="logical"),
    "nn.contrib_conv2d_NHWC_int8": _on("conv", byte_windows.conv2d_NHWC_int8),
    "nn.contrib_depthwise_conv2d_NHWC_int8": _on("conv", byte_windows.depthwise_conv2d_NHWC_int8),
    "nn.contrib_conv2d_NCHWc_int8": _on("conv", convolutions.conv2d_NCHWc_int8),
    "nn.contrib_depthwise_conv2d_NCHWc_int8": _on("conv", convolutions.depthwise_conv2d_NCHWc_int8),
    "nn.contrib_depthwise_conv2d_NCHWc": _blocked(
        convolutions.depthwise_conv2d_NCHWc, takes_target=True, logical="logical", zero="zero_point"
    ),
    "nn.contrib_conv2d_winograd_NCHWc": _blocked(
        convolutions.conv2d_winograd_NCHWc, takes_target=True, logical="logical"
    ),
    "nn.contrib_conv1d_NCWc": _blocked(convolutions.conv_blocked, channels="in_channels", filters="channels"),
    "nn.contrib_conv3d_NCDHWc": _blocked(convolutions.conv_blocked, channels="in_channels", filters="channels"),
    "nn.contrib_conv2d_transpose_NCHWc": _blocked(
        convolutions.conv2d_transpose_blocked, channels="in_channels", filters="channels"
    ),
}
