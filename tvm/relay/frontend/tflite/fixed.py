"""Reciprocal square roots in fixed-point arithmetic at run time, as LiteRT's kernels compute them."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import Constant, RelayExpr, const


def _int(value: int) -> RelayExpr:
    return const(value, "int64")


def bit_length(x: RelayExpr) -> RelayExpr:
    """Return the bit lengths of positive int32 numbers, whose last axis has size 1."""
    powers = Constant((1 << np.arange(31)).astype("int32"))
    return relay.sum(relay.cast(relay.greater_equal(x, powers), "int32"), axis=-1, keepdims=True)


def _high(a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """Return the high half of the doubled product, with ties rounded up."""
    return relay.right_shift(relay.add(relay.multiply(a, b), _int(1 << 30)), _int(31))


def _saturating_shift(x: RelayExpr, bits: int) -> RelayExpr:
    """Multiply by a power of two, saturated to int32."""
    least, most = _int(-(1 << 31)), _int((1 << 31) - 1)
    return relay.maximum(relay.minimum(relay.left_shift(x, _int(bits)), most), least)


def inverse_root(value: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
    """Return (m, s) with 1 / sqrt(value) = m / 2^31 / 2^s for int32 numbers, by five Newton steps in fixed point.

    The last axis of the numbers has size 1; numbers below 1 are treated as 1.
    """
    bits = relay.cast(bit_length(value), "int64")
    value = relay.cast(value, "int64")
    # Shift by an even number of bits, so that the value is between 2^27 and 2^29.
    down = relay.maximum(relay.right_shift(relay.subtract(bits, _int(28)), _int(1)), _int(0))
    left = relay.subtract(bits, relay.multiply(down, _int(2)))
    up = relay.subtract(relay.right_shift(relay.subtract(_int(31), left), _int(1)), _int(1))
    right = relay.subtract(relay.add(_int(11), down), up)
    twice = [relay.multiply(v, _int(2)) for v in (down, up)]
    fine = relay.left_shift(relay.right_shift(value, twice[0]), twice[1])
    half = relay.right_shift(relay.add(relay.right_shift(fine, _int(1)), _int(1)), _int(1))
    x = _int(1 << 28)
    for _ in range(5):
        cube = _saturating_shift(_high(_high(x, x), x), 6)
        x = _saturating_shift(relay.subtract(_high(_int((1 << 28) + (1 << 27)), x), _high(half, cube)), 3)
    x = _high(x, _int(1518500250))
    x = relay.left_shift(x, relay.maximum(relay.negative(right), _int(0)))
    one = relay.less_equal(value, _int(1))
    zero = _int(0)
    return relay.where(one, _int((1 << 31) - 1), x), relay.where(one, zero, relay.maximum(right, zero))


def times_root(x: RelayExpr, value: RelayExpr, shift: int) -> RelayExpr:
    """Return x / sqrt(value) * 2^shift for int32 numbers, rounded twice as LiteRT's kernels do."""
    factor, right = inverse_root(value)
    left = relay.subtract(_int(shift), right)
    zero, one = _int(0), _int(1)
    high = _high(relay.left_shift(relay.cast(x, "int64"), relay.maximum(left, zero)), factor)
    down = relay.maximum(relay.negative(left), zero)
    raised = relay.add(relay.abs(high), relay.right_shift(relay.left_shift(one, down), one))
    return relay.cast(relay.multiply(relay.sign(high), relay.right_shift(raised, down)), "int32")


__all__ = ["bit_length", "inverse_root", "times_root"]
