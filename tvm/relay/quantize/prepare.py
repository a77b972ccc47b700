"""Prepare a float graph for quantization: fold batch normalization, and merge the biases of a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.transform import PassContext, Sequential
from .. import transform
from ..build_module import bind_params_by_name
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import dims
from ..op import nn
from ..transform.function_pass import is_call, rewrite_typed, use_counts

SUMS = ("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul")


def channel_axis(layer: Call) -> int:
    """Return the output channel axis of a layer."""
    if is_call(layer, "nn.conv2d", "nn.conv2d_transpose"):
        return (layer.attrs.out_layout or layer.attrs.data_layout).index("C")
    return len(dims(layer.checked_type_)) - 1


def _vector(e: RelayExpr, shape: tuple, axis: int, trailing: int):
    """Return the elements of a constant that varies only along ``axis`` of ``shape``, or None for any other expression.

    If ``trailing`` is not zero, the constant is a bias, whose last axis is followed by ``trailing`` - 1 axes of size 1.
    """
    if not isinstance(e, Constant) or e.data.dtype != "float32":
        return None
    own = tuple(e.data.shape) + (1,) * (trailing - 1 if trailing else 0)
    own = (1,) * (len(shape) - len(own)) + own
    alone = len(own) == len(shape) and all(d == 1 for i, d in enumerate(own) if i != axis) and own[axis] == shape[axis]
    return e.data.numpy().reshape(-1) if alone else None


def _biased(node: Any) -> tuple[RelayExpr, RelayExpr, Any] | None:
    """Match the addition of a vector to the channels of a layer's output.

    Return (layer, left operand, vector) or None.
    """
    if not isinstance(node, Call) or not is_call(node, "add", "nn.bias_add"):
        return None
    for x, added in (node.args, node.args[::-1])[: 2 if node.op.name == "add" else 1]:
        layer = x.args[0] if isinstance(x, Call) and is_call(x, "nn.bias_add") else x
        if not isinstance(layer, Call) or not is_call(layer, *SUMS[:3]) or x.checked_type_ != node.checked_type_:
            continue
        shape, axis = dims(x.checked_type_), channel_axis(layer)
        spread = len(shape) - axis if is_call(node, "nn.bias_add") else 0
        if spread and node.attrs.axis % len(shape) != axis:
            continue
        vector = _vector(added, shape, axis, spread)
        if vector is not None:
            return layer, x, vector
    return None


def _one_bias(counts: dict[int, int]):
    """Return a rewrite rule that merges consecutive constant additions after a layer into one bias."""

    def rule(node: Any) -> RelayExpr | None:
        found = _biased(node)
        if found is None:
            return None
        layer, x, vector = found
        axis = channel_axis(layer)
        if x is layer:
            return None if is_call(node, "nn.bias_add") else nn.bias_add(layer, Constant(vector), axis)
        first = x.args[1]
        alone = counts.get(id(x), 1) == 1 and x.attrs.axis % len(dims(x.checked_type_)) == axis
        return (
            nn.bias_add(layer, Constant(first.data.numpy() + vector), axis)
            if alone and isinstance(first, Constant)
            else None
        )

    return rule


def prerequisite_optimize(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """Run the passes that precede quantization.

    They bind the parameters, fold batch normalization into the layers, fold constants, and merge the biases of a layer.

    Parameters
    ----------
    mod : IRModule
        The float model.
    params : dict, optional
        The parameters of the model by name.

    Returns
    -------
    IRModule

    Raises
    ------
    TVMError
        The module has no function ``main``.
    """
    if "main" not in mod:
        raise TVMError("quantize: the module has no function 'main'")
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    given = PassContext.current()
    passes = (transform.SimplifyInference(), transform.FoldConstant(), transform.FoldScaleAxis(),
              transform.FoldConstant(), transform.InferType())  # fmt: skip
    with PassContext(3, given.required_pass, given.disabled_pass, config=given.config):
        mod = Sequential(list(passes))(mod)
    func: Function = mod["main"]
    counts = use_counts(func.body)
    mod = mod.clone()
    mod["main"] = func.replace(body=rewrite_typed(func.body, _one_bias(counts), mod, counts))
    return transform.InferType()(mod)


__all__ = ["SUMS", "channel_axis", "prerequisite_optimize"]
