"""Blocked layouts for 1-D, 3-D and transposed convolutions; see cpu_layout."""

from __future__ import annotations

import numpy as np

from ....ir.op import OPS
from ....runtime.ndarray import elements
from ....target import Target
from ....topi.nn.blocked import phase_kernels
from ....topi.nn.utils import pads
from ...expr import Constant, RelayExpr
from ..rules import dims
from .cpu_layout import block_of, lanes_of
from .packed_nd import contrib_conv1d_ncwc, contrib_conv2d_transpose_nchwc, contrib_conv3d_ncdhwc

_PLAIN = {"NCW": contrib_conv1d_ncwc, "NCDHW": contrib_conv3d_ncdhwc}


def _lanes(attrs, inputs, tinfos, out_type, target: Target | None) -> int | None:
    """Return the vector lanes if the call can use blocks (float32, static shapes, constant weights, one group), else
    None."""
    lanes = lanes_of(target)
    known = all(isinstance(d, int) for d in dims(tinfos[0]))
    floats = tinfos[0].dtype == out_type.dtype == "float32"
    fits = isinstance(inputs[1], Constant) and attrs.groups == 1 and not attrs.out_layout
    return lanes if known and floats and fits else None


def _packed(kernel: np.ndarray, inner: int, outer: int) -> Constant:
    """Pack a kernel (O, I, window) as (O/o, I/i, window, i, o); the last blocks are padded with zeros."""
    o, i, *window = kernel.shape
    more = [(0, -o % outer), (0, -i % inner), *[(0, 0)] * len(window)]
    kernel = np.pad(kernel, more)
    parted = kernel.reshape(kernel.shape[0] // outer, outer, kernel.shape[1] // inner, inner, *window)
    order = [0, 2, *range(4, 4 + len(window)), 3, 1]
    return Constant(parted.transpose(order))


def alter_conv(attrs, inputs, tinfos, out_type, target: Target | None) -> RelayExpr | None:
    """Return a 1-D or 3-D convolution over blocked channels."""
    lanes, layout = _lanes(attrs, inputs, tinfos, out_type, target), attrs.data_layout
    build = _PLAIN.get(layout)
    names = layout[2:]
    if lanes is None or build is None or sorted(attrs.kernel_layout) != sorted("OI" + names):
        return None
    kernel = elements(inputs[1].data).transpose([attrs.kernel_layout.index(c) for c in "OI" + names])
    channels, filters = dims(tinfos[0])[1], kernel.shape[0]
    inner, outer = block_of(channels, lanes), block_of(filters, lanes)
    before, after = pads(
        attrs.padding, [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], attrs.dilation)], len(names), "padding"
    )
    return build(
        inputs[0], _packed(kernel, inner, outer), strides=attrs.strides, padding=(*before, *after),
        dilation=attrs.dilation, in_channels=channels, channels=filters, data_layout=f"{layout}{inner}c",
        kernel_layout=f"OI{names}{inner}i{outer}o", out_layout=f"{layout}{outer}c", out_dtype=attrs.out_dtype,
    )  # fmt: skip


def alter_transposed(attrs, inputs, tinfos, out_type, target: Target | None) -> RelayExpr | None:
    """Return a transposed convolution as ordinary convolutions, one for each phase of the output."""
    lanes = _lanes(attrs, inputs, tinfos, out_type, target)
    layout = attrs.kernel_layout
    if lanes is None or attrs.data_layout != "NCHW" or sorted(layout) != sorted("IOHW"):
        return None
    if tuple(attrs.dilation) != (1, 1):
        return None
    kernel = elements(inputs[1].data).transpose([layout.index(c) for c in "IOHW"])
    channels, filters, *window = kernel.shape
    strides = tuple(int(s) for s in attrs.strides)
    inner, outer = block_of(channels, lanes), block_of(filters, lanes)
    parts = phase_kernels(kernel, strides)
    parts = np.pad(parts, [(0, -filters % outer), *[(0, 0)] * 5])
    blocks = parts.shape[0] // outer
    # The phases of one block of filters are adjacent.
    parts = parts.reshape(blocks, outer, *parts.shape[1:]).transpose(0, 2, 3, 1, 4, 5, 6)
    before, after = pads(attrs.padding, window, 2, "padding")
    return contrib_conv2d_transpose_nchwc(
        inputs[0], _packed(parts.reshape(-1, *parts.shape[4:]), inner, outer), kernel_size=tuple(window),
        strides=strides, padding=(*before, *after), output_padding=tuple(attrs.output_padding), in_channels=channels,
        channels=filters, data_layout=f"NCHW{inner}c", kernel_layout=f"OIHW{inner}i{outer}o",
        out_layout=f"NCHW{outer}c", out_dtype=attrs.out_dtype,
    )  # fmt: skip


def install() -> None:
    for name in ("nn.conv1d", "nn.conv3d"):
        OPS[name].attrs["alter_layout"] = alter_conv
    OPS["nn.conv2d_transpose"].attrs["alter_layout"] = alter_transposed


__all__ = ["alter_conv", "alter_transposed", "install"]
