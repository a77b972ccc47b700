"""Converters of recurrent networks.

One matmul covers the inputs of all steps. The steps are unrolled if their number is constant, and become a loop
otherwise.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from ..common.control import repeated
from .table import MOST_STEPS, Context, check_steps, op


def _lstm(ahead: RelayExpr, own: RelayExpr, states: list) -> list:
    """Return the states after an LSTM step. The gates are input, forget, candidate and output."""
    i, f, g, o = relay.split(relay.add(ahead, own), 4, 1)
    cell = relay.add(relay.multiply(relay.sigmoid(f), states[1]), relay.multiply(relay.sigmoid(i), relay.tanh(g)))
    return [relay.multiply(relay.sigmoid(o), relay.tanh(cell)), cell]


def _gru(ahead: RelayExpr, own: RelayExpr, states: list) -> list:
    """Return the state after a GRU step. The gates are reset, update and candidate."""
    (reset_in, update_in, new_in), (reset_own, update_own, new_own) = (relay.split(v, 3, 1) for v in (ahead, own))
    reset, update = relay.sigmoid(relay.add(reset_in, reset_own)), relay.sigmoid(relay.add(update_in, update_own))
    new = relay.tanh(relay.add(new_in, relay.multiply(reset, new_own)))
    return [relay.add(relay.multiply(relay.subtract(states[0], new), update), new)]


# The step functions by mode. Their arguments are the matmuls with the input and with the state, and the states.
_STEPS = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda ahead, own, states: [relay.tanh(relay.add(ahead, own))],
    "RNN_RELU": lambda ahead, own, states: [relay.nn.relu(relay.add(ahead, own))],
}
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class _Direction:
    """One direction of a recurrent layer."""

    def __init__(self, ctx: Context, kind: str, weights: list, lengths, backwards: bool):
        self.ctx, self.kind, self.lengths, self.backwards = ctx, kind, lengths, backwards
        self.weight, self.own, self.bias, self.own_bias = weights
        self.hidden = ctx.known_size(self.own, 1)
        if ctx.known_size(self.own, 0) != _GATES[kind] * self.hidden:
            raise TVMError(f"weights of shape {ctx.known_shape(self.own)} do not match mode {kind}")

    def run(self, x: RelayExpr, states: list) -> tuple[RelayExpr, list]:
        """Return the outputs of all steps, and the last states."""
        ctx = self.ctx
        flat = relay.reshape(x, (-1, ctx.known_size(self.weight, 1)))
        ahead = relay.add(relay.nn.dense(flat, self.weight), self.bias)
        steps = ctx.shape(x)[0]
        ahead = ctx.made(relay.reshape_like(ahead, x, 0, 1, 0, 2))
        if isinstance(steps, int) and 0 < steps <= MOST_STEPS:
            return self.unrolled(ahead, states, steps)
        return self.looped(ahead, states)

    def step(self, row: RelayExpr, states: list, number: RelayExpr, lengths) -> tuple[RelayExpr, list]:
        """Return the output and the states after one step.

        Sequences that have ended keep their states and output zeros.
        """
        own = relay.add(relay.nn.dense(states[0], self.own), self.own_bias)
        new = _STEPS[self.kind](row, own, states)
        if lengths is None:
            return new[0], new
        alive = relay.expand_dims(relay.greater(relay.cast(lengths, "int64"), number), 1)
        return (relay.where(alive, new[0], relay.zeros_like(new[0])),
                [relay.where(alive, n, s) for n, s in zip(new, states)])  # fmt: skip

    def unrolled(self, ahead: RelayExpr, states: list, steps: int) -> tuple[RelayExpr, list]:
        rows = list(relay.split(ahead, steps, 0)) if steps > 1 else [ahead]
        outs = []
        order = range(steps - 1, -1, -1) if self.backwards else range(steps)
        for t in order:
            out, states = self.step(relay.squeeze(rows[t], [0]), states, run_time.number(t), self.lengths)
            states = [self.ctx.made(s) for s in states]
            outs.append(out)
        return self.ctx.made(relay.stack(outs[::-1] if self.backwards else outs, 0)), states

    def looped(self, ahead: RelayExpr, states: list) -> tuple[RelayExpr, list]:
        """Run a loop over a number of steps known only at run time.

        All tensors that a step reads become loop variables, except weights.
        """
        ctx, count = self.ctx, len(states)
        if not all(isinstance(w, Constant) for w in (self.own, self.own_bias)):
            raise TVMError("a sequence of dynamic length needs weights that are compile-time constants")
        none = relay.strided_slice(relay.expand_dims(states[0], 0), [0], [0], [1], [0])
        first = [run_time.number(0), ahead, *states, ctx.made(none)]
        first += [] if self.lengths is None else [self.lengths]

        def after(values):
            number, rows, own, out = values[0], values[1], values[2 : 2 + count], values[2 + count]
            steps = run_time.size_of(ctx, rows, 0)
            at = relay.subtract(relay.subtract(steps, run_time.number(1)), number) if self.backwards else number
            lengths = values[3 + count] if self.lengths is not None else None
            made, new = self.step(relay.take(rows, at, 0), own, at, lengths)
            parts = [relay.expand_dims(made, 0), out] if self.backwards else [out, relay.expand_dims(made, 0)]
            going = ctx.made(relay.less(number, steps))
            rest = [rows, *new, relay.concatenate(parts, 0), *values[3 + count :]]
            return going, [ctx.made(v) for v in (relay.add(number, run_time.number(1)), *rest)]

        last = repeated(ctx.importer, f"rnn_{ctx.operator.name}", [ctx.made(v) for v in first], after)
        return last[2 + count], last[2 : 2 + count]


@op("rnn")
def rnn(ctx):
    """Convert a multi-layer recurrent network over data (steps, batch, features). All weights precede all biases."""
    kind, layers, x = ctx.attr("mode", "RNN_TANH"), ctx.attr("num_layers", 1), ctx.get("Input")
    directions = 2 if ctx.attr("is_bidirec", False) else 1
    if kind not in _STEPS:
        raise TVMError(f"the attribute 'mode' must be one of {', '.join(_STEPS)}, got {kind!r}")
    if not ctx.attr("is_test", True) and ctx.attr("dropout_prob", 0.0):
        raise TVMError("the program is in training mode; save it for inference")
    weights, states = ctx.tensors("WeightList"), ctx.tensors("PreState")
    check_steps("a stack of layers", layers)
    count = layers * directions
    if len(weights) != 4 * count or len(states) != (2 if kind == "LSTM" else 1) or ctx.rank(x) != 3:
        raise TVMError(f"{len(weights)} weights and {len(states)} states do not match {layers} layers with "
                       f"{directions} directions")  # fmt: skip
    lengths, last = ctx.maybe("SequenceLength"), [[] for _ in states]
    for layer in range(layers):
        outs = []
        for d in range(directions):
            at = layer * directions + d
            rows = [*weights[2 * at : 2 * at + 2], *weights[2 * (count + at) : 2 * (count + at) + 2]]
            first = [ctx.made(relay.take(s, const(at, "int64"), 0)) for s in states]
            out, ends = _Direction(ctx, kind, rows, lengths, bool(d)).run(x, first)
            outs.append(out)
            for kept, end in zip(last, ends):
                kept.append(end)
        x = ctx.made(relay.concatenate(outs, 2) if directions == 2 else outs[0])
    return {"Out": x, "State": [relay.stack(rows, 0) for rows in last]}
