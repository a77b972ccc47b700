"""Fold per-channel factors into weights that need not be constants.

``conv(x * s, w)`` becomes ``conv(x, w * s)`` as Relay expressions, also if several layers read the data and for blocked
channels. The analysis first finds the expressions that can be scaled along some axes: forward, an expression can if all
its users can; backward, if the layer before it can and it has no other user. ``Along`` contains the axes, and whether
the factors must be positive."""

from __future__ import annotations

from typing import NamedTuple

from ...error import not_defined
from ...ir.tensor_type import TensorType
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import dims
from ..op import tensor, transform
from ..op.layout import parts
from ..op.nn.convolution import filters_in_front
from ..op.rules import normalize_axis
from .function_pass import is_call, use_counts
from .fuse_ops import own_nodes

LAYERS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense")
ADDITIONS = ("add", "subtract")
MONOTONE = ("nn.relu", "nn.leaky_relu")


class Along(NamedTuple):
    """The axes along which factors vary: the channel axis, and the axis of the channel blocks if there is one."""

    axes: tuple[int, ...]
    positive: bool = False


def _axes_of(layout: str, letter: str) -> tuple[int, ...]:
    """Return the indices of a dimension and of its blocks in a layout."""
    return tuple(i for i, (c, _) in enumerate(parts(layout)) if c.upper() == letter)


def _is_float(e: RelayExpr) -> bool:
    t = e.checked_type_
    return isinstance(t, TensorType) and t.dtype.startswith("float") and all(isinstance(d, int) for d in dims(t))


def _weight_axes(node: Call, inputs: bool) -> tuple[int, ...] | None:
    """Return the axes of a layer's weight that correspond to its inputs or outputs; None if there are no such axes."""
    if is_call(node, "nn.dense"):
        return (1,) if inputs else (0,)
    attrs, layout = node.attrs, node.attrs.kernel_layout
    if attrs.groups == 1:
        return _axes_of(layout, "I" if inputs else "O")
    if filters_in_front(attrs, [a.checked_type_ for a in node.args]):
        return None
    channels = 1
    for a in _axes_of(attrs.data_layout, "C"):
        channels *= dims(node.args[0].checked_type_)[a]
    filters = 1
    for a in _axes_of(layout, "O"):
        filters *= dims(node.args[1].checked_type_)[a]
    # In a depthwise convolution without multiplier every filter reads one channel.
    alone = attrs.groups == channels == filters and layout != "HWOI"
    return _axes_of(layout, "O") if alone or not inputs and layout != "HWOI" else None


def layer_axes(node: Call, inputs: bool) -> Along | None:
    """Return the axes of a layer's data or output along which factors can be folded into its weight."""
    if not _is_float(node) or not all(_is_float(a) for a in node.args):
        return None
    weight = _weight_axes(node, inputs)
    if is_call(node, "nn.dense"):
        return Along((len(dims(node.checked_type_)) - 1,))
    layout = node.attrs.data_layout if inputs else node.attrs.out_layout or node.attrs.data_layout
    axes = _axes_of(layout, "C")
    return Along(axes) if weight is not None and len(weight) == len(axes) <= 2 else None


def squeezed(scale: RelayExpr, shape: tuple[int, ...], axes: tuple[int, ...]) -> RelayExpr | None:
    """Return factors as a tensor of ``axes`` alone; None unless they vary only along these axes and have their full
    size."""
    own = dims(scale.checked_type_) if _is_float(scale) else ()
    first = len(shape) - len(own)
    if first < 0 or any(a < first or own[a - first] != shape[a] for a in axes):
        return None
    others = [i for i in range(len(own)) if i + first not in axes]
    if any(own[i] != 1 for i in others):
        return None
    return transform.squeeze(scale, others) if others else scale


def placed(scale: RelayExpr, sizes: tuple[int, ...], axes: tuple[int, ...]) -> RelayExpr:
    """Reshape factors so that they broadcast along ``axes`` of a tensor with these sizes."""
    if len(axes) == 1:
        behind = len(sizes) - axes[0] - 1
        return transform.expand_dims(scale, 1, behind) if behind else scale
    return transform.reshape(scale, [n if i in axes else 1 for i, n in enumerate(sizes)])


