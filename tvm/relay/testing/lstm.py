"""A chain of LSTM cells."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.tensor import add, multiply, sigmoid, tanh, zeros
from ..op.transform import split
from ..substitute import free_vars
from .init import create_workload


def lstm_cell(data, hidden, cell, num_hidden: int, name: str, dtype: str = "float32"):
    """One step: the new hidden state and the new cell state. Gates lie in the order input, forget, new, output."""
    wide = 4 * num_hidden

    def gates(value, source: str):
        weight = var(f"{name}{source}_weight", shape=(wide, num_hidden), dtype=dtype)
        return nn.bias_add(nn.dense(value, weight, units=wide), var(f"{name}{source}_bias", shape=(wide,), dtype=dtype))

    in_gate, forget_gate, new, out_gate = split(add(gates(data, "i2h"), gates(hidden, "h2h")), 4, axis=1)
    cell = add(multiply(sigmoid(forget_gate), cell), multiply(sigmoid(in_gate), tanh(new)))
    return multiply(sigmoid(out_gate), tanh(cell)), cell


def get_net(iterations, num_hidden, batch_size=1, dtype="float32") -> Function:
    """``iterations`` steps on the same input, each with weights of its own; gives the last hidden state."""
    data = var("data", shape=(batch_size, num_hidden), dtype=dtype)
    hidden = cell = zeros((batch_size, num_hidden), dtype)
    for step in range(iterations):
        hidden, cell = lstm_cell(data, hidden, cell, num_hidden, f"lstm_{step}_", dtype)
    return Function(free_vars(hidden), hidden)


def get_workload(iterations, num_hidden, batch_size=1, dtype="float32"):
    """The model as a module, and values of its parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
