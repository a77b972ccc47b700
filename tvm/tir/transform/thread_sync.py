"""ThreadSync: insert barriers between accesses of shared memory by different threads.

A statement gets a barrier before it if it reads what earlier statements wrote since the last barrier, or writes what
they read. A loop gets one if the end of an iteration conflicts with the start of the next. Two accesses of an element
that only one thread uses need no barrier. Double buffering writes ahead to another part of the memory than the one that
the same iteration reads; only the next iteration needs a barrier. A condition that differs between threads must not
contain a barrier, so such a statement is treated as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...arith.sums import integer_sum
from ...error import ScheduleError
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var
from ...ir.structural import structural_equal
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt, While, seq
from .statement import StmtRewriter, is_call
from .tagged_memory import scope_of


@dataclass(slots=True)
class Access:
    """An access of shared memory; ``index`` is None if it is unknown."""

    data: Var
    index: PrimExpr | None
    writes: bool
    # Whether this store is for the next iteration of the enclosing loop, into the part that this iteration does not
    # read.
    ahead: bool = False


@dataclass(slots=True)
class Summary:
    """The accesses of a statement before its first barrier and after its last; without a barrier both contain all
    accesses."""

    first: list[Access] = field(default_factory=list)
    last: list[Access] = field(default_factory=list)
    synced: bool = False


class SyncPlanner:
    def __init__(self, scope: str):
        self.scope = scope
        self.threads: dict[Var, int | None] = {}
        self.uniform = 0  # Number of enclosing conditions that differ between threads
        self.loops: list[Var | None] = []
        self.ahead: Var | None = None  # The loop whose next iteration the store is for

    def barrier(self) -> Stmt:
        return Evaluate(Call("int32", Op.get("tir.tvm_storage_sync"), (StringImm(self.scope),)))

    # Accesses -------------------------------------------------------------------------------------------------
    def in_scope(self, var: Var) -> bool:
        scope = scope_of(var)
        return scope == self.scope or (self.scope == "shared" and scope.startswith("shared."))

    def accesses(self, *nodes) -> list[Access]:
        out = []
        for node in nodes:
            for n in post_order(node):
                if isinstance(n, BufferLoad) and self.in_scope(n.buffer.data):
                    out.append(Access(n.buffer.data, n.indices[0], False))
                elif is_call(n, "tir.tvm_access_ptr") and self.in_scope(n.args[1]):
                    mask = n.args[4].value if isinstance(n.args[4], IntImm) else 3
                    out.append(Access(n.args[1], None, bool(mask & 2)))
        return out

    def own_element(self, index: PrimExpr) -> bool:
        """Return whether each thread of the block accesses a different element with this index."""
        total = integer_sum(index)
        if total is None:
            return False
        digits = []
        for var, extent in self.threads.items():
            if extent == 1:
                continue
            step = abs(total.coefficient(var))
            if not step or extent is None:
                return False
            digits.append((step, extent))
        reach = 1
        for step, extent in sorted(digits):
            if step < reach:
                return False
            reach = step * extent
        # The other terms must be multiples, so that they do not move the element of one thread to that of another.
        return bool(digits) and all(c % reach == 0 for a, c in total.terms.items() if a not in self.threads)

    def conflict(self, earlier: list[Access], later: list[Access], carried: bool = False) -> bool:
        for a in earlier:
            for b in later:
                # The order of two writes without a read between them is not synchronized.
                if a.data is not b.data or a.writes == b.writes or (a.ahead != b.ahead and not carried):
                    continue
                same = a.index is not None and b.index is not None and structural_equal(a.index, b.index)
                if same and self.own_element(a.index) and not (carried and self.varies(a.index)):
                    continue
                return True
        return False

    def varies(self, index: PrimExpr) -> bool:
        """Return whether an index may change in the next iteration of the loop that ends; the enclosing loops do not
        advance."""
        return any(isinstance(n, Var) and n not in self.threads and n not in self.loops for n in post_order(index))

    # Statements -----------------------------------------------------------------------------------------------
    def visit(self, node: Stmt) -> tuple[Stmt, Summary]:
        handler = self.HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        return self.other(node)

    def leaf(self, accesses: list[Access]) -> Summary:
        return Summary(accesses, accesses)

    def store(self, node: BufferStore):
        found = self.accesses(node.value, *node.indices)
        if self.in_scope(node.buffer.data):
            # In unrolled copies of an iteration with constants for the loop variable, the part of the buffer is
            # unknown.
            ahead = self.ahead is not None and any(n is self.ahead for n in post_order(node.indices[0]))
            found.append(Access(node.buffer.data, node.indices[0], True, ahead))
        return node, self.leaf(found)

    def evaluate(self, node: Evaluate):
        if is_call(node.value, "tir.tvm_storage_sync") and node.value.args:
            # A barrier for shared memory also applies to dynamic shared memory.
            if node.value.args[0].value in (self.scope, self.scope.removesuffix(".dyn")):
                return node, Summary([], [], True)
        return node, self.leaf(self.accesses(node.value))

    def sequence(self, node: SeqStmt):
        out: list[Stmt] = []
        total = Summary()
        pending: list[Access] = []
        for child in node.seq:
            new, summary = self.visit(child)
            if self.conflict(pending, summary.first):
                if self.uniform:
                    raise ScheduleError(
                        "threads of a block exchange data under a condition that differs between them, where no "
                        "barrier is possible: move the exchange out of the condition"
                    )
                out.append(self.barrier())
                if not total.synced:
                    total.first, total.synced = list(pending), True
                pending = []
            out.append(new)
            if summary.synced:
                if not total.synced:
                    total.first, total.synced = pending + summary.first, True
                pending = list(summary.last)
            else:
                pending = pending + summary.first
        if not total.synced:
            total.first = pending
        total.last = pending
        return (node if len(out) == len(node.seq) and all(a is b for a, b in zip(out, node.seq)) else seq(*out)), total

    def loop(self, node: For | While):
        var = node.loop_var if isinstance(node, For) else None
        self.loops.append(var)
        body, summary = self.visit(node.body)
        self.loops.pop()
        header = self.accesses(*[c for c in node.children() if not isinstance(c, Stmt)])
        first = header + summary.first
        conflict = self.conflict(summary.last, first, carried=True)
        if self.ahead is None:
            first, summary.last = ([replace(a, ahead=False) for a in x] for x in (first, summary.last))
        if conflict:
            if self.uniform:
                raise ScheduleError(
                    "a loop under a condition that differs between threads exchanges data through shared memory, and "
                    "no barrier is possible in it: move the loop out of the condition, or bind axes whose extents "
                    "the threads divide"
                )
            body = seq(self.barrier(), body)
            return node.replace(body=body), Summary(header, list(summary.last), True)
        new = node if body is node.body else node.replace(body=body)
        return new, Summary(first, first if not summary.synced else list(summary.last), summary.synced)

    def branch(self, node: IfThenElse):
        found = self.accesses(node.condition)
        divergent = self.depends_on_thread(node.condition)
        self.uniform += divergent
        then_case, one = self.visit(node.then_case)
        else_case, two = (None, Summary()) if node.else_case is None else self.visit(node.else_case)
        self.uniform -= divergent
        first = found + one.first + two.first
        last = first if not (one.synced or two.synced) else found + one.last + two.last
        new = node
        if then_case is not node.then_case or else_case is not node.else_case:
            new = IfThenElse(node.condition, then_case, else_case)
        # A barrier counts only if both branches have one.
        if one.synced and two.synced:
            return new, Summary(first, last, True)
        return new, Summary(first, first + last, False) if one.synced or two.synced else Summary(first, first)

    def depends_on_thread(self, condition: PrimExpr) -> bool:
        return any(
            n in self.threads or isinstance(n, BufferLoad)
            for n in post_order(condition)
            if isinstance(n, (Var, BufferLoad))
        )

    def attribute(self, node: AttrStmt):
        if node.attr_key == "thread_extent" and node.node.thread_tag.startswith("threadIdx"):
            self.threads[node.node.var] = node.value.value if isinstance(node.value, IntImm) else None
        before = self.ahead
        if node.attr_key == "double_buffer_write" and self.loops:
            self.ahead = self.loops[-1]
        body, summary = self.visit(node.body)
        self.ahead = before
        return (node if body is node.body else node.replace(body=body)), summary

    def let(self, node: LetStmt):
        found = self.accesses(node.value)
        body, summary = self.visit(node.body)
        new = node if body is node.body else node.replace(body=body)
        first = found + summary.first
        return new, Summary(first, summary.last if summary.synced else first, summary.synced)

    def other(self, node: Stmt):
        """Visit a statement with one inner statement and expressions, such as an allocation or assertion."""
        found = self.accesses(*[c for c in node.children() if not isinstance(c, Stmt)])
        inner = [c for c in node.children() if isinstance(c, Stmt)]
        if not inner:
            return node, self.leaf(found)
        body, summary = self.visit(inner[0])
        first = found + summary.first
        new = node if body is inner[0] else node.replace(body=body)
        return new, Summary(first, summary.last if summary.synced else first, summary.synced)

    HANDLERS = {
        BufferStore: store,
        Evaluate: evaluate,
        SeqStmt: sequence,
        For: loop,
        While: loop,
        IfThenElse: branch,
        AttrStmt: attribute,
        LetStmt: let,
    }


class Kernels(StmtRewriter):
    """A rewriter that finds the kernels of a function; threads outside kernels have no barriers."""

    def __init__(self, scope: str):
        self.scope = scope

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "thread_extent":
            return SyncPlanner(self.scope).visit(node)[0]
        return self.keep(node)


def thread_sync(func: PrimFunc, storage_scope: str = "shared") -> PrimFunc:
    return func.replace(body=Kernels(storage_scope).stmt(func.body))
