"""Raw kernels: their parameters are data pointers of inputs and outputs, then one pointer for each workspace.

A kernel for the graph executor allocates its workspace through the runtime. A raw kernel gets the workspace from its
caller. One memory plan then covers the intermediate values of the model and the workspaces of its kernels, and the code
of a kernel does not depend on the plan.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ....arith import Analyzer
from ....dtype import info
from ....ir.prim import IntImm, Var
from ....tir.buffer import decl_buffer
from ....tir.function import PrimFunc
from ....tir.stmt import Allocate, For, ForKind, Stmt
from ....tir.transform.statement import StmtRewriter


class Workspace(NamedTuple):
    """Temporary memory that a kernel needs while it runs."""

    name: str
    dtype: str
    elements: int


class RawKernel(NamedTuple):
    """A lowered kernel whose last parameters are its workspaces."""

    symbol: str
    function: PrimFunc
    workspaces: list[Workspace]
    # Whether the kernel returns a status.
    can_fail: bool = True


class StackLimits(NamedTuple):
    """The maximum size in bytes of an allocation on the stack, by storage scope."""

    of_global: int
    of_local: int


def raw_kernel(function: PrimFunc, symbol: str, limits: StackLimits) -> RawKernel:
    """Return the kernel under a new symbol, with allocations above the stack limits as parameters.

    Allocations inside a parallel loop stay there: each task needs separate memory, and the number of tasks depends on
    the number of threads.
    """
    hoisting = _Hoisting(limits)
    body = hoisting.stmt(function.body)
    params, buffers = list(function.params), dict(function.buffer_map)
    for var, workspace in hoisting.found:
        handle = Var(workspace.name, "handle")
        params.append(handle)
        buffers[handle] = decl_buffer((workspace.elements,), workspace.dtype, workspace.name, data=var)
    attrs = {**dict(function.attrs or {}), "global_symbol": symbol}
    made = PrimFunc(params, body, function.ret_type, buffers, attrs)
    return RawKernel(symbol, made, [workspace for _, workspace in hoisting.found])


class _Hoisting(StmtRewriter):
    def __init__(self, limits: StackLimits):
        self.limits = {"global": limits.of_global, "local": limits.of_local}
        self.found: list[tuple[Var, Workspace]] = []

    def on_For(self, node: For) -> Stmt:
        return node if node.kind is ForKind.PARALLEL else self.keep(node)

    def on_Allocate(self, node: Allocate) -> Stmt:
        elements = _most_elements(node)
        scope = getattr(node.buffer_var.type_annotation, "storage_scope", "") or "global"
        if elements is None or scope not in self.limits or node.annotations.get("on_stack"):
            return self.keep(node)
        # Only arrays of constant size are allocated on the stack.
        fits = all(isinstance(extent, IntImm) for extent in node.extents)
        if fits and elements * info(node.dtype).bytes <= self.limits[scope]:
            return self.keep(node)
        dtype = info(node.dtype)
        self.found.append((node.buffer_var, Workspace(node.buffer_var.name, node.dtype, elements // dtype.lanes)))
        return self.stmt(node.body)


# A workspace of dynamic size gets the upper bound of its size. A bound above this limit is not a useful size.
_LARGEST_BOUND = 1 << 30


def _most_elements(node: Allocate) -> int | None:
    """Return the maximum number of scalar elements of an allocation; None if it has no bound at compile time."""
    analyzer = Analyzer()
    bounds = [analyzer.const_int_bound(extent).max_value for extent in node.extents]
    most = math.prod(max(bound, 0) for bound in bounds) * info(node.dtype).lanes
    return most if all(isinstance(e, IntImm) for e in node.extents) or most <= _LARGEST_BOUND else None


__all__ = ["RawKernel", "StackLimits", "Workspace", "raw_kernel"]
