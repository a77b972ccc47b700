"""MergeDynamicSharedMemoryAllocations: merge the dynamic shared memory of a kernel into one allocation.

Buffers with disjoint lifetimes share memory. A lifetime consists of top-level statements of the kernel that are not in
a loop. A barrier separates two buffers that share memory, because a thread must not write to it while another thread
still reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, Ramp, StringImm, Var, const
from ...ir.type import PointerType, PrimType
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, Evaluate, LetStmt, SeqStmt, Stmt, seq
from .prepare_warpgroup_products import ROW, ROWS, operands_of
from .statement import StmtRewriter, is_call, statements_in
from .tagged_memory import constant_bytes, scope_of

SCOPE = "shared.dyn"
ALIGNMENT = 16


class Merger(StmtRewriter):
    def __init__(self, merged: Var, offsets: dict[Var, int], total: int, before: set[int]):
        self.merged, self.offsets, self.total = merged, offsets, total
        self.before = before  # Statements that wait for all threads
        self.buffers: dict[Buffer, Buffer] = {}
        self.placed = False

    def stmt(self, node: Stmt) -> Stmt:
        new = StmtRewriter.stmt(self, node)
        if id(node) not in self.before:
            return new
        return seq(Evaluate(Call("int32", Op.get("tir.tvm_storage_sync"), (StringImm("shared"),))), new)

    def buffer(self, buffer: Buffer) -> Buffer:
        got = self.buffers.get(buffer)
        if got is None:
            got = self.buffers[buffer] = buffer.replace(data=self.merged)
        return got

    def place(self, data: Var, dtype: str, index):
        offset = self.offsets[data] // (info(dtype).bytes * info(dtype).lanes)
        if isinstance(index, Ramp):
            return Ramp(index.base + offset, index.stride, index.lanes)
        return index + const(offset, index.dtype)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after, self.pointer)

    def pointer(self, node: Any):
        """Keep the form of a pointer expression; replacing only its variable would change the form."""
        if is_call(node, "tir.tvm_access_ptr") and node.args[1] in self.offsets:
            offset = self.place(node.args[1], node.args[0].dtype, self.expr(node.args[2]))
            return Call(node.dtype, node.op, (node.args[0], self.merged, offset, *node.args[3:]))
        return None

    def after(self, node: Any):
        if type(node) is BufferLoad and node.buffer.data in self.offsets:
            index = self.place(node.buffer.data, node.buffer.dtype, node.indices[0])
            return BufferLoad(self.buffer(node.buffer), (index,))
        if isinstance(node, Var) and node in self.offsets:
            parent = Buffer(self.merged, "uint8", (const(self.total, "int32"),), (), const(0, "int32"), "buf_dyn_shmem")
            load = BufferLoad(parent, (const(self.offsets[node], "int32"),))
            return Call("handle", Op.get("tir.address_of"), (load,))
        return None

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer.data not in self.offsets:
            return new
        index = self.place(node.buffer.data, node.buffer.dtype, new.indices[0])
        return BufferStore(self.buffer(node.buffer), new.value, (index,))

    def on_Allocate(self, node: Allocate) -> Stmt:
        return self.stmt(node.body) if node.buffer_var in self.offsets else self.keep(node)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "thread_extent" or self.placed:
            return self.keep(node)
        self.placed = True
        body = self.stmt(node.body)
        return node.replace(
            body=Allocate(self.merged, "uint8", (const(self.total, "int32"),), const(True, "bool"), body)
        )


@dataclass(slots=True)
class Life:
    """A buffer with its size, the alignment of its offset, the first and last statement that use it, and its offset."""

    data: Var
    size: int
    alignment: int = ALIGNMENT
    first: int = -1
    last: int = -1
    offset: int = 0

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last

    def overlaps(self, other: Life) -> bool:
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


def statements_of(body: Stmt) -> list[Stmt]:
    """Return the statements that a kernel executes one after the other; a loop or condition is one statement."""
    if isinstance(body, SeqStmt):
        return [x for s in body.seq for x in statements_of(s)]
    return statements_of(body.body) if isinstance(body, (AttrStmt, Allocate, LetStmt)) else [body]


def lives_of(found: list[Allocate], statements: list[Stmt]) -> list[Life]:
    lives = {}
    # Matrix operands must be aligned to the size of the swizzle pattern.
    matrices = {data for s in statements for data in operands_of(s)}
    for node in found:
        size = constant_bytes(node)
        if size is None:
            raise TVMError(
                f"{node.buffer_var.name}: a kernel with several dynamic shared memory allocations needs constant sizes"
            )
        alignment = ROW * ROWS if node.buffer_var in matrices else ALIGNMENT
        lives[node.buffer_var] = Life(node.buffer_var, -(-size // ALIGNMENT) * ALIGNMENT, alignment)
    for at, statement in enumerate(statements):
        for node in post_order(statement):
            data = node.buffer.data if isinstance(node, (BufferLoad, BufferStore)) else node
            life = lives.get(data) if isinstance(data, Var) else None
            if life is not None:
                life.first, life.last = at if life.first < 0 else life.first, at
    return sorted(lives.values(), key=lambda life: life.first)


def place(lives: list[Life]) -> int:
    """Assign each buffer the first free offset during its lifetime; return the total size."""
    total = 0
    for i, life in enumerate(lives):
        rivals = sorted((x for x in lives[:i] if x.meets(life)), key=lambda x: x.offset)
        for rival in rivals:
            if life.overlaps(rival):
                life.offset = -(-(rival.offset + rival.size) // life.alignment) * life.alignment
        total = max(total, life.offset + life.size)
    return total


def waits(lives: list[Life], statements: list[Stmt]) -> set[int]:
    """Return the statements that must wait until all threads have finished with the previous buffer in the same
    memory."""
    out: set[int] = set()
    for later in lives:
        before = [x.last for x in lives if x.last < later.first and x.overlaps(later)]
        if before and not any(is_barrier(s) for s in statements[max(before) + 1 : later.first]):
            out.add(id(statements[later.first]))
    return out


def is_barrier(node: Stmt) -> bool:
    return isinstance(node, Evaluate) and is_call(node.value, "tir.tvm_storage_sync")


def merge_dynamic_shared_memory_allocations(func: PrimFunc) -> PrimFunc:
    found = [n for n in statements_in(func.body) if isinstance(n, Allocate) and scope_of(n.buffer_var) == SCOPE]
    if len(found) < 2:
        return func
    statements = statements_of(func.body)
    lives = lives_of(found, statements)
    total = place(lives)
    merged = Var("buf_dyn_shmem", PointerType(PrimType("uint8"), SCOPE))
    offsets = {life.data: life.offset for life in lives}
    return func.replace(body=Merger(merged, offsets, total, waits(lives, statements)).stmt(func.body))
