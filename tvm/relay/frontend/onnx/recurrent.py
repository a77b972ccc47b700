"""Converters of recurrent networks.

The matmuls with the inputs of all time steps are computed at once. A static number of steps is unrolled; a dynamic one
becomes a loop.
"""

from __future__ import annotations

import copy

from ....error import TVMError
from ... import op as relay
from ...expr import const
from .loops import Step, repeated
from .quantize import dequantized, dynamically_quantized
from .table import CONVERTERS, MOST_STEPS, argument, op

_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# The parameters alpha and beta of the activations that have them.
_PARAMETERS = {
    "Affine": "ab",
    "LeakyRelu": "a",
    "ThresholdedRelu": "a",
    "ScaledTanh": "ab",
    "HardSigmoid": "ab",
    "Elu": "a",
}


class Recurrent:
    """A recurrent node: the values that its directions share."""

    def __init__(self, ctx, kind: str, inputs: list, attrs):
        self.ctx, self.kind, self.attrs = ctx, kind, attrs
        self.layout = attrs.get("layout", 0)
        self.data = relay.transpose(inputs[0], (1, 0, 2)) if self.layout else inputs[0]
        self.weight, self.recurrence, self.bias = inputs[1], inputs[2], argument(inputs, 3)
        self.lengths = argument(inputs, 4)
        if ctx.rank(self.data) != 3:
            raise TVMError(f"the input must have 3 dimensions (steps, batch, features), got {ctx.rank(self.data)}")
        self.steps, self.batch = ctx.shape(self.data)[:2]
        self.features = ctx.known_size(self.weight, 2)
        self.directions, _, self.hidden = ctx.known_shape(self.recurrence)
        self.states = [argument(inputs, 5), argument(inputs, 6) if kind == "LSTM" else None]
        self.peepholes = argument(inputs, 7) if kind == "LSTM" else None
        self.dtype = ctx.dtype(self.data)
        known = ctx.value(self.lengths)
        if known is not None and isinstance(self.steps, int) and (known == self.steps).all():
            self.lengths = None

    def rounded(self, x):
        """Return the operand of the weights; networks with quantized weights quantize and dequantize it."""
        return x

    def part(self, tensor, direction: int):
        return (
            None
            if tensor is None
            else relay.squeeze(relay.strided_slice(tensor, [direction], [direction + 1], [1], [0]), [0])
        )

    def state(self, which: int, direction: int):
        given = self.states[which]
        if given is None and isinstance(self.batch, int):
            return relay.zeros((self.batch, self.hidden), self.dtype)
        if given is None:
            # Create zeros with a static number of columns and one row per batch element.
            rows = relay.sum(relay.zeros_like(self.data), (0, 2))
            return relay.add(relay.expand_dims(rows, 1), relay.zeros((1, self.hidden), self.dtype))
        given = relay.transpose(given, (1, 0, 2)) if self.layout else given
        return self.part(given, direction)

    def activations(self, direction: int) -> list:
        names = self.attrs.get("activations") or _DEFAULTS[self.kind] * self.directions
        each = len(_DEFAULTS[self.kind])
        alphas, betas = list(self.attrs.get("activation_alpha", [])), list(self.attrs.get("activation_beta", []))
        made = []
        for name in names:
            takes = _PARAMETERS.get(name, "")
            given = {}
            if "a" in takes and alphas:
                given["alpha"] = alphas.pop(0)
            if "b" in takes and betas:
                given["beta"] = betas.pop(0)
            made.append(self.activation(name, given))
        return made[direction * each : (direction + 1) * each]

    def activation(self, name: str, given: dict):
        convert = CONVERTERS.find(name, self.ctx.version)
        if convert is None:
            raise TVMError(f"activation '{name}' is not supported")
        return lambda x: convert(self.ctx, [x], given)

    def clip(self, x):
        limit = self.attrs.get("clip")
        return relay.clip(x, -limit, limit) if limit else x

    def run(self) -> list:
        kinds = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}
        direction = self.attrs.get("direction", "forward")
        results = [self.direction(i, bool(back)) for i, back in enumerate(kinds[direction])]
        y = relay.stack([r[0] for r in results], 1)
        last = [relay.stack([r[1 + s] for r in results], 0) for s in range(len(results[0]) - 1)]
        if self.layout:
            return [relay.transpose(y, (2, 0, 1, 3)), *(relay.transpose(v, (1, 0, 2)) for v in last)]
        return [y, *last]

    def reversed_steps(self, x):
        if self.lengths is None:
            return relay.reverse(x, 0)
        return relay.reverse_sequence(x, relay.cast(self.lengths, "int32"), 0, 1)

    def direction(self, index: int, backwards: bool) -> list:
        gates = _GATES[self.kind] * self.hidden
        data = self.reversed_steps(self.data) if backwards else self.data
        ahead = relay.nn.dense(relay.reshape(self.rounded(data), (-1, self.features)), self.part(self.weight, index))
        bias = self.part(self.bias, index)
        if bias is not None:
            ahead = relay.add(ahead, relay.strided_slice(bias, [0], [gates], [1], [0]))
        if isinstance(self.steps, int) and isinstance(self.batch, int):
            ahead = relay.reshape(ahead, (self.steps, self.batch, gates))
        else:
            ahead = relay.reshape_like(ahead, data, 0, 1, 0, 2)
        states = [self.state(0, index)] + ([self.state(1, index)] if self.kind == "LSTM" else [])
        unrolled = isinstance(self.steps, int) and 0 < self.steps <= MOST_STEPS
        y, states = (self.unrolled if unrolled else self.looped)(index, ahead, states)
        return [self.reversed_steps(y) if backwards else y, *states]

    def cell(self, index: int):
        """Return the cell that computes a step of a direction."""
        bias, gates = self.part(self.bias, index), _GATES[self.kind] * self.hidden
        if bias is not None:
            bias = relay.strided_slice(bias, [gates], [2 * gates], [1], [0])
        return {"RNN": _RNN, "GRU": _GRU, "LSTM": _LSTM}[self.kind](self, index, bias)

    def unrolled(self, index: int, ahead, states: list) -> tuple:
        rows = list(relay.split(ahead, self.steps, 0)) if self.steps > 1 else [ahead]
        cell, outs = self.cell(index), []
        for t, row in enumerate(rows):
            out, states = self.step(cell, relay.squeeze(row, [0]), states, const(t, "int64"))
            outs.append(out)
        return relay.stack(outs, 0), states

    def step(self, cell, row, states: list, number) -> tuple:
        """Return the output and the states after a step; sequences that have ended keep their states and
        output zeros.
        """
        new = cell(row, states)
        if self.lengths is None:
            return new[0], new
        alive = relay.greater(relay.cast(self.lengths, "int64"), number)
        alive = relay.expand_dims(alive, 1)
        return relay.where(alive, new[0], relay.zeros_like(new[0])), [
            relay.where(alive, n, s) for n, s in zip(new, states)
        ]

    def looped(self, index: int, ahead, states: list) -> tuple:
        importer = self.ctx.importer
        infer = importer.typer.infer
        ahead, states = infer(ahead), [infer(s) for s in states]
        count = infer(relay.take(relay.shape_of(ahead, "int64"), const(0, "int64"), 0))
        shared = {name: None if value is None else infer(value) for name, value in self.shared().items()}

        def step(number, values: list) -> Step:
            def inside(value):
                return None if value is None else importer.captured(importer.scopes[-1], value)

            net = copy.copy(self)
            for name, value in shared.items():
                setattr(net, name, inside(value))
            row = relay.take(inside(ahead), number, 0)
            out, new = net.step(net.cell(index), row, values, number)
            return Step(None, [infer(n) for n in new], [infer(out)])

        states, (y,) = repeated(self.ctx, count, None, states, step)
        # Take the batch size from the data: with 0 steps the loop collects nothing that has it.
        return relay.reshape_like(y, ahead, 0, 2, 0, 2), states

    def shared(self) -> dict:
        """Return the values that all steps use."""
        return {name: getattr(self, name) for name in ("recurrence", "bias", "peepholes", "lengths")}

    def cut(self, x, count: int, axis: int = 1) -> list:
        return list(relay.split(x, count, axis)) if count > 1 else [x]


