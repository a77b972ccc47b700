"""Counted loops."""

from __future__ import annotations

from collections.abc import Callable

from ...dtype import info
from ...ir.prim import Var
from ...tir.stmt import For
from .builder import Builder, clean
from .quotients import lift

# Maximum number of lines of a loop body for which LLVM's loop vectorizer is likely to be worth its compile time.
_LONGEST_SCALAR = 150


def add_index(b: Builder, x: str, y: str) -> str:
    if x[0] != "%" and y[0] != "%":
        return str(int(x) + int(y))
    if x == "0":
        return y
    return x if y == "0" else b.op(f"add nsw {b.index} {x}, {y}")


def serial_loop(b: Builder, stmt: For, begin: str, count: str, body: Callable[[], None], step: str = "1") -> None:
    """Emit the loop of ``stmt``, or its iterations [begin, begin + count), with the step ``step``. The loop condition
    is tested at the end, and once before the loop unless it provably runs."""
    var = stmt.loop_var
    if count[0] != "%" and int(count) <= 0:
        return
    if begin[0] != "%" and count == "1":
        fixed_iteration(b, var, int(begin), body)
        return
    end = add_index(b, begin, count)
    text = b.index
    head, done = b.label("loop"), b.label("done")
    if count[0] == "%":
        enter = b.label("enter")
        b.branch_if(b.op(f"icmp slt {text} {begin}, {end}"), enter, done)
        b.start(enter)
    before = b.block
    b.branch(head)
    b.start(head)
    b.push()
    counter = b.fresh(clean(var.name) + ".")
    phi = len(b.out)
    b.out.append("")
    b.loop_depth += 1
    b.inner, b.strided = var, False
    _bind_counter(b, var, counter)
    b.ranges.bind(var, b.ranges.of_loop(stmt.min, stmt.extent, var.dtype), index=True)
    for node in b.quotients.get(var, ()):
        lift(b, node)
    body()
    if b.terminated:
        b.revive()
    b.loop_depth -= 1
    next_value = b.effect(f"add nsw {text} {counter}, {step}")
    more = b.effect(f"icmp slt {text} {next_value}, {end}")
    b.out[phi] = f"  {counter} = phi {text} [ {begin}, %{before} ], [ {next_value}, %{b.block} ]"
    b.branch_if(more, head, done, b.module.loop_metadata(_is_scalar(b, phi)))
    b.pop()
    b.inner = None
    b.wide.pop(var, None)
    b.ranges.bind(var, None)
    b.start(done)


def _is_scalar(b: Builder, start: int) -> bool:
    """Return whether the lines since ``start`` are straight-line scalar code on adjacent elements, so that the schedule
    left vectorization to LLVM."""
    lines = b.out[start:]
    if len(lines) > _LONGEST_SCALAR or b.strided:
        return False
    return not any("<" in line or line[0] != " " or "call i32" in line for line in lines)


def _bind_counter(b: Builder, var: Var, counter: str) -> None:
    if info(var.dtype).is_uint:
        width = b.types[var.dtype]
        b.remember(var, counter if width == b.index else b.op(f"trunc {b.index} {counter} to {width}"))
    else:
        b.wide[var] = counter
    b.level[var] = b.loop_depth


def fixed_iteration(b: Builder, var: Var, number: int, body: Callable[[], None]) -> None:
    """Emit a loop body once, with a constant value of the loop variable."""
    b.constants[var] = number
    b.ranges.bind(var, (number, number), index=True)
    b.push_iteration()
    body()
    b.pop_iteration()
    b.ranges.bind(var, None)
    del b.constants[var]
