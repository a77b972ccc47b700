"""Where stages are computed: the loops around each stage, and the memory it lives in."""

from __future__ import annotations

from ..error import ScheduleError
from ..ir.prim import IterVar
from .schedule import AttachType, Schedule, Stage
from .tensor import ScanOp

# Storage scopes and thread tags by how far they reach: a scope is shared by the threads of equal or higher rank.
STORAGE_RANK = {"global": 0, "shared": 1, "shared.dyn": 1, "warp": 2, "local": 3}
_DEFAULT_SCOPE = {-1: "global", 0: "shared", 1: "local"}


def thread_rank(tag: str) -> int:
    """0 for blocks, 1 for threads inside a block (virtual threads too), -1 for no thread."""
    if tag.startswith("blockIdx"):
        return 0
    return 1 if tag else -1


def storage_rank(scope: str) -> int:
    return STORAGE_RANK.get(scope, 4)


def attach_point(stage: Stage) -> tuple[Stage, IterVar] | None:
    """The stage and loop inside which this stage is computed, None at the root."""
    node: Stage | None = stage
    while node is not None:
        if node.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE):
            parent, axis = node.attached_at
            return parent, _leaf_of(parent, axis)
        node = node.group
        if node is not None and not node.is_group:
            # Inside a scan: computed in every step.
            assert isinstance(node.op, ScanOp), f"stage {node.name} holds others and is no scan"
            return node, _leaf_of(node, node.op.scan_axis)
    return None


def _leaf_of(stage: Stage, axis: IterVar) -> IterVar:
    from .normalize import live_axis

    return live_axis(stage, axis)


class Attachments:
    """The attach paths of a normalized schedule."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.paths: dict[Stage, list[tuple[Stage, IterVar]]] = {}
        self.children: dict[tuple[Stage, IterVar] | None, list[Stage]] = {}
        for stage in schedule.stages:
            self.children.setdefault(attach_point(stage), []).append(stage)

    def path(self, stage: Stage) -> list[tuple[Stage, IterVar]]:
        """The loops around the stage, innermost first."""
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
        """The thread axis that carries a loop, if one does."""
        attrs = stage.peek(axis)
        if attrs is not None and attrs.bind_thread is not None:
            return attrs.bind_thread
        return axis if axis.thread_tag else None

    def scope(self, stage: Stage) -> str:
        """The storage scope of the stage's result."""
        if stage.scope:
            return stage.scope
        rank = -1
        for parent, axis in self.path(stage):
            thread = self.bound_thread(parent, axis)
            if thread is not None:
                rank = max(rank, thread_rank(thread.thread_tag))
        return _DEFAULT_SCOPE[rank]

    def shares(self, stage: Stage, parent: Stage, axis: IterVar) -> bool:
        """Whether the iterations of this outer loop run at once and share the stage's memory."""
        thread = self.bound_thread(parent, axis)
        if thread is None:
            return False
        rank = storage_rank(self.scope(stage))
        if rank == 2:
            return thread.thread_tag == "threadIdx.x"
        return rank <= thread_rank(thread.thread_tag)
