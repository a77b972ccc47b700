"""A network of LSTM cells."""

from __future__ import annotations

from ...ir.tensor_type import TensorType
from ...ir.type import TupleType
from ..expr import Call, Function, Tuple, TupleGetItem, Var
from ..op import nn
from ..op.tensor import add, multiply, sigmoid, tanh, zeros
from ..op.transform import split
from ..scope_builder import ScopeBuilder
from ..substitute import free_vars
from .init import create_workload


def lstm_cell(num_hidden, batch_size=1, dtype="float32", name="") -> Function:
    """Return one LSTM step as a function of the input, the states (hidden, cell), and the weights and biases of the
    input and the hidden state.

    The function returns the new hidden state and the new states. The gates are in the order input, forget, cell,
    output. ``name`` is a prefix of the parameter names.
    """
    wide = 4 * num_hidden
    state = TensorType((batch_size, num_hidden), dtype)
    weight, bias = TensorType((wide, num_hidden), dtype), TensorType((wide,), dtype)
    types = (state, TupleType((state, state)), weight, bias, weight, bias)
    names = ("inputs", "states", "i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")
    inputs, states, *weights = params = [Var(name + n, t) for n, t in zip(names, types)]

    def gates(value, weight, bias):
        return nn.bias_add(nn.dense(value, weight, units=wide), bias)

    both = add(gates(inputs, *weights[:2]), gates(TupleGetItem(states, 0), *weights[2:]))
    in_gate, forget_gate, new, out_gate = split(both, 4, axis=1)
    cell = multiply(sigmoid(forget_gate), TupleGetItem(states, 1))
    cell = add(cell, multiply(sigmoid(in_gate), tanh(new)))
    hidden = multiply(sigmoid(out_gate), tanh(cell))
    return Function(params, Tuple([hidden, Tuple([hidden, cell])]), TupleType((state, TupleType((state, state)))))


def get_net(iterations, num_hidden, batch_size=1, dtype="float32") -> Function:
    """Return a network of ``iterations`` steps, each with its own input (``data``, ``data1``, ``data2`` ...) and
    weights. The output is the last hidden state."""
    scope = ScopeBuilder()
    start = scope.let("zeros", zeros((batch_size, num_hidden), dtype))
    out, states = start, scope.let("init_states", Tuple([start, start]))
    for step in range(iterations):
        cell = lstm_cell(num_hidden, batch_size, dtype, f"lstm_{step}")
        inputs, _, *weights = [p.type_annotation for p in cell.params]
        names = [f"{source}_{step}_{kind}" for source in ("i2h", "h2h") for kind in ("weight", "bias")]
        args = [Var(n, t) for n, t in zip(names, weights)]
        made = scope.let(f"call_{step}", Call(cell, [Var(f"data{step or ''}", inputs), states, *args]))
        out = scope.let(f"out_{step}", TupleGetItem(made, 0))
        states = scope.let(f"states_{step}", TupleGetItem(made, 1))
    scope.ret(out)
    body = scope.get()
    return Function(free_vars(body), body)


def get_workload(iterations, num_hidden, batch_size=1, dtype="float32"):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
