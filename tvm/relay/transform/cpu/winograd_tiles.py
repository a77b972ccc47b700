"""Winograd's algorithm in kernels that a search schedules, if the cost estimate of the templates favours it."""

from __future__ import annotations

from ....ir.transform import PassContext, PassInfo
from ....target import Target
from ....topi.cpu import winograd as template
from ....topi.nn.winograd import transform_filters_in_planes
from ....topi.nn.winograd_tiles import LAYOUTS
from ....topi.schedule.cpu import Machine
from ...expr import Call, Constant
from ...op.nn.winograd import contrib_conv2d_winograd_tiles
from ..backend_passes import Operator, SearchedForm
from ..fold_scale_axis import has_integer_values
from ..function_pass import float_shape, is_call

# The permutation that transposes each kernel layout to OIHW.
_TO_OIHW = {"HWIO": (3, 2, 0, 1), "OIHW": (0, 1, 2, 3)}


def winograd_in_tiles(target: Target) -> SearchedForm:
    """Return the rule for 3x3 convolutions with stride 1 and constant, non-integer weights."""
    machine = Machine(target)

    def form(node: Call, kernel: Constant) -> tuple[Constant, Operator] | None:
        attrs = node.attrs
        # The rule also respects the optimization level and name of the pass WinogradConv2D, which serves templates.
        if not is_call(node, "nn.conv2d") or not PassContext.current().pass_enabled(PassInfo(3, "WinogradConv2D")):
            return None
        shapes = [float_shape(t) for t in (kernel.checked_type_, node.args[0].checked_type_, node.checked_type_)]
        if None in shapes or isinstance(attrs.padding, str) or attrs.groups != 1:
            return None
        is_plain = attrs.data_layout in LAYOUTS and attrs.get("out_layout") in (None, "", attrs.data_layout)
        if not is_plain or attrs.kernel_layout not in _TO_OIHW or tuple(attrs.strides) != (1, 1):
            return None
        weights = kernel.data.numpy().transpose(_TO_OIHW[attrs.kernel_layout])
        if weights.shape[2:] != (3, 3) or tuple(attrs.dilation) != (1, 1) or has_integer_values(kernel):
            return None
        tile = _tile(shapes[2], attrs.data_layout, weights.shape[:2], machine)
        if tile is None:
            return None
        made = Constant(transform_filters_in_planes(weights, tile))
        return made, lambda data, k: contrib_conv2d_winograd_tiles(
            data, k, attrs.padding, attrs.data_layout, attrs.out_dtype
        )

    return form


def _tile(out: tuple[int, ...], layout: str, channels: tuple[int, int], machine: Machine) -> int | None:
    """Return the tile size; None if direct convolution is estimated to be about as fast, or if filters and channels do
    not fill whole vectors."""
    lanes = machine.lanes("float32")
    if any(count % lanes for count in channels):
        return None
    height, width = out[1:3] if layout == "NHWC" else out[2:]
    found = template.plan(out[0], channels[1], channels[0], height, width, (lanes, lanes), machine)
    return found and found[0]


__all__ = ["winograd_in_tiles"]
