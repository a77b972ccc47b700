"""A stage of a schedule: the primitives that shape the loops of one operation.

A primitive makes the record of its arguments (``steps.py``) and applies it: what is refused names stage, axis and
reason, and leaves the schedule as it was.
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
    """The schedule of one operation. ``op`` may change (caches, inlining); ``origin_op`` is the one the user made.

    Parameters
    ----------
    schedule : Schedule
        The schedule it belongs to.
    op : Operation
        The operation.
    uid : int
        Its number in the schedule, by which steps name it.
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
            The extent of the outer loop; either this or ``factor`` is given.

        Returns
        -------
        tuple of IterVar
            The outer and the inner loop.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
        """Let the last inner loop of a split end with the axis that is divided, which has at least as many iterations:
        where they are no multiple, it begins earlier and computes some elements again, instead of asking for each
        whether it is there.

        Parameters
        ----------
        var : IterVar
            The outer loop of a split of a dimension of the result, or of several that were fused.

        Raises
        ------
        ScheduleError
            The axis is no such loop of this stage.
        """
        apply(self.schedule, OverlapStep(self.uid, self._ref(var, "overlap")))

    def fuse(self, *args: Any):
        """for i: for j  ->  for i.j.fused in extent(i) * extent(j)

        Parameters
        ----------
        *args : IterVar
            Loops that follow each other, from the outer to the inner, one by one or as one list.

        Returns
        -------
        IterVar
            The one loop in their place.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
        """The given loops, in the given order, in the places they now have.

        Parameters
        ----------
        *args : IterVar
            Loops of this stage, one by one or as one list.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
        """Run the iterations of the loop as lanes of vectors; its extent must be a constant when lowered.

        Parameters
        ----------
        var : IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
        """Write the iterations of the loop one after the other; its extent must be a constant when lowered.

        Parameters
        ----------
        var : IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
        """Spread the iterations of the loop over threads.

        Parameters
        ----------
        var : IterVar
            The loop.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
        """Let hardware threads carry the loop.

        Parameters
        ----------
        ivar : IterVar
            The loop.
        thread_ivar : IterVar
            Which threads, as ``te.thread_axis`` makes them.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or the loop cannot be changed like this.

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
        """Note something for later passes at this loop, such as ``auto_unroll_max_step``.

        Parameters
        ----------
        var : IterVar
            The loop.
        pragma_type : str
            What is noted.
        pragma_value : PrimExpr, optional
            Its value.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage.
        """
        key = str(getattr(pragma_type, "value", pragma_type))
        if key in ("unroll", "vectorize", "parallel"):
            getattr(self, key)(var)
        else:
            apply(self.schedule, annotation.PragmaStep(self.uid, self._ref(var, "pragma"), key, pragma_value))

    def prefetch(self, tensor: Any, var: Any, offset: Any) -> None:
        """Ask for ``tensor`` ahead of its use, ``offset`` iterations of the loop before.

        Parameters
        ----------
        tensor : Tensor
            What is read.
        var : IterVar
            The loop.
        offset : PrimExpr
            How many iterations before.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage.
        """
        axis = self._ref(var, "prefetch")
        if not isinstance(tensor, Tensor):
            self.refuse("prefetch", f"a tensor is wanted, got {type(tensor).__name__}")
        apply(self.schedule, annotation.PrefetchStep(self.uid, self.schedule.tensor_ref(tensor), axis, offset))

    def tensorize(self, var: Any, tensor_intrin: Any) -> None:
        """Let an intrinsic do this loop and all loops inside it.

        Parameters
        ----------
        var : IterVar
            The outermost of the loops.
        tensor_intrin : TensorIntrin
            The intrinsic, as ``te.decl_tensor_intrin`` makes it.

        Raises
        ------
        ScheduleError
            The axis is no loop of this stage, or its operation is no compute.
        """
        apply(self.schedule, annotation.TensorizeStep(self.uid, self._ref(var, "tensorize"), tensor_intrin))

    def storage_align(self, axis: Any, factor: Any, offset: Any) -> None:
        """Make the stride of ``axis`` equal to factor * k + offset.

        Parameters
        ----------
        axis : IterVar
            A dimension of the result.
        factor : int
            The factor.
        offset : int
            What is added to its multiple.

        Raises
        ------
        ScheduleError
            The axis is no dimension of the result.
        """
        ref = self._ref(axis, "storage_align")
        apply(self.schedule, annotation.StorageAlignStep(self.uid, ref, factor, offset))

    def align_bounds(self, axis: Any, factor: Any) -> None:
        """Compute along ``axis`` from a multiple of ``factor`` to a multiple of it, whatever less of it is read.

        Parameters
        ----------
        axis : IterVar
            A dimension of the result.
        factor : int
            The factor.

        Raises
        ------
        ScheduleError
            The axis is no dimension of the result.
        """
        apply(self.schedule, annotation.AlignBoundsStep(self.uid, self._ref(axis, "align_bounds"), factor))

    def skip_padding(self, var: Any) -> None:
        """Leave out the steps of a reduction loop in which all that is read of a padded tensor is its padding, where
        that adds nothing. A padded tensor that is stored as a whole then has no more padding than the other steps
        read.

        Parameters
        ----------
        var : IterVar
            The reduction loop.

        Raises
        ------
        ScheduleError
            The axis is no loop of the reduction.
        """
        apply(self.schedule, annotation.SkipPaddingStep(self.uid, self._ref(var, "skip_padding")))

    def double_buffer(self, stages: int = 2) -> None:
        """Fill this memory for later iterations while the present one uses it: ``stages`` pieces take turns.

        Parameters
        ----------
        stages : int
            How many pieces there are.

        Raises
        ------
        ScheduleError
            The stage is an output, whose memory is the caller's, or there are fewer than two pieces.
        """
        apply(self.schedule, annotation.DoubleBufferStep(self.uid, stages))

    def rolling_buffer(self) -> None:
        """Keep what the next iteration of the loops around this stage reads again, in memory of the size of one
        iteration: nothing is computed twice along the loops that move its window.

        Raises
        ------
        ScheduleError
            The stage is an input or an output, or has a double buffer.

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
        """Store the result in another layout: element ``i, j, ...`` at the indices ``mapping_function(i, j, ...)``.

        A compute runs its loops in the order of the layout; an input or an output of the function has the shape of the
        layout for its caller. ``te.AXIS_SEPARATOR`` between two indices cuts the axes into physical ones: memory of
        as many dimensions, which is not flattened further.

        Parameters
        ----------
        mapping_function : Callable
            The indices in the layout, from those of the result (or of the layout before, where there is one).

        Returns
        -------
        tuple of IterVar, optional
            The loops of a compute over the axes of the layout; None for other operations.

        Raises
        ------
        ScheduleError
            Two elements would be stored in one place; or the stage is a compute, and its layout has places for no
            element, or its loops were split, fused, reordered or annotated already.

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
        """Where the result lives: global, shared, local, warp, ...

        The memory of a function's arguments is the caller's, in scope global: lowering refuses another scope there.

        Parameters
        ----------
        scope : str
            The kind of memory.

        Raises
        ------
        ScheduleError
            The scope is not a name.
        """
        apply(self.schedule, annotation.SetScopeStep(self.uid, scope))

    def set_store_predicate(self, predicate: Any) -> None:
        """Store only where this holds: for results that all threads compute and one should write.

        Parameters
        ----------
        predicate : PrimExpr
            The condition.
        """
        apply(self.schedule, annotation.SetStorePredicateStep(self.uid, predicate))

    def env_threads(self, threads: Any) -> None:
        """Launch these threads around the whole operation (scans).

        Parameters
        ----------
        threads : IterVar or list of IterVar
            The threads.

        Raises
        ------
        ScheduleError
            The operation is no scan, or its threads are set already.
        """
        given = (threads,) if isinstance(threads, IterVar) else tuple(threads)
        apply(self.schedule, annotation.EnvThreadsStep(self.uid, given))

    # -- where the stage is computed -------------------------------------------------------------------------------

    def moved_with(self) -> list[Stage]:
        """The stages that move when this one does.

        Returns
        -------
        list of Stage
            The stages, this one included.
        """
        return [self]

    def compute_at(self, parent: Any, scope: str) -> None:
        """Compute what ``parent`` needs inside its loop ``scope``.

        Parameters
        ----------
        parent : Stage
            The stage that uses this one.
        scope : IterVar
            A loop of it.

        Raises
        ------
        ScheduleError
            ``parent`` is no stage of this schedule, or ``scope`` no loop of it.

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
            self.refuse("compute_at", f"a stage is wanted, got {type(parent).__name__}; write s[C] rather than C")
        if parent.schedule is not self.schedule:
            self.refuse("compute_at", f"stage {parent.name} is of another schedule")
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
        """Compute the whole of it, before its users.

        Raises
        ------
        ScheduleError
            The stage is the update of a scan, which its scan computes.
        """
        apply(self.schedule, ComputeRootStep(self.uid))
