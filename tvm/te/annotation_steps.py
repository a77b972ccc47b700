"""Steps that annotate a loop (vectorize, bind, pragma, tensorize, ...) or the memory of a stage."""

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
    """A step that sets the iteration type of a loop to ``makes``; ``allowed`` lists the axis types it accepts."""

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
            stage.refuse(self.kind, f"axis {axis.var.name} is already bound to {attrs.bind_thread.thread_tag}")
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
    """Bind a loop to a hardware thread axis."""

    stage: int
    axis: AxisRef
    thread: IterVar

    def change(self, stage: Stage) -> None:
        axis, thread = stage.leaf(self.axis, "bind"), self.thread
        if getattr(thread, "iter_type", None) != IterVar.ThreadIndex:
            stage.refuse("bind", 'expected a thread axis, such as te.thread_axis("threadIdx.x")')
        if axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            stage.refuse("bind", f"axis {axis.var.name} is a {ITER_TYPE_NAMES[axis.iter_type]} axis")
        for other in stage.leaf_iter_vars:
            attrs = stage.peek(other)
            if other is axis or attrs is None or attrs.bind_thread is None:
                continue
            if attrs.bind_thread is thread or attrs.bind_thread.thread_tag == thread.thread_tag != "vthread":
                stage.refuse("bind", f"axis {other.var.name} is already bound to {thread.thread_tag}")
        attrs = stage.peek(axis)
        if attrs is not None and attrs.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            stage.refuse("bind", f"axis {axis.var.name} is already {ITER_TYPE_NAMES[attrs.iter_type]}")
        stage.attributes(axis).bind_thread = thread


@primitive("pragma")
class PragmaStep(StageStep):
    """Attach a pragma for later passes to a loop."""

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
    """Prefetch a tensor ``offset`` iterations of a loop before its use."""

    stage: int
    tensor: TensorRef
    axis: AxisRef
    offset: Any

    def change(self, stage: Stage) -> None:
        axis, offset = stage.leaf(self.axis, "prefetch"), convert(self.offset)
        stage.attributes(axis).prefetch.append((stage.schedule.tensor(self.tensor), offset))


@primitive("tensorize")
class TensorizeStep(StageStep):
    """Replace a loop and all loops inside it by a tensor intrinsic."""

    stage: int
    axis: AxisRef
    intrin: Any

    def change(self, stage: Stage) -> None:
        axis = stage.leaf(self.axis, "tensorize")
        if not hasattr(self.intrin, "op") or not hasattr(self.intrin, "body"):
            stage.refuse("tensorize", "expected a tensor intrinsic made with te.decl_tensor_intrin")
        if not isinstance(stage.op, ComputeOp):
            stage.refuse("tensorize", f"only a compute operation can be tensorized; this is {type(stage.op).__name__}")
        attrs = stage.attributes(axis)
        attrs.iter_type, attrs.tensor_intrin = IterVar.Tensorized, self.intrin


def _scheduled_axis(stage: Stage, axes: tuple[IterVar, ...], axis: AxisRef, factor: Any, kind: str) -> IterVar:
    """Return the axis to which ``factor`` applies: a root axis of the operation or an axis of its layout."""
    own = stage.axis(axis, kind)
    if own not in axes:
        of = "the operation itself" if axes == tuple(stage.op.axis) else "its layout"
        stage.refuse(kind, f"axis {own.var.name} is not an axis of {of}")
    if int(factor) < 1:
        stage.refuse(kind, f"the factor must be at least 1, got {factor}")
    return own


@primitive("storage_align")
class StorageAlignStep(StageStep):
    """Make the stride of an axis equal to factor * k + offset."""

    stage: int
    axis: AxisRef
    factor: Any
    offset: Any

    def change(self, stage: Stage) -> None:
        axes, offset = layout_axes(stage), int(self.offset)
        axis = _scheduled_axis(stage, axes, self.axis, self.factor, "storage_align")
        attrs = stage.attributes(axis)
        attrs.dim_align_factor, attrs.dim_align_offset = int(self.factor), offset


@primitive("align_bounds")
class AlignBoundsStep(StageStep):
    """Extend the computed range of an axis so that it starts and ends at a multiple of ``factor``."""

    stage: int
    axis: AxisRef
    factor: Any

    def change(self, stage: Stage) -> None:
        axis = _scheduled_axis(stage, stage.op.axis, self.axis, self.factor, "align_bounds")
        stage.attributes(axis).region_factor = int(self.factor)


@primitive("skip_padding")
class SkipPaddingStep(StageStep):
    """Skip the iterations of a reduction loop that read only padding."""

    stage: int
    axis: AxisRef

    def change(self, stage: Stage) -> None:
        axis = stage.leaf(self.axis, "skip_padding")
        if axis.iter_type != IterVar.CommReduce:
            stage.refuse("skip_padding", f"axis {axis.var.name} is not a loop of the reduction")
        stage.attributes(axis).skips_padding = True


@primitive("double_buffer")
class DoubleBufferStep(StageStep):
    """Allocate ``stages`` buffers for a stage and rotate between them (double buffering)."""

    stage: int
    stages: Any = 2

    def change(self, stage: Stage) -> None:
        stage.require_compute("double_buffer")
        if int(self.stages) < 2:
            stage.refuse("double_buffer", f"double buffering needs at least two buffers, got {self.stages}")
        if stage.is_output:
            stage.refuse("double_buffer", "it is an output: its memory belongs to the caller")
        if stage.rolls:
            stage.refuse("double_buffer", "it has a rolling buffer, whose iterations share one memory")
        stage.double_buffered = int(self.stages)


@primitive("rolling_buffer")
class RollingBufferStep(StageStep):
    """Keep the elements that the next iteration reads again, so that they are not recomputed."""

    stage: int

    def change(self, stage: Stage) -> None:
        stage.require_compute("rolling_buffer")
        if stage.is_output:
            stage.refuse("rolling_buffer", "it is an output: its memory belongs to the caller")
        if stage.double_buffered:
            stage.refuse("rolling_buffer", "it has a double buffer, whose memory alternates between iterations")
        stage.rolls = True


@primitive("set_scope")
class SetScopeStep(StageStep):
    """Set the storage scope of the output: global, shared, local, warp, ..."""

    stage: int
    scope: str

    def change(self, stage: Stage) -> None:
        if not isinstance(self.scope, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            stage.refuse("set_scope", f"expected the name of a storage scope, got {self.scope!r}")
        stage.scope = self.scope


@primitive("set_store_predicate")
class SetStorePredicateStep(StageStep):
    """Store the output only where ``predicate`` holds."""

    stage: int
    predicate: Any

    def change(self, stage: Stage) -> None:
        stage.require_compute("set_store_predicate")
        stage.store_predicate = convert(self.predicate)


@primitive("env_threads", variadic=True)
class EnvThreadsStep(StageStep):
    """Launch threads around a whole scan."""

    stage: int
    threads: tuple[IterVar, ...]

    def change(self, stage: Stage) -> None:
        stage.require_compute("env_threads")
        threads = list(self.threads)
        for thread in threads:
            if getattr(thread, "iter_type", None) != IterVar.ThreadIndex:
                stage.refuse("env_threads", "expected thread axes made with te.thread_axis")
        if not isinstance(stage.op, ScanOp):
            stage.refuse("env_threads", "only a scan can have environment threads")
        if stage.env_thread_axes:
            stage.refuse("env_threads", "the environment threads are already set")
        stage.env_thread_axes = threads
        stage.leaf_iter_vars = threads + stage.leaf_iter_vars
        stage.all_iter_vars = threads + stage.all_iter_vars
