"""Converters of recurrent layers.

The data is (steps * batch) rows, first step first. The initial state is an additional input, the final state an
additional output.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.context import check_steps
from .activations import activated
from .conv_ops import Convolution, Product, flat, padding_of
from .table import Context, layer


def _steps(ctx: Context, x: RelayExpr) -> tuple[list[RelayExpr], int]:
    """Split the data into steps. Return the value of each step, and the batch size."""
    steps, rows = ctx.importer.net.time_steps, ctx.known_shape(x)[0]
    if steps < 1 or rows % steps:
        raise TVMError(f"{rows} rows are not divisible into time_steps={steps}")
    check_steps("a sequence", steps)
    return (list(relay.split(x, steps, 0)) if steps > 1 else [x]), rows // steps


def _joined(parts: list[RelayExpr]) -> RelayExpr:
    return relay.concatenate(parts, 0) if len(parts) > 1 else parts[0]


def _hidden(ctx: Context) -> int:
    return ctx.positive("hidden", ctx.positive("output", 1))


def _state(ctx: Context, name: str, *shape: int) -> RelayExpr:
    return ctx.importer.state(f"{ctx.section.name}_{ctx.section.number}_{name}", np.zeros(shape, ctx.importer.dtype))


def _run(
    ctx: Context, parts: list[RelayExpr], state: RelayExpr, taken: Callable, recurrent: Callable, given: Callable
) -> RelayExpr:
    """Run a recurrent state over the steps, and return the stacked outputs."""
    kept, out = ctx.flag("shortcut"), []
    for part in parts:
        new = relay.add(taken(part), recurrent(state))
        state = ctx.made(relay.add(state, new) if kept else new)
        out.append(given(state))
    ctx.importer.keep(state)
    return _joined(out)


@layer("rnn")
def rnn(ctx, x):
    x = flat(ctx, x)
    parts, batch = _steps(ctx, x)
    hidden, outputs = _hidden(ctx), ctx.positive("output", 1)
    name = ctx.section.text("activation", "logistic")
    inner = {0: name, 1: "logistic", 2: "loggy"}.get(ctx.section.int("logistic", 0), name)
    first, own, last = (
        Product(ctx, *sizes) for sizes in ((ctx.known_shape(x)[1], hidden), (hidden, hidden), (hidden, outputs))
    )
    return _run(
        ctx,
        parts,
        _state(ctx, "state", batch, hidden),
        lambda v: first(v, name),
        lambda v: own(v, inner),
        lambda v: last(v, name),
    )


@layer("crnn")
def crnn(ctx, x):
    _, channels, height, width = ctx.image(x)
    parts, batch = _steps(ctx, x)
    hidden, outputs = ctx.positive("hidden_filters", 1), ctx.positive("output_filters", 1)
    size, groups = ctx.positive("size", 3), ctx.positive("groups", 1)
    name = ctx.section.text("activation", "logistic")
    odd = {
        k: v
        for k, v in (
            ("size", size % 2 - 1),
            ("stride", ctx.positive("stride", 1) - 1),
            ("dilation", ctx.positive("dilation", 1) - 1),
        )
        if v
    }
    if odd:
        raise TVMError(f"{next(iter(odd))}={ctx.section.options[next(iter(odd))]} is not supported")
    first, own, last = (
        Convolution(ctx, *sizes, size, groups) for sizes in ((channels, hidden), (hidden, hidden), (hidden, outputs))
    )

    def run(conv: Convolution) -> Callable:
        return lambda v: conv(v, (1, 1), size // 2, 1, name)

    return _run(ctx, parts, _state(ctx, "state", batch, hidden, height, width), run(first), run(own), run(last))


def _gates(ctx: Context, inputs: int, outputs: int, count: int) -> tuple[list[Product], list[Product]]:
    """Return the matmuls of the inputs and those of the state, one for each gate."""
    return (
        [Product(ctx, inputs, outputs) for _ in range(count)],
        [Product(ctx, outputs, outputs) for _ in range(count)],
    )


@layer("gru")
def gru(ctx, x):
    x = flat(ctx, x)
    parts, batch = _steps(ctx, x)
    outputs = ctx.positive("output", 1)
    (wz, wr, wh), (uz, ur, uh) = _gates(ctx, ctx.known_shape(x)[1], outputs, 3)
    last = "tanh" if ctx.flag("tanh") else "logistic"
    state, out = _state(ctx, "state", batch, outputs), []
    for part in parts:
        z = relay.sigmoid(relay.add(uz(state), wz(part)))
        r = relay.sigmoid(relay.add(ur(state), wr(part)))
        h = activated(ctx, relay.add(uh(relay.multiply(state, r)), wh(part)), last)
        one = ctx.like(1, z)
        state = ctx.made(relay.add(relay.multiply(z, state), relay.multiply(relay.subtract(one, z), h)))
        out.append(state)
    ctx.importer.keep(state)
    return _joined(out)


@layer("lstm")
def lstm(ctx, x):
    x = flat(ctx, x)
    parts, batch = _steps(ctx, x)
    outputs = ctx.positive("output", 1)
    weights, recurrent = _gates(ctx, ctx.known_shape(x)[1], outputs, 4)
    cell, hidden, out = _state(ctx, "cell", batch, outputs), _state(ctx, "state", batch, outputs), []
    for part in parts:
        i, f, o, g = (relay.add(w(part), u(hidden)) for w, u in zip(weights, recurrent))
        cell = ctx.made(
            relay.add(relay.multiply(relay.sigmoid(f), cell), relay.multiply(relay.sigmoid(i), relay.tanh(g)))
        )
        hidden = ctx.made(relay.multiply(relay.tanh(cell), relay.sigmoid(o)))
        out.append(hidden)
    ctx.importer.keep(cell)
    ctx.importer.keep(hidden)
    return _joined(out)


@layer("conv_lstm")
def conv_lstm(ctx, x):
    """Convert a convolutional LSTM. With ``peephole`` the gates also depend on the cell.

    The activation is applied after each convolution. The cell is clipped to ``state_constrain`` after the output is
    computed.
    """
    _, channels, height, width = ctx.image(x)
    parts, batch = _steps(ctx, x)
    outputs, size, groups = (ctx.positive(k, d) for k, d in (("output", 1), ("size", 3), ("groups", 1)))
    padding, bound = padding_of(ctx, size), ctx.section.int("state_constrain", 32 * ctx.importer.net.time_steps)
    if ctx.positive("stride", 1) != 1 or ctx.positive("dilation", 1) != 1 or 2 * padding != size - 1:
        raise TVMError(
            f"kernel size {size} with a stride, dilation or padding that changes the image size is not supported"
        )
    name = ctx.section.text("activation", "linear")

    def gates(count: int, inputs: int) -> list[Callable]:
        convs = [Convolution(ctx, inputs, outputs, size, groups) for _ in range(count)]
        return [lambda v, c=c: c(v, (1, 1), padding, 1, name) for c in convs]

    peep = gates(3, outputs) if ctx.flag("peephole") else []
    own, given = gates(4, outputs), gates(4, channels)
    shape = (batch, outputs, height, width)
    cell, hidden, out = _state(ctx, "cell", *shape), _state(ctx, "state", *shape), []
    for part in parts:
        f, i, g, o = (relay.add(u(hidden), w(part)) for u, w in zip(own, given))
        if peep:
            f, i = relay.add(f, peep[0](cell)), relay.add(i, peep[1](cell))
        cell = ctx.made(
            relay.add(relay.multiply(relay.sigmoid(f), cell), relay.multiply(relay.sigmoid(i), relay.tanh(g)))
        )
        o = relay.add(o, peep[2](cell)) if peep else o
        hidden = ctx.made(relay.multiply(relay.tanh(cell), relay.sigmoid(o)))
        cell = ctx.made(relay.clip(cell, -float(bound), float(bound))) if bound else cell
        out.append(hidden)
    ctx.importer.keep(cell)
    ctx.importer.keep(hidden)
    return _joined(out)
