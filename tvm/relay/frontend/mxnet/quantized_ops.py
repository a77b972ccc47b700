"""Converters of quantized operators. Each integer tensor has a minimum and a maximum as additional tensors.

The range of int8 is symmetric around zero.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .conv_ops import DENSE, WINDOW, Window, flat
from .make_ops import array_of
from .pool_ops import POOLING, Pool, pooled
from .shape_ops import joined
from .table import Context, op

_CALIBRATED = "min_calib_range:float?=None max_calib_range:float?=None"
# The number of quantization steps of a range. Quantization and dequantization of 8-bit integers use an additional half
# step.
_LEVELS = {"int8": 127.0, "uint8": 255.0, "int32": 2147483647.0}
_SIGNED, _UNSIGNED = 127.5, 255.5


def _greatest(low: RelayExpr, high: RelayExpr) -> RelayExpr:
    return relay.maximum(relay.abs(low), relay.abs(high))


def _number(value: float) -> Constant:
    return array_of([value], "float32")


def _scale_of(ctx: Context, kind: str, low: RelayExpr, high: RelayExpr, signed: float = 127.0) -> RelayExpr:
    """Return the scale of the integers: the value of one step."""
    if kind == "uint8":
        return relay.divide(relay.subtract(high, low), _number(_LEVELS[kind] if signed == 127.0 else _UNSIGNED))
    return relay.divide(_greatest(low, high), _number(signed if kind == "int8" else _LEVELS[kind]))


def _as_scalar(ctx: Context, e: RelayExpr) -> RelayExpr:
    """Reshape a range bound to a scalar, which broadcasts."""
    e = ctx.made(e)
    return relay.reshape(e, ()) if ctx.rank(e) else e


def _rounded(x: RelayExpr) -> RelayExpr:
    """Round half away from zero."""
    return relay.multiply(relay.sign(x), relay.floor(relay.add(relay.abs(x), const(0.5, "float32"))))


def _quantize(ctx: Context, x: RelayExpr, low: RelayExpr, high: RelayExpr, kind: str, signed: float) -> list:
    """Quantize float data. Return the integers and their range."""
    step = ctx.made(_scale_of(ctx, kind, low, high, signed))
    if kind == "uint8":
        moved = relay.divide(relay.subtract(x, _as_scalar(ctx, low)), _as_scalar(ctx, step))
        out = relay.clip(relay.floor(relay.add(moved, const(0.5, "float32"))), 0.0, 255.0)
        return [relay.cast(out, "uint8"), low, high]
    out = relay.clip(_rounded(relay.divide(x, _as_scalar(ctx, step))), -128.0, 127.0)
    greatest = ctx.made(_greatest(low, high))
    return [relay.cast(out, "int8"), relay.negative(greatest), greatest]


def _range(ctx: Context, x: RelayExpr, attrs) -> tuple[RelayExpr, RelayExpr]:
    """Return the calibrated range, or the range of the data."""
    if (attrs.min_calib_range is None) != (attrs.max_calib_range is None):
        raise TVMError("min_calib_range and max_calib_range must be given together")
    if attrs.min_calib_range is not None:
        return _number(attrs.min_calib_range), _number(attrs.max_calib_range)
    return ctx.made(relay.reshape(relay.min(x), (1,))), ctx.made(relay.reshape(relay.max(x), (1,)))


@op("_contrib_quantize_v2", "out_type:auto|int8|uint8=int8 " + _CALIBRATED)
def quantize_v2(ctx, inputs, attrs):
    x = inputs[0]
    if ctx.dtype(x) in ("int8", "uint8"):
        low, high = _range(ctx, x, attrs)
        return [x, low, high]
    kind = attrs.out_type
    if kind == "auto":
        kind = "uint8" if attrs.min_calib_range is not None and attrs.min_calib_range >= 0 else "int8"
    return _quantize(ctx, x, *_range(ctx, x, attrs), kind, _SIGNED)


@op("_contrib_quantize", "out_type:int8|uint8=uint8")
def quantize(ctx, inputs, attrs):
    return _quantize(ctx, *inputs, attrs.out_type, 127.0)


@op("_contrib_dequantize", "out_type:str=float32")
def dequantize(ctx, inputs, attrs):
    x, low, high = inputs
    kind = _kind(ctx, x)
    real = relay.multiply(relay.cast(x, "float32"), _as_scalar(ctx, _scale_of(ctx, kind, low, high, _SIGNED)))
    return relay.add(real, _as_scalar(ctx, low)) if kind == "uint8" else real


def _kind(ctx: Context, x: RelayExpr) -> str:
    kind = ctx.dtype(x)
    if kind not in _LEVELS:
        raise TVMError(f"expected integers of type {' or '.join(_LEVELS)}, got {kind}")
    return kind


@op("_contrib_requantize", "out_type:auto|int8|uint8=int8 " + _CALIBRATED)
def requantize(ctx, inputs, attrs):
    x, low, high = inputs
    if _kind(ctx, x) != "int32" or attrs.out_type == "uint8":
        raise TVMError(
            f"requantization from {ctx.dtype(x)} to out_type={attrs.out_type} is not supported; only int32 to int8 is"
        )
    real = ctx.made(relay.multiply(relay.cast(x, "float32"), _as_scalar(ctx, _scale_of(ctx, "int32", low, high))))
    return _quantize(ctx, real, *_range(ctx, real, attrs), "int8", 127.0)


# -- layers -----------------------------------------------------------------------------------------------------------


def _accumulator_range(ctx: Context, ranges: list) -> list:
    """Return the range of the int32 accumulators of int8 products."""
    steps = [relay.divide(_greatest(*ranges[k : k + 2]), _number(127.0)) for k in (0, 2)]
    high = ctx.made(relay.multiply(relay.multiply(*steps), _number(_LEVELS["int32"])))
    return [relay.negative(high), high]


def _with_bias(ctx: Context, out: RelayExpr, bias: RelayExpr, ranges: list, axis: int) -> RelayExpr:
    """Add the bias, rescaled from its own range to the scale of the accumulators."""
    steps = [relay.divide(_greatest(*ranges[k : k + 2]), _number(_SIGNED)) for k in (0, 2, 4)]
    scale = relay.divide(steps[2], relay.multiply(steps[0], steps[1]))
    wide = relay.cast(_rounded(relay.multiply(relay.cast(bias, "float32"), _as_scalar(ctx, scale))), "int32")
    return relay.nn.bias_add(out, wide, axis=axis)


def _parts(inputs: list, no_bias: bool) -> tuple[list, list]:
    """Split the inputs into tensors and their ranges, two for each tensor."""
    count = 2 if no_bias else 3
    if len(inputs) != 3 * count:
        raise TVMError(f"expected {3 * count} inputs, got {len(inputs)}")
    return inputs[:count], inputs[count:]


@op("_contrib_quantized_conv", WINDOW.format("False"))
def quantized_conv(ctx, inputs, attrs):
    window = Window(attrs)
    if window.rank != 2 or window.last:
        raise TVMError("only 2-D images with channels first are supported")
    tensors, ranges = _parts(inputs, attrs.no_bias)
    out = relay.nn.conv2d(
        relay.cast(tensors[0], "int32"),
        relay.cast(tensors[1], "int32"),
        strides=window.stride,
        padding=window.padding(),
        dilation=window.dilate,
        groups=attrs.num_group,
        channels=attrs.num_filter,
        kernel_size=window.kernel,
        out_dtype="int32",
    )
    out = out if attrs.no_bias else _with_bias(ctx, out, tensors[2], ranges, 1)
    return [out, *_accumulator_range(ctx, ranges)]


@op("_contrib_quantized_fully_connected", DENSE)
def quantized_dense(ctx, inputs, attrs):
    tensors, ranges = _parts(inputs, attrs.no_bias)
    x = flat(ctx, tensors[0]) if attrs.flatten else tensors[0]
    if ctx.rank(x if attrs.flatten is False else tensors[1]) != 2:
        raise TVMError("only matrices are supported")
    out = relay.nn.dense(
        relay.cast(x, "int32"), relay.cast(tensors[1], "int32"), units=attrs.num_hidden, out_dtype="int32"
    )
    out = out if attrs.no_bias else _with_bias(ctx, out, tensors[2], ranges, 1)
    return [out, *_accumulator_range(ctx, ranges)]


@op("_contrib_quantized_pooling", POOLING)
def quantized_pooling(ctx, inputs, attrs):
    """Pool quantized data. Averages are rounded back to integers."""
    x, low, high = inputs
    if attrs.pool_type == "max":
        return [pooled(ctx, x, attrs), low, high]
    if attrs.pool_type != "avg" or not attrs.global_pool and any(Pool(ctx, x, attrs).padding()):
        raise TVMError(f"pool_type={attrs.pool_type} with padding={attrs.pad} is not supported")
    mean = pooled(ctx, ctx.made(relay.cast(x, "float32")), attrs)
    return [relay.cast(relay.round(mean), ctx.dtype(x)), low, high]


@op("_contrib_quantized_act", "act_type:relu|sigmoid|softrelu|softsign|tanh")
def quantized_act(ctx, inputs, attrs):
    if attrs.act_type != "relu":
        raise TVMError(f"the attribute act_type={attrs.act_type} is not supported; it must be relu")
    return [relay.nn.relu(inputs[0]), *inputs[1:]]


@op("_contrib_quantized_flatten")
def quantized_flatten(ctx, inputs, attrs):
    return [relay.nn.batch_flatten(inputs[0]), *inputs[1:]]


@op("_contrib_quantized_embedding", "input_dim:int output_dim:int dtype:dtype=float32")
def quantized_embedding(ctx, inputs, attrs):
    return [relay.take(inputs[1], ctx.cast(inputs[0], "int32"), axis=0, mode="clip"), *inputs[2:]]


@op("_contrib_quantized_concat", "dim:int=1", each=3)
def quantized_concat(ctx, inputs, attrs):
    """Rescale all tensors to the widest range and concatenate them. The ranges follow the tensors as pairs."""
    count = len(inputs) // 3
    if len(inputs) != 3 * count or any(ctx.dtype(x) != "int8" for x in inputs[:count]):
        raise TVMError("expected int8 tensors, each with its range")
    tensors, ranges = inputs[:count], inputs[count:]
    low, high = ranges[0], ranges[1]
    for k in range(1, count):
        low, high = relay.minimum(low, ranges[2 * k]), relay.maximum(high, ranges[2 * k + 1])
    low, high = ctx.made(low), ctx.made(high)
    whole = _greatest(low, high)
    parts = []
    for k, x in enumerate(tensors):
        scale = _as_scalar(ctx, relay.divide(_greatest(*ranges[2 * k : 2 * k + 2]), whole))
        moved = relay.round(relay.multiply(relay.cast(x, "float32"), scale))
        parts.append(ctx.made(relay.cast(relay.clip(moved, -128.0, 127.0), "int8")))
    return [joined(ctx, parts, attrs.dim), low, high]


@op("_contrib_quantized_elemwise_mul", _CALIBRATED + " enable_float_output:bool=False")
def quantized_mul(ctx, inputs, attrs):
    a, b, *ranges = inputs
    whole = relay.multiply(relay.cast(a, "int32"), relay.cast(b, "int32"))
    if attrs.min_calib_range is not None or attrs.max_calib_range is not None:
        raise TVMError("the attributes min_calib_range and max_calib_range are not supported")
    if not attrs.enable_float_output:
        return [whole, *_accumulator_range(ctx, ranges)]
    steps = [relay.divide(_greatest(*ranges[k : k + 2]), _number(_SIGNED)) for k in (0, 2)]
    return relay.multiply(relay.cast(whole, "float32"), _as_scalar(ctx, relay.multiply(*steps)))
