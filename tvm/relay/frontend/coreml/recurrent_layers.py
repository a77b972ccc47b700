"""Converters of recurrent layers. Their data has shape [sequence, batch, channels, 1, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from .layer_ops import activation_of
from .recurrent import LIMIT, Cell, GatedCell, LongCell, PlainCell, run
from .table import Context, check_count, constant, layer
from .values import weight_of


def _activations(ctx: Context, given, count: int) -> list:
    if len(given) != count:
        raise TVMError(f"expected {count} activations, got {len(given)}")
    return [activation_of(ctx, p) for p in given]


def _stacked(owner: Any, names: list[str], shape: tuple[int, ...]) -> np.ndarray:
    """Concatenate the weights of several gates."""
    return np.concatenate([weight_of(getattr(owner, name), shape, name) for name in names])


def _vectors(ctx: Context, x):
    """Reshape the data to [sequence, batch, channels]."""
    sizes = ctx.known_shape(x)
    if len(sizes) != 5 or sizes[3:] != (1, 1):
        raise TVMError(f"data of shape {sizes} is not supported; expected [sequence, batch, channels, 1, 1]")
    return ctx.made(relay.reshape(x, sizes[:3], True))


def _states(ctx: Context, given: list, count: int, batch: int, size: int) -> list:
    """Return the initial states: the given ones, or zeros."""
    check_count("a state", [batch, size])
    if not given:
        return [constant(np.zeros((batch, size), "float32")) for _ in range(count)]
    if len(given) != count:
        raise TVMError(f"expected {count} initial states, got {len(given)}")
    return [ctx.made(relay.reshape(s, (batch, size))) for s in given]


def _result(ctx: Context, outs: list, last, all_steps: bool):
    out = ctx.made(relay.stack(outs, 0) if all_steps else relay.expand_dims(last, 0))
    return ctx.made(relay.expand_dims(out, 3, 2))


def _state(ctx: Context, s):
    """Reshape a state to five dimensions."""
    return ctx.made(relay.expand_dims(relay.expand_dims(s, 0), 3, 2))


def _single(ctx: Context, inputs: list, cell: Cell, reverse: bool, all_steps: bool) -> list:
    x = _vectors(ctx, inputs[0])
    states = _states(ctx, inputs[1:], cell.states, ctx.known_size(x, 1), cell.size)
    outs, states = run(ctx, cell, x, states, reverse)
    return [_result(ctx, outs, states[0], all_steps), *(_state(ctx, s) for s in states)]


@layer("simpleRecurrent")
def simple_recurrent(ctx, inputs, p):
    depth, size = int(p.inputVectorSize), int(p.outputVectorSize)
    cell = PlainCell(ctx, weight_of(p.weightMatrix, (size, depth), "the weights"),
                     weight_of(p.recursionMatrix, (size, size), "the recurrent weights"),
                     weight_of(p.biasVector, (size,), "the bias") if p.hasBiasVector else None,
                     activation_of(ctx, p.activation), LIMIT)  # fmt: skip
    return _single(ctx, inputs, cell, bool(p.reverseInput), bool(p.sequenceOutput))


@layer("gru")
def gru(ctx, inputs, p):
    depth, size = int(p.inputVectorSize), int(p.outputVectorSize)
    gates = ("reset", "output", "update")
    gate, output = _activations(ctx, p.activations, 2)
    cell = GatedCell(ctx, _stacked(p, [f"{g}GateWeightMatrix" for g in gates], (size, depth)),
                     _stacked(p, [f"{g}GateRecursionMatrix" for g in gates], (size, size)),
                     _stacked(p, [f"{g}GateBiasVector" for g in gates], (size,)) if p.hasBiasVectors else None,
                     gate, output, LIMIT)  # fmt: skip
    return _single(ctx, inputs, cell, bool(p.reverseInput), bool(p.sequenceOutput))


_GATES = ("inputGate", "forgetGate", "outputGate", "blockInput")


def _long_cell(ctx: Context, params, weights, activations, depth: int, size: int) -> LongCell:
    bias = _stacked(weights, [f"{g}BiasVector" for g in _GATES], (size,)) if params.hasBiasVectors else None
    if params.forgetBias:
        bias = np.zeros(4 * size, "float32") if bias is None else bias
        bias[size : 2 * size] += 1
    peepholes = None
    if params.hasPeepholeVectors:
        peepholes = _stacked(weights, [f"{g}PeepholeVector" for g in _GATES[:3]], (size,))
    return LongCell(ctx, _stacked(weights, [f"{g}WeightMatrix" for g in _GATES], (size, depth)),
                    _stacked(weights, [f"{g}RecursionMatrix" for g in _GATES], (size, size)), bias,
                    tuple(_activations(ctx, activations, 3)), peepholes, LIMIT, params.cellClipThreshold or LIMIT,
                    bool(params.coupledInputAndForgetGate))  # fmt: skip


@layer("uniDirectionalLSTM")
def long_memory(ctx, inputs, p):
    cell = _long_cell(ctx, p.params, p.weightParams, p.activations, int(p.inputVectorSize), int(p.outputVectorSize))
    return _single(ctx, inputs, cell, bool(p.reverseInput), bool(p.params.sequenceOutput))


@layer("biDirectionalLSTM")
def two_ways(ctx, inputs, p):
    """Bidirectional LSTM.

    The output concatenates both directions along the channels; the states follow, forward first.
    """
    if len(p.weightParams) != 2 or len(inputs) not in (1, 5):
        raise TVMError(f"expected weights of 2 directions, got {len(p.weightParams)}")
    x, size = _vectors(ctx, inputs[0]), int(p.outputVectorSize)
    rows, lasts = [], []
    for way, activations in enumerate((p.activationsForwardLSTM, p.activationsBackwardLSTM)):
        cell = _long_cell(ctx, p.params, p.weightParams[way], activations, int(p.inputVectorSize), size)
        given = inputs[1 + 2 * way : 3 + 2 * way]
        states = _states(ctx, given, 2, ctx.known_size(x, 1), size)
        outs, states = run(ctx, cell, x, states, way == 1)
        rows.append(_result(ctx, outs, states[0], bool(p.params.sequenceOutput)))
        lasts += [_state(ctx, s) for s in states]
    return [relay.concatenate(rows, 2), *lasts]


__all__ = ["gru", "long_memory", "simple_recurrent", "two_ways"]
