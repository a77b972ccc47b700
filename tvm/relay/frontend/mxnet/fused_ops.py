"""Converters of what MXNet makes of several operators for oneDNN: a node has the operators that it stands for inside.

Of quantized ones the graph inside is computed in real numbers, with data and weights that are integers times a step,
and the result is rounded to integers once, as oneDNN does it.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .control import called
from .graph import Graph
from .make_ops import array_of
from .table import Context, op

_FUSED = "quantized:bool=False min_calib_range:float?=None max_calib_range:float?=None enable_float_output:bool=False "
_CONV = "with_bn:bool=False with_act:bool=False with_sum:bool=False with_postsum_act:bool=False dedup_sum:bool=False"
_DENSE = "with_eltwise:bool=False channel_wise_quantize:bool?=None shifted_output:bool?=None"
# The steps of a range. The half one more makes the greatest numbers be cut off.
_STEPS = {"int8": 127.5, "uint8": 255.5}
# Last operators whose results are never below zero, so that they become integers without a sign.
_POSITIVE = {"Activation": ("relu", "sigmoid", "softrelu"), "LeakyReLU": ("leaky",)}


def _graph(ctx: Context) -> Graph:
    if len(ctx.node.graphs) != 1:
        raise TVMError(f"one graph is wanted inside, there are {len(ctx.node.graphs)}")
    return ctx.node.graphs[0]


def _scalar(e: RelayExpr) -> RelayExpr:
    return relay.reshape(e, ())


def _real(ctx: Context, x: RelayExpr, low: RelayExpr, high: RelayExpr) -> RelayExpr:
    """Integers of 8 bits, with or without a sign, as real numbers."""
    levels = _STEPS.get(ctx.dtype(x))
    if levels is None:
        raise TVMError(f"integers of 8 bits are wanted, got {ctx.dtype(x)}")
    step = relay.divide(relay.maximum(relay.abs(low), relay.abs(high)), const(levels))
    return ctx.made(relay.multiply(relay.cast(x, "float32"), _scalar(step)))


def _rounded_weights(ctx: Context, weight: RelayExpr, factor: RelayExpr | None = None) -> RelayExpr:
    """Weights as whole numbers of steps of the greatest one, for each filter. A factor of each filter, which a
    normalization brings, changes the step and the sign of the integers: there is one more below zero."""
    if factor is not None:
        below = relay.less(factor, const(0.0))
        sign = ctx.made(relay.reshape(relay.where(below, const(-1.0), const(1.0)), (-1, *[1] * (ctx.rank(weight) - 1))))
        return relay.multiply(_rounded_weights(ctx, ctx.made(relay.multiply(weight, sign))), sign)
    greatest = relay.max(relay.abs(weight), axis=list(range(1, ctx.rank(weight))), keepdims=True)
    greatest = ctx.made(relay.where(relay.equal(greatest, const(0.0)), const(1.0), greatest))
    scale = ctx.made(relay.divide(const(_STEPS["int8"]), greatest))
    whole = relay.clip(relay.round(relay.multiply(weight, scale)), -128.0, 127.0)
    return ctx.made(relay.divide(whole, scale))


def _is_positive(graph: Graph, operators: tuple[str, ...]) -> bool:
    node = graph.nodes[graph.heads[0].node]
    if node.op == "clip":
        return float(node.attrs.get("a_min", "-1")) >= 0
    return node.op in operators or node.attrs.get("act_type") in _POSITIVE.get(node.op, ())


def _given_out(ctx: Context, out: RelayExpr, attrs, positive: bool):
    """Real numbers, or integers with the range that was found by calibration."""
    if attrs.enable_float_output:
        return out
    low, high = attrs.min_calib_range, attrs.max_calib_range
    if low is None or high is None:
        raise TVMError("a quantized operator that was not calibrated is not supported")
    greatest, kind = max(abs(low), abs(high)), "uint8" if positive else "int8"
    if not 0 < greatest < np.inf:
        raise TVMError(f"the range from {low} to {high} is none of real numbers")
    bounds = (0.0, 255.0) if positive else (-128.0, 127.0)
    whole = relay.clip(relay.round(relay.multiply(out, const(_STEPS[kind] / greatest))), *bounds)
    return [relay.cast(whole, kind), array_of([low], "float32"), array_of([high], "float32")]


def _gamma(graph: Graph, values: list[RelayExpr]) -> RelayExpr | None:
    """The factors that a normalization inside has."""
    for node in graph.nodes:
        if node.op == "BatchNorm" and len(node.inputs) > 1 and node.attrs.get("fix_gamma", "True") in ("False", "0"):
            place = node.inputs[1].node
            return values[graph.arguments.index(place)] if place in graph.arguments else None
    return None


@op("_sg_mkldnn_conv", _FUSED + _CONV)
def fused_conv(ctx, inputs, attrs):
    """A convolution with what follows: normalization, an activation, a sum, an activation of the sum."""
    graph = _graph(ctx)
    if attrs.dedup_sum:
        raise TVMError("the attribute dedup_sum=True is not supported")
    if not attrs.quantized:
        return called(ctx, graph, inputs)
    if any(node.op == "Convolution" and node.attrs.get("num_group", "1") != "1" for node in graph.nodes):
        raise TVMError("a quantized convolution of groups is not supported")
    count = len(graph.arguments)
    if len(inputs) != count + (4 if attrs.with_sum else 2):
        raise TVMError(f"{count} values and their ranges are wanted, there are {len(inputs)} inputs")
    values, ranges = list(inputs[:count]), inputs[count:]
    values[0] = _real(ctx, values[0], *ranges[:2])
    values[1] = _rounded_weights(ctx, values[1], _gamma(graph, values))
    if attrs.with_sum:
        values[-1] = _real(ctx, values[-1], *ranges[2:])
    act = attrs.with_postsum_act or attrs.with_act and not attrs.with_sum
    return _given_out(ctx, called(ctx, graph, values)[0], attrs, act and _is_positive(graph, ()))


@op("_sg_mkldnn_fully_connected", _FUSED + _DENSE)
def fused_dense(ctx, inputs, attrs):
    """A dense layer with a function of its elements; the weights and the bias of a quantized one are integers with
    ranges of their own, unless each row of weights has a step."""
    graph = _graph(ctx)
    if attrs.shifted_output:
        raise TVMError("the attribute shifted_output=True is not supported")
    if not attrs.quantized:
        return called(ctx, graph, inputs)
    count = len(graph.arguments)
    rows = 1 if attrs.channel_wise_quantize else count
    if len(inputs) != count + 2 * rows:
        raise TVMError(f"{count} values and their ranges are wanted, there are {len(inputs)} inputs")
    values, ranges = list(inputs[:count]), inputs[count:]
    for i in range(rows):
        values[i] = _real(ctx, values[i], *ranges[2 * i : 2 * i + 2])
    if attrs.channel_wise_quantize:
        values[1] = _rounded_weights(ctx, values[1])
    positive = attrs.with_eltwise and _is_positive(graph, ("square", "sqrt"))
    return _given_out(ctx, called(ctx, graph, values)[0], attrs, positive)
