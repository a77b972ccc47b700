"""Use Winograd's algorithm for 3x3 convolutions with stride 1 over blocked channels if it is estimated to be faster.

The weights are constants and are transformed at compile time. A dilated convolution is computed on its phases."""

from __future__ import annotations

from math import prod

from ....ir.module import IRModule
from ....ir.prim import IntImm
from ....ir.tensor_type import TensorType
from ....ir.transform import PassContext
from ....ir.type import Type
from ....target import Target
from ....topi.cpu import winograd as template
from ....topi.cpu import winograd_any_image
from ....topi.cpu.taps import Taps, computed_share
from ....topi.nn.winograd import transform_filters
from ....topi.schedule.cpu import Machine
from ...expr import Call, Constant, Function
from ...op.nn.winograd import contrib_conv2d_winograd_nchwc
from ..fold_scale_axis import has_integer_values
from ..function_pass import RelayFunctionPass, float_shape, function_pass, is_call, rewrite_typed
from .phases import Phases, merge_phases, split_phases

# The height and width of an output tile of direct convolution, which skips a tap if all pixels of the tile read
# padding.
DIRECT_TILE = (1, 8)


def _image_shape(t: Type | None) -> tuple[int, ...] | None:
    """Return the shape of blocked float32 data; a dynamic batch counts as one image. None if another dimension is
    dynamic."""
    if isinstance(t, TensorType) and not isinstance(t.shape[0], IntImm):
        t = TensorType((1, *t.shape[1:]), t.dtype)
    return float_shape(t)


class Winograd:
    """The rewrite rule, with a cache of the kernels that it has transformed."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.kernels: dict[tuple[int, int, int], tuple[Constant, Constant]] = {}

    def __call__(self, node) -> Call | None:
        if not is_call(node, "nn.contrib_conv2d_NCHWc") or not isinstance(node.args[1], Constant):
            return None
        data, kernel = node.args
        # The transform uses fractions, so sums of integers would no longer be exact.
        if has_integer_values(kernel):
            return None
        attrs = node.attrs
        k, out = float_shape(kernel.checked_type_), _image_shape(node.checked_type_)
        if k is None or isinstance(attrs.padding, str) or attrs.groups != 1:
            return None
        x = _image_shape(data.checked_type_)
        if k[2:4] != (3, 3) or tuple(attrs.strides) != (1, 1):
            return None
        if x is None or out is None:
            return self.of_any_image(node, k)
        if float_shape(data.checked_type_) is None and tuple(attrs.dilation) != (1, 1):
            # Phases are images of the batch, so the batch size must be static.
            return None
        sides = [Phases(*side) for side in zip(x[2:4], out[2:4], attrs.padding, attrs.dilation)]
        plan = self.plan(k, x, out, sides)
        if plan is None:
            return None
        weights, logical = self.transformed(kernel, *plan), attrs.get("logical")
        around = [*(s.before for s in sides), *(s.after(3) for s in sides)]
        images = contrib_conv2d_winograd_nchwc(
            split_phases(data, x, sides), weights, around, attrs.out_dtype, logical and logical[:2]
        )
        return merge_phases(images, out, sides)

    def of_any_image(self, node: Call, k: tuple[int, ...]) -> Call | None:
        """Return the Winograd convolution of images with dynamic height and width, or None."""
        attrs, (data, kernel) = node.attrs, node.args
        t = data.checked_type_
        is_usual = isinstance(t, TensorType) and t.dtype == "float32" and tuple(attrs.dilation) == (1, 1)
        if not is_usual or any(not isinstance(t.shape[i], IntImm) for i in (1, 4)):
            return None
        plan = winograd_any_image.plan(k[1] * k[4], k[0] * k[5], (k[4], k[5]), self.machine)
        if plan is None:
            return None
        weights, logical = self.transformed(kernel, *plan), attrs.get("logical")
        return contrib_conv2d_winograd_nchwc(data, weights, attrs.padding, attrs.out_dtype, logical and logical[:2])

    def plan(
        self, k: tuple[int, ...], x: tuple[int, ...], out: tuple[int, ...], sides: list[Phases]
    ) -> tuple[int, int] | None:
        """Return the tile size and the number of filter vectors in a group, or None if direct convolution is faster.
        The phases of a dilated convolution are included."""
        channels, filters, phases = k[1] * k[4], k[0] * k[5], prod(s.count for s in sides)
        window = [Taps(s.output_size, 3, 1, s.count, s.padding, s.padding + s.size - 1) for s in sides]
        direct = template.direct_cycles(
            out[0], channels, filters, out[2], out[3], k[5], self.machine, computed_share(window, DIRECT_TILE)
        )
        if phases > 1:
            direct -= template.copy_cycles(prod(x) + prod(out))
        sizes = (out[0] * phases, channels, filters, *(s.phase_outputs for s in sides))
        return template.plan(*sizes, (k[4], k[5]), self.machine, direct)

    def transformed(self, kernel: Constant, tile: int, vectors: int) -> Constant:
        """Return the kernel OIHW<i>i<o>o, transformed for a tile size and group size. All users share the result."""
        key = (id(kernel), tile, vectors)
        if key not in self.kernels:
            blocked = kernel.data.numpy()
            o, i, height, width, in_block, out_block = blocked.shape
            plain = blocked.transpose(0, 5, 1, 4, 2, 3).reshape(o * out_block, i * in_block, height, width)
            self.kernels[key] = (kernel, Constant(transform_filters(plain, tile, in_block, out_block, vectors)))
        return self.kernels[key][1]


def WinogradConv2D(target: Target) -> RelayFunctionPass:
    """Use Winograd's algorithm if it is estimated to be faster than direct convolution."""

    @function_pass(opt_level=3, name="WinogradConv2D", required=["InferType"])
    def winograd(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, Winograd(Machine(target)), mod)

    return winograd


__all__ = ["WinogradConv2D"]
