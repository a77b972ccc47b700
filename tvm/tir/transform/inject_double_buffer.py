"""InjectDoubleBuffer: memory that each loop iteration fills and reads gets two or more parts, so that one part is
filled for later iterations while another is read.

    for i: fill(t); use(t)   ->   fill(t part 0)
    for i: if i + 1 < n: fill(t part (i + 1) % 2); use(t part i % 2)

The value of ``double_buffer_scope`` is the prefetch distance: the number of iterations between filling and reading. The
fills before the loop have an attribute ``double_buffer_write`` that counts from one. A loop with a distance greater
than one has an annotation with the distance. If asynchronous instructions read the memory for further iterations, it
has as many additional parts.
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
# Annotation of a loop: the prefetch distance of its fills in iterations.
PREFETCH_DISTANCE = "double_buffer_ahead"


class PieceShifter(StmtRewriter):
    """A rewriter that shifts the accesses of one allocation to the part with index ``which``."""

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
    """Apply double buffering to all marked allocations of a loop."""
    loop = loop.replace(body=allocations_first(loop.body))
    for found in find_allocations(loop.body):
        made = double_buffered(loop, *found)
        if made is not None:
            allocation, first, rest = made
            return allocation.replace(body=seq(first, all_double_buffered(rest)))
    annotations = loop.annotations or {}
    if annotations.get(PREFETCH_DISTANCE) == 1:
        return loop.replace(annotations={k: v for k, v in annotations.items() if k != PREFETCH_DISTANCE})
    return loop


def allocations_first(body: Stmt) -> Stmt:
    """Move an allocation around the last statements of a body to the whole body; the other statements do not use its
    memory."""
    if isinstance(body, SeqStmt) and isinstance(body.seq[-1], Allocate):
        inner = body.seq[-1]
        return inner.replace(body=allocations_first(seq(*body.seq[:-1], inner.body)))
    return body


def find_allocations(body: Stmt) -> Iterator[tuple[Allocate, list[Stmt]]]:
    """Return the allocations to double-buffer in the body of a loop, and the statements (attributes, allocations)
    around each."""
    around: list[Stmt] = []
    node = body
    while True:
        if isinstance(node, Allocate):
            if any(
                isinstance(n, AttrStmt) and n.attr_key == SCOPE and n.node is node.buffer_var
                for n in statements_in(node.body)
            ):
                yield node, list(around)
            around.append(node)
            node = node.body
        elif isinstance(node, AttrStmt) and node.attr_key != SCOPE:
            around.append(node)
            node = node.body
        else:
            return


class Parts(NamedTuple):
    """The parts of a loop body: enclosing statements, statements before the fills, the fills, and statements that read
    the memory."""

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
    """Return the allocation with its parts, the first fills and the new loop, or None if the loop does not have the
    required form."""
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
    var, late = loop.loop_var, async_read_distance(use)
    distance = max(prefetch_distance(allocation.body, data) - late, 1)
    if int_value(loop.extent) is not None:
        distance = min(distance, max(int_value(loop.extent) - 1, 1))
    pieces, buffers = distance + 1 + late, {}
    step = var - loop.min
    fill_stmt = seq(*fill)

    def moved(statement: Stmt, which: PrimExpr) -> Stmt:
        return PieceShifter(data, size, which, pieces, buffers).stmt(statement)

    first = [
        first_fill(loop, data, i, moved(substitute(fill_stmt, {var: loop.min + i}), const(i, var.dtype)))
        for i in range(distance)
    ]
    count = const(pieces, var.dtype)
    ahead = rename_bound(moved(substitute(fill_stmt, {var: var + distance}), primop.floormod(step + distance, count)))
    ahead = AttrStmt(data, "double_buffer_write", const(1, "int32"), ahead)
    ahead = IfThenElse(likely(step + distance < loop.extent), ahead)
    body = seq(*before, ahead, moved(seq(*use), primop.floormod(step, count)))
    for statement in reversed([*around, *inner]):
        body = statement.replace(body=body)
    # Waiting for the fill with the smallest distance also waits for all others.
    known = min(distance, (loop.annotations or {}).get(PREFETCH_DISTANCE, distance))
    annotations = {**(loop.annotations or {}), PREFETCH_DISTANCE: known}
    return allocation.replace(extents=(size * pieces,)), seq(*first), loop.replace(body=body, annotations=annotations)


def prefetch_distance(body: Stmt, data: Var) -> int:
    """Return the prefetch distance of an allocation in iterations."""
    return next(
        n.value.value for n in statements_in(body) if isinstance(n, AttrStmt) and n.attr_key == SCOPE and n.node is data
    )


def async_read_distance(use: list[Stmt]) -> int:
    """Return the number of further iterations in which asynchronous matmul instructions may still read the memory."""
    waits = [int_value(n.args[0]) for s in use for n in post_order(s) if is_call(n, "tir.ptx_wgmma_wait")]
    return min(waits, default=0)


def first_fill(loop: For, data: Var, index: int, fill: Stmt) -> Stmt:
    """Return the fill for one of the first iterations, under a condition if the loop may be shorter. The attribute is
    outside the condition."""
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
    """Return whether filling reads memory that the reading statements write; then the fill cannot run ahead."""
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
        # With several original iterations per iteration, the fills would overwrite parts that another iteration reads,
        # without a barrier between them.
        raise TVMError(
            f"tir.InjectDoubleBuffer: split_loop must be 0 or 1, got {split}; a double-buffered loop cannot be split"
        )
    return func.replace(body=strip(DoubleBuffers().stmt(func.body), None))
