"""Activations and normalizations."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType
from ...expr import TupleWrapper
from ..record import ELEMWISE, OPAQUE, call, op
from ..rules import dims, normalize_axis, same_as_first, tensor


@op("nn.relu", 1, pattern=ELEMWISE, type_rule=same_as_first, compute=lambda attrs, inputs, out: topi.nn.relu(inputs[0]))
def relu(data):
    """max(x, 0), element by element."""
    return call("nn.relu", data)


def _softmax_type(attrs, types):
    normalize_axis(attrs.axis, len(dims(tensor(types[0]))))
    return types[0]


@op("nn.softmax", 1, pattern=OPAQUE, type_rule=_softmax_type,
    compute=lambda attrs, inputs, out: topi.nn.softmax(inputs[0], attrs.axis))
def softmax(data, axis=-1):
    """exp(x) / sum(exp(x)) along an axis."""
    return call("nn.softmax", data, axis=int(axis))


def _batch_norm_type(attrs, types):
    data = tensor(types[0], "the data")
    axis = normalize_axis(attrs.axis, len(dims(data)))
    size = dims(data)[axis]
    for what, t in zip(("gamma", "beta", "moving_mean", "moving_var"), types[1:]):
        if dims(tensor(t, what)) != (size,):
            raise TypeError(f"{what} is a vector of {size} numbers, got shape {dims(t)}")
    vector = TensorType((size,), data.dtype)
    return TupleType((data, vector, vector))


def _batch_norm_inputs(attrs, types):
    data = tensor(types[0], "the data")
    vector = TensorType((dims(data)[normalize_axis(attrs.axis, len(dims(data)))],), data.dtype)
    return [data, vector, vector, vector, vector]


@op("nn.batch_norm", 5, pattern=OPAQUE, type_rule=_batch_norm_type, infer_inputs=_batch_norm_inputs)
def batch_norm(data, gamma, beta, moving_mean, moving_var, axis=1, epsilon=1e-5, center=True, scale=True):
    """(x - mean) / sqrt(var + epsilon) * gamma + beta along an axis; also the running mean and variance."""
    made = call("nn.batch_norm", data, gamma, beta, moving_mean, moving_var, axis=int(axis), epsilon=float(epsilon),
                center=bool(center), scale=bool(scale))
    return TupleWrapper(made, 3)
