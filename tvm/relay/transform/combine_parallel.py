"""Combine several layers that read the same data into one wider layer, whose output is sliced.

Operators that follow every branch in the same way and treat columns independently (a bias, a cast) are applied once to
the combined output; their operands are combined too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import dims, infer_function
from ..op import nn, transform
from ..op.record import BROADCAST, CallAttrs, pattern_of
from .combine_operands import concatenated, constant_columns, in_columns, side_by_side, stacked
from .function_pass import RelayFunctionPass, function_pass, replacement


def _known(e: RelayExpr) -> bool:
    return e.checked_type_ is not None and all(isinstance(d, int) for d in dims(e.checked_type_))


def _conv_key(node: Call) -> Any:
    """Return a key that is equal for convolutions that can be combined: they differ only in the number of filters."""
    attrs = node.attrs
    if attrs.groups != 1 or attrs.kernel_layout != "OIHW" or attrs.data_layout != "NCHW" or not _known(node.args[1]):
        return None
    same = tuple((k, v) for k, v in attrs.items() if k not in ("channels",))
    return same, dims(node.args[1].checked_type_)[2:]


def _dense_key(node: Call) -> Any:
    if not _known(node.args[1]):
        return None
    return node.attrs.out_dtype, node.args[1].checked_type_.dtype


def _equal_dense_key(node: Call) -> Any:
    """Return a key that is equal for dense layers with 2-D data that can be combined into one batched matmul."""
    if not _known(node.args[1]) or len(dims(node.args[0].checked_type_)) != 2:
        return None
    return node.attrs.out_dtype, node.args[1].checked_type_


def _batch_matmul_key(node: Call) -> Any:
    if node.attrs.transpose_a or not node.attrs.transpose_b or not _known(node.args[1]):
        return None
    if dims(node.args[0].checked_type_)[0] != dims(node.args[1].checked_type_)[0]:
        return None
    return node.attrs.out_dtype, node.args[1].checked_type_.dtype


def _matmul_key(node: Call) -> Any:
    weight = node.args[1]
    if node.attrs.transpose_a or node.attrs.transpose_b or not isinstance(weight, Constant):
        return None
    if len(weight.data.shape) != 2:
        return None
    return tuple(_attrs_but(node, "units").items()), weight.data.dtype


class ParallelLayers(NamedTuple):
    """How to combine the calls of one operator: the key that combinable calls share, the concatenation axes of the
    weight and the output, the attribute with the output size, and the rule that combines operands of following
    operators."""

    name: str
    key: Callable[[Call], Any]
    weight_axis: int
    out_axis: int
    count: str | None
    # None: each branch is sliced directly from the combined output, and following operators are not combined.
    join: Callable[..., RelayExpr | None] | None
    batched: bool = False
    # Whether the rank may grow in following operators; the slice then gets bounds for all axes of the output.
    grows: bool = False


CONV2D = ParallelLayers("nn.conv2d", _conv_key, 0, 1, "channels", side_by_side)
DENSE = ParallelLayers("nn.dense", _dense_key, 0, -1, "units", in_columns, grows=True)
DENSE_BATCH = ParallelLayers("nn.dense", _equal_dense_key, 0, -1, None, stacked, batched=True)
# The weight is not transposed: GPU matmuls read this layout.
MATMUL = ParallelLayers("nn.matmul", _matmul_key, 1, -1, "units", constant_columns)
BATCH_MATMUL = ParallelLayers("nn.batch_matmul", _batch_matmul_key, 1, 2, None, side_by_side)


def _groups(func: Function, kind: ParallelLayers) -> list[list[Call]]:
    found: dict[Any, list[Call]] = {}
    for node in post_order(func):
        if type(node) is Call and type(node.op) is Op and node.op.name == kind.name:
            key = kind.key(node)
            if key is not None:
                found.setdefault((id(node.args[0]), key), []).append(node)
    return list(found.values())


def _depends(node: RelayExpr, on: set[int]) -> bool:
    return any(id(n) in on for n in post_order(node))


def combine(func: Function, mod: IRModule | None, kind: ParallelLayers, min_branches: int) -> Function:
    """Combine the layers of each group. Each branch becomes a slice of the combined output, after the following
    operators that are equal in all branches."""
    groups = []
    for members in _groups(func, kind):
        ids = {id(n) for n in members}
        members = [n for n in members if not _depends(n.args[1], ids)]
        if len(members) >= min_branches:
            groups.append(_Group(kind, [[n] for n in members]))
    if not groups:
        return func
    if kind.join is not None:
        users, after = _users(func), _after(func, {id(n) for group in groups for n in group.layers})
        for group in groups:
            group.follow(users, after)
    return _replace(func, mod, groups)


def _users(func: Function) -> dict[int, list[Any]]:
    users: dict[int, list[Any]] = {}
    for node in post_order(func):
        for child in node.children():
            users.setdefault(id(child), []).append(node)
    return users


def _after(func: Function, layers: set[int]) -> set[int]:
    """Return the layers and all expressions that depend on one. A combined layer that uses one of these could depend on
    itself."""
    found: set[int] = set()
    for node in post_order(func):
        if id(node) in layers or any(id(child) in found for child in node.children()):
            found.add(id(node))
    return found


class _Group:
    """A group of branches to combine; each branch is a layer and the operators that follow it."""

    def __init__(self, kind: ParallelLayers, branches: list[list[Call]]):
        self.kind = kind
        self.branches = branches
        self.layers = [branch[0] for branch in branches]
        self.sizes = [dims(n.args[1].checked_type_)[kind.weight_axis] for n in self.layers]
        # The axis along which the branches are concatenated, after each operator of a branch.
        self.axes = [kind.out_axis % len(dims(self.layers[0].checked_type_))]
        self.combined: RelayExpr | None = None

    def follow(self, users: dict[int, list[Any]], after: set[int]) -> None:
        """Add the following operators that are equal in all branches to the branches."""
        while True:
            last = [branch[-1] for branch in self.branches]
            used = [users.get(id(node), []) for node in last]
            following = [found[0] if len(found) == 1 else None for found in used]
            if not _are_alike(last, following):
                return
            axis = _axis_after(self.axes[-1], last[0], following[0], self.kind)
            others = [[a for a in node.args if a is not before] for node, before in zip(following, last)]
            if axis is None or any(id(a) in after for args in others for a in args):
                return
            if any(self.kind.join(operands, following, axis) is None for operands in zip(*others)):
                return
            self.axes.append(axis)
            for branch, node in zip(self.branches, following):
                branch.append(node)

    def operands(self) -> tuple[RelayExpr, ...]:
        """Return the expressions that must be built before the combined layer."""
        inside = {id(n) for branch in self.branches for n in branch}
        return tuple(a for branch in self.branches for n in branch for a in n.args if id(a) not in inside)

    def part(self, place: int, made: dict[int, Any]) -> Call:
        """Return the output of one branch as a part of the combined output."""
        if self.combined is None:
            self.combined = self.combine(made)
            if self.kind.batched:
                self.combined = transform.split(self.combined, len(self.branches))
        if self.kind.batched:
            return transform.squeeze(self.combined[place], [0])
        axis = self.axes[-1]
        rank = len(dims(self.branches[place][-1].checked_type_)) if self.kind.grows else axis + 1
        begin, size = [0] * rank, [-1] * rank
        begin[axis], size[axis] = sum(self.sizes[:place]), self.sizes[place]
        return transform.strided_slice(self.combined, begin, size, [1] * rank, slice_mode="size")

    def combine(self, made: dict[int, Any]) -> RelayExpr:
        value = self.layer(made)
        steps = list(zip(*self.branches))
        for before, now, axis in zip(steps, steps[1:], self.axes[1:]):
            args = []
            for i, arg in enumerate(now[0].args):
                operands = [made[id(n.args[i])] for n in now if arg is not before[0]]
                args.append(self.kind.join(operands, now, axis) if operands else value)
            value = Call(now[0].op, tuple(args), now[0].attrs, (), now[0].span)
        return value

    def layer(self, made: dict[int, Any]) -> RelayExpr:
        first, kind = self.layers[0], self.kind
        data, weights = made[id(first.args[0])], [made[id(n.args[1])] for n in self.layers]
        if kind.batched:
            return nn.batch_matmul(
                transform.stack([data] * len(weights), 0), transform.stack(weights, 0), out_dtype=first.attrs.out_dtype
            )
        attrs = first.attrs
        if kind.count is not None:
            attrs = CallAttrs({**attrs.entries, kind.count: sum(self.sizes)})
        return Call(first.op, (data, concatenated(weights, kind.weight_axis)), attrs, (), first.span)


def _are_alike(last: list[Call], following: list[Any]) -> bool:
    """Return whether all branches are followed by the same element-wise operator with the branch as the same
    argument."""
    first = following[0]
    if not isinstance(first, Call) or not isinstance(first.op, Op) or pattern_of(first.op) > BROADCAST:
        return False
    if len({id(node) for node in following}) != len(following):
        return False
    for node, after in zip(last, following):
        if not isinstance(after, Call) or after.op is not first.op or _attrs_but(after, "") != _attrs_but(first, ""):
            return False
        if [arg is node for arg in after.args] != [arg is last[0] for arg in first.args]:
            return False
    return True


def _axis_after(axis: int, before: Call, after: Call, kind: ParallelLayers) -> int | None:
    """Return the concatenation axis after a following operator; None if it is not known, or if an attribute contains
    sizes."""
    attrs, rank = _attrs_but(after, ""), len(dims(after.checked_type_))
    added = rank - len(dims(before.checked_type_))
    if added and not kind.grows:
        return None
    if after.op.name == "expand_dims":
        return axis + added if attrs["axis"] % rank <= axis else axis
    if after.op.name == "nn.bias_add":
        # A bias has one dimension, so a stack of branches cannot have a different bias for each branch.
        return axis if attrs["axis"] % rank == axis and not kind.batched else None
    plain = all(v is None or isinstance(v, (bool, int, float, str)) for v in attrs.values())
    kept = dims(after.checked_type_)[axis + added] == dims(before.checked_type_)[axis]
    return axis + added if plain and kept and "axis" not in attrs else None


def _attrs_but(node: Call, name: str) -> dict[str, Any]:
    return {k: v for k, v in node.attrs.items() if k != name} if node.attrs else {}


def _replace(func: Function, mod, groups: list[_Group]) -> Function:
    """Rebuild the function, operands first; a combined layer is built after the data and weights of all its
    branches."""
    ends = {id(branch[-1]): (group, place) for group in groups for place, branch in enumerate(group.branches)}
    made: dict[int, Any] = {}

    def operands(node: Any) -> tuple:
        return ends[id(node)][0].operands() if id(node) in ends else node.children()

    def build(node: Any) -> Any:
        if id(node) in ends:
            group, place = ends[id(node)]
            return group.part(place, made)
        return node.map_children(lambda child: made[id(child)])

    for node in post_order(func, operands=operands):
        made[id(node)] = replacement(build, node)
    return infer_function(made[id(func)], mod)


def _pass(kind: ParallelLayers, name: str, branches: int, opt_level: int = 4) -> RelayFunctionPass:
    @function_pass(opt_level=opt_level, name=name, required=["InferType"])
    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return combine(func, mod, kind, branches)

    return run


def CombineParallelConv2D(min_num_branches: int = 3) -> RelayFunctionPass:
    """Combine convolutions that read the same data.

    Parameters
    ----------
    min_num_branches : int, optional
        The minimum number of convolutions to combine.

    Returns
    -------
    RelayFunctionPass
    """
    return _pass(CONV2D, "CombineParallelConv2d", min_num_branches)


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> RelayFunctionPass:
    """Combine dense layers that read the same data.

    Layers of equal shape become one batched matmul. With ``to_batch=False``, layers of any width become one dense
    layer, which reads the data once.

    Parameters
    ----------
    min_num_branches : int, optional
        The minimum number of dense layers to combine.
    to_batch : bool, optional
        Whether layers of equal shape become a batched matmul.

    Returns
    -------
    RelayFunctionPass
    """
    return _pass(DENSE_BATCH if to_batch else DENSE, "CombineParallelDense", min_num_branches)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> RelayFunctionPass:
    """Combine batched matmuls that have the same left operand.

    Parameters
    ----------
    min_num_branches : int, optional
        The minimum number of matmuls to combine.

    Returns
    -------
    RelayFunctionPass
    """
    return _pass(BATCH_MATMUL, "CombineParallelBatchMatmul", min_num_branches)


def CombineMatmuls(min_num_branches: int = 2) -> RelayFunctionPass:
    """Combine matmuls that have the same left operand and constant weights, together with their epilogues.

    A small matmul leaves most of a GPU idle: one matmul with three times the columns takes little longer than one of
    the three."""
    return _pass(MATMUL, "CombineMatmuls", min_num_branches, opt_level=3)


__all__ = [
    "CombineMatmuls",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "ParallelLayers",
    "combine",
]
