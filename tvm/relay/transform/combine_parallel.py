"""Several layers that read the same data become one wider layer whose result is sliced.

Elementwise operators that follow all of them alike (a bias, a cast) may follow the combined layer once: their constants
are concatenated too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import post_order
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import dims, infer_function
from ..op import transform
from ..op.record import BROADCAST, CallAttrs, pattern_of
from .function_pass import RelayFunctionPass, function_pass, replacement


def _known(e: RelayExpr) -> bool:
    return e.checked_type_ is not None and all(isinstance(d, int) for d in dims(e.checked_type_))


def _conv_key(node: Call) -> Any:
    """Convolutions with one key can be combined: all is equal but the number of filters."""
    attrs = node.attrs
    if attrs.groups != 1 or attrs.kernel_layout != "OIHW" or attrs.data_layout != "NCHW" or not _known(node.args[1]):
        return None
    same = tuple((k, v) for k, v in attrs.items() if k not in ("channels",))
    return same, dims(node.args[1].checked_type_)[2:]


def _dense_key(node: Call) -> Any:
    if not _known(node.args[1]):
        return None
    return node.attrs.out_dtype, node.args[1].checked_type_.dtype


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


class ParallelLayers:
    """How one operator is combined: the key of those that go together, and the axes of weight and output along which
    they are concatenated."""

    def __init__(self, name: str, key: Callable, weight_axis: int, out_axis: int, count: str | None):
        self.name, self.key, self.weight_axis, self.out_axis, self.count = name, key, weight_axis, out_axis, count


CONV2D = ParallelLayers("nn.conv2d", _conv_key, 0, 1, "channels")
DENSE = ParallelLayers("nn.dense", _dense_key, 0, -1, "units")
# The weight is not transposed: the layout that GPUs read.
MATMUL = ParallelLayers("nn.matmul", _matmul_key, 1, -1, "units")
BATCH_MATMUL = ParallelLayers("nn.batch_matmul", _batch_matmul_key, 1, 2, None)


def _groups(func: Function, kind: ParallelLayers) -> list[list[Call]]:
    groups: dict[Any, list[Call]] = {}
    for node in post_order(func):
        if type(node) is Call and type(node.op) is Op and node.op.name == kind.name:
            key = kind.key(node)
            if key is not None:
                groups.setdefault((id(node.args[0]), key), []).append(node)
    return list(groups.values())


def _depends(node: RelayExpr, on: set[int]) -> bool:
    return any(id(n) in on for n in post_order(node))


def combine(
    func: Function, mod: IRModule | None, kind: ParallelLayers, min_branches: int, tails: bool = False
) -> Function:
    """The weights of a group are concatenated; each branch becomes a slice of the combined result. With ``tails`` the
    slices are taken after the operators that follow all branches alike."""
    groups = []
    for members in _groups(func, kind):
        ids = {id(n) for n in members}
        members = [n for n in members if not _depends(n.args[1], ids)]
        if len(members) >= min_branches:
            groups.append(_Group(kind, [[n] for n in members]))
    if not groups:
        return func
    if tails:
        users = _users(func)
        for group in groups:
            group.follow(users)
    return _replace(func, mod, groups)


def _users(func: Function) -> dict[int, list[Any]]:
    users: dict[int, list[Any]] = {}
    for node in post_order(func):
        for child in node.children():
            users.setdefault(id(child), []).append(node)
    return users


class _Group:
    """Branches that become one: each is a layer with the operators that follow it."""

    def __init__(self, kind: ParallelLayers, branches: list[list[Call]]):
        self.kind = kind
        self.branches = branches
        self.layers = [branch[0] for branch in branches]
        self.sizes = [dims(n.args[1].checked_type_)[kind.weight_axis] for n in self.layers]
        self.combined: RelayExpr | None = None

    def follow(self, users: dict[int, list[Any]]) -> None:
        """Take along the operators that follow all branches alike."""
        while True:
            last = [branch[-1] for branch in self.branches]
            used = [users.get(id(node), []) for node in last]
            following = [nodes[0] if len(nodes) == 1 else None for nodes in used]
            if not _are_alike(last, following):
                return
            for branch, node in zip(self.branches, following):
                branch.append(node)

    def operands(self) -> tuple[RelayExpr, ...]:
        """The operands of the combined layer: the data and all weights."""
        return (self.layers[0].args[0], *(n.args[1] for n in self.layers))

    def slice(self, branch_index: int, rewritten: dict[int, Any]) -> Call:
        if self.combined is None:
            self.combined = self.combine(rewritten)
        begin = sum(self.sizes[:branch_index])
        axis = self.kind.out_axis % len(dims(self.branches[branch_index][-1].checked_type_))
        return transform.strided_slice(self.combined, [begin], [begin + self.sizes[branch_index]], [1], [axis])

    def combine(self, rewritten: dict[int, Any]) -> Call:
        first, kind = self.layers[0], self.kind
        weight = _concatenate([rewritten[id(n.args[1])] for n in self.layers], kind.weight_axis)
        attrs = first.attrs
        if kind.count is not None:
            attrs = CallAttrs({**attrs.entries, kind.count: sum(self.sizes)})
        value = Call(first.op, (rewritten[id(first.args[0])], weight), attrs, (), first.span)
        levels = list(zip(*self.branches))
        for before, now in zip(levels, levels[1:]):
            args = [value if now[0].args[i] is before[0] else _column_constant([n.args[i] for n in now], before)
                    for i in range(len(now[0].args))]  # fmt: skip
            value = Call(now[0].op, tuple(args), now[0].attrs, (), now[0].span)
        return value


def _are_alike(last: list[Call], following: list[Any]) -> bool:
    """Whether the same elementwise operator follows all branches."""
    first = following[0]
    if not isinstance(first, Call) or not isinstance(first.op, Op) or pattern_of(first.op) > BROADCAST:
        return False
    if len({id(node) for node in following}) != len(following):
        return False
    for node, after in zip(last, following):
        if not isinstance(after, Call) or after.op is not first.op or _attrs_but(after, "") != _attrs_but(first, ""):
            return False
        if dims(after.checked_type_) != dims(node.checked_type_) or len(after.args) != len(first.args):
            return False
        if [arg is node for arg in after.args] != [arg is last[0] for arg in first.args]:
            return False
    others = [i for i, arg in enumerate(first.args) if arg is not last[0]]
    return all(_column_constant([f.args[i] for f in following], last) is not None for i in others)


def _attrs_but(node: Call, name: str) -> dict[str, Any]:
    return {k: v for k, v in node.attrs.items() if k != name} if node.attrs else {}


def _concatenate(weights: list[RelayExpr], axis: int) -> RelayExpr:
    if all(isinstance(w, Constant) for w in weights):
        return Constant(np.concatenate([w.data.numpy() for w in weights], axis))
    return transform.concatenate(weights, axis)


def _column_constant(constants: list[RelayExpr], columns: Sequence[Call]) -> Constant | None:
    """The constant for the combined columns whose slices are these constants; None where there is none."""
    arrays = [c.data.numpy() for c in constants if isinstance(c, Constant)]
    if len(arrays) != len(constants) or any(a.dtype != arrays[0].dtype or a.ndim != arrays[0].ndim for a in arrays):
        return None
    if all(a.size == 1 and a.shape == arrays[0].shape for a in arrays):
        # Compared as bytes: a NaN is equal to itself.
        return Constant(arrays[0]) if len({a.tobytes() for a in arrays}) == 1 else None
    widths = [dims(c.checked_type_)[-1] for c in columns]
    if any(a.ndim == 0 or a.shape[-1] != w or a.size != w for a, w in zip(arrays, widths)):
        return None
    return Constant(np.concatenate(arrays, axis=-1))


def _replace(func: Function, mod, groups: list[_Group]) -> Function:
    """Operands first, every node once: a combined layer waits for the data and for the weights of all its branches."""
    ends = {id(branch[-1]): (group, i) for group in groups for i, branch in enumerate(group.branches)}
    rewritten: dict[int, Any] = {}

    def operands(node: Any) -> tuple:
        return ends[id(node)][0].operands() if id(node) in ends else node.children()

    def build(node: Any) -> Any:
        if id(node) in ends:
            group, branch_index = ends[id(node)]
            return group.slice(branch_index, rewritten)
        return node.map_children(lambda child: rewritten[id(child)])

    for node in post_order(func, operands=operands):
        rewritten[id(node)] = replacement(build, node)
    return infer_function(rewritten[id(func)], mod)


def _pass(kind: ParallelLayers, name: str, branches: int, opt_level: int = 4, tails: bool = False) -> RelayFunctionPass:
    @function_pass(opt_level=opt_level, name=name, required=["InferType"])
    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return combine(func, mod, kind, branches, tails)

    return run


def CombineParallelConv2D(min_num_branches: int = 3) -> RelayFunctionPass:
    """Combine convolutions of the same data.

    Parameters
    ----------
    min_num_branches : int, optional
        How many there must be.

    Returns
    -------
    RelayFunctionPass
    """
    return _pass(CONV2D, "CombineParallelConv2d", min_num_branches)


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> RelayFunctionPass:
    """Combine dense layers of the same data. They become one dense layer whatever ``to_batch`` says: it needs no equal
    shapes and is never slower.

    Parameters
    ----------
    min_num_branches : int, optional
        How many there must be.
    to_batch : bool, optional
        Taken for programs that pass it.

    Returns
    -------
    RelayFunctionPass
    """
    return _pass(DENSE, "CombineParallelDense", min_num_branches)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> RelayFunctionPass:
    """Combine batched matmuls with the same lhs.

    Parameters
    ----------
    min_num_branches : int, optional
        How many there must be.

    Returns
    -------
    RelayFunctionPass
    """
    return _pass(BATCH_MATMUL, "CombineParallelBatchMatmul", min_num_branches)


def CombineMatmuls(min_num_branches: int = 2) -> RelayFunctionPass:
    """Combine matmuls of the same lhs with constant weights, and their epilogues. A small matmul leaves most of a GPU
    idle: one of three times the n takes little longer than one of the three."""
    return _pass(MATMUL, "CombineMatmuls", min_num_branches, opt_level=3, tails=True)


__all__ = [
    "CombineMatmuls",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "ParallelLayers",
    "combine",
]
