"""Compute quantized convolutions and matmuls with int8 and uint8 instructions if the target has them.

A quantized convolution or matmul multiplies ``x - zero`` with integer weights, in float32 or int16. The rules rewrite
it over int8 or uint8 operands: ``sum (x - zero) * w = sum x * w - zero * sum w``, and the padding value is the zero
point. If the instruction does not accept a type (int8 or uint8), the data is converted to the other type and the zero
point shifted by 128. The int32 sums are exact, as float32 sums are below 2^24."""

from __future__ import annotations

import functools
import logging
from typing import NamedTuple

import numpy as np

from ....ir.module import IRModule
from ....ir.prim import IntImm
from ....ir.transform import PassContext
from ....target import Target
from ....topi.cpu.blocks import byte_groups
from ....topi.cpu.byte_functions import byte_kernels
from ....topi.cpu.dot_products import data_type, dot_product, lanes
from ....topi.cpu.matmul_dots import PANEL
from ....topi.cpu.matmul_tiles import panel_width
from ....topi.cpu.tiles import kind_of
from ...analysis import post_order_visit
from ...expr import Call, Constant, Function, RelayExpr, const
from ...op import annotation, nn, reduce, tensor, transform
from ...op.nn.byte_layout import interleaved
from ...op.nn.byte_operand import BYTE_TYPES, byte_operand
from ...op.nn.packed import contrib_dense_pack
from ...op.record import CallAttrs
from ..function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed, type_of
from ..simplify_expr import Table
from .pack_dense import first_columns, pack_tiles, pack_words, word_depth

LOG = logging.getLogger("tvm")
# With at most this many terms, a sum of int8 products and its zero-point correction fit int32.
MAX_TERMS = (2**30 - 1) // (255 * 128)
# The largest bias that can be added to such a sum without overflow in int32.
MAX_BIAS = 2**30
# Layout-changing operators that may be between a quantized operand and its convolution or matmul.
MOVES = ("reshape", "transpose", "expand_dims", "squeeze", "broadcast_to", "nn.batch_flatten")
LAYERS = ("nn.conv2d", "nn.dense")


class Weights(NamedTuple):
    """Constant weights as int8, and the offset that was subtracted from all of them."""

    array: np.ndarray
    offset: int


def _weights(e: RelayExpr) -> Weights | None:
    """Return constant weights as int8; None unless they are integers that span at most 256 values."""
    if not isinstance(e, Constant) or e.data.dtype not in ("float32", "int8", "uint8", "int16", "int32"):
        return None
    array = e.data.numpy()
    low, high = (float(array.min()), float(array.max())) if array.size else (np.nan, np.nan)
    if not (high - low <= 255 and abs(high) < 2**15) or not (array == np.rint(array)).all():
        return None
    offset = 0 if low >= -128 and high <= 127 else int(high) - 127
    return Weights((array.astype("int32") - offset).astype("int8"), offset)


class Quantized(NamedTuple):
    """Quantized data: the int8 or uint8 tensor, its zero point and its type."""

    data: RelayExpr
    zero: int
    dtype: str


def _quantized(e: RelayExpr, node: Call) -> Quantized | None:
    """Return the quantized tensor from which layout-changing operators compute an operand.

    For an int32 result, the operand itself is returned if it is int8 or uint8."""
    dtype = type_of(node).dtype
    if dtype == "int32" and type_of(e).dtype in BYTE_TYPES:
        return Quantized(e, 0, type_of(e).dtype)
    moves = []
    while is_call(e, *MOVES):
        moves.append(e)
        e = e.args[0]
    found = byte_operand(e) if dtype in ("float32", "int32") else None
    if found is None:
        return None
    data: RelayExpr = found.bytes
    for move in reversed(moves):
        data = Call(move.op, (data,), move.attrs, (), move.span)
    return Quantized(data, found.zero, type_of(found.bytes).dtype)


def as_dtype(given: Quantized, dtype: str) -> tuple[RelayExpr, int]:
    """Convert a quantized tensor to int8 or uint8, and return it with its zero point. The conversion shifts the zero
    point by 128."""
    if given.dtype == dtype:
        return given.data, given.zero
    middle, shift = (128, -128) if dtype == "int8" else (-128, 128)
    flipped = tensor.bitwise_xor(given.data, const(middle, given.dtype))
    return tensor.cast(flipped, dtype), given.zero + shift


