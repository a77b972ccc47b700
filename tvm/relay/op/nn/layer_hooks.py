"""Register the hooks of ``topi.nn`` as operator rules: passes call the hook of the current target."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.op import OPS
from ....target import Target
from ....topi import layer_hooks
from ...expr import RelayExpr
from ..rules import dims
from ..transform import layout_transform
from .cpu_layout import lanes_of
from .packed import contrib_dense_pack

LEGALIZE = {
    "nn.batch_matmul": layer_hooks.batch_matmul_legalize,
    "nn.conv2d": layer_hooks.conv2d_legalize,
    "nn.conv2d_transpose": layer_hooks.conv2d_transpose_legalize,
    "nn.dense": layer_hooks.dense_legalize,
    "nn.matmul": layer_hooks.matmul_legalize,
}
ALTER_LAYOUT = {
    "nn.conv2d": layer_hooks.conv2d_alter_layout,
    "nn.conv3d": layer_hooks.conv3d_alter_layout,
    "nn.dense": layer_hooks.dense_alter_layout,
}


def _for_current_target(rule: Callable) -> Callable:
    def default(attrs, inputs, tinfos, out_type):
        return rule(attrs, inputs, tinfos, out_type, Target.current(allow_none=True))

    return default


def packed_dense(attrs, inputs, tinfos, out_type, target: Target | None) -> RelayExpr | None:
    """Return a dense layer with weights in blocks of up to two vectors of rows, where the block size divides the
    rows."""
    lanes = lanes_of(target)
    rows = dims(tinfos[1])[0]
    is_float = tinfos[0].dtype == tinfos[1].dtype == out_type.dtype == "float32"
    if lanes is None or not is_float or not isinstance(rows, int):
        return None
    block = max(n for n in range(1, 2 * lanes + 1) if rows % n == 0)
    layout = f"NC{block}n"
    weight = layout_transform(inputs[1], "NC", layout)
    return contrib_dense_pack(inputs[0], weight, layout, attrs.units, out_type.dtype)


def install() -> None:
    """Register the hooks as rules of their operators, with the layouts of this compiler as defaults of the hooks."""
    for name, hook in LEGALIZE.items():
        OPS[name].attrs["FTVMLegalize"] = hook
    for name, hook in ALTER_LAYOUT.items():
        attrs = OPS[name].attrs
        attrs["FTVMAlterOpLayout"] = hook
        rule = attrs.pop("alter_layout", None)
        if rule is not None:
            hook.generic_func_node.set_default(_for_current_target(rule), allow_override=True)
    packed = _for_current_target(packed_dense)
    layer_hooks.x86_dense_alter_layout.generic_func_node.set_default(packed, allow_override=True)


__all__ = ["ALTER_LAYOUT", "LEGALIZE", "install", "packed_dense"]
