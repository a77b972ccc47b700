"""Converters of recurrent networks.

The matmuls with the inputs of all time steps are one matmul. A static number of steps is unrolled; a dynamic one
becomes a loop.
"""

from __future__ import annotations

from ....error import TVMError
from ....ir.prim import Any_
from ....ir.tensor_type import TensorType
from ....ir.type import FuncType, TupleType
from ... import op as relay
from ...expr import Call, Function, If, Let, Tuple, TupleGetItem, Var, const
from ..common.control import joined
from ..common.incremental import opened, tensor_type
from ..common.row_lists import RowLists
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
    """Convert one direction of a layer; return the outputs of all steps and the final states."""
    steps, batch, width = *ctx.shape(x)[:2], ctx.known_size(params[0], 1)
    weight, own, *more = params
    bias, own_bias = more[:2] if len(more) > 1 else (None, None)
    projection = more[-1] if len(more) % 2 else None
    ahead = _added(relay.nn.dense(relay.reshape(x, (-1, width)), weight), bias)
    if isinstance(steps, int) and isinstance(batch, int):
        ahead = relay.reshape(ahead, (steps, batch, ctx.known_size(weight, 0)))
    else:
        ahead = relay.reshape_like(ahead, x, 0, 1, 0, 2)

    def step(row, before: list) -> list:
        after = _STEPS[kind](ctx, row, before, own, own_bias)
        if projection is not None:
            after[0] = relay.nn.dense(after[0], projection)
        return [ctx.infer(s) for s in after]

    if not isinstance(steps, int):
        return _looped(ctx, relay.reverse(ahead, 0) if backwards else ahead, states, step, backwards)
    check_steps("a sequence", steps)
    rows = list(relay.split(ahead, steps, 0)) if steps > 1 else [ahead]
    outs = []
    for row in reversed(rows) if backwards else rows:
        states = step(relay.squeeze(row, [0]), states)
        outs.append(states[0])
    return relay.stack(outs[::-1] if backwards else outs, 0), states


def _looped(ctx, ahead, states, step, backwards: bool):
    """Convert the steps to a recursive function with the states and a list of the hidden states so far."""
    importer, lists = ctx.importer, RowLists(ctx.importer)
    ahead = ctx.infer(ahead)
    count = ctx.infer(relay.take(relay.shape_of(ahead, "int64"), const(0, "int64"), 0))
    number = importer.local("step", TensorType((), "int64"))
    row = ctx.infer(relay.take(ahead, number, 0))
    types = [opened(tensor_type(s)) for s in states]
    while True:
        variables = [importer.local(f"state{i}", t) for i, t in enumerate(types)]
        after = step(row, variables)
        found = [joined(t, opened(tensor_type(s))) for t, s in zip(types, after)]
        if all(a is b for a, b in zip(found, types)):
            break
        types = found
    part = TensorType([Any_(), *types[0].shape], types[0].dtype)
    rows = importer.local("rows", lists.list_of(part))
    result = TupleType((*types, rows.type_annotation))
    function = Var("recurrent", FuncType((number.type_annotation, *result.fields), result))
    more = lists.call("Cons", [ctx.infer(relay.expand_dims(after[0], 0)), rows], rows.type_annotation)
    again = Call(function, [ctx.infer(relay.add(number, const(1, "int64"))), *after, more])
    goes = ctx.infer(relay.less(number, count))
    body = If(goes, importer.given_type(again, result), Tuple([*variables, rows]))
    first = Call(function, [const(0, "int64"), *states, lists.call("Nil", [], rows.type_annotation)])
    whole = importer.given_type(Let(function, Function([number, *variables, rows], body, result), first), result)
    fields = [importer.given_type(TupleGetItem(whole, i), t) for i, t in enumerate(result.fields)]
    out = lists.concatenated(lists.call("rev", [fields[-1]], rows.type_annotation), part, 0, empty=True)
    out = relay.reshape_like(out, ahead, 0, 2, 0, 2)
    return relay.reverse(out, 0) if backwards else out, fields[:-1]


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
    # Two weights, two biases, and the projection of hidden states if there is one.
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
        return _network(
            ctx, kind, self, states, list(params), has_biases, num_layers, dropout, train, bidirectional, batch_first
        )


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
