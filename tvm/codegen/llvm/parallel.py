"""Parallel loops: the body becomes a separate function, which the runtime calls once per task.

The body receives its variables as parameters, which preserves the no-alias attributes of pointers; a small function
unpacks them from the closure. region.py describes how tasks share a loop; the counters for this are on the stack of the
launching thread. Loops of a launch point are split evenly instead, because such a loop may run many times in one
launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...error import TVMError
from ...ir.prim import Var
from ...tir.stmt import AttrStmt, For, Stmt, no_op
from ..region import APART, PIECES, RANGES, is_worth_sharing, outer_variables, without_allocations
from . import quotients
from .builder import Builder
from .loop import add_index, serial_loop
from .memory import wide_value
from .runtime import return_if_failed, runtime_call
from .value import value


class Region(NamedTuple):
    """The state inside a parallel region, with the index of the task. ``split``: the tasks share a parallel loop here;
    ``counted``: iterations are distributed in chunks."""

    task: str
    count: str
    environment: str
    split: bool
    strided: bool
    counted: bool


class Captured(NamedTuple):
    var: Var
    type_text: str
    operand: str
    is_wide: bool


def emit_parallel(b: Builder, stmt: For, emit) -> None:
    region = b.parallel
    if region is None:
        _launch(b, stmt, lambda inner: _share(inner, stmt, emit), counted=not b.strided_next and is_worth_sharing(stmt))
    elif region.split:
        _share(b, stmt, emit)
    else:
        # A parallel loop inside a loop that already runs in parallel.
        begin, count = wide_value(b, stmt.min), wide_value(b, stmt.extent)
        serial_loop(b, stmt, begin, count, lambda: emit(b, stmt.body))


def emit_launch_point(b: Builder, stmt: AttrStmt, emit) -> None:
    if b.parallel is not None:
        raise TVMError(f"{b.name}: parallel_launch_point must not be inside a parallel region")
    body, shared = without_allocations(stmt.body)
    for allocation in shared:
        emit(b, allocation.replace(body=no_op()))
    _launch(b, body, lambda inner: emit(inner, body), counted=False)


def emit_barrier_after(b: Builder, stmt: AttrStmt, emit) -> None:
    region = b.parallel
    if region is None or not region.split:
        raise TVMError(f"{b.name}: parallel_barrier_when_finish needs an enclosing parallel_launch_point")
    emit(b, stmt.body)
    status = runtime_call(b, "parallel_barrier", [("i32", region.task), ("ptr", region.environment)])
    return_if_failed(b, status)


def emit_stride_pattern(b: Builder, stmt: AttrStmt, emit) -> None:
    region = b.parallel
    if region is None:
        b.strided_next = True
        emit(b, stmt.body)
        b.strided_next = False
        return
    b.parallel = region._replace(strided=True)
    emit(b, stmt.body)
    b.parallel = region


def emit_parallel_if(b: Builder, stmt: AttrStmt, emit) -> None:
    """Run the loop as one task in this thread if the condition is false."""
    if b.parallel is None:
        b.tasks_next = b.op(f"select i1 {value(b, stmt.value)}, i32 0, i32 1")
    emit(b, stmt.body)
    b.tasks_next = "0"


def _share(b: Builder, stmt: For, emit) -> None:
    """Emit the part of a parallel loop that this task executes."""
    region: Region = b.parallel
    text = b.index
    begin, extent = wide_value(b, stmt.min), wide_value(b, stmt.extent)
    task = b.op(f"sext i32 {region.task} to i64")
    tasks = b.op(f"sext i32 {region.count} to i64")
    b.parallel = region._replace(split=False)
    b.quotients = quotients.find(stmt)

    def body() -> None:
        emit(b, stmt.body)

    if region.strided:
        first = _to_index(b, task)
        left = b.op(f"sub nsw {text} {extent}, {first}")
        serial_loop(b, stmt, add_index(b, begin, first), left, body, _to_index(b, tasks))
    elif region.counted:
        _take_pieces(b, _to_64(b, extent), task, tasks, lambda low, count: serial_loop(
            b, stmt, add_index(b, begin, _to_index(b, low)), _to_index(b, count), body
        ))  # fmt: skip
    else:
        whole = _to_64(b, extent)
        low = b.op(f"sdiv i64 {b.op(f'mul nsw i64 {whole}, {task}')}, {tasks}")
        after = b.op(f"add nsw i64 {task}, 1")
        high = b.op(f"sdiv i64 {b.op(f'mul nsw i64 {whole}, {after}')}, {tasks}")
        count = _to_index(b, b.op(f"sub nsw i64 {high}, {low}"))
        serial_loop(b, stmt, add_index(b, begin, _to_index(b, low)), count, body)
    b.parallel = region


class Range(NamedTuple):
    """A range of a shared loop, in iterations from the start of the loop; all values are i64."""

    low: str
    high: str
    own: str
    piece: str
    count: str


def _take_pieces(b: Builder, extent: str, task: str, tasks: str, run: Callable[[str, str], None]) -> None:
    """Execute the first half of this task's range, then chunks of this and the other ranges until none is left."""
    few = b.op(f"icmp sle i64 {tasks}, {RANGES}")
    ranges = b.op(f"select i1 {few}, i64 {tasks}, i64 {RANGES}")
    before, following, ticket, work, over, done = b.block, *map(b.label, ("range", "ticket", "work", "over", "done"))
    b.branch(following)
    b.start(following)
    b.push()
    turn, onward = b.fresh("turn"), b.fresh("turn")
    b.line(f"{turn} = phi i64 [ 0, %{before} ], [ {onward}, %{over} ]")
    r = _range(b, extent, b.op(f"srem i64 {b.op(f'add nsw i64 {task}, {turn}')}, {ranges}"), ranges, tasks, few)
    home = b.op(f"and i1 {b.op(f'icmp eq i64 {turn}, 0')}, {few}")
    b.branch_if(home, work, ticket)
    b.start(ticket)
    b.push()
    number = b.op(f"zext i32 {b.effect(f'atomicrmw add ptr {r.count}, i32 1 monotonic')} to i64")
    place = b.op(f"add nsw i64 {r.own}, {b.op(f'mul nsw i64 {number}, {r.piece}')}")
    begin = b.op(f"add nsw i64 {r.low}, {place}")
    b.branch_if(b.op(f"icmp slt i64 {begin}, {r.high}"), work, over)
    b.pop()
    b.start(work)
    b.push()
    low, wanted = b.fresh("low"), b.fresh("wanted")
    b.line(f"{low} = phi i64 [ {r.low}, %{following} ], [ {begin}, %{ticket} ]")
    b.line(f"{wanted} = phi i64 [ {r.own}, %{following} ], [ {r.piece}, %{ticket} ]")
    room = b.op(f"sub nsw i64 {r.high}, {low}")
    run(low, b.op(f"select i1 {b.op(f'icmp slt i64 {wanted}, {room}')}, i64 {wanted}, i64 {room}"))
    b.branch(ticket)
    b.pop()
    b.start(over)
    b.line(f"{onward} = add nsw i64 {turn}, 1")
    b.branch_if(b.op(f"icmp slt i64 {onward}, {ranges}"), following, done)
    b.pop()
    b.start(done)


