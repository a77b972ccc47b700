"""Matmuls of the same left operand with constant weights become one matmul, whose result is sliced.

A small matmul leaves most of a GPU idle: one of three times the width takes little longer than one of the three. What
follows each of them in the same way (a bias, a cast) follows the combined matmul once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.transform import PassContext
from ...expr import Call, Constant, Function, RelayExpr
from ...infer import dims, infer_function
from ...op import transform
from ...op.record import BROADCAST, pattern_of
from ..function_pass import RelayFunctionPass, function_pass, is_call, replacement
from ..fuse_ops import own_nodes

Chain = list[Call]


class Slice(NamedTuple):
    """Columns of the joint result."""

    group: int
    begin: int
    end: int


def _units(product: Call) -> int:
    return product.args[1].data.shape[1]


def _same_attrs(a: Call, b: Call, but: str = "") -> bool:
    left, right = ({k: v for k, v in call.attrs.items() if k != but} if call.attrs else {} for call in (a, b))
    return left == right


def _is_product(node: RelayExpr) -> bool:
    if not is_call(node, "nn.matmul") or not isinstance(node.args[1], Constant):
        return False
    return not (node.attrs.transpose_a or node.attrs.transpose_b) and len(node.args[1].data.shape) == 2


class Combination:
    """Rewrites one function."""

    def __init__(self, func: Function):
        self.func = func
        self.nodes = own_nodes(func.body)
        self.users: dict[int, list[RelayExpr]] = {}
        for node in self.nodes:
            for child in node.children():
                self.users.setdefault(id(child), []).append(node)
        # For each group the products with what follows them; where each of them ends; what stands inside.
        self.groups: list[list[Chain]] = []
        self.ends: dict[int, Slice] = {}
        self.inside: set[int] = set()
        self.joint: dict[int, RelayExpr] = {}
        self.made: dict[int, RelayExpr] = {}

    def run(self, mod: IRModule) -> Function:
        for members in self.find():
            self.plan(members)
        if not self.groups:
            return self.func
        for node in self.nodes:
            if id(node) not in self.inside:
                self.made[id(node)] = replacement(self.node, node)
        return infer_function(self.func.replace(body=self.made[id(self.func.body)]), mod)

    def find(self) -> list[list[Call]]:
        """Products of the same data that differ in their weights."""
        found: dict[tuple[int, str], list[Call]] = {}
        for node in self.nodes:
            if _is_product(node):
                found.setdefault((id(node.args[0]), node.args[1].data.dtype), []).append(node)
        groups = [[n for n in some if _same_attrs(n, some[0], "units")] for some in found.values()]
        return [group for group in groups if len({id(n.args[1]) for n in group}) == len(group) > 1]

    def plan(self, members: list[Call]) -> None:
        chains = [[member] for member in members]
        while self.goes_on(chains):
            for chain in chains:
                chain.append(self.users[id(chain[-1])][0])
        begin = 0
        for chain in chains:
            end = begin + _units(chain[0])
            self.ends[id(chain[-1])] = Slice(len(self.groups), begin, end)
            self.inside.update(id(node) for node in chain[:-1])
            begin = end
        self.groups.append(chains)

    def goes_on(self, chains: list[Chain]) -> bool:
        """Whether the same operator follows all, and works on each column by itself."""
        last = [chain[-1] for chain in chains]
        if any(len(self.users.get(id(node), ())) != 1 or node is self.func.body for node in last):
            return False
        following = [self.users[id(node)][0] for node in last]
        first = following[0]
        if not isinstance(first, Call) or not isinstance(first.op, Op) or pattern_of(first.op) > BROADCAST:
            return False
        if len({id(f) for f in following}) != len(following):
            return False
        for node, after in zip(last, following):
            if not isinstance(after, Call) or after.op is not first.op or not _same_attrs(after, first):
                return False
            if dims(after.checked_type_) != dims(node.checked_type_) or len(after.args) != len(first.args):
                return False
            if [arg is node for arg in after.args] != [arg is last[0] for arg in first.args]:
                return False
        places = [i for i, arg in enumerate(first.args) if arg is not last[0]]
        return all(_join_constants([f.args[i] for f in following], last) is not None for i in places)

    def node(self, node: RelayExpr) -> RelayExpr:
        part = self.ends.get(id(node))
        if part is None:
            return node.map_children(lambda child: child if isinstance(child, Op) else self.made[id(child)])
        axis = len(dims(node.checked_type_)) - 1
        return transform.strided_slice(self.whole(part.group), [part.begin], [part.end], [1], [axis])

    def whole(self, group: int) -> RelayExpr:
        """The joint product and what follows it."""
        if group not in self.joint:
            chains = self.groups[group]
            products = [chain[0] for chain in chains]
            first = products[0]
            weight = Constant(np.concatenate([p.args[1].data.numpy() for p in products], axis=1))
            units = {"units": sum(map(_units, products))} if first.attrs.units is not None else {}
            value: RelayExpr = Call(first.op, (self.made[id(first.args[0])], weight), first.attrs.replace(**units))
            for step in range(1, len(chains[0])):
                before, now = ([chain[i] for chain in chains] for i in (step - 1, step))
                value = Call(now[0].op, tuple(self.operand(value, before, now, i) for i in range(len(now[0].args))),
                             now[0].attrs)  # fmt: skip
            self.joint[group] = value
        return self.joint[group]

    def operand(self, value: RelayExpr, before: list[Call], now: list[Call], place: int) -> RelayExpr:
        if now[0].args[place] is before[0]:
            return value
        joined = _join_constants([call.args[place] for call in now], before)
        assert joined is not None, "a chain goes on only where its constants can be joined"
        return joined


def _join_constants(constants: list[RelayExpr], columns: list[Call]) -> Constant | None:
    """One constant that does to the joint columns what each of these does to its own; None where there is none."""
    arrays = [c.data.numpy() if isinstance(c, Constant) else None for c in constants]
    first = arrays[0]
    if first is None or any(a is None or a.dtype != first.dtype or a.ndim != first.ndim for a in arrays):
        return None
    widths = [dims(c.checked_type_)[-1] for c in columns]
    if all(a is not None and a.size == 1 and a.shape == first.shape for a in arrays):
        # Compared as bytes: a NaN is equal to itself.
        if all(a is not None and a.tobytes() == first.tobytes() for a in arrays):
            return Constant(first)
        return None
    if any(a is None or a.ndim == 0 or a.shape[-1] != w or a.size != w for a, w in zip(arrays, widths)):
        return None
    return Constant(np.concatenate([a for a in arrays if a is not None], axis=-1))


def CombineMatmuls() -> RelayFunctionPass:
    """Combine matmuls of the same left operand."""

    @function_pass(opt_level=3, name="CombineMatmuls", required=["InferType"])
    def combine(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Combination(func).run(mod)

    return combine


__all__ = ["CombineMatmuls"]
