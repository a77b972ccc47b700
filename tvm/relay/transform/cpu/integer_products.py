"""Products of quantized tensors in integers, where the target has an instruction for them.

A quantized convolution or matmul multiplies ``x - zero`` with integer weights. Written in float32 or int16, it is a
product of bytes: the zero point goes out of the sum, ``sum (x - zero) * w = sum x * w - zero * sum w``, and what a
window reads outside the data is the zero point. Sums are exact, as those of float32 are below 2^24.
"""

from __future__ import annotations

import numpy as np

from ....ir.module import IRModule
from ....ir.prim import IntImm
from ....ir.transform import PassContext
from ....target import Target
from ....topi.cpu.dot_products import dot_product
from ....topi.cpu.matmul_int8 import PANEL, k_block
from ....topi.nn.packed import BYTES
from ...expr import Call, Constant, Function, RelayExpr, const
from ...op import nn, tensor, transform
from ...op.nn.byte_operand import BYTE_TYPES, byte_operand
from ...op.nn.packed import contrib_dense_pack
from ...op.record import CallAttrs
from ..function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed, type_of
from ..simplify_expr import Table

# A sum of so many products of two bytes is an int32.
MAX_TERMS = (2**30 - 1) // (255 * 128)
# A bias beside which such a sum is still an int32.
MAX_BIAS = 2**30
PRODUCTS = ("nn.conv2d", "nn.dense")


def _weights(e: RelayExpr) -> np.ndarray | None:
    """Constant weights that are integers of int8, as such."""
    if not isinstance(e, Constant) or e.data.dtype not in ("float32", "int8", "int16", "int32"):
        return None
    array = e.data.numpy()
    with np.errstate(invalid="ignore"):
        narrow = array.astype("int8")
    return narrow if array.size and np.array_equal(narrow, array) else None


def _signed(data: RelayExpr, zero: int) -> tuple[RelayExpr, int]:
    """Bytes as int8: those of uint8 less 128."""
    if type_of(data).dtype == "int8":
        return data, zero
    return tensor.cast(tensor.bitwise_xor(data, const(128, "uint8")), "int8"), zero - 128


def _operands(node: Call) -> tuple[RelayExpr, int, np.ndarray] | None:
    """Data as int8, its zero point, and weights as int8."""
    found = byte_operand(node.args[0]) if type_of(node).dtype in ("float32", "int32") else None
    weights = _weights(node.args[1]) if found is not None else None
    if found is None or weights is None:
        return None
    return *_signed(*found), weights


def _restored(product: RelayExpr, zero: int, sums: np.ndarray, node: Call) -> RelayExpr:
    """The sums without the part of the zero point, in the type of the node. ``sums`` are those of the weights."""
    if zero:
        product = tensor.add(product, Constant((-zero * sums).astype("int32")))
    dtype = type_of(node).dtype
    return product if dtype == "int32" else tensor.cast(product, dtype)


def integer_conv2d(node: Call, counts) -> RelayExpr | None:
    """A convolution of quantized data as one of int8."""
    attrs, found = node.attrs, _operands(node)
    if found is None or attrs.groups != 1 or attrs.data_layout not in ("NCHW", "NHWC") or attrs.out_layout:
        return None
    data, zero, weights = found
    layout = attrs.kernel_layout
    if sorted(layout) != sorted("OIHW") or isinstance(attrs.padding, str):
        return None
    taken = tuple(layout.index(c) for c in "IHW")
    if weights.size // weights.shape[layout.index("O")] > MAX_TERMS:
        return None
    entries = {**attrs.entries, "out_dtype": "int32"}
    if zero and any(attrs.padding):
        top, left, bottom, right = (int(p) for p in attrs.padding)
        around = {"H": (top, bottom), "W": (left, right)}
        data = nn.pad(data, [around.get(c, (0, 0)) for c in attrs.data_layout], zero)
        entries["padding"] = (0, 0, 0, 0)
    product = Call(node.op, (data, Constant(weights)), CallAttrs(entries), (), node.span)
    sums = weights.sum(axis=taken, dtype="int64")
    return _restored(product, zero, sums.reshape(-1, 1, 1) if attrs.data_layout == "NCHW" else sums, node)


def integer_dense(node: Call, counts) -> RelayExpr | None:
    """A dense layer of quantized data as one of int8."""
    found = _operands(node)
    if found is None or found[2].ndim != 2 or found[2].shape[1] > MAX_TERMS:
        return None
    data, zero, weights = found
    entries = {**node.attrs.entries, "out_dtype": "int32"}
    product = Call(node.op, (data, Constant(weights)), CallAttrs(entries), (), node.span)
    return _restored(product, zero, weights.sum(axis=1, dtype="int64"), node)


