"""Passes over loops, under TVM's names: ``tvm.tir.transform.Simplify()`` makes a pass, a pass maps module to module.

One file per pass; a file is loaded when its pass first runs. The function in the file works on a PrimFunc (or a module)
alone, and this table says under which name, level and options it runs.
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
    """A pass that runs the function named as its file on every PrimFunc, with its options from the context."""

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
        Gives the new function for each.

    Returns
    -------
    Pass
    """
    return PrimFuncPass(lambda func, mod, ctx: ftransform(func), PassInfo(0, "tir.Apply"))


def Filter(fcond: Callable) -> Pass:
    """Keeps the PrimFuncs for which ``fcond(func)`` is true.

    Parameters
    ----------
    fcond : callable
        Says which functions stay.

    Returns
    -------
    Pass
    """
    return PrimFuncPass(lambda func, mod, ctx: func if fcond(func) else None, PassInfo(0, "tir.Filter"))


def ApplyLayoutTransforms() -> Pass:
    """Buffers get the shape of the layout that the attribute ``layout_transform_map`` of the function has for them, and
    are accessed by its indices."""
    return _on_functions("ApplyLayoutTransforms", "apply_layout_transforms")


def InjectRollingBuffer() -> Pass:
    """Buffers marked by ``rolling_buffer_scope`` keep what later iterations of the loops around them read again."""
    return _on_functions("InjectRollingBuffer", "inject_rolling_buffer")


def StorageFlatten(cache_line_size: int = 64, create_bound_attribute: bool = False) -> Pass:
    """Buffers of many dimensions become flat memory; realizations become allocations.

    Parameters
    ----------
    cache_line_size : int, optional
        The size of a cache line in bytes, by which prefetches step.
    create_bound_attribute : bool, optional
        Whether the number of elements of every buffer is noted around it, as the attribute ``buffer_bound`` of its
        pointer.

    Returns
    -------
    Pass
    """
    return _on_functions("StorageFlatten", "storage_flatten", cache_line_size, create_bound_attribute)


def LowerCustomDatatypes() -> Pass:
    """Values of custom types (``tvm.target.datatype``) become unsigned integers, and what is done with them calls of
    the functions that were registered for it."""
    return _on_functions("LowerCustomDatatypes", "lower_custom_datatypes")


def JoinPhysicalAxes() -> Pass:
    """Memory of several dimensions, as ``te.AXIS_SEPARATOR`` makes it, becomes flat."""
    return _on_functions("JoinPhysicalAxes", "storage_flatten", function="join_physical_axes")


def FlattenBuffer() -> Pass:
    """Like StorageFlatten, for functions whose allocations are explicit."""
    return _on_functions("FlattenBuffer", "storage_flatten")


def Simplify() -> Pass:
    """Arithmetic and branches, with what loops and conditions say about variables."""
    return _on_functions("Simplify", "simplify")


def VectorizeLoop(enable_vectorize: bool = True) -> Pass:
    """Loops marked vectorized become vector operations.

    Parameters
    ----------
    enable_vectorize : bool, optional
        Whether it does so; otherwise such loops become plain ones.

    Returns
    -------
    Pass
    """

    def run(func, mod, ctx):
        wanted = enable_vectorize and not ctx.get_config("tir.disable_vectorize")
        # Functions of a custom type take one value.
        wanted = wanted and not _load("lower_custom_datatypes", "uses_custom_types")(func)
        return _load("vectorize_loop", "vectorize_loop")(func, wanted)

    return PrimFuncPass(run, PassInfo(0, "tir.VectorizeLoop"))


def UnrollLoop() -> Pass:
    """Expands loops marked unrolled and short loops that a pragma or the configuration asks for."""
    return _on_functions("UnrollLoop", "unroll_loop", config="tir.UnrollLoop")


def MarkUnrolledLoops() -> Pass:
    """What UnrollLoop chooses to expand is marked instead; the code generator expands it."""
    return _on_functions("UnrollLoop", "unroll_loop", config="tir.UnrollLoop", mark_only=True)


def RemoveNoOp() -> Pass:
    """Drops statements without effect."""
    return _on_functions("RemoveNoOp", "remove_no_op")


