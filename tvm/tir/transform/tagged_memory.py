"""Memory with a tag, as ``local.L0A``: a scratchpad that has a size of its own."""

from __future__ import annotations

from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir.memory_pools import MemoryInfo
from ...ir.prim import IntImm, Var
from ...ir.visit import post_order
from ...runtime.registry import get_global_func
from ..stmt import Allocate, Stmt


def scope_of(var: Var) -> str:
    return getattr(var.type_annotation, "storage_scope", "") or "global"


def constant_bytes(node: Allocate) -> Any:
    size = info(node.dtype).bytes * info(node.dtype).lanes
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def memory_info(scope: str) -> MemoryInfo | None:
    """What is known of the memory of a scope; None of those without a tag."""
    tell = get_global_func(f"tvm.info.mem.{scope}", allow_missing=True) if "." in scope else None
    return None if tell is None else tell()


def check_tagged_memory(body: Stmt) -> None:
    """Refuse a program whose allocations, after sharing, need more of a tagged memory than there is."""
    totals: dict[str, int] = {}
    for node in post_order(body):
        known = memory_info(scope_of(node.buffer_var)) if isinstance(node, Allocate) else None
        if known is None:
            continue
        scope, size = scope_of(node.buffer_var), constant_bytes(node)
        if size is None:
            raise TVMError(f"{node.buffer_var.name}: memory of {scope} has a size known when compiling")
        # Each allocation starts where a whole access may.
        totals[scope] = totals.get(scope, 0) + -(-size * 8 // known.max_simd_bits) * known.max_simd_bits
        if totals[scope] > known.max_num_bits:
            raise TVMError(
                f"Allocation exceed bound of memory tag {scope}: {totals[scope]} bits with {node.buffer_var.name}, "
                f"there are {known.max_num_bits}"
            )


__all__ = ["check_tagged_memory", "constant_bytes", "memory_info", "scope_of"]
