"""Reduction operators."""

from __future__ import annotations

from numbers import Integral

from ... import te, topi
from ...ir.prim import convert
from ...ir.tensor_type import TensorType
from ...topi.reduction import wide
from ..expr import Tuple, TupleWrapper
from . import tensor as tensor_ops
from .record import COMM_REDUCE, call, op
from .rules import dims, normalize_axes, numbers_like_first
from .transform import squeeze, where


def _axes(attrs, rank: int):
    """Return the axes to reduce; ``exclude`` selects all other axes."""
    if attrs.axis is None:
        return None
    chosen = normalize_axes(attrs.axis, rank)
    if attrs.exclude:
        chosen = [i for i in range(rank) if i not in chosen]
    return chosen


def _compute(function):
    def compute(attrs, inputs, out):
        axes = _axes(attrs, len(inputs[0].shape))
        if axes == []:
            return topi.identity(inputs[0])
        return function(inputs[0], axes, attrs.keepdims)

    return compute


def _reduction(name: str, function, doc: str):
    @op(name, 1, pattern=COMM_REDUCE, compute=_compute(function))
    def build(data, axis=None, keepdims=False, exclude=False):
        return call(name, data, axis=_plain(axis), keepdims=bool(keepdims), exclude=bool(exclude))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = doc
    return build


sum = _reduction("sum", topi.sum, "The sum over axes.")
prod = _reduction("prod", topi.prod, "The product over axes.")
max = _reduction("max", topi.max, "The largest element over axes.")
min = _reduction("min", topi.min, "The smallest element over axes.")
all = _reduction("all", topi.all, "Whether all elements are true.")
any = _reduction("any", topi.any, "Whether any element is true.")
mean = _reduction("mean", topi.mean, "The mean over axes.")


def _index(name: str, function):
    def compute(attrs, inputs, out):
        axes = _axes(attrs, len(inputs[0].shape))
        return function(inputs[0], axes, attrs.keepdims, attrs.select_last_index)

    @op(name, 1, pattern=COMM_REDUCE, compute=compute)
    def build(data, axis=None, keepdims=False, exclude=False, select_last_index=False):
        axis = _plain(axis)
        return call(
            name,
            data,
            axis=axis,
            keepdims=bool(keepdims),
            exclude=bool(exclude),
            select_last_index=bool(select_last_index),
        )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = f"The place of the {name[3:]}imum over an axis."
    return build


argmax = _index("argmax", topi.argmax)
argmin = _index("argmin", topi.argmin)


def _variance_compute(attrs, inputs, out):
    data = inputs[0]
    axes = _axes(attrs, len(data.shape))
    axes = list(range(len(data.shape))) if axes is None else axes
    # Squares and counts of float16 values overflow float16.
    kind = wide(data.dtype)
    data, *given = (topi.cast(x, kind) if kind != x.dtype else x for x in inputs)
    kept = given[0] if given else topi.mean(data, axes, True)
    if len(kept.shape) != len(data.shape):
        kept = topi.reshape(kept, [1 if i in axes else d for i, d in enumerate(data.shape)])
    apart = topi.subtract(data, kept)
    total = topi.sum(topi.multiply(apart, apart), axes, attrs.keepdims)
    count = convert(topi.utils.prod([data.shape[a] for a in axes]))
    got = topi.divide(total, (te.max(count - 1, 1) if attrs.unbiased else count).astype(kind))
    return topi.cast(got, inputs[0].dtype) if kind != inputs[0].dtype else got


def _variance_type(attrs, types):
    data = numbers_like_first(attrs, types)
    shape = dims(data)
    axes = _axes(attrs, len(shape))
    axes = list(range(len(shape))) if axes is None else axes
    kept = [1 if i in axes else d for i, d in enumerate(shape)]
    return TensorType(kept if attrs.keepdims else [d for i, d in enumerate(shape) if i not in axes], data.dtype)


@op("variance", -1, pattern=COMM_REDUCE, type_rule=_variance_type, compute=_variance_compute)
def variance(data, axis=None, keepdims=False, exclude=False, unbiased=False, with_mean=None):
    """Compute the variance: the mean of squared differences from the mean; ``unbiased`` divides by n - 1."""
    inputs = (data,) if with_mean is None else (data, with_mean)
    return call(
        "variance", *inputs, axis=_plain(axis), keepdims=bool(keepdims), exclude=bool(exclude), unbiased=bool(unbiased)
    )


def std(data, axis=None, keepdims=False, exclude=False, unbiased=False):
    """Compute the standard deviation, the square root of the variance."""
    return tensor_ops.sqrt(variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(data, axis=None, keepdims=False, exclude=False, unbiased=False):
    """Compute the mean and the variance."""
    m = mean(data, axis, True, exclude)
    v = variance(data, axis, keepdims, exclude, unbiased, m)
    return TupleWrapper(Tuple((m if keepdims else mean(data, axis, False, exclude), v)), 2)


def mean_std(data, axis=None, keepdims=False, exclude=False):
    """Compute the mean and the standard deviation."""
    m = mean(data, axis, True, exclude)
    v = tensor_ops.sqrt(variance(data, axis, keepdims, exclude, False, m))
    return TupleWrapper(Tuple((m if keepdims else mean(data, axis, False, exclude), v)), 2)


def logsumexp(data, axis=None, keepdims=False):
    """Compute log(sum(exp(x))) over axes without overflow."""
    largest = max(data, axis, True)
    # The difference of an infinite maximum and itself would be NaN.
    finite = where(tensor_ops.isfinite(largest), largest, tensor_ops.zeros_like(largest))
    total = sum(tensor_ops.exp(tensor_ops.subtract(data, finite)), axis, True)
    out = tensor_ops.add(tensor_ops.log(total), finite)
    return out if keepdims else squeeze(out, axis) if axis is not None else sum(out)


def _plain(axis):
    """Return the axes as a tuple; None selects all axes."""
    return None if axis is None else tuple(int(a) for a in ((axis,) if isinstance(axis, Integral) else axis))


__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "logsumexp",
    "max",
    "mean",
    "mean_std",
    "mean_variance",
    "min",
    "prod",
    "std",
    "sum",
    "variance",
]
