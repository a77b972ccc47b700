"""Schedules: the stages of a program, and the record of the steps that changed them.

Only steps (``steps.py``) change a schedule: the methods of stages and schedules create a step from their arguments and
apply it. ``replay(steps, ops)`` creates the same schedule again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..error import ScheduleError
from ..ir.prim import IterVar, ProducerLoad
from ..ir.serialize import register_json_codec
from ..ir.transform import PassContext
from ..runtime.container import Map
from ..tir.buffer import Buffer
from . import axes as axis_algebra
from .attributes import AttachType
from .axes import Fuse, Singleton, Split
from .dataflow import CacheReadStep, CacheWriteStep, RfactorStep
from .graph import post_order_ops, scan_body
from .group import CreateGroupStep, Group
from .normalize import normalize
from .pad import PadStep
from .stage import Stage
from .steps import AxisRef, Step, TensorRef, apply, from_plain, to_plain
from .tensor import Operation, ScanOp, Tensor


class Schedule:
    """The stages of a program, producers first.

    Parameters
    ----------
    outputs : list[Operation]
        The operations that compute the outputs of the program.
    """

    def __init__(self, outputs: list[Operation]):
        self.outputs: list[Operation] = outputs
        self.stages: list[Stage] = []
        self.groups: list[Group] = []
        self._numbered: dict[int, Stage] = {}
        self.stage_map: dict[Operation, Stage] = {}
        self.steps: list[Step] = []
        self._uids = 0
        self.keeps_record = bool(PassContext.current().get_config("te.keep_schedule_record"))
        for op in post_order_ops(outputs):
            self.add_stage(op)
        for op in outputs:
            self.stage_map[op].is_output = True
        self._first_outputs = [self.stage_map[op].uid for op in outputs]
        for stage in list(self.stages):
            if isinstance(stage.op, ScanOp):
                self._attach_scan(stage)

    def add_stage(self, op: Operation, where: int | None = None) -> Stage:
        """Insert a new stage of ``op`` before the stage at index ``where``; without ``where``, append it.

        Parameters
        ----------
        op : Operation
            The operation.
        where : int, optional
            The index.

        Returns
        -------
        Stage
            The stage.
        """
        stage = Stage(self, op, self._uids)
        self._number(stage)
        self.stages.insert(len(self.stages) if where is None else where, stage)
        self.stage_map[op] = stage
        return stage

    def add_group(self, members: list[Stage]) -> Group:
        """A group of stages that are moved together.

        Parameters
        ----------
        members : list of Stage
            The stages.

        Returns
        -------
        Group
            The group.
        """
        group = Group(self, self._uids, members)
        self._number(group)
        self.groups.append(group)
        return group

    def _number(self, stage: Stage) -> None:
        self._numbered[stage.uid] = stage
        self._uids += 1

    def _attach_scan(self, scan_stage: Stage) -> None:
        scan = scan_stage.op
        assert isinstance(scan, ScanOp), f"{scan_stage.name} is not a scan"
        for op in scan_body(scan):
            self.stage_map[op].group = scan_stage
            scan_stage.num_child_stages += 1
        for tensor in scan.update:
            stage = self.stage_map[tensor.op]
            stage.attach_type = AttachType.SCAN_UPDATE
            stage.attach_stage, stage.attach_ivar = scan_stage, scan.scan_axis

    # -- record ----------------------------------------------------------------------------------------------------

    @property
    def primitive_record(self) -> list[str]:
        """The names of the primitives so far, "vanilla" first. Recorded if the setting te.keep_schedule_record is
        on."""
        return ["vanilla", *(step.kind for step in self.steps)] if self.keeps_record else []

    @property
    def schedule_record(self) -> list[Schedule]:
        """The schedule after each of the primitives so far. Recorded if the setting te.keep_schedule_record is on."""
        if not self.keeps_record:
            return []
        return [replay(self.steps[:n], self.first_outputs) for n in range(len(self.steps) + 1)]

    @property
    def first_outputs(self) -> list[Operation]:
        """The operations for which the schedule was created, before any step."""
        return [self.stage_by_uid(uid).origin_op for uid in self._first_outputs]

    # -- lookup ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None:
            what = getattr(op, "name", None) or repr(key)
            raise ValueError(f"{what} is not in this schedule; its stages are {', '.join(s.name for s in self.stages)}")
        return stage

    def __contains__(self, key: Any) -> bool:
        return (key.op if isinstance(key, Tensor) else key) in self.stage_map

    def stage_by_uid(self, uid: int) -> Stage:
        """The stage with the number that steps use.

        Parameters
        ----------
        uid : int
            The number.

        Returns
        -------
        Stage
            The stage.

        Raises
        ------
        ScheduleError
            No stage has this number.
        """
        stage = self._numbered.get(uid)
        if stage is None:
            raise ScheduleError(f"the schedule has no stage with number {uid}")
        return stage

    def tensor_ref(self, tensor: Tensor) -> TensorRef:
        """The reference to a tensor that steps use.

        Parameters
        ----------
        tensor : Tensor
            The tensor.

        Returns
        -------
        TensorRef
            The number of its stage, and the index of the output.
        """
        return TensorRef(self[tensor].uid, tensor.value_index)

    def tensor(self, ref: TensorRef) -> Tensor:
        """The tensor that a step refers to, as an output of the current operation of its stage.

        Parameters
        ----------
        ref : TensorRef
            The reference.

        Returns
        -------
        Tensor
            The tensor.

        Raises
        ------
        ScheduleError
            The stage does not have this output.
        """
        op = self.stage_by_uid(ref.stage).op
        if not 0 <= ref.index < op.num_outputs:
            raise ScheduleError(f"stage {op.name} has no output {ref.index}")
        return op.output(ref.index)

    def consumers(self, stage: Stage) -> list[Stage]:
        """Stages that read an output of this one.

        Parameters
        ----------
        stage : Stage
            The stage.

        Returns
        -------
        list of Stage
            The readers.
        """
        return [s for s in self.stages if any(t.op is stage.op for t in s.op.input_tensors)]

    def reaches(self, producer: Stage, consumer: Stage) -> bool:
        """Whether ``consumer`` reads ``producer``, directly or through other stages.

        Parameters
        ----------
        producer : Stage
            The stage that is read.
        consumer : Stage
            The stage that reads.

        Returns
        -------
        bool
            True if it does.
        """
        todo = [producer]
        seen: set[Stage] = set()
        while todo:
            stage = todo.pop()
            for user in self.consumers(stage):
                if user is consumer:
                    return True
                if user not in seen:
                    seen.add(user)
                    todo.append(user)
            for scan in self.stages:
                if isinstance(scan.op, ScanOp) and any(t.op is stage.op for t in scan.op.state_placeholder):
                    todo.append(scan) if scan not in seen else None
        return False

    # -- changes of the dataflow -----------------------------------------------------------------------------------

    def _ref(self, tensor: Any, primitive: str) -> TensorRef:
        if not isinstance(tensor, Tensor):
            raise ScheduleError(f"{primitive}: expected a tensor, got {type(tensor).__name__}")
        return self.tensor_ref(tensor)

    def cache_read(self, tensor: Any, scope: str, readers: Any) -> Tensor:
        """A copy of ``tensor`` in ``scope`` that ``readers`` read in its place.

        Parameters
        ----------
        tensor : Tensor
            The tensor to copy.
        scope : str
            The storage scope of the copy: local, shared or global.
        readers : list of Tensor or Operation
            The readers of the copy.

        Returns
        -------
        Tensor
            The copy, which has its own stage.

        Raises
        ------
        ScheduleError
            ``tensor`` is not a tensor, or one of ``readers`` does not read it.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s.cache_read(A, "local", [B]).name
        'A.local'
        """
        given = readers if isinstance(readers, (list, tuple)) else [readers]
        users = tuple(TensorRef(self[reader].uid, 0) for reader in given)
        return apply(self, CacheReadStep(self._ref(tensor, "cache_read"), scope, users))

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute ``tensor`` (or all outputs of one operation) in ``scope``, then copy it out.

        Parameters
        ----------
        tensor : Tensor or list of Tensor
            The tensor or tensors to compute.
        scope : str
            The storage scope: local, shared or global.

        Returns
        -------
        Tensor or list of Tensor
            The tensor in ``scope``; its stage has the computation.

        Raises
        ------
        ScheduleError
            ``tensor`` is not a tensor of this schedule.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s.cache_write(B, "local").name
        'B.local'
        """
        if isinstance(tensor, (list, tuple)):
            return apply(self, CacheWriteStep(tuple(self._ref(t, "cache_write") for t in tensor), scope))
        return apply(self, CacheWriteStep(self._ref(tensor, "cache_write"), scope))

    def rfactor(self, tensor: Any, axis: Any, factor_axis: Any = 0) -> Any:
        """Split a reduction in two: the first keeps ``axis`` as a dimension of a new tensor, the second reduces that
        dimension.

        Parameters
        ----------
        tensor : Tensor
            The reduction.
        axis : IterVar
            One of its reduction loops, often made by ``split``.
        factor_axis : int
            The index of the new dimension.

        Returns
        -------
        Tensor
            The tensor of partial results.

        Raises
        ------
        ScheduleError
            ``axis`` is not a loop of the reduction.

        Examples
        --------
        >>> A = te.placeholder((64,), name="A")
        >>> k = te.reduce_axis((0, 64), name="k")
        >>> B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
        >>> s = te.create_schedule(B.op)
        >>> ko, ki = s[B].split(k, factor=8)
        >>> s.rfactor(B, ki).shape
        (8, 1)
        """
        ref = self._ref(tensor, "rfactor")
        stage = self.stage_by_uid(ref.stage)
        if not isinstance(axis, IterVar) or axis not in stage.all_iter_vars:
            name = axis.var.name if isinstance(axis, IterVar) else repr(axis)
            raise ScheduleError(f"rfactor of {stage.name}: {name} is not one of its loops ({stage.loop_names()})")
        loop = AxisRef(stage.uid, stage.all_iter_vars.index(axis))
        return apply(self, RfactorStep(ref, loop, int(factor_axis)))

    def pad(self, tensor: Any, factors: Any) -> list[Tensor]:
        """Compute a sum of products over extents that are multiples of ``factors``, with both operands padded with
        zeros, and copy the result out.

        Parameters
        ----------
        tensor : Tensor
            The sum of products.
        factors : list of int
            A factor for each axis, reduction axes last.

        Returns
        -------
        list of Tensor
            The two padded operands, and the padded sum.

        Raises
        ------
        ScheduleError
            The tensor is not a sum of products of two tensors, or an operand does not end where the reduction does.

        Examples
        --------
        >>> A, B = te.placeholder((5, 6), name="A"), te.placeholder((6, 7), name="B")
        >>> k = te.reduce_axis((0, 6), name="k")
        >>> C = te.compute((5, 7), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        >>> s = te.create_schedule(C.op)
        >>> [t.shape for t in s.pad(C, [4, 4, 4])]
        [(8, 8), (8, 8), (8, 8)]
        """
        return list(apply(self, PadStep(self._ref(tensor, "pad"), tuple(factors))))

    def create_group(self, outputs: Any, inputs: Any, include_inputs: Any = False) -> Group:
        """Group the stages between ``inputs`` and ``outputs``.

        Parameters
        ----------
        outputs : Tensor or list of Tensor
            The last tensors in the group.
        inputs : Tensor or list of Tensor
            The tensors before the group.
        include_inputs : bool
            Whether the group includes the stages of ``inputs``.

        Returns
        -------
        Group
            The group, which is scheduled like a stage.
        """

        def refs(given: Any) -> tuple[TensorRef, ...]:
            given = [given] if isinstance(given, (Tensor, Operation)) else given
            return tuple(self.tensor_ref(t if isinstance(t, Tensor) else t.output(0)) for t in given)

        return apply(self, CreateGroupStep(refs(outputs), refs(inputs), include_inputs))

    def normalize(self) -> Schedule:
        """A copy that is ready for bound inference: inlined stages are removed, attach points are existing loops.

        Returns
        -------
        Schedule
            The copy.
        """
        return normalize(self)

    def normalize_for_feature_extraction(self) -> Schedule:
        """The same as ``normalize``.

        Returns
        -------
        Schedule
            The copy.
        """
        return self.normalize()

    def _repr_svg_(self) -> str:
        """The SVG that notebooks display: the tree of the stages with their loops."""
        from .picture import schedule_tree

        return schedule_tree(self).drawing.file()

    # -- copies ----------------------------------------------------------------------------------------------------

    def copy(self) -> Schedule:
        """An independent schedule of the same operations and axes.

        Returns
        -------
        Schedule
            The copy.
        """
        new = Schedule.__new__(Schedule)
        new.outputs = list(self.outputs)
        new.steps = list(self.steps)
        new._uids, new._first_outputs, new.keeps_record = self._uids, self._first_outputs, self.keeps_record
        pairs: dict[Any, Stage] = {}
        new.stages = []
        for stage in self.stages:
            twin = Stage.__new__(Stage)
            twin.__dict__.update(stage.__dict__)
            twin.schedule = new
            twin.all_iter_vars = list(stage.all_iter_vars)
            twin.leaf_iter_vars = list(stage.leaf_iter_vars)
            twin.relations = list(stage.relations)
            twin.iter_var_attrs = {a: v.copy() for a, v in stage.iter_var_attrs.items()}
            pairs[stage] = twin
            new.stages.append(twin)
        new.groups = [group.twin(new, pairs) for group in self.groups]
        for twin in new.stages + new.groups:
            twin.attach_stage = pairs.get(twin.attach_stage, twin.attach_stage)
            twin.group = pairs.get(twin.group, twin.group)
        new._numbered = {twin.uid: twin for twin in new.stages + new.groups}
        new.stage_map = {op: pairs[stage] for op, stage in self.stage_map.items() if stage in pairs}
        return new


