"""Converter of the fused ``RNN`` operator, whose weights of all layers and directions are in one vector.

The steps are unrolled; one matmul covers the inputs of all steps.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .table import Context, check_steps, op

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
_ATTRIBUTES = (
    "state_size:int num_layers:int bidirectional:bool=False mode:gru|lstm|rnn_relu|rnn_tanh p:float=0"
    " state_outputs:bool=False projection_size:int?=None lstm_state_clip_min:float?=None"
    " lstm_state_clip_max:float?=None lstm_state_clip_nan:bool=False use_sequence_length:bool=False"
)


class Network:
    """The dimensions of a recurrent network and the layout of its weights."""

    def __init__(self, ctx: Context, x: RelayExpr, attrs):
        self.ctx, self.attrs = ctx, attrs
        self.steps, self.batch, self.features = ctx.known_shape(x)
        self.hidden, self.layers = attrs.state_size, attrs.num_layers
        self.directions = 2 if attrs.bidirectional else 1
        self.out = self.hidden if attrs.projection_size is None else attrs.projection_size
        self.gates = _GATES[attrs.mode] * self.hidden
        if not 0 < self.hidden < 1 << 24 or not 0 < self.layers < 1 << 12 or not 0 < self.out <= self.hidden:
            raise TVMError(f"state_size={self.hidden}, num_layers={self.layers} and "
                           f"projection_size={attrs.projection_size} are not supported")  # fmt: skip
        if attrs.projection_size is not None and attrs.mode != "lstm":
            raise TVMError(f"projection_size with mode={attrs.mode} is not supported; it needs mode=lstm")
        if attrs.lstm_state_clip_min is not None or attrs.lstm_state_clip_max is not None or attrs.lstm_state_clip_nan:
            raise TVMError("the attributes lstm_state_clip_min, _max and _nan are not supported")
        check_steps("a sequence", self.steps * self.layers * self.directions)

    def rows(self) -> list[list[tuple[int, int]]]:
        """Return the shapes of each layer's and direction's matrices: input, recurrent and projection weights."""
        found = []
        for layer in range(self.layers):
            width = self.features if layer == 0 else self.out * self.directions
            own = [(self.gates, width), (self.gates, self.out)]
            own += [(self.out, self.hidden)] if self.attrs.projection_size is not None else []
            found += [own] * self.directions
        return found

    def count(self) -> int:
        """Return the size of the weight vector: the matrices, followed by two bias vectors for each layer and
        direction."""
        return sum(a * b for own in self.rows() for a, b in own) + 2 * self.gates * self.layers * self.directions

    def weights(self, vector: RelayExpr) -> tuple[list[list[RelayExpr]], list[list[RelayExpr]]]:
        """Split the weight vector into matrices and biases by layer and direction."""
        at, matrices, biases = 0, [], []

        def cut(*dims: int) -> RelayExpr:
            nonlocal at
            count = dims[0] * (dims[1] if len(dims) > 1 else 1)
            at += count
            part = relay.strided_slice(vector, [at - count], [at], [1], [0])
            return self.ctx.made(relay.reshape(part, dims) if len(dims) > 1 else part)

        for own in self.rows():
            matrices.append([cut(*dims) for dims in own])
        for _ in self.rows():
            biases.append([cut(self.gates), cut(self.gates)])
        return matrices, biases

    def state(self, given: RelayExpr, at: int, size: int) -> RelayExpr:
        part = relay.squeeze(relay.strided_slice(given, [at], [at + 1], [1], [0]), [0])
        return self.ctx.made(relay.broadcast_to(part, (self.batch, size)))

    def cut(self, x: RelayExpr, count: int) -> list[RelayExpr]:
        return list(relay.split(x, count, 1))

    def step(self, ahead: RelayExpr, states: list, matrices: list, bias: RelayExpr) -> list[RelayExpr]:
        """Return the states after one step. The first one is the output."""
        back = relay.add(relay.nn.dense(states[0], matrices[1]), bias)
        mode = self.attrs.mode
        if mode in ("rnn_relu", "rnn_tanh"):
            total = relay.add(ahead, back)
            return [relay.nn.relu(total) if mode == "rnn_relu" else relay.tanh(total)]
        if mode == "gru":
            (r, z, n), (hr, hz, hn) = self.cut(ahead, 3), self.cut(back, 3)
            r, z = relay.sigmoid(relay.add(r, hr)), relay.sigmoid(relay.add(z, hz))
            new = relay.tanh(relay.add(n, relay.multiply(r, hn)))
            return [relay.add(new, relay.multiply(z, relay.subtract(states[0], new)))]
        i, f, g, o = self.cut(relay.add(ahead, back), 4)
        cell = relay.add(relay.multiply(relay.sigmoid(f), states[1]), relay.multiply(relay.sigmoid(i), relay.tanh(g)))
        out = relay.multiply(relay.sigmoid(o), relay.tanh(cell))
        return [relay.nn.dense(out, matrices[2]) if len(matrices) > 2 else out, cell]

    def direction(self, x: RelayExpr, states: list, matrices: list, biases: list, backwards: bool, lengths) -> list:
        """Run one direction.

        Return the outputs of all steps and the last states. Rows that have ended keep their states and output zeros.
        """
        features = self.ctx.known_size(x, 2)
        flat = relay.nn.dense(relay.reshape(x, (-1, features)), matrices[0])
        ahead = relay.reshape(relay.add(flat, biases[0]), (self.steps, self.batch, self.gates))
        rows = list(relay.split(ahead, self.steps, 0)) if self.steps > 1 else [ahead]
        outs: list = [None] * self.steps
        for t in reversed(range(self.steps)) if backwards else range(self.steps):
            new = self.step(relay.squeeze(rows[t], [0]), states, matrices, biases[1])
            outs[t] = new[0]
            if lengths is not None:
                alive = relay.expand_dims(relay.greater(lengths, const(t, "int32")), 1)
                outs[t] = relay.where(alive, new[0], relay.zeros_like(new[0]))
                new = [relay.where(alive, n, s) for n, s in zip(new, states)]
            states = [self.ctx.made(n) for n in new]
        return [self.ctx.made(relay.stack(outs, 0)), *states]


def _shapes(ctx, known, attrs) -> dict:
    net = Network(ctx, known[0], attrs)
    count = net.layers * net.directions
    return {1: (net.count(),), 2: (count, net.batch, net.out), 3: (count, net.batch, net.hidden)}


@op("RNN", _ATTRIBUTES, shapes=_shapes)
def rnn(ctx, inputs, attrs):
    x, vector, state = inputs[:3]
    net = Network(ctx, x, attrs)
    if ctx.known_shape(vector) != (net.count(),):
        raise TVMError(
            f"the weight vector has shape {ctx.shape(vector)}, but the attributes and the data need "
            f"{net.count()} elements"
        )
    given = [state, inputs[3]] if attrs.mode == "lstm" else [state]
    lengths = ctx.made(ctx.cast(inputs[-1], "int32")) if attrs.use_sequence_length else None
    if len(inputs) != 2 + len(given) + (lengths is not None):
        raise TVMError(f"{len(inputs)} inputs do not match mode={attrs.mode}")
    matrices, biases = net.weights(vector)
    ends: list[list] = [[] for _ in given]
    for layer in range(net.layers):
        outs = []
        for d in range(net.directions):
            at = layer * net.directions + d
            own = [net.state(g, at, size) for g, size in zip(given, (net.out, net.hidden))]
            out, *last = net.direction(x, own, matrices[at], biases[at], bool(d), lengths)
            outs.append(out)
            for kept, end in zip(ends, last):
                kept.append(end)
        x = ctx.made(outs[0] if len(outs) == 1 else relay.concatenate(outs, 2))
    states = [relay.stack(v, 0) if len(v) > 1 else relay.expand_dims(v[0], 0) for v in ends]
    return [x, *states]