class _RNN:
    def __init__(self, net: Recurrent, index: int, bias):
        self.net, self.bias = net, bias
        self.recurrence = net.part(net.recurrence, index)
        (self.f,) = net.activations(index)

    def __call__(self, ahead, states: list) -> list:
        x = relay.add(ahead, relay.nn.dense(states[0], self.recurrence))
        x = relay.add(x, self.bias) if self.bias is not None else x
        return [self.f(self.net.clip(x))]


class _GRU:
    """A GRU cell; the gates are in the order z, r, h."""

    def __init__(self, net: Recurrent, index: int, bias):
        self.net = net
        self.recurrence = net.cut(net.part(net.recurrence, index), 3, 0)
        self.bias = net.cut(bias, 3, 0) if bias is not None else [None] * 3
        self.f, self.g = net.activations(index)
        self.reset_after = net.attrs.get("linear_before_reset", 0)

    def product(self, h, i: int):
        out = relay.nn.dense(h, self.recurrence[i])
        return out if self.bias[i] is None else relay.add(out, self.bias[i])

    def __call__(self, ahead, states: list) -> list:
        net, (h,) = self.net, states
        xz, xr, xh = net.cut(ahead, 3)
        z = self.f(net.clip(relay.add(xz, self.product(h, 0))))
        r = self.f(net.clip(relay.add(xr, self.product(h, 1))))
        inner = relay.multiply(r, self.product(h, 2)) if self.reset_after else self.product(relay.multiply(r, h), 2)
        n = self.g(net.clip(relay.add(xh, inner)))
        one = const(1, net.dtype)
        return [relay.add(relay.multiply(relay.subtract(one, z), n), relay.multiply(z, h))]


