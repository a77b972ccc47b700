"""Store constant weights in the layout of GPU kernels, in which adjacent threads read adjacent filters or units."""

from __future__ import annotations

import numpy as np

from ....ir.module import IRModule
from ....ir.transform import PassContext
from ....runtime.ndarray import elements
from ...expr import Call, Constant, Function
from ...infer import dims
from ...op.nn.dense import matmul
from ...op.nn.space import pad
from ..function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed


def channel_padding(channels: int) -> int:
    """Return the number of zero channels to append so that channels can be copied as vectors."""
    return -channels % (4 if channels < 4 else 8) if channels % 2 else 0


class WeightLayout:
    """The rewrite rule, with a cache of the weights that it has transposed."""

    def __init__(self):
        self.weights: dict[tuple[int, tuple[int, ...]], tuple[Constant, Constant]] = {}

    def __call__(self, node) -> Call | None:
        if is_call(node, "nn.conv2d") and isinstance(node.args[1], Constant):
            return self.convolution(node)
        is_matrix = is_call(node, "nn.dense") and len(node.args[0].checked_type_.shape) > 1
        if is_matrix and isinstance(node.args[1], Constant):
            return matmul(node.args[0], self.transposed(node.args[1], (1, 0)), node.attrs.units, node.attrs.out_dtype)
        return None

    def convolution(self, node: Call) -> Call | None:
        attrs, (data, weight) = node.attrs, node.args
        if attrs.groups != 1 or attrs.data_layout not in ("NCHW", "NHWC"):
            return None
        if attrs.kernel_layout == "OIHW":
            weight = self.transposed(weight, (2, 3, 1, 0))
        elif attrs.kernel_layout != "HWIO":
            return None
        shape = dims(node.args[0].checked_type_)
        padding = channel_padding(shape[-1]) if attrs.data_layout == "NHWC" and weight.data.dtype == "float16" else 0
        if padding:
            data = pad(data, ((0, 0), (0, 0), (0, 0), (0, padding)))
            weight = self.zero_padded(weight, padding)
        elif attrs.kernel_layout == "HWIO":
            return None
        return node.replace(args=(data, weight), attrs=attrs.replace(kernel_layout="HWIO"))

    def zero_padded(self, weight: Constant, padding: int) -> Constant:
        """Append zero channels to each filter of a weight."""
        return Constant(np.pad(elements(weight.data), ((0, 0), (0, 0), (0, padding), (0, 0))))

    def transposed(self, weight: Constant, order: tuple[int, ...]) -> Constant:
        key = (id(weight), order)
        if key not in self.weights:
            self.weights[key] = (weight, Constant(elements(weight.data).transpose(order)))
        return self.weights[key][1]


def GPUWeights() -> RelayFunctionPass:
    """Store constant weights in the layout that GPU threads read."""

    @function_pass(opt_level=3, name="GPUWeights", required=["InferType"])
    def lay_out(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, WeightLayout(), mod)

    return lay_out


__all__ = ["GPUWeights"]
