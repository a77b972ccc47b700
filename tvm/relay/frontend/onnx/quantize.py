"""Converters of quantized operators: integers with a scale and a zero point."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Call, const
from ..common.matmul import numpy_matmul
from .load import onnx_dtype
from .nn_ops import centered, convolved
from .reduce_ops import limits
from .small_types import decode, encode, small_type
from .table import CONVERTERS, argument, axis_of, op


def spread(ctx, vector, data, axis: int, block: int = 0):
    """Make a scale or zero point broadcastable to the data: per tensor, per index of an axis, or per block."""
    rank = ctx.rank(data)
    if vector is None or ctx.rank(vector) == 0:
        return vector
    if block:
        wide = relay.repeat(vector, block, axis)
        size, have = ctx.known_size(data, axis), ctx.known_size(wide, axis)
        return wide if have == size else relay.strided_slice(wide, [0], [size], [1], [axis])
    if ctx.shape(vector) == (1,):
        return relay.reshape(vector, ())
    if ctx.rank(vector) > 1:
        return vector
    rest = rank - axis_of(axis, rank) - 1
    return relay.expand_dims(vector, 1, rest) if rest else vector


def round_even(x):
    """Round to the nearest integer, ties to even."""
    return relay.round(x)


def quantized(ctx, x, scale, zero, dtype: str, span: tuple[int, int] | None = None):
    """Return round(x / scale) + zero, clipped to the type; ``scale`` and ``zero`` must already be broadcastable."""
    steps = relay.divide(x, scale)
    if dtype.startswith("float"):
        return relay.cast(steps, dtype)
    return within(round_even(steps), zero, dtype, ctx.dtype(x), span)


def rescaled(ctx, total, factor, scale, zero, dtype: str):
    """Requantize integer sums, which have the scale ``factor``, to ``scale`` by a single multiplication.

    Two multiplications in turn would round differently where a sum is midway between two quantization steps.
    """
    whole = relay.cast(total, "float32")
    if dtype.startswith("float"):
        return quantized(ctx, relay.multiply(whole, factor), scale, zero, dtype)
    return within(round_even(relay.multiply(whole, relay.divide(factor, scale))), zero, dtype)


def within(steps, zero, dtype: str, kind: str = "float32", span: tuple[int, int] | None = None):
    """Add the zero point to rounded steps of type ``kind`` and clip the result to the range of ``dtype``."""
    if zero is not None:
        steps = relay.add(steps, relay.cast(zero, kind))
    return relay.cast(relay.clip(steps, *(span or limits(dtype))), dtype)


def dequantized(ctx, x, scale, zero):
    kind = ctx.dtype(scale)
    if zero is not None:
        known = ctx.value(zero)
        if known is not None and not known.any():
            zero = None
    if zero is None:
        return relay.multiply(relay.cast(x, kind), scale)
    if ctx.dtype(x).startswith("float"):
        return relay.multiply(relay.subtract(relay.cast(x, kind), relay.cast(zero, kind)), scale)
    steps = relay.subtract(relay.cast(x, "int32"), relay.cast(zero, "int32"))
    return relay.multiply(relay.cast(steps, kind), scale)


# Operators whose output elements are elements of their first input; they can be applied to the quantized integers.
MOVES_ELEMENTS = frozenset(
    "DepthToSpace Expand Flatten Gather Identity MaxPool Reshape Slice SpaceToDepth Squeeze Transpose Unsqueeze".split()
)


def applied_to_integers(ctx, inputs: list, convert):
    """Apply an operator of ``MOVES_ELEMENTS`` to the integers of a dequantized value, and dequantize its output.

    ``convert(inputs)`` converts the operator. Return None if the input is not a dequantized value.
    """
    known = ctx.importer.integers.get(id(inputs[0])) if inputs else None
    if known is None or ctx.wants(1):
        return None
    value, scale, zero, axis = known[1]
    if ctx.dtype(value) == "int32" or any(ctx.shape(e) not in ((), (1,)) for e in (scale, zero) if e is not None):
        return None
    moved = ctx.made(convert([value, *inputs[1:]]))
    ctx.integers = (moved, scale, zero, axis)
    scale, zero = (None if e is None else relay.reshape(e, ()) for e in (scale, zero))
    return dequantized(ctx, moved, scale, zero if zero is None else ctx.made(zero))


def _same_integers(ctx, x, scale, zero, dtype: str):
    """Return the integers of a dequantized value that is quantized again with the same parameters; None for other
    values.
    """
    known = ctx.importer.integers.get(id(x))
    if known is None or ctx.dtype(known[1][0]) != dtype:
        return None
    value, old, origin, _ = known[1]
    numbers = [np.zeros(1) if e is None else ctx.value(e) for e in (scale, old, zero, origin)]
    if any(n is None or n.size != 1 for n in numbers):
        return None
    step, old_step, start, old_start = (n.item() for n in numbers)
    return value if step == old_step > 0 and start == old_start else None


def requantized(ctx, x, scale, zero, dtype: str):
    """Requantize the integer sums of a scaled value by a single factor, as integer arithmetic rounds them.

    Two factors in turn would round differently where a sum is midway between two steps. Return None for other values.
    """
    for form in (_same_integers, _quantized_sum, _quantized_mean):
        steps = form(ctx, x, scale, zero, dtype)
        if steps is not None:
            return steps
    known = ctx.importer.sums
    positive = isinstance(x, Call) and getattr(x.op, "name", "") == "nn.relu"
    source = x.args[0] if positive else x
    if id(source) not in known:
        return None
    whole, factor = known[id(source)][1]
    steps = round_even(relay.multiply(whole, relay.divide(factor, relay.reshape(scale, ()))))
    if positive:
        steps = relay.nn.relu(steps)
    return within(steps, None if zero is None else relay.reshape(zero, ()), dtype)


def _quantized_mean(ctx, x, scale, zero, dtype: str):
    """Quantize the global average of dequantized values, computed from the sum of their integers."""
    known = ctx.importer.integers
    if not (isinstance(x, Call) and getattr(x.op, "name", "") == "nn.global_avg_pool2d" and id(x.args[0]) in known):
        return None
    value, old, origin, _ = known[id(x.args[0])][1]
    if ctx.shape(old) not in ((), (1,)) or ctx.dtype(value) == "int32":
        return None
    height, width = ctx.spatial(value)
    whole = centered(ctx, value, origin, ())
    size = relay.multiply(relay.reshape(scale, ()), const(float(height * width), "float32"))
    total = relay.sum(whole, axis=[2, 3], keepdims=True)
    steps = round_even(relay.multiply(total, relay.divide(relay.reshape(old, ()), size)))
    return within(steps, None if zero is None else relay.reshape(zero, ()), dtype)


# Offsets, in units in the last place, by which float32 factors around the nearest one are tried, smallest offset first.
_ULP_OFFSETS = sorted(((i, j) for i in range(-4, 5) for j in range(-4, 5)), key=lambda at: abs(at[0]) + abs(at[1]))


def _float32_factors(sides: list[np.ndarray], ratios: list[float], low: int, high: int) -> list[float] | None:
    """Return float32 factors for which all pairs of integers give the same quantization step as float64 factors.

    The steps between ``low`` and ``high`` must agree with and without fused multiply-add. Return None if no factors
    near ``ratios`` do.
    """
    a, b = sides[0][:, None], sides[1][None, :]
    wanted = np.clip(np.rint(a * ratios[0] + b * ratios[1]), low, high)
    factors = [np.float32(r) for r in ratios]
    for shifts in _ULP_OFFSETS:
        p, q = (f + np.float32(n) * np.spacing(f) for f, n in zip(factors, shifts))
        # The product of an 8-bit integer and a float32 is exact in float64.
        whole = [a * np.float64(p), b * np.float64(q)]
        rounded = [part.astype("float32").astype("float64") for part in whole]
        sums = [rounded[0] + rounded[1], whole[0] + rounded[1], rounded[0] + whole[1]]
        if all((np.clip(np.rint(total.astype("float32")), low, high) == wanted).all() for total in sums):
            return [float(p), float(q)]
    return None


def _known_factors(ctx, sides, scale, zero, dtype: str) -> list[float] | None:
    """Return the factors of ``_float32_factors`` for two dequantized values with constant scales and zero points."""
    numbers = [ctx.value(e) for e in (scale, *(s for _, s, _, _ in sides))]
    zeros = [np.zeros(1) if e is None else ctx.value(e) for e in (zero, *(z for _, _, z, _ in sides))]
    types = [ctx.dtype(v) for v, _, _, _ in sides]
    if any(n is None or n.size != 1 for n in (*numbers, *zeros)) or not all(0 < n.item() < np.inf for n in numbers):
        return None
    if any(t not in ("int8", "uint8") for t in (dtype, *types)):
        return None
    ratios = [n.item() / numbers[0].item() for n in numbers[1:]]
    if not all(1e-30 < r < 1e30 for r in ratios):
        return None
    integers = [np.arange(256.0) + limits(t)[0] - z.item() for t, z in zip(types, zeros[1:])]
    low, high = (end - int(zeros[0].item()) for end in limits(dtype))
    return _float32_factors(integers, ratios, low, high)


def _quantized_sum(ctx, x, scale, zero, dtype: str):
    """Quantize the sum of two dequantized values.

    float64 is exact: a sum just below the midpoint of two steps is not rounded up. Where float32 factors give the same
    step for all pairs of integers, float32 is used.
    """
    known = ctx.importer.integers
    if not (isinstance(x, Call) and getattr(x.op, "name", "") == "add" and all(id(a) in known for a in x.args)):
        return None
    sides = [known[id(a)][1] for a in x.args]
    if any(ctx.shape(s) not in ((), (1,)) or ctx.dtype(v) == "int32" for v, s, _, _ in sides):
        return None

    single = _known_factors(ctx, sides, scale, zero, dtype)
    if single is not None:
        parts = [relay.multiply(centered(ctx, value, origin, ()), const(factor, "float32"))
                 for (value, _, origin, _), factor in zip(sides, single)]  # fmt: skip
        return within(round_even(relay.add(*parts)), None if zero is None else relay.reshape(zero, ()), dtype)

    def real(e):
        return relay.cast(relay.reshape(e, ()), "float64")

    parts = []
    for value, old, origin, _ in sides:
        whole = relay.cast(centered(ctx, value, origin, ()), "float64")
        parts.append(relay.multiply(whole, relay.divide(real(old), real(scale))))
    steps = relay.cast(round_even(relay.add(*parts)), "float32")
    return within(steps, None if zero is None else relay.reshape(zero, ()), dtype)


@op("QuantizeLinear")
@op("com.microsoft.QuantizeLinear")
def quantize_linear(ctx, inputs, attrs):
    x, scale, zero = inputs[0], inputs[1], argument(inputs, 2)
    axis, block = attrs.get("axis", 1), attrs.get("block_size", 0)
    code = attrs.get("output_dtype")
    if zero is not None:
        dtype, kind = ctx.dtype(zero), ctx.small(zero)
    else:
        dtype, kind = (onnx_dtype(code), small_type(code)) if code else ("uint8", None)
    if ctx.dtype(x) != ctx.dtype(scale):
        x = relay.cast(x, ctx.dtype(scale))
    if ctx.dtype(x) == "float16":
        x, scale = relay.cast(x, "float32"), relay.cast(scale, "float32")
    if kind is None and ctx.shape(scale) in ((), (1,)):
        sums = requantized(ctx, x, scale, zero, dtype)
        if sums is not None:
            return sums
    scale, zero = spread(ctx, scale, x, axis, block), spread(ctx, zero, x, axis, block)
    if kind is None:
        return quantized(ctx, x, scale, zero, dtype)
    ctx.made_small = kind
    if kind.integer_bits:
        return quantized(ctx, x, scale, zero, dtype, kind.limits)
    # The float8 and float4 types have the zero point 0.
    return encode(ctx, relay.divide(x, scale), kind, bool(attrs.get("saturate", 1)))


@op("DequantizeLinear")
@op("com.microsoft.DequantizeLinear")
def dequantize_linear(ctx, inputs, attrs):
    x, scale, zero = inputs[0], inputs[1], argument(inputs, 2)
    axis, block = attrs.get("axis", 1), attrs.get("block_size", 0)
    kind = ctx.small(x)
    if kind is not None and not kind.integer_bits:
        x, zero = decode(ctx, x, kind), None
    if not block and ctx.dtype(x) in ("int8", "uint8", "int32") and ctx.dtype(scale) == "float32":
        ctx.integers = (x, scale, zero, axis)
    out = dequantized(ctx, x, spread(ctx, scale, x, axis, block), spread(ctx, zero, x, axis, block))
    return relay.cast(out, onnx_dtype(attrs["output_dtype"])) if attrs.get("output_dtype") else out


def centered_integers(ctx, x, zero, axis: int):
    """Return x - zero as int32."""
    x = relay.cast(x, "int32")
    if zero is None:
        return x
    known = ctx.value(zero)
    if known is not None and not known.any():
        return x
    return relay.subtract(x, relay.cast(spread(ctx, zero, x, axis), "int32"))


def _integer_convolution(ctx, x, w, x_zero, w_zero, attrs):
    data = ctx.made(centered_integers(ctx, x, x_zero, 1))
    weight = centered_integers(ctx, w, w_zero, 0)
    return convolved(ctx, data, weight, attrs, ctx.known_shape(w), out_dtype="int32")


@op("ConvInteger")
def conv_integer(ctx, inputs, attrs):
    return _integer_convolution(ctx, inputs[0], inputs[1], argument(inputs, 2), argument(inputs, 3), attrs)


@op("QLinearConv")
def qlinear_conv(ctx, inputs, attrs):
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = inputs[:8]
    total = _integer_convolution(ctx, x, w, x_zero, w_zero, attrs)
    if argument(inputs, 8) is not None:
        total = relay.nn.bias_add(total, inputs[8])
    factor = relay.multiply(spread(ctx, w_scale, total, 1), spread(ctx, x_scale, total, 1))
    scale, zero = spread(ctx, y_scale, total, 1), spread(ctx, y_zero, total, 1)
    return rescaled(ctx, total, factor, scale, zero, ctx.dtype(y_zero))


@op("MatMulInteger")
def matmul_integer(ctx, inputs, attrs):
    a, b = inputs[:2]
    return numpy_matmul(
        ctx,
        centered_integers(ctx, a, _rows(ctx, argument(inputs, 2)), -1),
        centered_integers(ctx, b, argument(inputs, 3), -1),
        "int32",
    )


def _rows(ctx, zero):
    """Reshape a zero point per row of the left matrix so that it broadcasts along the rows."""
    return relay.expand_dims(zero, 1) if zero is not None and ctx.rank(zero) == 1 and ctx.shape(zero) != (1,) else zero


@op("QLinearMatMul")
def qlinear_matmul(ctx, inputs, attrs):
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    total = numpy_matmul(
        ctx, centered_integers(ctx, a, _rows(ctx, a_zero), -1), centered_integers(ctx, b, b_zero, -1), "int32"
    )
    factor = relay.multiply(
        relay.cast(_rows(ctx, scalar_if_single(ctx, a_scale)), "float32"),
        relay.cast(scalar_if_single(ctx, b_scale), "float32"),
    )
    scale = relay.cast(scalar_if_single(ctx, y_scale), "float32")
    return rescaled(ctx, total, factor, scale, scalar_if_single(ctx, y_zero), ctx.dtype(y_zero))


def scalar_if_single(ctx, vector):
    return relay.reshape(vector, ()) if ctx.shape(vector) == (1,) else vector


@op("com.microsoft.MatMulInteger16")
def matmul_integer16(ctx, inputs, attrs):
    return numpy_matmul(ctx, relay.cast(inputs[0], "int32"), relay.cast(inputs[1], "int32"), "int32")


@op("com.microsoft.MatMulNBits")
def matmul_nbits(ctx, inputs, attrs):
    """Multiply by a block-quantized weight of 4 or 8 bits: ``(integer - zero) * scale`` with unsigned integers."""
    data, packed, scale, zeros, order, bias = (argument(inputs, i) for i in range(6))
    features, units = attrs["K"], attrs["N"]
    bits, block = attrs.get("bits", 4), attrs["block_size"]
    if bits not in (4, 8):
        raise TVMError(f"weights of {bits} bits are not supported; use 4 or 8 bits")
    if order is not None:
        raise TVMError("the input g_idx (an order of the features) is not supported")
    known = [None if e is None else ctx.value(e) for e in (packed, scale, zeros)]
    if known[0] is None or known[1] is None or (zeros is not None and known[2] is None):
        raise TVMError("the weight, its scales and its zero points must be constants")
    groups = -(-features // block)
    whole = known[0].reshape(units, -1)
    if bits == 4:
        whole = np.stack([whole & 15, whole >> 4], 2).reshape(units, -1)
    whole, middle = whole[:, : groups * block].astype("int16"), 1 << (bits - 1)
    starts = np.full((units, groups), middle, "int16")
    if known[2] is not None and known[2].dtype != np.uint8:
        raise TVMError(f"zero points of type {known[2].dtype} are not supported; use uint8")
    if known[2] is not None:
        rows = known[2].reshape(units, -1)
        rows = rows if bits == 8 else np.stack([rows & 15, rows >> 4], 2).reshape(units, -1)
        starts = rows[:, :groups].astype("int16")
    whole = whole - np.repeat(starts, block, 1)
    # Ignore the padding of the last block.
    whole[:, features:] = 0
    # Zero points other than the midpoint move the integers out of the range of 4 or 8 bits.
    bits = 8 if bits == 4 and (starts != middle).any() else bits
    if abs(whole + 0.5).max() > 128:
        raise TVMError("8-bit zero points other than 128 are not supported")
    small = whole.astype("int8")
    small = small if bits == 8 else ((small[:, ::2] & 15) | (small[:, 1::2] << 4)).astype("int8")
    scales = const(known[1].reshape(units, groups).astype("float32"))
    kind = ctx.dtype(data)
    out = relay.nn.contrib_dense_nbits(relay.cast(data, "float32"), const(small), scales, bits, block)
    out = out if bias is None else relay.add(out, relay.cast(bias, "float32"))
    return out if kind == "float32" else relay.cast(out, kind)


@op("com.microsoft.QGemm")
def qgemm(ctx, inputs, attrs):
    """Compute alpha * A * B + C in integers; C has the scale of the product. The output is float without an output
    scale.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = (argument(inputs, i) for i in range(9))
    left = centered_integers(ctx, a, a_zero, -1)
    right = centered_integers(ctx, b, b_zero, 0 if attrs.get("transB", 0) else -1)
    left = relay.transpose(left, (1, 0)) if attrs.get("transA", 0) else left
    right = relay.transpose(right, (1, 0)) if attrs.get("transB", 0) else right
    total = numpy_matmul(ctx, left, right, "int32")
    total = total if c is None else relay.add(total, c)
    scale = relay.multiply(scalar_if_single(ctx, a_scale), scalar_if_single(ctx, b_scale))
    scale = relay.multiply(scale, ctx.like(attrs.get("alpha", 1.0), scale))
    if y_scale is None:
        return relay.multiply(relay.cast(total, "float32"), scale)
    return rescaled(ctx, total, scale, scalar_if_single(ctx, y_scale), scalar_if_single(ctx, y_zero), ctx.dtype(y_zero))


