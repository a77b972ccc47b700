"""Recurrent layers. The steps are unrolled; one matmul covers the inputs of all steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....error import TVMError, not_defined
from ... import op as relay
from ..common.matmul import numpy_matmul
from .activations import named
from .table import Array, Context, check_steps, const, constant, half, op

# Layers clip pre-activations to this absolute value, so that exp does not overflow.
LIMIT = 50.0


def clipped(x, limit: float | None):
    return x if limit is None else relay.clip(x, -limit, limit)


class Cell:
    """A recurrent cell. ``weights`` and ``recursion`` contain the rows of all gates, one gate after another."""

    states = 1
    gates = 1

    def __init__(self, ctx: Context, weights, recursion, bias=None, limit: float | None = None):
        self.ctx, self.limit = ctx, limit
        self.size = recursion.shape[1]
        if weights.shape[0] != self.gates * self.size or recursion.shape[0] != self.gates * self.size:
            raise TVMError(f"weights of shapes {weights.shape} and {recursion.shape} do not match {self.gates} gates")
        self.weights, self.recursion = (constant(w.T.astype("float32")) for w in (weights, recursion))
        self.bias = None if bias is None else constant(bias.astype("float32"))
        if bias is not None and bias.shape != (self.gates * self.size,):
            raise TVMError(f"a bias of shape {bias.shape} does not match {self.gates} gates of size {self.size}")

    def ahead(self, x):
        """Return the gates' contributions of the inputs of all steps, computed by one matmul."""
        out = self.ctx.made(numpy_matmul(self.ctx, x, self.weights))
        return self.ctx.made(out if self.bias is None else relay.add(out, self.bias))

    def own(self, h, matrix=None):
        return self.ctx.made(numpy_matmul(self.ctx, h, self.recursion if matrix is None else matrix))

    def step(self, x, states: list) -> list:
        """Return the new states. The first one is the output."""
        raise not_defined(self, "step")


class PlainCell(Cell):
    """A simple recurrent cell (Elman RNN)."""

    def __init__(self, ctx: Context, weights, recursion, bias, activation: Callable, limit: float | None = None):
        super().__init__(ctx, weights, recursion, bias, limit)
        self.activation = activation

    def step(self, x, states):
        return [self.activation(self.ctx, self.ctx.made(clipped(relay.add(x, self.own(states[0])), self.limit)))]


class GatedCell(Cell):
    """A gated recurrent unit (GRU). The gates are reset, output and update."""

    gates = 3

    def __init__(self, ctx: Context, weights, recursion, bias, gate: Callable, output: Callable,
                 limit: float | None = None, after: bool = False, input_bias=None):  # fmt: skip
        super().__init__(ctx, weights, recursion, bias, limit)
        self.gate, self.output, self.after = gate, output, after
        self.input_bias = None if input_bias is None else constant(input_bias.astype("float32"))
        # If the reset gate is applied after the recurrent matmul, the bias belongs to that matmul.
        self.late = self.bias if after else None
        self.bias = self.input_bias if after else self.bias
        matrix = recursion.T.astype("float32")
        n = self.size
        self.parts = [constant(matrix[:, i * n : (i + 1) * n]) for i in range(3)]

    def step(self, x, states):
        ctx, h = self.ctx, states[0]
        x_r, x_o, x_z = relay.split(x, 3, -1)
        if self.after:
            own = self.own(h)
            own = relay.add(own, self.late) if self.late is not None else own
            own_r, own_o, own_z = relay.split(own, 3, -1)
        else:
            own_r, own_z = self.own(h, self.parts[0]), self.own(h, self.parts[2])
        r, z = (self.gate(ctx, ctx.made(clipped(relay.add(a, b), self.limit))) for a, b in ((x_r, own_r), (x_z, own_z)))
        own_o = relay.multiply(r, own_o) if self.after else self.own(ctx.made(relay.multiply(r, h)), self.parts[1])
        o = self.output(ctx, ctx.made(clipped(relay.add(x_o, own_o), self.limit)))
        return [relay.add(o, relay.multiply(z, relay.subtract(h, o)))]


class LongCell(Cell):
    """A long short-term memory cell (LSTM). The gates are input, forget, output and cell."""

    states = 2
    gates = 4

    def __init__(self, ctx: Context, weights, recursion, bias, activations: tuple, peephole=None,
                 limit: float | None = None, cell_limit: float | None = None, coupled: bool = False):  # fmt: skip
        super().__init__(ctx, weights, recursion, bias, limit)
        self.gate, self.cell, self.output = activations
        self.cell_limit, self.coupled = cell_limit, coupled
        if peephole is not None and peephole.shape != (3 * self.size,):
            raise TVMError(f"peephole weights of shape {peephole.shape} do not match a state of size {self.size}")
        self.peephole = None if peephole is None else [constant(p.astype("float32")) for p in np.split(peephole, 3)]

    def _opened(self, x, c, which: int):
        x = x if self.peephole is None else relay.add(x, relay.multiply(c, self.peephole[which]))
        return self.gate(self.ctx, self.ctx.made(clipped(x, self.limit)))

    def step(self, x, states):
        ctx, (h, c) = self.ctx, states
        x_i, x_f, x_o, x_z = relay.split(ctx.made(relay.add(x, self.own(h))), 4, -1)
        i = ctx.made(self._opened(x_i, c, 0))
        kept = relay.subtract(const(1.0, "float32"), i) if self.coupled else self._opened(x_f, c, 1)
        z = self.cell(ctx, ctx.made(clipped(x_z, self.limit)))
        new = ctx.made(clipped(relay.add(relay.multiply(kept, c), relay.multiply(i, z)), self.cell_limit))
        return [relay.multiply(self.output(ctx, new), self._opened(x_o, new, 2)), new]


