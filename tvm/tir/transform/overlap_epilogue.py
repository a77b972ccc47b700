"""OverlapEpilogue: interleave the epilogue of a matmul with the matmul of the same and the next iteration.

    for j: matmul(j) -> c; for row: out[j, row] = f(c[row])

    ->  first(0); for j: matmul(j), which writes out[j, row] = f(x) in place of c[row] = x; last(n - 1)

The pragma ``overlap_epilogue`` requests this transformation. Attributes of the statements of a matmul describe what may
be done with them:

- ``overlap_row``: the body stores a row of ``c`` that the matmul does not use any more. The value is the index of the
  row, the node is the number of rows.
- ``overlap_first`` and ``overlap_last``: statements at the start and the end of a matmul. Of several overlapping
  iterations, only the first and the last one contain them.
- ``overlap_next``: loads for a later iteration. The value is the distance; the last iterations do not need them.

If a loop is not transformed, the statements under ``first``, ``last`` and ``next`` are kept, and those under
``previous`` are removed.
"""

from __future__ import annotations

from typing import NamedTuple

from ...arith import Analyzer
from ...ir import primop
from ...ir.prim import BufferLoad, Call, Cast, IntImm, Let, PrimExpr, Ramp, Var, const
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
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
from .statement import StmtRewriter, int_value, is_call, statements_in
from .tagged_memory import constant_bytes
from .unroll_loop import rename_bound

PRAGMA = "pragma_overlap_epilogue"
ROW, FIRST, LAST, NEXT, PREVIOUS = (f"overlap_{x}" for x in ("row", "first", "last", "next", "previous"))
KEYS = frozenset((ROW, FIRST, LAST, NEXT, PREVIOUS))
# Access modes of a call for a pointer argument.
_READS, _WRITES = 1, 2


def marked(node: Stmt, *keys: str) -> list[AttrStmt]:
    return [n for n in statements_in(node) if isinstance(n, AttrStmt) and n.attr_key in keys]


class Parts(NamedTuple):
    """A loop whose iterations compute a matmul into ``memory`` and then run an epilogue: a loop over ``rows`` inside
    the attributes ``around``. The matmul consists of ``statements`` inside the ``allocations`` of its temporary
    memory."""

    loop: For
    memory: Allocate
    allocations: list[Allocate]
    statements: tuple[Stmt, ...]
    around: list[AttrStmt]
    rows: For


def parts_of(loop: For) -> Parts | None:
    """Return the parts of a loop if the matmul may write its epilogue, else None."""
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
    if not isinstance(rows, For) or rows.kind is not ForKind.SERIAL or marked(rows, *KEYS):
        return None
    product, allocations = seq(*first), []
    while isinstance(product, Allocate) and constant_bytes(product) is not None:
        allocations.append(product)
        product = product.body
    statements = tuple(product.seq) if isinstance(product, SeqStmt) else (product,)
    parts = Parts(loop, memory, allocations, statements, around, rows)
    return parts if may_overlap(parts) else None


def may_overlap(parts: Parts) -> bool:
    """Return whether the matmul may write the rows of the epilogue. Neither may access what the other writes, except
    for the memory of the matmul: each row of the epilogue reads only the final value of the same row there. The first
    and last statements must be top-level statements."""
    memory, row, product = parts.memory.buffer_var, accesses(parts.rows), accesses(seq(*parts.statements))
    if row is None or product is None or row.unknown or memory in row.writes | product.unknown:
        return False
    if any(isinstance(n, Evaluate) for n in statements_in(parts.rows)):
        return False
    changed = (product.writes | product.unknown) - {memory}
    if row.writes & (changed | product.reads) or row.reads & changed:
        return False
    finals = marked(seq(*parts.statements), ROW)
    alone = sum(s.attr_key in (FIRST, LAST) for s in parts.statements if isinstance(s, AttrStmt))
    count, own = int_value(parts.rows.extent) or 0, {int_value(n.node) or 0 for n in finals}
    is_whole = len(own) == 1 and 0 < count <= own.pop() and alone == len(marked(seq(*parts.statements), FIRST, LAST))
    return is_whole and all(row_of(parts, n) is not None for n in finals)


class Accesses(NamedTuple):
    """The pointers to memory that is read, to memory that is written, and to memory that is used in unknown ways."""

    reads: set[Var]
    writes: set[Var]
    unknown: set[Var]


def accesses(node: Stmt) -> Accesses | None:
    """Return the accesses of a statement, or None if pointers have aliases."""
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


