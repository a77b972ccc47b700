"""InjectVirtualThread: replace virtual threads by loops around the statements that depend on the thread.

Memory allocated inside a virtual thread gets one copy per thread if its contents depend on the thread. If the threads
are contexts of a coprocessor (``cthread``), each thread has its own copy of all memory. A statement that does not
depend on the thread runs once. The other statements are repeated in the innermost possible loops, so that the work of
all threads interleaves.
"""

from __future__ import annotations

from typing import Any

from ...ir import primop
from ...ir.node import Node
from ...ir.prim import BufferLoad, Call, PrimExpr, Var, const
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from .statement import StmtRewriter, has_effect, int_value, is_call
from .storage_flatten import product


def written_pointers(value: PrimExpr) -> set[Var]:
    """Return the pointers in a call, without those that are only read."""
    out: set[Var] = set()
    seen: set[int] = set()
    stack: list[Any] = [value]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Var) and node.dtype == "handle":
            out.add(node)
        elif is_call(node, "tir.tvm_access_ptr"):
            mask = int_value(node.args[4])
            stack.extend(node.args[2:4] if mask is not None and not mask & 2 else node.args)
        else:
            stack.extend(node.children())
    return out


def touched_memory(body: Stmt, var: Var) -> set[Var]:
    """Return the variables and pointers whose contents depend on ``var``, computed to a fixed point."""
    uses: dict[Any, set] = {}  # Written variable or pointer -> the ones it is computed from

    def sources(*nodes: Node) -> set:
        out: set = set()
        for node in nodes:
            for n in post_order(node):
                if isinstance(n, Var):
                    out.add(n)
                elif isinstance(n, BufferLoad):
                    out.add(n.buffer.data)
        return out

    def visit(node: Stmt, around: frozenset) -> None:
        kind = type(node)
        if kind is BufferStore:
            uses.setdefault(node.buffer.data, set()).update(sources(node.value, *node.indices) | around)
        elif kind is LetStmt:
            uses.setdefault(node.var, set()).update(sources(node.value))
        elif kind is Evaluate:
            # A call with effects may write through any pointer argument that is not marked as read-only.
            if has_effect(node.value):
                given = sources(node.value)
                for pointer in written_pointers(node.value):
                    uses.setdefault(pointer, set()).update(given | around)
            return
        elif kind is For:
            uses.setdefault(node.loop_var, set()).update(sources(node.min, node.extent))
        if kind is IfThenElse or kind is While:
            around = around | frozenset(sources(node.condition))
        for child in node.children():
            if isinstance(child, Stmt):
                visit(child, around)

    visit(body, frozenset())
    touched = {var}
    while True:
        new = {target for target, used in uses.items() if target not in touched and used & touched}
        if not new:
            return touched
        touched |= new


