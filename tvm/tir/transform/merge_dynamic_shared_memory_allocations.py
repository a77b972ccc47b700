"""MergeDynamicSharedMemoryAllocations: a kernel has one piece of dynamic shared memory; its buffers are parts of it.

Storage sharing has been decided before; here each buffer that is left gets its own place.
"""

from __future__ import annotations

from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, Var, const
from ...ir.type import PointerType, PrimType
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, Stmt
from .statement import StmtRewriter, is_call
from .storage_rewrite import constant_bytes, scope_of

SCOPE = "shared.dyn"
ALIGNMENT = 16


class Merger(StmtRewriter):
    def __init__(self, merged: Var, offsets: dict[Var, int], total: int):
        self.merged, self.offsets, self.total = merged, offsets, total
        self.buffers: dict[Buffer, Buffer] = {}
        self.placed = False

    def buffer(self, buffer: Buffer) -> Buffer:
        got = self.buffers.get(buffer)
        if got is None:
            got = self.buffers[buffer] = buffer.replace(data=self.merged)
        return got

    def place(self, data: Var, dtype: str, index):
        return index + const(self.offsets[data] // (info(dtype).bytes * info(dtype).lanes), index.dtype)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after)

    def after(self, node: Any):
        if type(node) is BufferLoad and node.buffer.data in self.offsets:
            index = self.place(node.buffer.data, node.buffer.dtype, node.indices[0])
            return BufferLoad(self.buffer(node.buffer), (index,))
        if is_call(node, "tir.tvm_access_ptr") and node.args[1] in self.offsets:
            offset = self.place(node.args[1], node.args[0].dtype, node.args[2])
            return Call(node.dtype, node.op, (node.args[0], self.merged, offset, *node.args[3:]))
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


def merge_dynamic_shared_memory_allocations(func: PrimFunc) -> PrimFunc:
    found = [n for n in post_order(func.body) if isinstance(n, Allocate) and scope_of(n.buffer_var) == SCOPE]
    if len(found) < 2:
        return func
    offsets: dict[Var, int] = {}
    total = 0
    for node in found:
        size = constant_bytes(node)
        if size is None:
            raise TVMError(
                f"{node.buffer_var.name}: a kernel with several pieces of dynamic shared memory needs their sizes known"
            )
        offsets[node.buffer_var] = total
        total += -(-size // ALIGNMENT) * ALIGNMENT
    merged = Var("buf_dyn_shmem", PointerType(PrimType("uint8"), SCOPE))
    return func.replace(body=Merger(merged, offsets, total).stmt(func.body))
