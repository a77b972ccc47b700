"""Converters of recurrent layers.

Time steps are unrolled, and the matmuls with the inputs of all steps are computed at once. The state is zero at the
start of a run, also for stateful layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import TVMError, not_defined
from ... import op as relay
from ...expr import Constant, RelayExpr
from .activations import activated
from .config import Layer, flattened
from .conv_ops import convolved, window_padding
from .table import Context, as_list, as_numpy, check_count, check_steps, layer


class Cell:
    """A cell, which computes one time step. ``ahead`` prepares the inputs of all steps at once."""

    def __init__(self, ctx: Context):
        self.ctx = ctx
        self.kernel = ctx.array("recurrent_kernel")
        self.bias = ctx.array("bias") if ctx.get("use_bias", True) else None

    def ahead(self, x: RelayExpr) -> RelayExpr:
        out = self.ctx.product(x, self.ctx.array("kernel"))
        bias = self.input_bias()
        return self.ctx.infer(out if bias is None else relay.add(out, Constant(np.ascontiguousarray(bias))))

    def input_bias(self) -> np.ndarray | None:
        return self.bias

    def zeros(self, x: RelayExpr) -> list[RelayExpr]:
        """Return the initial states for data of one step."""
        batch, units = self.ctx.known_size(x, 0), self.kernel.shape[0]
        check_count("a state", [batch, units])
        return [Constant(np.zeros((batch, units), as_numpy(self.ctx.dtype(x)))) for _ in range(self.states)]

    states = 1

    def step(self, x: RelayExpr, states: list[RelayExpr]) -> list[RelayExpr]:
        """Return the new states, the first of which is the output."""
        raise not_defined(self, "step")

    def gate(self, x: RelayExpr) -> RelayExpr:
        return activated(self.ctx, x, self.ctx.get("recurrent_activation", "sigmoid"))

    def new(self, x: RelayExpr) -> RelayExpr:
        return activated(self.ctx, x, self.ctx.layer.config.get("activation", "tanh"))


class SimpleCell(Cell):
    """A basic recurrent cell."""

    def step(self, x, states):
        return [self.new(relay.add(x, self.ctx.product(states[0], self.kernel)))]


class LongCell(Cell):
    """An LSTM cell."""

    states = 2

    def step(self, x, states):
        total = relay.add(x, self.ctx.product(states[0], self.kernel))
        i, f, g, o = relay.split(total, 4, -1)
        kept = relay.multiply(self.gate(f), states[1])
        carry = self.ctx.infer(relay.add(kept, relay.multiply(self.gate(i), self.new(g))))
        return [relay.multiply(self.gate(o), self.new(carry)), carry]


class GatedCell(Cell):
    """A GRU cell, with the reset gate applied before or after the matmul."""

    @property
    def after(self) -> bool:
        return bool(self.ctx.get("reset_after", self.bias is not None and self.bias.ndim == 2))

    def input_bias(self):
        return self.bias[0] if self.bias is not None and self.after else self.bias

    def step(self, x, states):
        ctx, (h,), units = self.ctx, states, self.kernel.shape[0]
        x_z, x_r, x_h = relay.split(x, 3, -1)
        if self.after:
            own = ctx.product(h, self.kernel)
            if self.bias is not None:
                own = relay.add(own, Constant(np.ascontiguousarray(self.bias[1])))
            own_z, own_r, own_h = relay.split(own, 3, -1)
        else:
            own_z, own_r = relay.split(ctx.product(h, self.kernel[:, : 2 * units]), 2, -1)
        z, r = self.gate(relay.add(x_z, own_z)), self.gate(relay.add(x_r, own_r))
        if self.after:
            own_h = relay.multiply(r, own_h)
        else:
            own_h = ctx.product(ctx.infer(relay.multiply(r, h)), self.kernel[:, 2 * units :])
        new = self.new(relay.add(x_h, own_h))
        return [relay.add(new, relay.multiply(z, relay.subtract(h, new)))]


class ConvolutionCell(LongCell):
    """A convolutional LSTM cell."""

    def ahead(self, x):
        return x

    @property
    def count(self) -> int:
        return self.kernel.ndim - 2

    def zeros(self, x):
        ctx, count = self.ctx, self.count
        sizes = list(ctx.known_shape(x))
        at = 2 if ctx.channels_first() else 1
        window, strides = self.ctx.array("kernel").shape[:count], ctx.numbers_of("strides", count)
        dilations, spatial = ctx.numbers_of("dilation_rate", count), sizes[at : at + count]
        pads = window_padding(ctx.get("padding", "valid"), spatial, window, strides, dilations)
        for i in range(count):
            reach = (window[i] - 1) * dilations[i] + 1
            sizes[at + i] = (spatial[i] + pads[i] + pads[count + i] - reach) // strides[i] + 1
        sizes[1 if ctx.channels_first() else count + 1] = self.kernel.shape[-2]
        check_count("a state", sizes)
        return [Constant(np.zeros(sizes, as_numpy(ctx.dtype(x)))) for _ in range(2)]

    def step(self, x, states):
        ctx, count = self.ctx, self.count
        strides, dilations = ctx.numbers_of("strides", count), ctx.numbers_of("dilation_rate", count)
        axis = 1 if ctx.channels_first() else count + 1
        total = convolved(ctx, x, ctx.array("kernel"), 1, strides, dilations, ctx.get("padding", "valid"))
        total = ctx.biased(total, axis)
        ones = (1,) * count
        total = relay.add(total, convolved(ctx, states[0], self.kernel, 1, ones, ones, "same"))
        i, f, g, o = relay.split(total, 4, axis)
        kept = relay.multiply(self.gate(f), states[1])
        carry = ctx.infer(relay.add(kept, relay.multiply(self.gate(i), self.new(g))))
        return [relay.multiply(self.gate(o), self.new(carry)), carry]


CELLS: dict[str, type[Cell]] = {
    "SimpleRNNCell": SimpleCell, "LSTMCell": LongCell, "GRUCell": GatedCell, "ConvLSTMCell": ConvolutionCell,
}  # fmt: skip


class Stack:
    """Cells that are applied one after the other in each step; inputs are prepared in advance only for a
    single cell.
    """

    def __init__(self, ctx: Context, layers: list[Layer]):
        self.cells = []
        for found in layers:
            if found.kind not in CELLS:
                raise TVMError(f"the cell {found.kind} is not supported")
            inner = Context(ctx.importer, found, ctx.where)
            self.cells.append(CELLS[found.kind](inner))
        self.ctx = ctx

    def ahead(self, x: RelayExpr) -> RelayExpr:
        return self.cells[0].ahead(x)

    def step(self, x: RelayExpr, states: list[list[RelayExpr]]) -> list[list[RelayExpr]]:
        out = []
        for number, (cell, own) in enumerate(zip(self.cells, states)):
            given = x if number == 0 else cell.ahead(out[-1][0])
            out.append([self.ctx.infer(s) for s in cell.step(given, own)])
        return out

    def zeros(self, x: RelayExpr) -> list[list[RelayExpr]]:
        return [cell.zeros(x) for cell in self.cells]


def _cells(found: Layer) -> list[Layer]:
    """Return the cells of a layer."""
    own = [v for k, v in found.inner.items() if k.startswith("cells/")]
    if own:
        return own
    inner = found.inner.get("cell")
    if inner is None:
        raise TVMError("the layer has no cell")
    return _cells(inner) if inner.kind == "StackedRNNCells" else [inner]


def _split_time(ctx: Context, x: RelayExpr, count: int) -> list[RelayExpr]:
    parts = relay.split(x, count, 1) if count > 1 else [x]
    return [ctx.infer(relay.squeeze(part, [1])) for part in parts]


def _chosen(ctx: Context, mask: RelayExpr, new: RelayExpr, old: RelayExpr) -> RelayExpr:
    """Return the new value where the mask of the step is true, otherwise the old value."""
    extra = ctx.rank(new) - ctx.rank(mask)
    spread = relay.expand_dims(mask, ctx.rank(mask), extra) if extra > 0 else mask
    return ctx.infer(relay.where(spread, new, old))


def _given_states(ctx: Context, given: Any, zeros: list[list[RelayExpr]]) -> list[list[RelayExpr]]:
    """Return the initial states: zeros, or the arguments of the call."""
    flat = [e for e in flattened(given) if e is not None]
    if not flat:
        return zeros
    if len(flat) != sum(map(len, zeros)):
        raise TVMError(f"the layer has {sum(map(len, zeros))} states, but got {len(flat)} initial states")
    left = iter(flat)
    return [[ctx.cast(next(left), ctx.dtype(z)) for z in row] for row in zeros]


@layer("RNN", "SimpleRNN", "LSTM", "GRU", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def recurrent(ctx, sequences, initial_state=None, mask=None):
    if isinstance(sequences, list):
        # Keras 2 passes the initial states after the data.
        sequences, *more = sequences
        initial_state = more or initial_state
    if ctx.get("time_major", False):
        raise TVMError("time_major=True is not supported")
    mask = next((m for m in as_list(ctx.mask) if m is not None), None)
    count = ctx.known_size(sequences, 1)
    check_steps("a sequence", count)
    if count == 0:
        raise TVMError("an empty sequence is not supported")
    stack = Stack(ctx, _cells(ctx.layer))
    first = ctx.infer(relay.squeeze(relay.strided_slice(sequences, [0], [1], [1], [1]), [1]))
    states = _given_states(ctx, initial_state, stack.zeros(first))
    rows = _split_time(ctx, stack.ahead(sequences), count)
    counts = _split_time(ctx, ctx.cast(mask, "bool"), count) if mask is not None else [None] * count
    order = range(count - 1, -1, -1) if ctx.get("go_backwards", False) else range(count)
    outs: list[RelayExpr] = []
    for t in order:
        new = stack.step(rows[t], states)
        out = new[-1][0]
        if counts[t] is not None:
            zero = ctx.infer(relay.zeros_like(out))
            before = outs[-1] if outs and not ctx.get("zero_output_for_mask", False) else zero
            out = _chosen(ctx, counts[t], out, before)
            new = [[_chosen(ctx, counts[t], n, o) for n, o in zip(a, b)] for a, b in zip(new, states)]
        states = new
        outs.append(out)
    whole = ctx.get("return_sequences", False)
    result = relay.stack(outs, 1) if whole else outs[-1]
    if not ctx.get("return_state", False):
        ctx.result_mask = mask if whole else None
        return result
    ends = [s for row in states for s in row]
    ctx.result_mask = [mask if whole else None, *[None] * len(ends)]
    return [result, *ends]


@layer("SimpleRNNCell", "LSTMCell", "GRUCell", "ConvLSTMCell", "StackedRNNCells")
def cell(ctx, x, states=None):
    stack = Stack(ctx, _cells(ctx.layer) if ctx.layer.inner else [ctx.layer])
    new = stack.step(stack.ahead(x), _given_states(ctx, states, stack.zeros(x)))
    return [new[-1][0], *(s for row in new for s in row)]


@layer("Bidirectional")
def bidirectional(ctx, sequences, initial_state=None, mask=None):
    if isinstance(sequences, list):
        sequences, *more = sequences
        initial_state = more or initial_state
    forward, backward = ctx.layer.inner["forward_layer"], ctx.layer.inner["backward_layer"]
    mask = next((m for m in as_list(ctx.mask) if m is not None), None)
    states = [e for e in flattened(initial_state) if e is not None]
    half = len(states) // 2
    sides = []
    for side, given in ((forward, states[:half]), (backward, states[half:])):
        sides.append(as_list(ctx.call(side, sequences, initial_state=given or None, masks={"mask": mask})))
    (y, *ends), (y_back, *ends_back) = sides
    whole = forward.get("return_sequences", False)
    if whole:
        y_back = relay.reverse(y_back, 1)
    mode = ctx.layer.config.get("merge_mode", "concat")
    merges = {
        "concat": lambda: relay.concatenate([y, y_back], -1), "sum": lambda: relay.add(y, y_back),
        "mul": lambda: relay.multiply(y, y_back),
        "ave": lambda: relay.multiply(relay.add(y, y_back), ctx.like(0.5, y)),
    }  # fmt: skip
    if mode is not None and mode not in merges:
        raise TVMError(f"merge_mode '{mode}' is not supported")
    results = [y, y_back] if mode is None else [merges[mode]()]
    ctx.result_mask = [mask if whole else None] * len(results) + [None] * (len(ends) + len(ends_back))
    results += [*ends, *ends_back]
    return results if len(results) > 1 else results[0]


@layer("TimeDistributed", masked=True)
def time_distributed(ctx, x, mask=None):
    """Apply the layer with the time steps merged into the batch."""
    sizes = ctx.known_shape(x)
    if len(sizes) < 3:
        raise TVMError(f"the data must have at least 3 dimensions, got {len(sizes)}")
    flat = ctx.infer(relay.reshape(x, (sizes[0] * sizes[1], *sizes[2:])))
    masks: dict[int | str, Any] = {}
    if ctx.mask is not None and ctx.rank(ctx.mask) > 2:
        known = ctx.known_shape(ctx.mask)
        masks[0] = ctx.infer(relay.reshape(ctx.mask, (known[0] * known[1], *known[2:])))
    made = as_list(ctx.call(ctx.layer.inner["layer"], flat, masks=masks))
    out = [relay.reshape(e, (*sizes[:2], *ctx.known_shape(e)[1:])) for e in made]
    return out if len(out) > 1 else out[0]
