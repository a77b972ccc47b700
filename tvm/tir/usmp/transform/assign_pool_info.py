"""AssignPoolInfo: annotate each allocation with its candidate pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....error import TVMError
from ....ir.memory_pools import PoolInfo, WorkspacePoolInfo
from ....ir.module import IRModule
from ....ir.transform import ModulePass, Pass, PassInfo
from ....target import Target
from ...function import PrimFunc
from ...stmt import Allocate, AllocateConst, Stmt
from ...transform.function_pass import allow_deep_statements
from ...transform.lower_tvm_builtin import stays_on_stack
from ...transform.statement import StmtRewriter
from ..calls import allocated_bytes, is_pooled_scope
from ..utils import CANDIDATE_MEMORY_POOL_ATTR, MAIN_FUNCTION

# Attributes of a module: the pools for its workspace and for its constants.
WORKSPACE_POOLS_ATTR = "workspace_memory_pools"
CONSTANT_POOLS_ATTR = "constant_memory_pools"
# The name of the default pool, for programs without user-defined pools.
DEFAULT_POOL = "global_workspace"


def pools_of(mod: IRModule) -> tuple[list[PoolInfo], list[PoolInfo]]:
    """Return the workspace pools and the constant pools of a module. The default is one workspace pool of unlimited
    size."""
    found = [list(mod.attrs[key].pools) if mod.attrs.get(key) else [] for key in
             (WORKSPACE_POOLS_ATTR, CONSTANT_POOLS_ATTR)]  # fmt: skip
    return found[0] or [WorkspacePoolInfo(DEFAULT_POOL, [])], found[1]


def _reaches(pool: PoolInfo, target: Target | None) -> bool:
    return target is None or not pool.targets or any(str(t) == str(target) for t in pool.targets)


class _Assigner(StmtRewriter):
    """Annotates the allocations of one function that have no candidate pools yet."""

    def __init__(self, name: str, is_main: bool, workspace: Sequence[PoolInfo], constants: Sequence[PoolInfo]):
        self.name, self.is_main = name, is_main
        self.workspace, self.constants = workspace, constants

    def annotated(self, node: Any, pools: Sequence[PoolInfo]) -> Stmt:
        new: Any = self.keep(node)
        annotations: Mapping[str, Any] = new.annotations or {}
        if CANDIDATE_MEMORY_POOL_ATTR in annotations:
            return new
        if not pools:
            raise TVMError(f"{self.name} allocates '{node.buffer_var.name}', but its target can access no memory pool")
        return new.replace(annotations={**annotations, CANDIDATE_MEMORY_POOL_ATTR: tuple(pools)})

    def on_Allocate(self, node: Allocate) -> Stmt:
        fixed = allocated_bytes(node) is not None and is_pooled_scope(node.buffer_var)
        if not fixed or (not self.is_main and stays_on_stack(node)):
            return self.keep(node)
        return self.annotated(node, self.workspace)

    def on_AllocateConst(self, node: AllocateConst) -> Stmt:
        return self.annotated(node, self.constants) if self.constants else self.keep(node)


def assign_pools(mod: IRModule, main: str = MAIN_FUNCTION) -> IRModule:
    """Annotate the allocations of all functions of a module; ``main`` is the name of the main function."""
    workspace, constants = pools_of(mod)

    def one(var: Any, function: Any) -> Any:
        if not isinstance(function, PrimFunc):
            return function
        target = function.attrs.get("target")
        reached = [[pool for pool in pools if _reaches(pool, target)] for pools in (workspace, constants)]
        assigner = _Assigner(var.name_hint, var.name_hint == main, *reached)
        return function.replace(body=assigner.stmt(function.body))

    allow_deep_statements()
    return mod.map_functions(one)


def assign_pool_info() -> Pass:
    """Create the pass that annotates each allocation with the pools that the target of its function can access.

    All allocations of the main function are annotated. In other functions, only allocations that are too large for the
    stack are annotated. Constants are annotated if the module has constant pools. Existing annotations are kept.

    Returns
    -------
    Pass
        The pass.
    """
    return ModulePass(lambda mod, ctx: assign_pools(mod), PassInfo(0, "tir.usmp.AssignPoolInfo"))
