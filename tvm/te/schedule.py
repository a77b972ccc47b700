"""Schedules: stages, their loops, and the primitives that shape them.

A primitive checks first and acts after: when it refuses, it names stage, axis and reason, and the schedule is as it
was. Every move that succeeds is kept as a Step, and ``replay(steps, ops)`` makes the same schedule again.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import chain
from typing import Any

from ..error import ScheduleError
from ..ir.prim import IntImm, IterVar, PrimExpr, ProducerLoad, Range, StringImm, Var, const, convert
from ..ir.serialize import register_json_codec
from ..ir.transform import PassContext
from ..runtime.container import Map
from ..tir.buffer import Buffer
from . import axes as axis_algebra
from .axes import Fuse, Relation, Singleton, Split
from .graph import post_order_ops, scan_body
from .steps import AxisRef, StageRef, Step, TensorRef, from_plain, to_plain
from .tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp

ITER_TYPE_NAMES = {
    IterVar.DataPar: "data parallel", IterVar.ThreadIndex: "thread", IterVar.CommReduce: "reduction",
    IterVar.Ordered: "ordered", IterVar.DimInfo: "opaque", IterVar.Unrolled: "unrolled",
    IterVar.Vectorized: "vectorized", IterVar.Parallelized: "parallel", IterVar.Tensorized: "tensorized",
}


class AttachType(IntEnum):
    """Where a stage is computed."""

    GROUP_ROOT = 1
    INLINE = 2
    SCOPE = 4
    SCAN_UPDATE = 5


class AxisAttributes:
    """What the schedule says about one loop."""

    __slots__ = (
        "iter_type", "bind_thread", "prefetch", "tensor_intrin", "dim_align_factor", "dim_align_offset", "pragmas",
        "region_factor", "skips_padding",
    )

    def __init__(self):
        self.iter_type = IterVar.DataPar
        self.bind_thread: IterVar | None = None
        self.prefetch: list[tuple[Tensor, Any]] = []
        self.tensor_intrin: Any = None
        self.dim_align_factor = 0
        self.dim_align_offset = 0
        self.region_factor = 0
        self.skips_padding = False
        self.pragmas: list[tuple[str, Any]] = []

    def copy(self) -> AxisAttributes:
        new = AxisAttributes()
        for slot in self.__slots__:
            value = getattr(self, slot)
            setattr(new, slot, list(value) if isinstance(value, list) else value)
        return new

    @property
    def pragma_keys(self):
        return [StringImm(k) for k, _ in self.pragmas]

    @property
    def pragma_values(self):
        return [v for _, v in self.pragmas]


class Stage:
    """The schedule of one operation. ``op`` may change (caches, inlining); ``origin_op`` is the one the user made."""

    def __init__(self, schedule: Schedule, op: Operation, uid: int):
        self._schedule = schedule
        self.uid = uid
        self.op = op
        self.origin_op = op
        self.all_iter_vars: list[IterVar] = root_axes(op)
        self.leaf_iter_vars: list[IterVar] = list(op.loops if isinstance(op, TensorComputeOp) else self.all_iter_vars)
        self.relations: list[Relation] = []
        self.iter_var_attrs: dict[IterVar, AxisAttributes] = {}
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: Stage | None = None
        self.scope = ""
        self.is_output = False
        # Pieces of memory that take turns; 0 where there is one.
        self.double_buffered = 0
        self.rolling = False
        self.env_thread_axes: list[IterVar] = []
        self.store_predicate: PrimExpr | None = None
        self.group: Stage | None = None
        self.num_child_stages = 0
        self.output_layouts: dict = {}

    def __repr__(self):
        return f"stage({self.op.name}, {self.op!s})" if self.is_group else f"stage({self.op.name})"

    @property
    def is_group(self) -> bool:
        return False

    @property
    def name(self) -> str:
        return self.op.name

    def attributes(self, axis: IterVar) -> AxisAttributes:
        """The attributes of an axis, made when first asked for."""
        got = self.iter_var_attrs.get(axis)
        if got is None:
            got = self.iter_var_attrs[axis] = AxisAttributes()
            got.iter_type = axis.iter_type
        return got

    def peek(self, axis: IterVar) -> AxisAttributes | None:
        return self.iter_var_attrs.get(axis)

    # -- checks ------------------------------------------------------------------------------------------------

    def _fail(self, primitive: str, reason: str):
        raise ScheduleError(f"{primitive} on stage {self.name}: {reason}")

    def _axis_names(self) -> str:
        return ", ".join(a.var.name for a in self.leaf_iter_vars) or "none"

    def _require_axis(self, axis: Any, primitive: str) -> IterVar:
        if not isinstance(axis, IterVar):
            self._fail(primitive, f"an axis of the stage is wanted, got {type(axis).__name__}")
        return axis

    def _require_leaf(self, axis: Any, primitive: str) -> IterVar:
        axis = self._require_axis(axis, primitive)
        if axis in self.leaf_iter_vars:
            return axis
        if axis in self.all_iter_vars:
            for r in self.relations:
                if isinstance(r, Split) and r.parent is axis:
                    why = f"was split into {r.outer.var.name} and {r.inner.var.name}"
                    break
                if isinstance(r, Fuse) and axis in (r.outer, r.inner):
                    why = f"was fused into {r.fused.var.name}"
                    break
            else:
                why = "is made by an intrinsic" if isinstance(self.op, TensorComputeOp) else "is no loop any more"
            self._fail(primitive, f"axis {axis.var.name} {why}; the loops are {self._axis_names()}")
        self._fail(primitive, f"axis {axis.var.name} is not an axis of this stage; the loops are {self._axis_names()}")
        raise AssertionError

    def _require_compute(self, primitive: str) -> None:
        if isinstance(self.op, PlaceholderOp):
            self._fail(primitive, "it is a placeholder (an input): there is nothing to schedule")

    def _record(self, kind: str, *args) -> None:
        self._schedule.steps.append(Step(kind, self.uid, tuple(self._schedule.encode(a, self) for a in args)))

    # -- loops ---------------------------------------------------------------------------------------------------

    def split(self, parent, factor=None, nparts=None):
        """for i in n  ->  for i.outer in ceil(n / factor): for i.inner in factor"""
        self._require_compute("split")
        parent = self._require_leaf(parent, "split")
        if (factor is None) == (nparts is None):
            self._fail(
                "split", "give either factor or nparts, not both" if factor is not None else "give factor or nparts"
            )
        what, size = ("factor", factor) if factor is not None else ("nparts", nparts)
        size = self._split_size(size, what, parent)
        if parent.iter_type not in (IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered):
            self._fail("split", f"axis {parent.var.name} is a {ITER_TYPE_NAMES[parent.iter_type]} axis")
        attrs = self.peek(parent)
        if attrs is not None and attrs.bind_thread is not None:
            self._fail("split", f"axis {parent.var.name} is bound to {attrs.bind_thread.thread_tag} already")
        outer = IterVar(None, Var(parent.var.name + ".outer", parent.var.dtype), parent.iter_type)
        inner = IterVar(None, Var(parent.var.name + ".inner", parent.var.dtype), parent.iter_type)
        where = self.leaf_iter_vars.index(parent)
        self.relations.append(Split(parent, outer, inner, size if factor is not None else None,
                                    size if nparts is not None else None))
        self.all_iter_vars += [outer, inner]
        self.leaf_iter_vars[where : where + 1] = [outer, inner]
        self._record("split", parent, factor, nparts)
        return outer, inner

    def _split_size(self, size, what: str, parent: IterVar) -> PrimExpr:
        if isinstance(size, float) and size == int(size):
            size = int(size)
        if isinstance(size, bool) or not isinstance(size, (int, PrimExpr)) and not hasattr(size, "__index__"):
            self._fail("split", f"{what} of axis {parent.var.name} is an integer or an expression, got {size!r}")
        if not isinstance(size, PrimExpr):
            size = const(int(size), parent.var.dtype)
        if isinstance(size, IntImm) and size.value <= 0:
            self._fail("split", f"{what} of axis {parent.var.name} must be at least 1, got {size.value}")
        return convert(size).astype(parent.var.dtype)

    def fuse(self, *args):
        """for i: for j  ->  for i.j.fused in extent(i) * extent(j)"""
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        self._require_compute("fuse")
        if not args:
            axis = IterVar(Range(min=const(0), extent=const(1)), "singleton", IterVar.DataPar)
            self.relations.append(Singleton(axis))
            self.all_iter_vars.append(axis)
            self.leaf_iter_vars.insert(0, axis)
            self._record("fuse")
            return axis
        for axis in args:
            self._require_leaf(axis, "fuse")
        self._check_fusable(args)
        fused = args[0]
        for inner in args[1:]:
            fused = self._fuse_two(fused, inner)
        if len(args) > 1:
            self._record("fuse", *args)
        return fused

    def _check_fusable(self, args) -> None:
        where = [self.leaf_iter_vars.index(a) for a in args]
        if len(set(where)) != len(where):
            self._fail("fuse", "an axis is given twice")
        if where != list(range(where[0], where[0] + len(where))):
            self._fail(
                "fuse",
                f"axes {', '.join(a.var.name for a in args)} must be neighbours in this order; "
                f"the loops are {self._axis_names()}",
            )
        kinds = {a.iter_type for a in args}
        if len(kinds) > 1 and kinds != {IterVar.DataPar, IterVar.CommReduce}:
            self._fail("fuse", f"axes of kinds {', '.join(sorted(ITER_TYPE_NAMES[k] for k in kinds))} cannot be fused")
        for a in args:
            attrs = self.peek(a)
            if attrs is not None and attrs.bind_thread is not None:
                self._fail("fuse", f"axis {a.var.name} is bound to {attrs.bind_thread.thread_tag} already")

    def _fuse_two(self, outer: IterVar, inner: IterVar) -> IterVar:
        name = f"{outer.var.name}.{inner.var.name}.fused"
        dtype = axis_algebra.fused_dtype([*self.op.axis, *self.op.reduce_axis], self.relations, outer, inner)
        # Data fused with reduction is reduced over: its iterations depend on each other.
        kind = IterVar.CommReduce if IterVar.CommReduce in (outer.iter_type, inner.iter_type) else outer.iter_type
        fused = IterVar(None, Var(name, dtype), kind)
        where = self.leaf_iter_vars.index(outer)
        self.relations.append(Fuse(outer, inner, fused))
        self.all_iter_vars.append(fused)
        self.leaf_iter_vars[where : where + 2] = [fused]
        return fused

    def reorder(self, *args) -> None:
        """The given loops, in the given order, in the places they now have."""
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        self._require_compute("reorder")
        for axis in args:
            self._require_leaf(axis, "reorder")
        if len(set(args)) != len(args):
            self._fail("reorder", "an axis is given twice")
        where = sorted(self.leaf_iter_vars.index(a) for a in args)
        ordered = list(self.leaf_iter_vars)
        for place, axis in zip(where, args):
            ordered[place] = axis
        # A loop that is not named may be passed by one that is, so the whole order counts.
        held = axis_algebra.mixed(self.relations)
        if [a for a in self.leaf_iter_vars if a in held] != [a for a in ordered if a in held]:
            self._fail("reorder", f"{held[0].var.name} is fused from data and reduction; its loops keep their order")
        self.leaf_iter_vars[:] = ordered
        self._record("reorder", *args)

    def tile(self, x_parent, y_parent, x_factor, y_factor):
        """Split both axes and order the loops outer, outer, inner, inner."""
        self._require_leaf(x_parent, "tile")
        self._require_leaf(y_parent, "tile")
        if x_parent is y_parent:
            self._fail("tile", "the two axes must differ")
        self._split_size(x_factor, "factor", x_parent), self._split_size(y_factor, "factor", y_parent)
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    # -- annotations ---------------------------------------------------------------------------------------------

    def _annotate(self, axis, iter_type: int, primitive: str, allowed: tuple) -> None:
        self._require_compute(primitive)
        axis = self._require_leaf(axis, primitive)
        if axis.iter_type not in allowed:
            kind = ITER_TYPE_NAMES[axis.iter_type]
            self._fail(primitive, f"axis {axis.var.name} is a {kind} axis: its iterations depend on each other")
        attrs = self.peek(axis)
        if attrs is not None and attrs.bind_thread is not None:
            self._fail(primitive, f"axis {axis.var.name} is bound to {attrs.bind_thread.thread_tag} already")
        self.attributes(axis).iter_type = iter_type
        self._record(primitive, axis)

    def vectorize(self, var) -> None:
        """Run the iterations of the loop as lanes of vectors; its extent must be a constant when lowered."""
        self._annotate(var, IterVar.Vectorized, "vectorize", (IterVar.DataPar,))

    def unroll(self, var) -> None:
        self._annotate(var, IterVar.Unrolled, "unroll", (IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered))

    def parallel(self, var) -> None:
        """Spread the iterations of the loop over threads."""
        self._annotate(var, IterVar.Parallelized, "parallel", (IterVar.DataPar,))

    def bind(self, ivar, thread_ivar) -> None:
        """Let hardware threads carry the loop."""
        self._require_compute("bind")
        ivar = self._require_leaf(ivar, "bind")
        if not isinstance(thread_ivar, IterVar) or thread_ivar.iter_type != IterVar.ThreadIndex:
            self._fail("bind", 'a thread axis is wanted, made with te.thread_axis("threadIdx.x")')
        if ivar.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            self._fail("bind", f"axis {ivar.var.name} is a {ITER_TYPE_NAMES[ivar.iter_type]} axis")
        for other in self.leaf_iter_vars:
            attrs = self.peek(other)
            if other is ivar or attrs is None or attrs.bind_thread is None:
                continue
            if attrs.bind_thread is thread_ivar or attrs.bind_thread.thread_tag == thread_ivar.thread_tag != "vthread":
                self._fail("bind", f"{thread_ivar.thread_tag} carries axis {other.var.name} already")
        mine = self.attributes(ivar)
        if mine.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            self._fail("bind", f"axis {ivar.var.name} is {ITER_TYPE_NAMES[mine.iter_type]} already")
        mine.bind_thread = thread_ivar
        self._record("bind", ivar, thread_ivar)

    def pragma(self, var, pragma_type, pragma_value=None) -> None:
        """Note something for later passes at this loop, such as ``auto_unroll_max_step``."""
        self._require_compute("pragma")
        var = self._require_leaf(var, "pragma")
        pragma_type = str(getattr(pragma_type, "value", pragma_type))
        value = None if pragma_value is None else convert(pragma_value)
        if pragma_type in ("unroll", "vectorize", "parallel"):
            getattr(self, pragma_type)(var)
            return
        self.attributes(var).pragmas.append((pragma_type, value))
        self._record("pragma", var, pragma_type, pragma_value)

    def prefetch(self, tensor, var, offset) -> None:
        """Ask for ``tensor`` ahead of its use, ``offset`` iterations of the loop before."""
        self._require_compute("prefetch")
        var = self._require_leaf(var, "prefetch")
        if not isinstance(tensor, Tensor):
            self._fail("prefetch", f"a tensor is wanted, got {type(tensor).__name__}")
        self.attributes(var).prefetch.append((tensor, convert(offset)))
        self._record("prefetch", tensor, var, offset)

    def tensorize(self, var, tensor_intrin) -> None:
        """Let an intrinsic do this loop and all loops inside it."""
        self._require_compute("tensorize")
        var = self._require_leaf(var, "tensorize")
        if not hasattr(tensor_intrin, "op") or not hasattr(tensor_intrin, "body"):
            self._fail("tensorize", "a tensor intrinsic is wanted, made with te.decl_tensor_intrin")
        if not isinstance(self.op, ComputeOp):
            self._fail("tensorize", f"only a compute can be tensorized; this is {type(self.op).__name__}")
        attrs = self.attributes(var)
        attrs.iter_type = IterVar.Tensorized
        attrs.tensor_intrin = tensor_intrin
        self._record("tensorize", var, tensor_intrin)

    def storage_align(self, axis, factor, offset) -> None:
        """Make the stride of ``axis`` equal to factor * k + offset."""
        self._require_compute("storage_align")
        axis = self._require_axis(axis, "storage_align")
        if axis not in self.op.axis:
            self._fail("storage_align", f"axis {axis.var.name} is not an axis of the operation itself")
        if int(factor) < 1:
            self._fail("storage_align", f"the factor must be at least 1, got {factor}")
        attrs = self.attributes(axis)
        attrs.dim_align_factor, attrs.dim_align_offset = int(factor), int(offset)
        self._record("storage_align", axis, factor, offset)

    def align_bounds(self, axis, factor) -> None:
        """Compute along ``axis`` from a multiple of ``factor`` to a multiple of it, whatever less of it is read."""
        self._require_compute("align_bounds")
        axis = self._require_axis(axis, "align_bounds")
        if axis not in self.op.axis:
            self._fail("align_bounds", f"axis {axis.var.name} is not an axis of the operation itself")
        if int(factor) < 1:
            self._fail("align_bounds", f"the factor must be at least 1, got {factor}")
        self.attributes(axis).region_factor = int(factor)
        self._record("align_bounds", axis, factor)

    def skip_padding(self, var) -> None:
        """Leave out the steps of a reduction loop in which all that is read of a padded tensor is its padding, where
        that adds nothing. A padded tensor that is stored as a whole then has no more padding than the other steps
        read."""
        self._require_compute("skip_padding")
        var = self._require_leaf(var, "skip_padding")
        if var.iter_type != IterVar.CommReduce:
            self._fail("skip_padding", f"axis {var.var.name} is no loop of the reduction")
        self.attributes(var).skips_padding = True
        self._record("skip_padding", var)

    def double_buffer(self, stages: int = 2) -> None:
        """Fill this memory for later iterations while the present one uses it: ``stages`` pieces take turns."""
        self._require_compute("double_buffer")
        if int(stages) < 2:
            self._fail("double_buffer", f"at least two pieces of memory take turns, got {stages}")
        if self.is_output:
            self._fail("double_buffer", "it is an output: its memory belongs to the caller")
        self.double_buffered = int(stages)
        self._record("double_buffer", stages)

    def rolling_buffer(self) -> None:
        self._require_compute("rolling_buffer")
        if self.is_output:
            self._fail("rolling_buffer", "it is an output: its memory belongs to the caller")
        self._fail("rolling_buffer", "not supported; compute_at with double_buffer is the nearest thing")

    def transform_layout(self, mapping_function):
        self._fail("transform_layout", "not supported on te schedules; write the layout as a compute of its own")

    def set_scope(self, scope) -> None:
        """Where the result lives: global, shared, local, warp, ..."""
        if not isinstance(scope, str):
            self._fail("set_scope", f"a scope name is wanted, got {scope!r}")
        if self.is_output and scope not in ("", "global"):
            self._fail("set_scope", "it is an output: its memory is the caller's, in scope global")
        self.scope = scope
        self._record("set_scope", scope)

    def set_store_predicate(self, predicate) -> None:
        """Store only where this holds: for results that all threads compute and one should write."""
        self._require_compute("set_store_predicate")
        self.store_predicate = convert(predicate)
        self._record("set_store_predicate", predicate)

    def env_threads(self, threads) -> None:
        """Launch these threads around the whole operation (scans)."""
        self._require_compute("env_threads")
        threads = [threads] if isinstance(threads, IterVar) else list(threads)
        for t in threads:
            if not isinstance(t, IterVar) or t.iter_type != IterVar.ThreadIndex:
                self._fail("env_threads", "thread axes are wanted, made with te.thread_axis")
        if not isinstance(self.op, ScanOp):
            self._fail("env_threads", "only a scan can have threads of its environment")
        if self.env_thread_axes:
            self._fail("env_threads", "they are set already")
        self.env_thread_axes = threads
        self.leaf_iter_vars = threads + self.leaf_iter_vars
        self.all_iter_vars = threads + self.all_iter_vars
        self._record("env_threads", *threads)

    # -- where the stage is computed -------------------------------------------------------------------------------

    def _check_compute_at(self, parent, scope) -> None:
        self._require_compute("compute_at")
        if not isinstance(parent, Stage):
            self._fail("compute_at", f"a stage is wanted, got {type(parent).__name__}; write s[C] rather than C")
        if parent._schedule is not self._schedule:
            self._fail("compute_at", f"stage {parent.name} is of another schedule")
        if self.is_output:
            self._fail("compute_at", "it is an output of the program; outputs are computed at the root")
        if parent is self:
            self._fail("compute_at", "a stage cannot be computed inside itself")
        if not isinstance(scope, IterVar) or scope not in parent.leaf_iter_vars:
            name = scope.var.name if isinstance(scope, IterVar) else repr(scope)
            loops = parent._axis_names()
            self._fail("compute_at", f"{name} is not a loop of stage {parent.name}; its loops are {loops}")
        if self.attach_type == AttachType.SCAN_UPDATE:
            self._fail("compute_at", "the update of a scan is computed by its scan")
        if self in parent.computed_inside():
            self._fail("compute_at", f"stage {parent.name} is itself computed inside {self.name}")
        if not self._schedule.reaches(self, parent):
            self._fail("compute_at", f"stage {parent.name} does not use it, directly or through others")

    def computed_inside(self) -> list[Stage]:
        """The stages in whose loops this one is computed, innermost first."""
        found: list[Stage] = []
        node: Stage | None = self
        while node is not None:
            if node.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE):
                node = node.attach_stage
                found.append(node)
            else:
                node = node.group
                if node is not None and not node.is_group:
                    found.append(node)
        return found

    def compute_at(self, parent, scope) -> None:
        """Compute what ``parent`` needs inside its loop ``scope``."""
        self._check_compute_at(parent, scope)
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.SCOPE, parent, scope
        self._record("compute_at", parent, (parent.uid, scope))

    def compute_inline(self) -> None:
        """Compute every element where it is used."""
        self._require_compute("compute_inline")
        if not isinstance(self.op, ComputeOp):
            self._fail("compute_inline", f"only a compute can be inlined; this is {type(self.op).__name__}")
        if self.op.reduce_axis:
            self._fail("compute_inline", "it is a reduction")
        if self.is_output:
            self._fail("compute_inline", "it is an output of the program")
        if self.attach_type == AttachType.SCAN_UPDATE:
            self._fail("compute_inline", "the update of a scan is computed by its scan")
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.INLINE, None, None
        self._record("compute_inline")

    def compute_root(self) -> None:
        """Compute the whole of it, before its users."""
        self._require_compute("compute_root")
        if self.attach_type == AttachType.SCAN_UPDATE:
            self._fail("compute_root", "the update of a scan is computed by its scan")
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.GROUP_ROOT, None, None
        self._record("compute_root")


def root_axes(op: Operation) -> list[IterVar]:
    return list(op.axis) + list(op.reduce_axis)


class Schedule:
    """The stages of a program, producers first."""

    def __init__(self, outputs: list[Operation]):
        self.outputs: list[Operation] = outputs
        self.stages: list[Stage] = []
        self.groups: list[Any] = []
        self.stage_map: dict[Operation, Stage] = {}
        self.steps: list[Step] = []
        self._uids = 0
        self.keeps_record = bool(PassContext.current().get_config("te.keep_schedule_record"))
        for op in post_order_ops(outputs):
            self._add_stage(op)
        for op in outputs:
            self.stage_map[op].is_output = True
        self._first_outputs = [self.stage_map[op].uid for op in outputs]
        for stage in list(self.stages):
            if isinstance(stage.op, ScanOp):
                self._attach_scan(stage)

    def _add_stage(self, op: Operation, where: int | None = None) -> Stage:
        stage = Stage(self, op, self._uids)
        self._uids += 1
        self.stages.insert(len(self.stages) if where is None else where, stage)
        self.stage_map[op] = stage
        return stage

    def _attach_scan(self, scan_stage: Stage) -> None:
        scan = scan_stage.op
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
        """The names of the primitives so far, "vanilla" first; kept under the setting te.keep_schedule_record."""
        return ["vanilla", *(step.kind for step in self.steps)] if self.keeps_record else []

    @property
    def schedule_record(self) -> list[Schedule]:
        """The schedule after each of the primitives so far; kept under the setting te.keep_schedule_record."""
        if not self.keeps_record:
            return []
        return [replay(self.steps[:n], self.first_outputs) for n in range(len(self.steps) + 1)]

    @property
    def first_outputs(self) -> list[Operation]:
        """The operations the schedule was made for, before steps changed them."""
        return [self.stage_by_uid(uid).origin_op for uid in self._first_outputs]

    # -- lookup ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None:
            what = getattr(op, "name", None) or repr(key)
            raise ValueError(
                f"{what} is not in this schedule; its stages are {', '.join(s.name for s in self.stages)}"
            )
        return stage

    def __contains__(self, key) -> bool:
        return (key.op if isinstance(key, Tensor) else key) in self.stage_map

    def stage_by_uid(self, uid: int) -> Stage:
        for stage in self.stages + self.groups:
            if stage.uid == uid:
                return stage
        raise ScheduleError(f"the schedule has no stage number {uid}")

    def consumers(self, stage: Stage) -> list[Stage]:
        """Stages that read a result of this one."""
        return [s for s in self.stages if any(t.op is stage.op for t in s.op.input_tensors)]

    def reaches(self, producer: Stage, consumer: Stage) -> bool:
        """Whether ``consumer`` reads ``producer``, directly or through other stages."""
        todo, seen = [producer], set()
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

    def cache_read(self, tensor, scope, readers) -> Tensor:
        """A copy of ``tensor`` in ``scope`` that ``readers`` use in its place."""
        from .dataflow import cache_read

        return cache_read(self, tensor, scope, readers)

    def cache_write(self, tensor, scope) -> Any:
        """Compute ``tensor`` (or all outputs of one operation) in ``scope``, then copy it out."""
        from .dataflow import cache_write

        return cache_write(self, tensor, scope)

    def rfactor(self, tensor, axis, factor_axis=0) -> Any:
        """Split a reduction in two: over ``axis`` kept apart in a new tensor, then over the new dimension."""
        from .dataflow import rfactor

        return rfactor(self, tensor, axis, factor_axis)

    def create_group(self, outputs, inputs, include_inputs=False) -> Stage:
        """Handle the stages between ``inputs`` and ``outputs`` together."""
        from .group import create_group

        return create_group(self, outputs, inputs, include_inputs)

    def normalize(self) -> Schedule:
        """A copy ready for bound inference: inlined stages gone, attach points on loops that exist."""
        from .normalize import normalize

        return normalize(self)

    def normalize_for_feature_extraction(self) -> Schedule:
        return self.normalize()

    # -- copies ----------------------------------------------------------------------------------------------------

    def copy(self) -> Schedule:
        """An independent schedule of the same operations and axes."""
        new = Schedule.__new__(Schedule)
        new.outputs = list(self.outputs)
        new.steps = list(self.steps)
        new._uids, new._first_outputs, new.keeps_record = self._uids, self._first_outputs, self.keeps_record
        pairs: dict[Any, Stage] = {}
        new.stages = []
        for stage in self.stages:
            twin = Stage.__new__(Stage)
            twin.__dict__.update(stage.__dict__)
            twin._schedule = new
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
        new.stage_map = {op: pairs[stage] for op, stage in self.stage_map.items() if stage in pairs}
        return new

    # -- steps -------------------------------------------------------------------------------------------------------

    def encode(self, value, near: Stage | None = None):
        """A reference that means the same in a replay: axes, tensors and stages by number. An axis is looked for among
        those of the stage ``near`` first."""
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], IterVar):
            return AxisRef(value[0], self.stage_by_uid(value[0]).all_iter_vars.index(value[1]))
        if isinstance(value, IterVar):
            if value.iter_type == IterVar.ThreadIndex:
                return value
            for stage in chain([] if near is None else [near], self.stages):
                if value in stage.all_iter_vars:
                    return AxisRef(stage.uid, stage.all_iter_vars.index(value))
            raise ScheduleError(f"axis {value.var.name} is of no stage")
        if isinstance(value, Tensor):
            return TensorRef(self[value].uid, value.value_index)
        if isinstance(value, Stage):
            return StageRef(value.uid)
        return value

    def decode(self, value):
        if isinstance(value, AxisRef):
            return self.stage_by_uid(value.stage).all_iter_vars[value.index]
        if isinstance(value, TensorRef):
            return self.stage_by_uid(value.stage).op.output(value.index)
        if isinstance(value, StageRef):
            return self.stage_by_uid(value.stage)
        if isinstance(value, tuple):
            return tuple(self.decode(v) for v in value)
        return value


def replay(steps, ops) -> Schedule:
    """The schedule that these steps make on the program with these outputs."""
    schedule = create_schedule(ops)
    for step in steps:
        args = [schedule.decode(a) for a in step.args]
        if step.stage < 0:
            getattr(schedule, step.kind)(*args)
            continue
        stage = schedule.stage_by_uid(step.stage)
        if step.kind == "split":
            stage.split(args[0], factor=args[1], nparts=args[2])
        elif step.kind == "env_threads":
            stage.env_threads(args)
        else:
            getattr(stage, step.kind)(*args)
    return schedule


def _to_plain(schedule: Schedule) -> dict:
    steps = [[step.kind, step.stage, to_plain(step.args)] for step in schedule.steps]
    return {"outputs": schedule.first_outputs, "steps": steps}


def _from_plain(value: dict) -> Schedule:
    steps = [Step(kind, stage, from_plain(args)) for kind, stage, args in value["steps"]]
    return replay(steps, list(value["outputs"]))


register_json_codec(Schedule, "te.Schedule", _to_plain, _from_plain)


def create_schedule(ops) -> Schedule:
    """A schedule that computes every operation at the root, in plain loops."""
    if not isinstance(ops, (list, tuple)):
        ops = [ops]
    outputs = []
    for op in ops:
        op = op.op if isinstance(op, Tensor) else op
        if not isinstance(op, Operation):
            raise TypeError(f"create_schedule: an operation is wanted, got {type(op).__name__}")
        if op not in outputs:
            outputs.append(op)
    return Schedule(outputs)


def InferBound(sch: Schedule) -> Map:
    """The range of every axis of every stage."""
    from .infer import infer_bound

    return Map(infer_bound(sch))


def ScheduleOps(sch: Schedule, bounds, debug_keep_trivial_loop: bool = False):
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
    "AttachType", "Buffer", "Schedule", "Stage", "create_schedule", "replay", "InferBound", "ScheduleOps",
    "Split", "Fuse", "Singleton", "ProducerLoad", "axis_algebra",
]
