"""Use Winograd's algorithm over planes of tiles for 3x3 convolutions with stride 1 if it is estimated to be faster.

The weights are constants and are transformed at compile time."""

from __future__ import annotations

from ....ir.module import IRModule
from ....ir.transform import PassContext
from ....target import Target
from ....topi.gpu import winograd as template
from ....topi.gpu.machine import Machine
from ....topi.nn.winograd import transform_filters_in_planes
from ...expr import Call, Constant, Function
from ...op.nn.winograd import contrib_conv2d_winograd_planes
from ..fold_scale_axis import has_integer_values
from ..function_pass import RelayFunctionPass, float_shape, function_pass, is_call, rewrite_typed


class WinogradInPlanes:
    """The rewrite rule, with a cache of the kernels that it has transformed."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.kernels: dict[tuple[int, int], tuple[Constant, Constant]] = {}

    def __call__(self, node) -> Call | None:
        if not is_call(node, "nn.conv2d") or not isinstance(node.args[1], Constant):
            return None
        data, kernel = node.args
        attrs = node.attrs
        k, x, out = (float_shape(t) for t in (kernel.checked_type_, data.checked_type_, node.checked_type_))
        if k is None or x is None or out is None or isinstance(attrs.padding, str) or attrs.groups != 1:
            return None
        if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "HWIO") or attrs.get("out_layout") not in ("", "NCHW"):
            return None
        if k[:2] != (3, 3) or tuple(attrs.strides) != (1, 1) or tuple(attrs.dilation) != (1, 1):
            return None
        if has_integer_values(kernel):
            return None
        tile = template.plan(out[0], x[1], out[1], out[2], out[3], self.machine)
        if tile is None:
            return None
        return contrib_conv2d_winograd_planes(data, self.transformed(kernel, tile), attrs.padding, attrs.out_dtype)

    def transformed(self, kernel: Constant, tile: int) -> Constant:
        """Return the HWIO kernel transformed for a tile size. All users share the result."""
        key = (id(kernel), tile)
        if key not in self.kernels:
            plain = kernel.data.numpy().transpose(3, 2, 0, 1)
            self.kernels[key] = (kernel, Constant(transform_filters_in_planes(plain, tile)))
        return self.kernels[key][1]


def WinogradConv2D(target: Target) -> RelayFunctionPass:
    """Use Winograd's algorithm if it is estimated to be faster than direct convolution."""

    @function_pass(opt_level=3, name="WinogradConv2D", required=["InferType"])
    def winograd(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, WinogradInPlanes(Machine(target)), mod)

    return winograd


__all__ = ["WinogradConv2D"]
