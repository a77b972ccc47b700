"""The positions at which TVMScript declares variables and buffers that a program uses without defining them.

A free variable is declared at the top. A buffer without a definition is declared before the first statement that uses
it, in the innermost indented body that contains all its uses.
"""

from __future__ import annotations

from typing import Any

from ..ir.node import Node
from ..ir.prim import BufferLoad, CommReducer, IterVar, Let, Var
from ..ir.visit import post_order
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc
from ..tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
)

THREAD_KEYS = ("thread_extent", "virtual_thread")
# Statements whose body keeps the same indentation if they are the last statement of a body.
CONCISE = (LetStmt, AttrStmt, AssertStmt, Allocate, AllocateConst, DeclBuffer, BufferRealize)


class Declarations:
    """The declarations that a program needs: ``free`` variables in order of use, and buffers to declare before a
    statement in ``before[id(stmt)]``."""

    def __init__(self) -> None:
        self.defined: set[int] = set()
        self.used: dict[int, Var] = {}
        self.declared: set[int] = set()
        self.thread_uses: dict[int, int] = {}
        self.threads: dict[int, IterVar] = {}
        self.before: dict[int, list[Buffer]] = {}
        self._uses: dict[int, tuple[Buffer, list[tuple[int, Stmt]], int]] = {}
        self._path: list[tuple[int, Stmt]] = []
        self._frames = 0
        self._implicit: set[int] = set()

    # --- results ---

    @property
    def free(self) -> list[Var]:
        return [v for k, v in self.used.items() if k not in self.defined and k not in self._implicit]

    @property
    def env_threads(self) -> list[IterVar]:
        """Return the thread axes that are bound several times; they are declared before the thread launches."""
        return [iv for k, iv in self.threads.items() if self.thread_uses[k] > 1]

    # --- traversal ---

    def scan_function(self, func: PrimFunc) -> Declarations:
        for param in func.params:
            self.defined.add(id(param))
        for buffer in func.buffer_map.values():
            self._declare(buffer)
        self._body(func.body, True)
        return self._finish()

    def scan_statement(self, stmt: Stmt) -> Declarations:
        self._body(stmt, False)
        return self._finish()

    def _finish(self) -> Declarations:
        # Buffers over memory that the program does not define belong to the caller; they are declared at the top.
        outside = {k for k, (b, _, _) in self._uses.items() if id(b.data) not in self.defined | self._implicit}
        for key, (buffer, path, depth) in list(self._uses.items()):
            self._implicit_vars(buffer)
            depth = 1 if key in outside else depth
            self.before.setdefault(id(path[depth - 1][1]), []).append(buffer)
        return self

    def _declare(self, buffer: Buffer) -> None:
        self.declared.add(id(buffer))
        self._implicit_vars(buffer)

    def _implicit_vars(self, buffer: Buffer) -> None:
        """Return the variables that the declaration of a buffer defines implicitly."""
        for e in (buffer.data, buffer.elem_offset, *buffer.strides):
            if isinstance(e, Var):
                self._implicit.add(id(e))
            else:
                self._expression(e)
        for e in buffer.shape:
            self._expression(e)

    def _buffer(self, buffer: Any) -> None:
        if not isinstance(buffer, Buffer) or id(buffer) in self.declared:
            return
        got = self._uses.get(id(buffer))
        if got is None:
            self._uses[id(buffer)] = (buffer, list(self._path), len(self._path))
            return
        _, path, depth = got
        common = 0
        while common < min(depth, len(self._path)) and path[common][0] == self._path[common][0]:
            common += 1
        self._uses[id(buffer)] = (buffer, path, common)

    def _expression(self, e: Any) -> None:
        if not isinstance(e, Node):
            return
        for node in post_order(e):
            if isinstance(node, Var):
                self.used.setdefault(id(node), node)
            elif isinstance(node, BufferLoad):
                self._buffer(node.buffer)
            elif isinstance(node, Let):
                self.defined.add(id(node.var))
            elif isinstance(node, CommReducer):
                self.defined.update(id(v) for v in (*node.lhs, *node.rhs))
            elif isinstance(node, IterVar):
                self.used.setdefault(id(node.var), node.var)
            elif isinstance(node, BufferRegion):
                self._buffer(node.buffer)

    def _body(self, stmt: Stmt, last: bool) -> None:
        """Enter a new indented body."""
        self._frames += 1
        self._path.append((self._frames, stmt))
        self._statement(stmt, last)
        self._path.pop()

    def _statement(self, stmt: Stmt, last: bool) -> None:
        if isinstance(stmt, SeqStmt):
            for n, child in enumerate(stmt.seq):
                self._statement(child, last and n == len(stmt.seq) - 1)
            return
        self._path[-1] = (self._path[-1][0], stmt)
        kind = type(stmt)
        handler = _SCAN.get(kind)
        if handler is not None:
            handler(self, stmt)
        for child in stmt.children():
            if not isinstance(child, (Stmt, IterVar)):
                self._expression(child)
        if kind in CONCISE:
            (self._statement if last else self._body)(stmt.body, True)
        elif kind is IfThenElse:
            self._body(stmt.then_case, True)
            if stmt.else_case is not None:
                self._body(stmt.else_case, True)
        elif kind is BlockRealize:
            self._body(stmt.block, True)
        else:
            for child in stmt.children():
                if isinstance(child, Stmt):
                    self._body(child, True)


def _scan_define(d: Declarations, stmt) -> None:
    d.defined.add(id(stmt.var if isinstance(stmt, LetStmt) else stmt.loop_var))


def _scan_allocate(d: Declarations, stmt) -> None:
    d.defined.add(id(stmt.buffer_var))


def _scan_attr(d: Declarations, stmt: AttrStmt) -> None:
    node = stmt.node
    if isinstance(node, IterVar) and stmt.attr_key in THREAD_KEYS:
        d.defined.add(id(node.var))
        d.threads.setdefault(id(node.var), node)
        d.thread_uses[id(node.var)] = d.thread_uses.get(id(node.var), 0) + 1
    elif isinstance(node, Buffer):
        d._buffer(node)
    elif isinstance(node, (list, tuple)):
        for n in node:
            d._buffer(n) if isinstance(n, Buffer) else d._expression(n)
    elif isinstance(node, (Var, IterVar)):
        d._expression(node)


def _scan_decl(d: Declarations, stmt: DeclBuffer) -> None:
    d._expression(stmt.buffer.data)
    d._declare(stmt.buffer)


def _scan_access(d: Declarations, stmt) -> None:
    d._buffer(stmt.buffer)


def _scan_block(d: Declarations, block: Block) -> None:
    d.defined.update(id(iv.var) for iv in block.iter_vars)
    for buffer in block.alloc_buffers:
        d._declare(buffer)
    for match in block.match_buffers:
        d._buffer(match.source.buffer)
        d._declare(match.buffer)


_SCAN = {
    LetStmt: _scan_define, For: _scan_define, Allocate: _scan_allocate, AllocateConst: _scan_allocate,
    AttrStmt: _scan_attr, DeclBuffer: _scan_decl, BufferStore: _scan_access, BufferRealize: _scan_access,
    Prefetch: _scan_access, Block: _scan_block,
}  # fmt: skip

__all__ = ["CONCISE", "THREAD_KEYS", "Declarations"]