def _has_int8(target: Target) -> bool:
    """Return whether a target has int8 dot-product instructions, AMX tiles or C functions for 8-bit kernels."""
    return byte_kernels(target) is not None or lanes(target) > 0 or kind_of(target, "uint8", "int8") is not None


def _supports(node: Call, target: Target, data: str, weight: str) -> bool:
    """Return whether a target has dot-product instructions or tiles for operands of these types. Tiles require static
    shapes and one group."""
    is_known = all(isinstance(d, IntImm) for e in node.args[:2] for d in type_of(e).shape)
    kernels = byte_kernels(target)
    if kernels is not None:
        return is_known and not is_call(node, "nn.batch_matmul") and data in kernels.data and weight == "int8"
    has_tiles = is_known and node.attrs.entries.get("groups", 1) == 1 and kind_of(target, data, weight) is not None
    return has_tiles or dot_product(target, data, weight) is not None


def _operands(node: Call, target: Target) -> tuple[RelayExpr, int, Weights] | None:
    """Return the data in a type that the instruction accepts, its zero point, and the weights.

    None if the call is not quantized or already reads integer operands."""
    found = _quantized(node.args[0], node)
    weights = _weights(node.args[1]) if found is not None else None
    if found is None or weights is None:
        return None
    if found.data is node.args[0] and _supports(node, target, found.dtype, type_of(node.args[1]).dtype):
        return None
    others = [found.dtype, data_type(target, found.dtype, "int8"), "int8"]
    wanted = next((t for t in others if t is not None and _supports(node, target, t, "int8")), None)
    return None if wanted is None else (*as_dtype(found, wanted), weights)


def _with_ones(weights: Weights, axis: int) -> np.ndarray:
    """Return the weights as int8. If they have an offset, a filter of ones is appended, which sums the data."""
    if not weights.offset:
        return weights.array
    shape = list(weights.array.shape)
    shape[axis] = 1
    return np.concatenate([weights.array, np.ones(shape, "int8")], axis)


def _corrected(output: RelayExpr, zero: int, sums: np.ndarray, offset: int, axis: int, node: Call) -> RelayExpr:
    """Correct an int32 output for the zero point of the data and the offset of the weights, and cast it to the type of
    the node.

    ``sums`` contains the sum of the weights of each filter; ``axis`` is the axis of the filters in the output."""
    if zero:
        output = tensor.add(output, Constant((-zero * sums).astype("int32")))
    if offset:
        count = sums.size - 1
        inside, more = ((transform.strided_slice(output, [low], [high], axes=[axis])
                         for low, high in ((0, count), (count, count + 1))))  # fmt: skip
        output = tensor.add(inside, tensor.multiply(more, const(offset, "int32")))
    dtype = type_of(node).dtype
    return output if dtype == "int32" else tensor.cast(output, dtype)


def _max_terms(weights: Weights) -> int:
    """Return the largest number of products whose sum fits int32."""
    return MAX_TERMS // 4 if weights.offset else MAX_TERMS


def _has_grouped_kernel(node: Call, weights: Weights, target: Target) -> bool:
    """Return whether an int8 kernel exists for a grouped convolution.

    It requires static shapes and weights without offset. The groups must be whole channel blocks, or the convolution is
    depthwise with one filter for each channel and no dilation along rows."""
    attrs, shape = node.attrs, type_of(node.args[0]).shape
    if weights.offset or not all(isinstance(d, IntImm) for d in shape):
        return False
    at = attrs.data_layout.index("C")
    channels, filters = int(shape[at]), weights.array.shape[attrs.kernel_layout.index("O")]
    if int(type_of(node).shape[at]) != filters:
        # Depthwise weights with a channel multiplier have separate axes for the channels and the multiplier.
        return False
    has_functions = byte_kernels(target) is not None
    if attrs.groups == channels == filters:
        return has_functions or int(attrs.dilation[1]) == 1
    if has_functions:
        return False
    return byte_groups(channels, filters, attrs.groups, lanes(target)) is not None


