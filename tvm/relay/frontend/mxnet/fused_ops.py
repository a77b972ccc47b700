"""Converters of the operators that MXNet fuses for oneDNN. A node contains the fused operators as a subgraph.

The subgraph of a quantized operator is computed in float32: data and weights are integers times a scale. The output is
rounded to integers once, as oneDNN does.
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
# The number of quantization steps of a range. The additional half step clips the largest values.
_STEPS = {"int8": 127.5, "uint8": 255.5}
# Final operators with non-negative outputs, which are quantized to uint8.
_NON_NEGATIVE = {"Activation": ("relu", "sigmoid", "softrelu"), "LeakyReLU": ("leaky",)}


def _graph(ctx: Context) -> Graph:
    if len(ctx.node.graphs) != 1:
        raise TVMError(f"expected 1 subgraph, got {len(ctx.node.graphs)}")
    return ctx.node.graphs[0]


def _scalar(e: RelayExpr) -> RelayExpr:
    return relay.reshape(e, ())


def _scale_of(ctx: Context, x: RelayExpr, low: RelayExpr, high: RelayExpr) -> RelayExpr:
    """Return the scale of int8 or uint8 data with the range ``low`` to ``high``."""
    levels = _STEPS.get(ctx.dtype(x))
    if levels is None:
        raise TVMError(f"expected int8 or uint8 data, got {ctx.dtype(x)}")
    return _scalar(relay.divide(relay.maximum(relay.abs(low), relay.abs(high)), const(levels)))


def _dequantize(ctx: Context, x: RelayExpr, low: RelayExpr, high: RelayExpr) -> RelayExpr:
    """Dequantize int8 or uint8 data to float32."""
    return ctx.made(relay.multiply(relay.cast(x, "float32"), _scale_of(ctx, x, low, high)))


def _quantize_weights(ctx: Context, weight: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
    """Round weights to int8 with one scale for each filter. Return the dequantized weights and the inverse scales."""
    greatest = relay.max(relay.abs(weight), axis=list(range(1, ctx.rank(weight))), keepdims=True)
    greatest = ctx.made(relay.where(relay.equal(greatest, const(0.0)), const(1.0), greatest))
    scale = ctx.made(relay.divide(const(_STEPS["int8"]), greatest))
    whole = relay.clip(relay.round(relay.multiply(weight, scale)), -128.0, 127.0)
    return ctx.made(relay.divide(whole, scale)), scale


def _is_positive(graph: Graph, operators: tuple[str, ...]) -> bool:
    node = graph.nodes[graph.heads[0].node]
    if node.op == "clip":
        return float(node.attrs.get("a_min", "-1")) >= 0
    return node.op in operators or node.attrs.get("act_type") in _NON_NEGATIVE.get(node.op, ())


def _output(ctx: Context, out: RelayExpr, attrs, positive: bool):
    """Return the float32 output, or quantize it with the calibrated range."""
    if attrs.enable_float_output:
        return out
    low, high = attrs.min_calib_range, attrs.max_calib_range
    if low is None or high is None:
        raise TVMError("a quantized operator without a calibrated range is not supported")
    greatest, kind = max(abs(low), abs(high)), "uint8" if positive else "int8"
    if not 0 < greatest < np.inf:
        raise TVMError(f"the calibrated range from {low} to {high} is not supported; it must be finite and not zero")
    bounds = (0.0, 255.0) if positive else (-128.0, 127.0)
    whole = relay.clip(relay.round(relay.multiply(out, const(_STEPS[kind] / greatest))), *bounds)
    return [relay.cast(whole, kind), array_of([low], "float32"), array_of([high], "float32")]


class _Filters:
    """The weights and the bias of a quantized convolution.

    oneDNN rounds them to int8 after folding the batch normalization into them. Its factor determines the sign of the
    weights, which matters because int8 has one more negative value.
    """

    def __init__(self, ctx: Context, graph: Graph, values: list[RelayExpr]):
        self.ctx, self.graph, self.values = ctx, graph, values
        inner = {node.op: node for node in graph.nodes}
        self.conv, self.norm = inner.get("Convolution"), inner.get("BatchNorm")
        if self.conv is None or len(self.conv.inputs) < 2 or self.norm is not None and len(self.norm.inputs) != 5:
            raise TVMError(
                "expected a convolution with weights inside the node, and a batch normalization with 4 "
                "parameters, if any"
            )

    def place(self, node, i: int) -> int:
        """Return the index of the value that is input ``i`` of an inner node."""
        if node.inputs[i].node not in self.graph.arguments:
            raise TVMError(f"input {i} of the inner {node.op} must be an input of the fused node")
        return self.graph.arguments.index(node.inputs[i].node)

    def factor(self) -> RelayExpr:
        """Return the batch normalization's factor for each filter, computed in MXNet's precision."""
        assert self.norm is not None
        gamma, variance = (self.values[self.place(self.norm, i)] for i in (1, 4))
        if self.norm.attrs.get("fix_gamma", "True") not in ("False", "0"):
            gamma = relay.ones_like(gamma)
        least = const(float(self.norm.attrs.get("eps", "1e-3")), "float64")
        deviation = relay.sqrt(relay.add(relay.cast(variance, "float64"), least))
        return self.ctx.made(relay.cast(relay.divide(relay.cast(gamma, "float64"), deviation), "float32"))

    def round(self, step: RelayExpr) -> None:
        """Round the values to multiples of their scales; ``step`` is the scale of the data."""
        ctx, weights = self.ctx, self.place(self.conv, 1)
        weight = self.values[weights]
        bias = self.place(self.conv, 2) if len(self.conv.inputs) > 2 else None
        if self.norm is None:
            self.values[weights], scale = _quantize_weights(ctx, weight)
            if bias is not None:
                self.values[bias] = self.whole(self.values[bias], scale, step)
            return
        factor = self.factor()
        # The output of a filter with factor 0 is 0 whatever its weights are, so divide by 1 instead.
        column = relay.where(relay.equal(factor, const(0.0)), const(1.0), factor)
        column = ctx.made(relay.reshape(column, (-1, *[1] * (ctx.rank(weight) - 1))))
        rounded, scale = _quantize_weights(ctx, ctx.made(relay.multiply(weight, column)))
        self.values[weights] = ctx.made(relay.divide(rounded, column))
        beta, mean = (self.place(self.norm, i) for i in (2, 3))
        before = relay.negative(self.values[mean])
        if bias is not None:
            before = relay.add(self.values[bias], before)
        added = self.whole(relay.add(self.values[beta], relay.multiply(factor, before)), scale, step)
        # Store the sum of all additive terms in beta, and choose mean and bias so that they cancel.
        self.values[beta] = added
        self.values[mean] = self.values[bias] if bias is not None else relay.zeros_like(self.values[mean])

    def whole(self, bias: RelayExpr, scale: RelayExpr, step: RelayExpr) -> RelayExpr:
        steps = relay.divide(relay.reshape(scale, (-1,)), step)
        return self.ctx.made(relay.divide(relay.round(relay.multiply(bias, steps)), steps))


def _check_groups(graph: Graph) -> None:
    """Check for grouped convolutions, which oneDNN quantizes with one scale for each group: groups must have one
    filter."""
    for node in graph.nodes:
        groups = node.attrs.get("num_group", "1")
        if node.op == "Convolution" and groups not in ("1", node.attrs.get("num_filter")):
            raise TVMError(
                "a quantized convolution with several filters per group is not supported (nor does MXNet support it)"
            )


@op("_sg_mkldnn_conv", _FUSED + _CONV)
def fused_conv(ctx, inputs, attrs):
    """Convert a convolution fused with batch normalization, an activation, a sum, or an activation of the sum."""
    graph = _graph(ctx)
    if attrs.dedup_sum:
        raise TVMError("the attribute dedup_sum=True is not supported")
    if not attrs.quantized:
        return called(ctx, graph, inputs)
    _check_groups(graph)
    count = len(graph.arguments)
    if len(inputs) != count + (4 if attrs.with_sum else 2):
        raise TVMError(f"expected {count} values and their ranges, got {len(inputs)} inputs")
    values, ranges = list(inputs[:count]), inputs[count:]
    _Filters(ctx, graph, values).round(_scale_of(ctx, values[0], *ranges[:2]))
    values[0] = _dequantize(ctx, values[0], *ranges[:2])
    if attrs.with_sum:
        values[-1] = _dequantize(ctx, values[-1], *ranges[2:])
    act = attrs.with_postsum_act or attrs.with_act and not attrs.with_sum
    return _output(ctx, called(ctx, graph, values)[0], attrs, act and _is_positive(graph, ()))


@op("_sg_mkldnn_fully_connected", _FUSED + _DENSE)
def fused_dense(ctx, inputs, attrs):
    """Convert a fully connected layer fused with an element-wise function.

    The weights and the bias of a quantized layer are integers with their own ranges, unless weights are quantized per
    channel.
    """
    graph = _graph(ctx)
    if attrs.shifted_output:
        raise TVMError("the attribute shifted_output=True is not supported")
    if not attrs.quantized:
        return called(ctx, graph, inputs)
    count = len(graph.arguments)
    rows = 1 if attrs.channel_wise_quantize else count
    if len(inputs) != count + 2 * rows:
        raise TVMError(f"expected {count} values and their ranges, got {len(inputs)} inputs")
    values, ranges = list(inputs[:count]), inputs[count:]
    for i in range(rows):
        values[i] = _dequantize(ctx, values[i], *ranges[2 * i : 2 * i + 2])
    if attrs.channel_wise_quantize:
        values[1], _ = _quantize_weights(ctx, values[1])
    positive = attrs.with_eltwise and _is_positive(graph, ("square", "sqrt"))
    return _output(ctx, called(ctx, graph, values)[0], attrs, positive)
