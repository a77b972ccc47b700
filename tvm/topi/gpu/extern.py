"""Statement operators on a GPU: loops annotated as independent are bound to threads; one thread executes the rest.

Memory that a statement allocates in scope ``global`` is allocated outside the kernel, with a slice for each iteration
of the loops that are bound to threads.
"""

from __future__ import annotations

from ...error import TVMError
from ...ir import primop
from ...ir.node import Node
from ...ir.prim import BufferLoad, Call, IntImm, IterVar, PrimExpr, Range, Var, const
from ...ir.subst import substitute, variables
from ...ir.visit import pre_order, rewrite
from ...te.tensor import ExternOp
from ...tir.buffer import Buffer, decl_buffer
from ...tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, SeqStmt, Stmt, seq
from ...tir.transform.statement import StmtRewriter
from ..loops import INDEPENDENT

THREADS = 128


def on_threads(op: ExternOp) -> ExternOp | None:
    """Return the operation with its statement as kernels, or None if it is a call by the host."""
    if _is_host_call(op.body):
        return None
    body = _kernels(op.body)
    return ExternOp(op.name, op.tag, op.attrs, op.inputs, op.input_placeholders, op.output_placeholders, body)


def _is_host_call(body: Stmt) -> bool:
    """Return whether the statement passes its tensors to functions, or already uses threads."""
    for node in pre_order(body):
        if isinstance(node, AttrStmt) and node.attr_key == "thread_extent":
            return True
        if isinstance(node, Call) and getattr(node.op, "name", "") in ("tir.tvm_call_packed", "tir.call_packed"):
            return True
    return False


def _scope(stmt: Allocate) -> str:
    return getattr(stmt.buffer_var.type_annotation, "storage_scope", "") or "global"


def _is_independent(loop: For) -> bool:
    return loop.kind == ForKind.PARALLEL or bool(dict(loop.annotations or {}).get(INDEPENDENT))


def _has_threads(stmt: Stmt) -> bool:
    """Return whether there are independent loops outside the scope of thread-local memory."""
    if isinstance(stmt, SeqStmt):
        return any(_has_threads(s) for s in stmt.seq)
    if isinstance(stmt, Allocate):
        return _scope(stmt) == "global" and _has_threads(stmt.body)
    return isinstance(stmt, For) and any(_is_independent(loop) for loop in _nest(stmt)[0])


def _nest(stmt: Stmt) -> tuple[list[For], Stmt]:
    """Return a perfect nest of loops with constant starts and extents that do not depend on each other."""
    loops: list[For] = []
    while isinstance(stmt, For) and not any(v is x.loop_var for x in loops for v in variables(stmt.extent)):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def _kernels(stmt: Stmt) -> Stmt:
    if not _has_threads(stmt):
        return _kernel([], stmt)
    if isinstance(stmt, SeqStmt):
        return seq(*[_kernels(s) for s in stmt.seq])
    if isinstance(stmt, Allocate):
        return stmt.replace(body=_kernels(stmt.body))
    loops, body = _nest(stmt)
    carried = [loop for loop in loops if _is_independent(loop)]
    for loop in reversed(loops):
        if not _is_independent(loop):
            body = loop.replace(body=body)
    return _kernel(carried, body)


def _kernel(carried: list[For], body: Stmt) -> Stmt:
    """Return a kernel whose threads run the loops in parallel; one thread without loops."""
    total: PrimExpr = const(1, "int32")
    for loop in carried:
        total = total * primop.cast("int32", loop.extent)
    threads = THREADS if carried else 1
    count = total.value if isinstance(total, IntImm) else None
    if count == 0:
        return Evaluate(const(0, "int32"))
    if count is not None:
        threads = min(threads, count)
    blocks = total if threads == 1 else primop.floordiv(total + (threads - 1), const(threads, "int32"))
    block, thread = (
        IterVar(Range(min=const(0, "int32"), extent=e), Var(tag, "int32"), IterVar.ThreadIndex, tag)
        for tag, e in (("blockIdx.x", blocks), ("threadIdx.x", const(threads, "int32")))
    )
    number = block.var if threads == 1 else block.var * threads + thread.var
    values, rest = {}, number
    for loop in reversed(carried):
        extent = primop.cast("int32", loop.extent)
        place = rest if loop is carried[0] else primop.floormod(rest, extent)
        rest = primop.floordiv(rest, extent)
        values[loop.loop_var] = primop.cast(loop.loop_var.dtype, place) + loop.min
    body = substitute(body, values) if values else body
    memory = _TakeOut(number if carried else None, total)
    body = memory.stmt(body)
    if carried and not (count is not None and count % threads == 0):
        body = IfThenElse(number < total, body)
    for axis in (thread, block):
        body = AttrStmt(axis, "thread_extent", axis.dom.extent, body)
    for buffer in reversed(memory.taken):
        body = Allocate(buffer.data, buffer.dtype, buffer.shape, const(True, "bool"), body)
    return body


class _TakeOut(StmtRewriter):
    """A rewriter that moves allocations of global memory out of a kernel; each thread gets a slice of its own."""

    def __init__(self, number: PrimExpr | None, total: PrimExpr):
        self.number = number
        self.total = total
        self.taken: list[Buffer] = []
        self.moved: dict[Var, Buffer] = {}
        self.inner: set[Var] = set()

    def on_For(self, node: For) -> Stmt:
        self.inner.add(node.loop_var)
        kind = ForKind.SERIAL if node.kind == ForKind.PARALLEL else node.kind
        new = self.keep(node)
        return new.replace(kind=kind) if kind != node.kind else new

    def on_Allocate(self, node: Allocate) -> Stmt:
        if _scope(node) != "global":
            return self.keep(node)
        if any(v in self.inner for e in node.extents for v in variables(e)):
            raise TVMError(
                f"memory {node.buffer_var.name} of an extern operation has a size that depends on a loop around "
                "it; on a GPU its size must be known before the kernel starts"
            )
        data = Var(node.buffer_var.name, node.buffer_var.type_annotation)
        shape = node.extents if self.number is None else (self.total, *node.extents)
        buffer = decl_buffer(shape, node.dtype, data.name, data=data)
        self.taken.append(buffer)
        self.moved[node.buffer_var] = buffer
        return self.stmt(node.body)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        buffer = self.moved.get(new.buffer.data)
        return new if buffer is None else BufferStore(buffer, new.value, self.place(new.indices))

    def place(self, indices: tuple) -> tuple:
        return indices if self.number is None else (self.number, *indices)

    def expr(self, node: Node) -> Node:
        return rewrite(node, self.load)

    def load(self, node: Node) -> Node | None:
        if type(node) is not BufferLoad:
            return None
        buffer = self.moved.get(node.buffer.data)
        return None if buffer is None else BufferLoad(buffer, self.place(node.indices))
