"""Calls from generated code into the runtime, through the table of function pointers that the loader initializes."""

from __future__ import annotations

from .builder import Builder
from .module import TABLE

# Table entry -> byte offset, return type.
SLOTS = {
    "set_last_error": (8, "void"),
    "func_call": (16, "i32"),
    "get_func_from_env": (24, "i32"),
    "parallel_launch": (32, "i32"),
    "parallel_barrier": (40, "i32"),
    "alloc_workspace": (48, "ptr"),
    "free_workspace": (56, "i32"),
    "raise_argument_error": (64, "i32"),
    "check_tensor": (72, "i32"),
    "parallel_for": (80, "i32"),
    "raise_value": (88, "i32"),
    "use_tiles": (104, "i32"),
}


def runtime_call(b: Builder, slot: str, arguments: list[tuple[str, str]]) -> str:
    """Call a table entry with (type, operand) pairs and return its value."""
    offset, result = SLOTS[slot]
    if b.index == "i32":
        # The table begins with two 32-bit words; the pointers after them are also 32-bit on 32-bit machines.
        offset = 8 + (offset - 8) // 2
    table = b.op(f"load ptr, ptr @{TABLE}, align {b.module.pointer_bytes}")
    place = b.op(f"getelementptr i8, ptr {table}, i64 {offset}")
    function = b.op(f"load ptr, ptr {place}, align {b.module.pointer_bytes}")
    text = f"call {result} {function}({', '.join(f'{kind} {operand}' for kind, operand in arguments)})"
    b.forget_memory()
    if result == "void":
        b.line(text)
        return "0"
    return b.effect(text)


def return_if_failed(b: Builder, status: str) -> None:
    """Return ``status`` from the function unless it is zero."""
    failed, passed = b.label("failed"), b.label("passed")
    b.branch_if(b.op(f"icmp eq i32 {status}, 0"), passed, failed, b.module.likely())
    b.start(failed)
    leave(b, status)
    b.start(passed)


def free_held(b: Builder) -> None:
    """Free the allocated workspace before an early return from the function."""
    b.push()
    for arguments in reversed(b.held.values()):
        runtime_call(b, "free_workspace", arguments)
    b.pop()


def leave(b: Builder, status: str = "-1") -> None:
    """Return a status from a function that returns one, or an undefined value from any other function."""
    free_held(b)
    if b.result == "void":
        b.finish("ret void")
    else:
        b.finish(f"ret {b.result} {status if b.result == 'i32' else 'zeroinitializer'}")
