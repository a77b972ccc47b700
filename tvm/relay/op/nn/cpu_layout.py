"""CPU layouts: convolutions over channel blocks of the vector width, with weights rearranged at compile time.

The choice depends only on the number of channels and the target's vector width. Consecutive convolutions therefore
agree on the layout, and data stays blocked from the first convolution to the last. The last block is padded with zeros
if this needs fewer vectors.
"""

from __future__ import annotations

import numpy as np

from ....ir.op import OPS
from ....runtime.ndarray import elements
from ....target import Target
from ....topi.cpu import conv2d_pairs, dot_products
from ....topi.cpu.blocks import (
    MAX_UNBLOCKED_CHANNELS,
    block_of,
    byte_block,
    byte_groups,
    group_choice,
    tile_block,
    tile_byte_block,
    tile_groups,
)
from ....topi.cpu.byte_functions import byte_kernels
from ....topi.cpu.tiles import BFLOAT16, COLUMNS, Kind, kind_of
from ....topi.nn.packed import BYTES
from ...expr import Constant, RelayExpr, Var
from ..rules import dims
from . import byte_layout, packed
from .byte_operand import byte_operand
from .convolution import filters_in_front, is_depthwise_layout


def lanes_of(target: Target | None) -> int | None:
    """Return the number of float32 lanes in a vector of a CPU; None for other devices."""
    if target is None or not target.features.is_cpu:
        return None
    return max(target.features.vector_bits // 32, 4)


def _inner(data: RelayExpr, layout: str, channels: int, lanes: int) -> int:
    """Return the block size of the input channels.

    An input image is read without a copy: with blocks of size 1 in NCHW, and with one block of all channels in NHWC.
    """
    is_image = isinstance(data, Var) and channels <= MAX_UNBLOCKED_CHANNELS
    return 1 if is_image and layout == "NCHW" else block_of(channels, lanes)


def _kernel(inputs: list[RelayExpr], attrs, tinfos) -> np.ndarray | None:
    """Return constant weights as OIHW, else None."""
    layout = attrs.kernel_layout
    if not isinstance(inputs[1], Constant) or sorted(layout) != sorted("OIHW"):
        return None
    array = elements(inputs[1].data).transpose([layout.index(c) for c in "OIHW"])
    if is_depthwise_layout(attrs) or filters_in_front(attrs, tinfos):
        # Merge the channels and their multiplier into one filter axis.
        array = array.reshape(-1, 1, *array.shape[2:])
    return array


def _filled(kernel: np.ndarray, filters: int, inputs: int) -> np.ndarray:
    more = (filters - kernel.shape[0], inputs - kernel.shape[1])
    return np.pad(kernel, ((0, more[0]), (0, more[1]), (0, 0), (0, 0))) if any(more) else kernel


def _up(n: int, block: int) -> int:
    return -(-n // block) * block


def packed_kernel(kernel: np.ndarray, inner: int, outer: int) -> Constant:
    """Pack an OIHW kernel as OIHW<inner>i<outer>o."""
    o, i, h, w = kernel.shape
    parted = kernel.reshape(o // outer, outer, i // inner, inner, h, w)
    return Constant(parted.transpose(0, 2, 4, 5, 3, 1))


def packed_words(kernel: np.ndarray, inner: int, outer: int, depth: int) -> Constant:
    """Pack an OIHW kernel as OIHW<inner/depth>i<outer>o<depth>i: the channels of a word are contiguous."""
    o, i, h, w = kernel.shape
    parted = kernel.reshape(o // outer, outer, i // inner, inner // depth, depth, h, w)
    return Constant(parted.transpose(0, 2, 5, 6, 3, 1, 4))


def merged_groups(kernel: np.ndarray, groups: int, count: int) -> np.ndarray:
    """Merge each ``count`` groups into one, with zeros between channels of different groups."""
    filters, inside, h, w = kernel.shape
    per = filters // groups
    out = np.zeros((groups // count, count, per, count, inside, h, w), kernel.dtype)
    parted = kernel.reshape(groups // count, count, per, inside, h, w)
    for i in range(count):
        out[:, i, :, i] = parted[:, i]
    return out.reshape(filters, count * inside, h, w)


def _block_of_bytes(channels: int, target: Target | None) -> int:
    """Return the channel block size of int8 and uint8 data for a target."""
    if kind_of(target, "uint8", "int8") is not None:
        return tile_byte_block(channels)
    return byte_block(channels, dot_products.lanes(target))


def alter_int8(attrs, inputs, tinfos, out_type, target: Target | None) -> RelayExpr | None:
    """Return an int8 convolution with constant weights over blocked channels, if the target has an instruction for it;
    else None."""
    shape, kernel = dims(tinfos[0]), _kernel(inputs, attrs, tinfos)
    is_plain = attrs.data_layout in ("NCHW", "NHWC") and not attrs.out_layout
    if not is_plain or kernel is None or not all(isinstance(d, int) for d in shape):
        return None
    kernels = byte_kernels(target)
    if kernels is not None:
        channels = shape[attrs.data_layout.index("C")]
        is_byte = out_type.dtype == "int32" and 0 not in shape
        return byte_layout.convolution(attrs, inputs[0], kernel, channels, kernels) if is_byte else None
    types = tinfos[0].dtype, str(kernel.dtype)
    has_instruction = dot_products.dot_product(target, *types) is not None
    if out_type.dtype != "int32" or not has_instruction and (kind_of(target, *types) is None or attrs.groups != 1):
        return None
    channels, groups = shape[attrs.data_layout.index("C")], attrs.groups
    inner, outer = (_block_of_bytes(n, target) for n in (channels, kernel.shape[0]))
    if groups == channels == kernel.shape[0] and channels > 1:
        return _depthwise_int8(attrs, inputs[0], kernel, inner)
    if groups != 1:
        # Grouped convolutions use dot products, even if the target has AMX tiles.
        choice = byte_groups(channels, kernel.shape[0], groups, dot_products.lanes(target))
        if choice is None:
            return None
        inner = outer = choice[0]
        kernel, groups = merged_groups(kernel, groups, choice[1]), groups // choice[1]
    filled = _filled(kernel, _up(kernel.shape[0], outer), _up(kernel.shape[1], inner))
    depth = _word_depth(target, types, attrs, out_type, (inner, outer), groups, BYTES)
    return packed.contrib_conv2d_nchwc_int8(
        inputs[0], packed_words(filled, inner, outer, depth), attrs.strides, attrs.padding, attrs.dilation,
        groups=groups, kernel_size=filled.shape[2:], data_layout=f"NCHW{inner}c",
        kernel_layout=f"OIHW{inner // depth}i{outer}o{depth}i", out_layout=f"NCHW{outer}c", out_dtype="int32",
    )  # fmt: skip


def _word_depth(target: Target | None, types, attrs, out_type, blocks: tuple[int, int], groups: int, usual: int) -> int:
    """Return the channels in a word of a packed kernel: more than ``usual`` for 2x2 matmul instructions."""
    image = [dims(out_type)[attrs.data_layout.index(c)] for c in "HW"]
    pairs = conv2d_pairs.instruction_for(target, *types, *blocks, image) if groups == 1 else None
    return usual if pairs is None else pairs.depth


def _depthwise_int8(attrs, data: RelayExpr, kernel: np.ndarray, block: int) -> RelayExpr:
    """Return an int8 depthwise convolution over blocked channels."""
    channels, _, h, w = kernel.shape
    taps = np.pad(kernel[:, 0], ((0, -channels % block), (0, 0), (0, -w % BYTES)))
    parted = taps.reshape(-1, block, h, taps.shape[2] // BYTES, BYTES)
    return packed.contrib_depthwise_conv2d_nchwc_int8(
        data, Constant(parted.transpose(0, 2, 3, 1, 4)), attrs.strides, attrs.padding,
        attrs.dilation, groups=_up(channels, block), kernel_size=(h, w), data_layout=f"NCHW{block}c",
        out_layout=f"NCHW{block}c", out_dtype="int32",
    )  # fmt: skip


def alter_bfloat16(attrs, inputs, tinfos, out_type, kind: Kind | None, target: Target | None) -> RelayExpr | None:
    """Return a bfloat16 convolution with constant weights over blocked channels.

    It uses AMX tiles, or dot-product instructions if ``kind`` is None. Depthwise convolutions use the same channel
    blocks.
    """
    shape, kernel = dims(tinfos[0]), _kernel(inputs, attrs, tinfos)
    if kernel is None or not all(isinstance(d, int) for d in shape):
        return None
    channels, filters = shape[attrs.data_layout.index("C")], kernel.shape[0]
    options = {"strides": attrs.strides, "padding": attrs.padding, "dilation": attrs.dilation,
               "kernel_size": kernel.shape[2:], "out_dtype": "float32",
               "logical": (channels, filters, attrs.groups)}  # fmt: skip
    depth = BFLOAT16.depth
    if kind is not None:
        inner, outer = tile_block(channels, kind.k), tile_block(filters, 2 * COLUMNS)
    else:
        inner, outer = (byte_block(n, dot_products.lanes(target, "bfloat16")) for n in (channels, filters))
    if attrs.groups == channels == filters:
        weight = packed_kernel(_filled(kernel.astype("float32"), _up(channels, inner), 1), 1, inner)
        groups = _up(channels, inner)
        return _call(packed.contrib_depthwise_conv2d_nchwc, inputs[0], weight, inner, 1, inner, groups, options)
    groups = attrs.groups
    if groups != 1:
        choice = tile_groups(channels, filters, groups) if kind is not None else None
        if choice is None:
            return None
        inner = outer = choice[0]
        kernel, groups = merged_groups(kernel, groups, choice[1]), groups // choice[1]
    filled = _filled(kernel, _up(filters, outer), _up(kernel.shape[1], inner))
    if kind is None:
        depth = _word_depth(target, ("bfloat16", "bfloat16"), attrs, out_type, (inner, outer), groups, depth)
    return packed.contrib_conv2d_nchwc(
        inputs[0], packed_words(filled, inner, outer, depth), groups=groups, data_layout=f"NCHW{inner}c",
        kernel_layout=f"OIHW{inner // depth}i{outer}o{depth}i", out_layout=f"NCHW{outer}c", **options,
    )  # fmt: skip


def alter_conv2d(attrs, inputs, tinfos, out_type, target: Target | None) -> RelayExpr | None:
    """Return a float32, int8 or bfloat16 convolution with constant weights over blocked channels, or None."""
    lanes = lanes_of(target)
    if 0 in dims(tinfos[1]):
        # Empty channel dimensions cannot be blocked.
        return None
    if tinfos[0].dtype in ("int8", "uint8"):
        return alter_int8(attrs, inputs, tinfos, out_type, target)
    types = tinfos[0].dtype, tinfos[1].dtype
    kind, is_plain = kind_of(target, *types), attrs.data_layout in ("NCHW", "NHWC") and not attrs.out_layout
    if types == ("bfloat16", "bfloat16") and is_plain and out_type.dtype == "float32":
        has_product = kind is not None or dot_products.dot_product(target, *types) is not None
        return alter_bfloat16(attrs, inputs, tinfos, out_type, kind, target) if has_product else None
    if lanes is None or attrs.data_layout not in ("NCHW", "NHWC") or attrs.out_layout or out_type.dtype != "float32":
        return None
    shape, kernel = dims(tinfos[0]), _kernel(inputs, attrs, tinfos)
    channels = shape[attrs.data_layout.index("C")]
    if kernel is None or tinfos[0].dtype != "float32" or not isinstance(channels, int):
        return None
    filters = kernel.shape[0]
    options = {"strides": attrs.strides, "padding": attrs.padding, "dilation": attrs.dilation,
               "kernel_size": kernel.shape[2:], "out_dtype": attrs.out_dtype,
               "logical": (channels, filters, attrs.groups)}  # fmt: skip
    if attrs.groups == 1:
        inner, outer = _inner(inputs[0], attrs.data_layout, channels, lanes), block_of(filters, lanes)
        weight = packed_kernel(_filled(kernel, _up(filters, outer), _up(channels, inner)), inner, outer)
        return _call(packed.contrib_conv2d_nchwc, inputs[0], weight, inner, inner, outer, 1, options)
    if attrs.groups == channels == filters:
        # int8 data has larger blocks, which the float32 operators between int8 convolutions keep.
        is_between = dot_products.lanes(target) and byte_operand(inputs[0]) is not None
        block = _block_of_bytes(channels, target) if is_between else block_of(channels, lanes)
        weight = packed_kernel(_filled(kernel, _up(channels, block), 1), 1, block)
        groups = _up(channels, block)
        return _call(packed.contrib_depthwise_conv2d_nchwc, inputs[0], weight, block, 1, block, groups, options)
    choice = group_choice(kernel.shape[1], filters // attrs.groups, attrs.groups, lanes)
    if choice is None:
        return None
    block, count = choice
    weight = packed_kernel(merged_groups(kernel, attrs.groups, count), block, block)
    return _call(packed.contrib_conv2d_nchwc, inputs[0], weight, block, block, block, attrs.groups // count, options)


def _call(build, data, weight: Constant, block: int, inner: int, outer: int, groups: int, options: dict) -> RelayExpr:
    return build(data, weight, groups=groups, data_layout=f"NCHW{block}c", kernel_layout=f"OIHW{inner}i{outer}o",
                 out_layout=f"NCHW{outer}c", **options)  # fmt: skip


def install() -> None:
    OPS["nn.conv2d"].attrs["alter_layout"] = alter_conv2d


__all__ = ["alter_conv2d", "block_of", "group_choice", "install", "merged_groups", "packed_kernel"]
