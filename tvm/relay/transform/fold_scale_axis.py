"""Fold per-channel factors into the constant weights of a neighbouring convolution or dense layer.

Backward: ``conv(x, w) * s`` becomes ``conv(x, w * s)``, also through additions of constants, and through relu and
pooling if the factors are positive. Forward: ``conv(x * s, w)`` becomes ``conv(x, w * s)`` under the same conditions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.module import IRModule
from ...ir.tensor_type import TensorType
from ...ir.transform import Pass, PassContext, Sequential
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import dims
from ..op.rules import normalize_axis
from .fold_constant import FoldConstant
from .fold_scale_exprs import Backward, Forward
from .function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed, use_counts

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
# LINEAR operators commute with per-channel factors; MONOTONE operators commute only with positive factors.
LINEAR = ("nn.avg_pool2d", "nn.global_avg_pool2d")
MONOTONE = ("nn.relu", "nn.leaky_relu", "nn.max_pool2d", "nn.global_max_pool2d")


def _channel_axis(node: RelayExpr) -> int | None:
    """Return the channel axis of a convolution or pooling; None if its layout splits the channels."""
    attrs = node.attrs
    layout = attrs.get("data_layout") or attrs.get("layout")
    return layout.index("C") if layout and layout.isupper() and "C" in layout else None


def factors(e: RelayExpr, shape: tuple, axis: int) -> Any:
    """Return a constant that varies only along ``axis`` as a vector; None for other expressions."""
    if not isinstance(e, Constant) or not e.data.dtype.startswith("float") or not isinstance(shape[axis], int):
        return None
    value = e.data.numpy()
    if value.ndim > len(shape):
        return None
    full = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    if any(n != 1 for i, n in enumerate(full.shape) if i != axis) or full.shape[axis] not in (1, shape[axis]):
        return None
    return np.broadcast_to(full.reshape(-1), (shape[axis],))


def along(vector: Any, rank: int, axis: int) -> Any:
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def _as_type(array: Any, like: Constant) -> Constant:
    return Constant(array.astype(like.data.dtype))


def has_integer_values(weight: Constant) -> bool:
    """Return whether the weights of a layer are integers stored as floats, as in quantized layers.

    Such weights are not scaled: sums of integers are exact, so that outputs are rounded as in integer arithmetic."""
    array = weight.data.numpy()
    return weight.data.dtype == "float32" and bool((array == np.rint(array)).all()) and bool((abs(array) > 1).any())


def scale_outputs(node: Call, s: Any) -> RelayExpr | None:
    """Return a convolution or dense layer with factors of its outputs folded into its weight; None if this is not
    possible."""
    weight = node.args[1]
    if not isinstance(weight, Constant) or has_integer_values(weight):
        return None
    if is_call(node, "nn.dense"):
        axis = 0
    else:
        layout = node.attrs.kernel_layout
        if not layout.isupper() or node.attrs.groups > 1 and layout == "HWOI" or node.attrs.get("out_layout"):
            return None
        axis = layout.index("O")
        if weight.data.shape[axis] != len(s):
            # Depthwise layers with a channel multiplier store their filters along two axes.
            return None
    array = weight.data.numpy()
    return Call(
        node.op, (node.args[0], _as_type(array * along(s, array.ndim, axis), weight)), node.attrs, (), node.span
    )


def scale_inputs(node: Call, s: Any) -> Constant | None:
    """Return the weight of a convolution or dense layer with factors of its inputs folded in; None if this is not
    possible."""
    weight = node.args[1]
    if not isinstance(weight, Constant) or has_integer_values(weight):
        return None
    array = weight.data.numpy()
    if is_call(node, "nn.dense"):
        return _as_type(array * along(s, array.ndim, 1), weight)
    layout, groups = node.attrs.kernel_layout, node.attrs.groups
    if not layout.isupper():
        return None
    if groups == 1:
        return _as_type(array * along(s, array.ndim, layout.index("I")), weight)
    if groups == len(s) and layout != "HWOI" and array.shape[layout.index("I")] == 1:
        # In a depthwise convolution every filter reads one channel.
        repeated = np.repeat(s, array.shape[layout.index("O")] // groups)
        return _as_type(array * along(repeated, array.ndim, layout.index("O")), weight)
    return None


class _Backward:
    def __init__(self, counts: dict[int, int]):
        self.counts = counts

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if not is_call(node, "multiply"):
            return None
        for data, scale in (node.args, reversed(node.args)):
            if (
                isinstance(scale, Constant)
                and isinstance(data.checked_type_, TensorType)
                and (data.checked_type_ == node.checked_type_)
            ):
                return self.fold(data, scale)
        return None

    def fold(self, data: RelayExpr, scale: Constant) -> RelayExpr | None:
        """Fold factors into the layer that computes ``data``, and rebuild the operators between the layer and
        ``data``."""
        path: list[Call] = []
        e = data
        while True:
            if self.counts.get(id(e), 1) > 1 or type(e) is not Call:
                return None
            if is_call(e, *CONVOLUTIONS, "nn.dense"):
                break
            path.append(e)
            if is_call(e, "add") and isinstance(e.args[0], Constant):
                e = e.args[1]
            elif is_call(e, "add", "nn.bias_add") and isinstance(e.args[1], Constant) or is_call(e, *LINEAR, *MONOTONE):
                e = e.args[0]
            else:
                return None
        shape = dims(e.checked_type_)
        axis = len(shape) - 1 if is_call(e, "nn.dense") else _channel_axis(e)
        if axis is None:
            return None
        s = factors(scale, dims(data.checked_type_), axis)
        if s is None or len(shape) != len(dims(data.checked_type_)) or not self.commutes(path, s, axis, shape):
            return None
        new = scale_outputs(e, s)
        for step in reversed(path):
            new = None if new is None else self.rebuild(step, new, s, axis, len(shape))
        return new

    def commutes(self, path: list[Call], s: Any, axis: int, shape: tuple) -> bool:
        for step in path:
            if dims(step.checked_type_)[axis] != shape[axis] or is_call(step, *MONOTONE) and not (s > 0).all():
                return False
            if is_call(step, *LINEAR, "nn.max_pool2d", "nn.global_max_pool2d") and _channel_axis(step) != axis:
                return False
        return True

    def rebuild(self, step: Call, new: RelayExpr, s: Any, axis: int, rank: int) -> RelayExpr | None:
        args = list(step.args)
        if is_call(step, "add"):
            at = 0 if isinstance(args[0], Constant) else 1
            array = args[at].data.numpy()
            scaled = array * along(s, rank, axis)
            args[at], args[1 - at] = _as_type(scaled, args[at]), new
        elif is_call(step, "nn.bias_add"):
            if normalize_axis(step.attrs.axis, rank) != axis:
                return None
            args = [new, _as_type(args[1].data.numpy() * s, args[1])]
        else:
            args[0] = new
        return Call(step.op, tuple(args), step.attrs, step.type_args, step.span)


class _Forward:
    def __init__(self, counts: dict[int, int]):
        self.counts = counts

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if not is_call(node, *CONVOLUTIONS, "nn.dense") or not isinstance(node.args[0].checked_type_, TensorType):
            return None
        shape = dims(node.args[0].checked_type_)
        axis = len(shape) - 1 if is_call(node, "nn.dense") else _channel_axis(node)
        if axis is None:
            return None
        found = self.find(node.args[0], shape, axis)
        if found is None:
            return None
        path, source, s = found
        weight = scale_inputs(node, s)
        if weight is None:
            return None
        data = source
        for step in reversed(path):
            data = self.rebuild(step, data, s, axis, len(shape))
        return Call(node.op, (data, weight), node.attrs, (), node.span)

    def find(self, e: RelayExpr, shape: tuple, axis: int):
        path: list[Call] = []
        while self.counts.get(id(e), 1) == 1 and type(e) is Call and e.checked_type_ is not None:
            if is_call(e, "multiply"):
                for data, scale in (e.args, tuple(reversed(e.args))):
                    s = factors(scale, shape, axis)
                    if s is not None and data.checked_type_ == e.checked_type_:
                        usable = all(self.commutes(p, s) for p in path)
                        return (path, data, s) if usable else None
                return None
            path.append(e)
            if is_call(e, "nn.relu", "nn.leaky_relu"):
                e = e.args[0]
            elif is_call(e, "add") and factors(e.args[1], shape, axis) is not None:
                e = e.args[0]
            else:
                return None
        return None

    def commutes(self, step: Call, s: Any) -> bool:
        if is_call(step, "add"):
            return bool((s != 0).all() and np.isfinite(1 / s).all())
        return bool((s > 0).all())

    def rebuild(self, step: Call, data: RelayExpr, s: Any, axis: int, rank: int) -> RelayExpr:
        if is_call(step, "add"):
            array = step.args[1].data.numpy() / along(s, rank, axis)
            return Call(step.op, (data, _as_type(array, step.args[1])), step.attrs, (), step.span)
        return Call(step.op, (data,), step.attrs, step.type_args, step.span)


def _known_weights(name: str, rule: Any) -> RelayFunctionPass:
    """Return a pass that folds constant factors into constant weights."""

    @function_pass(opt_level=3, name=name, required=["InferType"])
    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        counts = use_counts(func)
        return rewrite_typed(func, rule(counts), mod, counts)

    return fold


def ForwardFoldScaleAxis() -> RelayFunctionPass:
    """Fold factors of a layer's input into its weight."""

    @function_pass(opt_level=3, name="ForwardFoldScaleAxis", required=["InferType"])
    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Forward(func).run(func)

    return fold


def BackwardFoldScaleAxis() -> RelayFunctionPass:
    """Fold factors of a layer's output into its weight."""

    @function_pass(opt_level=3, name="BackwardFoldScaleAxis", required=["InferType"])
    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Backward(func).run(func)

    return fold


def FoldScaleAxis(known_weights: bool = False) -> Sequential:
    """Fold per-channel factors into weights, backward and then forward.

    With ``known_weights`` only constant weights are scaled. Other weights would be multiplied at each run, whereas a
    factor in the epilogue has no cost.

    Parameters
    ----------
    known_weights : bool, optional
        Whether only constant weights are scaled.

    Returns
    -------
    Sequential
    """
    passes: list[Pass] = [BackwardFoldScaleAxis(), ForwardFoldScaleAxis()]
    if known_weights:
        passes = [_known_weights("BackwardFoldScaleAxis", _Backward), _known_weights("ForwardFoldScaleAxis", _Forward)]
    return Sequential([*passes, FoldConstant()], 3, "FoldScaleAxis")


__all__ = ["BackwardFoldScaleAxis", "FoldScaleAxis", "ForwardFoldScaleAxis"]
