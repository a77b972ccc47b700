"""Steps that say how a loop runs, or how the memory of a stage is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..ir.prim import IterVar, convert
from .attributes import ITER_TYPE_NAMES
from .layout_steps import layout_axes
from .steps import AxisRef, StageStep, TensorRef, primitive
from .tensor import ComputeOp, ScanOp

if TYPE_CHECKING:
    from .stage import Stage


class _Annotation(StageStep):
    """A step that makes a loop one of ``makes``, where its axis is of a kind in ``allowed``."""

    __slots__ = ()
    makes: ClassVar[int]
    allowed: ClassVar[tuple[int, ...]]
    axis: AxisRef

    def change(self, stage: Stage) -> None:
        axis = stage.leaf(self.axis, self.kind)
        if axis.iter_type not in self.allowed:
            kind = ITER_TYPE_NAMES[axis.iter_type]
            stage.refuse(self.kind, f"axis {axis.var.name} is a {kind} axis: its iterations depend on each other")
        attrs = stage.peek(axis)
        if attrs is not None and attrs.bind_thread is not None:
            stage.refuse(self.kind, f"axis {axis.var.name} is bound to {attrs.bind_thread.thread_tag} already")
        stage.attributes(axis).iter_type = self.makes


@primitive("vectorize")
class VectorizeStep(_Annotation):
    makes = IterVar.Vectorized
    allowed = (IterVar.DataPar,)
    stage: int
    axis: AxisRef


@primitive("unroll")
class UnrollStep(_Annotation):
    makes = IterVar.Unrolled
    allowed = (IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered)
    stage: int
    axis: AxisRef


@primitive("parallel")
class ParallelStep(_Annotation):
    makes = IterVar.Parallelized
    allowed = (IterVar.DataPar,)
    stage: int
    axis: AxisRef


@primitive("bind")
class BindStep(StageStep):
    """Hardware threads carry the loop."""

    stage: int
    axis: AxisRef
    thread: IterVar

    def change(self, stage: Stage) -> None:
        axis, thread = stage.leaf(self.axis, "bind"), self.thread
        if getattr(thread, "iter_type", None) != IterVar.ThreadIndex:
            stage.refuse("bind", 'a thread axis is wanted, made with te.thread_axis("threadIdx.x")')
        if axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            stage.refuse("bind", f"axis {axis.var.name} is a {ITER_TYPE_NAMES[axis.iter_type]} axis")
        for other in stage.leaf_iter_vars:
            attrs = stage.peek(other)
            if other is axis or attrs is None or attrs.bind_thread is None:
                continue
            if attrs.bind_thread is thread or attrs.bind_thread.thread_tag == thread.thread_tag != "vthread":
                stage.refuse("bind", f"{thread.thread_tag} carries axis {other.var.name} already")
        attrs = stage.peek(axis)
        if attrs is not None and attrs.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            stage.refuse("bind", f"axis {axis.var.name} is {ITER_TYPE_NAMES[attrs.iter_type]} already")
        stage.attributes(axis).bind_thread = thread


@primitive("pragma")
class PragmaStep(StageStep):
    """Something noted for later passes at a loop."""

    stage: int
    axis: AxisRef
    key: str
    value: Any = None

    def change(self, stage: Stage) -> None:
        axis = stage.leaf(self.axis, "pragma")
        value = None if self.value is None else convert(self.value)
        stage.attributes(axis).pragmas.append((self.key, value))


@primitive("prefetch")
class PrefetchStep(StageStep):
    """A tensor is asked for ``offset`` iterations of a loop before its use."""

    stage: int
    tensor: TensorRef
    axis: AxisRef
    offset: Any

    def change(self, stage: Stage) -> None:
        axis, offset = stage.leaf(self.axis, "prefetch"), convert(self.offset)
        stage.attributes(axis).prefetch.append((stage.schedule.tensor(self.tensor), offset))


@primitive("tensorize")
class TensorizeStep(StageStep):
    """An intrinsic does a loop and all loops inside it."""

    stage: int
    axis: AxisRef
    intrin: Any

    def change(self, stage: Stage) -> None:
        axis = stage.leaf(self.axis, "tensorize")
        if not hasattr(self.intrin, "op") or not hasattr(self.intrin, "body"):
            stage.refuse("tensorize", "a tensor intrinsic is wanted, made with te.decl_tensor_intrin")
        if not isinstance(stage.op, ComputeOp):
            stage.refuse("tensorize", f"only a compute can be tensorized; this is {type(stage.op).__name__}")
        attrs = stage.attributes(axis)
        attrs.iter_type, attrs.tensor_intrin = IterVar.Tensorized, self.intrin


def _own_axis(stage: Stage, axes: tuple[IterVar, ...], axis: AxisRef, factor: Any, kind: str) -> IterVar:
    """An axis of the operation itself, or of its layout, that ``factor`` is to hold for."""
    own = stage.axis(axis, kind)
    if own not in axes:
        of = "the operation itself" if axes == tuple(stage.op.axis) else "its layout"
        stage.refuse(kind, f"axis {own.var.name} is not an axis of {of}")
    if int(factor) < 1:
        stage.refuse(kind, f"the factor must be at least 1, got {factor}")
    return own


@primitive("storage_align")
class StorageAlignStep(StageStep):
    """The stride of an axis is factor * k + offset."""

    stage: int
    axis: AxisRef
    factor: Any
    offset: Any

    def change(self, stage: Stage) -> None:
        axes, offset = layout_axes(stage), int(self.offset)
        axis = _own_axis(stage, axes, self.axis, self.factor, "storage_align")
        attrs = stage.attributes(axis)
        attrs.dim_align_factor, attrs.dim_align_offset = int(self.factor), offset


@primitive("align_bounds")
class AlignBoundsStep(StageStep):
    """What is computed along an axis goes from a multiple of ``factor`` to a multiple of it."""

    stage: int
    axis: AxisRef
    factor: Any

    def change(self, stage: Stage) -> None:
        axis = _own_axis(stage, stage.op.axis, self.axis, self.factor, "align_bounds")
        stage.attributes(axis).region_factor = int(self.factor)


@primitive("skip_padding")
class SkipPaddingStep(StageStep):
    """Iterations of a reduction loop that read nothing but padding are left out."""

    stage: int
    axis: AxisRef

    def change(self, stage: Stage) -> None:
        axis = stage.leaf(self.axis, "skip_padding")
        if axis.iter_type != IterVar.CommReduce:
            stage.refuse("skip_padding", f"axis {axis.var.name} is no loop of the reduction")
        stage.attributes(axis).skips_padding = True


@primitive("double_buffer")
class DoubleBufferStep(StageStep):
    """``stages`` pieces of memory take turns."""

    stage: int
    stages: Any = 2

    def change(self, stage: Stage) -> None:
        stage.require_compute("double_buffer")
        if int(self.stages) < 2:
            stage.refuse("double_buffer", f"at least two pieces of memory take turns, got {self.stages}")
        if stage.is_output:
            stage.refuse("double_buffer", "it is an output: its memory belongs to the caller")
        if stage.rolls:
            stage.refuse("double_buffer", "it is a rolling buffer, whose iterations share their memory")
        stage.double_buffered = int(self.stages)


@primitive("rolling_buffer")
class RollingBufferStep(StageStep):
    """What the next iteration reads again is kept."""

    stage: int

    def change(self, stage: Stage) -> None:
        stage.require_compute("rolling_buffer")
        if stage.is_output:
            stage.refuse("rolling_buffer", "it is an output: its memory belongs to the caller")
        if stage.double_buffered:
            stage.refuse("rolling_buffer", "it has a double buffer, whose pieces take turns")
        stage.rolls = True


@primitive("set_scope")
class SetScopeStep(StageStep):
    """Where the result lives: global, shared, local, warp, ..."""

    stage: int
    scope: str

    def change(self, stage: Stage) -> None:
        if not isinstance(self.scope, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            stage.refuse("set_scope", f"a scope name is wanted, got {self.scope!r}")
        stage.scope = self.scope


@primitive("set_store_predicate")
class SetStorePredicateStep(StageStep):
    """The result is stored only where ``predicate`` holds."""

    stage: int
    predicate: Any

    def change(self, stage: Stage) -> None:
        stage.require_compute("set_store_predicate")
        stage.store_predicate = convert(self.predicate)


@primitive("env_threads", variadic=True)
class EnvThreadsStep(StageStep):
    """Threads are launched around the whole of a scan."""

    stage: int
    threads: tuple[IterVar, ...]

    def change(self, stage: Stage) -> None:
        stage.require_compute("env_threads")
        threads = list(self.threads)
        for thread in threads:
            if getattr(thread, "iter_type", None) != IterVar.ThreadIndex:
                stage.refuse("env_threads", "thread axes are wanted, made with te.thread_axis")
        if not isinstance(stage.op, ScanOp):
            stage.refuse("env_threads", "only a scan can have threads of its environment")
        if stage.env_thread_axes:
            stage.refuse("env_threads", "they are set already")
        stage.env_thread_axes = threads
        stage.leaf_iter_vars = threads + stage.leaf_iter_vars
        stage.all_iter_vars = threads + stage.all_iter_vars
