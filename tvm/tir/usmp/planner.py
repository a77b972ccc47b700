"""The entry points of the memory planner: the function ``plan`` and a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...error import TVMError
from ...ir.attrs import near_matches
from ...ir.memory_pools import (
    AllocatedPoolInfo,
    ConstantMemoryPools,
    ConstantPoolInfo,
    PoolInfo,
    WorkspaceMemoryPools,
)
from ...ir.module import IRModule
from ...ir.transform import ModulePass, Pass, PassContext, PassInfo
from ...runtime.registry import get_global_func
from .algo import ALGORITHMS
from .algo.problem import check_allocations
from .analysis import extract_buffer_info
from .transform.assign_pool_info import CONSTANT_POOLS_ATTR, WORKSPACE_POOLS_ATTR, assign_pools
from .transform.create_io_allocates import create_io_allocates
from .transform.transform import place_in_pools
from .utils import (
    MAIN_FUNCTION,
    assign_stmt_pool_allocations,
    create_array_buffer_info,
    use_workspace_io_is_enabled,
)

Pools = WorkspaceMemoryPools | ConstantMemoryPools | Iterable[PoolInfo]


def plan(
    module: IRModule, main: str = MAIN_FUNCTION, pools: Pools | None = None, algorithm: str | None = None
) -> tuple[IRModule, list[AllocatedPoolInfo]]:
    """Plan the memory of a program: assign its allocations to offsets in memory pools.

    All allocations of the main function are planned. In the functions that it calls, only allocations that are too
    large for the stack are planned. Functions get a pointer parameter for each pool that they use.

    Parameters
    ----------
    module : IRModule
        The main function and the functions that it calls, before ``MakePackedAPI``, ``MakeUnpackedAPI`` and
        ``LowerTVMBuiltin``.
    main : str, optional
        The name of the main function.
    pools : WorkspaceMemoryPools, ConstantMemoryPools or list of PoolInfo, optional
        The pools. A list may contain workspace pools and constant pools. The default are the pools in the attributes
        ``workspace_memory_pools`` and ``constant_memory_pools`` of the module; without these, one workspace pool of
        unlimited size. Constants stay in the code unless there is a constant pool.
    algorithm : str, optional
        ``search``, ``greedy_by_size``, ``greedy_by_conflicts`` or ``hill_climb``, or the name of a custom algorithm,
        which is the global function ``tir.usmp.algo.NAME``. The default is given by the options
        ``tir.usmp.custom_algorithm`` and ``tir.usmp.algorithm`` of the pass context.

    Returns
    -------
    tuple of IRModule and list of AllocatedPoolInfo
        The module, and the pools in the order of the parameters of the main function. Its attributes ``pool_args`` and
        ``pool_alignments`` list the same pools and the alignment of each; with the option
        ``tir.usmp.use_workspace_io``, ``io_tensor_pool_allocations`` maps each input and output to its pool and offset.

    Raises
    ------
    TVMError
        The plan does not fit in the pools, or the program cannot be planned.

    Examples
    --------
    >>> out = tvm.tir.decl_buffer((100,), "int8", "out")
    >>> ib = tvm.tir.ir_builder.create()
    >>> scratch = ib.allocate("int8", 100, "scratch")
    >>> with ib.for_range(0, 100) as i:
    ...     scratch[i] = tvm.tir.const(1, "int8")
    >>> with ib.for_range(0, 100) as i:
    ...     ib.emit(out.vstore(i, scratch[i]))
    >>> mod = tvm.IRModule({"main": tvm.tir.PrimFunc([out], ib.get())})
    >>> planned, pools = tvm.tir.usmp.plan(mod, "main")
    >>> [(p.pool.pool_name, p.allocated_size, p.pool_var_idx) for p in pools]
    [('global_workspace', 100, 1)]
    """
    if use_workspace_io_is_enabled():
        module = create_io_allocates(module, main)
    module = assign_pools(_with_pools(module, pools), main)
    return plan_annotated(module, main, algorithm)


def plan_annotated(
    module: IRModule, main: str = MAIN_FUNCTION, algorithm: str | None = None
) -> tuple[IRModule, list[AllocatedPoolInfo]]:
    """Plan the allocations of a module that are already annotated with candidate pools."""
    if main not in module:
        raise TVMError(f"cannot plan memory: the module has no function '{main}'")
    analysis = extract_buffer_info(module[main], module)
    buffers = create_array_buffer_info(analysis.buffer_info_stmts)
    found = choose_algorithm(algorithm)(buffers, analysis.memory_pressure)
    check_allocations(buffers, found)
    return place_in_pools(module, assign_stmt_pool_allocations(analysis.buffer_info_stmts, found), main)


def choose_algorithm(name: str | None = None) -> Callable[..., Any]:
    """Return the algorithm with this name; without a name, the algorithm in the options of the pass context."""
    context = PassContext.current()
    if name is None:
        name = context.get_config("tir.usmp.custom_algorithm") or context.get_config("tir.usmp.algorithm")
    found = ALGORITHMS.get(str(name)) or get_global_func(f"tir.usmp.algo.{name}", allow_missing=True)
    if found is None:
        hint = near_matches(str(name), ALGORITHMS)
        raise TVMError(f"unknown planning algorithm '{name}': there is no global function tir.usmp.algo.{name}; {hint}")
    return found


def _with_pools(module: IRModule, pools: Pools | None) -> IRModule:
    """Return the module with the pools as attributes."""
    if pools is None:
        return module
    given = list(pools.pools if isinstance(pools, (WorkspaceMemoryPools, ConstantMemoryPools)) else pools)
    for pool in given:
        if not isinstance(pool, PoolInfo):
            raise TVMError(f"a memory pool must be a WorkspacePoolInfo or a ConstantPoolInfo, got {pool!r}")
    constant = [pool for pool in given if isinstance(pool, ConstantPoolInfo)]
    workspace = [pool for pool in given if not isinstance(pool, ConstantPoolInfo)]
    if workspace:
        module = module.with_attr(WORKSPACE_POOLS_ATTR, WorkspaceMemoryPools(workspace))
    if constant:
        module = module.with_attr(CONSTANT_POOLS_ATTR, ConstantMemoryPools(constant))
    return module


def unified_static_memory_planner() -> Pass:
    """Create the pass that plans the annotated allocations of ``__tvm_main__`` and of the functions that it calls.

    Returns
    -------
    Pass
        The pass.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        if use_workspace_io_is_enabled():
            mod = assign_pools(create_io_allocates(mod))
        return plan_annotated(mod)[0]

    return ModulePass(run, PassInfo(0, "tir.UnifiedStaticMemoryPlanner"))


__all__ = ["plan", "unified_static_memory_planner"]