def row_of(parts: Parts, final: AttrStmt) -> Stmt | None:
    """Return the row of the epilogue for a row of the matmul, with its value in place of the load, or None if the row
    reads another element of that memory."""
    store, rows = final.body, parts.rows
    if not isinstance(store, BufferStore) or store.buffer.data is not parts.memory.buffer_var:
        return None
    body = substitute(rows.body, {rows.loop_var: rows.min + final.value})
    loads = [n for n in post_order(body) if isinstance(n, BufferLoad) and n.buffer.data is parts.memory.buffer_var]
    if not all(is_same_place(load.indices, store.indices) for load in loads):
        return None
    held = Var("row_sums", store.value.dtype)
    written = LetStmt(held, store.value, rewrite(body, lambda n: held if any(n is x for x in loads) else n))
    if int_value(final.node) == int_value(rows.extent):
        return written
    return IfThenElse(final.value < rows.extent, written)


def is_same_place(some: tuple[PrimExpr, ...], others: tuple[PrimExpr, ...]) -> bool:
    """Return whether two indices are equal. The memory is so small that indices cannot overflow."""
    (a,), (b,) = some, others
    if isinstance(a, Ramp) and isinstance(b, Ramp):
        is_row = a.lanes == b.lanes and int_value(a.stride) == int_value(b.stride) == 1
        return is_row and is_same_place((a.base,), (b.base,))
    return not isinstance(a, Ramp) and not isinstance(b, Ramp) and Analyzer().can_prove_equal(short(a), short(b))


def short(index: PrimExpr) -> PrimExpr:
    """Return an index in 32 bits."""

    def change(n):
        if isinstance(n, Cast) and n.dtype == "int64" and n.value.dtype == "int32":
            return n.value
        return const(n.value, "int32") if isinstance(n, IntImm) and n.dtype == "int64" else n

    return rewrite(index, change)


class Rows(StmtRewriter):
    """A rewriter that combines the statements of an iteration with rows of the epilogue."""

    def __init__(self, parts: Parts):
        self.parts, self.at = parts, parts.loop.loop_var
        self.last = parts.loop.min + (int_value(parts.loop.extent) or 0) - 1

    def iteration(self, node: Stmt, number: PrimExpr) -> Stmt:
        return rename_bound(substitute(self.stmt(node), {self.at: number}))

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == ROW:
            row = row_of(self.parts, node)
            assert row is not None
            for attribute in reversed(self.parts.around):
                row = attribute.replace(body=row)
            return row
        if node.attr_key == NEXT:
            return substitute(self.stmt(node.body), {self.at: primop.minimum(self.at + node.value, self.last)})
        if node.attr_key == PREVIOUS:
            return IfThenElse(self.at > self.parts.loop.min, self.iteration(node.body, self.at - 1))
        return self.keep(node)


def overlapped(parts: Parts) -> Stmt:
    rows, loop = Rows(parts), parts.loop
    alone: dict[str, list[Stmt]] = {FIRST: [], LAST: []}
    inside: list[Stmt] = []
    for s in parts.statements:
        if isinstance(s, AttrStmt) and s.attr_key in alone:
            alone[s.attr_key].append(s.body)
        else:
            inside.append(s)
    made = seq(
        *(rows.iteration(s, loop.min) for s in alone[FIRST]),
        loop.replace(body=rename_bound(rows.stmt(seq(*inside)))),
        *(rows.iteration(s, rows.last) for s in alone[LAST]),
    )
    for allocation in reversed((parts.memory, *parts.allocations)):
        made = allocation.replace(body=made)
    return made


class Overlapper(StmtRewriter):
    def __init__(self, may: bool):
        self.may = may

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == PREVIOUS:
            return no_op()
        if node.attr_key in KEYS:
            return self.stmt(node.body)
        if node.attr_key != PRAGMA:
            return self.keep(node)
        # A loop that was split consists of several loops.
        loops = node.body.seq if isinstance(node.body, SeqStmt) else (node.body,)
        return seq(*(self.loop(part) for part in loops))

    def loop(self, node: Stmt) -> Stmt:
        parts = parts_of(node) if isinstance(node, For) and self.may else None
        return self.stmt(node if parts is None else overlapped(parts))


def overlap_epilogue(func: PrimFunc) -> PrimFunc:
    if not marked(func.body, PRAGMA, *KEYS):
        return func
    return func.replace(body=Overlapper(bool(func.attrs.get("tir.noalias"))).stmt(func.body))
