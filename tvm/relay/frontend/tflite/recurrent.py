"""Converters of recurrent layers. Their time steps are unrolled; their state is kept between runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from ..common.context import check_steps
from .conv_ops import weight_array
from .elementwise import activated
from .hybrid import asymmetric, is_hybrid, symmetric, weight_scale, whole_weight
from .table import Context, argument, op

# The input indices of each gate (input, forget, cell, output): input weights, recurrent weights, peephole weights, bias
# and normalization weights.
LSTM_GATES = ((1, 5, 9, 12, 20), (2, 6, 10, 13, 21), (3, 7, 24, 14, 22), (4, 8, 11, 15, 23))


class _Matrix:
    """Weights that are multiplied by rows of float data.

    If the weights are integers with a scale, each row is quantized to 8 bits first, as LiteRT does.
    """

    def __init__(self, ctx: Context, inputs: list, index: int, options):
        self.whole = is_hybrid(ctx, inputs, index)
        self.requantized_sums = asymmetric if options.asymmetric_quantize_inputs else symmetric
        if self.whole:
            self.weight, self.scale = Constant(whole_weight(ctx, inputs, index)), weight_scale(ctx, index)
        else:
            self.weight = _weight(ctx, inputs, index)

    def times(self, x: RelayExpr) -> RelayExpr:
        if not self.whole:
            return relay.nn.dense(x, self.weight)
        steps, scale = self.requantized_sums(x, (1,))
        return relay.multiply(relay.nn.dense(steps, self.weight), relay.multiply(scale, self.scale))


class _Gate(NamedTuple):
    """The weights of one gate: input, recurrent and peephole weights, bias and normalization weights."""

    input: _Matrix
    recurrent: _Matrix
    cell: RelayExpr | None
    bias: RelayExpr | None
    norm: RelayExpr | None


def _weight(ctx: Context, inputs: list, index: int) -> RelayExpr | None:
    """Return a weight as floats; None if it is omitted."""
    if argument(inputs, index) is None:
        return None
    array = weight_array(ctx, inputs, index, True)
    return inputs[index] if array is None else Constant(np.ascontiguousarray(array))


def _gate(ctx: Context, inputs: list, at: tuple[int, int, int, int, int], options) -> _Gate | None:
    if argument(inputs, at[0]) is None:
        return None
    if argument(inputs, at[1]) is None:
        raise TVMError("the recurrent weights of a gate are missing")
    matrices = [_Matrix(ctx, inputs, i, options) for i in at[:2]]
    return _Gate(*matrices, *(_weight(ctx, inputs, i) for i in at[2:]))


def sequence_steps(ctx: Context, x: RelayExpr, time_major: bool) -> list[RelayExpr]:
    """Return the data of each time step, a matrix with one row per sequence."""
    if ctx.rank(x) != 3:
        raise TVMError(f"the data must have 3 dimensions, got {ctx.rank(x)}")
    axis = 0 if time_major else 1
    count = ctx.known_size(x, axis)
    check_steps("a sequence", count)
    if count == 1:
        return [relay.squeeze(x, [axis])]
    return [relay.squeeze(part, [axis]) for part in relay.split(x, count, axis)]


def state_of(inputs: list, index: int) -> RelayExpr:
    if argument(inputs, index) is None:
        raise TVMError(f"the state (input {index}) is missing")
    return inputs[index]


class _Cell:
    """An LSTM cell."""

    def __init__(self, ctx: Context, inputs: list, options):
        self.ctx, self.options = ctx, options
        if getattr(options, "diagonal", False):
            raise TVMError("diagonal recurrent weights are not supported")
        self.gates = [_gate(ctx, inputs, row, options) for row in LSTM_GATES]
        if any(g is None for g in self.gates[1:]):
            raise TVMError("the weights of a gate are missing")
        self.projection = None if argument(inputs, 16) is None else _Matrix(ctx, inputs, 16, options)
        self.projection_bias = _weight(ctx, inputs, 17)

    def step(self, x: RelayExpr, h: RelayExpr, c: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
        into, forget, new, out = self.gates
        kept = relay.sigmoid(self.sum(forget, x, h, c))
        if into is None:
            taken = relay.subtract(self.ctx.like(1, kept), kept)
        else:
            taken = relay.sigmoid(self.sum(into, x, h, c))
        fresh = activated(self.ctx, self.sum(new, x, h, None), self.options)
        c = relay.add(relay.multiply(kept, c), relay.multiply(taken, fresh))
        c = self.clipped(c, self.options.cell_clip)
        shown = relay.sigmoid(self.sum(out, x, h, c))
        h = relay.multiply(shown, activated(self.ctx, c, self.options))
        if self.projection is not None:
            h = self.projection.times(h)
            h = h if self.projection_bias is None else relay.add(h, self.projection_bias)
            h = self.clipped(h, self.options.proj_clip)
        return h, c

    def sum(self, gate: _Gate, x: RelayExpr, h: RelayExpr, c: RelayExpr | None) -> RelayExpr:
        total = relay.add(gate.input.times(x), gate.recurrent.times(h))
        if gate.cell is not None and c is not None:
            total = relay.add(total, relay.multiply(c, gate.cell))
        if gate.norm is not None:
            total = relay.multiply(self.normalized(total), gate.norm)
        return total if gate.bias is None else relay.add(total, gate.bias)

    def normalized(self, x: RelayExpr) -> RelayExpr:
        centered = relay.subtract(x, relay.mean(x, axis=-1, keepdims=True))
        variance = relay.mean(relay.multiply(centered, centered), axis=-1, keepdims=True)
        return relay.divide(centered, relay.sqrt(relay.add(variance, self.ctx.like(1e-8, x))))

    @staticmethod
    def clipped(x: RelayExpr, bound: float) -> RelayExpr:
        return relay.clip(x, -bound, bound) if bound > 0 else x


@op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(ctx, inputs, options):
    return unrolled(ctx, _Cell(ctx, inputs, options), inputs, options)


def unrolled(ctx, cell, inputs, options):
    """Return the outputs of all steps of a cell; its initial state is the model's state, which is updated."""
    h, c = state_of(inputs, 18), state_of(inputs, 19)
    shown = []
    for x in sequence_steps(ctx, inputs[0], options.time_major):
        h, c = (ctx.made(v) for v in cell.step(x, h, c))
        shown.append(h)
    ctx.keep(18, h)
    ctx.keep(19, c)
    return relay.stack(shown, 0 if options.time_major else 1)


