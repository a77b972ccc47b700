"""Converters of recurrent networks. The operator contains its step as a net, which the importer unrolls."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .load import Net
from .table import Context, check_steps, numbers, op


@op("LSTMUnit")
def lstm_unit(ctx, inputs, args):
    """One LSTM step, given the gate pre-activations (input, forget, output, candidate).

    Sequences that have ended keep their states, or get zeros if ``drop_states`` is set.
    """
    has_lengths = bool(args.get("sequence_lengths", 1))
    if len(inputs) != (5 if has_lengths else 4):
        raise TVMError(f"expected {5 if has_lengths else 4} inputs, got {len(inputs)}")
    hidden, cell, gates = inputs[:3]
    size, rank = ctx.known_size(cell, ctx.rank(cell) - 1), ctx.rank(gates)
    if rank != 3 or ctx.known_size(gates, 2) != 4 * size or ctx.known_shape(hidden) != ctx.known_shape(cell):
        raise TVMError(f"gates of shape {ctx.shape(gates)} do not match cells of shape {ctx.shape(cell)}")
    i, f, o, g = relay.split(gates, 4, 2)
    f = relay.add(f, ctx.like(float(args.get("forget_bias", 0.0)), f))
    new = ctx.made(relay.add(relay.multiply(relay.sigmoid(f), cell), relay.multiply(relay.sigmoid(i), relay.tanh(g))))
    out = relay.multiply(relay.sigmoid(o), relay.tanh(new))
    if not has_lengths:
        return [out, new]
    alive = relay.less(relay.cast(inputs[4], "int32"), relay.cast(inputs[3], "int32"))
    alive = ctx.made(relay.reshape(alive, (1, -1, 1)))
    ended = [const(0.0), const(0.0)] if args.get("drop_states", 0) else [hidden, cell]
    return [relay.where(alive, value, last) for value, last in zip((out, new), ended)]


class _Sequences:
    """The tensors of all steps by name, each as a list of one tensor per step."""

    def __init__(self, ctx: Context, steps: int):
        self.ctx, self.steps = ctx, steps
        self.rows: dict[str, list[RelayExpr | None]] = {}

    def of(self, name: str) -> list[RelayExpr | None]:
        if name not in self.rows:
            value = self.ctx.importer.value(name, self.ctx.where)
            count = self.ctx.known_size(value, 0)
            check_steps("a sequence", count)
            self.rows[name] = list(relay.split(value, count, 0)) if count > 1 else [value]
        return self.rows[name]

    def window(self, name: str, begin: int, count: int) -> RelayExpr:
        found = self.of(name)[max(begin, 0) : begin + count]
        if begin < 0 or count < 1 or len(found) != count or any(v is None for v in found):
            raise TVMError(f"steps {begin} to {begin + count} of '{name}' do not exist")
        return self.ctx.made(relay.concatenate(found, 0)) if count > 1 else self.ctx.made(found[0])

    def write(self, name: str, at: int, value: RelayExpr) -> None:
        rows = self.rows.setdefault(name, [])
        if not at <= len(rows) <= at + 1 or at < 0:
            raise TVMError(f"step {at} of '{name}' is written, but only {len(rows)} steps exist")
        rows[at:] = [value]

    def whole(self, name: str) -> RelayExpr:
        rows = self.of(name)
        return self.ctx.made(relay.concatenate(rows, 0) if len(rows) > 1 else rows[0])


def _names(args: dict[str, Any], name: str) -> list[str]:
    found = args.get(name, [])
    if not isinstance(found, list) or any(not isinstance(v, bytes) for v in found):
        raise TVMError(f"the argument {name} must be a list of names, got {found!r}"[:200])
    return [v.decode("utf-8", "replace") for v in found]


def _zip_equal(*lists: list) -> list[tuple]:
    if len({len(v) for v in lists}) > 1:
        raise TVMError(
            f"argument lists that belong together have different lengths: {' and '.join(str(len(v)) for v in lists)}"
        )
    return list(zip(*lists))


def _set_initial_states(
    ctx: Context, inputs: list[RelayExpr], args: dict[str, Any], sequences: _Sequences, batch: int
) -> None:
    """Set the states before the first step.

    A state is a vector for the whole batch, a matrix (batch, size), or several steps.
    """
    for name, place in _zip_equal(_names(args, "recurrent_states"), numbers(args, "initial_recurrent_state_ids", [])):
        if not 0 <= place < len(inputs):
            raise TVMError(f"initial_recurrent_state_ids {place} is out of range for {len(inputs)} inputs")
        first, shape = inputs[place], ctx.known_shape(inputs[place])
        if len(shape) == 1:
            first = relay.broadcast_to(relay.reshape(first, (1, 1, shape[0])), (1, batch, shape[0]))
        elif len(shape) == 2:
            first = relay.expand_dims(first, 0)
        elif len(shape) != 3:
            raise TVMError(f"an initial state of shape {shape} is not supported")
        count = shape[0] if len(shape) == 3 else 1
        check_steps("a sequence of initial states", count)
        sequences.rows[name] = list(relay.split(first, count, 0)) if count > 1 else [first]


@op("RecurrentNetwork")
def recurrent_network(ctx, inputs, args):
    """Unroll a recurrent network.

    Links map the steps of sequences to the inputs and outputs of the step net. Aliases map parts of sequences to
    outputs.
    The last output is Caffe2's workspace, which only training reads.
    """
    net = args.get("step_net")
    if not isinstance(net, Net):
        raise TVMError("the argument step_net must be a net; a net in text form is not supported")
    steps, batch = ctx.known_shape(inputs[0])[:2]
    if steps < 1:
        raise TVMError("a sequence without steps is not supported")
    check_steps("a sequence", steps)
    sequences = _Sequences(ctx, steps)
    _set_initial_states(ctx, inputs, args, sequences, batch)
    offsets = numbers(args, "link_offset", [])
    links = _zip_equal(
        _names(args, "link_internal"),
        _names(args, "link_external"),
        offsets,
        numbers(args, "link_window", [1] * len(offsets)),
    )
    made = {name for each in net.operators for name in each.outputs}
    clock = args.get("timestep", b"timestep").decode("utf-8", "replace")
    for t in range(steps):
        scope = {clock: const(np.array([t], "int32"))}
        for internal, external, offset, window in links:
            if internal not in made:
                scope[internal] = sequences.window(external, t + offset, window)
        with ctx.importer.inner_scope(scope):
            for each in net.operators:
                ctx.importer.convert(each)
        for internal, external, offset, _ in links:
            if internal in made:
                sequences.write(external, t + offset, scope[internal])
    results = {external: sequences.whole(external) for _, external, _, _ in links}
    ctx.importer.scopes[-1].update(results)
    for source, name, offset in _zip_equal(
        _names(args, "alias_src"), _names(args, "alias_dst"), numbers(args, "alias_offset", [])
    ):
        count = len(sequences.of(source))
        start = offset if offset >= 0 else count + offset
        if not 0 <= start < count:
            raise TVMError(f"alias_offset {offset} is out of range for the {count} steps of '{source}'")
        results[name] = relay.strided_slice(sequences.whole(source), [start], [count], [1], [0])
    missing = [name for name in ctx.operator.outputs[:-1] if name not in results]
    if missing:
        raise TVMError(f"no link or alias produces the output '{missing[0]}'")
    return [*(results[name] for name in ctx.operator.outputs[:-1]), const(0)]
