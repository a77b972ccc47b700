"""Converters of onnxruntime's contrib operators, which exporters and optimizers write into models."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common import run_time
from ..common.matmul import numpy_matmul
from .elementwise import gelu_erf, gelu_tanh
from .nn_ops import conv, gemm
from .norm_ops import centered
from .table import CONVERTERS, argument, op

_ACTIVATIONS = {"Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Clip"}


def _activated(ctx, x, attrs):
    name = attrs.get("activation", "")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise TVMError(f"activation '{name}' is not supported")
    given = attrs.get("activation_params", [])
    if name == "Clip":
        return relay.clip(x, given[0], given[1])
    names = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"]}.get(name, [])
    convert = CONVERTERS.find(name, 13)
    assert convert is not None
    return convert(ctx, [x], dict(zip(names, given)))


@op("com.microsoft.FusedConv")
def fused_conv(ctx, inputs, attrs):
    out = conv(ctx, inputs[:3], attrs)
    if argument(inputs, 3) is not None:
        out = relay.add(out, inputs[3])
    return _activated(ctx, out, attrs)


@op("com.microsoft.FusedGemm")
def fused_gemm(ctx, inputs, attrs):
    renamed = {k.replace("activation_alpha", "alpha_"): v for k, v in attrs.items()}
    return _activated(ctx, gemm(ctx, inputs, renamed), attrs)


@op("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_matmul(ctx, inputs, attrs):
    a, b = inputs
    if attrs.get("transA", 0):
        a = relay.transpose(a, [*range(ctx.rank(a) - 2), ctx.rank(a) - 1, ctx.rank(a) - 2])
    if attrs.get("transB", 0):
        b = relay.transpose(b, [*range(ctx.rank(b) - 2), ctx.rank(b) - 1, ctx.rank(b) - 2])
    out = numpy_matmul(ctx, a, b)
    alpha = attrs.get("alpha", 1.0)
    return out if alpha == 1.0 else relay.multiply(out, ctx.like(alpha, out))


@op("com.microsoft.Gelu")
def gelu(ctx, inputs, attrs):
    return gelu_erf(ctx, inputs[0])


@op("com.microsoft.BiasGelu")
def bias_gelu(ctx, inputs, attrs):
    return gelu_erf(ctx, relay.add(inputs[0], inputs[1]))


@op("com.microsoft.FastGelu")
def fast_gelu(ctx, inputs, attrs):
    x = inputs[0] if argument(inputs, 1) is None else relay.add(inputs[0], inputs[1])
    return gelu_tanh(ctx, x)


@op("com.microsoft.QuickGelu")
def quick_gelu(ctx, inputs, attrs):
    x = inputs[0]
    return relay.multiply(x, relay.sigmoid(relay.multiply(x, ctx.like(attrs.get("alpha", 1.702), x))))


def _layer(ctx, x, gamma, beta, epsilon: float):
    out = relay.multiply(centered(ctx, x, (ctx.rank(x) - 1,), epsilon), gamma)
    return out if beta is None else relay.add(out, beta)


@op("com.microsoft.SkipLayerNormalization")
def skip_layer_normalization(ctx, inputs, attrs):
    x = relay.add(inputs[0], inputs[1])
    if argument(inputs, 4) is not None:
        x = relay.add(x, inputs[4])
    out = _layer(ctx, x, inputs[2], argument(inputs, 3), attrs.get("epsilon", 1e-12))
    return [out, None, None, x] if ctx.wants(3) else out


@op("com.microsoft.EmbedLayerNormalization")
def embed_layer_normalization(ctx, inputs, attrs):
    ids, segments, words, places, kinds, gamma, beta = inputs[:7]
    batch, length = ctx.shape(ids)
    x = relay.take(words, ids, 0)
    if isinstance(length, int):
        row = relay.strided_slice(places, [0], [length], [1], [0])
    else:
        row = relay.take(places, run_time.counted(ctx, run_time.size_of(ctx, ids, 1)), 0)
    x = relay.add(x, relay.expand_dims(row, 0))
    if segments is not None and kinds is not None:
        x = relay.add(x, relay.take(kinds, segments, 0))
    mask = argument(inputs, 7)
    if mask is not None:
        total = relay.sum(relay.cast(mask, "int32"), axis=1)
    elif isinstance(batch, int):
        total = relay.zeros((batch,), "int32")
    else:
        total = run_time.filled(ctx, const(0, "int32"), run_time.joined(ctx, [run_time.size_of(ctx, ids, 0)]))
    return [_layer(ctx, x, gamma, beta, attrs.get("epsilon", 1e-12)), total, x]
