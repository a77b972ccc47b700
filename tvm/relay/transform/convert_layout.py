"""Graphs in another data layout.

Operators that ask for it are converted between two transposes; transposes then sink through everything that can work
in any layout until two meet and vanish. Layouts are orders of the same letters, such as NCHW and NHWC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem
from ..infer import dims
from ..op import transform
from ..op.record import BROADCAST, CallAttrs, pattern_of
from ..op.rules import normalize_axis
from .function_pass import RelayFunctionPass, function_pass, is_call, rewrite_typed, type_of

# Kernel layouts that go with data layouts where "default" is asked for.
KERNELS = {
    "NCHW": "OIHW",
    "NHWC": "HWIO",
    "HWCN": "HWIO",
    "NCW": "OIW",
    "NWC": "WIO",
    "NCDHW": "OIDHW",
    "NDHWC": "DHWIO",
}
WITH_LAYOUT = {
    "nn.max_pool2d",
    "nn.avg_pool2d",
    "nn.global_avg_pool2d",
    "nn.global_max_pool2d",
    "nn.adaptive_avg_pool2d",
    "nn.adaptive_max_pool2d",
    "nn.upsampling",
    "image.resize2d",
    "nn.max_pool1d",
    "nn.avg_pool1d",
    "nn.max_pool3d",
    "nn.avg_pool3d",
    "nn.depth_to_space",
    "nn.space_to_depth",
}
WITH_AXIS = {"nn.bias_add", "nn.softmax", "nn.log_softmax", "nn.prelu", "nn.batch_norm"}
REDUCTIONS = {"sum", "mean", "max", "min", "prod"}


class LayoutConfig:
    """Which of the layers to be converted keep their layout: ``with LayoutConfig(skip_layers=[0]):``"""

    current: LayoutConfig | None = None

    def __init__(self, skip_layers=None):
        self.skip_layers = list(skip_layers or [])
        self.skip_counter = 0

    def check_skip(self) -> bool:
        skip = self.skip_counter in self.skip_layers
        self.skip_counter += 1
        return skip

    def reset(self) -> None:
        self.skip_counter = 0
        self.skip_layers = []

    def __enter__(self):
        self._outer, LayoutConfig.current = LayoutConfig.current, self
        return self

    def __exit__(self, *_):
        LayoutConfig.current = self._outer


def change(e: RelayExpr, source: str, wanted: str) -> RelayExpr:
    """An expression in another layout; two changes that cancel are none, and constants are changed at once."""
    if source == wanted:
        return e
    if is_call(e, "layout_transform") and e.attrs.dst_layout == source and sorted(e.attrs.src_layout) == sorted(wanted):
        return change(e.args[0], e.attrs.src_layout, wanted)
    if isinstance(e, Constant) and len(e.data.shape) == len(source):
        return Constant(e.data.numpy().transpose([source.index(c) for c in wanted]).copy())
    made = transform.layout_transform(e, source, wanted)
    type_of(made)
    return made


def _undone(e: RelayExpr) -> tuple[RelayExpr, str, str] | None:
    """(x, its layout, the layout it is brought to) of a layout change that only moves axes."""
    if not is_call(e, "layout_transform"):
        return None
    inner, outer = e.attrs.src_layout, e.attrs.dst_layout
    return (e.args[0], inner, outer) if inner.isupper() and sorted(inner) == sorted(outer) else None


class _Sink:
    """Moves a layout change from the inputs of an operator to its result."""

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if is_call(node, "layout_transform"):
            return self.joined(node)
        if type(node) is TupleGetItem and is_call(node.tuple_value, "nn.batch_norm") and node.index == 0:
            return self.batch_norm(node)
        if type(node) is not Call or type(node.op) is not Op or is_call(node, "nn.batch_norm"):
            return None
        inputs = node.args[0].fields if is_call(node, "concatenate") and isinstance(node.args[0], Tuple) else node.args
        found = next((u for u in map(_undone, inputs) if u is not None), None)
        if found is None:
            return None
        _, inner, outer = found
        made = self.convert(node, inputs, inner, outer)
        return None if made is None else change(made, inner, outer)

    def joined(self, node: Call) -> RelayExpr | None:
        below = _undone(node.args[0])
        if below is None or node.attrs.src_layout != below[2]:
            return None
        got = change(below[0], below[1], node.attrs.dst_layout)
        return got if got.checked_type_ == node.checked_type_ else None

    def batch_norm(self, node: TupleGetItem) -> RelayExpr | None:
        call = node.tuple_value
        found = _undone(call.args[0])
        if found is None:
            return None
        x, inner, outer = found
        axis = inner.index(outer[normalize_axis(call.attrs.axis, len(outer))])
        made = Call(call.op, (x, *call.args[1:]), CallAttrs({**call.attrs.entries, "axis": axis}), (), call.span)
        item = TupleGetItem(made, 0)
        type_of(item)
        return change(item, inner, outer)

    def convert(self, node: Call, inputs, inner: str, outer: str) -> RelayExpr | None:
        """The operator in the inner layout; None if it cannot work there."""
        name, attrs = node.op.name, node.attrs
        if name == "concatenate":
            if not all(_undone(i) is not None or isinstance(i, Constant) for i in inputs):
                return None
            axis = inner.index(outer[normalize_axis(attrs.axis, len(outer))])
            parts = Tuple([self.input(i, outer, inner) for i in inputs])
            return self.call(node, (parts,), axis=axis)
        if _undone(node.args[0]) is None and name in (*WITH_LAYOUT, *WITH_AXIS, *REDUCTIONS, "nn.pad"):
            return None
        if name in WITH_LAYOUT:
            if attrs.layout != outer or attrs.get("out_layout"):
                return None
            return self.call(node, (self.input(node.args[0], outer, inner),), layout=inner)
        if name in WITH_AXIS:
            axis = inner.index(outer[normalize_axis(attrs.axis, len(outer))])
            return self.call(node, (self.input(node.args[0], outer, inner), *node.args[1:]), axis=axis)
        if name == "nn.pad":
            width = tuple(attrs.pad_width[outer.index(c)] for c in inner)
            return self.call(node, (self.input(node.args[0], outer, inner), *node.args[1:]), pad_width=width)
        if name in REDUCTIONS:
            return self.reduction(node, inner, outer)
        if pattern_of(node.op) <= BROADCAST and isinstance(node.checked_type_, TensorType) and name not in _FIXED:
            args = [self.input(i, outer, inner) for i in node.args]
            return None if any(a is None for a in args) else self.call(node, tuple(args))
        return None

    def reduction(self, node: Call, inner: str, outer: str) -> RelayExpr | None:
        attrs = node.attrs
        if not attrs.keepdims or attrs.axis is None or attrs.exclude:
            return None
        axes = (attrs.axis,) if isinstance(attrs.axis, int) else attrs.axis
        axes = tuple(inner.index(outer[normalize_axis(a, len(outer))]) for a in axes)
        return self.call(node, (self.input(node.args[0], outer, inner),), axis=axes)

    def input(self, e: RelayExpr, outer: str, inner: str) -> RelayExpr | None:
        """An input in the inner layout: tensors of lower rank are filled up with dimensions of size one."""
        rank = len(dims(type_of(e)))
        if rank == 0:
            return e
        if rank < len(outer):
            shape = dims(e.checked_type_)
            if not all(isinstance(d, int) for d in shape):
                return None
            full = (1,) * (len(outer) - rank) + shape
            e = Constant(e.data.numpy().reshape(full)) if isinstance(e, Constant) else transform.reshape(e, full)
            type_of(e)
        return change(e, outer, inner)

    def call(self, node: Call, args: tuple, **changes: Any) -> RelayExpr:
        attrs = CallAttrs({**node.attrs.entries, **changes}) if changes else node.attrs
        made = Call(node.op, args, attrs, node.type_args, node.span)
        type_of(made)
        return made


# Operators whose meaning depends on the order of axes although they work element by element.
_FIXED = frozenset({"expand_dims", "broadcast_to", "tile", "repeat", "full", "layout_transform"})


class _Convert:
    """Replaces operators by themselves in the layout asked for, between two layout changes."""

    def __init__(self, desired: Mapping[str, Any]):
        self.desired = {name: list(v) if isinstance(v, (list, tuple)) else [v] for name, v in desired.items()}

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if not is_call(node, *self.desired):
            return None
        if LayoutConfig.current is not None and LayoutConfig.current.check_skip():
            return None
        wanted = self.desired[node.op.name]
        own = node.op.attrs.get("FTVMConvertOpLayout")
        if own is not None:
            return own(node.attrs, list(node.args), [a.checked_type_ for a in node.args], wanted)
        if "kernel_layout" in node.attrs:
            return self.layer(node, wanted)
        return self.plain(node, wanted[0])

    def plain(self, node: Call, layout: str) -> RelayExpr | None:
        have = node.attrs.get("layout")
        if have is None:
            raise TVMError(f"ConvertLayout: {node.op.name} has no layout that could be changed")
        if have == layout:
            return None
        data = change(node.args[0], have, layout)
        made = Call(node.op, (data, *node.args[1:]), CallAttrs({**node.attrs.entries, "layout": layout}), (), node.span)
        return change(made, layout, have)

    def layer(self, node: Call, wanted: list[str]) -> RelayExpr | None:
        attrs = node.attrs
        have, kernel = attrs.data_layout, attrs.kernel_layout
        data_layout = wanted[0]
        if data_layout == "default":
            return None
        kernel_layout = wanted[1] if len(wanted) > 1 and wanted[1] != "default" else KERNELS.get(data_layout)
        if kernel_layout is None or sorted(data_layout) != sorted(have) or sorted(kernel_layout) != sorted(kernel):
            raise TVMError(
                f"ConvertLayout: {node.op.name} from {have} ({kernel}) to {data_layout} ({kernel_layout}) is not "
                "known; layouts with split letters come from AlterOpLayout"
            )
        if (
            attrs.groups > 1
            and data_layout == "NHWC"
            and kernel == "OIHW"
            and dims(node.args[1].checked_type_)[0] == attrs.groups
        ):
            kernel_layout = "HWOI"
        if (have, kernel) == (data_layout, kernel_layout):
            return None
        changed = {"data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": ""}
        args = (change(node.args[0], have, data_layout), change(node.args[1], kernel, kernel_layout))
        made = Call(node.op, args, CallAttrs({**attrs.entries, **changed}), (), node.span)
        type_of(made)
        return change(made, data_layout, have)


def sink_layouts(func: Function, mod: IRModule | None = None) -> Function:
    """Layout changes moved towards the results as far as they go."""
    return rewrite_typed(func, _Sink(), mod)


def ConvertLayout(desired_layouts: Mapping[str, Any]) -> RelayFunctionPass:
    """Convert operators to layouts: ``{"nn.conv2d": ["NHWC", "default"]}``."""

    @function_pass(opt_level=3, name="ConvertLayout", required=["InferType"])
    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        convert_one, sink = _Convert(desired_layouts), _Sink()

        def rule(node):
            got = convert_one(node)
            if got is None:
                return sink(node)
            type_of(got, mod)
            return got

        return rewrite_typed(func, rule, mod)

    return convert


__all__ = ["ConvertLayout", "LayoutConfig", "change", "sink_layouts"]
