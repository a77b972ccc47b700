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


def _step(ctx: Context, x: RelayExpr, low: RelayExpr, high: RelayExpr) -> RelayExpr:
    """The step of integers of 8 bits, with or without a sign."""
    levels = _STEPS.get(ctx.dtype(x))
    if levels is None:
        raise TVMError(f"integers of 8 bits are wanted, got {ctx.dtype(x)}")
    return _scalar(relay.divide(relay.maximum(relay.abs(low), relay.abs(high)), const(levels)))


def _real(ctx: Context, x: RelayExpr, low: RelayExpr, high: RelayExpr) -> RelayExpr:
    """Integers of 8 bits as real numbers."""
    return ctx.made(relay.multiply(relay.cast(x, "float32"), _step(ctx, x, low, high)))


def _rounded_weights(ctx: Context, weight: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
    """Weights as whole numbers of steps of the greatest one, for each filter, and how many steps one is."""
    greatest = relay.max(relay.abs(weight), axis=list(range(1, ctx.rank(weight))), keepdims=True)
    greatest = ctx.made(relay.where(relay.equal(greatest, const(0.0)), const(1.0), greatest))
    scale = ctx.made(relay.divide(const(_STEPS["int8"]), greatest))
    whole = relay.clip(relay.round(relay.multiply(weight, scale)), -128.0, 127.0)
    return ctx.made(relay.divide(whole, scale)), scale


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


class _Filters:
    """The weights and the bias of a quantized convolution, which oneDNN rounds to integers with the normalization
    behind it already in them: its factor decides the sign of the weights, and there is one more below zero."""

    def __init__(self, ctx: Context, graph: Graph, values: list[RelayExpr]):
        self.ctx, self.graph, self.values = ctx, graph, values
        inner = {node.op: node for node in graph.nodes}
        self.conv, self.norm = inner.get("Convolution"), inner.get("BatchNorm")
        if self.conv is None or len(self.conv.inputs) < 2 or self.norm is not None and len(self.norm.inputs) != 5:
            raise TVMError("a convolution with its weights is wanted inside, and a normalization with its four")

    def place(self, node, i: int) -> int:
        """Where the values have an argument of a node inside."""
        if node.inputs[i].node not in self.graph.arguments:
            raise TVMError(f"the input {i} of {node.op} inside must be one of the node's own")
        return self.graph.arguments.index(node.inputs[i].node)

    def factor(self) -> RelayExpr:
        """What the normalization multiplies each filter by, in the precision that MXNet computes it in."""
        assert self.norm is not None
        gamma, variance = (self.values[self.place(self.norm, i)] for i in (1, 4))
        if self.norm.attrs.get("fix_gamma", "True") not in ("False", "0"):
            gamma = relay.ones_like(gamma)
        least = const(float(self.norm.attrs.get("eps", "1e-3")), "float64")
        deviation = relay.sqrt(relay.add(relay.cast(variance, "float64"), least))
        return self.ctx.made(relay.cast(relay.divide(relay.cast(gamma, "float64"), deviation), "float32"))

    def round(self, step: RelayExpr) -> None:
        """Make the values whole numbers of steps; ``step`` is that of the data."""
        ctx, weights = self.ctx, self.place(self.conv, 1)
        weight = self.values[weights]
        bias = self.place(self.conv, 2) if len(self.conv.inputs) > 2 else None
        if self.norm is None:
            self.values[weights], scale = _rounded_weights(ctx, weight)
            if bias is not None:
                self.values[bias] = self.whole(self.values[bias], scale, step)
            return
        factor = self.factor()
        # A filter that is multiplied by nothing gives nothing, whatever its integers are.
        column = relay.where(relay.equal(factor, const(0.0)), const(1.0), factor)
        column = ctx.made(relay.reshape(column, (-1, *[1] * (ctx.rank(weight) - 1))))
        rounded, scale = _rounded_weights(ctx, ctx.made(relay.multiply(weight, column)))
        self.values[weights] = ctx.made(relay.divide(rounded, column))
        beta, mean = (self.place(self.norm, i) for i in (2, 3))
        before = relay.negative(self.values[mean])
        if bias is not None:
            before = relay.add(self.values[bias], before)
        added = self.whole(relay.add(self.values[beta], relay.multiply(factor, before)), scale, step)
        # The sum of all that is added stands in place of the last addend, the others cancel each other.
        self.values[beta] = added
        self.values[mean] = self.values[bias] if bias is not None else relay.zeros_like(self.values[mean])

    def whole(self, bias: RelayExpr, scale: RelayExpr, step: RelayExpr) -> RelayExpr:
        steps = relay.divide(relay.reshape(scale, (-1,)), step)
        return self.ctx.made(relay.divide(relay.round(relay.multiply(bias, steps)), steps))


def _check_groups(graph: Graph) -> None:
    """Steps belong to filters. MXNet gives oneDNN one for each group, which needs groups of one filter."""
    for node in graph.nodes:
        groups = node.attrs.get("num_group", "1")
        if node.op == "Convolution" and groups not in ("1", node.attrs.get("num_filter")):
            raise TVMError("a quantized convolution with groups of several filters is not supported, nor by MXNet")


@op("_sg_mkldnn_conv", _FUSED + _CONV)
def fused_conv(ctx, inputs, attrs):
    """A convolution with what follows: normalization, an activation, a sum, an activation of the sum."""
    graph = _graph(ctx)
    if attrs.dedup_sum:
        raise TVMError("the attribute dedup_sum=True is not supported")
    if not attrs.quantized:
        return called(ctx, graph, inputs)
    _check_groups(graph)
    count = len(graph.arguments)
    if len(inputs) != count + (4 if attrs.with_sum else 2):
        raise TVMError(f"{count} values and their ranges are wanted, there are {len(inputs)} inputs")
    values, ranges = list(inputs[:count]), inputs[count:]
    _Filters(ctx, graph, values).round(_step(ctx, values[0], *ranges[:2]))
    values[0] = _real(ctx, values[0], *ranges[:2])
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
        values[1], _ = _rounded_weights(ctx, values[1])
    positive = attrs.with_eltwise and _is_positive(graph, ("square", "sqrt"))
    return _given_out(ctx, called(ctx, graph, values)[0], attrs, positive)