def _through_float(name: str, arity: int):
    """Return a converter of a quantized onnxruntime operator that dequantizes, computes in float and quantizes."""

    def convert(ctx, inputs, attrs):
        reals = [
            dequantized(
                ctx, *[spread(ctx, v, inputs[3 * i], 1) if j else v for j, v in enumerate(inputs[3 * i : 3 * i + 3])]
            )
            for i in range(arity)
        ]
        y_scale, y_zero = inputs[3 * arity], argument(inputs, 3 * arity + 1)
        convert_real = CONVERTERS.find(name, 13)
        assert convert_real is not None
        out = convert_real(ctx, reals, attrs)
        dtype = ctx.dtype(y_zero) if y_zero is not None else ctx.dtype(inputs[0])
        return quantized(
            ctx, out, spread(ctx, y_scale, out, 1), spread(ctx, y_zero, out, 1) if y_zero is not None else None, dtype
        )

    return convert


for _name, _arity in (
    ("Add", 2),
    ("Mul", 2),
    ("Sigmoid", 1),
    ("LeakyRelu", 1),
    ("GlobalAveragePool", 1),
    ("AveragePool", 1),
    ("Softmax", 1),
):
    op(f"com.microsoft.QLinear{_name}")(_through_float(_name, _arity))


@op("com.microsoft.QLinearConcat")
def qlinear_concat(ctx, inputs, attrs):
    y_scale, y_zero = inputs[:2]
    parts = [dequantized(ctx, inputs[i], inputs[i + 1], inputs[i + 2]) for i in range(2, len(inputs), 3)]
    return quantized(ctx, relay.concatenate(parts, attrs["axis"]), y_scale, y_zero, ctx.dtype(y_zero))


@op("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx, inputs, attrs):
    return list(dynamically_quantized(ctx, inputs[0]))


def dynamically_quantized(ctx, x):
    """Quantize floats to uint8 over their actual range extended to 0; also return the scale and the zero point."""
    axes = tuple(range(ctx.rank(x)))
    zero = const(0.0, "float32")
    low = relay.minimum(relay.min(x, axis=axes), zero)
    high = relay.maximum(relay.max(x, axis=axes), zero)
    scale = relay.divide(relay.subtract(high, low), const(255.0, "float32"))
    safe = relay.where(relay.equal(scale, zero), const(1.0, "float32"), scale)
    point = relay.cast(relay.clip(round_even(relay.divide(relay.subtract(zero, low), safe)), 0, 255), "uint8")
    return quantized(ctx, x, safe, point, "uint8"), scale, point
