"""Softmax and log-softmax."""

from __future__ import annotations

from ... import te, tir
from ..utils import normalize_axis


def _parts(x, axis: int):
    axis = normalize_axis(axis, len(x.shape), "softmax")
    rest = tuple(d for i, d in enumerate(x.shape) if i != axis)

    def without(at):
        return tuple(i for d, i in enumerate(at) if d != axis)

    def put(at, k):
        at = list(at)
        at.insert(axis, k)
        return at

    k = te.reduce_axis((0, x.shape[axis]), name="k")
    largest = te.compute(rest, lambda *at: te.max(x(*put(at, k)), axis=k), name="T_softmax_maxelem")
    return rest, without, put, largest, axis


def softmax(x, axis=-1):
    """exp(x) / sum(exp(x)) along an axis, computed without overflow.

    Examples
    --------
    >>> topi.nn.softmax(te.placeholder((2, 3)), axis=-1).shape
    (2, 3)
    """
    rest, without, put, largest, axis = _parts(x, axis)
    exp = te.compute(x.shape, lambda *at: te.exp(x(*at) - largest(*without(at))), name="T_softmax_exp")
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    total = te.compute(rest, lambda *at: te.sum(exp(*put(at, k)), axis=k), name="T_softmax_expsum")
    # Use one division per row and one multiplication per element.
    share = te.compute(rest, lambda *at: tir.const(1, x.dtype) / total(*at), name="T_softmax_share")
    return te.compute(
        x.shape,
        lambda *at: exp(*at) * share(*without(at)),
        name="T_softmax_norm",
        tag="softmax_output",
        attrs={"axis": axis},
    )


def fast_softmax(x, axis=-1):
    """The same as ``softmax``, which already uses a fast exponential function."""
    return softmax(x, axis)


def log_softmax(x, axis=-1):
    """log(softmax(x)) along an axis."""
    rest, without, put, largest, axis = _parts(x, axis)
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    total = te.compute(rest, lambda *at: te.sum(te.exp(x(*put(at, k)) - largest(*at)), axis=k), name="T_softmax_expsum")
    return te.compute(
        x.shape,
        lambda *at: x(*at) - largest(*without(at)) - te.log(total(*without(at))),
        tag="log_softmax_output",
        attrs={"axis": axis},
    )