def replay(steps: Iterable[Step], ops: Any) -> Schedule:
    """The schedule that these steps create for the program with these outputs.

    Parameters
    ----------
    steps : Iterable[Step]
        The steps, as in ``Schedule.steps``.
    ops : list of Operation
        The operations for which the steps were recorded.

    Returns
    -------
    Schedule
    """
    schedule = create_schedule(ops)
    for step in steps:
        apply(schedule, step)
    return schedule


def _to_plain(schedule: Schedule) -> dict[str, Any]:
    return {"outputs": schedule.first_outputs, "steps": to_plain(schedule.steps)}


def _from_plain(value: dict[str, Any]) -> Schedule:
    return replay(from_plain(value["steps"]), list(value["outputs"]))


register_json_codec(Schedule, "te.Schedule", _to_plain, _from_plain)


def create_schedule(ops: Any) -> Schedule:
    """A schedule that computes every operation at the root, in unscheduled loops.

    Parameters
    ----------
    ops : Operation or list of Operation
        The operations that compute the outputs of the program.

    Returns
    -------
    Schedule

    Raises
    ------
    TypeError
        One of ``ops`` is not an operation.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    >>> s = te.create_schedule(B.op)
    >>> [axis.var.name for axis in s[B].leaf_iter_vars]
    ['i']
    """
    if not isinstance(ops, (list, tuple)):
        ops = [ops]
    outputs: list[Any] = []
    for op in ops:
        op = op.op if isinstance(op, Tensor) else op
        if not isinstance(op, Operation):
            raise TypeError(f"create_schedule: expected an operation, got {type(op).__name__}")
        if op not in outputs:
            outputs.append(op)
    return Schedule(outputs)


def InferBound(sch: Schedule) -> Map:
    """The ranges of all axes of all stages."""
    from .infer import infer_bound

    return Map(infer_bound(sch))


def ScheduleOps(sch: Schedule, bounds: Any, debug_keep_trivial_loop: bool = False):
    """The loops of a schedule, as a statement over tensors."""
    from .lower import schedule_ops

    return schedule_ops(sch, bounds)


def __getattr__(name: str):
    if name.startswith("AutoInline"):
        from . import auto_inline

        return getattr(auto_inline, name)
    if name == "SchedulePostProcToPrimFunc":
        from .postproc import SchedulePostProcToPrimFunc

        return SchedulePostProcToPrimFunc
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = [
    "AttachType",
    "Buffer",
    "Fuse",
    "InferBound",
    "ProducerLoad",
    "Schedule",
    "ScheduleOps",
    "Singleton",
    "Split",
    "Stage",
    "Step",
    "apply",
    "axis_algebra",
    "create_schedule",
    "replay",
]
