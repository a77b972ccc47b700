"""InjectDoubleBuffer: memory filled and used in each iteration of a loop gets two pieces or more, so that the data of
the next iterations are on their way while the present ones are used.

    for i: fill(t); use(t)   ->   fill(t piece 0)
                                  for i: if i + 1 < n: fill(t piece (i + 1) % 2); use(t piece i % 2)

The value of ``double_buffer_scope`` says how many iterations the fills are ahead. What fills for the first iterations
is marked with a count from one (``double_buffer_write``), and a loop whose fills are further ahead than one iteration
is annotated with how far. Memory that is read beside the program for some iterations more has as many pieces more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, PrimExpr, Var, const
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, seq
from .occurrence import mentions
from .statement import StmtRewriter, int_value, is_call, statements_in
from .storage_flatten import product
from .unroll_loop import rename_bound

SCOPE = "double_buffer_scope"
# Annotation of a loop: iterations by which its fills are ahead.
AHEAD = "double_buffer_ahead"


class PieceShifter(StmtRewriter):
    """Accesses of one allocation go to the piece that ``which`` names."""

    def __init__(self, data: Var, size: PrimExpr, which: PrimExpr, pieces: int, buffers: dict[Buffer, Buffer]):
        self.data, self.size, self.which, self.pieces, self.buffers = data, size, which, pieces, buffers

    def buffer(self, buffer: Buffer) -> Buffer:
        got = self.buffers.get(buffer)
        if got is None:
            got = self.buffers[buffer] = buffer.replace(shape=(buffer.shape[0] * self.pieces,))
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
    """The loop with each allocation in pieces that is to have them."""
    loop = loop.replace(body=allocations_first(loop.body))
    for found in find_allocations(loop.body):
        made = double_buffered(loop, *found)
        if made is not None:
            allocation, first, rest = made
            return allocation.replace(body=seq(first, all_double_buffered(rest)))
    annotations = loop.annotations or {}
    if annotations.get(AHEAD) == 1:
        return loop.replace(annotations={k: v for k, v in annotations.items() if k != AHEAD})
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
                   for n in statements_in(node.body)):
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
    """The allocation in pieces, what fills the first of them, and the loop then; None when its form does not allow
    it."""
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
    var, late = loop.loop_var, late_uses(use)
    distance = max(ahead_of(allocation.body, data) - late, 1)
    if int_value(loop.extent) is not None:
        distance = min(distance, max(int_value(loop.extent) - 1, 1))
    pieces, buffers = distance + 1 + late, {}
    step = var - loop.min
    fill_stmt = seq(*fill)

    def moved(statement: Stmt, which: PrimExpr) -> Stmt:
        return PieceShifter(data, size, which, pieces, buffers).stmt(statement)

    first = [first_fill(loop, data, i, moved(substitute(fill_stmt, {var: loop.min + i}), const(i, var.dtype)))
             for i in range(distance)]
    count = const(pieces, var.dtype)
    ahead = rename_bound(moved(substitute(fill_stmt, {var: var + distance}), primop.floormod(step + distance, count)))
    ahead = AttrStmt(data, "double_buffer_write", const(1, "int32"), ahead)
    ahead = IfThenElse(likely(step + distance < loop.extent), ahead)
    body = seq(*before, ahead, moved(seq(*use), primop.floormod(step, count)))
    for statement in reversed([*around, *inner]):
        body = statement.replace(body=body)
    # Waiting for the fill that is the least ahead is waiting for all of them.
    known = min(distance, (loop.annotations or {}).get(AHEAD, distance))
    annotations = {**(loop.annotations or {}), AHEAD: known}
    return allocation.replace(extents=(size * pieces,)), seq(*first), loop.replace(body=body, annotations=annotations)


def ahead_of(body: Stmt, data: Var) -> int:
    """Iterations by which the memory is to be filled before it is used."""
    return next(n.value.value for n in statements_in(body)
                if isinstance(n, AttrStmt) and n.attr_key == SCOPE and n.node is data)


def late_uses(use: list[Stmt]) -> int:
    """Iterations after which the memory of one may still be read: by products that run beside the program."""
    waits = [int_value(n.args[0]) for s in use for n in post_order(s) if is_call(n, "tir.ptx_wgmma_wait")]
    return min(waits, default=0)


def first_fill(loop: For, data: Var, index: int, fill: Stmt) -> Stmt:
    """The fill for one of the first iterations, if the loop has as many. Its mark stands whether or not it has."""
    if index:
        fill = rename_bound(fill)
    if int_value(loop.extent) is None:
        fill = IfThenElse(likely(loop.extent > index), fill)
    return AttrStmt(data, "double_buffer_write", const(index + 1, "int32"), fill)


def likely(condition: PrimExpr) -> PrimExpr:
    return Call("bool", Op.get("tir.likely"), (condition,))


def writes(node: Stmt, data: Var) -> bool:
    return any(isinstance(n, BufferStore) and n.buffer.data is data for n in statements_in(node))


def touches_written(fill: Stmt, use: list[Stmt]) -> bool:
    """Whether filling reads memory that using writes: then it cannot run ahead."""
    written = {n.buffer.data for s in use for n in statements_in(s) if isinstance(n, BufferStore)}
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
    if not any(isinstance(n, AttrStmt) and n.attr_key == SCOPE for n in statements_in(func.body)):
        return func
    split = getattr(config, "split_loop", 1)
    if split not in (0, 1):
        # Several iterations in one would fill pieces of memory that others of them use, between which there is no
        # barrier.
        raise TVMError(f"tir.InjectDoubleBuffer: split_loop is 0 or 1, got {split}: a loop that fills memory ahead is "
                       "not split")
    return func.replace(body=strip(DoubleBuffers().stmt(func.body), None))


