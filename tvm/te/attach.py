"""Attach points of stages: the loops around each stage, and its storage scope."""

from __future__ import annotations

from ..error import ScheduleError
from ..ir.prim import IterVar
from .schedule import AttachType, Schedule, Stage
from .tensor import ScanOp

# Ranks of storage scopes and thread tags: the threads of equal or higher rank share a scope.
STORAGE_RANK = {"global": 0, "shared": 1, "shared.dyn": 1, "warp": 2, "local": 3}
_DEFAULT_SCOPE = {-1: "global", 0: "shared", 1: "local"}


def thread_rank(tag: str) -> int:
    """Return 0 for a block tag, 1 for a thread tag inside a block (virtual threads too) and -1 for any other tag."""
    if tag.startswith("blockIdx"):
        return 0
    return 1 if tag else -1


def storage_rank(scope: str) -> int:
    return STORAGE_RANK.get(scope, 4)


def attach_point(stage: Stage) -> tuple[Stage, IterVar] | None:
    """Return the stage and the loop inside which this stage is computed, or None for a stage at the root."""
    node: Stage | None = stage
    while node is not None:
        if node.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE):
            parent, axis = node.attached_at
            return parent, _leaf_of(parent, axis)
        node = node.group
        if node is not None and not node.is_group:
            # A stage inside a scan is computed in every step of the scan.
            assert isinstance(node.op, ScanOp), f"stage {node.name} contains other stages but is not a scan"
            return node, _leaf_of(node, node.op.scan_axis)
    return None


def _leaf_of(stage: Stage, axis: IterVar) -> IterVar:
    from .normalize import live_axis

    return live_axis(stage, axis)


class Attachments:
    """The attach paths of the stages of a normalized schedule."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.paths: dict[Stage, list[tuple[Stage, IterVar]]] = {}
        self.children: dict[tuple[Stage, IterVar] | None, list[Stage]] = {}
        for stage in schedule.stages:
            self.children.setdefault(attach_point(stage), []).append(stage)

    def path(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        """Return the loops around the stage, innermost first."""
        got: list[tuple[Stage, IterVar]] | None = self.paths.get(stage)
        if got is not None:
            return got
        got = []
        point = attach_point(stage)
        seen = {stage}
        while point is not None:
            parent, axis = point
            if parent in seen:
                raise ScheduleError(f"stage {stage.name} is computed inside itself through {parent.name}")
            seen.add(parent)
            where = parent.leaf_iter_vars.index(axis)
            got.extend((parent, a) for a in reversed(parent.leaf_iter_vars[: where + 1]))
            point = attach_point(parent)
        self.paths[stage] = got
        return got

    def bound_thread(self, stage: Stage, axis: IterVar) -> IterVar | None:
        """Return the thread axis to which a loop is bound, or None."""
        attrs = stage.peek(axis)
        if attrs is not None and attrs.bind_thread is not None:
            return attrs.bind_thread
        return axis if axis.thread_tag else None

    def scope(self, stage: Stage) -> str:
        """Return the storage scope of the stage's output."""
        if stage.scope:
            return stage.scope
        rank = -1
        for parent, axis in self.path(stage):
            thread = self.bound_thread(parent, axis)
            if thread is not None:
                rank = max(rank, thread_rank(thread.thread_tag))
        return _DEFAULT_SCOPE[rank]

    def shares(self, stage: Stage, parent: Stage, axis: IterVar) -> bool:
        """Return whether the iterations of this outer loop run concurrently and share the stage's memory."""
        thread = self.bound_thread(parent, axis)
        if thread is None:
            return False
        rank = storage_rank(self.scope(stage))
        if rank == 2:
            return thread.thread_tag == "threadIdx.x"
        return rank <= thread_rank(thread.thread_tag)
