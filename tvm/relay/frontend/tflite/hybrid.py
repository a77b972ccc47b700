"""Matmuls and convolutions of float activations with integer weights (dynamic-range quantization).

LiteRT quantizes the activations of each run to 8 bits, by their minimum and maximum, and multiplies integers. Here the
same integers are multiplied as floats; the sums of most kernels are exact nevertheless.
"""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .quantization import rounded_away
from .table import INTEGERS, Context

# How activations are quantized: as LiteRT's default delegate XNNPACK does, as its built-in kernels do, or not at all.
HYBRID = ("litert", "builtin", "float")


def is_hybrid(ctx: Context, inputs: list, weight: int = 1) -> bool:
    """Return whether float activations are quantized: the weights must be constant integers with a scale."""
    if ctx.importer.hybrid == "float":
        return False
    tensor = ctx.tensor(weight)
    whole = tensor.type in INTEGERS or tensor.type == "int4"
    return whole and tensor.quantization is not None and tensor.data is not None and ctx.dtype(inputs[0]) == "float32"


def activations(
    ctx: Context, x: RelayExpr, axes: tuple[int, ...], is_symmetric: bool, weight: int = 1
) -> tuple[RelayExpr, RelayExpr]:
    """Return quantized activations and their scale, one for all elements along ``axes``.

    The delegate XNNPACK quantizes asymmetrically where the built-in kernels quantize symmetrically; it supports only
    weights with zero point 0.
    """
    tensor = ctx.tensor(weight)
    assert tensor.quantization is not None
    is_delegated = tensor.type in ("int8", "int4") and not tensor.quantization.zero_point.any()
    is_asymmetric = not is_symmetric or is_delegated and ctx.importer.hybrid == "litert"
    return (asymmetric if is_asymmetric else symmetric)(x, axes)


def symmetric(x: RelayExpr, axes: tuple[int, ...]) -> tuple[RelayExpr, RelayExpr]:
    """Return data quantized to integers from -127 to 127, and the scale, one for all elements along ``axes``."""
    most = relay.max(relay.abs(x), axis=axes, keepdims=True)
    # Data that is zero everywhere is exact with any scale.
    most = relay.where(relay.equal(most, const(0.0)), const(1.0), most)
    steps = rounded_away(relay.multiply(x, relay.divide(const(127.0), most)))
    return relay.clip(steps, -127.0, 127.0), relay.divide(most, const(127.0))


def asymmetric(x: RelayExpr, axes: tuple[int, ...]) -> tuple[RelayExpr, RelayExpr]:
    """Return data quantized to 8 bits minus the zero point, and the scale."""
    zero = const(0.0)
    low = relay.minimum(relay.min(x, axis=axes, keepdims=True), zero)
    high = relay.maximum(relay.max(x, axis=axes, keepdims=True), zero)
    span = relay.subtract(high, low)
    span = relay.where(relay.equal(span, zero), const(255.0), span)
    scale = relay.divide(span, const(255.0))
    # Compute the zero point from the bound that is nearer to zero, as XNNPACK does.
    below, above = relay.divide(low, scale), relay.divide(high, scale)
    from_low = relay.less(relay.subtract(const(128.0), below), relay.add(const(127.0), above))
    place = relay.where(from_low, relay.subtract(const(-128.0), below), relay.subtract(const(127.0), above))
    place = relay.clip(rounded_away(place), -128.0, 127.0)
    steps = rounded_away(relay.add(place, relay.multiply(x, relay.divide(const(1.0), scale))))
    return relay.subtract(relay.clip(steps, -128.0, 127.0), place), scale


def whole_weight(ctx: Context, inputs: list, weight: int = 1) -> np.ndarray:
    """Return the integers of the weights minus their zero points, as floats."""
    found = ctx.tensor(weight).quantization
    assert found is not None
    array = ctx.array(inputs[weight], "the weights")
    shape = [-1 if i == found.axis else 1 for i in range(array.ndim)] if not found.is_single else ()
    return (array.astype("int32") - found.zero_point.reshape(shape)).astype("float32")


def weight_scale(ctx: Context, weight: int = 1) -> RelayExpr:
    """Return the scale of the weights: a scalar, or one per index of the output's last axis."""
    found = ctx.tensor(weight).quantization
    assert found is not None
    return Constant(found.scale.reshape(() if found.is_single else -1))


__all__ = ["HYBRID", "activations", "asymmetric", "is_hybrid", "symmetric", "weight_scale", "whole_weight"]
