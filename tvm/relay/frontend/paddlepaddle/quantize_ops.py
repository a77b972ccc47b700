"""Converters of quantize and dequantize operators.

A scale in PaddlePaddle is the value that the largest integer represents.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .elementwise import away_from_zero
from .table import Context, axis_of, op


def _largest_integer(bits: int) -> float:
    """Return the largest integer of a signed type with the given number of bits."""
    if not 2 <= bits <= 16:
        raise TVMError(f"integers of {bits} bits are not supported; expected 2 to 16")
    return float(2 ** (bits - 1) - 1)


def _broadcast_scale(ctx: Context, scale: RelayExpr, x: RelayExpr, axis: int) -> RelayExpr:
    """Reshape a scale of the whole tensor, or of each channel of an axis, to broadcast."""
    if ctx.known_shape(scale) in ((), (1,)):
        return relay.reshape(scale, ())
    axis = axis_of(axis, ctx.rank(x))
    return relay.reshape(scale, [-1 if i == axis else 1 for i in range(ctx.rank(x))])


def _quantize(ctx: Context, x: RelayExpr, scale: RelayExpr, kind: int) -> RelayExpr:
    """Quantize to integers.

    With round_type 0, ties are rounded to even and the range includes one more negative integer; with 1, ties are
    rounded away from zero.
    """
    last = _largest_integer(ctx.attr("bit_length", 8))
    factor = relay.divide(ctx.like(last, x), scale)
    if kind == 0:
        return relay.clip(relay.round(relay.multiply(x, factor)), -last - 1.0, last)
    if kind != 1:
        raise TVMError(f"the attribute 'round_type' must be 0 or 1, got {kind}")
    inside = relay.minimum(relay.maximum(x, relay.negative(scale)), scale)
    return away_from_zero(ctx, ctx.made(relay.multiply(inside, factor)))


def _dequantize(ctx: Context, x: RelayExpr, scale: RelayExpr, bits: int) -> RelayExpr:
    """Dequantize integers."""
    return relay.divide(relay.multiply(x, scale), ctx.like(_largest_integer(bits), x))


@op("quantize_linear")
def quantize_linear(ctx):
    x = ctx.get("X")
    ctx.refuse(only_observer=False)
    scale = _broadcast_scale(ctx, ctx.get("Scale"), x, ctx.attr("quant_axis", 0))
    return {"Y": _quantize(ctx, x, scale, ctx.attr("round_type", 0))}


@op("dequantize_linear")
def dequantize_linear(ctx):
    x, scale, zero = ctx.get("X"), ctx.get("Scale"), ctx.maybe("ZeroPoint")
    ctx.refuse(only_observer=False)
    axis = ctx.attr("quant_axis", 0)
    wide = ctx.made(x if ctx.dtype(x) == ctx.dtype(scale) else relay.cast(x, ctx.dtype(scale)))
    if zero is not None and ctx.value(zero) is not None and ctx.value(zero).any():
        raise TVMError("zero points other than 0 are not supported")
    return {"Y": _dequantize(ctx, wide, _broadcast_scale(ctx, scale, x, axis), ctx.attr("bit_length", 8))}


def _own_scale(ctx: Context, x: RelayExpr, by_channel: bool) -> RelayExpr:
    """Return the largest absolute value of the tensor, or of each channel."""
    axis = ctx.axis("quant_axis", x, 0) if by_channel else -1
    axes = [i for i in range(ctx.rank(x)) if i != axis]
    return ctx.made(relay.reshape(relay.max(relay.abs(x), axis=axes), (-1,)))


def _fake(by_channel: bool, given: bool, back: bool):
    def convert(ctx):
        x = ctx.get("X")
        if given and not ctx.attr("is_test", True):
            raise TVMError("the program is in training mode; save it for inference")
        scale = ctx.get("InScale") if given else _own_scale(ctx, x, by_channel)
        beside = _broadcast_scale(ctx, scale, x, ctx.attr("quant_axis", 0))
        out = _quantize(ctx, x, beside, ctx.attr("round_type", 1))
        out = _dequantize(ctx, out, beside, ctx.attr("bit_length", 8)) if back else out
        return {"Out": out, "OutScale": scale}

    return convert


for _name, _row in {
    "fake_quantize_abs_max": (False, False, False),
    "fake_quantize_range_abs_max": (False, True, False),
    "fake_quantize_moving_average_abs_max": (False, True, False),
    "fake_channel_wise_quantize_abs_max": (True, False, False),
    "fake_quantize_dequantize_abs_max": (False, False, True),
    "fake_quantize_dequantize_moving_average_abs_max": (False, True, True),
    "fake_channel_wise_quantize_dequantize_abs_max": (True, False, True),
}.items():
    op(_name)(_fake(*_row))


@op("fake_dequantize_max_abs")
def fake_dequantize_max_abs(ctx):
    x = ctx.get("X")
    scaled = relay.multiply(x, relay.reshape(ctx.get("Scale"), ()))
    return relay.divide(scaled, ctx.like(ctx.attr("max_range", 127.0), x))


@op("fake_channel_wise_dequantize_max_abs")
def fake_channel_wise_dequantize_max_abs(ctx):
    """Dequantize with one scale for each channel, and with a second scale for the data after a matmul."""
    x, scales, bits = ctx.get("X"), ctx.tensors("Scales"), ctx.attr("quant_bits", [8])
    if len(scales) > 2 or len(bits) < len(scales):
        raise TVMError(f"{len(scales)} scales do not match {len(bits)} numbers of bits")
    axis = ctx.attr("quant_axis", 0) if len(scales) == 1 else ctx.attr("x_num_col_dims", 1)
    out = _dequantize(ctx, x, _broadcast_scale(ctx, scales[0], x, axis), bits[0])
    return out if len(scales) == 1 else _dequantize(ctx, out, relay.reshape(scales[1], ()), bits[1])


@op("moving_average_abs_max_scale")
def moving_average_abs_max_scale(ctx):
    """Return the input unchanged: the observed scale is only used in training."""
    return ctx.get("X")
