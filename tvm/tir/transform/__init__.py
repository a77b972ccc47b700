"""Passes on TensorIR under the names of Apache TVM. ``tvm.tir.transform.Simplify()`` returns a pass; a pass maps a
module to a module.

Each pass has its own file, which is imported when the pass first runs. The function in the file works on a PrimFunc or
a module; this table defines the name, level and options of its pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ...docstring import describe_returns
from ...error import TVMError
from ...ir.transform import PASSES as _REGISTERED
from ...ir.transform import ModulePass, Pass, PassInfo
from ...not_built import name_of
from ..verify import memory_errors
from .function_pass import PrimFuncPass, prim_func_pass


def _load(file: str, function: str) -> Callable:
    return getattr(importlib.import_module("." + file, __name__), function)


def _on_functions(
    name: str, file: str, *args: Any, config: str | None = None, function: str | None = None, **options: Any
) -> Pass:
    """Return a pass that applies the function with the name of its file to every PrimFunc; its options come from the
    context."""

    def run(func, mod, ctx):
        given = {"config": ctx.get_config(config)} if config else {}
        return _load(file, function or file)(func, *args, **options, **given)

    return PrimFuncPass(run, PassInfo(0, "tir." + name))


def _on_module(name: str, file: str, *args: Any, **options: Any) -> Pass:
    return ModulePass(lambda mod, ctx: _load(file, file)(mod, *args, **options), PassInfo(0, "tir." + name))


def Apply(ftransform: Callable) -> Pass:
    """A pass that applies ``ftransform(func) -> func`` to every PrimFunc.

    Parameters
    ----------
    ftransform : callable
        The function that returns the replacement of a PrimFunc.

    Returns
    -------
    Pass
    """
    return PrimFuncPass(lambda func, mod, ctx: ftransform(func), PassInfo(0, "tir.Apply"))


def Filter(fcond: Callable) -> Pass:
    """A pass that keeps the PrimFuncs for which ``fcond(func)`` is true.

    Parameters
    ----------
    fcond : callable
        The function that returns whether to keep a PrimFunc.

    Returns
    -------
    Pass
    """
    return PrimFuncPass(lambda func, mod, ctx: func if fcond(func) else None, PassInfo(0, "tir.Filter"))


def ApplyLayoutTransforms() -> Pass:
    """Change buffers to the layouts in the attribute ``layout_transform_map`` of the function: their shapes and the
    indices of their accesses."""
    return _on_functions("ApplyLayoutTransforms", "apply_layout_transforms")


def InjectRollingBuffer() -> Pass:
    """Rewrite buffers with ``rolling_buffer_scope`` as circular buffers that keep elements which later loop iterations
    read again."""
    return _on_functions("InjectRollingBuffer", "inject_rolling_buffer")


def StorageFlatten(cache_line_size: int = 64, create_bound_attribute: bool = False) -> Pass:
    """A pass that flattens multi-dimensional buffers and replaces realizations by allocations.

    Parameters
    ----------
    cache_line_size : int, optional
        The size of a cache line in bytes; prefetches advance by this size.
    create_bound_attribute : bool, optional
        Whether to record the number of elements of every buffer in an attribute ``buffer_bound`` of its pointer.

    Returns
    -------
    Pass
    """
    return _on_functions("StorageFlatten", "storage_flatten", cache_line_size, create_bound_attribute)


def LowerCustomDatatypes() -> Pass:
    """Replace values of custom types (``tvm.target.datatype``) by unsigned integers, and operations on them by calls of
    the registered functions."""
    return _on_functions("LowerCustomDatatypes", "lower_custom_datatypes")


def JoinPhysicalAxes() -> Pass:
    """Flatten the physical memory of buffers that ``te.AXIS_SEPARATOR`` made multi-dimensional."""
    return _on_functions("JoinPhysicalAxes", "storage_flatten", function="join_physical_axes")


def FlattenBuffer() -> Pass:
    """Flatten multi-dimensional buffers, as ``StorageFlatten`` does, in functions with explicit allocations."""
    return _on_functions("FlattenBuffer", "storage_flatten")


def Simplify() -> Pass:
    """Simplify arithmetic and branches with the bounds and conditions of enclosing loops and branches."""
    return _on_functions("Simplify", "simplify")


def VectorizeLoop(enable_vectorize: bool = True) -> Pass:
    """A pass that replaces vectorized loops by vector operations.

    Parameters
    ----------
    enable_vectorize : bool, optional
        If false, vectorized loops become serial loops.

    Returns
    -------
    Pass
    """

    def run(func, mod, ctx):
        wanted = enable_vectorize and not ctx.get_config("tir.disable_vectorize")
        # The registered functions of a custom type take scalars, not vectors.
        wanted = wanted and not _load("lower_custom_datatypes", "uses_custom_types")(func)
        return _load("vectorize_loop", "vectorize_loop")(func, wanted)

    return PrimFuncPass(run, PassInfo(0, "tir.VectorizeLoop"))


def UnrollLoop() -> Pass:
    """Expand loops marked as unrolled, and short loops that a pragma or the configuration selects."""
    return _on_functions("UnrollLoop", "unroll_loop", config="tir.UnrollLoop")


def MarkUnrolledLoops() -> Pass:
    """Mark the loops that ``UnrollLoop`` would expand; the code generator expands them."""
    return _on_functions("UnrollLoop", "unroll_loop", config="tir.UnrollLoop", mark_only=True)


def RemoveNoOp() -> Pass:
    """Remove statements without effect."""
    return _on_functions("RemoveNoOp", "remove_no_op")


def NarrowDataType(target_bits: int = 32) -> Pass:
    """A pass that narrows index arithmetic to ``target_bits`` bits where all values provably fit.

    Parameters
    ----------
    target_bits : int, optional
        The number of bits, 32 or 64.

    Returns
    -------
    Pass
    """
    return _on_functions("NarrowDataType", "narrow_data_type", target_bits)


def LoopPartition() -> Pass:
    """Split loops so that ``likely`` conditions are always true in the main part, and remove these conditions from
    it."""
    return _on_functions("LoopPartition", "loop_partition", config="tir.LoopPartition")


def InjectVirtualThread() -> Pass:
    """Replace virtual threads by loops around the statements that depend on the thread."""
    return _on_functions("InjectVirtualThread", "inject_virtual_thread")


def InjectDoubleBuffer() -> Pass:
    """Double-buffer marked memory: fill one part for the next iteration while the current iteration reads the other."""
    return _on_functions("InjectDoubleBuffer", "inject_double_buffer", config="tir.InjectDoubleBuffer")


def OverlapEpilogue() -> Pass:
    """Overlap the epilogue of a marked loop with its matmuls: the rows of one matmul are written while the next one
    runs."""
    return _on_functions("OverlapEpilogue", "overlap_epilogue")


def StorageRewrite() -> Pass:
    """Let allocations with disjoint lifetimes share memory."""

    def run(func, mod, ctx):
        if ctx.get_config("tir.disable_storage_rewrite"):
            return func
        return _load("storage_rewrite", "storage_rewrite")(func)

    return PrimFuncPass(run, PassInfo(0, "tir.StorageRewrite"))


def InjectPrefetch() -> Pass:
    """Insert the prefetches that a schedule requests."""
    return _on_functions("InjectPrefetch", "inject_prefetch")


def LowerInitBlock() -> Pass:
    """Replace the initial values of reduction blocks by conditional statements."""
    return _on_functions("LowerInitBlock", "lower_init_block")


def PlanAndUpdateBufferAllocationLocation() -> Pass:
    """Move the allocation of a buffer into the innermost loop that contains all its uses."""
    name = "PlanAndUpdateBufferAllocationLocation"
    return _on_functions(name, "plan_and_update_buffer_allocation_location")


def ConvertBlocksToOpaque() -> Pass:
    """Replace the axes of blocks by their values."""
    return _on_functions("ConvertBlocksToOpaque", "convert_blocks_to_opaque")


def CompactBufferAllocation(is_strict: bool = True) -> Pass:
    """A pass that shrinks memory allocated inside loops to the region that is accessed there.

    Parameters
    ----------
    is_strict : bool, optional
        If true, memory never becomes larger than declared. If false, it gets the size of the accessed region.

    Returns
    -------
    Pass
    """
    return _on_functions("CompactBufferAllocation", "compact_buffer_region", is_strict)


def LowerMatchBuffer() -> Pass:
    """Replace the buffers that blocks declare as views of regions by accesses of the original buffers."""
    return _on_functions("LowerMatchBuffer", "lower_match_buffer")


def LowerOpaqueBlock() -> Pass:
    """Replace blocks by their bodies and allocations."""
    return _on_functions("LowerOpaqueBlock", "lower_opaque_block")


def LowerBlocks() -> Pass:
    """Run all passes over blocks in order, on the functions that contain blocks."""
    steps = (
        "lower_init_block", "plan_and_update_buffer_allocation_location", "convert_blocks_to_opaque",
        "compact_buffer_region", "lower_match_buffer", "lower_opaque_block",
    )  # fmt: skip

    def run(func, mod, ctx):
        if _load("statement", "has_blocks")(func.body):
            for step in steps:
                func = _load(step, step)(func)
        return func

    return PrimFuncPass(run, PassInfo(0, "tir.LowerBlocks"))


def InjectCopyIntrin(pragma_key: str, fintrin: Callable) -> Pass:
    """A pass that replaces memory copies with a pragma by the statement that a function returns.

    Parameters
    ----------
    pragma_key : str
        The name of the pragma, as passed to ``Stage.pragma``.
    fintrin : callable
        The function ``fintrin(src, dst, pad_before, pad_after, pad_value)`` that returns the statement of a copy. The
        buffers describe the accessed regions, with one dimension for each loop. For a padding copy, the lists contain
        the number of padding elements of each dimension; otherwise they are empty and ``pad_value`` is None.

    Returns
    -------
    Pass
    """
    return _on_functions("InjectCopyIntrin", "inject_copy_intrin", pragma_key, fintrin)


def CoProcSync() -> Pass:
    """Insert synchronization between the program and a coprocessor, and between the queues of the coprocessor, where
    data is exchanged."""
    return _on_functions("CoProcSync", "coproc_sync")


def LiftAttrScope(attr_key: str, merges_neighbors: bool = True) -> Pass:
    """A pass that moves an attribute to the largest statement whose work is all inside this attribute.

    Parameters
    ----------
    attr_key : str
        The key of the attribute, such as ``"coproc_scope"``.
    merges_neighbors : bool, optional
        Whether adjacent statements with the same attribute get one common attribute.

    Returns
    -------
    Pass
    """
    return _on_functions("LiftAttrScope", "lift_attr_scope", attr_key, merges_neighbors)


def ThreadSync(storage_scope: str) -> Pass:
    """A pass that inserts barriers between accesses of shared memory by different threads.

    Parameters
    ----------
    storage_scope : str
        The scope of the memory that threads share: "shared", "global" or "warp".

    Returns
    -------
    Pass
    """
    return _on_functions("ThreadSync", "thread_sync", storage_scope)


def LowerThreadAllreduce() -> Pass:
    """Replace reductions over threads by warp shuffles or tree reductions in shared memory."""
    return _on_functions("LowerThreadAllreduce", "lower_thread_allreduce")


def InjectPTXAsyncCopy() -> Pass:
    """Make copies from global to shared memory asynchronous on CUDA devices that support it."""
    return _on_functions("InjectPTXAsyncCopy", "inject_ptx_async_copy", config="tir.use_async_copy")


def LowerWarpMemory() -> Pass:
    """Distribute memory of scope ``warp`` over the registers of the threads; loads become warp shuffles."""
    return _on_functions("LowerWarpMemory", "lower_warp_memory")


def AnnotateDeviceRegions() -> Pass:
    """Annotate device regions with the target of the device."""
    return _on_functions("AnnotateDeviceRegions", "annotate_device_regions")


def SplitHostDevice() -> Pass:
    """Move device regions to separate functions."""
    return _on_module("SplitHostDevice", "split_host_device")


def LowerDeviceKernelLaunch() -> Pass:
    """Replace calls of kernels by packed calls with the grid and block sizes."""
    return _on_module("LowerDeviceKernelLaunch", "lower_device_kernel_launch")


def LowerDeviceStorageAccessInfo() -> Pass:
    """Replace pointers that describe their access mode by plain addresses."""
    return _on_functions("LowerDeviceStorageAccessInfo", "lower_device_storage_access_info")


def DecorateDeviceScope() -> Pass:
    """Mark the whole body of each function as a device region."""
    return _on_functions("DecorateDeviceScope", "decorate_device_scope")


def CombineContextCall() -> Pass:
    """Merge equal thread contexts."""
    return _on_functions("CombineContextCall", "combine_context_call")


def CommonSubexprElimTIR(enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> Pass:
    """A pass that stores the value of repeated expressions in variables.

    Parameters
    ----------
    enable_cse_tir : bool, optional
        Whether the pass is enabled.
    identify_equiv_terms : bool, optional
        Whether expressions that are equal after normalization are the same expression.

    Returns
    -------
    Pass
    """
    return _on_functions("CommonSubexprElimTIR", "common_subexpr_elim", enable_cse_tir, identify_equiv_terms)


def ConvertSSA() -> Pass:
    """Rename variables so that each variable is defined once."""
    return _on_functions("ConvertSSA", "convert_ssa")


def RemoveAssume() -> Pass:
    """Remove ``tir.assume`` statements."""
    return _on_functions("RemoveAssume", "remove_assume")


def BF16ComputeLegalize() -> Pass:
    """Compute bfloat16 arithmetic in float32 and round the values back."""
    return _on_functions("BF16ComputeLegalize", "bf16_legalize", function="bf16_compute_legalize")


def BF16StorageLegalize() -> Pass:
    """Store bfloat16 values as 16-bit integers; casts become bit operations."""
    return _on_functions("BF16StorageLegalize", "bf16_legalize", function="bf16_storage_legalize")


def ForceNarrowIndexToInt32() -> Pass:
    """Convert every index to 32 bits; an index that may not fit is an error."""
    return _on_functions("ForceNarrowIndexToInt32", "force_narrow_index_to_int32")


def MergeDynamicSharedMemoryAllocations() -> Pass:
    """Merge the dynamic shared memory of each kernel into one allocation."""
    name = "MergeDynamicSharedMemoryAllocations"
    return _on_functions(name, "merge_dynamic_shared_memory_allocations")


def PrepareWarpgroupProducts() -> Pass:
    """Arrange shared memory as warpgroup matmul instructions read it, and insert the waits for their completion."""
    return _on_functions("PrepareWarpgroupProducts", "prepare_warpgroup_products")


def MakeUnpackedAPI() -> Pass:
    """Generate functions that take plain pointers and scalars and do not check their arguments."""
    return _on_module("MakeUnpackedAPI", "make_unpacked_api")


def VerifyMemory() -> Pass:
    """Report an error if host code accesses the memory of a device."""

    def run(func, mod, ctx):
        problems = memory_errors(func)
        if problems:
            raise TVMError(f"{'; '.join(problems)}. Did you forget to bind? Bind the loops of a kernel to threads")
        return func

    return PrimFuncPass(run, PassInfo(0, "tir.VerifyMemory"))


def SplitOddVectors() -> Pass:
    """Split vectors whose number of lanes is not a power of two."""
    return _on_functions("SplitOddVectors", "split_odd_vectors")


def RewriteUnsafeSelect() -> Pass:
    """Replace a Select by if_then_else if one of its values is unsafe to evaluate."""
    return _on_functions("RewriteUnsafeSelect", "rewrite_unsafe_select")


def HoistIfThenElse(variant: str | None = None) -> Pass:
    """A pass that moves loop-invariant conditions out of loops.

    Parameters
    ----------
    variant : str, optional
        ``"basic"`` moves conditions out of loops only, and ignores the setting ``tir.HoistIfThenElse``. By default
        conditions also move out of thread launches if ``support_block_scope_hosting`` of this setting is true.

    Returns
    -------
    Pass

    Raises
    ------
    ValueError
        The variant is neither ``"basic"`` nor None.
    """
    if variant not in (None, "basic"):
        raise ValueError(f"HoistIfThenElse: the variant must be 'basic' or None, got {variant!r}")
    config = None if variant else "tir.HoistIfThenElse"
    return _on_functions("HoistIfThenElse", "hoist_if_then_else", config=config)


def EndLoops() -> Pass:
    """Bound unrolled loops that store outputs under a condition on a dynamic dimension, so that they end where the
    condition does."""
    return _on_functions("EndLoops", "end_loops")


def JoinTasks() -> Pass:
    """Merge two parallel loops in the branches of a condition on a dynamic dimension into one loop with the condition
    in its tasks."""
    return _on_functions("JoinTasks", "join_tasks")


def UnswitchLoops() -> Pass:
    """Move loop-invariant choices between values out of loops."""
    return _on_functions("UnswitchLoops", "unswitch_loops")


def SkipAssert() -> Pass:
    """Remove assertions."""
    return _on_functions("SkipAssert", "skip_assert")


def ConvertForLoopsToSerial() -> Pass:
    """Replace parallel loops by serial loops."""
    return _on_functions("ConvertForLoopsToSerial", "convert_for_loops_to_serial")


def InstrumentProfileIntrinsics() -> Pass:
    """Insert profiling calls with an id for each function and loop. The settings ``tir.instr_siblings``,
    ``tir.lwp_max_depth``, ``tir.lwp_min_height``, ``tir.lwp_disable_func_prof`` and ``tir.reset_start_id`` control this
    light-weight profiling.
    """
    return _on_module("InstrumentProfileIntrinsics", "instrument_profile_intrinsics")


def InstrumentBoundCheckers() -> Pass:
    """Check every access at run time against the size of its memory."""
    return _on_functions("InstrumentBoundCheckers", "instrument_bound_checkers")


def BindTarget(target) -> Pass:
    """A pass that attaches a target to every function without a target.

    Parameters
    ----------
    target : Target
        The target, with its host.

    Returns
    -------
    Pass
    """

    def run(func, mod, ctx):
        return func if "target" in func.attrs else func.with_attr("target", target)

    return PrimFuncPass(run, PassInfo(0, "tir.BindTarget"))


def AnnotateEntryFunc() -> Pass:
    """Mark the only function of a module as its entry."""

    def run(mod, ctx):
        if len(mod) != 1:
            return mod
        return mod.map_functions(lambda var, func: func.with_attr("tir.is_entry_func", True))

    return ModulePass(run, PassInfo(0, "tir.AnnotateEntryFunc"))


def MakePackedAPI() -> Pass:
    """Generate an argument-checking packed function for each public function."""

    def run(mod, ctx):
        return _load("make_packed_api", "make_packed_api_module")(mod)

    return ModulePass(run, PassInfo(0, "tir.MakePackedAPI"))


def LowerTVMBuiltin() -> Pass:
    """Replace packed calls and large allocations by calls of the runtime."""
    return _on_functions("LowerTVMBuiltin", "lower_tvm_builtin")


def LowerIntrin() -> Pass:
    """Replace intrinsics by operations that the target of the function supports."""
    return _on_functions("LowerIntrin", "lower_intrin")


_PLAIN = tuple(
    f for n, f in list(globals().items()) if n[0].isupper() and callable(f) and getattr(f, "__module__", "") == __name__
)


def _register() -> None:
    """Register the passes without arguments, so that other passes can require them by name."""
    for make in _PLAIN:
        if make.__name__ not in (
            "Apply",
            "Filter",
            "MarkUnrolledLoops",
            "BindTarget",
            "ThreadSync",
            "InjectCopyIntrin",
            "LiftAttrScope",
        ):
            _REGISTERED.register("tir." + make.__name__, make)


_register()
describe_returns(_PLAIN, "The pass, which gives the changed module when it is called with one.", "Pass")

__all__ = [f.__name__ for f in _PLAIN] + ["PrimFuncPass", "prim_func_pass"]


def __getattr__(name: str):
    return name_of(__name__, name)