def integer_bias(node: Call, counts) -> RelayExpr | None:
    """A bias of whole numbers is added before sums of int32 are cast."""
    sums, bias = node.args
    if not is_call(sums, "cast") or not isinstance(bias, Constant) or type_of(node).dtype != "float32":
        return None
    source = sums.args[0]
    if not is_call(source, "add", *PRODUCTS) or type_of(source).dtype != "int32" or counts.get(id(sums), 1) > 1:
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
    """What SimplifyExpr does for a target with dot products of bytes."""
    if dot_product(target, "int8") is None:
        return {}
    return {"nn.conv2d": (integer_conv2d,), "nn.dense": (integer_dense,), "add": (integer_bias,)}


def _with_padding(node: Call) -> RelayExpr | None:
    """A convolution of bytes that pads its data itself."""
    padded = node.args[0]
    if any(node.attrs.padding) or not is_call(padded, "nn.pad") or padded.attrs.pad_mode != "constant":
        return None
    width = [tuple(map(int, pair)) for pair in padded.attrs.pad_width]
    is_inside = any(any(pair) for i, pair in enumerate(width) if i not in (2, 3)) or np.min(width) < 0
    if is_inside or not isinstance(padded.args[1], Constant):
        return None
    (top, bottom), (left, right) = width[2:4]
    value = int(padded.args[1].data.numpy().item())
    entries = {**node.attrs.entries, "padding": (top, left, bottom, right), "pad_value": value}
    return Call(node.op, (padded.args[0], node.args[1]), CallAttrs(entries), (), node.span)


def _of_bytes(node: Call) -> RelayExpr | None:
    """A depthwise convolution of float32 that reads bytes: a quarter of what the layer before would write."""
    found = byte_operand(node.args[0])
    if found is None or type_of(node).dtype != "float32":
        return None
    entries = {**node.attrs.entries, "out_dtype": "float32", "zero_point": found.zero}
    return Call(node.op, (found.bytes, node.args[1]), CallAttrs(entries), (), node.span)


def _in_panels(node: Call) -> RelayExpr | None:
    """A dense layer of bytes whose weight is packed."""
    data, weight = node.args
    types = {type_of(data).dtype, type_of(weight).dtype}
    shape = type_of(data).shape
    if not isinstance(weight, Constant) or types != {"int8"} or type_of(node).dtype != "int32" or len(shape) != 2:
        return None
    if not all(isinstance(d, IntImm) for d in shape) or 0 in weight.data.shape or not int(shape[0]):
        return None
    packed = pack_bytes(weight.data.numpy())
    layout = f"NC{packed.shape[2]}c{packed.shape[3]}n{packed.shape[4]}c"
    return _columns(contrib_dense_pack(data, Constant(packed), layout, None, "int32"), weight.data.shape[0])


def _columns(product: RelayExpr, count: int) -> RelayExpr:
    """The first columns of a product that may have more."""
    if count % PANEL == 0:
        return product
    return transform.strided_slice(product, [0], [count], axes=[-1])


def _whole_panels(node: Call) -> RelayExpr | None:
    """A batch of products of bytes with columns of whole panels."""
    (x, y), attrs = node.args, node.attrs
    shape = type_of(y).shape
    is_of_bytes = type_of(x).dtype == type_of(y).dtype in BYTE_TYPES and type_of(node).dtype == "int32"
    if not is_of_bytes or attrs.transpose_a or not all(isinstance(d, IntImm) for d in shape) or 0 in map(int, shape):
        return None
    columns = int(shape[1] if attrs.transpose_b else shape[2])
    if columns % PANEL == 0:
        return None
    more = (0, -columns % PANEL)
    y = nn.pad(y, [(0, 0), more, (0, 0)] if attrs.transpose_b else [(0, 0), (0, 0), more])
    return _columns(Call(node.op, (x, y), attrs, (), node.span), columns)


def pack_bytes(weight: np.ndarray) -> np.ndarray:
    """A weight (units, features) as panels (units / 16, features / block, block / 4, 16, 4)."""
    units, features = weight.shape
    wide = -(-features // BYTES) * BYTES
    block = k_block(wide)
    whole = np.pad(weight, ((0, -units % PANEL), (0, wide - features)))
    parted = whole.reshape(-1, PANEL, wide // block, block // BYTES, BYTES)
    return np.ascontiguousarray(parted.transpose(0, 2, 3, 1, 4))


_READS_BYTES = {
    "nn.contrib_conv2d_NCHWc_int8": _with_padding,
    "nn.contrib_depthwise_conv2d_NCHWc": _of_bytes,
    "nn.dense": _in_panels,
    "nn.batch_matmul": _whole_panels,
}


def ReadBytes(target: Target) -> RelayFunctionPass:
    """Convolutions of quantized data read bytes and pad them themselves, and weights of dense layers are packed into
    panels, where the target has products of bytes."""

    def rule(node: RelayExpr) -> RelayExpr | None:
        return _READS_BYTES[node.op.name](node) if is_call(node, *_READS_BYTES) else None

    @function_pass(opt_level=3, name="ReadBytes", required=["InferType"])
    def read(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func if dot_product(target, "int8") is None else rewrite_typed(func, rule, mod)

    return read


__all__ = ["ReadBytes", "rules"]
