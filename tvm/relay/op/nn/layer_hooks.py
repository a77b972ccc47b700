"""The hooks of ``topi.nn`` as rules of operators: passes call the function of the current target."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.op import OPS
from ....target import Target
from ....topi import layer_hooks as alter

LEGALIZE = {
    "nn.batch_matmul": alter.batch_matmul_legalize,
    "nn.conv2d": alter.conv2d_legalize,
    "nn.conv2d_transpose": alter.conv2d_transpose_legalize,
    "nn.dense": alter.dense_legalize,
    "nn.matmul": alter.matmul_legalize,
}
ALTER_LAYOUT = {
    "nn.conv2d": alter.conv2d_alter_layout,
    "nn.conv3d": alter.conv3d_alter_layout,
    "nn.dense": alter.dense_alter_layout,
}


def _for_current_target(rule: Callable) -> Callable:
    def default(attrs, inputs, tinfos, out_type):
        return rule(attrs, inputs, tinfos, out_type, Target.current(allow_none=True))

    return default


def install() -> None:
    """Make the hooks the rules of their operators, and the layouts of this compiler the defaults of the hooks."""
    for name, hook in LEGALIZE.items():
        OPS[name].attrs["FTVMLegalize"] = hook
    for name, hook in ALTER_LAYOUT.items():
        attrs = OPS[name].attrs
        attrs["FTVMAlterOpLayout"] = hook
        rule = attrs.pop("alter_layout", None)
        if rule is not None:
            hook.generic_func_node.set_default(_for_current_target(rule), allow_override=True)


__all__ = ["ALTER_LAYOUT", "LEGALIZE", "install"]
