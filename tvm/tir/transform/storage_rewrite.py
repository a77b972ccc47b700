"""StorageRewrite: allocations with disjoint lifetimes share memory, and large allocations move out of loops.

A frame is code that runs in one thread: a function, the body of a parallel loop, or a kernel. Large allocations move
out of the loops of their frame. Allocations at one level (a frame or the body of a loop) share memory if one is dead
before the other is written; workspace allocations share it also between types. A value may overwrite its operand if
each element is computed from the same element and from no other element of that operand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...arith import Analyzer
from ...arith.sums import integer_sum
from ...dtype import info
from ...ir import primop
from ...ir.node import Node
from ...ir.prim import BufferLoad, PrimExpr, Ramp, Var, const
from ...ir.structural import structural_equal
from ...ir.subst import substitute
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, For, ForKind, LetStmt, SeqStmt, Stmt, While
from .lower_tvm_builtin import STACK_BYTES
from .statement import StmtRewriter, int_value, statements_in, uses_any
from .storage_flatten import product
from .tagged_memory import check_tagged_memory, constant_bytes, is_packed, is_tagged, pack_tagged_memory, scope_of

# Attributes that start a new frame.
_FRAMES = ("thread_extent", "device_scope", "pipeline_exec_scope", "compute_scope")
# The size of a vector register on most processors.
_REGISTER_BYTES = 32


def may_share(node: Allocate) -> bool:
    """Return whether memory may be shared. Memory that fits in a vector register is not shared, so that it stays in a
    register."""
    if int_value(node.condition) != 1 or node.annotations:
        return False
    size, scope = constant_bytes(node), scope_of(node.buffer_var)
    return is_tagged(scope) or scope == "shared" or (scope == "global" and (size is None or size > _REGISTER_BYTES))


def may_leave_loops(node: Allocate) -> bool:
    """Return whether an allocation should move out of loops: a workspace, or memory of a tagged scope."""
    size = constant_bytes(node)
    return may_share(node) and (size is None or size > STACK_BYTES or is_tagged(scope_of(node.buffer_var)))


# Moving allocations out of loops ----------------------------------------------------------------------------------


class AllocationRemover(StmtRewriter):
    """A rewriter that removes the allocations that may leave a loop body, without those of inner loops and frames."""

    def __init__(self, bound: set[Var]):
        self.bound = bound  # Variables that are not defined outside the loop
        self.moved: list[Allocate] = []

    def on_Allocate(self, node: Allocate) -> Stmt:
        if may_leave_loops(node) and not any(uses_any(e, self.bound) for e in node.extents):
            self.moved.append(node)
            return self.stmt(node.body)
        body = self.stmt(node.body)
        return node if body is node.body else node.replace(body=body)

    def on_For(self, node: For) -> Stmt:
        return node

    def on_While(self, node: While) -> Stmt:
        return node

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node if node.attr_key in _FRAMES else self.keep(node)

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        self.bound.add(node.var)
        return self.keep(node)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        return node


# Sharing ----------------------------------------------------------------------------------------------------------


@dataclass
class Life:
    """The lifetime of an allocation: the positions of the first and last statement of its level that access it."""

    node: Allocate
    first: int = -1
    last: int = -1
    first_is_write: bool = False
    shares: Var | None = None
    statements: dict[int, Stmt] = field(default_factory=dict)


def pointers_of(node: Node) -> tuple[set[Var], set[Var], set[Var]]:
    """Return the pointers that are read or written through buffers, and those that are used in any other way."""
    reads, writes, other = set(), set(), set()
    for n in post_order(node):
        if isinstance(n, BufferLoad):
            reads.add(n.buffer.data)
        elif isinstance(n, BufferStore):
            writes.add(n.buffer.data)
        elif isinstance(n, Var) and n.dtype == "handle":
            other.add(n)
        elif isinstance(n, AttrStmt) and isinstance(n.node, Var) and n.node.dtype == "handle":
            other.add(n.node)
    return reads, writes, other


class MemorySharing(StmtRewriter):
    """A rewriter that plans each level after its inner levels and then moves allocations out of loops. The replacements
    are applied in one traversal at the end."""

    def __init__(self):
        self.replaced: dict[Var, Var] = {}
        self.sizes: dict[Var, int] = {}

    def root(self, var: Var) -> Var:
        while var in self.replaced:
            var = self.replaced[var]
        return var

    def level(self, body: Stmt) -> None:
        """Plan a level, a function or loop body: the allocations in it, in sequence or nested, without those of inner
        loops."""
        allocations: list[Allocate] = []
        statements: list[Stmt] = []
        if self.flatten(body, allocations, statements) and len(allocations) > 1:
            self.plan(self.lives(allocations, statements))

    def flatten(self, node: Stmt, allocations: list[Allocate], statements: list[Stmt]) -> bool:
        """Return the statements of a level in order. Attributes and lets are not entered, because their extent
        matters."""
        if isinstance(node, Allocate):
            if may_share(node) and node.buffer_var not in self.replaced:
                allocations.append(node)
            return self.flatten(node.body, allocations, statements)
        if isinstance(node, SeqStmt):
            return all(self.flatten(s, allocations, statements) for s in node.seq)
        if isinstance(node, AttrStmt) and node.attr_key in ("storage_alignment", "volatile_scope"):
            return False
        statements.append(node)
        return True

    def lives(self, allocations: list[Allocate], statements: list[Stmt]) -> list[Life]:
        lives = {a.buffer_var: Life(a) for a in allocations}
        for position, statement in enumerate(statements):
            reads, writes, other = ({self.root(v) for v in found} for found in pointers_of(statement))
            for var, life in lives.items():
                if var in reads or var in writes or var in other:
                    if life.first < 0:
                        life.first = position
                        life.first_is_write = var not in reads and var not in other
                    life.last = position
                    life.statements[position] = statement
                if var in other:
                    life.shares = var  # The address escapes, so the memory is not shared
        return [v for v in lives.values() if v.first >= 0 and v.shares is None]

    def plan(self, lives: list[Life]) -> None:
        """Assign memory greedily, in order of first use: reuse the dead allocation that fits best, preferably one of
        the same type."""
        free: list[Life] = []
        active: list[Life] = []
        for life in sorted(lives, key=lambda v: v.first):
            ended = [v for v in active if v.last < life.first]
            for v in ended:
                active.remove(v)
                free.append(v)
            taken = self.best(free, life) or self.in_place(active, life)
            if taken is not None:
                (free if taken in free else active).remove(taken)
                root, var = self.root(taken.node.buffer_var), life.node.buffer_var
                self.replaced[var] = root
                if constant_bytes(life.node) is not None:
                    own = max(constant_bytes(life.node), self.sizes.pop(var, 0))
                    self.sizes[root] = max(self.sizes.get(root, 0), constant_bytes(taken.node), own)
            active.append(life)

    def best(self, free: list[Life], life: Life) -> Life | None:
        """Return the dead allocation closest in size; much larger or smaller ones are not used."""
        wanted = constant_bytes(life.node)
        fitting = [v for v in free if same_kind(v.node, life.node)]
        if wanted is None:
            return next(iter(fitting), None)
        fitting = fitting or [v for v in free if may_change_type(v.node, life.node)]
        fitting = [v for v in fitting if wanted / 16 <= self.held(v) <= wanted * 16]
        return min(fitting, key=lambda v: abs(self.held(v) - wanted), default=None)

    def held(self, life: Life) -> int:
        return max(self.sizes.get(self.root(life.node.buffer_var), 0), constant_bytes(life.node))

    def in_place(self, active: list[Life], life: Life) -> Life | None:
        for other in active:
            if other.last == life.first and life.first_is_write and same_kind(other.node, life.node):
                if computes_in_place(life.statements[life.first], life.node.buffer_var, other.node.buffer_var):
                    return other
        return None

    # Traversal ------------------------------------------------------------------------------------------------
    def on_For(self, node: For) -> Stmt:
        new = self.keep(node)
        self.level(new.body)
        return new if node.kind is ForKind.PARALLEL else self.outside(new, {node.loop_var})

    def on_While(self, node: While) -> Stmt:
        new = self.keep(node)
        self.level(new.body)
        return self.outside(new, set())

    def outside(self, loop: Stmt, bound: set[Var]) -> Stmt:
        """Return the loop with the allocations that leave it around it."""
        puller = AllocationRemover(bound)
        body = puller.stmt(loop.body)
        if not puller.moved:
            return loop
        out: Stmt = loop.replace(body=body)
        for node in reversed(puller.moved):
            out = out if node.buffer_var in self.replaced else node.replace(body=out)
        return out

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        new = self.keep(node)
        if node.attr_key in _FRAMES:
            self.level(new.body)
        return new

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        new = self.keep(node)
        self.level(new.body)
        return new

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        return node


def same_kind(a: Allocate, b: Allocate) -> bool:
    """Return whether one allocation may replace the other: same type and scope, and both sizes constant or equal."""
    if a.dtype != b.dtype or scope_of(a.buffer_var) != scope_of(b.buffer_var):
        return False
    known = constant_bytes(a) is not None
    if known or constant_bytes(b) is not None:
        return known and constant_bytes(b) is not None
    return Analyzer().can_prove_equal(product(a.extents), product(b.extents))


def may_change_type(a: Allocate, b: Allocate) -> bool:
    """Return whether one allocation may replace the other although their types differ: constant-size workspace memory
    or memory with a tag. Shared memory of a kernel is declared as an array of its type, with that type's alignment."""
    scope = scope_of(a.buffer_var)
    if scope != scope_of(b.buffer_var) or scope.startswith("shared") or "handle" in (a.dtype, b.dtype):
        return False
    return all(constant_bytes(n) is not None and may_leave_loops(n) for n in (a, b))


