"""Dense layers of the same data as one, on GPUs: the queries, keys and values of attention fill the machine together.

What follows every one of them in the same way (casts, biases, reshapes of the rows) is done on the joint result, which
then is cut apart. The cuts cost nothing where what reads them reads through slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.structural import structural_equal
from ...ir.tensor_type import TensorType
from ...ir.transform import PassContext
from ...target import Target
from ..expr import Call, Constant, Function, RelayExpr
from ..infer import dims, infer_function
from ..op import nn, tensor, transform
from ..op.record import ELEMWISE, INJECTIVE, pattern_of
from .function_pass import RelayFunctionPass, function_pass, is_call, replacement
from .fuse_ops import own_nodes
from .gpu_operands import PRODUCTS

BRANCHES = 2
Step = Callable[[Any], RelayExpr]


def _units(e: RelayExpr) -> int | None:
    """The last dimension of a tensor whose shape is known."""
    t = e.checked_type_
    shape = dims(t) if isinstance(t, TensorType) else ()
    return shape[-1] if shape and all(isinstance(d, int) for d in shape) else None


class Joining:
    """Rewrites one function."""

    def __init__(self, func: Function):
        self.func = func
        self.nodes = own_nodes(func.body)
        self.users: dict[int, list[RelayExpr]] = {id(func.body): [func]}
        for node in self.nodes:
            for child in () if isinstance(node, Function) else node.children():
                self.users.setdefault(id(child), []).append(node)
        self.made: dict[int, Any] = {}
        # The last node of each branch: its group, and its place there.
        self.ends: dict[int, tuple[_Group, int]] = {}

    def run(self, mod: IRModule) -> Function:
        groups: dict[Any, list[Call]] = {}
        for node in self.nodes:
            if isinstance(node, Call) and is_call(node, "nn.dense") and isinstance(node.args[1], Constant):
                key = id(node.args[0]), node.attrs.out_dtype, node.args[1].data.dtype
                if _units(node) is not None:
                    groups.setdefault(key, []).append(node)
        for calls in groups.values():
            if len(calls) >= BRANCHES:
                self.join(calls)
        if not self.ends:
            return self.func
        for node in self.nodes:
            self.made[id(node)] = replacement(self.node, node)
        return infer_function(self.func.replace(body=self.made[id(self.func.body)]), mod)

    def join(self, calls: list[Call]) -> None:
        steps: list[Step] = []
        ends: list[Any] = list(calls)
        while (following := self.following(ends)) is not None:
            step, ends = following
            steps.append(step)
        if all(self.is_cut_for_nothing(e) for e in ends):
            group = _Group(calls, steps)
            self.ends.update((id(e), (group, place)) for place, e in enumerate(ends))

    def is_cut_for_nothing(self, e: RelayExpr) -> bool:
        """Whether all that reads a branch can read it through a slice."""
        return all(isinstance(u, Call) and isinstance(u.op, Op)
                   and (pattern_of(u.op) <= INJECTIVE or u.op.name in PRODUCTS) for u in self.users[id(e)])

    def following(self, ends: list[RelayExpr]) -> tuple[Step, list[RelayExpr]] | None:
        """The operator that follows every branch, on the joint result, if it is the same for all."""
        users: list[Any] = []
        for e in ends:
            if len(self.users[id(e)]) != 1:
                return None
            users.append(self.users[id(e)][0])
        first = users[0]
        if not all(isinstance(u, Call) and isinstance(u.op, Op) and u.op is first.op for u in users):
            return None
        if len({id(u) for u in users}) != len(users) or any(u.args[0] is not e for u, e in zip(users, ends)):
            return None
        step = _STEPS.get(first.op.name, _element_by_element)(users, ends)
        return None if step is None else (step, users)

    def node(self, node: RelayExpr) -> RelayExpr:
        if id(node) in self.ends:
            group, place = self.ends[id(node)]
            return group.part(place, self.made, len(dims(node.checked_type_)))
        if isinstance(node, Function):
            return node
        return node.map_children(lambda c: c if isinstance(c, Op) else self.made[id(c)])


class _Group:
    """Dense layers that become one, and what follows all of them."""

    def __init__(self, calls: list[Call], steps: list[Step]):
        self.calls, self.steps = calls, steps
        self.sizes = [_units(c) or 0 for c in calls]
        self.joint: RelayExpr | None = None

    def part(self, place: int, made: dict[int, Any], rank: int) -> RelayExpr:
        if self.joint is None:
            first = self.calls[0]
            weight = Constant(np.concatenate([c.args[1].data.numpy() for c in self.calls]))
            self.joint = nn.dense(made[id(first.args[0])], weight, sum(self.sizes), first.attrs.out_dtype)
            for step in self.steps:
                self.joint = step(self.joint)
        begin = sum(self.sizes[:place])
        return transform.strided_slice(self.joint, [begin], [begin + self.sizes[place]], axes=[rank - 1])


def _element_by_element(users: Sequence[Call], ends: Sequence[RelayExpr]) -> Step | None:
    """The same operator of one input, such as a cast."""
    op, attrs = users[0].op, users[0].attrs
    if pattern_of(op) != ELEMWISE or any(len(u.args) != 1 or not structural_equal(u.attrs, attrs) for u in users):
        return None
    return lambda x: Call(op, (x,), attrs)


def _reshape(users: Sequence[Call], ends: Sequence[RelayExpr]) -> Step | None:
    """Rows divided or joined, columns as they are."""
    if any(_units(u) is None or _units(u) != _units(e) for u, e in zip(users, ends)):
        return None
    (lead, *others) = {dims(u.checked_type_)[:-1] for u in users}
    total = sum(_units(u) or 0 for u in users)
    return None if others else lambda x: transform.reshape(x, (*lead, total))


def _by_column(make: Callable[[Any, Any], RelayExpr]) -> Callable[..., Step | None]:
    def step(users: Sequence[Call], ends: Sequence[RelayExpr]) -> Step | None:
        """An operator with a constant number for each column, or one for all."""
        rows = []
        for user, end in zip(users, ends):
            other, units = user.args[1], _units(end) or 0
            if not isinstance(other, Constant) or user.checked_type_ != end.checked_type_:
                return None
            values = other.data.numpy()
            if values.size != 1 and values.shape[-1:] + (values.size,) != (units, units):
                return None
            rows.append(np.broadcast_to(values.reshape(-1), (units,)))
        if len({row.dtype for row in rows}) > 1:
            return None
        joint = Constant(np.concatenate(rows))
        return lambda x: make(x, joint)

    return step


_STEPS: dict[str, Callable[[Sequence[Call], Sequence[RelayExpr]], Step | None]] = {
    "reshape": _reshape,
    "add": _by_column(tensor.add),
    "multiply": _by_column(tensor.multiply),
}


def GPUJoint() -> RelayFunctionPass:
    """Dense layers of the same data become one."""

    @function_pass(opt_level=3, name="GPUJoint", required=["InferType"])
    def join(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        target = Target.current(allow_none=True)
        if target is None or "gpu" not in target.keys or "cpu" in target.keys:
            return func
        return Joining(func).run(mod)

    return join


__all__ = ["GPUJoint"]
