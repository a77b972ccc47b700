"""CoProcSync: the program waits for a coprocessor, and the queues of the coprocessor for each other, where data pass.

Work for the coprocessor stands in attributes ``coproc_scope``, whose value is the queue that runs it; the name of their
axis is the name of the coprocessor. Its operators ``tir.NAME.coproc_...`` are called

- ``dep_push(a, b)`` and ``dep_pop(a, b)``: queue ``a`` leaves a token for queue ``b`` behind its work, and ``b`` takes
  it before its own. Every token that is left is taken, on every path through the program;
- ``sync()``: the program waits until the coprocessor has done everything, before it reads or writes memory that the
  coprocessor works on, and at its end;
- ``read_barrier(memory, bits, first, count)``: what the program has written there is seen by the coprocessor;
- ``write_barrier(memory, bits, first, count)``: what the coprocessor has written there is seen by the program.
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
    """Statements to be put before and after others, nearest last before them and first after them."""

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


class Apart(StmtRewriter):
    """A statement that stands in two places becomes two, since what is put beside it differs."""

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
    """How a statement begins and ends: the queues that may work first and last, and the tokens it takes before it has
    left any, or leaves for what comes after it. On some path a statement may do no work at all."""

    first: Stmt
    last: Stmt
    enter: list[int]
    leave: list[int]
    may_be_skipped: bool = False
    takes: list[Token] = field(default_factory=list)
    leaves: list[Token] = field(default_factory=list)


class Queues:
    """Tokens between the queues."""

    def __init__(self, out: Insertions):
        self.out = out

    def plan(self, body: Stmt) -> None:
        self.close(self.flow(body))

    def flow(self, node: Stmt) -> Flow | None:
        if isinstance(node, AttrStmt) and node.attr_key == SCOPE:
            queue = int_value(node.value)
            if queue is None:
                raise TVMError(f"{SCOPE}: a queue of the coprocessor is a number, got {node.value}")
            return Flow(node.body, node.body, [queue], [queue])
        if isinstance(node, For):
            return self.loop(node)
        if isinstance(node, IfThenElse):
            return self.branches(node)
        if isinstance(node, While):
            if any(isinstance(n, AttrStmt) and n.attr_key == SCOPE for n in post_order(node.body)):
                raise TVMError("a coprocessor cannot be waited for in a while loop: give the number of its iterations")
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
        # The first iteration takes what the last one leaves: each is the business of what stands around the loop.
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
        """Let the second wait for the first; the tokens that go from one to the other."""
        wanted = [(a, b) for a in one.leave for b in two.enter if a != b]
        left = [*one.leaves, *(t for t in wanted if t not in one.leaves)]
        taken = [*two.takes, *(t for t in wanted if t not in two.takes)]
        pushes = [self.out.call("dep_push", *t) for t in left if t not in one.leaves]
        pops = [self.out.call("dep_pop", *t) for t in taken if t not in two.takes]
        # What nobody takes is taken at once, and what nobody has left is left at once.
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
    """An access of memory that the program and the coprocessor both work on."""

    data: Var
    bits: int
    where: IntervalSet
    writes: bool
    coprocessor: bool


# A place where the program has waited for the coprocessor.
WAITED = None


def accesses(node: Any, coprocessor: bool) -> Iterator[Access]:
    """The accesses of a statement or expression without loops in it, in order."""
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
    """The statements that run one after the other where ``node`` stands."""
    if isinstance(node, (For, While, IfThenElse, BufferStore, Evaluate)):
        yield node
    elif isinstance(node, AttrStmt) and node.attr_key == SCOPE:
        yield node
    else:
        for child in node.children():
            if isinstance(child, Stmt):
                yield from leaves_of(child)


class Host:
    """Waits and barriers between the program and the coprocessor."""

    def __init__(self, shared: set[Var], out: Insertions):
        self.shared, self.out = shared, out
        self.waits = 0

    def plan(self, body: Stmt) -> None:
        self.level(body, repeated=False, last=True)
        if not self.waits:
            self.out.put_after(body, self.out.call("sync"))

    def of(self, node: Stmt, coprocessor: bool = False) -> list[Access | None]:
        """What a statement accesses, in order, and where it waits."""
        if isinstance(node, AttrStmt) and node.attr_key == SCOPE:
            return self.of(node.body, True)
        if isinstance(node, For):
            inside = self.of(node.body, True) if coprocessor else self.level(node.body, repeated=True)
            return [a if a is WAITED else relaxed(a, node) for a in inside]
        if isinstance(node, IfThenElse):
            cases = [case for case in (node.then_case, node.else_case) if case is not None]
            inside = [self.of(case, True) if coprocessor else self.level(case, repeated=False) for case in cases]
            # A wait in one case says nothing about the other.
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
        """Plan what runs in sequence; ``repeated`` if its end is followed by its beginning."""
        parts = [(leaf, self.of(leaf)) for leaf in leaves_of(body)]
        waited = self.wait(parts, repeated, last)
        self.read_barriers(parts, repeated)
        self.write_barriers(parts, repeated)
        return [a for place, (_, part) in enumerate(parts) for a in ([*part, WAITED] if place in waited else part)]

    def wait(self, parts: list[tuple[Stmt, list[Access | None]]], repeated: bool, last: bool) -> set[int]:
        """After which of the statements the program waits."""
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
        """After the last writes of the program to what the coprocessor reads later."""
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
        """Before the program first reads what the coprocessor has written."""
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
            raise TVMError(f"{data.name}: the part of it that the coprocessor works on is not known")
        if len({a.bits for a in found}) > 1:
            raise TVMError(f"{data.name}: the coprocessor sees it as elements of several sizes")
        analyzer = Analyzer()
        first = analyzer.simplify(whole.min_value)
        return self.out.call(what, data, found[0].bits, first, analyzer.simplify(whole.max_value - first + 1))


def before_wait(part: list[Access | None]) -> list[Access]:
    """What the program accesses before it waits in there."""
    until = part.index(WAITED) if WAITED in part else len(part)
    return [a for a in part[:until] if a and not a.coprocessor]


def conflict(own: Access, pending: list[Access]) -> bool:
    return any(a.data is own.data and (a.writes or own.writes) for a in pending)


def relaxed(access: Access, loop: For) -> Access:
    """The access in all iterations of a loop."""
    over = {loop.loop_var: IntervalSet(loop.min, loop.min + loop.extent - 1)}
    return Access(access.data, access.bits, eval_set(access.where, over), access.writes, access.coprocessor)


def coproc_sync(func: PrimFunc) -> PrimFunc:
    axes = {n.node for n in post_order(func.body) if isinstance(n, AttrStmt) and n.attr_key == SCOPE}
    if not axes:
        return func
    if len(axes) > 1 or not all(isinstance(axis, IterVar) for axis in axes):
        raise TVMError(f"{SCOPE}: one axis names the coprocessor of a function, got {len(axes)}")
    out = Insertions(next(iter(axes)).var.name)
    touches: dict[bool, set[Var]] = {True: set(), False: set()}
    for coprocessor, node in by_side(func.body):
        touches[coprocessor].update(a.data for a in accesses(node, coprocessor))
    body = Apart().stmt(func.body)
    Queues(out).plan(body)
    Host(touches[True] & touches[False], out).plan(body)
    return func.replace(body=out.into(body))


def by_side(body: Stmt) -> Iterator[tuple[bool, Any]]:
    """The stores, calls and expressions of a function, and whether the coprocessor runs each."""
    stack: list[tuple[bool, Any]] = [(False, body)]
    while stack:
        coprocessor, node = stack.pop()
        inside = coprocessor or (isinstance(node, AttrStmt) and node.attr_key == SCOPE)
        if not isinstance(node, Stmt) or isinstance(node, (BufferStore, Evaluate)):
            yield coprocessor, node
        else:
            stack.extend((inside, child) for child in node.children())
