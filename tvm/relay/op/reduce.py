"""Reductions."""

from __future__ import annotations

from ... import topi
from .record import COMM_REDUCE, call, op
from .rules import normalize_axes


def _axes(attrs, rank: int):
    """The axes to reduce; ``exclude`` turns the choice around."""
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
        axis = axis if axis is None or isinstance(axis, int) else tuple(int(a) for a in axis)
        return call(name, data, axis=axis, keepdims=bool(keepdims), exclude=bool(exclude))

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
        axis = axis if axis is None or isinstance(axis, int) else tuple(int(a) for a in axis)
        return call(name, data, axis=axis, keepdims=bool(keepdims), exclude=bool(exclude),
                    select_last_index=bool(select_last_index))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = f"The place of the {name[3:]}imum over an axis."
    return build


argmax = _index("argmax", topi.argmax)
argmin = _index("argmin", topi.argmin)

__all__ = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum"]