def _range(b: Builder, extent: str, index: str, ranges: str, tasks: str, few: str) -> Range:
    low = b.op(f"sdiv i64 {b.op(f'mul nsw i64 {extent}, {index}')}, {ranges}")
    after = b.op(f"add nsw i64 {index}, 1")
    high = b.op(f"sdiv i64 {b.op(f'mul nsw i64 {extent}, {after}')}, {ranges}")
    size = b.op(f"sub nsw i64 {high}, {low}")
    half = b.op(f"select i1 {few}, i64 {_divided_up(b, size, '2')}, i64 0")
    own = b.op(f"select i1 {b.op(f'icmp eq i64 {tasks}, 1')}, i64 {size}, i64 {half}")
    takers = b.op(f"sdiv i64 {b.op(f'mul nsw i64 {tasks}, {PIECES}')}, {ranges}")
    piece = _at_least_one(b, _divided_up(b, b.op(f"sub nsw i64 {size}, {own}"), takers))
    place = b.op(f"mul nsw i64 {index}, {APART}")
    return Range(low, high, own, piece, b.op(f"getelementptr inbounds i8, ptr %taken, i64 {place}"))


def _at_least_one(b: Builder, operand: str) -> str:
    return b.op(f"select i1 {b.op(f'icmp sgt i64 {operand}, 1')}, i64 {operand}, i64 1")


def _divided_up(b: Builder, x: str, y: str) -> str:
    """Return ``x / y`` rounded up; for a negative ``x``, any value below one."""
    less = b.op(f"sub nsw i64 {y}, 1")
    return b.op(f"sdiv i64 {b.op(f'add nsw i64 {x}, {less}')}, {y}")


def _to_64(b: Builder, operand: str) -> str:
    return operand if b.index == "i64" or operand[0] != "%" else b.op(f"sext {b.index} {operand} to i64")


def _to_index(b: Builder, operand: str) -> str:
    return operand if b.index == "i64" else b.op(f"trunc i64 {operand} to {b.index}")


