"""Converters of recurrent layers. A second input marks the steps at which a new sequence begins."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.context import check_steps
from .table import Context, layer


class Sequence:
    """The steps of an input (steps, batch, ...) and the continuation marks, which are 0 where a sequence begins."""

    def __init__(self, ctx: Context, inputs: list[RelayExpr]):
        if len(inputs) != 2:
            raise TVMError(f"expected 2 inputs (a sequence and its continuation marks), got {len(inputs)}")
        if ctx.p.bool("expose_hidden", False):
            raise TVMError("expose_hidden is not supported")
        self.outputs = ctx.p.int("num_output", 0)
        shape = ctx.known_shape(inputs[0])
        if len(shape) < 3 or ctx.known_shape(inputs[1]) != shape[:2] or self.outputs < 1:
            raise TVMError(
                f"inputs of shapes {[ctx.known_shape(x) for x in inputs]} with num_output {self.outputs} "
                "are not supported"
            )
        self.steps, self.batch, self.width = shape[0], shape[1], math.prod(shape[2:])
        check_steps("a sequence", self.steps)
        self.rows = relay.reshape(inputs[0], (self.steps * self.batch, self.width))
        going = relay.reshape(inputs[1], (self.steps, self.batch, 1))
        self.going = [relay.squeeze(v, [0]) for v in (relay.split(going, self.steps, 0) if self.steps > 1 else [going])]

    def projected(self, ctx: Context, count: int) -> list[RelayExpr]:
        """Multiply the inputs of all steps by the input weights and add the bias.

        Return one expression for each step.
        """
        size = count * self.outputs
        all_steps = relay.nn.dense(self.rows, ctx.constant(ctx.blob(0, "weights of the input", size, self.width)))
        all_steps = relay.nn.bias_add(all_steps, ctx.constant(ctx.blob(1, "biases", size)))
        return list(relay.split(all_steps, self.steps, 0)) if self.steps > 1 else [all_steps]

    def joined(self, parts: list[RelayExpr]) -> RelayExpr:
        return relay.stack(parts, 0) if len(parts) > 1 else relay.expand_dims(parts[0], 0)


@layer("LSTM", param="recurrent_param")
def lstm(ctx, inputs):
    s = Sequence(ctx, inputs)
    weight = ctx.constant(ctx.blob(2, "weights of the state", 4 * s.outputs, s.outputs))
    hidden = cell = relay.zeros((s.batch, s.outputs), "float32")
    out = []
    for given, going in zip(s.projected(ctx, 4), s.going):
        gates = relay.add(given, relay.nn.dense(relay.multiply(hidden, going), weight))
        i, f, o, g = relay.split(gates, 4, 1)
        kept = relay.multiply(relay.multiply(cell, going), relay.sigmoid(f))
        cell = ctx.made(relay.add(kept, relay.multiply(relay.sigmoid(i), relay.tanh(g))))
        hidden = ctx.made(relay.multiply(relay.sigmoid(o), relay.tanh(cell)))
        out.append(hidden)
    return s.joined(out)


@layer("RNN", param="recurrent_param")
def rnn(ctx, inputs):
    s = Sequence(ctx, inputs)
    own = ctx.constant(ctx.blob(2, "weights of the state", s.outputs, s.outputs))
    last = ctx.constant(ctx.blob(3, "weights of the output", s.outputs, s.outputs))
    bias = ctx.constant(ctx.blob(4, "biases of the output", s.outputs))
    hidden, out = relay.zeros((s.batch, s.outputs), "float32"), []
    for given, going in zip(s.projected(ctx, 1), s.going):
        hidden = ctx.made(relay.tanh(relay.add(given, relay.nn.dense(relay.multiply(hidden, going), own))))
        out.append(relay.tanh(relay.nn.bias_add(relay.nn.dense(hidden, last), bias)))
    return s.joined(out)
