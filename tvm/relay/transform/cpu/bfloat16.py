"""Rules for bfloat16 matmuls and convolutions.

They use AMX tiles or dot-product instructions if the target has them and the shapes fit, else they are computed in
float32. All variants accumulate in float32, so a model rounds the same values to bfloat16 in each of them."""

from __future__ import annotations

from ....ir.prim import IntImm
from ....target import Target
from ....topi.cpu.blocks import tile_groups
from ....topi.cpu.dot_products import dot_product
from ....topi.cpu.matmul_dots import PANEL
from ....topi.cpu.matmul_tiles import panel_width
from ....topi.cpu.tiles import kind_of
from ...expr import Call, Constant, RelayExpr
from ...op import tensor
from ...op.record import CallAttrs
from ..function_pass import type_of
from ..simplify_expr import Table

NARROW, WIDE = "bfloat16", "float32"
PRODUCTS = (
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.dense nn.matmul "
    "nn.batch_matmul nn.deformable_conv2d"
).split()


def _is_known(e: RelayExpr) -> bool:
    return all(isinstance(d, IntImm) and int(d) > 0 for d in type_of(e).shape)


def _fits(node: Call, has_tiles: bool) -> bool:
    """Return whether the target's AMX tiles (or else its dot-product instructions) can compute a call."""
    (data, weight), attrs = node.args[:2], node.attrs
    if not _is_known(data) or not _is_known(weight):
        return False
    name, shape = node.op.name, [int(d) for d in type_of(weight).shape]
    if name == "nn.conv2d":
        channels = int(type_of(data).shape[attrs.data_layout.index("C")]) if "C" in attrs.data_layout else 0
        is_plain = attrs.data_layout in ("NCHW", "NHWC") and sorted(attrs.kernel_layout) == sorted("OIHW")
        filters = shape[attrs.kernel_layout.index("O")] if is_plain else 0
        if not is_plain or attrs.out_layout or not isinstance(weight, Constant):
            return False
        is_plain = attrs.groups == 1 or attrs.groups == channels == filters
        return is_plain or has_tiles and tile_groups(channels, filters, attrs.groups) is not None
    if name == "nn.dense":
        has_panels = not has_tiles or panel_width(shape[0]) is not None
        return isinstance(weight, Constant) and len(shape) == 2 and has_panels
    if name == "nn.batch_matmul":
        columns = shape[1] if attrs.transpose_b else shape[2]
        has_panels = panel_width(columns) is not None if has_tiles else columns % PANEL == 0
        return not attrs.transpose_a and has_panels
    return False


def widened(e: RelayExpr) -> RelayExpr:
    if isinstance(e, Constant):
        return Constant(e.data.numpy().astype(WIDE))
    return tensor.cast(e, WIDE)


def is_fast(target: Target) -> bool:
    """Whether a target has instructions that make bfloat16 matmuls faster than float32 matmuls."""
    return kind_of(target, NARROW, NARROW) is not None or dot_product(target, NARROW, NARROW, PANEL) is not None


def rules(target: Target) -> Table:
    """Return the SimplifyExpr rules for bfloat16 matmuls and convolutions."""
    has_tiles, has_some = kind_of(target, NARROW, NARROW) is not None, is_fast(target)

    def rule(node: Call, counts) -> RelayExpr | None:
        if any(type_of(a).dtype != NARROW for a in node.args[:2]):
            return None
        result = type_of(node).dtype
        fits = has_some and _fits(node, has_tiles)
        if result not in (NARROW, WIDE) or fits and result == WIDE:
            return None
        args = node.args if fits else tuple(widened(a) for a in node.args)
        wide = Call(node.op, args, CallAttrs({**node.attrs.entries, "out_dtype": WIDE}), (), node.span)
        return wide if result == WIDE else tensor.cast(wide, NARROW)

    return dict.fromkeys(PRODUCTS, (rule,))


__all__ = ["is_fast", "rules"]
