"""Normalization operators and losses."""

from __future__ import annotations

from ... import te, tir
from ...error import TVMError
from ..tag import BROADCAST
from ..utils import get_const_int, normalize_axes, normalize_axis


def lrn(data, size, axis=1, alpha=0.0001, beta=0.75, bias=2):
    """Local response normalization: x / (bias + alpha / size * (sum of squares of ``size`` neighbours along ``axis``))
    ^ beta."""
    axis = normalize_axis(axis, len(data.shape), "lrn")
    size = get_const_int(size)
    before = (size - 1) // 2
    window = te.reduce_axis((0, size), name="rxs")
    channels = data.shape[axis]

    def squares(*at):
        index = list(at)
        place = at[axis] + window - before
        index[axis] = te.max(te.min(place, channels - 1), 0)
        value = data(*index)
        zero = tir.const(0, data.dtype)
        return te.sum(tir.if_then_else(tir.all(place >= 0, place < channels), value * value, zero), axis=window)

    total = te.compute(data.shape, squares, name="sqr_sum")

    def normal(*at):
        inside = tir.const(bias, data.dtype) + tir.const(alpha / size, data.dtype) * total(*at)
        return data(*at) / te.power(inside, tir.const(beta, data.dtype))

    return te.compute(data.shape, normal, name="T_lrn", tag=BROADCAST)


def l2_normalize(x, eps, axis=None):
    """L2 normalization: x / sqrt(max(sum(x ^ 2), eps)) over the given axes."""
    rank = len(x.shape)
    axes = list(range(rank)) if axis is None else normalize_axes(axis, rank, "l2_normalize")
    own = [te.reduce_axis((0, x.shape[a]), name=f"k{a}") for a in axes]
    rest = [i for i in range(rank) if i not in axes]

    def squares(*at):
        where = dict(zip(rest, at)) | dict(zip(axes, own))
        value = x(*[where[i] for i in range(rank)])
        return te.sum(value * value, axis=own)

    total = te.compute([x.shape[i] for i in rest], squares, name="sqr_sum")
    return te.compute(
        x.shape,
        lambda *at: x(*at) / te.sqrt(te.max(total(*[at[i] for i in rest]), tir.const(eps, x.dtype))),
        name="T_l2_normalize",
        tag=BROADCAST,
    )


def layer_norm(data, gamma, beta, axis=None, epsilon=1e-5):
    """Layer normalization: (x - mean) / sqrt(variance + epsilon) * gamma + beta over axes (by default the last one).
    gamma and beta may be None; their sizes are those of the axes."""
    rank = len(data.shape)
    axes = normalize_axes([rank - 1] if axis is None else axis, rank, "layer_norm")
    rest = [i for i in range(rank) if i not in axes]
    size = tir.const(1, "int32")
    for a in axes:
        size = size * data.shape[a]
    share = tir.const(1, data.dtype) / size.astype(data.dtype)

    def over(name, value):
        own = [te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes]

        def body(*at):
            where = dict(zip(rest, at)) | dict(zip(axes, own))
            return te.sum(value(*[where[i] for i in range(rank)]), axis=own)

        return te.compute([data.shape[i] for i in rest], body, name=name)

    total = over("T_layer_norm_sum", data)
    mean = te.compute(total.shape, lambda *at: total(*at) * share, name="T_layer_norm_mean")

    def apart(*at):
        return data(*at) - mean(*[at[i] for i in rest])

    squares = over("T_layer_norm_squares", lambda *at: apart(*at) * apart(*at))
    inverse = te.compute(
        total.shape,
        lambda *at: te.rsqrt(squares(*at) * share + tir.const(epsilon, data.dtype)),
        name="T_layer_norm_inverse",
    )

    def normal(*at):
        out = apart(*at) * inverse(*[at[i] for i in rest])
        own = [at[a] for a in axes]
        out = out if gamma is None else out * gamma(*own)
        return out if beta is None else out + beta(*own)

    return te.compute(data.shape, normal, name="T_layer_norm", tag=BROADCAST)


def scale_shift_nchw(Input, Scale, Shift):
    """x * scale + shift, with one scale and one shift for each channel."""
    return te.compute(
        Input.shape, lambda b, c, i, j: Input[b, c, i, j] * Scale[c] + Shift[c], name="ScaleShift", tag=BROADCAST
    )


def scale_shift_nhwc(Input, Scale, Shift):
    """scale_shift_nchw with channels last."""
    return te.compute(
        Input.shape, lambda b, i, j, c: Input[b, i, j, c] * Scale[c] + Shift[c], name="ScaleShift", tag=BROADCAST
    )


def scale_shift_nchwc(Input, Scale, Shift):
    """scale_shift_nchw for a blocked layout."""
    return te.compute(
        Input.shape,
        lambda b, cc, i, j, c: Input[b, cc, i, j, c] * Scale[cc, c] + Shift[cc, c],
        name="ScaleShift",
        tag=BROADCAST,
    )


def nll_loss(predictions, targets, weights, reduction, ignore_index):
    """The negative weighted prediction of each target's class; the class ``ignore_index`` does not contribute.

    Raises
    ------
    TVMError
        ``reduction`` is not none, mean or sum.
    """
    if reduction not in ("none", "mean", "sum"):
        raise TVMError(f"nll_loss: the reduction must be none, mean or sum, got '{reduction}'")
    zero = tir.const(0, predictions.dtype)
    classes = predictions.shape[1]

    def pick(at, value):
        target = targets(*at)
        known = tir.all(target >= 0, target < classes.astype(target.dtype))
        return tir.if_then_else(tir.all(target != ignore_index, known), value(target, at), zero)

    def index(target, at):
        return (at[0], target, *at[1:]) if at else (target,)

    loss = te.compute(
        targets.shape,
        lambda *at: pick(at, lambda t, i: -predictions(*index(t, i)) * weights(t)),
        name="nll_loss",
        tag=BROADCAST,
    )
    if reduction == "none" or not targets.shape:
        if reduction != "mean":
            return loss
        weight = te.compute(targets.shape, lambda *at: pick(at, lambda t, i: weights(t)), name="nll_loss_weight")
        return te.compute((), lambda: loss() / weight(), name="nll_loss_mean")
    total = _total(loss, "nll_loss_sum")
    if reduction == "sum":
        return total
    weight = te.compute(targets.shape, lambda *at: pick(at, lambda t, i: weights(t)), name="nll_loss_weight")
    whole = _total(weight, "nll_loss_weight_sum")
    return te.compute((), lambda: total() / whole(), name="nll_loss_mean")


def _total(x, name: str):
    axes = [te.reduce_axis((0, d), name=f"k{i}") for i, d in enumerate(x.shape)]
    return te.compute((), lambda: te.sum(x(*axes), axis=axes), name=name)
