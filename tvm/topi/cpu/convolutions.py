"""CPU convolutions in blocked layouts: the operators of ``topi.nn`` with workloads for tuning attached.

The functions take the arguments of their ``topi.nn`` counterparts, and the numbers of channels and filters before
padding to whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import te, tir
from ...autotvm.task.topi_integration import mark
from ...target import Target
from ...te.graph import post_order_ops
from ...te.tensor import Tensor
from .. import nn, size_class
from ..nn.packed import conv2d_NCHWc_gathered, conv2d_NCHWc_words, is_one_row, is_pointwise
from ..nn.utils import spatial
from ..utils import get_const_int, get_const_tuple
from . import conv2d_pairs, conv2d_tiles, tiles, tuned, winograd_any_image
from .conv2d import dynamic_image_columns
from .dot_products import with_instruction
from .machine import Machine
from .pair_products import Window

Logical = Sequence[int] | None


def _columns(target: Target | None, data: Tensor, kernel: Tensor, has_pointers: bool) -> int:
    """Return the number of pixels that are computed together for dynamic widths. Without a target, this CPU is used."""
    filters, outer, height, width, inner, _ = get_const_tuple(kernel.shape)
    groups = get_const_int(data.shape[1] * data.shape[4]) // (outer * inner)
    machine = Machine(target or Target("llvm"))
    return dynamic_image_columns(max(filters // groups, 1), outer * inner, height * width, has_pointers, machine)


def _gathers(target: Target | None, data: Tensor, kernel: Tensor) -> bool:
    """Return whether the elements of pixels at irregular addresses are gathered first. Multiply-adds can then use
    memory operands for more pixels, so that weights are read less often. With several taps, the gather would copy each
    element several times, and weights would be read again for each part that a cache holds."""
    is_plain = data.dtype == kernel.dtype == "float32" and all(
        get_const_int(data.shape[i]) == get_const_int(kernel.shape[i]) for i in (1, 4)
    )
    has_taps = get_const_int(kernel.shape[2] * kernel.shape[3]) > 1
    return is_plain and not has_taps and Machine(target or Target("llvm")).has_memory_operands


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str = "NCHW8c",
    out_layout: str = "NCHW8c",
    out_dtype: str = "float32",
    logical: Logical = None,
    target: Target | None = None,
) -> Tensor:
    """Return ``topi.nn.conv2d_NCHWc``; ``logical`` contains the unpadded channels and filters, and the groups. A row of
    dynamic width is divided into register tiles for ``target``."""
    if len(kernel.shape) == 7:
        kind = tiles.kind_of(target, data.dtype, kernel.dtype)
        is_known = tuned.is_known(data.shape)
        if kind is not None and is_known:
            return conv2d_tiles.conv2d(data, kernel, stride, padding, dilation, kind)
        if is_known and get_const_int(data.shape[4]) == get_const_int(kernel.shape[4] * kernel.shape[6]):
            words = conv2d_NCHWc_words(data, kernel, stride, padding, dilation, out_dtype)
            pairs = _with_pairs(words, data, kernel, stride, dilation, target)
            return words if pairs else with_instruction(words, data, kernel, target, get_const_int(kernel.shape[5]))
        return nn.conv2d_NCHWc(data, kernel, stride, padding, dilation, layout, out_layout, out_dtype)
    if not tuned.is_known(data.shape[3:4]):
        where = (kernel, stride, padding, dilation)
        is_point = is_pointwise(*where)
        has_pointers = is_one_row(*where) and not is_point
        if has_pointers and _gathers(target, data, kernel):
            columns = _columns(target, data, kernel, False)
            return conv2d_NCHWc_gathered(data, kernel, stride, padding, out_dtype or data.dtype, columns)
        columns = _columns(target, data, kernel, has_pointers)
        # If there are several tiles of contiguous pixels, the last one overlaps the one before.
        overlaps = is_point and size_class.are_enough(columns)
        return nn.conv2d_NCHWc(data, *where, layout, out_layout, out_dtype, columns, overlaps)
    out = nn.conv2d_NCHWc(data, kernel, stride, padding, dilation, layout, out_layout, out_dtype)
    wide, groups = get_const_int(kernel.shape[5]), out.op.attrs["groups"]
    per_group = get_const_int(kernel.shape[0]) * wide // groups
    if get_const_int(data.shape[4]) != get_const_int(kernel.shape[4]) or per_group % wide:
        return out
    return _packed("conv2d_NCHWc.x86", out, data, kernel, stride, padding, dilation, logical)


def conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: str = "int32",
    pad_value: int = 0,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.conv2d_NCHWc_int8``, computed with matrix registers or with a dot product instruction of the
    target."""
    kind = tiles.kind_of(target, data.dtype, kernel.dtype)
    is_whole = tuned.is_known(data.shape) and get_const_int(data.shape[1]) == get_const_int(kernel.shape[1])
    if kind is not None and kind.sums == out_dtype and is_whole:
        return conv2d_tiles.conv2d(data, kernel, stride, padding, dilation, kind, pad_value)
    blocks = (layout, out_layout, out_dtype, get_const_int(kernel.shape[6]))
    out = nn.conv2d_NCHWc_int8(data, kernel, stride, padding, dilation, *blocks, pad_value=pad_value)
    pairs = _with_pairs(out, data, kernel, stride, dilation, target)
    return out if pairs else with_instruction(out, data, kernel, target, get_const_int(kernel.shape[5]))


