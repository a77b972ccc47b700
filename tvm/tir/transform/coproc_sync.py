"""CoProcSync: synchronize the program with a coprocessor, and the queues of the coprocessor with each other.

An attribute ``coproc_scope`` contains the work of the coprocessor; its value is the queue that executes it, and the
name of its axis is the name of the coprocessor. The pass inserts calls of these operators, named
``tir.NAME.coproc_...``:

- ``dep_push(a, b)`` and ``dep_pop(a, b)``: queue ``a`` sends a token to queue ``b`` after its work, and ``b`` receives
  it before its own work. On every path through the program, every token is received;
- ``sync()``: the program waits until the coprocessor has finished. This is called before the program accesses memory
  that the coprocessor accesses, and at the end;
- ``read_barrier(memory, bits, first, count)``: makes stores of the program visible to the coprocessor;
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...arith import Analyzer
from ...arith.interval_set import IntervalSet, eval_set, union
from ...dtype import info
from ...error import TVMError
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, IterVar, PrimExpr, Ramp, Range, Var, const
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferStore, Evaluate, For, IfThenElse, Stmt, While, seq
from .statement import StmtRewriter, int_value, is_call

SCOPE = "coproc_scope"
Token = tuple[int, int]


class Insertions:
    """Statements to insert before and after others. Of several statements before one, the last is nearest; of several
    after one, the first is nearest."""

    def __init__(self, name: str):
        self.name = name
        self.before: dict[int, list[Stmt]] = {}
        self.after: dict[int, list[Stmt]] = {}

    def call(self, what: str, *args: PrimExpr | int) -> Stmt:
        made = tuple(const(a, "int32") if isinstance(a, int) else a for a in args)
        return Evaluate(Call("int32", Op.get(f"tir.{self.name}.coproc_{what}"), made))

    def put_before(self, stmt: Stmt, *new: Stmt) -> None:
        self.before.setdefault(id(stmt), []).extend(new)

    def put_after(self, stmt: Stmt, *new: Stmt) -> None:
        self.after.setdefault(id(stmt), []).extend(new)

    def into(self, body: Stmt) -> Stmt:
        found = self

        class Inserter(StmtRewriter):
            def stmt(self, node: Stmt) -> Stmt:
                new = super().stmt(node)
                before, after = found.before.get(id(node), ()), found.after.get(id(node), ())
                return seq(*before, new, *after) if before or after else new

        return Inserter().stmt(body)


class StatementCopier(StmtRewriter):
    """A rewriter that copies a statement that occurs twice, because different statements are inserted next to each
    occurrence."""

    def __init__(self):
        self.seen: dict[int, Stmt] = {}

    def stmt(self, node: Stmt) -> Stmt:
        new = super().stmt(node)
        if id(new) in self.seen:
            new = type(new)(**{name: getattr(new, name) for name in new._fields}, span=new.span)
        self.seen[id(new)] = new
        return new


# Queues of the coprocessor ------------------------------------------------------------------------------------------


@dataclass
class Flow:
    """The synchronization state of a statement: the queues that may work first and last in it, the tokens it
    receives before it sends any, and the tokens it sends for later statements. It also contains whether some path
    does no work."""

    first: Stmt
    last: Stmt
    enter: list[int]
    leave: list[int]
    may_be_skipped: bool = False
    takes: list[Token] = field(default_factory=list)
    leaves: list[Token] = field(default_factory=list)


class Queues:
    """The tokens that synchronize the queues of the coprocessor."""

    def __init__(self, out: Insertions):
        self.out = out

    def plan(self, body: Stmt) -> None:
        self.close(self.flow(body))

    def flow(self, node: Stmt) -> Flow | None:
        if isinstance(node, AttrStmt) and node.attr_key == SCOPE:
            queue = int_value(node.value)
            if queue is None:
                raise TVMError(f"{SCOPE}: the queue of the coprocessor must be a constant integer, got {node.value}")
            return Flow(node.body, node.body, [queue], [queue])
        if isinstance(node, For):
            return self.loop(node)
        if isinstance(node, IfThenElse):
            return self.branches(node)
        if isinstance(node, While):
            if any(isinstance(n, AttrStmt) and n.attr_key == SCOPE for n in post_order(node.body)):
                raise TVMError("a while loop cannot contain work of a coprocessor; use a for loop")
            return None
        total: Flow | None = None
        for child in node.children():
            part = self.flow(child) if isinstance(child, Stmt) else None
            total = part if total is None else total if part is None else self.sequence(total, part)
        return total

    def sequence(self, one: Flow, two: Flow) -> Flow:
        self.join(one, two)
        enter = merged(one.enter, two.enter) if one.may_be_skipped else one.enter
        leave = merged(two.leave, one.leave) if two.may_be_skipped else two.leave
        skipped = one.may_be_skipped and two.may_be_skipped
        return Flow(one.first, two.last, enter, leave, skipped, one.takes, two.leaves)

    def loop(self, node: For) -> Flow | None:
        body = self.flow(node.body)
        if body is None:
            return None
        carried = self.join(body, body)
        # The first iteration receives the tokens that the last one sends. The statements around the loop send and
        # receive the missing ones.
        skipped = body.may_be_skipped or (int_value(node.extent) or 0) < 1
        return Flow(node, node, body.enter, body.leave, skipped, carried, carried)

    def branches(self, node: IfThenElse) -> Flow | None:
        cases = [None if case is None else self.flow(case) for case in (node.then_case, node.else_case)]
        flows = [flow for flow in cases if flow is not None]
        for flow in flows:
            self.close(flow)
        if not flows:
            return None
        enter, leave = merged(*(f.enter for f in flows)), merged(*(f.leave for f in flows))
        return Flow(node, node, enter, leave, len(flows) < 2 or any(f.may_be_skipped for f in flows))

    def join(self, one: Flow, two: Flow) -> list[Token]:
        """Make the second statement wait for the first; return the tokens from the first to the second."""
        wanted = [(a, b) for a in one.leave for b in two.enter if a != b]
        left = [*one.leaves, *(t for t in wanted if t not in one.leaves)]
        taken = [*two.takes, *(t for t in wanted if t not in two.takes)]
        pushes = [self.out.call("dep_push", *t) for t in left if t not in one.leaves]
        pops = [self.out.call("dep_pop", *t) for t in taken if t not in two.takes]
        # A token without a receiver is received immediately, and a token without a sender is sent immediately.
        self.out.put_after(one.last, *pushes, *(self.out.call("dep_pop", *t) for t in left if t not in taken))
        self.out.put_before(two.first, *(self.out.call("dep_push", *t) for t in taken if t not in left), *pops)
        return [t for t in left if t in taken]

    def close(self, flow: Flow | None) -> None:
        if flow is not None:
            self.out.put_before(flow.first, *(self.out.call("dep_push", *t) for t in flow.takes))
            self.out.put_after(flow.last, *(self.out.call("dep_pop", *t) for t in flow.leaves))


def merged(*queues: list[int]) -> list[int]:
    return list(dict.fromkeys(q for part in queues for q in part))


# The program and the coprocessor ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """An access of memory that both the program and the coprocessor access."""

    data: Var
    bits: int
    where: IntervalSet
    writes: bool
    coprocessor: bool


# An entry in a list of accesses: the program waits for the coprocessor here.
WAITED = None


def accesses(node: Any, coprocessor: bool) -> Iterator[Access]:
    """Return the accesses of a statement or expression without loops, in order."""
    for n in post_order(node):
        if isinstance(n, BufferLoad):
            yield Access(n.buffer.data, info(n.dtype).bits, touched(n.indices[0]), False, coprocessor)
        elif is_call(n, "tir.tvm_access_ptr"):
            mask, first, count = int_value(n.args[4]), n.args[2], n.args[3]
            where = IntervalSet(first, first + count - 1)
            for bit in (1, 2):
                if mask is None or mask & bit:
                    yield Access(n.args[1], info(n.args[0].dtype).bits, where, bit == 2, coprocessor)
        elif isinstance(n, BufferStore):
            yield Access(n.buffer.data, info(n.buffer.dtype).bits, touched(n.indices[0]), True, coprocessor)


def touched(index: PrimExpr) -> IntervalSet:
    if isinstance(index, Ramp):
        return eval_set(Range.from_min_extent(index.base, index.stride * (index.lanes - 1) + 1), {})
    return IntervalSet(index, index)


def leaves_of(node: Stmt) -> Iterator[Stmt]:
    """Return the statements that run one after the other in ``node``."""
    if isinstance(node, (For, While, IfThenElse, BufferStore, Evaluate)):
        yield node
    elif isinstance(node, AttrStmt) and node.attr_key == SCOPE:
        yield node
    else:
        for child in node.children():
            if isinstance(child, Stmt):
                yield from leaves_of(child)


class Host:
    """The waits and barriers between the program and the coprocessor."""

    def __init__(self, shared: set[Var], out: Insertions):
        self.shared, self.out = shared, out
        self.waits = 0

    def plan(self, body: Stmt) -> None:
        self.level(body, repeated=False, last=True)
        if not self.waits:
            self.out.put_after(body, self.out.call("sync"))

    def of(self, node: Stmt, coprocessor: bool = False) -> list[Access | None]:
        """Return the accesses of a statement in order, with its waits."""
        if isinstance(node, AttrStmt) and node.attr_key == SCOPE:
            return self.of(node.body, True)
        if isinstance(node, For):
            inside = self.of(node.body, True) if coprocessor else self.level(node.body, repeated=True)
            return [a if a is WAITED else relaxed(a, node) for a in inside]
        if isinstance(node, IfThenElse):
            cases = [case for case in (node.then_case, node.else_case) if case is not None]
            inside = [self.of(case, True) if coprocessor else self.level(case, repeated=False) for case in cases]
            # A wait in one branch does not apply to the other branch.
            return [*self.plain(node.condition, coprocessor), *(a for part in inside for a in part if a is not WAITED)]
        if isinstance(node, While):
            inside = self.of(node.body, True) if coprocessor else self.level(node.body, repeated=True)
            return [*self.plain(node.condition, coprocessor), *inside]
        if isinstance(node, (BufferStore, Evaluate)):
            return self.plain(node, coprocessor)
        out: list[Access | None] = []
        for child in node.children():
            out += self.of(child, coprocessor) if isinstance(child, Stmt) else self.plain(child, coprocessor)
        return out

    def plain(self, node: Any, coprocessor: bool) -> list[Access | None]:
        return [a for a in accesses(node, coprocessor) if a.data in self.shared]

    def level(self, body: Stmt, repeated: bool, last: bool = False) -> list[Access | None]:
        """Insert the synchronization of a sequence; ``repeated`` means that the sequence is the body of a loop."""
        parts = [(leaf, self.of(leaf)) for leaf in leaves_of(body)]
        waited = self.wait(parts, repeated, last)
        self.read_barriers(parts, repeated)
        self.write_barriers(parts, repeated)
        return [a for place, (_, part) in enumerate(parts) for a in ([*part, WAITED] if place in waited else part)]

    def wait(self, parts: list[tuple[Stmt, list[Access | None]]], repeated: bool, last: bool) -> set[int]:
        """Insert waits for the coprocessor; return the positions of the statements that they follow."""
        places: set[int] = set()
        pending: list[Access] = []
        for place, (_, part) in enumerate(parts):
            if any(conflict(a, pending) for a in before_wait(part)):
                places.add(place - 1)
                pending = []
            for a in part:
                if a is WAITED:
                    pending = []
                elif a.coprocessor:
                    pending.append(a)
        beginning: list[Access] = []
        for place, (_, part) in enumerate(parts):
            beginning += before_wait(part)
            if place in places or WAITED in part:
                break
        if pending and (last or (repeated and any(conflict(a, pending) for a in beginning))):
            places.add(len(parts) - 1)
        for place in sorted(places):
            self.out.put_after(parts[place][0], self.out.call("sync"))
        self.waits += len(places)
        return places

    def read_barriers(self, parts: list[tuple[Stmt, list[Access | None]]], repeated: bool) -> None:
        """Insert barriers after the last store of the program to memory that the coprocessor reads later."""
        ahead: dict[Var, list[Access]] = {}
        for stmt, part in reversed(parts):
            for data in {a.data for a in part if a and a.writes and not a.coprocessor} & set(ahead):
                self.out.put_after(stmt, self.barrier("read_barrier", ahead.pop(data)))
            for a in part:
                if a and a.coprocessor and not a.writes:
                    ahead.setdefault(a.data, []).append(a)
        written = {a.data for _, part in parts for a in part if a and a.writes and not a.coprocessor}
        for data in [d for d in ahead if repeated and d in written]:
            self.out.put_before(parts[0][0], self.barrier("read_barrier", ahead[data]))

    def write_barriers(self, parts: list[tuple[Stmt, list[Access | None]]], repeated: bool) -> None:
        """Insert barriers before the program first reads memory that the coprocessor has written."""
        behind: dict[Var, list[Access]] = {}
        for place, (_, part) in enumerate(parts):
            for data in {a.data for a in part if a and not a.writes and not a.coprocessor} & set(behind):
                self.out.put_after(parts[place - 1][0], self.barrier("write_barrier", behind.pop(data)))
            for a in part:
                if a and a.coprocessor and a.writes:
                    behind.setdefault(a.data, []).append(a)
        read = {a.data for _, part in parts for a in part if a and not a.writes and not a.coprocessor}
        for data in [d for d in behind if repeated and d in read]:
            self.out.put_after(parts[-1][0], self.barrier("write_barrier", behind[data]))

    def barrier(self, what: str, found: list[Access]) -> Stmt:
        whole, data = union([a.where for a in found]), found[0].data
        if not (whole.has_lower_bound() and whole.has_upper_bound()):
            raise TVMError(f"{data.name}: the region that the coprocessor accesses is unbounded")
        if len({a.bits for a in found}) > 1:
            raise TVMError(f"{data.name}: the coprocessor accesses it with elements of different sizes")
        analyzer = Analyzer()
        first = analyzer.simplify(whole.min_value)
        return self.out.call(what, data, found[0].bits, first, analyzer.simplify(whole.max_value - first + 1))


def before_wait(part: list[Access | None]) -> list[Access]:
    """Return the accesses of the program before its first wait."""
    until = part.index(WAITED) if WAITED in part else len(part)
    return [a for a in part[:until] if a and not a.coprocessor]


def conflict(own: Access, pending: list[Access]) -> bool:
    return any(a.data is own.data and (a.writes or own.writes) for a in pending)


def relaxed(access: Access, loop: For) -> Access:
    """Return the region that an access covers over all iterations of a loop."""
    over = {loop.loop_var: IntervalSet(loop.min, loop.min + loop.extent - 1)}
    return Access(access.data, access.bits, eval_set(access.where, over), access.writes, access.coprocessor)


def coproc_sync(func: PrimFunc) -> PrimFunc:
    axes = {n.node for n in post_order(func.body) if isinstance(n, AttrStmt) and n.attr_key == SCOPE}
    if not axes:
        return func
    if len(axes) > 1 or not all(isinstance(axis, IterVar) for axis in axes):
        raise TVMError(f"{SCOPE}: a function must have exactly one axis for its coprocessor, got {len(axes)}")
    out = Insertions(next(iter(axes)).var.name)
    touches: dict[bool, set[Var]] = {True: set(), False: set()}
    for coprocessor, node in by_side(func.body):
        touches[coprocessor].update(a.data for a in accesses(node, coprocessor))
    body = StatementCopier().stmt(func.body)
    Queues(out).plan(body)
    Host(touches[True] & touches[False], out).plan(body)
    return func.replace(body=out.into(body))


def by_side(body: Stmt) -> Iterator[tuple[bool, Any]]:
    """Return the stores, calls and expressions of a function with a flag whether the coprocessor executes each."""
    stack: list[tuple[bool, Any]] = [(False, body)]
    while stack:
        coprocessor, node = stack.pop()
        inside = coprocessor or (isinstance(node, AttrStmt) and node.attr_key == SCOPE)
        if not isinstance(node, Stmt) or isinstance(node, (BufferStore, Evaluate)):
            yield coprocessor, node
        else:
            stack.extend((inside, child) for child in node.children())