def NarrowDataType(target_bits: int = 32) -> Pass:
    """Index arithmetic in ``target_bits`` bits where every value is known to fit.

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
    """Loops whose likely conditions hold in the interior are divided; the interior loses the conditions."""
    return _on_functions("LoopPartition", "loop_partition", config="tir.LoopPartition")


def InjectVirtualThread() -> Pass:
    """Virtual threads become loops around the statements that differ between them."""
    return _on_functions("InjectVirtualThread", "inject_virtual_thread")


def InjectDoubleBuffer() -> Pass:
    """Memory marked for it is filled for the next iteration while it is used in this one."""
    return _on_functions("InjectDoubleBuffer", "inject_double_buffer", config="tir.InjectDoubleBuffer")


def OverlapEpilogue() -> Pass:
    """The rows that a loop marked for it writes from a product are written while the next product is computed."""
    return _on_functions("OverlapEpilogue", "overlap_epilogue")


def StorageRewrite() -> Pass:
    """Allocations whose lives do not meet share memory."""

    def run(func, mod, ctx):
        if ctx.get_config("tir.disable_storage_rewrite"):
            return func
        return _load("storage_rewrite", "storage_rewrite")(func)

    return PrimFuncPass(run, PassInfo(0, "tir.StorageRewrite"))


def InjectPrefetch() -> Pass:
    """Prefetches that a schedule asks for become statements."""
    return _on_functions("InjectPrefetch", "inject_prefetch")


def LowerInitBlock() -> Pass:
    """Initial values of reduction blocks become conditional statements."""
    return _on_functions("LowerInitBlock", "lower_init_block")


def PlanAndUpdateBufferAllocationLocation() -> Pass:
    """Buffers are allocated in the innermost loop around all their uses."""
    name = "PlanAndUpdateBufferAllocationLocation"
    return _on_functions(name, "plan_and_update_buffer_allocation_location")


def ConvertBlocksToOpaque() -> Pass:
    """Axes of blocks are replaced by their values."""
    return _on_functions("ConvertBlocksToOpaque", "convert_blocks_to_opaque")


def CompactBufferAllocation(is_strict: bool = True) -> Pass:
    """Memory allocated inside loops shrinks to what is touched there.

    Parameters
    ----------
    is_strict : bool, optional
        Whether memory never grows beyond its declaration. Otherwise it has the size of what is touched, be that more.

    Returns
    -------
    Pass
    """
    return _on_functions("CompactBufferAllocation", "compact_buffer_region", is_strict)


def LowerMatchBuffer() -> Pass:
    """Views declared by blocks become accesses of the buffers they lie over."""
    return _on_functions("LowerMatchBuffer", "lower_match_buffer")


def LowerOpaqueBlock() -> Pass:
    """Blocks become their bodies inside their allocations."""
    return _on_functions("LowerOpaqueBlock", "lower_opaque_block")


def LowerBlocks() -> Pass:
    """All passes over blocks in order, on the functions that have any."""
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
    """Copies of memory that a pragma marks become what a function makes of them.

    Parameters
    ----------
    pragma_key : str
        The pragma, as it was given to ``Stage.pragma``.
    fintrin : callable
        Gives the statement of a copy: ``fintrin(src, dst, pad_before, pad_after, pad_value)``. The buffers are views of
        what is read and written, with a dimension for each loop. Where the copy pads, the padding is given in elements
        for each dimension with its value; otherwise the lists are empty and the value is None.

    Returns
    -------
    Pass
    """
    return _on_functions("InjectCopyIntrin", "inject_copy_intrin", pragma_key, fintrin)


def CoProcSync() -> Pass:
    """The program waits for a coprocessor, and the queues of the coprocessor for each other, where data pass."""
    return _on_functions("CoProcSync", "coproc_sync")


def ThreadSync(storage_scope: str) -> Pass:
    """Barriers between accesses of shared memory by different threads.

    Parameters
    ----------
    storage_scope : str
        The memory that threads share: "shared", "global", "warp".

    Returns
    -------
    Pass
    """
    return _on_functions("ThreadSync", "thread_sync", storage_scope)


def LowerThreadAllreduce() -> Pass:
    """Reductions over threads become trees over shared memory."""
    return _on_functions("LowerThreadAllreduce", "lower_thread_allreduce")


def InjectPTXAsyncCopy() -> Pass:
    """Copies from global to shared memory run beside the program, on CUDA devices that can."""
    return _on_functions("InjectPTXAsyncCopy", "inject_ptx_async_copy", config="tir.use_async_copy")


def LowerWarpMemory() -> Pass:
    """Memory of a warp is spread over its threads' registers and read by shuffles."""
    return _on_functions("LowerWarpMemory", "lower_warp_memory")