@op("LSTM")
def lstm_step(ctx, inputs, options):
    if options.kernel_type:
        raise TVMError("kernel_type BASIC, with one matrix of all weights, is not supported")
    h, c = _Cell(ctx, inputs, options).step(inputs[0], state_of(inputs, 18), state_of(inputs, 19))
    ctx.keep(18, h)
    ctx.keep(19, c)
    # The outputs are the scratch buffer, the two states and the output of the cell.
    return [h] if len(ctx.results) == 1 else [relay.zeros((1,), "float32"), h, c, h][: len(ctx.results)]


@op("RNN")
def rnn_step(ctx, inputs, options):
    h = _rnn(ctx, inputs, options)(inputs[0], state_of(inputs, 4))
    ctx.keep(4, h)
    return h


def _rnn(ctx: Context, inputs: list, options):
    """Return a step of a basic recurrent layer: a function of its data and the previous state."""
    weight, recurrent = (_Matrix(ctx, inputs, i, options) for i in (1, 2))

    def step(x: RelayExpr, h: RelayExpr) -> RelayExpr:
        total = relay.add(weight.times(x), recurrent.times(h))
        return activated(ctx, total if argument(inputs, 3) is None else relay.add(total, inputs[3]), options)

    return step


@op("SVDF")
def svdf(ctx, inputs, options):
    """Apply filters to the features of the last time steps, which are the state; each output is the sum of ``rank``
    filters.
    """
    feature, time = _Matrix(ctx, inputs, 1, options), _weight(ctx, inputs, 2)
    filters, memory = ctx.known_shape(time)
    batch, rank = ctx.known_size(inputs[0], 0), options.rank
    if rank < 1 or filters % rank:
        raise TVMError(f"the number of SVDF filters, {filters}, must be divisible by the rank {rank}")
    state = relay.reshape(state_of(inputs, 4), (batch, filters, memory))
    new = relay.expand_dims(feature.times(inputs[0]), 2)
    state = relay.concatenate([relay.strided_slice(state, [1], [memory], [1], [2]), new], 2) if memory > 1 else new
    found = relay.sum(relay.multiply(state, relay.expand_dims(time, 0)), axis=2)
    found = relay.sum(relay.reshape(found, (batch, filters // rank, rank)), axis=2)
    ctx.keep(4, relay.reshape(state, (batch, filters * memory)))
    return activated(ctx, found if argument(inputs, 3) is None else relay.add(found, inputs[3]), options)


@op("UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(ctx, inputs, options):
    step, h, shown = _rnn(ctx, inputs, options), state_of(inputs, 4), []
    for x in sequence_steps(ctx, inputs[0], options.time_major):
        h = ctx.made(step(x, h))
        shown.append(h)
    ctx.keep(4, h)
    return relay.stack(shown, 0 if options.time_major else 1)
