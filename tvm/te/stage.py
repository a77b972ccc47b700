"""A stage of a schedule: the primitives that transform the loops of one operation.

Each primitive creates a step from its arguments (``steps.py``) and applies it. The error for an invalid step names
stage, axis and reason; the schedule stays unchanged.
"""

from __future__ import annotations

from typing import Any

from ..ir.prim import IterVar
from ..tir.index_map import IndexMap
from . import annotation_steps as annotation
from .attach_steps import ComputeAtStep, ComputeInlineStep, ComputeRootStep
from .layout_steps import TransformLayoutStep
from .loop_steps import FuseStep, OverlapStep, ReorderStep, SplitStep
from .stage_state import StageState
from .steps import AxisRef, StageRef, apply
from .tensor import Tensor


class Stage(StageState):
    """The schedule of one operation. Caching and inlining replace ``op``; ``origin_op`` is the operation that the user
    created.

    Parameters
    ----------
    schedule : Schedule
        The schedule of the stage.
    op : Operation
        The operation.
    uid : int
        The number of the stage in the schedule, which steps use to refer to it.
    """

    # -- loops ---------------------------------------------------------------------------------------------------

    def split(self, parent: Any, factor: Any = None, nparts: Any = None):
        """for i in n  ->  for i.outer in ceil(n / factor): for i.inner in factor

        Parameters
        ----------
        parent : IterVar
            The loop.
        factor : int or PrimExpr, optional
            The extent of the inner loop.
        nparts : int or PrimExpr, optional
            The extent of the outer loop; pass either this or ``factor``.

        Returns
        -------
        tuple of IterVar
            The outer and the inner loop.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage, or the loop cannot be split.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> jo, ji = s[B].split(j, factor=16)
        >>> [axis.var.name for axis in s[B].leaf_iter_vars]
        ['i', 'j.outer', 'j.inner']
        """
        return apply(self.schedule, SplitStep(self.uid, self._ref(parent, "split"), factor, nparts))

    def overlap(self, var: Any) -> None:
        """Let the last inner loop of a split end with the split axis, which has at least as many iterations as the
        inner loop. If the extents do not divide evenly, the last inner loop starts earlier and computes some elements
        twice, so no guard per element is needed.

        Parameters
        ----------
        var : IterVar
            The outer loop of a split of an output dimension, or of several fused dimensions.

        Raises
        ------
        ScheduleError
            The axis is not such a loop of this stage.
        """
        apply(self.schedule, OverlapStep(self.uid, self._ref(var, "overlap")))

    def fuse(self, *args: Any):
        """for i: for j  ->  for i.j.fused in extent(i) * extent(j)

        Parameters
        ----------
        *args : IterVar
            Adjacent loops, outermost first, passed separately or as one list.

        Returns
        -------
        IterVar
            The fused loop.

        Raises
        ------
        ScheduleError
            An axis is not a loop of this stage, or the loops cannot be fused.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].fuse(i, j).var.name
        'i.j.fused'
        """
        axes = self._refs(args, "fuse")
        return self.leaf(axes[0], "fuse") if len(axes) == 1 else apply(self.schedule, FuseStep(self.uid, axes))

    def reorder(self, *args: Any) -> None:
        """Put the given loops into the given order, in the positions they occupy now.

        Parameters
        ----------
        *args : IterVar
            Loops of this stage, passed separately or as one list.

        Raises
        ------
        ScheduleError
            An axis is not a loop of this stage, or its loop cannot be moved.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].reorder(j, i)
        >>> [axis.var.name for axis in s[B].leaf_iter_vars]
        ['j', 'i']
        """
        apply(self.schedule, ReorderStep(self.uid, self._refs(args, "reorder")))

    def tile(self, x_parent: Any, y_parent: Any, x_factor: Any, y_factor: Any):
        """Split both axes and order the loops outer, outer, inner, inner.

        Parameters
        ----------
        x_parent : IterVar
            The first loop.
        y_parent : IterVar
            The second loop.
        x_factor : int or PrimExpr
            The extent of the first inner loop.
        y_factor : int or PrimExpr
            The extent of the second inner loop.

        Returns
        -------
        tuple of IterVar
            The four loops in their order.

        Raises
        ------
        ScheduleError
            An axis is not a loop of this stage, or the loop cannot be split.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> io, jo, ii, ji = s[B].tile(i, j, 8, 16)
        >>> [axis.var.name for axis in s[B].leaf_iter_vars]
        ['i.outer', 'j.outer', 'i.inner', 'j.inner']
        """
        x, y, made = self._ref(x_parent, "tile"), self._ref(y_parent, "tile"), len(self.all_iter_vars)
        self.leaf(x, "tile")
        self.leaf(y, "tile")
        if x == y:
            self.refuse("tile", "the two axes must differ")
        before = list(self.leaf_iter_vars), len(self.relations), len(self.schedule.steps)
        try:
            x_outer, x_inner = self.split(x_parent, factor=x_factor)
            y_outer, y_inner = self.split(y_parent, factor=y_factor)
            self.reorder(x_outer, y_outer, x_inner, y_inner)
        except Exception:
            self.leaf_iter_vars[:], relations, steps = before
            del self.all_iter_vars[made:], self.relations[relations:], self.schedule.steps[steps:]
            raise
        return x_outer, y_outer, x_inner, y_inner

    # -- annotations ---------------------------------------------------------------------------------------------

    def vectorize(self, var: Any) -> None:
        """Run the iterations of the loop as the lanes of a vector. The extent must be constant at lowering.

        Parameters
        ----------
        var : IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage, or the loop cannot be vectorized.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].vectorize(s[B].split(j, factor=4)[1])
        >>> "A_1[i * 64 + j_outer * 4:i * 64 + j_outer * 4 + 4]" in str(tvm.lower(s, [A, B]))
        True
        """
        apply(self.schedule, annotation.VectorizeStep(self.uid, self._ref(var, "vectorize")))

    def unroll(self, var: Any) -> None:
        """Unroll the loop. The extent must be constant at lowering.

        Parameters
        ----------
        var : IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage, or the loop cannot be unrolled.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].unroll(s[B].split(j, factor=4)[1])
        >>> "T.unroll(4)" in str(tvm.lower(s, [A, B]))
        True
        """
        apply(self.schedule, annotation.UnrollStep(self.uid, self._ref(var, "unroll")))

    def parallel(self, var: Any) -> None:
        """Distribute the iterations of the loop over threads.

        Parameters
        ----------
        var : IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage, or the loop cannot be parallelized.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].parallel(i)
        >>> "T.parallel(64)" in str(tvm.lower(s, [A, B]))
        True
        """
        apply(self.schedule, annotation.ParallelStep(self.uid, self._ref(var, "parallel")))

    def bind(self, ivar: Any, thread_ivar: Any) -> None:
        """Bind the loop to a hardware thread axis.

        Parameters
        ----------
        ivar : IterVar
            The loop.
        thread_ivar : IterVar
            The thread axis, made with ``te.thread_axis``.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage, or the loop cannot be bound.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].bind(i, te.thread_axis("blockIdx.x"))
        >>> s[B].bind(j, te.thread_axis("threadIdx.x"))
        >>> "blockIdx.x" in str(tvm.lower(s, [A, B]))
        True
        """
        apply(self.schedule, annotation.BindStep(self.uid, self._ref(ivar, "bind"), thread_ivar))

    def pragma(self, var: Any, pragma_type: Any, pragma_value: Any = None) -> None:
        """Attach a pragma for later passes to this loop, such as ``auto_unroll_max_step``.

        Parameters
        ----------
        var : IterVar
            The loop.
        pragma_type : str
            The name of the pragma.
        pragma_value : PrimExpr, optional
            The value of the pragma.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage.
        """
        key = str(getattr(pragma_type, "value", pragma_type))
        if key in ("unroll", "vectorize", "parallel"):
            getattr(self, key)(var)
        else:
            apply(self.schedule, annotation.PragmaStep(self.uid, self._ref(var, "pragma"), key, pragma_value))

    def prefetch(self, tensor: Any, var: Any, offset: Any) -> None:
        """Prefetch ``tensor`` ``offset`` iterations of the loop before its use.

        Parameters
        ----------
        tensor : Tensor
            The tensor to prefetch.
        var : IterVar
            The loop.
        offset : PrimExpr
            The number of iterations between the prefetch and the use.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage.
        """
        axis = self._ref(var, "prefetch")
        if not isinstance(tensor, Tensor):
            self.refuse("prefetch", f"expected a tensor, got {type(tensor).__name__}")
        apply(self.schedule, annotation.PrefetchStep(self.uid, self.schedule.tensor_ref(tensor), axis, offset))

    def tensorize(self, var: Any, tensor_intrin: Any) -> None:
        """Replace this loop and all loops inside it by a tensor intrinsic.

        Parameters
        ----------
        var : IterVar
            The outermost of the loops.
        tensor_intrin : TensorIntrin
            The intrinsic, made with ``te.decl_tensor_intrin``.

        Raises
        ------
        ScheduleError
            The axis is not a loop of this stage, or the operation is not a compute operation.
        """
        apply(self.schedule, annotation.TensorizeStep(self.uid, self._ref(var, "tensorize"), tensor_intrin))

    def storage_align(self, axis: Any, factor: Any, offset: Any) -> None:
        """Make the stride of ``axis`` equal to factor * k + offset.

        Parameters
        ----------
        axis : IterVar
            A dimension of the output.
        factor : int
            The factor.
        offset : int
            The offset added to the multiple of ``factor``.

        Raises
        ------
        ScheduleError
            The axis is not a dimension of the output.
        """
        ref = self._ref(axis, "storage_align")
        apply(self.schedule, annotation.StorageAlignStep(self.uid, ref, factor, offset))

    def align_bounds(self, axis: Any, factor: Any) -> None:
        """Extend the computed range of ``axis`` so that it starts and ends at a multiple of ``factor``, even if less of
        it is read.

        Parameters
        ----------
        axis : IterVar
            A dimension of the output.
        factor : int
            The factor.

        Raises
        ------
        ScheduleError
            The axis is not a dimension of the output.
        """
        apply(self.schedule, annotation.AlignBoundsStep(self.uid, self._ref(axis, "align_bounds"), factor))

    def skip_padding(self, var: Any) -> None:
        """Skip the steps of a reduction loop that read only padding of a padded tensor, if the padding contributes
        nothing to the reduction. A padded tensor that is stored as a whole is then padded only as far as the other
        steps read.

        Parameters
        ----------
        var : IterVar
            The reduction loop.

        Raises
        ------
        ScheduleError
            The axis is not a loop of the reduction.
        """
        apply(self.schedule, annotation.SkipPaddingStep(self.uid, self._ref(var, "skip_padding")))

    def double_buffer(self, stages: int = 2) -> None:
        """Fill the memory of this stage for later iterations while the current iteration reads it. The stage rotates
        between ``stages`` buffers.

        Parameters
        ----------
        stages : int
            The number of buffers.

        Raises
        ------
        ScheduleError
            The stage is an output, whose memory belongs to the caller, or ``stages`` is less than 2.
        """
        apply(self.schedule, annotation.DoubleBufferStep(self.uid, stages))

    def rolling_buffer(self) -> None:
        """Keep the elements that the next iteration of the loops around this stage reads again. The memory has the size
        of one iteration, and no element is computed twice along the loops that move the window.

        Raises
        ------
        ScheduleError
            The stage is an input or an output, or it has a double buffer.

        Examples
        --------
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
        >>> C = te.compute((62,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
        >>> s = te.create_schedule(C.op)
        >>> s[B].compute_at(s[C], C.op.axis[0])
        >>> s[B].rolling_buffer()
        >>> "B_1[i % 3] + B_1[(i + 1) % 3]" in str(tvm.lower(s, [A, C]))
        True
        """
        apply(self.schedule, annotation.RollingBufferStep(self.uid))

    def transform_layout(self, mapping_function: Any):
        """Store the output in another layout: element ``i, j, ...`` is stored at the indices ``mapping_function(i, j,
        ...)``.

        A compute operation runs its loops in the order of the layout. Callers pass inputs and outputs of the function
        in the shape of the layout. ``te.AXIS_SEPARATOR`` between two indices splits the layout into physical axes; the
        memory has one dimension for each and is not flattened further.

        Parameters
        ----------
        mapping_function : Callable
            A function from the indices of the output (or of the previous layout, if there is one) to the indices in the
            layout.

        Returns
        -------
        tuple of IterVar, optional
            The loops over the axes of the layout for a compute operation; None for other operations.

        Raises
        ------
        ScheduleError
            Two elements would be stored at one position. For a compute operation also: the layout has padding, or the
            loops have already been split, fused, reordered or annotated.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> s[B].transform_layout(lambda i, j: [i // 8, j, i % 8])[2].dom.extent
        8
        >>> list(tvm.lower(s, [A, B])["main"].buffer_map.values())[1].shape
        (8, 64, 8)
        """
        transforms, outputs = self.layout_transforms, self.op.outputs
        ndim = len(transforms[-1].final_indices if transforms else outputs[0].shape)
        wide = any(extent.dtype == "int64" for tensor in outputs for extent in tensor.shape)
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, index_dtype="int64" if wide else "int32"
        )
        return apply(self.schedule, TransformLayoutStep(self.uid, index_map, tuple(separators))) or None

    def set_scope(self, scope: str) -> None:
        """Set the storage scope of the output: global, shared, local, warp, ...

        The memory of a function's arguments belongs to the caller and is in scope global: lowering rejects any other
        scope for it.

        Parameters
        ----------
        scope : str
            The storage scope.

        Raises
        ------
        ScheduleError
            The scope is not a string.
        """
        apply(self.schedule, annotation.SetScopeStep(self.uid, scope))

    def set_store_predicate(self, predicate: Any) -> None:
        """Store the output only where ``predicate`` holds, for values that all threads compute and one thread writes.

        Parameters
        ----------
        predicate : PrimExpr
            The condition.
        """
        apply(self.schedule, annotation.SetStorePredicateStep(self.uid, predicate))

    def env_threads(self, threads: Any) -> None:
        """Launch these threads around the whole operation (for scans).

        Parameters
        ----------
        threads : IterVar or list of IterVar
            The threads.

        Raises
        ------
        ScheduleError
            The operation is not a scan, or its threads are already set.
        """
        given = (threads,) if isinstance(threads, IterVar) else tuple(threads)
        apply(self.schedule, annotation.EnvThreadsStep(self.uid, given))

    # -- attach points ---------------------------------------------------------------------------------------------

    def moved_with(self) -> list[Stage]:
        """The stages that are moved together with this one.

        Returns
        -------
        list of Stage
            The stages, this one included.
        """
        return [self]

    def compute_at(self, parent: Any, scope: str) -> None:
        """Compute the part of this stage that ``parent`` needs inside the loop ``scope`` of ``parent``.

        Parameters
        ----------
        parent : Stage
            The stage that uses this one.
        scope : IterVar
            A loop of it.

        Raises
        ------
        ScheduleError
            ``parent`` is not a stage of this schedule, or ``scope`` is not a loop of it.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> C = te.compute((64, 64), lambda i, j: B[i, j] + 1.0, name="C")
        >>> s = te.create_schedule(C.op)
        >>> s[B].compute_at(s[C], C.op.axis[0])
        >>> "T.allocate([64]" in str(tvm.lower(s, [A, C]))
        True
        """
        self.require_compute("compute_at")
        if not isinstance(parent, Stage):
            self.refuse("compute_at", f"expected a stage, got {type(parent).__name__}; pass s[C] instead of C")
        if parent.schedule is not self.schedule:
            self.refuse("compute_at", f"stage {parent.name} belongs to another schedule")
        if not isinstance(scope, IterVar) or scope not in parent.all_iter_vars:
            name = scope.var.name if isinstance(scope, IterVar) else repr(scope)
            loops = parent.loop_names()
            self.refuse("compute_at", f"{name} is not a loop of stage {parent.name}; its loops are {loops}")
        axis = AxisRef(parent.uid, parent.all_iter_vars.index(scope))
        apply(self.schedule, ComputeAtStep(self.uid, StageRef(parent.uid), axis))

    def compute_inline(self) -> None:
        """Compute every element where it is used.

        Examples
        --------
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> C = te.compute((64, 64), lambda i, j: B[i, j] + 1.0, name="C")
        >>> s = te.create_schedule(C.op)
        >>> s[B].compute_inline()
        >>> "A_1[i * 64 + j] * T.float32(2) + T.float32(1)" in str(tvm.lower(s, [A, C]))
        True
        """
        apply(self.schedule, ComputeInlineStep(self.uid))

    def compute_root(self) -> None:
        """Compute the whole stage before its users.

        Raises
        ------
        ScheduleError
            The stage is the update of a scan; the scan computes it.
        """
        apply(self.schedule, ComputeRootStep(self.uid))
