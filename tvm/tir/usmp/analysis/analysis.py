"""Find the buffers of a program and the buffers that are live at the same time.

The analysis walks the main function in the order of execution and enters every function that it calls. Each statement
that accesses memory is one point in time. A buffer is live from its first to its last access. If a buffer is allocated
outside a loop and accessed inside, it is live during the whole loop. The buffers of a function that is called twice
have two separate lifetimes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.prim import BufferLoad, IntImm, Var
from ....runtime.ndarray import NDArray
from ...function import PrimFunc
from ...stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from ...transform.statement import op_name
from ..calls import (
    Alignments,
    Callees,
    allocated_bytes,
    bind_arguments,
    is_pointer,
    is_pooled_scope,
    pointer_of,
    roots_of,
)
from ..utils import CANDIDATE_MEMORY_POOL_ATTR, INPUT_TENSOR_ATTR, OUTPUT_TENSOR_ATTR, BufferInfo, BufferInfoAnalysis

Environment = dict[Var, frozenset[Any]]


@dataclass(eq=False)
class _Buffer:
    """An allocation statement: its ``BufferInfo``, its lifetimes, and whether several threads execute it
    (``shared``)."""

    info: BufferInfo
    stmt: Stmt
    lifetimes: list[_Lifetime] = field(default_factory=list)
    shared: bool = False


@dataclass(eq=False)
class _Lifetime:
    """The lifetime of one execution of an allocation. ``depth`` is the number of loops around the allocation."""

    depth: int
    first: int = -1
    last: int = -1

    def touch(self, time: int) -> None:
        self.first = time if self.first < 0 else min(self.first, time)
        self.last = max(self.last, time)


@dataclass
class _Loop:
    begin: int
    touched: set[_Lifetime] = field(default_factory=set)


class _Walk:
    def __init__(self, mod: IRModule):
        self.callees = Callees(mod)
        self.alignments = Alignments(mod)
        self.buffers: dict[int, _Buffer] = {}
        self.names: set[str] = set()
        self.loops: list[_Loop] = []
        self.calls: list[str] = []
        self.escaped: set[_Lifetime] = set()
        self.parallel = 0
        self.now = 0

    # --- accesses ---

    def access(self, lifetime: _Lifetime) -> None:
        if len(self.loops) > lifetime.depth:
            self.loops[lifetime.depth].touched.add(lifetime)
        else:
            lifetime.touch(self.now)

    def touch(self, found: frozenset[_Lifetime]) -> None:
        for lifetime in found:
            self.access(lifetime)

    def step(self, nodes: Any, environment: Environment, escapes: bool = False) -> None:
        """Record one point in time, at which the expressions are evaluated, and enter the functions that they call.
        ``escapes`` is whether pointers are stored to memory: any later statement of the function may then use them."""
        self.now += 1
        stack: list[Any] = list(nodes)
        while stack:
            node = stack.pop()
            found = self.callees.called(node)
            if found is not None:
                self.call(node, *found, environment)
                continue
            var = pointer_of(node)
            if var is not None:
                self.touch(environment.get(var, frozenset()))
                if escapes and type(node) is not BufferLoad:
                    self.escaped |= environment.get(var, frozenset())
            stack.extend(reversed(node.children()))

    def call(self, node: Any, var: Any, function: PrimFunc, environment: Environment) -> None:
        name = var.name_hint
        if name in self.calls:
            raise TVMError(f"{name} calls itself; the memory of recursive functions cannot be planned")
        inner: Environment = {}
        values: list[Any] = []
        for param, argument in bind_arguments(node, var, function):
            if is_pointer(argument):
                inner[param] = roots_of(argument, environment)
                if param in function.buffer_map:
                    inner[function.buffer_map[param].data] = inner[param]
            else:
                values.append(argument)
        if values:
            self.step(values, environment)
        self.function(name, function, inner)

    def function(self, name: str, function: PrimFunc, environment: Environment) -> None:
        self.calls.append(name)
        outer, self.escaped = self.escaped, set()
        self.block(function.body, environment)
        self.now += 1
        for lifetime in self.escaped:
            self.access(lifetime)
        # If the callee stored an address of the caller's memory, that memory is live until the caller returns.
        self.escaped |= outer
        self.calls.pop()

    # --- statements ---

    def block(self, stmt: Stmt, environment: Environment) -> None:
        """Visit a statement. Definitions (allocations, lets, attributes) contain the rest of their block as body, so
        the method iterates over them to avoid deep recursion."""
        outputs: list[_Lifetime] = []
        parallel = self.parallel
        while True:
            if isinstance(stmt, (Allocate, AllocateConst)):
                environment = self.allocate(stmt, environment, outputs)
            elif isinstance(stmt, LetStmt):
                environment = self.let(stmt, environment)
            elif isinstance(stmt, AttrStmt):
                self.parallel += stmt.attr_key in ("thread_extent", "virtual_thread")
            elif isinstance(stmt, AssertStmt):
                self.step([stmt.condition], environment)
            elif not isinstance(stmt, DeclBuffer):
                break
            stmt = stmt.body
        self.statement(stmt, environment)
        self.parallel = parallel
        self.now += bool(outputs)
        for lifetime in outputs:
            lifetime.touch(self.now)

    def let(self, stmt: LetStmt, environment: Environment) -> Environment:
        if stmt.value.dtype != "handle" or self.callees.called(stmt.value) is not None:
            self.step([stmt.value], environment)
            return environment
        return {**environment, stmt.var: roots_of(stmt.value, environment)}

    def statement(self, stmt: Any, environment: Environment) -> None:
        if isinstance(stmt, SeqStmt):
            for part in stmt.seq:
                self.block(part, environment)
        elif isinstance(stmt, Evaluate):
            self.step([stmt.value], environment, escapes=op_name(stmt.value) == "tir.tvm_struct_set")
        elif isinstance(stmt, BufferStore):
            self.store(stmt, environment)
        elif isinstance(stmt, For):
            self.step([stmt.min, stmt.extent], environment)
            once = type(stmt.extent) is IntImm and stmt.extent.value <= 1
            threads = stmt.kind not in (ForKind.SERIAL, ForKind.UNROLLED)
            self.loop(stmt.body, environment, once, threads)
        elif isinstance(stmt, While):
            self.loop(stmt.body, environment, False, False, [stmt.condition])
        elif isinstance(stmt, IfThenElse):
            self.step([stmt.condition], environment)
            for part in (stmt.then_case, stmt.else_case):
                if part is not None:
                    self.block(part, environment)
        else:
            raise TVMError(f"memory planning requires flattened buffers; found {type(stmt).__name__}")

    def store(self, stmt: BufferStore, environment: Environment) -> None:
        self.step([stmt.value, *stmt.indices], environment, escapes=stmt.value.dtype == "handle")
        self.touch(environment.get(stmt.buffer.data, frozenset()))

    def loop(self, body: Stmt, environment: Environment, once: bool, threads: bool, condition: Any = ()) -> None:
        """Visit a loop. A later iteration may read a value that an earlier one wrote, so memory that is allocated
        outside the loop and used inside is live during the whole loop."""
        self.parallel += threads
        if not once:
            self.loops.append(_Loop(self.now + 1))
        if condition:
            self.step(condition, environment)
        self.block(body, environment)
        if not once:
            ended = self.loops.pop()
            for lifetime in ended.touched:
                lifetime.touch(ended.begin)
                lifetime.touch(self.now)
        self.parallel -= threads

    # --- allocations ---

    def allocate(self, stmt: Any, environment: Environment, outputs: list[_Lifetime]) -> Environment:
        buffer = self.buffers.get(id(stmt))
        if buffer is None:
            record = self.record(stmt)
            if record is None:
                return environment
            buffer = self.buffers[id(stmt)] = _Buffer(record, stmt)
        buffer.shared |= self.parallel > 0 and isinstance(stmt, Allocate)
        lifetime = _Lifetime(len(self.loops))
        buffer.lifetimes.append(lifetime)
        if INPUT_TENSOR_ATTR in stmt.annotations:
            lifetime.touch(0)
        if OUTPUT_TENSOR_ATTR in stmt.annotations:
            outputs.append(lifetime)
        return {**environment, stmt.buffer_var: frozenset((lifetime,))}

    def record(self, stmt: Any) -> BufferInfo | None:
        pools = (stmt.annotations or {}).get(CANDIDATE_MEMORY_POOL_ATTR)
        size = allocated_bytes(stmt)
        if not pools or size is None or not is_pooled_scope(stmt.buffer_var):
            return None
        if isinstance(stmt, AllocateConst) and not isinstance(stmt.data_or_idx, NDArray):
            raise TVMError(f"the constant '{stmt.buffer_var.name}' has no data: {stmt.data_or_idx}")
        return BufferInfo(self.unique(stmt.buffer_var.name), size, pools, self.alignments.of(stmt))

    def unique(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self.names:
            count += 1
            candidate = f"{name}{count}"
        self.names.add(candidate)
        return candidate


def _set_conflicts(buffers: list[_Buffer]) -> int:
    """Set the conflicts of workspace buffers; return the maximum number of bytes that are live at the same time."""
    events: list[tuple[int, int, int]] = []
    for number, buffer in enumerate(buffers):
        for lifetime in buffer.lifetimes:
            if lifetime.first >= 0:
                events += [(lifetime.first, 0, number), (lifetime.last, 1, number)]
    conflicts: list[dict[int, None]] = [{} for _ in buffers]
    live: dict[int, int] = {}
    size = most = 0
    for _, ends, number in sorted(events):
        if ends:
            live[number] -= 1
            if not live[number]:
                del live[number]
                size -= buffers[number].info.size_bytes
            continue
        if number not in live:
            size += buffers[number].info.size_bytes
            most = max(most, size)
            for other in live:
                conflicts[number][other] = conflicts[other][number] = None
        live[number] = live.get(number, 0) + 1
    for buffer, others in zip(buffers, conflicts):
        buffer.info.set_conflicts(buffers[other].info for other in sorted(others))
    return most


def extract_buffer_info(main_func: PrimFunc, mod: IRModule) -> BufferInfoAnalysis:
    """Find the buffers of a program, their sizes, alignments and candidate pools, and their conflicts.

    Only allocations of constant size outside of parallel loops are buffers, and only if their annotation
    ``candidate_memory_pools`` lists pools. Constants are always live, so each constant conflicts with all others.

    Parameters
    ----------
    main_func : PrimFunc
        The main function, which calls the operators.
    mod : IRModule
        The module with the functions that the main function calls. A call of any other function counts as an access
        to all its pointer arguments.

    Returns
    -------
    BufferInfoAnalysis
        The buffers with their statements, and the memory pressure.

    Raises
    ------
    TVMError
        A function calls itself, a call has a wrong number of arguments, or LowerTVMBuiltin has already run.
    """
    walk = _Walk(mod)
    environment: Environment = {}
    walk.function("the main function", main_func, environment)
    found = [b for b in walk.buffers.values() if not b.shared]
    constants = [b for b in found if isinstance(b.stmt, AllocateConst)]
    pressure = _set_conflicts([b for b in found if not isinstance(b.stmt, AllocateConst)])
    for buffer in constants:
        buffer.info.set_conflicts(other.info for other in constants if other is not buffer)
    return BufferInfoAnalysis({b.info: b.stmt for b in found}, pressure)


__all__ = ["extract_buffer_info"]
