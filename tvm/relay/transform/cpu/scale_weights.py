"""Move per-channel factors from the data to the weights of the following convolution.

``conv(x * g, w)`` with one element of ``g`` for each channel equals ``conv(x, w * g)``. This saves a pass over the data
if the layer has fewer weights than its data has elements, as in the early layers of squeeze-and-excitation networks."""

from __future__ import annotations

from ....ir.module import IRModule
from ....ir.transform import PassContext
from ...expr import Call, Constant, Function, RelayExpr
from ...infer import dims
from ...op import tensor, transform
from ..function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed, type_of, use_counts


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for d in shape:
        total *= d
    return total


def _gated(data: RelayExpr, counts: dict[int, int]) -> tuple[RelayExpr, RelayExpr] | None:
    """Return ``(x, g)`` of ``x * g`` if only the convolution reads the result and ``g`` has one element for each
    channel."""
    if not is_call(data, "multiply") or counts.get(id(data), 1) > 1:
        return None
    shape = dims(type_of(data))
    for x, gate in (data.args, data.args[::-1]):
        channels = dims(type_of(gate))
        if dims(type_of(x)) == shape and shape[0] == 1 and channels == (1, shape[1], 1, 1, shape[4]):
            return x, gate
    return None


def scaled_weights(node: RelayExpr, counts: dict[int, int]) -> RelayExpr | None:
    if not isinstance(node, Call) or not is_call(node, "nn.contrib_conv2d_NCHWc") or node.attrs.groups != 1:
        return None
    data, weight = node.args
    gated = _gated(data, counts)
    if gated is None or not isinstance(weight, Constant):
        return None
    x, gate = gated
    kernel = weight.data.shape
    shape = dims(type_of(x))
    if _elements(kernel) * 2 > _elements(shape) or (shape[1], shape[4]) != (kernel[1], kernel[4]):
        return None
    weight = tensor.multiply(weight, transform.reshape(gate, (1, kernel[1], 1, 1, kernel[4], 1)))
    return Call(node.op, (x, weight), node.attrs, (), node.span)


def ScaleWeights() -> RelayFunctionPass:
    """Move per-channel factors into the weights if this is less work."""

    @function_pass(opt_level=3, name="ScaleWeights", required=["InferType"])
    def scale(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        counts = use_counts(func)
        return rewrite_typed(func, lambda node: scaled_weights(node, counts), mod, counts)

    return scale


__all__ = ["ScaleWeights"]