def integer_conv2d(node: Call, counts, target: Target) -> RelayExpr | None:
    """Convert a convolution of quantized data to an int8 convolution that accumulates in int32."""
    attrs, found = node.attrs, _operands(node, target)
    if found is None or attrs.data_layout not in ("NCHW", "NHWC") or attrs.out_layout:
        return None
    data, zero, weights = found
    layout = attrs.kernel_layout
    if sorted(layout) != sorted("OIHW") or isinstance(attrs.padding, str):
        return None
    if attrs.groups != 1 and not _has_grouped_kernel(node, weights, target):
        return None
    taken = tuple(layout.index(c) for c in "IHW")
    array = _with_ones(weights, layout.index("O"))
    if weights.array.size // weights.array.shape[layout.index("O")] > _max_terms(weights):
        return None
    filters = array.shape[layout.index("O")]
    entries = {**attrs.entries, "out_dtype": "int32", "channels": filters}
    if zero and any(attrs.padding):
        top, left, bottom, right = (int(p) for p in attrs.padding)
        around = {"H": (top, bottom), "W": (left, right)}
        data = nn.pad(data, [around.get(c, (0, 0)) for c in attrs.data_layout], zero)
        entries["padding"] = (0, 0, 0, 0)
    output = Call(node.op, (data, Constant(array)), CallAttrs(entries), (), node.span)
    sums = array.sum(axis=taken, dtype="int64")
    sums = sums.reshape(-1, 1, 1) if attrs.data_layout == "NCHW" else sums
    return _corrected(output, zero, sums, weights.offset, attrs.data_layout.index("C"), node)


def integer_dense(node: Call, counts, target: Target) -> RelayExpr | None:
    """Convert a dense layer of quantized data to an int8 dense layer that accumulates in int32."""
    found = _operands(node, target)
    if found is None or found[2].array.ndim != 2 or found[2].array.shape[1] > _max_terms(found[2]):
        return None
    data, zero, weights = found
    array = _with_ones(weights, 0)
    entries = {**node.attrs.entries, "out_dtype": "int32", "units": array.shape[0]}
    output = Call(node.op, (data, Constant(array)), CallAttrs(entries), (), node.span)
    return _corrected(output, zero, array.sum(axis=1, dtype="int64"), weights.offset, -1, node)


def integer_batch_matmul(node: Call, counts, target: Target) -> RelayExpr | None:
    """Convert a batched matmul of two quantized tensors to int8. Row and column sums correct for the zero points."""
    attrs, (x, y) = node.attrs, (_quantized(e, node) for e in node.args)
    if x is None or y is None or attrs.transpose_a:
        return None
    types = x.dtype, y.dtype
    wanted = types if _supports(node, target, *types) else (data_type(target, types[0], "int8"), "int8")
    terms = type_of(node.args[0]).shape[2]
    is_done = x.data is node.args[0] and y.data is node.args[1] and types == wanted
    if wanted[0] is None or is_done:
        return None
    if not isinstance(terms, IntImm) or terms.value > MAX_TERMS // 4:
        return None
    (lhs, zero_x), (rhs, zero_y) = (as_dtype(operand, str(dtype)) for operand, dtype in zip((x, y), wanted))
    entries = {**attrs.entries, "out_dtype": "int32"}
    output: RelayExpr = Call(node.op, (lhs, rhs), CallAttrs(entries), (), node.span)
    # If both operands are the same tensor, its rows are also the columns of the right operand.
    is_transposed = bool(attrs.transpose_b)
    for zero, other, axis, swaps in ((zero_x, rhs, 2 if is_transposed else 1, is_transposed), (zero_y, lhs, 2, False)):
        if zero:
            sums = reduce.sum(tensor.cast(other, "int32"), axis, keepdims=True)
            if swaps:
                sums = transform.transpose(sums, (0, 2, 1))
            output = tensor.add(output, tensor.multiply(sums, const(-zero, "int32")))
    if zero_x and zero_y:
        output = tensor.add(output, const(terms.value * zero_x * zero_y, "int32"))
    dtype = type_of(node).dtype
    return output if dtype == "int32" else tensor.cast(output, dtype)


