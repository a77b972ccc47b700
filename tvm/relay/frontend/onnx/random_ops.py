"""Converters of random number generators.

A model without a seed gets one when it is imported: all runs of a compiled program produce the same numbers, and
importing the model again produces others.
"""

from __future__ import annotations

import secrets
import struct

from ....error import TVMError
from ... import op as relay
from .load import onnx_dtype
from .table import argument, op


def _key(attrs):
    seed = attrs.get("seed")
    if seed is None:
        return relay.random.threefry_key(secrets.randbits(63))
    # The seed is a float; its bit pattern is the key.
    return relay.random.threefry_key(struct.unpack("<I", struct.pack("<f", seed))[0])


def _drawn(attrs, shape, dtype: str, normal: bool):
    # float16 numbers are drawn as float32: 16-bit random words give too few distinct values.
    wide = dtype if dtype in ("float32", "float64") else "float32"
    if normal:
        _, out = relay.random.normal(_key(attrs), shape, wide, attrs.get("mean", 0.0), attrs.get("scale", 1.0))
    else:
        _, out = relay.random.uniform(_key(attrs), shape, wide, attrs.get("low", 0.0), attrs.get("high", 1.0))
    return out if wide == dtype else relay.cast(out, dtype)


@op("RandomNormal", "RandomUniform")
def random(ctx, inputs, attrs):
    return _drawn(attrs, attrs["shape"], onnx_dtype(attrs.get("dtype", 1)), ctx.node.op_type == "RandomNormal")


@op("RandomNormalLike", "RandomUniformLike")
def random_like(ctx, inputs, attrs):
    dtype = onnx_dtype(attrs["dtype"]) if attrs.get("dtype") else ctx.dtype(inputs[0])
    return _drawn(attrs, ctx.known_shape(inputs[0]), dtype, ctx.node.op_type == "RandomNormalLike")


@op("Bernoulli")
def bernoulli(ctx, inputs, attrs):
    x = inputs[0]
    dtype = onnx_dtype(attrs["dtype"]) if attrs.get("dtype") else ctx.dtype(x)
    drawn = _drawn(attrs, ctx.known_shape(x), ctx.dtype(x), False)
    return relay.cast(relay.less(drawn, x), dtype)


@op("Dropout")
def dropout(ctx, inputs, attrs):
    """Drop random elements in training mode, and none otherwise. The random numbers differ from other
    implementations.
    """
    x, training = inputs[0], argument(inputs, 2)
    known = ctx.value(training)
    if training is None or known is not None and not known.item():
        dtype = "bool" if ctx.version >= 10 else ctx.dtype(x)
        return [x, relay.cast(relay.ones_like(x), dtype)] if ctx.wants(1) else x
    ratio = ctx.like(0.5, x) if argument(inputs, 1) is None else relay.cast(inputs[1], ctx.dtype(x))
    kept = relay.greater_equal(_drawn(attrs, ctx.known_shape(x), ctx.dtype(x), False), ratio)
    larger = relay.divide(x, relay.subtract(ctx.like(1, x), ratio))
    out = relay.where(kept, larger, relay.zeros_like(x))
    if known is None:
        out = relay.where(training, out, x)
        kept = relay.logical_or(kept, relay.logical_not(training))
    return [out, kept]


@op("Multinomial")
def multinomial(ctx, inputs, attrs):
    """Draw classes by unnormalized log-probabilities, for each row."""
    x = inputs[0]
    if ctx.rank(x) != 2:
        raise TVMError(f"the input must have 2 dimensions, got {ctx.rank(x)}")
    weights = relay.nn.softmax(relay.cast(x, "float32"), 1)
    _, out = relay.random.multinomial(_key(attrs), weights, attrs.get("sample_size", 1))
    return relay.cast(out, onnx_dtype(attrs.get("dtype", 6)))
