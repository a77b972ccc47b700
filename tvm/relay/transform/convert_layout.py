"""Convert a graph to another data layout: the selected operators are converted, and operators between them follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.transform import PassContext
from ..expr import Call, Function, RelayExpr
from ..infer import dims, infer_function
from ..op.layout import blocks, is_blocked, is_filled
from ..op.nn import packed
from ..op.nn.convolution import filters_in_front, without_blocks
from ..op.record import CallAttrs
from .function_pass import RelayFunctionPass, function_pass, is_call
from .layouts import Layouts

# The kernel layout for each data layout, used if the kernel layout is "default".
KERNELS = {
    "NCHW": "OIHW",
    "NHWC": "HWIO",
    "HWCN": "HWIO",
    "HWNC": "HWOI",
    "NCW": "OIW",
    "NWC": "WIO",
    "NCDHW": "OIDHW",
    "NDHWC": "DHWIO",
}
# The default kernel layout of transposed convolutions for each data layout.
TRANSPOSED = {"NCHW": "IOHW", "NHWC": "HWIO", "NCW": "IOW", "NWC": "WIO", "NCDHW": "IODHW", "NDHWC": "DHWIO"}


class LayoutConfig:
    """Select layers that keep their layout: ``with LayoutConfig(skip_layers=[0]):``

    Parameters
    ----------
    skip_layers : list of int, optional
        The indices of these layers among the layers that ConvertLayout would convert.
    """

    current: LayoutConfig | None = None

    def __init__(self, skip_layers=None):
        self.skip_layers = list(skip_layers or [])
        self.skip_counter = 0

    def check_skip(self) -> bool:
        """Return whether the next layer keeps its layout, and advance to the layer after it.

        Returns
        -------
        bool
            True if the layer keeps its layout.
        """
        skip = self.skip_counter in self.skip_layers
        self.skip_counter += 1
        return skip

    def reset(self) -> None:
        """Restart at the first layer and clear the list of skipped layers."""
        self.skip_counter = 0
        self.skip_layers = []

    def __enter__(self):
        self._outer, LayoutConfig.current = LayoutConfig.current, self
        return self

    def __exit__(self, *_):
        LayoutConfig.current = self._outer


class Desired:
    """The rule that converts each operator to the layout requested for it."""

    def __init__(self, desired: Mapping[str, Any]):
        self.desired = {name: list(v) if isinstance(v, (list, tuple)) else [v] for name, v in desired.items()}

    def __call__(self, node: Call) -> RelayExpr | None:
        if not is_call(node, *self.desired):
            return None
        if LayoutConfig.current is not None and LayoutConfig.current.check_skip():
            return None
        wanted = self.desired[node.op.name]
        own = node.op.attrs.get("FTVMConvertOpLayout")
        if own is not None:
            return own(node.attrs, list(node.args), [a.checked_type_ for a in node.args], wanted)
        attrs = node.attrs
        have = None if attrs is None else attrs.get("data_layout") or attrs.get("layout")
        if attrs is None or not have:
            raise TVMError(f"ConvertLayout: {node.op.name} has no layout attribute and cannot be converted")
        if wanted[0] == "default":
            return None
        return self.layer(node, have, wanted) if "kernel_layout" in attrs else self.follow(node, have, wanted[0])

    def follow(self, node: Call, have: str, layout: str, **more: Any) -> RelayExpr | None:
        """Return the operator in another layout, as its layout rule computes it."""
        rule = node.op.attrs.get("layout_rule")
        found = None if rule is None else rule(node.attrs, [a.checked_type_ for a in node.args], have, layout)
        if found is None or sorted(without_blocks(layout)) != sorted(have):
            raise TVMError(f"ConvertLayout: {node.op.name} cannot be converted from {have} to {layout}")
        attrs = {**found.attrs, **more}
        if "kernel_layout" in attrs:
            return None if attrs == node.attrs.entries else Call(node.op, node.args, CallAttrs(attrs), (), node.span)
        # A converted operator sets its output layout explicitly if it has the attribute.
        if "out_layout" in attrs:
            attrs["out_layout"] = layout
        return Call(node.op, node.args, CallAttrs(attrs), (), node.span)

    def layer(self, node: Call, have: str, wanted: list[str]) -> RelayExpr | None:
        kernel, layout, groups = node.attrs.kernel_layout, wanted[0], node.attrs.groups
        usual = TRANSPOSED if node.op.name.endswith("_transpose") else KERNELS
        given = wanted[1] if len(wanted) > 1 and wanted[1] != "default" else usual.get(layout)
        weight_at = 2 if is_call(node, "nn.deformable_conv2d") else 1
        data, weight = dims(node.args[0].checked_type_), dims(node.args[weight_at].checked_type_)
        if groups > 1 and layout == "NHWC" and kernel == "OIHW" and data[have.index("C")] == weight[0] == groups:
            given = "HWOI"
        if is_blocked(layout):
            return self.blocked(node, have, layout, wanted[1] if len(wanted) > 1 else "default")
        if given is None or sorted(given) != sorted(kernel):
            raise TVMError(
                f"ConvertLayout: {node.op.name} to {layout}: no default kernel layout; give one to replace {kernel}"
            )
        return self.follow(node, have, layout, kernel_layout=given)

    def blocked(self, node: Call, have: str, layout: str, kernel: str) -> RelayExpr | None:
        """Return a convolution in a layout with channel blocks (NCHW16c).

        The convolution stays unchanged (None) if a channel count is not a multiple of the block or if its weight has a
        channel multiplier."""
        attrs, plain = node.attrs, without_blocks(layout)
        if node.op.name not in ("nn.conv1d", "nn.conv2d", "nn.conv3d") or sorted(plain) != sorted(have):
            raise TVMError(f"ConvertLayout: {node.op.name} cannot be converted from {have} to {layout}")
        if filters_in_front(attrs, [a.checked_type_ for a in node.args]):
            return None
        alone = attrs.groups > 1 and dims(node.args[0].checked_type_)[have.index("C")] == attrs.groups
        if kernel == "default":
            block = blocks(layout)["C"]
            inner = 1 if alone else block
            kernel = f"{KERNELS[plain]}{inner}i{block}o"
        changed = CallAttrs({**attrs.entries, "data_layout": layout, "kernel_layout": kernel, "out_layout": ""})
        whole = [t.checked_type_ for t in (node.args[0], node, node.args[1])]
        pairs = zip(whole, (have, attrs.out_layout or have, attrs.kernel_layout), (layout, layout, kernel))
        if any(is_filled(t, old, new) for t, old, new in pairs):
            return None
        if node.op.name == "nn.conv2d" and plain == "NCHW" and (alone or attrs.groups == 1):
            make = packed.contrib_depthwise_conv2d_nchwc if alone else packed.contrib_conv2d_nchwc
            return make(*node.args, **changed.entries)
        return Call(node.op, node.args, changed, (), node.span)


def ConvertLayout(desired_layouts: Mapping[str, Any]) -> RelayFunctionPass:
    """Convert operators to layouts: ``{"nn.conv2d": ["NHWC", "default"]}``.

    Parameters
    ----------
    desired_layouts : Mapping[str, Any]
        The layouts of data and weights for each operator name.

    Returns
    -------
    RelayFunctionPass

    Examples
    --------
    >>> x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    >>> mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.conv2d(x, w)))
    >>> nhwc = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)
    >>> "data_layout=\\"NHWC\\"" in nhwc.astext()
    True
    """

    @function_pass(opt_level=3, name="ConvertLayout", required=["InferType", "CanonicalizeOps"])
    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        new = Layouts(Desired(desired_layouts)).run(func)
        return func if new is func else infer_function(new, mod)

    return convert


__all__ = ["ConvertLayout", "LayoutConfig"]
