"""The regions of buffers that a block reads and writes, and the innermost scope that contains all accesses of a
buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arith import Analyzer
from ..arith.interval_set import eval_set, union
from ..ir.node import Node
from ..ir.prim import BufferLoad, Call, Let, Range, Var, const
from ..ir.subst import substitute
from ..ir.visit import post_order
from .buffer import Buffer
from .function import PrimFunc
from .stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    LetStmt,
    MatchBufferRegion,
    Stmt,
)
from .use_def import THREAD_KEYS


class _Regions:
    """The intervals that a block accesses, by buffer; loop variables inside the block range over their whole
    extents."""

    def __init__(self, buffer_var_map: Mapping[Var, Buffer]):
        self.by_var = dict(buffer_var_map)
        self.reads: dict[Buffer, list] = {}
        self.writes: dict[Buffer, list] = {}
        self.opaque: dict[Buffer, None] = {}
        self.loops: dict[Var, Any] = {}
        self.lets: dict[Var, Any] = {}
        self.matched: dict[Buffer, BufferRegion] = {}

    def _touch(self, table: dict[Buffer, list], buffer: Buffer, region: list[Range]) -> None:
        while buffer in self.matched:
            source = self.matched[buffer].region
            shift = len(source) - len(region)
            inner = [Range.from_min_extent(s.min + r.min, r.extent) for s, r in zip(source[shift:], region)]
            region = [*source[:shift], *inner]
            buffer = self.matched[buffer].buffer
        domain = dict(self.loops)
        sets = [eval_set(Range(min=self._known(r.min), extent=self._known(r.extent)), domain) for r in region]
        known = table.get(buffer)
        table[buffer] = sets if known is None else [union([a, b]) for a, b in zip(known, sets)]

    def _known(self, e: Any) -> Any:
        return substitute(e, self.lets) if self.lets else e

    def expression(self, e: Node) -> None:
        pointers: set[int] = set()
        nodes = list(post_order(e))
        for node in nodes:
            if isinstance(node, BufferLoad):
                self._touch(self.reads, node.buffer, [Range.from_min_extent(i, _one(i)) for i in node.indices])
            elif isinstance(node, Let):
                self.lets[node.var] = self._known(node.value)
            elif isinstance(node, Call) and getattr(node.op, "name", "") == "tir.tvm_access_ptr":
                self._pointer(node)
                pointers.add(id(node.args[1]))
        for node in nodes:
            if isinstance(node, Var) and id(node) not in pointers and node in self.by_var:
                self.opaque[self.by_var[node]] = None

    def _pointer(self, call: Call) -> None:
        """Record the accesses through a pointer: its access mask tells whether the whole buffer is read, written or
        both."""
        buffer = self.by_var.get(call.args[1])
        if buffer is None:
            return
        mask = call.args[4].value
        whole = [Range.from_min_extent(const(0, s.dtype), s) for s in buffer.shape]
        if mask & Buffer.READ:
            self._touch(self.reads, buffer, whole)
        if mask & Buffer.WRITE:
            self._touch(self.writes, buffer, whole)

    def statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, BlockRealize):
            self._block_realize(stmt)
            return
        for child in stmt.children():
            if not isinstance(child, Stmt):
                self.expression(child)
        if isinstance(stmt, BufferStore):
            self._touch(self.writes, stmt.buffer, [Range.from_min_extent(i, _one(i)) for i in stmt.indices])
        elif isinstance(stmt, For):
            self.loops[stmt.loop_var] = Range.from_min_extent(self._known(stmt.min), self._known(stmt.extent))
        elif isinstance(stmt, LetStmt):
            self.lets[stmt.var] = self._known(stmt.value)
        for child in stmt.children():
            if isinstance(child, Stmt):
                self.statement(child)

    def _block_realize(self, stmt: BlockRealize) -> None:
        for value in stmt.iter_values:
            self.expression(value)
        self.expression(stmt.predicate)
        bound = {axis.var: value for axis, value in zip(stmt.block.iter_vars, stmt.iter_values)}
        for table, regions in ((self.reads, stmt.block.reads), (self.writes, stmt.block.writes)):
            for r in regions:
                self._touch(table, r.buffer, [substitute(x, bound) for x in r.region])

    def regions(self, table: dict[Buffer, list], skip: set[int]) -> list[BufferRegion]:
        out = []
        analyzer = Analyzer()
        for buffer, sets in table.items():
            if id(buffer) in skip:
                continue
            whole = [Range.from_min_extent(const(0, s.dtype), s) for s in buffer.shape]
            out.append(BufferRegion(buffer, tuple(s.range(w, analyzer) for s, w in zip(sets, whole))))
        return out


def _one(index: Any) -> Any:
    return const(1, index.dtype)


def get_block_access_region(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> list[list[BufferRegion]]:
    """[reads, writes, opaque] of a block: the buffer regions it reads and writes, and the buffers it accesses through
    pointers.

    In a reduction (a block with ``init``), a load of the block's own output is not reported as a read. Buffers that the
    block allocates are not reported.

    Parameters
    ----------
    block : Block
        The block.
    buffer_var_map : dict of Var to Buffer
        The buffer of each pointer variable that the block uses.

    Returns
    -------
    list[list[BufferRegion]]
    """
    found = _Regions({**buffer_var_map, **{b.data: b for b in block.alloc_buffers}})
    for match in block.match_buffers:
        found.matched[match.buffer] = match.source
        found.by_var[match.buffer.data] = match.buffer
    if block.init is not None:
        found.statement(block.init)
    found.statement(block.body)
    own = {id(b) for b in block.alloc_buffers}
    written = {id(b) for b in found.writes} if block.init is not None else set()
    opaque = [
        BufferRegion(b, tuple(Range.from_min_extent(const(0, s.dtype), s) for s in b.shape))
        for b in found.opaque
        if id(b) not in own
    ]
    return [found.regions(found.reads, own | written), found.regions(found.writes, own), opaque]


def get_block_read_write_region(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> list[list[BufferRegion]]:
    """[reads, writes] of a block; a buffer that is accessed through a pointer is in both lists.

    Parameters
    ----------
    block : Block
        The block.
    buffer_var_map : dict of Var to Buffer
        The buffer of each pointer variable that the block uses.

    Returns
    -------
    list[list[BufferRegion]]
    """
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    for region in opaque:
        if not any(r.buffer is region.buffer for r in reads):
            reads.append(region)
        if not any(r.buffer is region.buffer for r in writes):
            writes.append(region)
    return [reads, writes]


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Stmt | None]:
    """For each buffer the innermost loop or block that contains all its accesses; None means the whole function.

    Parameters
    ----------
    func : PrimFunc
        The function.

    Returns
    -------
    dict[Buffer, Stmt]
    """
    paths: dict[Buffer, list[Stmt]] = {}
    by_var: dict[Var, list[Buffer]] = {}
    for buffer in func.buffer_map.values():
        by_var.setdefault(buffer.data, []).append(buffer)

    def touch(buffer: Any, path: list[Stmt]) -> None:
        if not isinstance(buffer, Buffer):
            return
        known = paths.get(buffer)
        if known is None:
            paths[buffer] = list(path)
            return
        common = 0
        while common < min(len(known), len(path)) and known[common] is path[common]:
            common += 1
        del known[common:]

    def expression(e: Node, path: list[Stmt]) -> None:
        for node in post_order(e):
            if isinstance(node, (BufferLoad, BufferRegion)):
                touch(node.buffer, path)
            elif isinstance(node, Var):
                for buffer in by_var.get(node, ()):
                    touch(buffer, path)

    def visit(stmt: Stmt, path: list[Stmt]) -> None:
        for child in stmt.children():
            if not isinstance(child, (Stmt, MatchBufferRegion)):
                expression(child, path)
        if isinstance(stmt, BufferStore):
            touch(stmt.buffer, path)
        if isinstance(stmt, Block):
            path = [*path, stmt]
            for buffer in stmt.alloc_buffers:
                by_var.setdefault(buffer.data, []).append(buffer)
            for match in stmt.match_buffers:
                touch(match.source.buffer, path)
                by_var.setdefault(match.buffer.data, []).append(match.buffer)
        elif isinstance(stmt, For) or (isinstance(stmt, AttrStmt) and stmt.attr_key in THREAD_KEYS):
            path = [*path, stmt]
        for child in stmt.children():
            if isinstance(child, Stmt):
                visit(child, path)

    visit(func.body, [])
    return {buffer: path[-1] if path else None for buffer, path in paths.items()}


__all__ = ["detect_buffer_access_lca", "get_block_access_region", "get_block_read_write_region"]
