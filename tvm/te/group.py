"""Groups of stages: what is at the root of a group is computed where the group is. Groups may hold whole groups."""

from __future__ import annotations

from ..error import ScheduleError
from .schedule import AttachType, Schedule, Stage
from .steps import Step
from .tensor import Operation, PlaceholderOp, Tensor


class Group(Stage):
    """Stages handled together: compute_at on the group moves all of them."""

    def __init__(self, schedule: Schedule, uid: int, members: list[Stage]):
        super().__init__(schedule, members[0].op, uid)
        self.members = members
        self.all_iter_vars, self.leaf_iter_vars = [], []
        self.num_child_stages = len(members)

    def twin(self, schedule: Schedule, pairs: dict[Stage, Stage]) -> Group:
        """The same group in a copy of the schedule, whose stages are given by ``pairs``; notes itself there."""
        new = pairs[self] = Group.__new__(Group)
        new.__dict__.update(self.__dict__)
        new._schedule = schedule
        new.members = [pairs[m] for m in self.members if m in pairs]
        return new

    @property
    def is_group(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "group(" + ", ".join(m.name for m in self.members) + ")"

    def _require_compute(self, primitive: str) -> None:
        if primitive not in ("compute_at", "compute_root"):
            self._fail(primitive, "a group of stages can only be moved: compute_at or compute_root")

    def compute_at(self, parent, scope) -> None:
        for member in self.members:
            if member.attach_type != AttachType.INLINE:
                member._check_compute_at(parent, scope)
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.SCOPE, parent, scope
        self._record("compute_at", parent, (parent.uid, scope))

    def compute_root(self) -> None:
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.GROUP_ROOT, None, None
        self._record("compute_root")


def create_group(schedule: Schedule, outputs, inputs, include_inputs: bool = False) -> Group:
    outputs = [outputs] if isinstance(outputs, (Tensor, Operation)) else list(outputs)
    inputs = [inputs] if isinstance(inputs, (Tensor, Operation)) else list(inputs)
    members = _between(schedule, outputs, inputs, include_inputs)
    if not members:
        raise ScheduleError("create_group: no stage lies between the given inputs and outputs")
    inner = [g for g in schedule.groups if any(m in g.members for m in members)]
    for group in inner:
        if not set(group.members) <= set(members):
            taken = next(m for m in members if m in group.members)
            raise ScheduleError(
                f"create_group: stage {taken.name} is in a group already, of which others would be left out"
            )
    members.sort(key=schedule.stages.index)
    new = Group(schedule, schedule._uids, members)
    schedule._uids += 1
    _nest(new, members, inner)
    schedule.groups.append(new)
    schedule.steps.append(Step("create_group", -1, (
        tuple(schedule.encode(_tensor(t)) for t in outputs), tuple(schedule.encode(_tensor(t)) for t in inputs),
        include_inputs)))
    return new


def _nest(new: Group, members: list[Stage], inner: list[Stage]) -> None:
    """Put the new group between its members (stages and outermost groups of them) and what is around them."""
    around = members[0]
    while around.group is not None and around.group.is_group:
        around = around.group
    new.group = around.group
    for node in [*members, *inner]:
        if node.group is new.group:
            node.group = new


def _between(schedule: Schedule, outputs, inputs, include_inputs: bool) -> list[Stage]:
    stop = {schedule[t] for t in inputs}
    members: list[Stage] = []
    todo = [schedule[t] for t in outputs]
    while todo:
        stage = todo.pop()
        if stage in members or isinstance(stage.op, PlaceholderOp) or stage in stop and not include_inputs:
            continue
        members.append(stage)
        if stage not in stop:
            todo.extend(schedule.stage_map[t.op] for t in stage.op.input_tensors if t.op in schedule.stage_map)
    return members


def _tensor(t: Tensor | Operation) -> Tensor:
    return t if isinstance(t, Tensor) else t.output(0)


__all__ = ["Group", "create_group"]