def computes_in_place(statement: Stmt, target: Var, source: Var) -> bool:
    """Return whether every element of ``target`` is computed only from the same element of ``source``.

    The statement must be a loop nest around one store of ``target`` that stores each element once.
    """
    loops: list[For] = []
    while isinstance(statement, For) and statement.kind in (ForKind.SERIAL, ForKind.UNROLLED):
        loops.append(statement)
        statement = statement.body
    if not isinstance(statement, BufferStore) or statement.buffer.data is not target:
        return False
    index = statement.indices[0]
    loads = [n for n in post_order(statement.value) if isinstance(n, BufferLoad) and n.buffer.data in (target, source)]
    if any(n.buffer.data is target or not same_index(n.indices[0], index) for n in loads):
        return False
    return visits_once(index, loops)


def same_index(a: PrimExpr, b: PrimExpr) -> bool:
    if isinstance(a, Ramp) and isinstance(b, Ramp):
        return a.lanes == b.lanes and same_index(a.stride, b.stride) and same_index(a.base, b.base)
    x, y = integer_sum(a), integer_sum(b)
    if x is None or y is None or x.constant != y.constant:
        return False
    return x.terms == y.terms or structural_equal(a, b)


def visits_once(index: PrimExpr, loops: list[For]) -> bool:
    """Return whether different iterations have different indices: the index is a mixed-radix sum over all loops."""
    width = 1
    if isinstance(index, Ramp):
        if int_value(index.stride) != 1:
            return False
        width, index = index.lanes, index.base
    total = integer_sum(index)
    if total is None:
        return False
    if width == 1 and any(int_value(loop.extent) is None for loop in loops):
        return row_major_over(index, loops)
    digits = []
    for loop in loops:
        extent = int_value(loop.extent)
        step = abs(total.coefficient(loop.loop_var))
        if extent is None or not step:
            return False
        digits.append((step, extent))
    reach = width
    for step, extent in sorted(digits):
        if step < reach:
            return False
        reach = step * extent
    return True


