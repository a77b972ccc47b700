"""Groups of stages. A stage at the root of a group is computed at the attach point of the group. Groups can be
nested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..error import ScheduleError
from .attributes import AttachType
from .stage import Stage
from .steps import ScheduleStep, TensorRef, primitive
from .tensor import PlaceholderOp

if TYPE_CHECKING:
    from .schedule import Schedule


class Group(Stage):
    """Several stages handled as one: compute_at on the group moves all of them."""

    def __init__(self, schedule: Schedule, uid: int, members: list[Stage]):
        super().__init__(schedule, members[0].op, uid)
        self.members = members
        self.all_iter_vars, self.leaf_iter_vars = [], []
        self.num_child_stages = len(members)

    def twin(self, schedule: Schedule, pairs: dict[Stage, Stage]) -> Group:
        """Copy the group into a copy of the schedule, whose stages are given by ``pairs``, and add it to ``pairs``."""
        new = pairs[self] = Group.__new__(Group)
        new.__dict__.update(self.__dict__)
        new.schedule = schedule
        new.members = [pairs[m] for m in self.members if m in pairs]
        return new

    @property
    def is_group(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "group(" + ", ".join(m.name for m in self.members) + ")"

    def require_compute(self, primitive: str) -> None:
        if primitive not in ("compute_at", "compute_root"):
            self.refuse(primitive, "a group of stages can only be moved: compute_at or compute_root")

    def moved_with(self) -> list[Stage]:
        return [member for member in self.members if member.attach_type != AttachType.INLINE]


@primitive("create_group")
class CreateGroupStep(ScheduleStep):
    """Group the stages between ``inputs`` and ``outputs``."""

    outputs: tuple[TensorRef, ...]
    inputs: tuple[TensorRef, ...]
    include_inputs: bool = False

    def act(self, schedule: Schedule) -> Group:
        members = _between(schedule, self.outputs, self.inputs, self.include_inputs)
        if not members:
            raise ScheduleError("create_group: there is no stage between the given inputs and outputs")
        inner = [g for g in schedule.groups if any(m in g.members for m in members)]
        for group in inner:
            if not set(group.members) <= set(members):
                taken = next(m for m in members if m in group.members)
                raise ScheduleError(
                    f"create_group: stage {taken.name} already belongs to a group that the new group would contain "
                    "only in part"
                )
        members.sort(key=schedule.stages.index)
        new = schedule.add_group(members)
        _nest(new, members, inner)
        return new


def _nest(new: Group, members: Sequence[Stage], inner: Sequence[Stage]) -> None:
    """Insert the new group between its members (stages and their outermost groups) and the group around them."""
    around = members[0]
    while around.group is not None and around.group.is_group:
        around = around.group
    new.group = around.group
    for node in [*members, *inner]:
        if node.group is new.group:
            node.group = new


def _between(
    schedule: Schedule, outputs: Iterable[TensorRef], inputs: Iterable[TensorRef], include_inputs: bool
) -> list[Stage]:
    stop = {schedule.stage_by_uid(t.stage) for t in inputs}
    members: list[Stage] = []
    todo = [schedule.stage_by_uid(t.stage) for t in outputs]
    while todo:
        stage = todo.pop()
        if stage in members or isinstance(stage.op, PlaceholderOp) or stage in stop and not include_inputs:
            continue
        members.append(stage)
        if stage not in stop:
            todo.extend(schedule.stage_map[t.op] for t in stage.op.input_tensors if t.op in schedule.stage_map)
    return members


__all__ = ["CreateGroupStep", "Group"]