def all_positive(scale: RelayExpr) -> bool:
    return isinstance(scale, Constant) and bool((scale.data.numpy() > 0).all())


def no_zero(scale: RelayExpr) -> bool:
    return isinstance(scale, Constant) and bool((scale.data.numpy() != 0).all())


def with_weight(node: Call, data: RelayExpr, weight: RelayExpr, scale: RelayExpr, inputs: bool) -> Call:
    """Return a layer on rewritten data, with factors multiplied into its weight."""
    axes = _weight_axes(node, inputs)
    assert axes is not None
    made = tensor.multiply(weight, placed(scale, dims(node.args[1].checked_type_), axes))
    return Call(node.op, (data, made), node.attrs, (), node.span)


def summand(node: Call, along: Along) -> int | None:
    """Return the index of the operand of an addition that has its shape; None unless the other operand varies only
    along the axes."""
    shape = dims(node.checked_type_)
    for side in (0, 1):
        whole, other = node.args[side], node.args[1 - side]
        if whole.checked_type_ == node.checked_type_ and squeezed(other, shape, along.axes) is not None:
            return side
    return None


class Folding:
    """Rewrites a function; nodes are visited in order, each with the rewritten values of its operands."""

    nodes: list[RelayExpr]
    value: dict[int, RelayExpr]

    def run(self, func: Function) -> Function:
        for node in self.nodes:
            self.value[id(node)] = self.visit(node)
        body = self.value[id(func.body)]
        return func if body is func.body else func.replace(body=body)

    def visit(self, node: RelayExpr) -> RelayExpr:
        raise not_defined(self, "visit")


class Forward(Folding):
    """Folds factors of a layer's input into its weight."""

    def __init__(self, func: Function):
        self.nodes = own_nodes(func.body)
        self.wanted: dict[int, Along | None] = {}
        self.value: dict[int, RelayExpr] = {}
        # For each value whose factors have been removed: the factors, by expression id.
        self.scale: dict[int, RelayExpr] = {}
        self.find(func.body)

    def ask(self, e: RelayExpr, along: Along | None) -> None:
        known = self.wanted.get(id(e), along)
        if known is not None and along is not None and known.axes == along.axes:
            self.wanted[id(e)] = Along(along.axes, known.positive or along.positive)
        else:
            self.wanted[id(e)] = None

    def find(self, body: RelayExpr) -> None:
        self.ask(body, None)
        for node in reversed(self.nodes):
            along, taker = self.wanted.get(id(node)), None
            if is_call(node, *LAYERS):
                taker, along = 0, layer_axes(node, True)
            elif along is not None and is_call(node, *MONOTONE):
                taker, along = 0, Along(along.axes, True)
            elif along is not None and is_call(node, *ADDITIONS):
                taker = summand(node, along)
            for i, child in enumerate(node.args if type(node) is Call else node.children()):
                self.ask(child, along if i == taker and type(node) is Call else None)

    def visit(self, node: RelayExpr) -> RelayExpr:
        along = self.wanted.get(id(node))
        if along is not None and is_call(node, "multiply"):
            found = self.starts(node, along)
            if found is not None:
                return found
        new = node if type(node) is Function else node.map_children(lambda c: self.value.get(id(c), c))
        taken = (
            [(i, self.scale[id(a)]) for i, a in enumerate(node.args) if id(a) in self.scale]
            if (type(node) is Call)
            else []
        )
        if not taken:
            return new
        i, scale = taken[0]
        if is_call(node, *LAYERS):
            return with_weight(node, new.args[0], new.args[1], scale, True)
        self.scale[id(node)] = scale
        if is_call(node, *ADDITIONS):
            assert along is not None
            other = placed(scale, dims(node.checked_type_), along.axes)
            args = [tensor.divide(a, other) if j != i else a for j, a in enumerate(new.args)]
            return Call(new.op, tuple(args), new.attrs, (), new.span)
        return new

    def starts(self, node: Call, along: Along) -> RelayExpr | None:
        for data, scale in (node.args, tuple(reversed(node.args))):
            found = squeezed(scale, dims(node.checked_type_), along.axes)
            if found is None or data.checked_type_ != node.checked_type_ or along.positive and not all_positive(scale):
                continue
            if not no_zero(scale) and self.passes_sum(node):
                continue
            self.scale[id(node)] = found
            return self.value[id(data)]
        return None

    def passes_sum(self, node: Call) -> bool:
        """Return whether an operand of an addition would be divided by the factors before a layer absorbs them."""
        users = {id(node)}
        for n in self.nodes:
            if type(n) is Call and any(id(a) in users for a in n.args) and not is_call(n, *LAYERS):
                if is_call(n, *ADDITIONS):
                    return True
                users.add(id(n))
        return False


