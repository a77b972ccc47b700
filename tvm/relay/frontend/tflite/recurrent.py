"""Converters of recurrent layers. Their steps are written out; their state is kept from run to run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from ..common.context import check_steps
from .conv_ops import weight_array
from .elementwise import activated
from .table import Context, argument, op


class _Gate(NamedTuple):
    """The weights of one gate: of the input, of the state before, of the cell, its bias and its normalization."""

    input: RelayExpr
    recurrent: RelayExpr
    cell: RelayExpr | None
    bias: RelayExpr | None
    norm: RelayExpr | None


def _weight(ctx: Context, inputs: list, index: int) -> RelayExpr | None:
    """A weight as real numbers, None where it is left out."""
    if argument(inputs, index) is None:
        return None
    array = weight_array(ctx, inputs, index, True)
    return inputs[index] if array is None else Constant(np.ascontiguousarray(array))


def _gate(ctx: Context, inputs: list, at: tuple[int, int, int, int, int]) -> _Gate | None:
    parts = [_weight(ctx, inputs, i) for i in at]
    if parts[0] is None:
        return None
    if parts[1] is None:
        raise TVMError("a gate has no recurrent weights")
    return _Gate(*parts)


def _steps(ctx: Context, x: RelayExpr, time_major: bool) -> list[RelayExpr]:
    """The data of each step, a matrix of a row for each sequence."""
    if ctx.rank(x) != 3:
        raise TVMError(f"data of 3 dimensions is wanted, got {ctx.rank(x)}")
    axis = 0 if time_major else 1
    count = ctx.known_size(x, axis)
    check_steps("a sequence", count)
    if count == 1:
        return [relay.squeeze(x, [axis])]
    return [relay.squeeze(part, [axis]) for part in relay.split(x, count, axis)]


def _state(ctx: Context, inputs: list, index: int) -> RelayExpr:
    if argument(inputs, index) is None:
        raise TVMError(f"the state (input {index}) is missing")
    return inputs[index]


class _Cell:
    """A cell of long short-term memory."""

    def __init__(self, ctx: Context, inputs: list, options):
        self.ctx, self.options = ctx, options
        if getattr(options, "diagonal", False):
            raise TVMError("diagonal recurrent weights are not supported")
        rows = zip(range(1, 5), range(5, 9), (9, 10, 24, 11), range(12, 16), range(20, 24))
        self.gates = [_gate(ctx, inputs, row) for row in rows]
        if any(g is None for g in self.gates[1:]):
            raise TVMError("the weights of a gate are missing")
        self.projection, self.projection_bias = _weight(ctx, inputs, 16), _weight(ctx, inputs, 17)

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
            h = relay.nn.dense(h, self.projection)
            h = h if self.projection_bias is None else relay.add(h, self.projection_bias)
            h = self.clipped(h, self.options.proj_clip)
        return h, c

    def sum(self, gate: _Gate, x: RelayExpr, h: RelayExpr, c: RelayExpr | None) -> RelayExpr:
        total = relay.add(relay.nn.dense(x, gate.input), relay.nn.dense(h, gate.recurrent))
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
    cell = _Cell(ctx, inputs, options)
    h, c = _state(ctx, inputs, 18), _state(ctx, inputs, 19)
    shown = []
    for x in _steps(ctx, inputs[0], options.time_major):
        h, c = (ctx.importer.typer.infer(v) for v in cell.step(x, h, c))
        shown.append(h)
    ctx.keep(18, h)
    ctx.keep(19, c)
    return relay.stack(shown, 0 if options.time_major else 1)


@op("LSTM")
def lstm_step(ctx, inputs, options):
    if options.kernel_type:
        raise TVMError("the basic kind of the operator, with one matrix of all weights, is not supported")
    h, c = _Cell(ctx, inputs, options).step(inputs[0], _state(ctx, inputs, 18), _state(ctx, inputs, 19))
    ctx.keep(18, h)
    ctx.keep(19, c)
    # The results are the scratch memory, the two states and the output.
    return [h] if len(ctx.results) == 1 else [relay.zeros((1,), "float32"), h, c, h][: len(ctx.results)]


@op("RNN")
def rnn_step(ctx, inputs, options):
    total = relay.add(relay.nn.dense(inputs[0], _weight(ctx, inputs, 1)),
                      relay.nn.dense(_state(ctx, inputs, 4), _weight(ctx, inputs, 2)))
    total = total if argument(inputs, 3) is None else relay.add(total, inputs[3])
    h = activated(ctx, total, options)
    ctx.keep(4, h)
    return h


@op("SVDF")
def svdf(ctx, inputs, options):
    """Filters over the features of the last steps, which are the state; each result is the sum of ``rank`` filters."""
    feature, time = _weight(ctx, inputs, 1), _weight(ctx, inputs, 2)
    filters, memory = ctx.known_shape(time)
    batch, rank = ctx.known_size(inputs[0], 0), options.rank
    if rank < 1 or filters % rank:
        raise TVMError(f"{filters} filters are no results of rank {rank}")
    state = relay.reshape(_state(ctx, inputs, 4), (batch, filters, memory))
    new = relay.expand_dims(relay.nn.dense(inputs[0], feature), 2)
    state = relay.concatenate([relay.strided_slice(state, [1], [memory], [1], [2]), new], 2) if memory > 1 else new
    found = relay.sum(relay.multiply(state, relay.expand_dims(time, 0)), axis=2)
    found = relay.sum(relay.reshape(found, (batch, filters // rank, rank)), axis=2)
    ctx.keep(4, relay.reshape(state, (batch, filters * memory)))
    return activated(ctx, found if argument(inputs, 3) is None else relay.add(found, inputs[3]), options)


@op("UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(ctx, inputs, options):
    weight, recurrent = _weight(ctx, inputs, 1), _weight(ctx, inputs, 2)
    h, shown = _state(ctx, inputs, 4), []
    for x in _steps(ctx, inputs[0], options.time_major):
        total = relay.add(relay.nn.dense(x, weight), relay.nn.dense(h, recurrent))
        total = total if argument(inputs, 3) is None else relay.add(total, inputs[3])
        h = ctx.importer.typer.infer(activated(ctx, total, options))
        shown.append(h)
    ctx.keep(4, h)
    return relay.stack(shown, 0 if options.time_major else 1)
