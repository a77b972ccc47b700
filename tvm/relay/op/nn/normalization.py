"""Normalization and loss operators. Operators without their own computation are expanded into simpler ones."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType
from ....target import Target
from ....topi.assumptions import divides
from ...expr import RelayExpr, Tuple, TupleWrapper, const
from .. import reduce as reduce_ops
from .. import tensor as tensor_ops
from .. import transform
from ..record import OPAQUE, ROWS, call, op
from ..rules import dims, fixed, may_equal, normalize_axes, normalize_axis, tensor


def _along(vector: RelayExpr, rank: int, axis: int) -> RelayExpr:
    """Reshape a vector so that it broadcasts along ``axis`` of tensors of the given rank."""
    after = rank - axis - 1
    return transform.expand_dims(vector, 1, after) if after else vector


def _scaled(attrs, value: RelayExpr, gamma: RelayExpr, beta: RelayExpr, rank: int, axis: int) -> RelayExpr:
    if attrs.scale:
        value = tensor_ops.multiply(value, _along(gamma, rank, axis))
    if attrs.center:
        value = tensor_ops.add(value, _along(beta, rank, axis))
    return value


def _vector_size(attrs, types):
    data = tensor(types[0], "the data")
    return data, dims(data)[normalize_axis(attrs.axis, len(dims(data)))]


def _batch_norm_type(attrs, types):
    data, size = _vector_size(attrs, types)
    for what, t in zip(("gamma", "beta", "moving_mean", "moving_var"), types[1:]):
        if not may_equal(dims(tensor(t, what)), (size,)):
            raise TypeError(f"{what} must be a vector of length {size}, got shape {dims(t)}")
        if t.dtype != data.dtype:
            raise TypeError(f"the data is {data.dtype}, but {what} is {t.dtype}; cast one of them")
    vector = TensorType((size,), data.dtype)
    return TupleType((data, vector, vector))


def _vectors(attrs, types):
    data, size = _vector_size(attrs, types)
    return [data] + [TensorType((size,), data.dtype)] * (len(types) - 1)


def _batch_norm(attrs, args, types):
    """Expand batch normalization into a multiplication and an addition, whose operands can be folded into constants."""
    data, gamma, beta, mean, var = args
    t = types[0]
    rank = len(t.shape)
    axis = normalize_axis(attrs.axis, rank)
    scale = tensor_ops.rsqrt(tensor_ops.add(var, const(attrs.epsilon, types[4].dtype)))
    if attrs.scale:
        scale = tensor_ops.multiply(scale, gamma)
    shift = tensor_ops.multiply(tensor_ops.negative(mean), scale)
    if attrs.center:
        shift = tensor_ops.add(shift, beta)
    out = tensor_ops.multiply(data, _along(scale, rank, axis))
    return Tuple((tensor_ops.add(out, _along(shift, rank, axis)), mean, var))


@op("nn.batch_norm", 5, pattern=OPAQUE, type_rule=_batch_norm_type, infer_inputs=_vectors, expand=_batch_norm)
def batch_norm(data, gamma, beta, moving_mean, moving_var, axis=1, epsilon=1e-5, center=True, scale=True):
    """Normalize along an axis: (x - mean) / sqrt(var + epsilon) * gamma + beta. The moving mean and variance are
    returned too."""
    made = call(
        "nn.batch_norm",
        data,
        gamma,
        beta,
        moving_mean,
        moving_var,
        axis=int(axis),
        epsilon=float(epsilon),
        center=bool(center),
        scale=bool(scale),
    )
    return TupleWrapper(made, 3)


def _norm_type(attrs, types):
    data, size = _vector_size(attrs, types)
    fixed(types[1], (size,), "gamma")
    fixed(types[2], (size,), "beta")
    return data


def _normal(data: RelayExpr, dtype: str, axes, epsilon: float) -> RelayExpr:
    """Compute (x - mean) / sqrt(variance + epsilon) over axes."""
    mean = reduce_ops.mean(data, axes, True)
    centered = tensor_ops.subtract(data, mean)
    variance = reduce_ops.mean(tensor_ops.multiply(centered, centered), axes, True)
    return tensor_ops.multiply(centered, tensor_ops.rsqrt(tensor_ops.add(variance, const(epsilon, dtype))))


def _is_row_kernel(attrs, types, target: Target) -> bool:
    """Return whether a normalization is compiled to one row kernel, as on CPUs."""
    rank, dtype = len(types[0].shape), types[0].dtype
    last = normalize_axis(attrs.axis, rank) == rank - 1
    return target.features.is_cpu and last and dtype in ("float32", "float64")


def _layer_norm(attrs, args, types):
    rank = len(types[0].shape)
    axis = normalize_axis(attrs.axis, rank)
    return _scaled(attrs, _normal(args[0], types[0].dtype, (axis,), attrs.epsilon), args[1], args[2], rank, axis)


def _layer_norm_compute(attrs, inputs, out):
    gamma, beta = (v if wanted else None for v, wanted in zip(inputs[1:], (attrs.scale, attrs.center)))
    return topi.nn.layer_norm(inputs[0], gamma, beta, [attrs.axis], attrs.epsilon)


@op(
    "nn.layer_norm",
    3,
    pattern=ROWS,
    type_rule=_norm_type,
    infer_inputs=_vectors,
    expand=_layer_norm,
    stays_whole=_is_row_kernel,
    compute=_layer_norm_compute,
)
def layer_norm(data, gamma, beta, axis=-1, epsilon=1e-5, center=True, scale=True):
    """Normalize over one axis: (x - mean) / sqrt(variance + epsilon) * gamma + beta."""
    return call(
        "nn.layer_norm",
        data,
        gamma,
        beta,
        axis=int(axis),
        epsilon=float(epsilon),
        center=bool(center),
        scale=bool(scale),
    )


def _instance_norm(attrs, args, types):
    rank = len(types[0].shape)
    axis = normalize_axis(attrs.axis, rank)
    axes = tuple(i for i in range(1, rank) if i != axis)
    return _scaled(attrs, _normal(args[0], types[0].dtype, axes, attrs.epsilon), args[1], args[2], rank, axis)


def _instance_type(attrs, types):
    data = _norm_type(attrs, types)
    if len(dims(data)) < 3 or normalize_axis(attrs.axis, len(dims(data))) == 0:
        raise TypeError(f"the data must have a batch, channels and at least one more dimension, got shape {dims(data)}")
    return data


@op("nn.instance_norm", 3, pattern=OPAQUE, type_rule=_instance_type, infer_inputs=_vectors, expand=_instance_norm)
def instance_norm(data, gamma, beta, axis=1, epsilon=1e-5, center=True, scale=True):
    """Normalize each channel of each image: (x - mean) / sqrt(variance + epsilon) * gamma + beta."""
    return call(
        "nn.instance_norm",
        data,
        gamma,
        beta,
        axis=int(axis),
        epsilon=float(epsilon),
        center=bool(center),
        scale=bool(scale),
    )


def _group_type(attrs, types):
    data, size = _vector_size(attrs, types)
    _norm_type(attrs, types)
    if not divides(size, attrs.num_groups, f"channels that divide into {attrs.num_groups} groups"):
        raise TypeError(f"{size} channels cannot be divided into {attrs.num_groups} groups")
    return data


def _group_norm(attrs, args, types):
    shape = dims(types[0])
    rank = len(shape)
    axis = normalize_axis(attrs.axis, rank)
    parted = (*shape[:axis], attrs.num_groups, shape[axis] // attrs.num_groups, *shape[axis + 1 :])
    if not all(isinstance(d, int) for d in shape):
        # Reshape codes for dynamic dimensions: keep the leading ones, split one into groups (-4), keep the rest (-2).
        parted, shape = (*[0] * axis, -4, attrs.num_groups, -1, -2), (*[0] * axis, -3, -2)
    axes = tuple(range(axis + 1, rank + 1)) + tuple(range(1, axis))
    value = _normal(transform.reshape(args[0], parted), types[0].dtype, axes, attrs.epsilon)
    return _scaled(attrs, transform.reshape(value, shape), args[1], args[2], rank, axis)


@op("nn.group_norm", 3, pattern=OPAQUE, type_rule=_group_type, infer_inputs=_vectors, expand=_group_norm)
def group_norm(data, gamma, beta, num_groups, axis=1, epsilon=1e-5, center=True, scale=True):
    """Normalize groups of channels of each image: (x - mean) / sqrt(variance + epsilon) * gamma + beta."""
    return call(
        "nn.group_norm",
        data,
        gamma,
        beta,
        num_groups=int(num_groups),
        axis=int(axis),
        epsilon=float(epsilon),
        center=bool(center),
        scale=bool(scale),
    )


def _l2_type(attrs, types):
    data = tensor(types[0])
    if attrs.axis is not None:
        normalize_axes(attrs.axis, len(dims(data)))
    return data


@op(
    "nn.l2_normalize",
    1,
    pattern=ROWS,
    type_rule=_l2_type,
    compute=lambda attrs, inputs, out: topi.nn.l2_normalize(inputs[0], attrs.eps, attrs.axis),
)
def l2_normalize(data, eps, axis=None):
    """Normalize along axes: x / sqrt(max(sum(x ^ 2), eps))."""
    axis = None if axis is None else (int(axis),) if isinstance(axis, int) else tuple(int(a) for a in axis)
    return call("nn.l2_normalize", data, eps=float(eps), axis=axis)


def _lrn_type(attrs, types):
    data = tensor(types[0])
    normalize_axis(attrs.axis, len(dims(data)))
    return data


@op(
    "nn.lrn",
    1,
    pattern=OPAQUE,
    type_rule=_lrn_type,
    compute=lambda attrs, inputs, out: topi.nn.lrn(
        inputs[0], attrs.size, attrs.axis, attrs.alpha, attrs.beta, attrs.bias
    ),
)
def lrn(data, size=5, axis=1, bias=2, alpha=1e-5, beta=0.75):
    """Local response normalization: x / (bias + alpha / size * (sum of squares of neighbours along an axis)) ^ beta."""
    return call("nn.lrn", data, size=int(size), axis=int(axis), bias=float(bias), alpha=float(alpha), beta=float(beta))


def _entropy_type(attrs, types):
    x, y = dims(tensor(types[0], "the predictions")), dims(tensor(types[1], "the targets"))
    if len(x) != 2 or not may_equal(x, y):
        raise TypeError(f"predictions and targets must be matrices (batch, classes) of one shape, got {x} and {y}")
    return TensorType((), types[0].dtype)


def _entropy(log: bool):
    def expand(attrs, args, types):
        predictions, targets = args
        value = tensor_ops.log(predictions) if log else predictions
        products = tensor_ops.multiply(value, targets)
        if not isinstance(dims(types[0])[0], int):
            return tensor_ops.negative(reduce_ops.mean(reduce_ops.sum(products, 1)))
        total = reduce_ops.sum(products)
        batch = const(float(dims(types[0])[0]), types[0].dtype)
        return tensor_ops.divide(tensor_ops.negative(total), batch)

    return expand


@op("nn.cross_entropy", 2, pattern=OPAQUE, type_rule=_entropy_type, expand=_entropy(True))
def cross_entropy(predictions, targets):
    """Compute the cross entropy -sum(log(predictions) * targets) / batch."""
    return call("nn.cross_entropy", predictions, targets)


@op("nn.cross_entropy_with_logits", 2, pattern=OPAQUE, type_rule=_entropy_type, expand=_entropy(False))
def cross_entropy_with_logits(predictions, targets):
    """Compute the cross entropy -sum(predictions * targets) / batch of predictions that are logarithms."""
    return call("nn.cross_entropy_with_logits", predictions, targets)


def _nll_type(attrs, types):
    x, t = dims(tensor(types[0], "the predictions")), dims(tensor(types[1], "the targets"))
    if len(x) < 1 or not may_equal((x[0], *x[2:]), t) and not (len(x) == 1 and t == ()):
        raise TypeError(f"for predictions of shape {x} the targets must have shape {(x[0], *x[2:])}, got {t}")
    fixed(types[2], (x[1] if len(x) > 1 else x[0],), "the weights")
    if not types[1].dtype.startswith(("int", "uint")):
        raise TypeError(f"the targets must be integers, got {types[1].dtype}")
    return TensorType(t if attrs.reduction == "none" else (), types[0].dtype)


@op(
    "nn.nll_loss",
    3,
    pattern=OPAQUE,
    type_rule=_nll_type,
    compute=lambda attrs, inputs, out: topi.nn.nll_loss(
        inputs[0], inputs[1], inputs[2], attrs.reduction, attrs.ignore_index
    ),
)
def nll_loss(predictions, targets, weights, reduction="mean", ignore_index=-100):
    """Compute the negative log likelihood: minus the weighted prediction of each target's class.

    Raises
    ------
    ValueError
        ``reduction`` is not none, mean or sum.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"nll_loss: reduction must be none, mean or sum, got '{reduction}'")
    return call("nn.nll_loss", predictions, targets, weights, reduction=reduction, ignore_index=int(ignore_index))
