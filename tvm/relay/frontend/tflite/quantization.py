"""Quantized arithmetic that is bit-exact with LiteRT's reference kernels.

A float factor is represented by a 31-bit multiplier and a power of two. A product with it is rounded twice: the high
half of the doubled product with ties rounded up, and the division by the power of two with ties rounded away from zero.
"""

from __future__ import annotations

import math

import numpy as np

from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .load import Quantization, Tensor

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(1 << 31), (1 << 31) - 1)}


def fixed_point(real: float) -> tuple[int, int]:
    """Return (m, s) with real = m / 2^31 * 2^s."""
    if real == 0 or not math.isfinite(real):
        return 0, 0
    mantissa, shift = math.frexp(real)
    whole = math.floor(abs(mantissa) * (1 << 31) + 0.5)
    if whole == 1 << 31:
        whole, shift = whole // 2, shift + 1
    if shift < -31:
        return 0, 0
    return (whole if real > 0 else -whole), shift


def rescaled(x: RelayExpr, real) -> RelayExpr:
    """Multiply int32 numbers by float factors: a scalar, or one per index of the last axis."""
    return scaled(x, [fixed_point(float(r)) for r in np.asarray(real, "float64").ravel()])


def scaled(x: RelayExpr, numbers: list[tuple[int, int]]) -> RelayExpr:
    """Multiply int32 numbers by fixed-point factors: one, or one per index of the last axis."""
    factors, left, right = (np.array(v, "int64") for v in zip(*((m, max(s, 0), max(-s, 0)) for m, s in numbers)))
    wide = relay.cast(x, "int64")
    if left.any():
        factors = factors << left
    wide = relay.add(relay.multiply(wide, _constant(factors, "int64")), const(1 << 30, "int64"))
    high = relay.cast(relay.right_shift(wide, const(31, "int64")), "int32")
    if not right.any():
        return high
    return _divided(high, right)


def rescaled_wide(x: RelayExpr, real) -> RelayExpr:
    """Rescale int64 sums like ``rescaled``, with 15-bit multipliers and ties rounded up."""
    numbers = [fixed_point(float(r)) for r in np.asarray(real, "float64").ravel()]
    factors = np.array([min((m + (1 << 15)) >> 16, 0x7FFF) for m, _ in numbers], "int64")
    shifts = np.array([15 - s for _, s in numbers], "int64")
    halves = _constant(1 << np.maximum(shifts - 1, 0), "int64")
    raised = relay.add(relay.multiply(x, _constant(factors, "int64")), halves)
    return relay.cast(relay.right_shift(raised, _constant(np.maximum(shifts, 0), "int64")), "int32")


def _divided(x: RelayExpr, exponents: np.ndarray) -> RelayExpr:
    """Return x / 2^e, with ties rounded away from zero.

    Subtracting 1 from negative numbers makes their ties round down. Nothing overflows, because the high half of a
    product has at most 31 bits.
    """
    lowered = relay.add(x, relay.right_shift(x, const(31, "int32")))
    one = const(1, "int32")
    halves = relay.right_shift(lowered, _constant(np.maximum(exponents - 1, 0), "int32"))
    out = relay.right_shift(relay.add(halves, one), one)
    return out if exponents.all() else relay.where(_constant(exponents > 0, "bool"), out, x)


def _constant(values: np.ndarray, dtype: str) -> RelayExpr:
    return Constant(values.astype(dtype).reshape(() if values.size == 1 else values.shape))


def limits(result: Tensor, activation: str) -> tuple[int, int]:
    """Return the minimum and maximum integer of an output after its fused activation."""
    low, high = RANGES[result.dtype]
    if activation == "NONE" or result.quantization is None:
        return low, high
    scale, zero = result.quantization.scale[0], int(result.quantization.zero_point[0])

    def integer(real: float) -> int:
        return zero + int(np.clip(round_away(np.float32(real) / scale), -(1 << 31), 1 << 31))

    if activation in ("RELU", "RELU6"):
        low = max(low, integer(0.0))
    if activation == "RELU_N1_TO_1":
        low = max(low, integer(-1.0))
    if activation in ("RELU6", "RELU_N1_TO_1"):
        high = min(high, integer(6.0 if activation == "RELU6" else 1.0))
    return low, high


def finished(x: RelayExpr, result: Tensor, activation: str = "NONE") -> RelayExpr:
    """Add the zero point to int32 steps of an output, and clip them to the range of its type and fused activation."""
    zero = int(result.quantization.zero_point[0]) if result.quantization is not None else 0
    low, high = limits(result, activation)
    x = relay.add(x, const(zero, "int32")) if zero else x
    return relay.cast(relay.clip(x, low, high), result.dtype)


def centered(x: RelayExpr, found: Quantization) -> RelayExpr:
    """Return integers minus their zero point, as int32."""
    wide = relay.cast(x, "int32")
    return relay.subtract(wide, const(int(found.zero_point[0]), "int32")) if found.zero_point[0] else wide


def round_away(x: np.ndarray) -> np.ndarray:
    """Round with ties away from zero."""
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0)


def rounded_away(x: RelayExpr, dtype: str = "float32") -> RelayExpr:
    whole = relay.trunc(x)
    half = relay.greater_equal(relay.abs(relay.subtract(x, whole)), const(0.5, dtype))
    return relay.where(half, relay.add(whole, relay.sign(x)), whole)


def to_real(x: RelayExpr, tensor: Tensor, rank: int) -> RelayExpr:
    """Dequantize integers to float."""
    found = tensor.quantization
    assert found is not None
    shape = [-1 if i == found.axis else 1 for i in range(rank)] if not found.is_single else ()
    zero, scale = found.zero_point.reshape(shape), found.scale.reshape(shape)
    wide = relay.cast(x, "int32")
    wide = relay.subtract(wide, Constant(zero)) if zero.any() else wide
    return relay.multiply(relay.cast(wide, "float32"), Constant(scale))


def real_array(array: np.ndarray, found: Quantization) -> np.ndarray:
    """Return ``to_real`` of a constant array."""
    shape = [-1 if i == found.axis else 1 for i in range(array.ndim)] if not found.is_single else ()
    wide = array.astype("int32") - found.zero_point.reshape(shape)
    return wide.astype("float32") * found.scale.reshape(shape)


def to_integers(x: RelayExpr, result: Tensor, inverse: bool = False) -> RelayExpr:
    """Quantize floats to the type of an output. Kernels with tables multiply by the ``inverse`` of the scale."""
    found = result.quantization
    assert found is not None
    scale = np.float32(found.scale[0])
    steps = relay.multiply(x, const(np.float32(1) / scale)) if inverse else relay.divide(x, const(scale))
    low, high = RANGES[result.dtype]
    moved = relay.add(rounded_away(steps), const(float(found.zero_point[0]), "float32"))
    return relay.cast(relay.clip(moved, low, high), result.dtype)


def looked_up(x: RelayExpr, table: np.ndarray, dtype: str) -> RelayExpr:
    """Look up each element, an integer of type ``dtype``, in a table whose first entry is for the smallest integer."""
    places = relay.cast(x, "int32")
    low = RANGES[dtype][0]
    places = relay.subtract(places, const(low, "int32")) if low else places
    return relay.take(Constant(table), places, mode="clip")


__all__ = [
    "RANGES", "round_away", "centered", "finished", "fixed_point", "limits", "looked_up", "real_array", "rescaled",
    "rescaled_wide", "rounded_away", "scaled", "to_integers", "to_real",
]  # fmt: skip