class Backward(Folding):
    """Folds factors of a layer's output into its weight."""

    def __init__(self, func: Function):
        self.nodes = own_nodes(func.body)
        self.counts = use_counts(func)
        self.can: dict[int, Along | None] = {}
        self.value: dict[int, RelayExpr] = {}
        for node in self.nodes:
            self.can[id(node)] = self.find(node)

    def find(self, node: RelayExpr) -> Along | None:
        if type(node) is not Call or self.counts.get(id(node), 0) > 1:
            return None
        if is_call(node, *LAYERS):
            return layer_axes(node, False)
        if is_call(node, *MONOTONE):
            below = self.can.get(id(node.args[0]))
            return None if below is None else Along(below.axes, True)
        if is_call(node, "nn.bias_add"):
            below = self.can.get(id(node.args[0]))
            rank = len(dims(node.checked_type_)) if isinstance(node.checked_type_, TensorType) else 0
            return below if below is not None and below.axes == (normalize_axis(node.attrs.axis, rank),) else None
        if is_call(node, *ADDITIONS):
            return self.of_sum(node)
        return None

    def of_sum(self, node: Call) -> Along | None:
        sides = [self.can.get(id(a)) for a in node.args]
        if sides[0] is not None and sides[1] is not None:
            same = sides[0].axes == sides[1].axes and len({a.checked_type_ for a in node.args}) == 1
            return Along(sides[0].axes, sides[0].positive or sides[1].positive) if same else None
        along = sides[0] if sides[0] is not None else sides[1]
        return along if along is not None and summand(node, along) == sides.index(along) else None

    def visit(self, node: RelayExpr) -> RelayExpr:
        if is_call(node, "multiply") and _is_float(node):
            for data, scale in (node.args, tuple(reversed(node.args))):
                along = self.can.get(id(data))
                if along is None or data.checked_type_ != node.checked_type_:
                    continue
                found = squeezed(scale, dims(node.checked_type_), along.axes)
                if found is not None and (not along.positive or all_positive(scale)):
                    return self.scaled(data, found)
        return node if type(node) is Function else node.map_children(lambda c: self.value.get(id(c), c))

    def scaled(self, root: RelayExpr, scale: RelayExpr) -> RelayExpr:
        """Return a value with factors folded into its layers; the operators between are rebuilt, operands first."""

        def below(e: Call) -> list[RelayExpr]:
            return [] if is_call(e, *LAYERS) else [a for a in e.args if self.can.get(id(a)) is not None]

        made: dict[int, RelayExpr] = {}
        for e in post_order(root, operands=below):
            made[id(e)] = self.one(e, scale, {id(a) for a in below(e)}, made)
        return made[id(root)]

    def one(self, e: Call, scale: RelayExpr, below: set[int], made: dict[int, RelayExpr]) -> RelayExpr:
        args = [made[id(a)] if id(a) in below else self.value[id(a)] for a in e.args]
        if is_call(e, *LAYERS):
            return with_weight(e, args[0], args[1], scale, False)
        along = self.can[id(e)]
        assert along is not None
        if is_call(e, "nn.bias_add"):
            args[1] = tensor.multiply(args[1], scale)
        elif is_call(e, *ADDITIONS):
            beside = placed(scale, dims(e.checked_type_), along.axes)
            args = [a if id(old) in below else tensor.multiply(a, beside) for old, a in zip(e.args, args)]
        return Call(e.op, tuple(args), e.attrs, (), e.span)


__all__ = ["Backward", "Forward"]
