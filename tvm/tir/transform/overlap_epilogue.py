"""OverlapEpilogue: the rows that a loop writes from a product are written while the next product is computed.

    for j: product(j) -> c; for row: out[j, row] = f(c[row])

    ->  for j: product(j) -> c[j % 2], and in it the rows out[j - 1, row] = f(c[(j - 1) % 2, row])
        for row: out[n - 1, row] = f(c[(n - 1) % 2, row])

The pragma ``overlap_epilogue`` asks for it. The product says where rows may be written: it passes a place marked with
``overlap_point(number, count)`` once for each number below the count, in this order. Rows are spread evenly over them.
The marks vanish, also where a loop stays as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir import primop
from ...ir.prim import BufferLoad, Call, Let, PrimExpr, Var
from ...ir.subst import substitute
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    no_op,
    seq,
)
from .inject_double_buffer import PieceShifter
from .statement import StmtRewriter, int_value, is_call, statements_in
from .storage_flatten import product as product_of
from .tagged_memory import constant_bytes
from .unroll_loop import rename_bound

PRAGMA = "pragma_overlap_epilogue"
POINT = "tir.overlap_point"
# How a call uses memory that it takes a pointer to.
_READS, _WRITES = 1, 2


def points_of(node: Stmt) -> list[Call]:
    return [n.value for n in statements_in(node) if isinstance(n, Evaluate) and is_call(n.value, POINT)]


class Parts(NamedTuple):
    """A loop whose iterations have a ``memory`` of their own, which the ``product`` sets, passing so many ``points``,
    and then an epilogue: a loop over ``rows``, so many in ``count``, with attributes ``around`` it."""

    loop: For
    memory: Allocate
    product: Stmt
    points: int
    around: list[AttrStmt]
    rows: For
    count: int


def parts_of(loop: For) -> Parts | None:
    """The parts of a loop whose epilogue may overlap with products; None of another."""
    memory = loop.body
    if loop.kind is not ForKind.SERIAL or (int_value(loop.extent) or 0) < 2:
        return None
    if not isinstance(memory, Allocate) or constant_bytes(memory) is None or not isinstance(memory.body, SeqStmt):
        return None
    *first, rows = memory.body.seq
    around: list[AttrStmt] = []
    while isinstance(rows, AttrStmt):
        around.append(rows)
        rows = rows.body
    if not isinstance(rows, For) or rows.kind is not ForKind.SERIAL or points_of(rows):
        return None
    points, count = {int_value(p.args[1]) or 0 for s in first for p in points_of(s)}, int_value(rows.extent) or 0
    if len(points) != 1 or 0 in points or count == 0:
        return None
    parts = Parts(loop, memory, seq(*first), points.pop(), around, rows, count)
    return parts if may_overlap(parts) else None


def may_overlap(parts: Parts) -> bool:
    """Whether rows of the epilogue may be written at any time of the next product: neither touches what the other
    writes, but for the memory of the product, of which there will be two pieces."""
    memory, row = parts.memory.buffer_var, accesses(parts.rows)
    product = accesses(parts.product)
    if row is None or product is None or row.unknown or memory in row.writes | product.unknown:
        return False
    if any(isinstance(n, Evaluate) for n in statements_in(parts.rows)):
        return False
    changed = (product.writes | product.unknown) - {memory}
    return not row.writes & (changed | product.reads) and not row.reads & changed


class Accesses(NamedTuple):
    """Pointers to memory that is read, memory that is written, and memory that is used in ways that are not known."""

    reads: set[Var]
    writes: set[Var]
    unknown: set[Var]


def accesses(node: Stmt) -> Accesses | None:
    """What a statement uses; None where pointers have other names."""
    found = Accesses(set(), set(), set())
    for n in post_order(node):
        if isinstance(n, BufferLoad):
            found.reads.add(n.buffer.data)
        elif isinstance(n, BufferStore):
            found.writes.add(n.buffer.data)
        elif is_call(n, "tir.tvm_access_ptr"):
            mask = int_value(n.args[4]) or _READS | _WRITES
            found.reads.update([n.args[1]] * bool(mask & _READS))
            found.writes.update([n.args[1]] * bool(mask & _WRITES))
        elif is_call(n, "tir.address_of"):
            found.unknown.add(n.args[0].buffer.data)
        elif isinstance(n, Call):
            found.unknown.update(a for a in n.args if isinstance(a, Var) and a.dtype == "handle")
        elif isinstance(n, (LetStmt, Let)) and n.var.dtype == "handle":
            return None
    return found


class Placer(StmtRewriter):
    """Puts the rows of the iteration before at the points of a product."""

    def __init__(self, parts: Parts):
        self.parts = parts
        # Every so many points there are so many rows.
        self.every = max(parts.points // parts.count, 1)
        self.each = -(-parts.count // (parts.points // self.every))

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        if not is_call(node.value, POINT):
            return node
        parts, number = self.parts, node.value.args[0]
        x = Var("row", parts.rows.loop_var.dtype)
        rows = For(x, 0, self.each, ForKind.SERIAL, self.row(primop.floordiv(number, self.every) * self.each + x))
        # The first iteration has none before it.
        begun = parts.loop.loop_var > parts.loop.min
        return IfThenElse(primop.logical_and(primop.equal(primop.floormod(number, self.every), 0), begun), rows)

    def row(self, number: PrimExpr) -> Stmt:
        parts, rows = self.parts, self.parts.rows
        row = epilogue(parts, substitute(rows.body, {rows.loop_var: rows.min + number}), parts.loop.loop_var - 1)
        most = ((parts.points - 1) // self.every + 1) * self.each
        return row if most == parts.count else IfThenElse(number < parts.count, row)


def piece(parts: Parts, node: Stmt) -> Stmt:
    """A statement of an iteration with the piece of the memory that belongs to it."""
    size, which = product_of(parts.memory.extents), primop.floormod(parts.loop.loop_var - parts.loop.min, 2)
    return PieceShifter(parts.memory.buffer_var, size, which, 2, {}).stmt(node)


def epilogue(parts: Parts, body: Stmt, iteration: PrimExpr) -> Stmt:
    """The epilogue of an iteration, or a row of it."""
    for attribute in reversed(parts.around):
        body = attribute.replace(body=body)
    return rename_bound(substitute(piece(parts, body), {parts.loop.loop_var: iteration}))


def overlapped(parts: Parts) -> Stmt:
    loop = parts.loop
    inside = Placer(parts).stmt(piece(parts, parts.product))
    last = epilogue(parts, parts.rows, loop.min + (int_value(loop.extent) - 1))
    memory = parts.memory.replace(extents=(product_of(parts.memory.extents) * 2,))
    return memory.replace(body=seq(loop.replace(body=inside), last))


class Overlapper(StmtRewriter):
    def __init__(self, may: bool):
        self.may = may

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != PRAGMA:
            return self.keep(node)
        # A loop that has been divided into parts is several.
        loops = node.body.seq if isinstance(node.body, SeqStmt) else (node.body,)
        return seq(*(self.loop(part) for part in loops))

    def loop(self, node: Stmt) -> Stmt:
        parts = parts_of(node) if isinstance(node, For) and self.may else None
        return self.stmt(node if parts is None else overlapped(parts))

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        return no_op() if is_call(node.value, POINT) else node


def overlap_epilogue(func: PrimFunc) -> PrimFunc:
    if not any(isinstance(n, AttrStmt) and n.attr_key == PRAGMA or isinstance(n, Evaluate) and is_call(n.value, POINT)
               for n in statements_in(func.body)):
        return func
    return func.replace(body=Overlapper(bool(func.attrs.get("tir.noalias"))).stmt(func.body))
