"""Converters of quantized recurrent layers: data, weights and outputs have 8 bits, gates and cell states 16.

Gates have 3 integer bits and 12 fraction bits; the scale of a cell state is a power of two. LiteRT computes the 16-bit
sigmoid and hyperbolic tangent by polynomials and Newton steps; here their 65,536 outputs are tables.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .integer_tables import integers, rounding_shift
from .load import Tensor
from .quantization import RANGES, fixed_point, looked_up, scaled
from .recurrent import LSTM_GATES, state_of, unrolled
from .table import Context, argument, quantized

_ONE = 32767  # The largest number below 1 with 15 fraction bits.
_GATE_SCALE = 2.0**-12
# exp(-2^e) with 31 fraction bits, by e.
_FACTORS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}


# -- 16-bit functions in fixed point ----------------------------------------------------------------------------------


def _short(number: int) -> int:
    """Round a number with 31 fraction bits to 15 fraction bits."""
    return int(rounding_shift(np.int64(number), 16))


def _times(a, b) -> np.ndarray:
    """Return the rounded high half of the doubled 16-bit product."""
    product = np.int64(a) * np.int64(b)
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.minimum(np.sign(nudged) * (np.abs(nudged) >> 15), _ONE)


def _shifted(x: np.ndarray, bits: int) -> np.ndarray:
    """Multiply by a power of two, saturated to int16."""
    return np.clip(x << bits, -32768, _ONE) if bits >= 0 else rounding_shift(x, -bits)


def _exp(x: np.ndarray, whole: int) -> np.ndarray:
    """Return exp of numbers that are at most 0, with ``whole`` integer bits, as numbers below 1."""
    after = 15 - whole
    quarter = 1 << after >> 2
    rest = (x & (quarter - 1)) - quarter
    at = _shifted(rest, whole) + (1 << 12)
    square = _times(at, at)
    cube, fourth = _times(square, at), _times(square, square)
    more = _shifted(_times(_shifted(fourth, -2) + cube, _short(715827883)) + square, -1)
    eighth = _short(1895147668)
    out = np.clip(eighth + _times(eighth, at + more), -32768, _ONE)
    left = rest - x
    for exponent, factor in _FACTORS.items():
        if whole > exponent:
            out = np.where(left & (1 << (after + exponent)), _times(out, _short(factor)), out)
    if whole > 5:
        out = np.where(x < -(1 << (after + 5)), 0, out)
    return np.where(x == 0, _ONE, out)


def _inverse(x: np.ndarray) -> np.ndarray:
    """Return 2 / (1 + x) for numbers from 0 to 1, with 2 integer bits, by three Newton steps."""
    total = x + _ONE
    half = np.sign(total) * ((np.abs(total) + 1) >> 1)
    out = _short(1515870810) + _times(half, _short(-1010580540))
    for _ in range(3):
        out = out + _shifted(_times(out, (1 << 13) - _times(half, out)), 2)
    return out


@cache
def sigmoid_table() -> np.ndarray:
    """Return the sigmoid of all 16-bit numbers with 3 integer bits."""
    x = integers("int16")
    above = _shifted(_inverse(_exp(-np.abs(x), 3)), 1)
    return np.where(x > 0, above, np.where(x == 0, 1 << 14, _ONE - above)).astype("int16")


@cache
def tanh_table(whole: int) -> np.ndarray:
    """Return the hyperbolic tangent of all 16-bit numbers with ``whole`` integer bits."""
    x = integers("int16")
    size = _shifted(_inverse(_exp(-np.abs(x), whole + 1)) - (1 << 13), 2)
    return (np.sign(x) * size).astype("int16")


# -- long short-term memory -------------------------------------------------------------------------------------------


def _scale(ctx: Context, tensor: Tensor, types: tuple[str, ...]) -> float:
    if tensor.type not in types:
        raise TVMError(f"tensor '{tensor.name}' has type {tensor.type}; it must be {' or '.join(types)}")
    if tensor.quantization is None or not tensor.quantization.is_single:
        raise TVMError(f"tensor '{tensor.name}' must have exactly one quantization scale")
    return float(tensor.quantization.scale[0])


def _zero(tensor: Tensor) -> int:
    assert tensor.quantization is not None
    return int(tensor.quantization.zero_point[0])


def _narrow(x: RelayExpr, dtype: str) -> RelayExpr:
    return relay.cast(relay.clip(x, *RANGES[dtype]), dtype)


def _wide(x: RelayExpr) -> RelayExpr:
    return relay.cast(x, "int32")


def _rounded(a: RelayExpr, b: RelayExpr, bits: int) -> RelayExpr:
    """Return a 16-bit product divided by a power of two, with ties rounded away from zero, as int16."""
    product = relay.multiply(_wide(a), _wide(b))
    lowered = relay.add(product, relay.right_shift(product, const(31, "int32")))
    raised = relay.add(lowered, const(1 << (bits - 1), "int32"))
    return _narrow(relay.right_shift(raised, const(bits, "int32")), "int16")


class _Weights:
    """A weight matrix for data with a scale and a zero point, and the scale of the output."""

    def __init__(self, ctx: Context, inputs: list, index: int, data: Tensor, bias: int | None, result: float):
        matrix = ctx.array(inputs[index], "the weights")
        if matrix.ndim != 2:
            raise TVMError(f"weights must have 2 dimensions, got {matrix.ndim}")
        total = -_zero(data) * matrix.astype("int64").sum(1)
        if bias is not None and argument(inputs, bias) is not None:
            total = total + ctx.array(inputs[bias], "the bias").astype("int64")
        self.matrix, self.bias = Constant(matrix), Constant(total.astype("int32"))
        scale = _scale(ctx, ctx.tensor(index), ("int8",))
        given = _scale(ctx, data, ("int8",))
        self.factor = fixed_point(float(np.float32(scale) * np.float32(given) / np.float32(result)))

    def times(self, x: RelayExpr) -> RelayExpr:
        return scaled(relay.add(relay.nn.dense(x, self.matrix, out_dtype="int32"), self.bias), [self.factor])


class _Gate:
    """One of the four gates; ``cell`` is the input index of its peephole weights."""

    def __init__(self, ctx: Context, inputs: list, at: tuple[int, int, int, int, int], power: int):
        data, back, cell, bias, norm = at
        if argument(inputs, norm) is not None:
            raise TVMError("layer normalization in quantized gates is not supported")
        if argument(inputs, back) is None:
            raise TVMError("the recurrent weights of a gate are missing")
        self.data = _Weights(ctx, inputs, data, ctx.tensor(0), bias, _GATE_SCALE)
        self.back = _Weights(ctx, inputs, back, ctx.tensor(18), None, _GATE_SCALE)
        self.cell, self.factor = None, (0, 0)
        if argument(inputs, cell) is not None:
            scale = _scale(ctx, ctx.tensor(cell), ("int16",))
            self.cell = relay.cast(inputs[cell], "int32")
            self.factor = fixed_point(float(np.float32(2.0**power * np.float32(scale) / _GATE_SCALE)))

    def sum(self, x: RelayExpr, h: RelayExpr, c: RelayExpr | None) -> RelayExpr:
        total = _narrow(self.data.times(x), "int16")
        total = _narrow(relay.add(_wide(total), self.back.times(h)), "int16")
        if self.cell is not None and c is not None:
            seen = scaled(relay.multiply(_wide(c), self.cell), [self.factor])
            total = _narrow(relay.add(_wide(total), seen), "int16")
        return total


class _Cell:
    """A quantized LSTM cell."""

    def __init__(self, ctx: Context, inputs: list, options):
        if ctx.activation(options.fused_activation) != "TANH" or getattr(options, "diagonal", False):
            raise TVMError("a quantized LSTM must have the activation TANH and no diagonal recurrent weights")
        cell = _scale(ctx, ctx.tensor(19), ("int16",))
        self.power = round(math.log2(cell))
        if abs(cell - 2.0**self.power) > cell * 1e-6 or not -15 <= self.power <= -9:
            raise TVMError(f"cell state scale {cell} is not supported; it must be a power of two from 2^-15 to 2^-9")
        hidden, state = ctx.intermediate(4), ctx.tensor(18)
        self.gates = [
            None if argument(inputs, at[0]) is None else _Gate(ctx, inputs, at, self.power) for at in LSTM_GATES
        ]
        if any(g is None for g in self.gates[1:]):
            raise TVMError("the weights of a gate are missing")
        shown = np.float32(_scale(ctx, hidden, ("int8",)))
        self.shown, self.zero = fixed_point(float(np.float32(2.0**-30 / float(shown)))), _zero(hidden)
        self.clip = _steps_within(options.cell_clip, cell, "int16")
        self.projection = None
        if argument(inputs, 16) is not None:
            scale = _scale(ctx, state, ("int8",))
            self.projection = _Weights(ctx, inputs, 16, hidden, 17, scale)
            self.state_zero, self.state_clip = _zero(state), _steps_within(options.proj_clip, scale, "int8")

    def step(self, x: RelayExpr, h: RelayExpr, c: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
        into, forget, new, out = self.gates
        assert forget is not None and new is not None and out is not None

        def sigmoid(v: RelayExpr) -> RelayExpr:
            return looked_up(v, sigmoid_table(), "int16")

        kept = sigmoid(forget.sum(x, h, c))
        taken = relay.subtract(const(_ONE, "int16"), kept) if into is None else sigmoid(into.sum(x, h, c))
        fresh = looked_up(new.sum(x, h, None), tanh_table(3), "int16")
        c = relay.add(_wide(_rounded(kept, c, 15)), _wide(_rounded(fresh, taken, 30 + self.power)))
        c = _narrow(c, "int16")
        c = relay.clip(c, -self.clip, self.clip) if self.clip else c
        open_ = sigmoid(out.sum(x, h, c))
        product = relay.multiply(_wide(open_), _wide(looked_up(c, tanh_table(15 + self.power), "int16")))
        h = _narrow(relay.add(scaled(product, [self.shown]), const(self.zero, "int32")), "int8")
        if self.projection is not None:
            h = _narrow(relay.add(self.projection.times(h), const(self.state_zero, "int32")), "int8")
            h = relay.clip(h, -self.state_clip, self.state_clip) if self.state_clip else h
        return h, c


def _steps_within(bound: float, scale: float, dtype: str) -> int:
    """Return a clipping bound in quantization steps; 0 means no clipping."""
    return int(min(max(np.float32(bound) / np.float32(scale), -RANGES[dtype][1]), RANGES[dtype][1])) if bound > 0 else 0


@quantized("UNIDIRECTIONAL_SEQUENCE_LSTM")
def integer_lstm(ctx, inputs, options):
    return unrolled(ctx, _Cell(ctx, inputs, options), inputs, options)


# -- SVDF: filters over the last time steps ---------------------------------------------------------------------------


@quantized("SVDF")
def integer_svdf(ctx, inputs, options):
    """Convert a quantized SVDF layer: 16-bit features are the state, the filters have 16 bits and their sums
    32 bits.
    """
    data, state, out = ctx.tensor(0), ctx.tensor(4), ctx.result()
    given, kept, made = (_scale(ctx, t, ("int8", "int16")) for t in (data, state, out))
    feature, time = (_scale(ctx, ctx.tensor(i), ("int8", "int16")) for i in (1, 2))
    filters, memory = ctx.known_shape(inputs[2])
    batch, rank = ctx.known_size(inputs[0], 0), options.rank
    if rank < 1 or filters % rank or state.type != "int16":
        raise TVMError(f"an SVDF layer with {filters} filters of rank {rank} and a {state.type} state is not supported")
    centred = relay.subtract(_wide(inputs[0]), const(_zero(data), "int32"))
    sums = relay.nn.dense(centred, _wide(inputs[1]), out_dtype="int32")
    new = _narrow(scaled(sums, [fixed_point(given * feature / kept)]), "int16")
    last = relay.reshape(state_of(inputs, 4), (batch, filters, memory))
    new = relay.expand_dims(new, 2)
    last = relay.concatenate([relay.strided_slice(last, [1], [memory], [1], [2]), new], 2) if memory > 1 else new
    found = relay.sum(relay.multiply(_wide(last), relay.expand_dims(_wide(inputs[2]), 0)), axis=2)
    found = relay.sum(relay.reshape(found, (batch, filters // rank, rank)), axis=2)
    found = found if argument(inputs, 3) is None else relay.add(found, inputs[3])
    ctx.keep(4, relay.reshape(last, (batch, filters * memory)))
    shown = relay.add(scaled(found, [fixed_point(kept * time / made)]), const(_zero(out), "int32"))
    return _narrow(shown, out.dtype)
