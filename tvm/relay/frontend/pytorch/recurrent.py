"""Converters of recurrent networks: steps written out, the products with the inputs of all steps done at once."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from .table import check_steps, op

_KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def _added(x, bias):
    return x if bias is None else relay.add(x, bias)


def _lstm(ctx, ahead, states, weight, bias):
    hidden, cell = states
    gates = relay.add(ahead, _added(relay.nn.dense(hidden, weight), bias))
    i, f, g, o = relay.split(gates, 4, 1)
    cell = relay.add(relay.multiply(relay.sigmoid(f), cell), relay.multiply(relay.sigmoid(i), relay.tanh(g)))
    return [relay.multiply(relay.sigmoid(o), relay.tanh(cell)), cell]


def _gru(ctx, ahead, states, weight, bias):
    (hidden,) = states
    own = _added(relay.nn.dense(hidden, weight), bias)
    (r_in, z_in, n_in), (r_own, z_own, n_own) = relay.split(ahead, 3, 1), relay.split(own, 3, 1)
    reset, update = relay.sigmoid(relay.add(r_in, r_own)), relay.sigmoid(relay.add(z_in, z_own))
    new = relay.tanh(relay.add(n_in, relay.multiply(reset, n_own)))
    return [relay.add(new, relay.multiply(update, relay.subtract(hidden, new)))]


def _rnn(activation):
    def step(ctx, ahead, states, weight, bias):
        return [activation(relay.add(ahead, _added(relay.nn.dense(states[0], weight), bias)))]

    return step


_STEPS = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _rnn(relay.tanh), "rnn_relu": _rnn(relay.nn.relu)}


def _direction(ctx, kind: str, x, states, params, backwards: bool):
    """One direction of a layer: the results of all steps, and the last states."""
    steps, batch, width = ctx.known_shape(x)
    check_steps("a sequence", steps)
    weight, own, *more = params
    bias, own_bias = more[:2] if len(more) > 1 else (None, None)
    projection = more[-1] if len(more) % 2 else None
    flat = relay.reshape(x, (steps * batch, width))
    gates = ctx.known_size(weight, 0)
    ahead = relay.reshape(_added(relay.nn.dense(flat, weight), bias), (steps, batch, gates))
    rows = list(relay.split(ahead, steps, 0)) if steps > 1 else [ahead]
    outs = []
    for row in reversed(rows) if backwards else rows:
        states = [ctx.infer(s) for s in _STEPS[kind](ctx, relay.squeeze(row, [0]), states, own, own_bias)]
        if projection is not None:
            states[0] = ctx.infer(relay.nn.dense(states[0], projection))
        outs.append(states[0])
    return relay.stack(outs[::-1] if backwards else outs, 0), states


def _network(ctx, kind: str, x, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    if train and dropout:
        raise TVMError("the model is in training mode; call eval() before it is traced or exported")
    flat = ctx.rank(x) == 2
    if flat:
        x = ctx.infer(relay.expand_dims(x, 1))
        states = [ctx.infer(relay.expand_dims(s, 1)) for s in states]
    elif batch_first:
        x = ctx.infer(relay.transpose(x, (1, 0, 2)))
    directions = 2 if bidirectional else 1
    # Two weights, two biases, and the projection of hidden states where there is one.
    each = len(params) // (directions * num_layers)
    last: list[list] = [[] for _ in states]
    for layer in range(num_layers):
        outs = []
        for d in range(directions):
            at = layer * directions + d
            own = [ctx.infer(relay.squeeze(relay.strided_slice(s, [at], [at + 1], [1], [0]), [0])) for s in states]
            out, ends = _direction(ctx, kind, x, own, params[at * each : (at + 1) * each], bool(d))
            outs.append(out)
            for kept, end in zip(last, ends):
                kept.append(end)
        x = ctx.infer(outs[0] if directions == 1 else relay.concatenate(outs, 2))
    out = relay.squeeze(x, [1]) if flat else relay.transpose(x, (1, 0, 2)) if batch_first else x
    ends = [relay.stack(v, 0) if len(v) > 1 else relay.expand_dims(v[0], 0) for v in last]
    return (out, *(relay.squeeze(e, [1]) if flat else e for e in ends))


def _register(kind: str) -> None:
    @op(kind)
    def convert(ctx, self, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
        states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        return _network(ctx, kind, self, states, list(params), has_biases, num_layers, dropout, train, bidirectional,
                        batch_first)


for _kind in _KINDS:
    _register(_kind)


@op("lstm_cell")
def lstm_cell(ctx, self, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    ahead = _added(relay.nn.dense(self, w_ih), b_ih)
    return tuple(_lstm(ctx, ahead, list(hx), w_hh, b_hh))


@op("gru_cell")
def gru_cell(ctx, self, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return _gru(ctx, _added(relay.nn.dense(self, w_ih), b_ih), [hx], w_hh, b_hh)[0]


@op("rnn_tanh_cell", "rnn_relu_cell")
def rnn_cell(ctx, self, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    step = _STEPS["rnn_tanh" if ctx.name == "rnn_tanh_cell" else "rnn_relu"]
    return step(ctx, _added(relay.nn.dense(self, w_ih), b_ih), [hx], w_hh, b_hh)[0]
