"""Tuning tasks of the CPU templates: convert the logical arguments of a record to a computation and its schedule."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ... import te
from ...autotvm.task.task import get_config, register_customized
from ...error import TVMError
from ...target import Target
from ...te.tensor import Tensor
from ..schedule.cpu import schedule_for
from . import convolutions, matmuls
from .blocks import MAX_UNBLOCKED_CHANNELS, block_of, group_choice
from .machine import Machine
from .matmul import panel_width
from .winograd import group as winograd_group

Scheduled = tuple[Any, list[Tensor]]


def _lanes(target: Target) -> int:
    return max(target.features.vector_bits // 32, 4)


def _shape(t: Tensor) -> list[int]:
    return [int(d) for d in t.shape]


def _scheduled(target: Target, out: Tensor, inputs: list[Tensor], flop: int) -> Scheduled:
    get_config().add_flop(flop)
    return schedule_for([out], target), [*inputs, out]


def _convolved(target: Target, out: Tensor, inputs: list[Tensor], filters: int, multiplies: int) -> Scheduled:
    """Return a convolution with its number of operations; ``multiplies`` is the number of multiplications for each
    output element. Padding of the last block of filters does not count."""
    n, _, *spatial, _ = _shape(out)
    return _scheduled(target, out, inputs, 2 * n * prod(spatial) * filters * multiplies)


def _blocked(
    data: Tensor, kernel: Tensor, inner: int, taken: int, outer: int, groups: int = 1
) -> tuple[Tensor, Tensor]:
    """Return placeholders of data in blocks of ``inner`` channels and of a kernel in blocks of ``taken`` input and
    ``outer`` output channels."""
    n, c, h, w = _shape(data)
    o, _, kh, kw = _shape(kernel)
    blocks = -(-c // inner)
    inside = 1 if taken == 1 and inner > 1 else blocks // groups
    return (
        te.placeholder((n, blocks, h, w, inner), data.dtype, name="data"),
        te.placeholder((-(-o // outer), inside, kh, kw, taken, outer), kernel.dtype, name="kernel"),
    )


def conv2d(
    target: Target,
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    dtype: str,
) -> Scheduled:
    """Create the task of an ungrouped convolution. Very few channels, as those of an image, are not blocked."""
    channels, (filters, _, kh, kw) = _shape(data)[1], _shape(kernel)
    inner = 1 if channels <= MAX_UNBLOCKED_CHANNELS else block_of(channels, _lanes(target))
    outer = block_of(filters, _lanes(target))
    args = _blocked(data, kernel, inner, inner, outer)
    layouts = f"NCHW{inner}c", f"NCHW{outer}c"
    out = convolutions.conv2d_NCHWc(*args, strides, padding, dilation, *layouts, dtype, (channels, filters, 1))
    return _convolved(target, out, [*args], filters, channels * kh * kw)


def group_conv2d(
    target: Target, data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, groups: int, dtype: str
) -> Scheduled:
    """Create the task of a grouped convolution. Groups are merged if that fills vectors."""
    channels, (filters, inside, kh, kw) = _shape(data)[1], _shape(kernel)
    choice = group_choice(inside, filters // groups, groups, _lanes(target))
    if choice is None:
        raise TVMError(
            f"group_conv2d: {groups} groups of {inside} input and {filters // groups} output channels do not fit into "
            "vector blocks; there is no schedule to tune"
        )
    block, merged = choice
    args = _blocked(data, kernel, block, block, block, groups // merged)
    layout = f"NCHW{block}c"
    logical = channels, filters, groups
    out = convolutions.conv2d_NCHWc(*args, strides, padding, dilation, layout, layout, dtype, logical)
    return _convolved(target, out, [*args], filters, inside * kh * kw)


def depthwise(
    target: Target,
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    dtype: str,
) -> Scheduled:
    """Create the task of a depthwise convolution."""
    filters, _, kh, kw = _shape(kernel)
    block = block_of(filters, _lanes(target))
    args = _blocked(data, kernel, block, 1, block)
    layout, logical = f"NCHW{block}c", (filters, filters, filters)
    out = convolutions.depthwise_conv2d_NCHWc(*args, strides, padding, dilation, layout, layout, dtype, logical)
    return _convolved(target, out, [*args], filters, kh * kw)


def winograd(target: Target, data: Tensor, kernel: Tensor, padding: Any, tile: int, dtype: str) -> Scheduled:
    """Create the task of a 3x3 convolution with Winograd's algorithm. The operations are counted as those of direct
    convolution."""
    n, channels, h, w = _shape(data)
    filters = _shape(kernel)[0]
    inner, outer = (block_of(x, _lanes(target)) for x in (channels, filters))
    blocks, many = -(-channels // inner), -(-filters // outer)
    top, left, bottom, right = padding
    sizes = (n, blocks * inner, many * outer, h + top + bottom - 2, w + left + right - 2)
    _, vectors = winograd_group(sizes, (inner, outer), tile, Machine(target))
    blocked_data = te.placeholder((n, blocks, h, w, inner), data.dtype, name="data")
    shape = (many // vectors, tile + 2, tile + 2, blocks, inner, vectors, outer)
    weight = te.placeholder(shape, kernel.dtype, name="kernel")
    out = convolutions.conv2d_winograd_NCHWc(blocked_data, weight, padding, dtype, (channels, filters))
    return _convolved(target, out, [blocked_data, weight], filters, channels * 9)


def dense(target: Target, data: Tensor, weight: Tensor, bias: Any, dtype: str) -> Scheduled:
    """Create the task of a matmul with constant weights."""
    *lead, features = _shape(data)
    units = _shape(weight)[0]
    width = panel_width(prod(lead), units, Machine(target), data.dtype)
    panels = te.placeholder((-(-units // width), features, width), weight.dtype, name="weight")
    out = matmuls.dense_pack(data, panels, None, dtype, units, target=target)
    return _scheduled(target, out, [data, panels], 2 * prod(lead) * units * features)


def batch_matmul(
    target: Target, a: Tensor, b: Tensor, shape: Any, dtype: str, transpose_a: bool = False, transpose_b: bool = True
) -> Scheduled:
    """Create the task of a batched matmul of two inputs that are not constant."""
    out = matmuls.batch_matmul(a, b, shape, dtype, transpose_a, transpose_b, target=target)
    return _scheduled(target, out, [a, b], 2 * prod(_shape(out)) * _shape(a)[1 if transpose_a else 2])


def conv_nd(
    target: Target, data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, dtype: str
) -> Scheduled:
    """Create the task of a 1D or 3D convolution."""
    n, channels, *sizes = _shape(data)
    filters, _, *window = _shape(kernel)
    lanes = _lanes(target)
    inner, outer = block_of(channels, lanes), block_of(filters, lanes)
    blocks = -(-channels // inner)
    args = (
        te.placeholder((n, blocks, *sizes, inner), data.dtype, name="data"),
        te.placeholder((-(-filters // outer), blocks, *window, inner, outer), kernel.dtype, name="kernel"),
    )
    out = convolutions.conv_blocked(*args, strides, padding, dilation, dtype, channels, filters)
    return _convolved(target, out, [*args], filters, channels * prod(window))


def conv3d(
    target: Target, data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, groups: int, dtype: str
) -> Scheduled:
    return conv_nd(target, data, kernel, strides, padding, dilation, dtype)


def conv2d_transpose(
    target: Target, data: Tensor, kernel: Tensor, strides: Any, padding: Any, dtype: str, output_padding: Any
) -> Scheduled:
    """Create the task of a transposed convolution, computed as one ordinary convolution for each phase of the strides.
    Operations on the zeros that pad windows do not count."""
    n, channels, h, w = _shape(data)
    _, filters, *window = _shape(kernel)
    lanes = _lanes(target)
    inner, outer = block_of(channels, lanes), block_of(filters, lanes)
    taps = [-(-k // s) for k, s in zip(window, strides)]
    phases = -(-filters // outer) * prod(strides)
    args = (
        te.placeholder((n, -(-channels // inner), h, w, inner), data.dtype, name="data"),
        te.placeholder((phases, -(-channels // inner), *taps, inner, outer), kernel.dtype, name="kernel"),
    )
    out = convolutions.conv2d_transpose_blocked(
        *args, window, strides, padding, output_padding, dtype, channels, filters
    )
    return _scheduled(target, out, [*args], 2 * n * channels * h * w * filters * prod(window))


def _task(function: Callable[..., Scheduled]) -> Callable[..., Scheduled]:
    """Wrap a function for AutoTVM, which calls it with the arguments of a record and the target of the task."""
    return lambda *args, **named: function(Target.current(allow_none=True) or Target("llvm"), *args, **named)


for _name, _function in (
    ("conv2d_NCHWc.x86", conv2d),
    ("group_conv2d_nchw.x86", group_conv2d),
    ("depthwise_conv2d_NCHWc.x86", depthwise),
    ("conv2d_winograd_NCHWc.x86", winograd),
    ("dense_pack.x86", dense),
    ("batch_matmul.x86", batch_matmul),
    ("conv1d_ncw.x86", conv_nd),
    ("conv3d_ncdhw.x86", conv3d),
    ("conv2d_transpose_nchw.x86", conv2d_transpose),
):
    register_customized(_name, _task(_function))
