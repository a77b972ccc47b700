"""Quantized element-wise operators as tables of their outputs for all inputs.

A 16-bit integer has 65,536 values. LiteRT interpolates between 513 of them; here the table contains the interpolated
outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .fixed import bit_length, times_root
from .load import Quantization
from .quantization import RANGES, finished, fixed_point, looked_up, rescaled, round_away
from .table import CONVERTERS, Context, quantized


def integers(dtype: str) -> np.ndarray:
    """Return all values of an integer type."""
    low, high = RANGES[dtype]
    return np.arange(low, high + 1)


def by_table(ctx: Context, x: RelayExpr, entries: np.ndarray) -> RelayExpr:
    """Look up each element in a table whose entries are clipped to the output type."""
    result = ctx.result()
    return looked_up(x, np.clip(entries, *RANGES[result.dtype]).astype(result.dtype), ctx.tensor(0).dtype)


def _exact(*names: str, only: tuple[str, ...] = ("int8", "uint8", "int16")):
    """Register ``f(ctx, integers, source, target)``, which returns the table entries, for tensors of the types
    ``only``.

    For other types, the table contains the outputs of the float operator.
    """

    def add(function):
        def convert(ctx, inputs, options):
            tensor = ctx.tensor(0)
            if tensor.dtype not in only:
                plain = CONVERTERS.find(ctx.node.operator, ctx.node.version)
                way = ctx.importer.through_reals if tensor.dtype == "int16" else ctx.importer.table
                return way(ctx, plain, inputs)
            x, y = ctx.quantization(tensor), ctx.quantization(ctx.result())
            return by_table(ctx, inputs[0], function(ctx, integers(tensor.dtype), x, y))

        return quantized(*names)(convert)

    return add


def times(x: np.ndarray, number: tuple[int, int]) -> np.ndarray:
    """Return ``quantization.scaled`` of NumPy integers."""
    factor, shift = number
    high = (x.astype("int64") * (factor << max(shift, 0)) + (1 << 30)) >> 31
    return rounding_shift(high, max(-shift, 0))


def rounding_shift(x: np.ndarray, exponent: int) -> np.ndarray:
    """Divide integers by a power of two, with ties rounded away from zero."""
    return np.sign(x) * ((np.abs(x) + (1 << exponent >> 1)) >> exponent)


@_exact("HARD_SWISH", only=("int8", "uint8"))
def hard_swish(ctx, x, source, target):
    """Compute in 16 bits: the input with seven more bits, times the input mapped from -3..3 to 0..1."""
    fine = np.float32(1 / 128) * source.scale[0]
    wide = (x.astype("int64") - int(source.zero_point[0])) << 7
    factor, shift = _with_15_bits(fixed_point(float(np.float32(fine / target.scale[0]))))
    if shift > 0:
        raise TVMError("the scale of the output is too small for HARD_SWISH")
    scaled = _high_half(wide, factor)
    gate_factor, gate_shift = _with_15_bits(fixed_point(float(np.float32(fine / np.float32(3 / 32768)))))
    gate = np.clip(wide << max(gate_shift - 1, 0), -32768, 32767)
    gate = _high_half(gate, gate_factor)
    if gate_shift > 0:
        gate = np.clip(gate << 1, -32768, 32767)
    elif gate_shift < 0:
        gate = rounding_shift(gate, -gate_shift)
    product = ((gate + (1 << 15)) >> 1) * scaled
    product = np.sign(product) * (np.abs(product) >> 15)
    return rounding_shift(product, -shift) + int(target.zero_point[0])


def _with_15_bits(number: tuple[int, int]) -> tuple[int, int]:
    """Round the 31-bit multiplier of a fixed-point number to 15 bits."""
    factor, shift = number
    return min((factor + (1 << 15)) >> 16, 32767), shift


def _high_half(x: np.ndarray, factor: int) -> np.ndarray:
    product = x * factor
    return np.sign(product) * ((np.abs(product) + (1 << 14) - (product < 0)) >> 15)


# -- 16-bit operators -------------------------------------------------------------------------------------------------


def interpolated(low: float, high: float, target: tuple[float, float], function: Callable, real: type) -> np.ndarray:
    """Return the outputs for all int16 inputs, of which the smallest represents ``low`` and the largest ``high``.

    The outputs are linearly interpolated between 513 points, which are shifted by half of the error in the middle of
    each segment. ``target`` is the value range of the outputs.
    """
    low, high = real(low), real(high)
    step = real((high - low) / real(512))
    inverse = real(real(65536) / (real(target[1]) - real(target[0])))
    # The product and the sum are rounded once, as by a fused multiply-add.
    at = (float(low) + np.arange(513) * float(step)).astype(real)
    ends = round_away((function(at) * inverse).astype(real))
    following = (function(at[1:]) * inverse).astype(real)
    middle = round_away((function((at[:-1] + step / real(2)).astype(real)) * inverse).astype(real))
    guess = round_away(((following + ends[:-1]) / real(2)).astype(real))
    ends[:-1] -= round_away(((guess - middle) / real(2)).astype(real))
    ends[-1] = round_away(real(function(np.array([high], real))[0] * inverse))
    places = np.clip(ends, -32768, 32767).astype("int64")
    x = integers("int16")
    at = 256 + (x >> 7)
    slope = (places[at + 1] - places[at]).astype("int16").astype("int64")
    return (places[at] + ((slope * (x & 127) + 64) >> 7)).astype("int16")


def _lines(source: Quantization, target: Quantization, function: Callable) -> np.ndarray:
    ends = [[np.float32(q.scale[0]) * np.float32(v - q.zero_point[0]) for v in (-32768, 32767)]
            for q in (source, target)]  # fmt: skip
    return interpolated(*ends[0], ends[1], function, np.float32)


@_exact("EXP", only=("int16",))
def exp(ctx, x, source, target):
    return _lines(source, target, lambda v: np.exp(v.astype("float64")).astype("float32"))


@_exact("LOG")
def log(ctx, x, source, target):
    """Map inputs without a logarithm to the smallest output."""
    least = np.float32(target.scale[0]) * np.float32(RANGES[ctx.tensor(0).dtype][0] - target.zero_point[0])

    def function(v):
        return np.where(v <= 0, least, np.log(np.where(v <= 0, 1, v).astype("float64"))).astype("float32")

    if ctx.tensor(0).dtype == "int16":
        return _lines(source, target, function)
    real = source.scale[0] * (x - source.zero_point[0]).astype("float32")
    return round_away(function(real) * (np.float32(1) / target.scale[0])) + target.zero_point[0]


@_exact("ABS", only=("int8", "int16"))
def absolute(ctx, x, source, target):
    size = np.abs(x - source.zero_point[0])
    if source.scale[0] != target.scale[0]:
        size = times(size, fixed_point(float(source.scale[0] / target.scale[0])))
    return size + target.zero_point[0]


@_exact("SQRT", only=("int8", "int16"))
def sqrt(ctx, x, source, target):
    """Map negative inputs, which are an error in LiteRT, to zero. The quotient is truncated, not rounded."""
    real = np.maximum(source.scale[0] * (x - source.zero_point[0]).astype("float32"), 0)
    return np.trunc(np.sqrt(real) / target.scale[0]) + target.zero_point[0]


@_exact("RSQRT", only=("int8", "int16"))
def rsqrt(ctx, x, source, target):
    """Map inputs that are not positive to the largest output."""
    if ctx.tensor(0).dtype == "int16":
        most = np.float32(32767) * np.float32(target.scale[0])

        def function(v):
            return np.where(v <= 0, most, 1 / np.sqrt(np.where(v <= 0, 1, v))).astype("float32")

        return _lines(source, target, function)
    real = 1.0 / (np.sqrt(np.float32(source.scale[0])) * np.float32(target.scale[0]))
    factor, shift = fixed_point(float(real))
    value = (x - source.zero_point[0]).reshape(-1, 1).astype("int32")
    fine = times_root(Constant(np.ones_like(value)), Constant(np.maximum(value, 1)), 20)
    entries = times(ctx.array(ctx.made(fine), "the table").ravel(), (factor, shift - 20)) + target.zero_point[0]
    return np.where(value.ravel() > 0, entries, 127)


def _gelu(ctx: Context) -> Callable:
    """Return the GELU function for NumPy arrays, exact or approximate as the options specify."""
    if ctx.node.options.approximate:

        def function(v):
            wide = v.astype("float64")
            return 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    else:

        def function(v):
            rest = np.vectorize(math.erfc)(v * np.float32(-math.sqrt(0.5)))
            return np.float32(0.5) * v * rest.astype("float32")

    return lambda v: function(v).astype("float32")


@_exact("GELU", only=("int16",))
def gelu(ctx, x, source, target):
    return _lines(source, target, _gelu(ctx))


def _sigmoid_points() -> np.ndarray:
    """Return the logistic function at i / 24 in units of 2^-16, each minus half of the interpolation error in its
    segment.

    The last entry is the largest number.
    """
    exact = 65536 / (1 + np.exp(-np.arange(513) / 48))
    ends, middles = exact[::2], exact[1::2]
    error = (ends[:-1] + ends[1:]) / 2 - middles
    return np.append(np.round(ends[:255] - error[:255] / 2), 65535).astype("int64")


_SIGMOID = _sigmoid_points()


def _sigmoid_segments(x: np.ndarray, bits: int) -> np.ndarray:
    """Interpolate linearly between table entries at ``x``, which has ``bits`` fraction bits."""
    place = np.minimum(x >> bits, 254)
    part = x & (1 << bits) - 1
    return np.where(x >> bits >= 255, 0xFFFF << bits,
                    (_SIGMOID[place] << bits) + part * (_SIGMOID[place + 1] - _SIGMOID[place]))  # fmt: skip


def _factor(scale: float) -> tuple[int, int]:
    """Return the multiplier and right shift that scale a 16-bit number by ``scale`` * 3 * 4096."""
    real, shift = float(scale) * 4096.0 * 3.0, 0
    while real <= 32767.0 / 2.0 and shift <= 30:
        shift, real = shift + 1, real * 2.0
    return int(real), shift


@_exact("LOGISTIC", only=("int16",))
def logistic(ctx, x, source, target):
    factor, shift = (3, 0) if source.scale[0] == 2.0**-12 else _factor(source.scale[0])
    fine = (x * factor + (1 << shift >> 1)) >> shift
    size = np.abs(fine)
    up = np.where(size >> 9 >= 255, 0x7FFF << 10, _sigmoid_segments(size, 9))
    return np.where(fine >= 0, up + (1 << 9), (1 << 25) - up + (1 << 9) - 1) >> 10


@_exact("TANH", only=("int16",))
def tanh(ctx, x, source, target):
    if source.scale[0] in (2.0**-12, 2.0**-11):
        fine = x * (3 if source.scale[0] == 2.0**-12 else 6)
    else:
        factor, shift = _factor(source.scale[0])
        fine = (x * factor + (1 << shift >> 1)) >> shift
    up = _sigmoid_segments(np.abs(fine), 8)
    return np.where(fine >= 0, up - (1 << 23) + (1 << 7), -up + (1 << 23) + (1 << 7) - 1) >> 8


def softmax_16(ctx: Context, inputs: list, options) -> RelayExpr:
    """Compute the softmax with tables of the exponential of differences and of the reciprocal of their sum."""
    x = ctx.quantization(ctx.tensor(0))
    powers = interpolated(-10.0, 0.0, _range(2.0 / 65535), np.exp, np.float64)
    inverses = interpolated(0.0, 1.0, _range(2.0 / 65535), lambda v: 1.0 / (1.0 + v), np.float64)
    wide = relay.cast(inputs[0], "int32")
    difference = relay.subtract(wide, relay.max(wide, axis=-1, keepdims=True))
    steps = rescaled(difference, float(np.float32(x.scale[0]) * np.float32(options.beta)) / (10.0 / 65535.0))
    places = relay.clip(relay.add(steps, const(65535, "int32")), 0, 65535)
    found = relay.cast(relay.take(Constant(powers), places, mode="clip"), "int32")
    total = relay.sum(found, axis=-1, keepdims=True)
    bits = bit_length(total)
    # The sum without its leading bit, in 16 bits.
    high = relay.left_shift(relay.cast(total, "int64"), relay.cast(relay.subtract(const(31, "int32"), bits), "int64"))
    part = relay.right_shift(relay.add(high, const(1 << 13, "int64")), const(14, "int64"))
    part = relay.clip(relay.cast(relay.subtract(part, const(1 << 16, "int64")), "int32"), 0, 65535)
    scale = relay.cast(relay.take(Constant(inverses), part, mode="clip"), "int32")
    one = const(1, "int32")
    shift = relay.subtract(bits, one)
    half = relay.left_shift(one, relay.subtract(shift, one))
    return finished(relay.right_shift(relay.add(relay.multiply(found, scale), half), shift), ctx.result())


def _range(scale: float) -> tuple[float, float]:
    return scale * -32768, scale * 32767


__all__ = ["by_table", "rounding_shift", "integers", "softmax_16", "times"]
