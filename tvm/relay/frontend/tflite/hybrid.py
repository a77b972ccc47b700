"""Products of real data and integer weights. LiteRT brings the data of each run into 8 bits, by its own least and
greatest number, and multiplies integers. Here the same integers are multiplied as floats; the sums of most kernels are
exact all the same."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .quantization import rounded_away
from .table import INTEGERS, Context


def is_hybrid(ctx: Context, inputs: list, weight: int = 1) -> bool:
    """Whether real data meets constant integers with a scale."""
    tensor = ctx.tensor(weight)
    whole = tensor.type in INTEGERS or tensor.type == "int4"
    return whole and tensor.quantization is not None and tensor.data is not None and ctx.dtype(inputs[0]) == "float32"


def symmetric(x: RelayExpr, axes: tuple[int, ...]) -> tuple[RelayExpr, RelayExpr]:
    """Data as integers from -127 to 127, and their scale, one for all elements along ``axes``."""
    most = relay.max(relay.abs(x), axis=axes, keepdims=True)
    # Data that is zero everywhere stays so with every scale.
    most = relay.where(relay.equal(most, const(0.0)), const(1.0), most)
    steps = rounded_away(relay.multiply(x, relay.divide(const(127.0), most)))
    return relay.clip(steps, -127.0, 127.0), relay.divide(most, const(127.0))


def asymmetric(x: RelayExpr, axes: tuple[int, ...]) -> tuple[RelayExpr, RelayExpr]:
    """Data as integers of 8 bits less the one that stands for zero, and their scale."""
    zero = const(0.0)
    low = relay.minimum(relay.min(x, axis=axes, keepdims=True), zero)
    high = relay.maximum(relay.max(x, axis=axes, keepdims=True), zero)
    span = relay.subtract(high, low)
    span = relay.where(relay.equal(span, zero), const(255.0), span)
    scale = relay.divide(span, const(255.0))
    # The place of zero is counted from the end that is nearer to it.
    below, above = relay.divide(low, scale), relay.divide(high, scale)
    from_low = relay.less(relay.subtract(const(128.0), below), relay.add(const(127.0), above))
    place = relay.where(from_low, relay.subtract(const(-128.0), below), relay.subtract(const(127.0), above))
    place = relay.clip(rounded_away(place), -128.0, 127.0)
    steps = rounded_away(relay.add(place, relay.multiply(x, relay.divide(const(1.0), scale))))
    return relay.subtract(relay.clip(steps, -128.0, 127.0), place), scale


def whole_weight(ctx: Context, inputs: list, weight: int = 1) -> np.ndarray:
    """The integers of the weights less their zero points, as floats."""
    found = ctx.tensor(weight).quantization
    assert found is not None
    array = ctx.array(inputs[weight], "the weights")
    shape = [-1 if i == found.axis else 1 for i in range(array.ndim)] if not found.is_single else ()
    return (array.astype("int32") - found.zero_point.reshape(shape)).astype("float32")


def weight_scale(ctx: Context, weight: int = 1) -> RelayExpr:
    """The scale of the weights: one number, or one for each place of the result's last axis."""
    found = ctx.tensor(weight).quantization
    assert found is not None
    return Constant(found.scale.reshape(() if found.is_single else -1))


__all__ = ["asymmetric", "is_hybrid", "symmetric", "weight_scale", "whole_weight"]