def row_major_over(index: PrimExpr, loops: list[For]) -> bool:
    """Return whether the index enumerates the iterations of the nest consecutively; the extents may be expressions."""
    analyzer = Analyzer()
    weight: PrimExpr = const(1, index.dtype)
    zero = {loop.loop_var: const(0, loop.loop_var.dtype) for loop in loops}
    start = substitute(index, zero)
    counted = start
    for loop in reversed(loops):
        if int_value(loop.min) != 0:
            return False
        counted = counted + primop.cast(index.dtype, loop.loop_var) * weight
        weight = weight * primop.cast(index.dtype, loop.extent)
    return analyzer.can_prove_equal(index, counted)


class Applier(StmtRewriter):
    """A rewriter that replaces the allocations by the planned memory."""

    def __init__(self, replaced: dict[Var, Var], sizes: dict[Var, int]):
        self.replaced, self.sizes = replaced, sizes
        self.buffers: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data not in self.replaced:
            return buffer
        root = self.replaced[buffer.data]
        got = self.buffers.get(buffer)
        if got is None:
            got = self.buffers[buffer] = buffer.replace(data=root)
        return got

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after)

    def after(self, node: Any):
        if type(node) is BufferLoad and node.buffer.data in self.replaced:
            return BufferLoad(self.buffer(node.buffer), node.indices)
        return None

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        buffer = self.buffer(node.buffer)
        return new if buffer is node.buffer else BufferStore(buffer, new.value, new.indices)

    def on_Allocate(self, node: Allocate) -> Stmt:
        body = self.stmt(node.body)
        var = node.buffer_var
        if var in self.replaced:
            return body
        if var in self.sizes:
            size = -(-self.sizes[var] // (info(node.dtype).bytes * info(node.dtype).lanes))
            return node.replace(extents=(const(size, "int32" if size < 1 << 31 else "int64"),), body=body)
        return node if body is node.body else node.replace(body=body)


def move_owners_to_start(body: Stmt, roots: set[Var]) -> Stmt:
    """Move shared memory to the start of its level, because its users may be in different branches of a sequence.
    Packed memory is moved there too, so that its contents keep their order."""
    moved: list[Allocate] = []

    class Raiser(StmtRewriter):
        def level(self, body: Stmt) -> Stmt:
            outer = list(moved)
            moved.clear()
            new = self.stmt(body)
            for node in reversed(moved):
                new = node.replace(body=new)
            moved[:] = outer
            return new

        def on_For(self, node: For) -> Stmt:
            return node.replace(body=self.level(node.body))

        def on_LetStmt(self, node: LetStmt) -> Stmt:
            return node.replace(body=self.level(node.body))

        def on_AttrStmt(self, node: AttrStmt) -> Stmt:
            return node.replace(body=self.level(node.body))

        def on_Allocate(self, node: Allocate) -> Stmt:
            if node.buffer_var in roots or is_packed(scope_of(node.buffer_var)):
                moved.append(node)
                return self.stmt(node.body)
            return node.replace(body=self.stmt(node.body))

    return Raiser().level(body)


def storage_rewrite(func: PrimFunc) -> PrimFunc:
    if not any(isinstance(n, Allocate) for n in statements_in(func.body)):
        return func
    sharer = MemorySharing()
    body = sharer.stmt(func.body)
    sharer.level(body)
    if sharer.replaced:
        body = move_owners_to_start(body, set(sharer.sizes) | {sharer.root(v) for v in sharer.replaced})
        body = Applier({v: sharer.root(v) for v in sharer.replaced}, sharer.sizes).stmt(body)
    check_tagged_memory(body)
    return func.replace(body=pack_tagged_memory(body))