def _with_pairs(out: Tensor, data: Tensor, kernel: Tensor, stride: Any, dilation: Any, target: Target | None) -> bool:
    """Annotate a convolution with a 2x2 matmul instruction if its kernel is packed for one; return whether it is."""
    channels, depth = get_const_int(data.shape[4]), get_const_int(kernel.shape[6])
    blocks = (channels, get_const_int(kernel.shape[5]))
    found = conv2d_pairs.instruction_for(target, data.dtype, kernel.dtype, *blocks, out.shape[2:4])
    if found is None or found.depth != depth or found.sums != out.dtype or out.op.attrs["groups"] != 1:
        return False
    strides, dilations = (spatial(v, 2, "conv2d_NCHWc") for v in (stride, dilation))
    out.op.attrs.update(instruction=found, window=Window(get_const_tuple(kernel.shape[2:4]), strides, dilations))
    return True


def depthwise_conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str = "int32",
    pad_value: int = 0,
    *,
    target: Target,
) -> Tensor:
    """Return ``topi.nn.depthwise_conv2d_NCHWc_int8``, computed with a dot product instruction of the target."""
    out = nn.depthwise_conv2d_NCHWc_int8(data, kernel, kernel_size, stride, padding, dilation, out_dtype, pad_value)
    return with_instruction(out, data, kernel, target, get_const_int(kernel.shape[3]))


def depthwise_conv2d_NCHWc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: str | None = None,
    logical: Logical = None,
    zero: int | None = None,
    target: Target | None = None,
) -> Tensor:
    """Return ``topi.nn.depthwise_conv2d_NCHWc``; ``logical`` contains the unpadded channels and filters, and the
    groups. int8 data minus its ``zero`` point is converted to the output type once, when it is padded."""
    if zero is not None:
        dtype = out_dtype or Input.dtype
        source = Input
        Input = te.compute(
            source.shape, lambda *at: source(*at).astype(dtype) - tir.const(zero, dtype), "data_real", tag="injective"
        )
    out = nn.depthwise_conv2d_NCHWc(Input, Filter, stride, padding, dilation, layout, out_layout, out_dtype)
    if not tuned.is_known(Input.shape[3:4]):
        return out
    block, wide = get_const_int(Input.shape[4]), get_const_int(Filter.shape[5])
    channels = get_const_int(Input.shape[1]) * block
    if channels != get_const_int(Filter.shape[0]) * wide or block != wide:
        return out
    logical = logical or (channels,) * 3
    return _packed("depthwise_conv2d_NCHWc.x86", out, Input, Filter, stride, padding, dilation, logical)


def _packed(
    name: str, out: Tensor, data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, logical: Logical
) -> Tensor:
    if not tuned.is_known(data.shape, kernel.shape):
        return out
    steps = spatial(stride, 2, name), spatial(dilation, 2, name)
    return mark(out, tuned.packed_workload(name, data, kernel, padding, *steps, out.dtype, logical))


def conv_blocked(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
    channels: int | None = None,
    filters: int | None = None,
) -> Tensor:
    """Return ``topi.nn.conv_blocked``."""
    out = nn.conv_blocked(data, kernel, strides, padding, dilation, out_dtype)
    if not tuned.is_known(data.shape, kernel.shape):
        return out
    n = len(data.shape) - 3
    steps = spatial(strides, n, out.op.name), spatial(dilation, n, out.op.name)
    return mark(out, tuned.blocked_workload(data, kernel, padding, *steps, out.dtype, channels, filters))


def conv2d_transpose_blocked(
    data: Tensor,
    kernel: Tensor,
    kernel_size: Any,
    strides: Any,
    padding: Any,
    output_padding: Any,
    out_dtype: str | None = None,
    channels: int | None = None,
    filters: int | None = None,
) -> Tensor:
    """Return ``topi.nn.conv2d_transpose_blocked``."""
    out = nn.conv2d_transpose_blocked(data, kernel, kernel_size, strides, padding, output_padding, out_dtype)
    window, steps, extra = (
        spatial(value, 2, out.op.name, least) for value, least in ((kernel_size, 1), (strides, 1), (output_padding, 0))
    )
    workload = tuned.transposed_workload(data, kernel, window, padding, steps, extra, out.dtype, channels, filters)
    _mark_stage(out, "conv2d_NCHWc", workload)
    return out


def conv2d_winograd_NCHWc(
    data: Tensor,
    kernel: Tensor,
    padding: Any,
    out_dtype: str | None = None,
    logical: Logical = None,
    target: Target | None = None,
) -> Tensor:
    """Return ``topi.nn.conv2d_winograd_NCHWc``; ``logical`` contains the unpadded channels and filters. Winograd tiles
    of an image of dynamic size are divided into register tiles for ``target``."""
    channels = get_const_int(data.shape[1] * data.shape[4])
    run = winograd_any_image.run_length(channels, Machine(target or Target("llvm")))
    out = nn.conv2d_winograd_NCHWc(data, kernel, padding, out_dtype, run)
    if tuned.is_known(data.shape):
        _mark_stage(out, "winograd_products", tuned.winograd_workload(data, kernel, padding, out.dtype, logical))
    return out


def _mark_stage(out: Tensor, tag: str, workload: tuple[Any, ...]) -> None:
    """Attach the workload to the stage that the template schedules."""
    *_, stage = (op for op in post_order_ops([out.op]) if op.tag == tag)
    mark(stage.output(0), workload)


__all__ = [
    "conv2d_NCHWc",
    "conv2d_NCHWc_int8",
    "conv2d_transpose_blocked",
    "conv2d_winograd_NCHWc",
    "conv_blocked",
    "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_NCHWc_int8",
]