class ThreadInjector(StmtRewriter):
    def __init__(self, var: Var, count: int, body: Stmt, shares: bool):
        self.var = var
        self.count = count
        self.touched = touched_memory(body, var)
        self.shares = shares
        if not shares:
            self.touched |= {n.buffer_var for n in post_order(body) if isinstance(n, Allocate)}
        self.copies: dict[Var, PrimExpr] = {}  # Pointer -> number of elements of one copy
        self.buffers: dict[Buffer, Buffer] = {}
        self.in_loop = False
        self.loops = 0

    def depends(self, *nodes: Node) -> bool:
        for node in nodes:
            for n in post_order(node):
                if isinstance(n, Var) and n in self.touched:
                    return True
                if isinstance(n, BufferLoad) and n.buffer.data in self.touched:
                    return True
                if self.is_context(n):
                    return True
        return False

    def is_context(self, node: Any) -> bool:
        """Return whether an expression reads the index of the coprocessor context."""
        return not self.shares and is_call(node, "tir.tvm_context_id")

    def repeat(self, node: Stmt) -> Stmt:
        """Return the statement, repeated for every virtual thread."""
        self.in_loop = True
        body = StmtRewriter.stmt(self, node)
        self.in_loop = False
        self.loops += 1
        var = self.var.copy_with_suffix("_s")
        kind = ForKind.UNROLLED if self.count <= 16 else ForKind.SERIAL
        return For(var, 0, self.count, kind, substitute(body, {self.var: var}))

    # Memory ---------------------------------------------------------------------------------------------------
    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after)

    def buffer(self, buffer: Buffer) -> Buffer:
        got = self.buffers.get(buffer)
        if got is None:
            got = self.buffers[buffer] = buffer.replace(shape=(buffer.shape[0] * self.count,))
        return got

    def place(self, buffer: Buffer, indices) -> tuple[PrimExpr, ...]:
        size = self.copies[buffer.data]
        shift = primop.cast(indices[0].dtype, self.var) * primop.cast(indices[0].dtype, size)
        return (indices[0] + shift,)

    def after(self, node: Any):
        if self.is_context(node):
            return primop.cast(node.dtype, self.var)
        if type(node) is BufferLoad and node.buffer.data in self.copies:
            return BufferLoad(self.buffer(node.buffer), self.place(node.buffer, node.indices))
        if is_call(node, "tir.tvm_access_ptr") and node.args[1] in self.copies:
            offset = node.args[2]
            shift = primop.cast(offset.dtype, self.var) * primop.cast(offset.dtype, self.copies[node.args[1]])
            return Call(node.dtype, node.op, (*node.args[:2], offset + shift, *node.args[3:]))
        return None

    def on_Allocate(self, node: Allocate) -> Stmt:
        if node.buffer_var not in self.touched or self.in_loop:
            return self.keep(node)
        size = self.copies[node.buffer_var] = product(node.extents)
        body = self.stmt(node.body)
        return node.replace(extents=(const(self.count, size.dtype) * size,), body=body)

    # Statements -----------------------------------------------------------------------------------------------
    def on_BufferStore(self, node: BufferStore) -> Stmt:
        if not self.in_loop and (node.buffer.data in self.touched or self.depends(node.value, *node.indices)):
            return self.repeat(node)
        new = self.keep(node)
        if node.buffer.data in self.copies:
            return BufferStore(self.buffer(node.buffer), new.value, self.place(node.buffer, new.indices))
        return new

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        if not self.in_loop and self.depends(node.value):
            return self.repeat(node)
        return self.keep(node)

    def on_For(self, node: For) -> Stmt:
        if not self.in_loop and self.depends(node.min, node.extent):
            return self.repeat(node)
        return self.keep(node)

    def on_While(self, node: While) -> Stmt:
        return self.repeat(node) if not self.in_loop and self.depends(node) else self.keep(node)

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        return self.repeat(node) if not self.in_loop and self.depends(node.value) else self.keep(node)

    def on_AssertStmt(self, node: AssertStmt) -> Stmt:
        return self.repeat(node) if not self.in_loop and self.depends(node.condition) else self.keep(node)

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        return self.repeat(node) if not self.in_loop and self.depends(node.condition) else self.keep(node)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if not self.in_loop and (self.depends(node.value) or node.attr_key in ("reduce_scope", "coproc_scope")):
            return self.repeat(node)
        return self.keep(node)


class VirtualThreads(StmtRewriter):
    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "virtual_thread":
            return self.keep(node)
        body = self.stmt(node.body)
        count = int_value(node.value)
        if count is None:
            # Memory cannot be copied for an unknown number of threads, so the threads run one after the other.
            return For(node.node.var, 0, node.value, ForKind.SERIAL, body)
        if count == 1:
            return substitute(body, {node.node.var: const(0, node.node.var.dtype)})
        injector = ThreadInjector(node.node.var, count, body, node.node.thread_tag != "cthread")
        return injector.stmt(body)


def inject_virtual_thread(func: PrimFunc) -> PrimFunc:
    return func.replace(body=VirtualThreads().stmt(func.body))
