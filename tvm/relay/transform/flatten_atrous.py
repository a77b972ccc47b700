"""Rewrite dilated convolutions that are expressed as space_to_batch_nd, conv2d and batch_to_space_nd."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Call, Function, RelayExpr
from ..op.record import CallAttrs
from .function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed


def _by_letter(values, layout: str, missing):
    """Return the values for all dimensions except the first, by layout letter."""
    rest = layout[1:]
    return dict(zip(rest, [*values, *[missing] * (len(rest) - len(values))]))


def flattened(node: RelayExpr) -> RelayExpr | None:
    """Return one convolution whose dilation is the block size, or None if the expression has another form."""
    if not isinstance(node, Call) or not is_call(node, "nn.batch_to_space_nd"):
        return None
    conv = node.args[0]
    if not isinstance(conv, Call) or not is_call(conv, "nn.conv2d"):
        return None
    spread = conv.args[0]
    if not isinstance(spread, Call) or not is_call(spread, "nn.space_to_batch_nd") or spread.attrs.pad_value != 0:
        return None
    layout = conv.attrs.data_layout
    plain = set(conv.attrs.strides) == {1} == set(conv.attrs.dilation) and not any(conv.attrs.padding)
    if not plain or layout not in ("NHWC", "NCHW") or conv.attrs.out_layout not in ("", layout):
        return None
    block = _by_letter(spread.attrs.block_shape, layout, 1)
    if block != _by_letter(node.attrs.block_shape, layout, 1) or block["C"] != 1:
        return None
    pads, crops = (_by_letter(v, layout, (0, 0)) for v in (spread.attrs.paddings, node.attrs.crops))
    padding = tuple(pads[c][side] - crops[c][side] for side in (0, 1) for c in "HW")
    if min(padding) < 0 or any((*pads["C"], *crops["C"])):
        return None
    attrs = {**conv.attrs.entries, "padding": padding, "dilation": (block["H"], block["W"])}
    return Call(conv.op, (spread.args[0], *conv.args[1:]), CallAttrs(attrs), (), node.span)


def FlattenAtrousConv() -> RelayFunctionPass:
    """Replace space_to_batch_nd, conv2d and batch_to_space_nd by one dilated convolution."""

    @function_pass(opt_level=3, name="FlattenAtrousConv", required=["InferType"])
    def flatten(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite_typed(func, flattened, mod)

    return flatten


__all__ = ["FlattenAtrousConv"]