def integer_bias(node: Call, counts) -> RelayExpr | None:
    """Add an integer-valued bias in int32, before the sums are cast to float32."""
    sums, bias = node.args
    if not is_call(sums, "cast") or not isinstance(bias, Constant) or type_of(node).dtype != "float32":
        return None
    source = sums.args[0]
    if not is_call(source, "add", *LAYERS) or type_of(source).dtype != "int32" or counts.get(id(sums), 1) > 1:
        return None
    array = bias.data.numpy()
    is_whole = bias.data.dtype == "float32" and bool((array == np.rint(array)).all() and (abs(array) < MAX_BIAS).all())
    if not is_whole or array.ndim > len(type_of(source).shape):
        return None
    whole, other = Constant(array.astype("int32")), source.args[1]
    if is_call(source, "add") and isinstance(other, Constant) and counts.get(id(source), 1) <= 1:
        source, whole = source.args[0], Constant(other.data.numpy() + whole.data.numpy())
    return tensor.cast(tensor.add(source, whole), "float32")


def rules(target: Target) -> Table:
    """Return the SimplifyExpr rules for a target with int8 dot-product instructions or tiles."""
    if not _has_int8(target):
        return {}
    layers = {"nn.conv2d": integer_conv2d, "nn.dense": integer_dense, "nn.batch_matmul": integer_batch_matmul}
    return {**{name: (functools.partial(rule, target=target),) for name, rule in layers.items()},
            "add": (integer_bias,)}  # fmt: skip


def _absorb_padding(node: Call, target: Target) -> RelayExpr | None:
    """Absorb the explicit padding of the data into an int8 convolution."""
    padded = node.args[0]
    if any(node.attrs.padding) or not is_call(padded, "nn.pad") or padded.attrs.pad_mode != "constant":
        return None
    width = [tuple(map(int, pair)) for pair in padded.attrs.pad_width]
    first = node.attrs.data_layout.index("H")
    is_inside = any(any(pair) for i, pair in enumerate(width) if i - first not in (0, 1)) or np.min(width) < 0
    if is_inside or not isinstance(padded.args[1], Constant):
        return None
    (top, bottom), (left, right) = width[first : first + 2]
    value = int(padded.args[1].data.numpy().item())
    entries = {**node.attrs.entries, "padding": (top, left, bottom, right), "pad_value": value}
    return Call(node.op, (padded.args[0], node.args[1]), CallAttrs(entries), (), node.span)


def _read_int8(node: Call, target: Target) -> RelayExpr | None:
    """Let a float32 depthwise convolution read its data as int8, a quarter of the float32 memory traffic."""
    found = byte_operand(node.args[0])
    if found is None or type_of(node).dtype != "float32":
        return None
    entries = {**node.attrs.entries, "out_dtype": "float32", "zero_point": found.zero}
    return Call(node.op, (found.bytes, node.args[1]), CallAttrs(entries), (), node.span)


def _pack_weight(node: Call, target: Target) -> RelayExpr | None:
    """Pack the weight of an int8 dense layer into panels."""
    data, weight = node.args
    shape = type_of(data).shape
    if not isinstance(weight, Constant) or type_of(node).dtype != "int32" or len(shape) != 2:
        return None
    if not _supports(node, target, type_of(data).dtype, type_of(weight).dtype):
        return None
    if not all(isinstance(d, IntImm) for d in shape) or 0 in weight.data.shape or not int(shape[0]):
        return None
    kind, array = kind_of(target, type_of(data).dtype, type_of(weight).dtype), weight.data.numpy()
    kernels = byte_kernels(target)
    if kernels is not None:
        packed = interleaved(array, kernels)
        f, terms = packed.data.shape[3:]
        return contrib_dense_pack(data, packed, f"NC1c{f}n{terms}c", None, "int32")
    units = array.shape[0]
    if kind is not None and panel_width(units) is None:
        array = np.pad(array, ((0, -units % PANEL), (0, 0)))
    depth = word_depth(target, type_of(data).dtype, type_of(weight).dtype, "int32", int(shape[0]))
    packed = pack_words(array, depth) if kind is None else pack_tiles(array, kind)
    layout = f"NC{packed.shape[2]}c{packed.shape[3]}n{packed.shape[4]}c"
    own = None if kind is None else array.shape[0]
    output = contrib_dense_pack(data, Constant(packed), layout, own, "int32")
    return output if own == units else first_columns(output, units)


