"""Convolutions on a GPU: as tiled implicit GEMM, and depthwise."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ... import te
from ...dtype import info
from ...target import Target
from ...te.tensor import Tensor
from .. import nn
from ..nn.convolution import Convolution, convolution_of, depthwise_of, filter_at, nhwc_filter, padded_data
from ..utils import get_const_int, simplify
from . import depthwise, gemm, tiled_matmul, tuned
from .classes import as_number, is_known
from .machine import Machine


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: str | None = None,
    name: str = "conv",
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.conv`` as implicit GEMM or as a depthwise convolution; unchanged for dynamic dimensions."""
    known = convolution_of(inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype, name)
    layouts = known.data_layout, known.kernel_layout
    around = (*known.before, *known.after)
    several = known.groups == 1 or getattr(known.weight["I"], "value", 0) > 1
    source = padded_data(inp, known) if several else inp
    channels = source.shape[known.data_layout.index("C")]
    fixed = tuned.is_known(filt.shape, [channels])
    if several and fixed and gemm.is_tiled((source, filt), None, te.const(known.groups, "int32")):
        task = f"group_{name}" if known.groups > 1 and name in ("conv1d", "conv2d") else name
        workload = tuned.conv_workload(
            task, inp, filt, layouts, known.strides, around, known.dilations, known.groups, known.dtype
        )
        return _as_matmul(source, filt, known, name, workload, Machine(target))
    is_depthwise = not several and data_layout in ("NCHW", "NHWC") and getattr(known.weight["I"], "value", 0) == 1
    if not is_depthwise or not tuned.is_known(inp.shape, filt.shape) or not gemm.is_tiled((inp, filt)):
        return nn.conv(inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype, name)

    def one_filter(c, y, x):
        at = {"O": c, "I": 0, "H": y, "W": x}
        return filt(*[at[letter] for letter in known.kernel_layout])

    window = [known.weight[c] for c in known.spatial]
    return _depthwise(
        inp,
        one_filter,
        window,
        known.out,
        (known.before, known.after),
        known.strides,
        known.dilations,
        data_layout,
        known.dtype,
        name,
        Machine(target),
    )


def depthwise_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.depthwise_conv2d_nchw`` for the GPU template."""
    if not tuned.is_known(Input.shape, Filter.shape) or not gemm.is_tiled((Input, Filter)):
        return nn.depthwise_conv2d_nchw(Input, Filter, stride, padding, dilation, out_dtype)
    return _depthwise_of(Input, Filter, stride, padding, dilation, ("NCHW", "OIHW"), out_dtype, target)


def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.depthwise_conv2d_nhwc`` for the GPU template."""
    kernel_layout, out_dtype = nhwc_filter(kernel_layout, out_dtype)
    known = tuned.is_known(Input.shape, Filter.shape)
    if not known or not gemm.is_tiled((Input, Filter)):
        return nn.depthwise_conv2d_nhwc(Input, Filter, stride, padding, dilation, kernel_layout, out_dtype)
    return _depthwise_of(Input, Filter, stride, padding, dilation, ("NHWC", kernel_layout), out_dtype, target)


def _depthwise_of(
    data: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layouts: tuple[str, str],
    out_dtype: str | None,
    target: Target,
) -> Tensor:
    known = depthwise_of(data, filt, stride, padding, dilation, *layouts, out_dtype)
    images = data.shape[layouts[0].index("N")]
    out = {"N": images, "C": known.channels * known.multiplier, **dict(zip("HW", known.size))}
    return _depthwise(
        data,
        lambda c, y, x: filter_at(filt, known, layouts[1], c, y, x),
        known.window,
        out,
        (known.before, known.after),
        known.strides,
        known.dilations,
        layouts[0],
        known.dtype,
        "DepthwiseConv2d",
        Machine(target),
    )