def captured_variables(b: Builder, stmt: Stmt) -> list[Captured]:
    """Return the variables of the enclosing function that ``stmt`` uses, in order of first use."""
    out = []
    for var in outer_variables(stmt):
        if var in b.constants:
            continue
        if var in b.wide:
            out.append(Captured(var, b.index, b.wide[var], True))
        else:
            out.append(Captured(var, b.types[var.dtype], value(b, var), False))
    return out


def _launch(b: Builder, stmt: Stmt, write_body, counted: bool) -> None:
    """Generate the functions for ``stmt`` and run them on all threads. The closure begins with the chunk counters."""
    module = b.module
    captured = captured_variables(b, stmt)
    number = len(module.functions)
    body_name = f"{b.name}.parallel.{number}"
    module.parallel_regions += 1
    task_name = "__tvm_parallel_lambda" + (f".{module.parallel_regions - 1}" if module.parallel_regions > 1 else "")
    inner = Builder(module, body_name)
    parameters = ["i32 %task", "i32 %tasks", "ptr %environment", "ptr %taken"]
    for i, item in enumerate(captured):
        promise = " noalias" if item.type_text == "ptr" and item.var in b.private else ""
        parameters.append(f"{item.type_text}{promise} %c{i}")
        enter_captured(b, inner, item, f"%c{i}")
    inner.constants = dict(b.constants)
    inner.ranges = b.ranges.copy()
    inner.parallel = Region("%task", "%tasks", "%environment", True, b.strided_next, counted)
    module.functions.append("")
    write_body(inner)
    if not inner.terminated:
        inner.finish("ret i32 0")
    text = function_text(body_name, parameters, inner)
    module.functions[number] = text + _unpacker(b, task_name, body_name, captured)
    kinds = ", ".join(["ptr", *(item.type_text for item in captured)])
    closure = b.alloca(f"{{ {kinds} }}", 16, "closure")
    b.line(f"store ptr {_fresh_counts(b) if counted else 'null'}, ptr {closure}")
    for i, item in enumerate(captured, 1):
        place = b.op(f"getelementptr inbounds {{ {kinds} }}, ptr {closure}, i32 0, i32 {i}")
        b.line(f"store {item.type_text} {item.operand}, ptr {place}")
    lambda_name = module.symbol(task_name)
    status = runtime_call(b, "parallel_launch", [("ptr", lambda_name), ("ptr", closure), ("i32", b.tasks_next)])
    return_if_failed(b, status)


def _fresh_counts(b: Builder) -> str:
    """Return zeroed counters; all regions of a function use the same memory, because they run one after the other."""
    if b.counts is None:
        b.counts = b.alloca(f"[{RANGES * APART} x i8]", APART, "taken")
    for i in range(RANGES):
        place = b.op(f"getelementptr inbounds i8, ptr {b.counts}, i64 {i * APART}")
        b.line(f"store i32 0, ptr {place}")
    return b.counts


def enter_captured(b: Builder, inner: Builder, item: Captured, operand: str) -> None:
    """Bind a captured variable in the body, with all facts that are known about it outside."""
    var = item.var
    if item.is_wide:
        inner.wide[var] = operand
    else:
        inner.remember(var, operand)
    inner.level[var] = 0
    if var in b.private:
        inner.private.add(var)
    if var in b.alignment:
        inner.alignment[var] = b.alignment[var]


def function_text(name: str, parameters: list[str], inner: Builder) -> str:
    head = f"define internal i32 {inner.module.symbol(name)}({', '.join(parameters)}) #0 {{\nentry:"
    return "\n".join([head, *inner.entry, *inner.out, "}", ""])


def _unpacker(b: Builder, task_name: str, body_name: str, captured: list[Captured]) -> str:
    """Emit the function that the runtime calls: it unpacks the closure and calls the body."""
    symbol = b.module.symbol
    kinds = ", ".join(["ptr", *(item.type_text for item in captured)])
    lines = [
        f"define internal i32 {symbol(task_name)}(i32 %task, ptr %environment, ptr %closure) #0 {{",
        "entry:",
        "  %tasks = load i32, ptr %environment, align 4",
        "  %taken = load ptr, ptr %closure",
    ]
    passed = ["i32 %task", "i32 %tasks", "ptr %environment", "ptr %taken"]
    for i, item in enumerate(captured):
        lines.append(f"  %p{i} = getelementptr inbounds {{ {kinds} }}, ptr %closure, i32 0, i32 {i + 1}")
        lines.append(f"  %c{i} = load {item.type_text}, ptr %p{i}")
        passed.append(f"{item.type_text} %c{i}")
    lines.append(f"  %status = tail call i32 {symbol(body_name)}({', '.join(passed)})")
    lines.append("  ret i32 %status\n}\n")
    return "\n".join(lines)