class _LSTM:
    """An LSTM cell; the gates are in the order i, o, f, c and the peepholes in the order i, o, f."""

    def __init__(self, net: Recurrent, index: int, bias):
        self.net, self.bias = net, bias
        self.recurrence = net.part(net.recurrence, index)
        self.f, self.g, self.h = net.activations(index)
        peep = net.part(net.peepholes, index)
        self.peep = net.cut(peep, 3, 0) if peep is not None else None
        self.coupled = net.attrs.get("input_forget", 0)

    def __call__(self, ahead, states: list) -> list:
        net, (h, c) = self.net, states
        gates = relay.add(ahead, relay.nn.dense(net.rounded(h), self.recurrence))
        gates = relay.add(gates, self.bias) if self.bias is not None else gates
        i, o, f, g = net.cut(gates, 4)
        if self.peep is not None:
            i = relay.add(i, relay.multiply(self.peep[0], c))
            f = relay.add(f, relay.multiply(self.peep[2], c))
        i = self.f(net.clip(i))
        f = relay.subtract(const(1, net.dtype), i) if self.coupled else self.f(net.clip(f))
        new = relay.add(relay.multiply(f, c), relay.multiply(i, self.g(net.clip(g))))
        if self.peep is not None:
            o = relay.add(o, relay.multiply(self.peep[1], new))
        return [relay.multiply(self.f(net.clip(o)), self.h(new)), new]


def _recurrent(kind: str):
    def convert(ctx, inputs, attrs):
        return Recurrent(ctx, kind, inputs, attrs).run()

    return convert


for _kind in _GATES:
    op(_kind)(_recurrent(_kind))


class QuantizedRecurrent(Recurrent):
    """An LSTM with int8 or uint8 weights of shape (direction, input, gates).

    Inputs and states are quantized dynamically, each over its own range.
    """

    def __init__(self, ctx, inputs: list, attrs):
        rows = []
        for i in (1, 2):
            weight, scale, zero = inputs[i], argument(inputs, 6 + 2 * i), argument(inputs, 7 + 2 * i)
            real = dequantized(
                ctx, weight, self.expanded_scale(ctx, scale), None if zero is None else self.expanded_scale(ctx, zero)
            )
            rows.append(relay.transpose(real, (0, 2, 1)))
        super().__init__(ctx, "LSTM", [inputs[0], *rows, *inputs[3:8]], attrs)

    @staticmethod
    def expanded_scale(ctx, vector):
        """Reshape a scale per direction, or per direction and gate, so that it broadcasts."""
        return relay.expand_dims(vector, 1, 2 if ctx.rank(vector) == 1 else 1)

    def rounded(self, x):
        return dequantized(self.ctx, *dynamically_quantized(self.ctx, x))


@op("com.microsoft.DynamicQuantizeLSTM")
def dynamic_quantize_lstm(ctx, inputs, attrs):
    return QuantizedRecurrent(ctx, inputs, attrs).run()