def AnnotateDeviceRegions() -> Pass:
    """What runs on the device is marked with the device's target."""
    return _on_functions("AnnotateDeviceRegions", "annotate_device_regions")


def SplitHostDevice() -> Pass:
    """Regions of the device become functions of their own."""
    return _on_module("SplitHostDevice", "split_host_device")


def LowerDeviceKernelLaunch() -> Pass:
    """Calls of kernels become packed calls with the sizes of their grid."""
    return _on_module("LowerDeviceKernelLaunch", "lower_device_kernel_launch")


def LowerDeviceStorageAccessInfo() -> Pass:
    """Pointers that say how memory is used become plain addresses."""
    return _on_functions("LowerDeviceStorageAccessInfo", "lower_device_storage_access_info")


def DecorateDeviceScope() -> Pass:
    """The whole body of each function runs on the device."""
    return _on_functions("DecorateDeviceScope", "decorate_device_scope")


def CombineContextCall() -> Pass:
    """Equal thread contexts are made once."""
    return _on_functions("CombineContextCall", "combine_context_call")


def CommonSubexprElimTIR(enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> Pass:
    """Expressions that occur more than once get a name.

    Parameters
    ----------
    enable_cse_tir : bool, optional
        Whether it does anything.
    identify_equiv_terms : bool, optional
        Whether expressions that are equal after normalization count as one.

    Returns
    -------
    Pass
    """
    return _on_functions("CommonSubexprElimTIR", "common_subexpr_elim", enable_cse_tir, identify_equiv_terms)


def ConvertSSA() -> Pass:
    """Variables that are defined more than once are told apart."""
    return _on_functions("ConvertSSA", "convert_ssa")


def RemoveAssume() -> Pass:
    """Drops statements that only tell the compiler something."""
    return _on_functions("RemoveAssume", "remove_assume")


def BF16ComputeLegalize() -> Pass:
    """Arithmetic on bfloat16 is done in float32 and rounded back."""
    return _on_functions("BF16ComputeLegalize", "bf16_legalize", function="bf16_compute_legalize")


def BF16StorageLegalize() -> Pass:
    """bfloat16 is kept as 16-bit words, casts become bit operations."""
    return _on_functions("BF16StorageLegalize", "bf16_legalize", function="bf16_storage_legalize")


def ForceNarrowIndexToInt32() -> Pass:
    """Every index in 32 bits, or a refusal."""
    return _on_functions("ForceNarrowIndexToInt32", "force_narrow_index_to_int32")


def MergeDynamicSharedMemoryAllocations() -> Pass:
    """One piece of dynamic shared memory per kernel."""
    name = "MergeDynamicSharedMemoryAllocations"
    return _on_functions(name, "merge_dynamic_shared_memory_allocations")


def PrepareWarpgroupProducts() -> Pass:
    """Memory as the unit of a warpgroup reads it, and waits behind its products."""
    return _on_functions("PrepareWarpgroupProducts", "prepare_warpgroup_products")


def MakeUnpackedAPI() -> Pass:
    """Functions of plain pointers and scalars, without checks."""
    return _on_module("MakeUnpackedAPI", "make_unpacked_api")


def VerifyMemory() -> Pass:
    """Refuses functions for a device that touch its memory from the host."""

    def run(func, mod, ctx):
        problems = memory_errors(func)
        if problems:
            raise TVMError(f"{'; '.join(problems)}. Did you forget to bind? Loops of a kernel are bound to threads")
        return func

    return PrimFuncPass(run, PassInfo(0, "tir.VerifyMemory"))


def SplitOddVectors() -> Pass:
    """Vectors whose lanes are not a power of two become several."""
    return _on_functions("SplitOddVectors", "split_odd_vectors")


def RewriteUnsafeSelect() -> Pass:
    """A Select whose sides may not both be evaluated becomes if_then_else."""
    return _on_functions("RewriteUnsafeSelect", "rewrite_unsafe_select")


def HoistIfThenElse(variant: str | None = None) -> Pass:
    """Conditions that a loop does not change move out of it.

    Parameters
    ----------
    variant : str, optional
        ``"basic"`` moves conditions out of loops, whatever the setting ``tir.HoistIfThenElse`` says. By default they
        also move out of the launch of threads where its ``support_block_scope_hosting`` is true.

    Returns
    -------
    Pass

    Raises
    ------
    ValueError
        The variant is neither ``"basic"`` nor None.
    """
    if variant not in (None, "basic"):
        raise ValueError(f"HoistIfThenElse: the variant is 'basic' or None, got {variant!r}")
    config = None if variant else "tir.HoistIfThenElse"
    return _on_functions("HoistIfThenElse", "hoist_if_then_else", config=config)


def EndLoops() -> Pass:
    """Unrolled loops that store results under a condition on an unknown size end where it does."""
    return _on_functions("EndLoops", "end_loops")


def JoinTasks() -> Pass:
    """Two parallel loops of which an unknown size chooses become one whose tasks choose."""
    return _on_functions("JoinTasks", "join_tasks")


def UnswitchLoops() -> Pass:
    """Choices between values that a loop does not change are made before it."""
    return _on_functions("UnswitchLoops", "unswitch_loops")


def SkipAssert() -> Pass:
    """Drops assertions."""
    return _on_functions("SkipAssert", "skip_assert")


def ConvertForLoopsToSerial() -> Pass:
    """Parallel loops run in order on one thread."""
    return _on_functions("ConvertForLoopsToSerial", "convert_for_loops_to_serial")


def InstrumentProfileIntrinsics() -> Pass:
    """Functions and loops count under numbers of their own: the light-weight profiling that ``tir.instr_siblings``,
    ``tir.lwp_max_depth``, ``tir.lwp_min_height``, ``tir.lwp_disable_func_prof`` and ``tir.reset_start_id`` are about.
    """
    return _on_module("InstrumentProfileIntrinsics", "instrument_profile_intrinsics")


def InstrumentBoundCheckers() -> Pass:
    """Every access is checked at run time against the size of its memory."""
    return _on_functions("InstrumentBoundCheckers", "instrument_bound_checkers")


def BindTarget(target) -> Pass:
    """Every function without a target gets this one.

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
    """The only function of a module is its entry."""

    def run(mod, ctx):
        if len(mod) != 1:
            return mod
        return mod.map_functions(lambda var, func: func.with_attr("tir.is_entry_func", True))

    return ModulePass(run, PassInfo(0, "tir.AnnotateEntryFunc"))


def MakePackedAPI() -> Pass:
    """A checked packed entry beside each public function."""

    def run(mod, ctx):
        return _load("make_packed_api", "make_packed_api_module")(mod)

    return ModulePass(run, PassInfo(0, "tir.MakePackedAPI"))


def LowerTVMBuiltin() -> Pass:
    """Packed calls and large allocations become calls of the runtime."""
    return _on_functions("LowerTVMBuiltin", "lower_tvm_builtin")


def LowerIntrin() -> Pass:
    """Intrinsics become what the target of the function has."""
    return _on_functions("LowerIntrin", "lower_intrin")


_PLAIN = tuple(
    f for n, f in list(globals().items()) if n[0].isupper() and callable(f) and getattr(f, "__module__", "") == __name__
)


def _register() -> None:
    """Passes that need no arguments can be required by name."""
    for make in _PLAIN:
        if make.__name__ not in (
            "Apply", "Filter", "MarkUnrolledLoops", "BindTarget", "ThreadSync", "InjectCopyIntrin"
        ):
            _REGISTERED.register("tir." + make.__name__, make)


_register()
describe_returns(_PLAIN, "The pass, which gives the changed module when it is called with one.", "Pass")

__all__ = [f.__name__ for f in _PLAIN] + ["PrimFuncPass", "prim_func_pass"]


def __getattr__(name: str):
    return name_of(__name__, name)