def run(ctx: Context, cell: Cell, x, states: list, reverse: bool) -> tuple[list, list]:
    """Run a cell over a sequence [steps, batch, inputs]. Return the outputs in sequence order, and the last states."""
    count = ctx.known_size(x, 0)
    if not count:
        raise TVMError("a sequence without steps is not supported")
    check_steps("a sequence", count)
    ahead = cell.ahead(x)
    parts = list(relay.split(ahead, count, 0)) if count > 1 else [ahead]
    outs = []
    for part in reversed(parts) if reverse else parts:
        states = [ctx.made(s) for s in cell.step(ctx.made(relay.squeeze(part, [0])), states)]
        outs.append(states[0])
    return (outs[::-1] if reverse else outs), states


def sequence(ctx: Context, outs: list, last, all_steps: bool):
    """Stack the outputs of all steps, or return the last output as a sequence of one step."""
    return ctx.made(relay.stack(outs, 0) if all_steps else relay.expand_dims(last, 0))


def _is_reverse(direction: str) -> bool:
    if direction not in ("forward", "reverse"):
        raise TVMError(f"the direction '{direction}' is not supported")
    return direction == "reverse"


@op("rnn")
@half
def rnn(ctx, x, initial_h, weight_ih: Array, weight_hh: Array, bias: Array | None = None, direction: str = "forward",
        output_sequence: bool = False, activation: str = "tanh"):  # fmt: skip
    cell = PlainCell(ctx, weight_ih, weight_hh, bias, named(activation))
    outs, states = run(ctx, cell, x, [initial_h], _is_reverse(direction))
    return [sequence(ctx, outs, states[0], output_sequence), states[0]]


@op("gru")
@half
def gru(ctx, x, initial_h, weight_ih: Array, weight_hh: Array, bias: Array | None = None, direction: str = "forward",
        output_sequence: bool = False, recurrent_activation: str = "sigmoid", activation: str = "tanh",
        reset_after: bool = False, input_bias: Array | None = None):  # fmt: skip
    if input_bias is not None and not reset_after:
        raise TVMError("input_bias without reset_after is not supported")
    cell = GatedCell(ctx, weight_ih, weight_hh, bias, named(recurrent_activation), named(activation), None,
                     reset_after, input_bias)  # fmt: skip
    outs, states = run(ctx, cell, x, [initial_h], _is_reverse(direction))
    return [sequence(ctx, outs, states[0], output_sequence), states[0]]


@op("lstm")
@half
def lstm(ctx, x, initial_h, initial_c, weight_ih: Array, weight_hh: Array, bias: Array | None = None,
         peephole: Array | None = None, weight_ih_back: Array | None = None, weight_hh_back: Array | None = None,
         bias_back: Array | None = None, peephole_back: Array | None = None, direction: str = "forward",
         output_sequence: bool = False, recurrent_activation: str = "sigmoid", cell_activation: str = "tanh",
         activation: str = "tanh", clip: float | None = None):  # fmt: skip
    kinds = (named(recurrent_activation), named(cell_activation), named(activation))
    cells = [LongCell(ctx, weight_ih, weight_hh, bias, kinds, peephole, None, clip)]
    if direction == "bidirectional":
        if weight_ih_back is None or weight_hh_back is None:
            raise TVMError("the weights of the backward direction are missing")
        cells.append(LongCell(ctx, weight_ih_back, weight_hh_back, bias_back, kinds, peephole_back, None, clip))
    turns = [_is_reverse(direction)] if len(cells) == 1 else [False, True]
    starts = zip(*([v] if len(cells) == 1 else relay.split(v, 2, 1) for v in (initial_h, initial_c)))
    found = [run(ctx, cell, x, list(start), turn) for cell, start, turn in zip(cells, starts, turns)]
    rows = [sequence(ctx, outs, states[0], output_sequence) for outs, states in found]
    lasts = [[states[i] for _, states in found] for i in range(2)]
    if len(cells) == 1:
        return [rows[0], lasts[0][0], lasts[1][0]]
    return [relay.concatenate(rows, 2), *(relay.concatenate(last, 1) for last in lasts)]


__all__ = ["LIMIT", "GatedCell", "LongCell", "PlainCell", "run", "sequence"]
