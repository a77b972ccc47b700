"""Channels in blocks of a vector's width, through as much of the graph as can take them.

A convolution over NCHW becomes one over NCHW16c (with the target's width), its weights are rearranged when compiling,
and the operators that follow work on the blocked data as it is. Data is only rearranged where it enters or leaves.
"""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...target import Target
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import infer_function
from ..op import transform
from ..op.nn import packed
from ..op.record import BROADCAST, ELEMWISE, call, pattern_of
from .function_pass import RelayFunctionPass, function_pass
from .fuse_ops import _own_nodes

POOLS = frozenset({"nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool2d", "nn.global_max_pool2d"})


class Blocked:
    """A value of shape NCHW kept as NCHW<block>c."""

    __slots__ = ("value", "block")

    def __init__(self, value: RelayExpr, block: int):
        self.value, self.block = value, block


def shape_of(e: RelayExpr) -> tuple[int, ...] | None:
    t = e.checked_type_
    if not isinstance(t, TensorType) or not all(hasattr(d, "value") for d in t.shape):
        return None
    return tuple(d.value for d in t.shape)


class Blocking:
    """Rewrites one function. ``plain`` and ``blocked`` hold the two forms of each value, made when asked for."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.plain: dict[int, RelayExpr] = {}
        self.blocked: dict[int, Blocked] = {}

    def run(self, func: Function) -> Function:
        for node in _own_nodes(func.body):
            self.node(node)
        return func.replace(body=self.as_plain(func.body))

    def node(self, node: RelayExpr) -> None:
        if isinstance(node, Call) and isinstance(node.op, Op):
            made = self.call(node)
            if made is not None:
                self.blocked[id(node)] = made
                return
        self.plain[id(node)] = node if isinstance(node, Function) else node.map_children(
            lambda c: c if isinstance(c, Op) else self.as_plain(c))

    def as_plain(self, e: RelayExpr) -> RelayExpr:
        if id(e) not in self.plain:
            b = self.blocked[id(e)]
            self.plain[id(e)] = transform.layout_transform(b.value, f"NCHW{b.block}c", "NCHW")
        return self.plain[id(e)]

    def as_blocked(self, e: RelayExpr, block: int) -> RelayExpr:
        got = self.blocked.get(id(e))
        if got is not None and got.block == block:
            return got.value
        made = transform.layout_transform(self.as_plain(e), "NCHW", f"NCHW{block}c")
        if got is None:
            self.blocked[id(e)] = Blocked(made, block)
        return made

    def block_for(self, channels: int) -> int | None:
        return next((b for b in (self.lanes, self.lanes // 2) if b >= 4 and channels % b == 0), None)

    # -- operators -----------------------------------------------------------------------------------------------

    def call(self, node: Call) -> Blocked | None:
        name = node.op.name
        if name == "nn.conv2d":
            return self.conv2d(node)
        source = self.blocked.get(id(node.args[0])) if node.args else None
        if name in POOLS:
            return self.pool(node, source) if source is not None and node.attrs.layout == "NCHW" else None
        if name == "nn.bias_add" and source is not None and node.attrs.axis in (1, -3):
            bias = self.along_channels(node.args[1], source.block)
            return None if bias is None else Blocked(call("add", source.value, bias), source.block)
        if pattern_of(node.op) == ELEMWISE and source is not None and len(node.args) == 1:
            return Blocked(Call(node.op, (source.value,), node.attrs), source.block)
        if pattern_of(node.op) == BROADCAST and len(node.args) == 2:
            return self.broadcast(node)
        if name == "concatenate" and node.attrs.axis in (1, -3):
            return self.concatenate(node)
        return None

    def conv2d(self, node: Call) -> Blocked | None:
        attrs = node.attrs
        data, weight = node.args
        x, w = shape_of(data), shape_of(weight)
        if attrs.data_layout != "NCHW" or attrs.kernel_layout != "OIHW" or x is None or w is None or attrs.out_layout:
            return None
        if not isinstance(weight, Constant) or data.checked_type_.dtype != "float32":
            return None
        out_block = self.block_for(w[0])
        if out_block is None:
            return None
        options = {"strides": attrs.strides, "padding": attrs.padding, "dilation": attrs.dilation,
                   "channels": attrs.channels, "kernel_size": attrs.kernel_size, "out_dtype": attrs.out_dtype,
                   "out_layout": f"NCHW{out_block}c"}
        if attrs.groups == 1:
            in_block = self.block_for(x[1]) or (x[1] if x[1] <= 4 else None)
            if in_block is None:
                return None
            kernel = transform.layout_transform(self.as_plain(weight), "OIHW", f"OIHW{in_block}i{out_block}o")
            made = packed.contrib_conv2d_nchwc(self.as_blocked(data, in_block), kernel, groups=1,
                                               data_layout=f"NCHW{in_block}c",
                                               kernel_layout=f"OIHW{in_block}i{out_block}o", **options)
            return Blocked(made, out_block)
        if attrs.groups == x[1] == w[0] and w[1] == 1:
            kernel = transform.layout_transform(self.as_plain(weight), "OIHW", f"OIHW1i{out_block}o")
            made = packed.contrib_depthwise_conv2d_nchwc(self.as_blocked(data, out_block), kernel, groups=attrs.groups,
                                                         data_layout=f"NCHW{out_block}c",
                                                         kernel_layout=f"OIHW1i{out_block}o", **options)
            return Blocked(made, out_block)
        return None

    def pool(self, node: Call, source: Blocked) -> Blocked:
        entries = {**dict(node.attrs.items()), "layout": f"NCHW{source.block}c"}
        return Blocked(call(node.op.name, source.value, **entries), source.block)

    def broadcast(self, node: Call) -> Blocked | None:
        out = shape_of(node)
        lead = next((b for b in (self.blocked.get(id(a)) for a in node.args) if b is not None), None)
        if lead is None or out is None or len(out) != 4:
            return None
        sides = []
        for arg in node.args:
            shape = shape_of(arg)
            if shape == out:
                sides.append(self.as_blocked(arg, lead.block))
            elif shape == ():
                sides.append(self.as_plain(arg))
            else:
                side = self.along_channels(arg, lead.block) if shape is not None else None
                if side is None:
                    side = self.spread(arg, out, lead.block)
                if side is None:
                    return None
                sides.append(side)
        return Blocked(Call(node.op, tuple(sides), node.attrs), lead.block)

    def spread(self, arg: RelayExpr, out: tuple[int, ...], block: int) -> RelayExpr | None:
        """A value with all channels and one pixel (an attention gate) in blocks."""
        shape = shape_of(arg)
        if shape is not None and len(shape) == 4 and shape[1] == out[1]:
            return self.as_blocked(arg, block)
        return None

    def along_channels(self, e: RelayExpr, block: int) -> RelayExpr | None:
        """A constant with one number for each channel, as it stands beside blocked data."""
        shape = shape_of(e)
        if not isinstance(e, Constant) or shape is None:
            return None
        at = {1: 0, 3: 0, 4: 1}.get(len(shape))
        if at is None or any(d != 1 for i, d in enumerate(shape) if i != at) or shape[at] % block:
            return None
        array = e.data.numpy().reshape(shape[at] // block, 1, 1, block)
        return Constant(array)

    def concatenate(self, node: Call) -> Blocked | None:
        parts = node.args[0].fields if hasattr(node.args[0], "fields") else None
        if not parts:
            return None
        found = [self.blocked.get(id(p)) for p in parts]
        if any(f is None for f in found) or len({f.block for f in found}) != 1:
            return None
        return Blocked(transform.concatenate([f.value for f in found], 1), found[0].block)


def BlockChannels() -> RelayFunctionPass:
    """Convolutions and what follows them over channels in blocks of the target's vector width."""

    @function_pass(opt_level=3, name="BlockChannels", required=["InferType"])
    def block(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        target = Target.current(allow_none=True)
        if target is None or "cpu" not in target.keys:
            return func
        lanes = max(target.features.vector_bits // 32, 4)
        return infer_function(Blocking(lanes).run(func), mod)

    return block