def _pad_to_panels(node: Call, target: Target) -> RelayExpr | None:
    """Pad the output columns of an int8 batched matmul to whole panels."""
    (x, y), attrs = node.args, node.attrs
    shape = type_of(y).shape
    types = type_of(x).dtype, type_of(y).dtype
    found = type_of(node).dtype == "int32" and _supports(node, target, *types)
    if not found or attrs.transpose_a or not all(isinstance(d, IntImm) for d in shape) or 0 in map(int, shape):
        return None
    columns = int(shape[1] if attrs.transpose_b else shape[2])
    has_tiles = kind_of(target, *types) is not None
    if columns % PANEL == 0 or has_tiles and panel_width(columns) is not None:
        return None
    more = (0, -columns % PANEL)
    y = nn.pad(y, [(0, 0), more, (0, 0)] if attrs.transpose_b else [(0, 0), (0, 0), more])
    return first_columns(Call(node.op, (x, y), attrs, (), node.span), columns)


def _dequantizing_calls(e: RelayExpr) -> list[Call]:
    """Return the element-wise calls that dequantize an int8 tensor, the one that reads the int8 tensor last; an empty
    list if there are none."""
    calls = []
    while is_call(e, "cast", "multiply", "subtract") and all(isinstance(a, Constant) for a in e.args[1:]):
        calls.append(e)
        if is_call(e, "cast") and e.attrs.dtype in BYTE_TYPES:
            return calls
        e = e.args[0]
    return []


def _store_addend_as_int8(node: Call, target: Target) -> RelayExpr | None:
    """Store one operand of a residual addition as int8.

    Both operands are dequantized tensors. Without this rule, the producer of the second operand would store the
    dequantized tensor, which is up to eight times as large."""
    chains = [_dequantizing_calls(e) for e in node.args]
    if len(node.args) != 2 or not all(len(c) > 1 for c in chains):
        return None
    *wide, narrow = chains[1]
    out: RelayExpr = annotation.stop_fusion(narrow)
    for call in reversed(wide):
        out = Call(call.op, (out, *call.args[1:]), call.attrs, (), call.span)
    return Call(node.op, (node.args[0], out), node.attrs, (), node.span)


def _quantize_before_packing(node: Call, target: Target) -> RelayExpr | None:
    """Quantize an image first, vectorized along its rows, and then pack it into blocks of its few channels."""
    padded = node.args[0]
    source = padded.args[0] if is_call(padded, "nn.pad") else padded
    if not node.attrs.dst_layout.endswith("W4c") or not is_call(source, "cast") or source.attrs.dtype not in BYTE_TYPES:
        return None
    stored = annotation.stop_fusion(source)
    if padded is not source:
        stored = Call(padded.op, (stored, *padded.args[1:]), padded.attrs, (), padded.span)
    return Call(node.op, (stored,), node.attrs, (), node.span)


_INT8_RULES = {
    "layout_transform": _quantize_before_packing,
    "add": _store_addend_as_int8,
    "nn.contrib_conv2d_NCHWc_int8": _absorb_padding,
    "nn.contrib_depthwise_conv2d_NCHWc_int8": _absorb_padding,
    "nn.contrib_conv2d_NHWC_int8": _absorb_padding,
    "nn.contrib_depthwise_conv2d_NHWC_int8": _absorb_padding,
    "nn.contrib_depthwise_conv2d_NCHWc": _read_int8,
    "nn.dense": _pack_weight,
    "nn.batch_matmul": _pad_to_panels,
}


def ReadBytes(target: Target) -> RelayFunctionPass:
    """Let convolutions of quantized data read int8 and absorb padding, and pack the weights of int8 dense layers into
    panels.

    The pass needs a target with int8 dot-product instructions or tiles; for other targets it only logs a warning."""

    def rule(node: RelayExpr) -> RelayExpr | None:
        return _INT8_RULES[node.op.name](node, target) if is_call(node, *_INT8_RULES) else None

    @function_pass(opt_level=3, name="ReadBytes", required=["InferType"])
    def read(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if _has_int8(target):
            return rewrite_typed(func, rule, mod)
        if _has_quantized_layer(func):
            LOG.warning("%s has no int8 dot-product instructions: quantized layers are computed in wider types", target)
        return func

    return read


def _has_quantized_layer(func: Function) -> bool:
    """Return whether a layer of the function multiplies quantized data."""
    found = False

    def visit(node) -> None:
        nonlocal found
        found = found or is_call(node, *LAYERS, "nn.contrib_conv2d_NCHWc") and byte_operand(node.args[0]) is not None

    post_order_visit(func, visit)
    return found


__all__ = ["ReadBytes", "rules"]
