"""OverlapEpilogue: rows of an epilogue are written by the product that computes them, and iterations overlap.

    for j: product(j) -> c; for row: out[j, row] = f(c[row])

    ->  first(0); for j: product(j), which writes out[j, row] = f(x) in place of c[row] = x; last(n - 1)

The pragma ``overlap_epilogue`` asks for it. A product says by attributes what may be done with its statements:

- ``overlap_row``: the body stores a row of ``c``, which the product does not use any more. Its value is the number of
  the row, its node is how many rows there are.
- ``overlap_first``: what begins a product, and ``overlap_last``: what is left to do at its end. Of several iterations
  that overlap, only the first and the last one have them.
- ``overlap_next``: loads for an iteration so many later, as its value says, of which the last one needs none.
- ``overlap_previous``: what the product before has left to do. It stands where nobody has used ``c`` yet.

Where a loop stays as it is, products keep what is first, last and next, and have nothing to do for the one before.
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
# How a call uses memory that it takes a pointer to.
_READS, _WRITES = 1, 2


def marked(node: Stmt, *keys: str) -> list[AttrStmt]:
    return [n for n in statements_in(node) if isinstance(n, AttrStmt) and n.attr_key in keys]


class Parts(NamedTuple):
    """A loop whose iterations have a ``memory`` of their own, which the product sets, and then an epilogue: a loop over
    ``rows`` with attributes ``around`` it. The product is ``statements`` inside the ``allocations`` of what it uses."""

    loop: For
    memory: Allocate
    allocations: list[Allocate]
    statements: tuple[Stmt, ...]
    around: list[AttrStmt]
    rows: For


def parts_of(loop: For) -> Parts | None:
    """The parts of a loop whose epilogue may be written by the product; None of another."""
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
    """Whether rows of the epilogue may be written by the product: neither touches what the other writes, but for the
    memory of the product, of which a row reads what the product last stores there. Every row of the epilogue is one of
    the product's, and its first and last statements stand alone."""
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


def row_of(parts: Parts, final: AttrStmt) -> Stmt | None:
    """The row of the epilogue that follows a row of the product, with its value in place of memory; None where it reads
    something else of that memory."""
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
    """Whether two indices into a memory of few elements, which no type of an index is too small for, are the same."""
    (a,), (b,) = some, others
    if isinstance(a, Ramp) and isinstance(b, Ramp):
        is_row = a.lanes == b.lanes and int_value(a.stride) == int_value(b.stride) == 1
        return is_row and is_same_place((a.base,), (b.base,))
    return not isinstance(a, Ramp) and not isinstance(b, Ramp) and Analyzer().can_prove_equal(short(a), short(b))


def short(index: PrimExpr) -> PrimExpr:
    """An index in 32 bits."""

    def change(n):
        if isinstance(n, Cast) and n.dtype == "int64" and n.value.dtype == "int32":
            return n.value
        return const(n.value, "int32") if isinstance(n, IntImm) and n.dtype == "int64" else n

    return rewrite(index, change)


class Rows(StmtRewriter):
    """The statements of an iteration among others, with rows of the epilogue."""

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
        # A loop that has been divided into parts is several.
        loops = node.body.seq if isinstance(node.body, SeqStmt) else (node.body,)
        return seq(*(self.loop(part) for part in loops))

    def loop(self, node: Stmt) -> Stmt:
        parts = parts_of(node) if isinstance(node, For) and self.may else None
        return self.stmt(node if parts is None else overlapped(parts))


def overlap_epilogue(func: PrimFunc) -> PrimFunc:
    if not marked(func.body, PRAGMA, *KEYS):
        return func
    return func.replace(body=Overlapper(bool(func.attrs.get("tir.noalias"))).stmt(func.body))
