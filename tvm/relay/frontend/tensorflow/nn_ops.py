"""Converters of matmuls, normalization and activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from ..common import tensorflow_ops as alike
from ..common.matmul import numpy_matmul
from .table import CONVERTERS, Context, op


def _swapped(ctx: Context, x: RelayExpr) -> RelayExpr:
    rank = ctx.rank(x)
    return ctx.made(relay.transpose(x, (*range(rank - 2), rank - 1, rank - 2)))


@op("MatMul")
def matmul(ctx, inputs, attrs):
    a, b = inputs[:2]
    flip_a, flip_b = (bool(attrs.get(f"transpose_{k}", False)) for k in "ab")
    if ctx.rank(a) != 2 or ctx.rank(b) != 2:
        raise TVMError(f"the operands must be matrices, got tensors with {ctx.rank(a)} and {ctx.rank(b)} dimensions")
    if not ctx.importer.config.get("use_dense", True):
        return relay.nn.matmul(a, b, transpose_a=flip_a, transpose_b=flip_b)
    a = relay.transpose(a, (1, 0)) if flip_a else a
    return relay.nn.dense(a, b if flip_b else relay.transpose(b, (1, 0)))


@op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(ctx, inputs, attrs):
    a, b = (_swapped(ctx, x) if attrs.get(f"adj_{k}", False) else x for x, k in zip(inputs, "xy"))
    if "Tout" in attrs and attrs["Tout"] != ctx.dtype(a):
        raise TVMError(f"a matmul of {ctx.dtype(a)} with {attrs['Tout']} output is not supported")
    return numpy_matmul(ctx, a, b)


@op("Einsum")
def einsum(ctx, inputs, attrs):
    equation = str(attrs.get("equation", "")).replace(" ", "")
    found = _as_product(ctx, inputs, equation)
    return relay.einsum(inputs, equation) if found is None else found


def _as_product(ctx: Context, inputs: list, equation: str) -> RelayExpr | None:
    """Return an einsum of two tensors as one batched matmul; None if that is not possible.

    Indices of both operands that are in the output are batch axes, indices only of both operands are reduction axes,
    and the others are rows and columns. Each group is merged into one axis.
    """
    left, arrow, out = equation.partition("->")
    sides = left.split(",")
    if not arrow or len(sides) != 2 or "." in equation or any(len(set(s)) < len(s) for s in (*sides, out)):
        return None
    a, b = sides
    stack = [c for c in out if c in a and c in b]
    summed = [c for c in a if c in b and c not in out]
    rows, columns = ([c for c in s if c not in o] for s, o in ((a, b), (b, a)))
    if set(rows) | set(columns) | set(stack) != set(out) or not summed:
        return None
    sizes: dict[str, Any] = {c: d for s, x in zip(sides, inputs) for c, d in zip(s, ctx.shape(x))}
    if len(a) != ctx.rank(inputs[0]) or len(b) != ctx.rank(inputs[1]):
        raise TVMError(f"the einsum equation {equation} does not match the dimensions of the inputs")
    if sum(not isinstance(d, int) for d in sizes.values()) > 1:
        return None
    known = {c: d if isinstance(d, int) else -1 for c, d in sizes.items()}

    def group(letters: list) -> int:
        parts = [known[c] for c in letters]
        return -1 if -1 in parts else int(np.prod(parts))

    def shaped(x: RelayExpr, own: str, *groups: list) -> RelayExpr:
        order = [own.index(c) for g in groups for c in g]
        x = x if order == list(range(len(order))) else relay.transpose(x, order)
        return ctx.made(relay.reshape(x, [group(g) for g in groups]))

    if not stack:
        made = numpy_matmul(ctx, shaped(inputs[0], a, rows, summed), shaped(inputs[1], b, summed, columns))
    else:
        made = numpy_matmul(
            ctx, shaped(inputs[0], a, stack, rows, summed), shaped(inputs[1], b, stack, summed, columns)
        )
    letters = [*stack, *rows, *columns]
    made = relay.reshape(made, [known[c] for c in letters]) if letters else relay.reshape(made, ())
    order = [letters.index(c) for c in out]
    return made if order == list(range(len(order))) else relay.transpose(made, order)


@op("BiasAdd", "BiasAddV1")
def bias_add(ctx, inputs, attrs):
    first = attrs.get("data_format", "NHWC").startswith("NC")
    return relay.nn.bias_add(inputs[0], inputs[1], axis=1 if first else ctx.rank(inputs[0]) - 1)


@op("Softmax")
def softmax(ctx, inputs, attrs):
    return relay.nn.softmax(inputs[0], axis=-1)


op("LogSoftmax")(alike.log_softmax)


@op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(ctx, inputs, attrs):
    """Normalize by the batch statistics in training mode; the other outputs are used only by the gradient."""
    x, scale, offset, mean, variance = inputs[:5]
    layout = attrs.get("data_format", "NHWC")
    axis = 1 if layout.startswith("NC") else ctx.rank(x) - 1
    kind = ctx.dtype(x)
    wide = relay.cast(x, "float32") if kind != ctx.dtype(scale) else x
    if attrs.get("is_training", True):
        others = [i for i in range(ctx.rank(x)) if i != axis]
        mean, variance = relay.mean(wide, axis=others), relay.variance(wide, axis=others)
    out = relay.nn.batch_norm(wide, scale, offset, mean, variance, axis=axis, epsilon=attrs.get("epsilon", 1e-4))[0]
    out = relay.cast(out, kind) if kind != ctx.dtype(scale) else out
    return [out, mean, variance, mean, variance, Constant(np.zeros(0, "float32"))]


@op("LRN")
def lrn(ctx, inputs, attrs):
    radius = attrs.get("depth_radius", 5)
    if not 0 <= radius < 1 << 20:
        raise TVMError(f"depth_radius {radius} is not supported")
    size = 2 * radius + 1
    # Relay's operator divides alpha by the window size, unlike TensorFlow's.
    return relay.nn.lrn(
        inputs[0], size, 3, attrs.get("bias", 1.0), attrs.get("alpha", 1.0) * size, attrs.get("beta", 0.5)
    )


# -- fused operators, written by TensorFlow's graph optimizer ---------------------------------------------------------


def _followed(ctx: Context, out: RelayExpr, inputs: list, attrs) -> RelayExpr:
    """Apply the operators that a fused operator lists, in order."""
    more = list(inputs)
    for name in attrs.get("fused_ops", []):
        own: dict[str, Any] = {"data_format": attrs.get("data_format", "NHWC")}
        taken: list = []
        if name == "BiasAdd":
            taken, more = more[:1], more[1:]
        elif name == "FusedBatchNorm":
            taken, more = more[:4], more[4:]
            own.update(is_training=False, epsilon=attrs.get("epsilon", 1e-4))
        elif name == "Add":
            taken, more = more[:1], more[1:]
        elif name == "LeakyRelu":
            own["alpha"] = attrs.get("leakyrelu_alpha", 0.2)
        elif name not in ("Relu", "Relu6", "Elu", "Tanh", "Sigmoid"):
            raise TVMError(f"fusing with {name} is not supported")
        convert = CONVERTERS.find(name, 0)
        assert convert is not None, name
        got = convert(ctx, [ctx.made(out), *taken], own)
        out = got[0] if isinstance(got, list) else got
    return out


@op("_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedMatMul")
def fused(ctx, inputs, attrs):
    convert = CONVERTERS.find(ctx.node.op.removeprefix("_Fused"), 0)
    assert convert is not None
    return _followed(ctx, convert(ctx, inputs[:2], attrs), inputs[2:], attrs)
