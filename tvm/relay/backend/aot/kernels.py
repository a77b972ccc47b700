"""Kernels with raw signatures: data pointers of inputs and outputs, then one pointer for each workspace.

A kernel of the graph executor asks the runtime for its workspace. Here the caller passes the workspace, so that one
memory plan covers the intermediate results of the model and the workspaces of its kernels, and so that the code of a
kernel does not depend on the plan.
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
    """Memory that a kernel needs while it runs."""

    name: str
    dtype: str
    elements: int


class RawKernel(NamedTuple):
    """A lowered kernel whose last parameters are its workspaces."""

    symbol: str
    function: PrimFunc
    workspaces: list[Workspace]
    # Whether it returns a status.
    can_fail: bool = True


class StackLimits(NamedTuple):
    """The most bytes of an allocation that stays on the stack, by its scope."""

    of_global: int
    of_local: int


def raw_kernel(function: PrimFunc, symbol: str, limits: StackLimits) -> RawKernel:
    """The kernel under another symbol, with its larger allocations as parameters.

    Memory inside a parallel loop belongs to one task, and there are as many tasks as threads, so that memory is not
    hoisted.
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
        # The stack holds arrays of constant size only.
        fits = all(isinstance(extent, IntImm) for extent in node.extents)
        if fits and elements * info(node.dtype).bytes <= self.limits[scope]:
            return self.keep(node)
        dtype = info(node.dtype)
        self.found.append((node.buffer_var, Workspace(node.buffer_var.name, node.dtype, elements // dtype.lanes)))
        return self.stmt(node.body)


# Workspaces of varying size are as large as their bound; a larger bound says nothing about the size.
_LARGEST_BOUND = 1 << 30


def _most_elements(node: Allocate) -> int | None:
    """The largest number of scalars that an allocation can hold; None where there is no bound at compile time."""
    analyzer = Analyzer()
    bounds = [analyzer.const_int_bound(extent).max_value for extent in node.extents]
    most = math.prod(max(bound, 0) for bound in bounds) * info(node.dtype).lanes
    return most if all(isinstance(e, IntImm) for e in node.extents) or most <= _LARGEST_BOUND else None


__all__ = ["RawKernel", "StackLimits", "Workspace", "raw_kernel"]
