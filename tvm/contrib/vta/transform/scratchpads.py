"""Memory in scratchpads: one allocation for each scratchpad and virtual thread, in which tensors share memory.

The modules of the accelerator run concurrently, but the tokens of one thread order all of its statements. Tensors of
one thread whose lifetimes are disjoint can therefore share memory. Tensors of different threads never do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....error import TVMError
from ....ir.prim import BufferLoad, Call, Var, const
from ....ir.transform import Pass
from ....ir.type import PointerType, PrimType
from ....ir.visit import post_order, rewrite
from ....tir.buffer import Buffer
from ....tir.function import PrimFunc
from ....tir.stmt import Allocate, AttrStmt, BufferStore, For, SeqStmt, Stmt, While
from ....tir.transform import prim_func_pass
from ....tir.transform.statement import StmtRewriter, int_value, is_call
from ....tir.transform.storage_rewrite import computes_in_place
from ....tir.transform.tagged_memory import constant_bytes, memory_info, scope_of
from .alu import operation

_COMMUTATIVE = ("ADD", "MUL", "MIN", "MAX")


@dataclass(eq=False)
class Life:
    """The first and last statement that access a tensor. ``depth`` is the number of loops around its allocation."""

    node: Allocate
    depth: int
    first: int = -1
    last: int = -1
    loops: list[list[int]] = field(default_factory=list)  # intervals of loops that the life spans
    offset: int = -1

    def interval(self) -> tuple[int, int]:
        spans = [*self.loops, [self.first, self.last]]
        return min(s[0] for s in spans), max(s[1] for s in spans)


class Frame:
    """The tensors of a function or of a virtual thread."""

    def __init__(self, body: Stmt):
        self.lives: dict[Var, Life] = {}
        self.now = 0
        self.around: list[list[int]] = []
        self.in_place: list[tuple[Life, Life]] = []
        self.walk(body)
        self.live = [e for e in self.lives.values() if e.first >= 0]

    def walk(self, node: Stmt) -> None:
        if isinstance(node, Allocate) and memory_info(scope_of(node.buffer_var)) is not None:
            self.lives[node.buffer_var] = Life(node, len(self.around))
        if isinstance(node, (For, While)) and not _is_leaf(node):
            span = [self.now, self.now]
            self.around.append(span)
            self.walk(node.body)
            self.around.pop()
            span[1] = max(self.now - 1, span[0])
        elif _is_leaf(node):
            self.leaf(node)
        else:
            for child in node.children():
                if isinstance(child, Stmt):
                    self.walk(child)

    def leaf(self, node: Stmt) -> None:
        used = {n for n in post_order(node) if isinstance(n, Var)}
        used |= {n.buffer.data for n in post_order(node) if isinstance(n, (BufferLoad, BufferStore))}
        store = _single_store(node)
        for var, life in self.lives.items():
            if var not in used:
                continue
            begins = life.first < 0
            life.first = self.now if begins else life.first
            life.last = self.now
            if len(self.around) > life.depth:
                # The loop is inside the allocation: another iteration may use the value.
                life.loops.append(self.around[life.depth])
            elif begins and store is not None and store.buffer.data is var:
                self.note_sources(life, node, store)
        self.now += 1

    def note_sources(self, life: Life, node: Stmt, store: BufferStore) -> None:
        """Note the tensors of this statement whose memory its output can overwrite."""
        found = operation(store.value)
        operands = [] if found is None else [found.lhs] + [found.rhs] * (found.name in _COMMUTATIVE)
        for value in operands:
            loads = [n for n in post_order(value) if isinstance(n, BufferLoad)] if value is not None else []
            for load in loads:
                source = self.lives.get(load.buffer.data)
                if source is not None and source.node.dtype == life.node.dtype:
                    if computes_in_place(_without_attributes(node), store.buffer.data, load.buffer.data):
                        self.in_place.append((life, source))

    def groups(self) -> list[list[Life]]:
        """Return the tensors in groups that share one place, because each overwrites the previous one."""
        group = {life: [life] for life in self.live}
        for life, source in self.in_place:
            ends = max(e.interval()[1] for e in group[source])
            same = scope_of(life.node.buffer_var) == scope_of(source.node.buffer_var)
            if same and ends == life.interval()[0] and len(group[life]) == 1:
                group[source].append(life)
                group[life] = group[source]
        return list({id(g): g for g in group.values()}.values())

    def plan(self) -> dict[tuple[str, str], tuple[Var, int]]:
        """Place all tensors; return for each memory its allocation and the number of its values."""
        placed: list[tuple[int, int, int, int, str]] = []
        sizes: dict[tuple[str, str], int] = {}
        for group in sorted(self.groups(), key=lambda g: min(e.interval()[0] for e in g)):
            node = group[0].node
            scope = scope_of(node.buffer_var)
            begin, end = min(e.interval()[0] for e in group), max(e.interval()[1] for e in group)
            size = max(_values(e.node) for e in group)
            conflicts = [p for p in placed if p[4] == scope and p[0] <= end and begin <= p[1]]
            offset = 0
            for _, _, low, high, _ in sorted(conflicts, key=lambda p: p[2]):
                if low < offset + size and offset < high:
                    offset = high
            placed.append((begin, end, offset, offset + size, scope))
            for life in group:
                life.offset = offset
            key = (scope, node.dtype)
            sizes[key] = max(sizes.get(key, 0), offset + size)
        if len({scope for scope, _ in sizes}) < len(sizes):
            raise TVMError(f"a scratchpad contains values of different types: {', '.join(map(str, sizes))}")
        return {k: (Var(k[0].split(".")[-1], PointerType(PrimType(k[1]), k[0])), size) for k, size in sizes.items()}


def _is_leaf(node: Stmt) -> bool:
    if isinstance(node, AttrStmt):
        return node.attr_key in ("coproc_uop_scope", "virtual_thread", "pragma_alu")
    return not isinstance(node, (SeqStmt, For, While, Allocate)) and not any(
        isinstance(child, Stmt) for child in node.children()
    )


def _without_attributes(node: Stmt) -> Stmt:
    while isinstance(node, AttrStmt):
        node = node.body
    return node


def _single_store(node: Stmt) -> BufferStore | None:
    while isinstance(node, (AttrStmt, For)):
        node = node.body
    return node if isinstance(node, BufferStore) else None


def _values(node: Allocate) -> int:
    """Return the number of values of an allocation, rounded up to whole elements of the scratchpad."""
    size, known = constant_bytes(node), memory_info(scope_of(node.buffer_var))
    if size is None or int_value(node.condition) != 1:
        raise TVMError(f"{node.buffer_var.name}: a tensor in {scope_of(node.buffer_var)} needs a constant size")
    values = 1
    for extent in node.extents:
        values *= int_value(extent)
    unit = known.unit_bits * values // (size * 8)
    return -(-values // unit) * unit


class _Placer(StmtRewriter):
    """Replaces the allocations of scratchpads by one for each memory."""

    def __init__(self) -> None:
        self.places: dict[Var, tuple[Var, int]] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def frame(self, body: Stmt) -> Stmt:
        frame = Frame(body)
        pools = frame.plan()
        for var, life in frame.lives.items():
            if life.first >= 0:
                self.places[var] = pools[scope_of(var), life.node.dtype][0], life.offset
        new = self.stmt(body)
        for (_, dtype), (var, size) in pools.items():
            new = Allocate(var, dtype, (const(size, "int32"),), const(True, "bool"), new)
        return new

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node.replace(body=self.frame(node.body)) if node.attr_key == "virtual_thread" else self.keep(node)

    def on_Allocate(self, node: Allocate) -> Stmt:
        described = memory_info(scope_of(node.buffer_var)) is not None
        return self.stmt(node.body) if described else self.keep(node)

    def expr(self, node):
        return rewrite(node, self.moved)

    def moved(self, node):
        if isinstance(node, BufferLoad) and node.buffer.data in self.places:
            return BufferLoad(*self.access(node.buffer, node.indices))
        if is_call(node, "tir.tvm_access_ptr") and node.args[1] in self.places:
            pool, offset = self.places[node.args[1]]
            begin = node.args[2]
            return Call(node.dtype, node.op, (node.args[0], pool, begin + const(offset, begin.dtype), *node.args[3:]))
        return None

    def access(self, buffer, indices):
        pool, offset = self.places[buffer.data]
        if buffer not in self.buffers:
            self.buffers[buffer] = buffer.replace(data=pool)
        return self.buffers[buffer], (indices[0] + const(offset, indices[0].dtype),)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer.data not in self.places:
            return new
        buffer, indices = self.access(node.buffer, new.indices)
        return BufferStore(buffer, new.value, indices)


def PlanScratchpads() -> Pass:
    """A pass that places the tensors in scratchpads; it runs before virtual threads become loops.

    Returns
    -------
    Pass
    """

    def run(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        return func.replace(body=_Placer().frame(func.body))

    return prim_func_pass(run, opt_level=0, name="tir.vta.PlanScratchpads")


class _Lifter(StmtRewriter):
    """Moves allocations to the beginning of the innermost loop or virtual thread around them."""

    def __init__(self) -> None:
        self.found: list[Allocate] = []

    def scope(self, body: Stmt) -> Stmt:
        outer, self.found = self.found, []
        new = self.stmt(body)
        for node in reversed(self.found):
            new = node.replace(body=new)
        self.found = outer
        return new

    def on_Allocate(self, node: Allocate) -> Stmt:
        self.found.append(node)
        return self.stmt(node.body)

    def on_For(self, node: For) -> Stmt:
        return node.replace(body=self.scope(node.body))

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node.replace(body=self.scope(node.body)) if node.attr_key == "virtual_thread" else self.keep(node)


def LiftAllocToScopeBegin() -> Pass:
    """A pass that moves allocations to the beginning of the loop or virtual thread around them.

    Returns
    -------
    Pass
    """

    def run(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        return func.replace(body=_Lifter().scope(func.body))

    return prim_func_pass(run, opt_level=0, name="tir.vta.LiftAllocToScopeBegin")
