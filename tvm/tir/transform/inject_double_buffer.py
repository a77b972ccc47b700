"""InjectDoubleBuffer: memory filled and used in each iteration of a loop gets two halves, so that the next
iteration's data are on their way while the present ones are used.

    for i: fill(t); use(t)   ->   fill(t half 0)
                                  for i: if i + 1 < n: fill(t half (i + 1) % 2); use(t half i % 2)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, PrimExpr, Var, const
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, seq
from .occurrence import mentions
from .statement import StmtRewriter, int_value, is_call
from .storage_flatten import product
from .unroll_loop import rename_bound

SCOPE = "double_buffer_scope"


class HalfShifter(StmtRewriter):
    """Accesses of one allocation go to the half that ``which`` (0 or 1) names."""

    def __init__(self, data: Var, size: PrimExpr, which: PrimExpr, buffers: dict[Buffer, Buffer]):
        self.data, self.size, self.which, self.buffers = data, size, which, buffers

    def buffer(self, buffer: Buffer) -> Buffer:
        got = self.buffers.get(buffer)
        if got is None:
            got = self.buffers[buffer] = buffer.replace(shape=(buffer.shape[0] * 2,))
        return got

    def shift(self, index: PrimExpr) -> PrimExpr:
        return index + primop.cast(index.dtype, self.which) * primop.cast(index.dtype, self.size)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after)

    def after(self, node: Any):
        if type(node) is BufferLoad and node.buffer.data is self.data:
            return BufferLoad(self.buffer(node.buffer), (self.shift(node.indices[0]),))
        if is_call(node, "tir.tvm_access_ptr") and node.args[1] is self.data:
            return Call(node.dtype, node.op, (*node.args[:2], self.shift(node.args[2]), *node.args[3:]))
        return None

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer.data is not self.data:
            return new
        return BufferStore(self.buffer(node.buffer), new.value, (self.shift(new.indices[0]),))


class DoubleBuffers(StmtRewriter):
    def on_For(self, node: For) -> Stmt:
        new = self.keep(node)
        return all_double_buffered(new) if new.kind in (ForKind.SERIAL, ForKind.UNROLLED) else new


def all_double_buffered(loop: For) -> Stmt:
    """The loop with each allocation in two halves that is to have them."""
    loop = loop.replace(body=allocations_first(loop.body))
    for found in find_allocations(loop.body):
        made = double_buffered(loop, *found)
        if made is not None:
            allocation, first, rest = made
            return allocation.replace(body=seq(first, all_double_buffered(rest)))
    return loop


def allocations_first(body: Stmt) -> Stmt:
    """An allocation around the last statements of a body, around all of it: the others do not know its memory."""
    if isinstance(body, SeqStmt) and isinstance(body.seq[-1], Allocate):
        inner = body.seq[-1]
        return inner.replace(body=allocations_first(seq(*body.seq[:-1], inner.body)))
    return body


def find_allocations(body: Stmt) -> Iterator[tuple[Allocate, list[Stmt]]]:
    """The allocations to double in the body of a loop, and the statements (attributes, allocations) around each."""
    around: list[Stmt] = []
    node = body
    while True:
        if isinstance(node, Allocate):
            if any(isinstance(n, AttrStmt) and n.attr_key == SCOPE and n.node is node.buffer_var
                   for n in post_order(node.body)):
                yield node, list(around)
            around.append(node)
            node = node.body
        elif isinstance(node, AttrStmt) and node.attr_key != SCOPE:
            around.append(node)
            node = node.body
        else:
            return


class Parts(NamedTuple):
    """What a body is made of: statements around it, those before the ones that fill the memory, those that use it."""

    around: list[Stmt]
    before: list[Stmt]
    fill: list[Stmt]
    use: list[Stmt]


def parts(body: Stmt, data: Var) -> Parts | None:
    around: list[Stmt] = []
    node = body
    while isinstance(node, Allocate) or (isinstance(node, AttrStmt) and node.node is not data):
        around.append(node)
        node = node.body
    if isinstance(node, AttrStmt) and node.attr_key == SCOPE:
        if isinstance(node.body, SeqStmt):
            first, *rest = node.body.seq
            return Parts(around, [], [first], rest)
        return None
    if isinstance(node, SeqStmt):
        for place, part in enumerate(node.seq):
            if isinstance(part, AttrStmt) and part.attr_key == SCOPE and part.node is data:
                fill, use = [part.body], list(node.seq[place + 1 :])
                if not use and isinstance(part.body, SeqStmt):
                    fill, use = [part.body.seq[0]], list(part.body.seq[1:])
                return Parts(around, list(node.seq[:place]), fill, use)
    return None


def double_buffered(loop: For, allocation: Allocate, around: list[Stmt]) -> tuple[Allocate, Stmt, For] | None:
    """The allocation with two halves, what fills the first, and the loop then; None when its form does not allow it."""
    data, size = allocation.buffer_var, product(allocation.extents)
    split = parts(allocation.body, data)
    if split is None:
        return None
    inner, before, fill, use = split
    outside = {s.buffer_var for s in [*around, *inner] if isinstance(s, Allocate)}
    if any(mentions(s, v) for s in fill for v in outside):
        return None
    if any(writes(s, data) for s in use) or any(mentions(s, data) for s in before):
        return None
    if any(touches_written(s, [*before, *use]) for s in fill):
        return None
    if int_value(size) is None and any(n is loop.loop_var for n in post_order(size)):
        return None
    var = loop.loop_var
    buffers: dict[Buffer, Buffer] = {}
    step = var - loop.min
    two = const(2, var.dtype)
    fill_stmt = seq(*fill)
    first = HalfShifter(data, size, const(0, var.dtype), buffers).stmt(substitute(fill_stmt, {var: loop.min}))
    ahead = substitute(fill_stmt, {var: var + 1})
    ahead = rename_bound(HalfShifter(data, size, primop.floormod(step + 1, two), buffers).stmt(ahead))
    ahead = IfThenElse(likely(step + 1 < loop.extent), AttrStmt(data, "double_buffer_write", const(1, "int32"), ahead))
    used = HalfShifter(data, size, primop.floormod(step, two), buffers).stmt(seq(*use))
    body = seq(*before, ahead, used)
    for statement in reversed([*around, *inner]):
        body = statement.replace(body=body)
    doubled: Stmt = AttrStmt(data, "double_buffer_write", const(1, "int32"), first)
    if int_value(loop.extent) is None:
        doubled = IfThenElse(likely(loop.extent > 0), doubled)
    return allocation.replace(extents=(size * 2,)), doubled, loop.replace(body=body)


def likely(condition: PrimExpr) -> PrimExpr:
    return Call("bool", Op.get("tir.likely"), (condition,))


def writes(node: Stmt, data: Var) -> bool:
    return any(isinstance(n, BufferStore) and n.buffer.data is data for n in post_order(node))


def touches_written(fill: Stmt, use: list[Stmt]) -> bool:
    """Whether filling reads memory that using writes: then it cannot run ahead."""
    written = {n.buffer.data for s in use for n in post_order(s) if isinstance(n, BufferStore)}
    if any(isinstance(n, BufferLoad) and n.buffer.data in written for n in post_order(fill)):
        return True
    return any(is_call(n, "tir.call_extern", "tir.tvm_call_packed", "tir.tvm_access_ptr") for n in post_order(fill))


class Stripper(StmtRewriter):
    def __init__(self, data: Var | None):
        self.data = data

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == SCOPE and (self.data is None or node.node is self.data):
            return self.stmt(node.body)
        return self.keep(node)


def strip(body: Stmt, data: Var | None) -> Stmt:
    return Stripper(data).stmt(body)


def inject_double_buffer(func: PrimFunc, config: Any = None) -> PrimFunc:
    if not any(isinstance(n, AttrStmt) and n.attr_key == SCOPE for n in post_order(func.body)):
        return func
    return func.replace(body=strip(DoubleBuffers().stmt(func.body), None))