def _depthwise(
    data: Tensor,
    weight: Callable[..., Any],
    window: Any,
    out: dict[str, Any],
    around: Any,
    strides: Any,
    dilations: Any,
    layout: str,
    dtype: str,
    name: str,
    machine: Machine,
) -> Tensor:
    """Return a depthwise convolution. ``weight(channel, y, x)`` reads the filter of an output channel; ``around`` is
    the padding at the start and end."""
    images, channels, rows, columns = (get_const_int(out[c]) for c in "NCHW")
    multiplier = channels // get_const_int(data.shape[layout.index("C")])
    sizes = depthwise.Sizes(
        images,
        channels,
        rows,
        columns,
        tuple(map(get_const_int, window)),
        tuple(strides),
        multiplier,
        layout == "NHWC",
        info(data.dtype).bytes,
        tuple(dilations),
    )
    workload = tuned.depthwise_workload(
        data, layout, sizes.window, multiplier, strides, (*around[0], *around[1]), dilations, dtype
    )
    return depthwise.conv(data, weight, sizes, around[0], dilations, layout, dtype, name, machine, workload)


def _channel_and_tap(k: Any, channels: int, window: list[int]) -> tuple[Any, list[Any]]:
    """Return the channel and the tap for an index along k. The channel varies fastest, so that the tap is the same for
    a whole slice of block_k."""
    if prod(window) == 1:
        return k, [0] * len(window)
    at, tap = k // channels, []
    for w in reversed(window):
        tap.append(at % w)
        at = at // w
    return k % channels, tap[::-1]


def _as_matmul(
    source: Tensor, filt: Tensor, known: Convolution, name: str, workload: tuple[Any, ...] | None, machine: Machine
) -> Tensor:
    """Return a convolution of the padded ``source`` as implicit GEMM, with one batch entry for each group. k covers
    input channels and taps; m and n are filters and pixels."""
    data_layout, kernel_layout, dtype, groups = known.data_layout, known.kernel_layout, known.dtype, known.groups
    strides, dilations, out = known.strides, known.dilations, {c: as_number(simplify(v)) for c, v in known.out.items()}
    channels, window = get_const_int(known.weight["I"]), [get_const_int(known.weight[c]) for c in known.spatial]
    spatial = [c for c in data_layout if c not in "NC"]
    area = prod((out[c] for c in spatial[1:]), start=out[spatial[0]])
    filters, images = out["C"] // groups, out["N"]
    reduction = channels * prod(window)
    channels_last = data_layout.endswith("C")
    several = not is_known(images) or images > 1

    def weights(*index):
        *group, k, o = index
        channel, tap = _channel_and_tap(k, channels, window)
        at = {"O": group[0] * filters + o if group else o, "I": channel, **dict(zip(spatial, tap))}
        return filt(*[at[c] for c in kernel_layout])

    def image(*index):
        *group, k, p = index
        channel, tap = _channel_and_tap(k, channels, window)
        channel = group[0] * channels + channel if group else channel
        at: dict[str, Any] = {"N": p // area if several else 0, "C": channel}
        rest = p % area if several else p
        for c, w, s, d in reversed(list(zip(spatial, tap, strides, dilations))):
            at[c] = (rest % out[c] if c != spatial[0] else rest) * s + w * d
            rest = rest // out[c]
        return source(*[at[c] for c in data_layout])

    channel_axis = data_layout.index("C")
    others = tuple(i for i in range(len(data_layout)) if i != channel_axis)
    batch, group_role, filter_role = (), (), (channel_axis,)
    if groups > 1:
        batch, group_role = (groups,), (gemm.AxisPiece(channel_axis, filters, False),)
        filter_role = (gemm.AxisPiece(channel_axis, filters, True),)
    # m is the outer axis of the output, and n the inner one.
    sides = (image, images * area, others), (weights, filters, filter_role)
    (lhs, m, m_role), (rhs, n, n_role) = sides if channels_last else sides[::-1]
    roles = {"batch": group_role, "m": m_role, "n": n_role}
    result = tiled_matmul.matmul(lhs, rhs, batch, (m, n, reduction), dtype, name, roles, machine, workload)

    def unfold(*at):
        pixel: Any = 0
        for i in others:
            pixel = pixel * out[data_layout[i]] + at[i]
        group, o = (), at[channel_axis]
        if groups > 1:
            group, o = (o // filters,), o % filters
        return (result(*group, pixel, o) if channels_last else result(*group, o, pixel)).astype(dtype)

    return te.compute([out[c] for c in data_layout], unfold, name=name, tag=f"{name}_{data_layout.lower()}")


__all__ = ["conv", "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc"]
