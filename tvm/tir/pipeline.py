"""The lowering pipelines, as literal tuples of passes. Only this file determines the order of passes.

``LOWER`` is the pipeline of ``tvm.lower``; custom passes (``tir.add_lower_pass``) run after its phases. ``HOST`` is the
pipeline that ``tvm.build`` runs before code generation for a host.
"""

from __future__ import annotations

from typing import Any

from ..ir.module import IRModule
from ..ir.transform import Pass, PassContext, run_pipeline
from ..target.backend import is_host
from . import transform

# Phase 0: loops and multi-dimensional buffers as the schedule created them.
LOWER_PHASE_0: tuple[Pass, ...] = (
    transform.LowerBlocks(),
    transform.InjectPrefetch(),
    transform.InjectRollingBuffer(),
)

# Phase 1: flat memory.
LOWER_PHASE_1: tuple[Pass, ...] = (
    transform.ApplyLayoutTransforms(),
    transform.StorageFlatten(64),
    transform.NarrowDataType(32),
    transform.Simplify(),
)

# Phase 2: vectors, threads and memory.
LOWER_PHASE_2: tuple[Pass, ...] = (
    transform.LoopPartition(),
    transform.InjectVirtualThread(),
    transform.InjectDoubleBuffer(),
    transform.RewriteUnsafeSelect(),
    transform.VectorizeLoop(),
    transform.OverlapEpilogue(),
    transform.StorageRewrite(),
    transform.MarkUnrolledLoops(),
)

# Phase 3: cleanup.
LOWER_PHASE_3: tuple[Pass, ...] = (
    transform.Simplify(),
    transform.RemoveNoOp(),
    transform.UnswitchLoops(),
    transform.HoistIfThenElse(),
    transform.EndLoops(),
    transform.JoinTasks(),
)

LOWER = (LOWER_PHASE_0, LOWER_PHASE_1, LOWER_PHASE_2, LOWER_PHASE_3)

HOST: tuple[Pass, ...] = (
    transform.SplitOddVectors(),
    transform.LowerIntrin(),
    transform.MakePackedAPI(),
    transform.LowerTVMBuiltin(),
)

# The host passes for functions that take data pointers and have no packed-call entry.
RAW_HOST: tuple[Pass, ...] = (
    transform.SplitOddVectors(),
    transform.LowerIntrin(),
    transform.MakeUnpackedAPI(),
    transform.LowerTVMBuiltin(),
)


# The host passes for functions in plain C, which do not call the runtime.
PLAIN_HOST: tuple[Pass, ...] = (
    transform.SplitOddVectors(),
    transform.LowerIntrin(),
    transform.LowerTVMBuiltin(),
)


# Passes over device threads that run before kernels become separate functions.
DEVICE: tuple[Pass, ...] = (
    transform.VerifyMemory(),
    transform.PrepareWarpgroupProducts(),
    transform.ThreadSync("shared"),
    transform.ThreadSync("shared.dyn"),
    transform.LowerThreadAllreduce(),
    transform.AnnotateDeviceRegions(),
    transform.SplitHostDevice(),
    transform.MergeDynamicSharedMemoryAllocations(),
)

# Passes that run on kernels and on the functions that launch them.
KERNELS: tuple[Pass, ...] = (
    transform.InjectPTXAsyncCopy(),
    transform.LowerWarpMemory(),
    transform.Simplify(),
    transform.LowerDeviceStorageAccessInfo(),
    transform.LowerIntrin(),
)
# The packed entries of functions that launch kernels are generated while these functions still have the device as
# target. The passes after it see only host code.
PACKED_LAUNCHERS: tuple[Pass, ...] = (transform.MakePackedAPI(),)
LAUNCHERS: tuple[Pass, ...] = (
    transform.LowerTVMBuiltin(),
    transform.LowerIntrin(),
    transform.LowerDeviceStorageAccessInfo(),
    transform.CombineContextCall(),
)


def user_passes(ctx: PassContext, phase: int) -> list[Pass]:
    """Return the custom passes of ``tir.add_lower_pass`` for a phase; functions on PrimFuncs are converted to
    passes."""
    out = []
    for number, function in ctx.get_config("tir.add_lower_pass") or ():
        if int(number) == phase:
            out.append(function if isinstance(function, Pass) else transform.Apply(function))
    return out


def lower(mod: IRModule, ctx: PassContext | None = None, simple_mode: bool = False) -> IRModule:
    """Run the lowering pipeline with the custom passes; ``simple_mode`` skips loop partitioning, for readable
    output."""
    ctx = ctx if ctx is not None else PassContext.current()
    for phase, passes in enumerate(LOWER):
        if simple_mode:
            passes = tuple(p for p in passes if p.info.name != "tir.LoopPartition")
        mod = run_pipeline(mod, passes, ctx)
        mod = run_pipeline(mod, user_passes(ctx, phase), ctx)
    if ctx.get_config("tir.instrument_bound_checkers"):
        mod = run_pipeline(mod, (transform.InstrumentBoundCheckers(),), ctx)
    if ctx.get_config("tir.instrument_lwp"):
        mod = run_pipeline(mod, (transform.InstrumentProfileIntrinsics(),), ctx)
    if ctx.get_config("tir.disable_assert"):
        mod = run_pipeline(mod, (transform.SkipAssert(),), ctx)
    return mod


def raw_host(mod: IRModule, target: Any, ctx: PassContext | None = None) -> IRModule:
    """Convert lowered functions to host functions that take data pointers."""
    return run_pipeline(_bound(mod, target, ctx), RAW_HOST, ctx)


def plain_host(mod: IRModule, target: Any, ctx: PassContext | None = None) -> IRModule:
    """Convert lowered functions to host functions for programs without the runtime."""
    return run_pipeline(_bound(mod, target, ctx), PLAIN_HOST, ctx)


def _bound(mod: IRModule, target: Any, ctx: PassContext | None) -> IRModule:
    """Bind the functions to a target and flatten their buffers, because code generators support only flat memory."""
    mod = run_pipeline(mod, (transform.BindTarget(target), transform.JoinPhysicalAxes()), ctx)
    return run_pipeline(mod, (transform.LowerCustomDatatypes(),), ctx)


def split_host_device(
    mod: IRModule, target: Any, host: Any, ctx: PassContext | None = None
) -> tuple[IRModule, IRModule]:
    """Convert lowered functions to the input of the code generators: a module for ``host`` and the kernels for
    ``target``."""
    mod = _bound(mod, target, ctx)
    if is_host(target):
        return run_pipeline(mod, HOST, ctx), IRModule()
    mod = run_pipeline(mod, DEVICE, ctx)
    is_kernel = {v: bool(f.attrs.get("tir.is_global_func")) for v, f in mod.functions.items()}
    mod = run_pipeline(mod, (transform.LowerDeviceKernelLaunch(),), ctx)
    kernels = mod.map_functions(lambda var, func: func if is_kernel[var] else None)
    launchers = mod.map_functions(lambda var, func: None if is_kernel[var] else func)
    launchers = run_pipeline(launchers, PACKED_LAUNCHERS, ctx)
    launchers = launchers.map_functions(lambda var, func: func.with_attr("target", host))
    return run_pipeline(launchers, LAUNCHERS, ctx), run_pipeline(kernels, KERNELS, ctx)
