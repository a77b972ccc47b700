"""Memory with a tag, such as ``local.L0A``: a scratchpad memory of limited size."""

from __future__ import annotations

from math import lcm
from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir.memory_pools import MemoryInfo
from ...ir.prim import BufferLoad, IntImm, PrimExpr, Var, const
from ...ir.visit import post_order, rewrite
from ...runtime.registry import get_global_func
from ..buffer import Buffer
from ..stmt import Allocate, BufferStore, SeqStmt, Stmt
from .statement import StmtRewriter, statements_in


def scope_of(var: Var) -> str:
    return getattr(var.type_annotation, "storage_scope", "") or "global"


def constant_bytes(node: Allocate) -> Any:
    size = info(node.dtype).bytes * info(node.dtype).lanes
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


# The storage scopes that are available to every program.
_PLAIN = ("global", "shared", "local", "warp")


def is_tagged(scope: str) -> bool:
    """Return whether a scope has a tag, such as ``local.L0A``, ``global:weights`` or ``local_TB``."""
    return scope not in _PLAIN


def memory_info(scope: str) -> MemoryInfo | None:
    """Return the properties of the memory of a scope, or None for scopes without a tag."""
    tell = get_global_func(f"tvm.info.mem.{scope}", allow_missing=True) if is_tagged(scope) else None
    return None if tell is None else tell()


def is_packed(scope: str) -> bool:
    """Return whether allocations of a scope are packed into one: the device describes the memory, or the tag follows a
    colon."""
    return ":" in scope or memory_info(scope) is not None


def check_tagged_memory(body: Stmt) -> None:
    """Report an error if the allocations of a tagged memory, after sharing, exceed its size."""
    totals: dict[str, int] = {}
    for node in statements_in(body):
        known = memory_info(scope_of(node.buffer_var)) if isinstance(node, Allocate) else None
        if known is None:
            continue
        scope, size = scope_of(node.buffer_var), constant_bytes(node)
        if size is None:
            raise TVMError(f"{node.buffer_var.name}: an allocation in {scope} needs a constant size")
        # Each allocation is aligned to the size of the largest access.
        totals[scope] = totals.get(scope, 0) + -(-size * 8 // known.max_simd_bits) * known.max_simd_bits
        if totals[scope] > known.max_num_bits:
            raise TVMError(
                f"Allocation exceed bound of memory tag {scope}: {totals[scope]} bits with {node.buffer_var.name}, "
                f"but the memory has {known.max_num_bits}"
            )


def pack_tagged_memory(body: Stmt) -> Stmt:
    """Merge the allocations of a tagged memory at one level into one allocation, because such a memory is addressed
    from its start. Each part is aligned to the size of the largest access."""
    return Packer().stmt(body)


class Packer(StmtRewriter):
    """A rewriter that packs allocations; ``places`` contains for each allocation the packed allocation and its offset
    there."""

    def __init__(self) -> None:
        self.places: dict[Var, tuple[Var, int]] = {}

    def on_Allocate(self, node: Allocate) -> Stmt:
        if node.buffer_var in self.places:
            return self.stmt(node.body)
        scope = scope_of(node.buffer_var)
        others = [a for a in _at_level(node.body) if scope_of(a.buffer_var) == scope] if is_packed(scope) else []
        sizes = {a: constant_bytes(a) for a in (node, *others)}
        if not others or None in sizes.values():
            return self.keep(node)
        known = memory_info(scope)
        total = sizes[node] * 8
        for other in others:
            element = info(other.dtype).bytes * 8
            whole = lcm(known.max_simd_bits if known is not None else 1, element)
            begin = -(-total // whole) * whole
            self.places[other.buffer_var] = node.buffer_var, begin // element
            total = begin + sizes[other] * 8
        size = -(-total // (info(node.dtype).bytes * info(node.dtype).lanes * 8))
        return node.replace(extents=(const(size, "int32"),), body=self.stmt(node.body))

    def expr(self, node: Any) -> Any:
        return rewrite(node, self._load)

    def _moved(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        owner, begin = self.places[buffer.data]
        return buffer.replace(data=owner), (indices[0] + const(begin, indices[0].dtype),)

    def _load(self, node: Any) -> Any:
        packed = type(node) is BufferLoad and node.buffer.data in self.places
        return BufferLoad(*self._moved(node.buffer, node.indices)) if packed else None

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer.data not in self.places:
            return new
        buffer, indices = self._moved(node.buffer, new.indices)
        return BufferStore(buffer, new.value, indices)


def _at_level(node: Stmt) -> list[Allocate]:
    """Return the allocations below a statement that are not in a loop, a branch or another thread, and whose address
    does not escape."""
    found: list[Allocate] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Allocate):
            found.append(part)
            stack.append(part.body)
        elif isinstance(part, SeqStmt):
            stack.extend(reversed(part.seq))
    escaped = {n for n in post_order(node) if isinstance(n, Var) and n.dtype == "handle"}
    return [a for a in found if a.buffer_var not in escaped]


__all__ = ["check_tagged_memory", "pack_tagged_memory", "constant_bytes", "is_tagged", "memory_info", "scope_of"]
