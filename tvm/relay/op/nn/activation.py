"""Activation functions and the softmax family."""

from __future__ import annotations

from .... import topi
from ....ir.type import TupleType
from ...expr import Tuple, TupleWrapper
from .. import tensor as tensor_ops
from ..record import BROADCAST, ELEMWISE, OPAQUE, ROWS, call, op
from ..rules import check_real, dims, fixed, normalize_axis, same_as_first, tensor


@op("nn.relu", 1, pattern=ELEMWISE, type_rule=same_as_first, compute=lambda attrs, inputs, out: topi.nn.relu(inputs[0]))
def relu(data):
    """Compute max(x, 0) element-wise."""
    return call("nn.relu", data)


@op(
    "nn.leaky_relu",
    1,
    pattern=ELEMWISE,
    type_rule=same_as_first,
    compute=lambda attrs, inputs, out: topi.nn.leaky_relu(inputs[0], attrs.alpha),
)
def leaky_relu(data, alpha=0.01):
    """Compute x for positive elements and alpha * x for others."""
    return call("nn.leaky_relu", data, alpha=float(alpha))


def _prelu_type(attrs, types):
    data = tensor(types[0], "the data")
    size = dims(data)[normalize_axis(attrs.axis, len(dims(data)))]
    fixed(types[1], (size,), "alpha")
    return data


def _vector_like(attrs, types):
    data = tensor(types[0], "the data")
    return [data, type(data)((dims(data)[normalize_axis(attrs.axis, len(dims(data)))],), data.dtype)]


@op(
    "nn.prelu",
    2,
    pattern=BROADCAST,
    type_rule=_prelu_type,
    infer_inputs=_vector_like,
    compute=lambda attrs, inputs, out: topi.nn.prelu(
        inputs[0], inputs[1], normalize_axis(attrs.axis, len(inputs[0].shape))
    ),
)
def prelu(data, alpha, axis=1):
    """Compute leaky_relu with a separate slope for each index along an axis."""
    return call("nn.prelu", data, alpha, axis=int(axis))


def _axis_type(attrs, types):
    data = tensor(types[0])
    check_real(data.dtype)
    normalize_axis(attrs.axis, len(dims(data)))
    return types[0]


def _softmax(name: str, function, doc: str):
    @op(
        "nn." + name,
        1,
        pattern=ROWS,
        type_rule=_axis_type,
        compute=lambda attrs, inputs, out: function(inputs[0], attrs.axis),
    )
    def build(data, axis=-1):
        return call("nn." + name, data, axis=int(axis))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = doc
    return build


softmax = _softmax("softmax", topi.nn.softmax, "exp(x) / sum(exp(x)) along an axis.")
fast_softmax = _softmax("fast_softmax", topi.nn.fast_softmax, "softmax with a quick exponential.")
log_softmax = _softmax("log_softmax", topi.nn.log_softmax, "log(softmax(x)) along an axis.")


@op(
    "nn.dropout",
    1,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TupleType((tensor(types[0]), types[0])),
    expand=lambda attrs, args, types: Tuple((args[0], tensor_ops.ones_like(args[0]))),
)
def dropout_raw(data, rate=0.5):
    """Drop out random elements in training; return the data and the mask. In inference the data is unchanged."""
    return call("nn.dropout", data, rate=float(rate))


def dropout(data, rate=0.5):
    """Drop out random elements in training. In inference the data is unchanged."""
    return TupleWrapper(dropout_raw(data, rate), 2)[0]
