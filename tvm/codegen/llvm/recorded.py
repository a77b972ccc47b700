"""Micro-op kernels of a coprocessor (attribute ``coproc_uop_scope``): code that a C function records and caches.

The body becomes a separate function of a closure. The value of the attribute is the name of a C function
``int push(void **handle, int (*record)(void *), void *closure, int nbytes)``. It calls ``record`` when it sees the
contents of the closure for the first time, and identifies the call site by ``*handle``, which is NULL at first.
"""

from __future__ import annotations

from ...dtype import info
from ...error import TVMError
from ...ir.prim import StringImm
from ...tir.stmt import AttrStmt
from .builder import Builder
from .parallel import Captured, captured_variables, enter_captured, function_text


def emit_recorded(b: Builder, stmt: AttrStmt, emit) -> None:
    if b.device is not None or not isinstance(stmt.value, StringImm):
        raise TVMError(f"{b.name}: coproc_uop_scope needs host code and the name of a C function, got {stmt.value}")
    captured = captured_variables(b, stmt.body)
    for item in captured:
        # The bytes of a pointer differ from run to run, so the kernel would be recorded in each of them.
        if item.type_text == "ptr" or info(item.var.dtype).is_float:
            raise TVMError(f"{b.name}: a micro-op kernel uses {item.var.name}; it can only use integers")
    record, handle = _write_record(b, stmt, captured, emit)
    kinds = ", ".join(item.type_text for item in captured)
    # A packed structure has no padding, whose bytes would be undefined.
    closure = b.alloca(f"<{{ {kinds} }}>", 16, "closure") if captured else "null"
    for i, item in enumerate(captured):
        place = b.op(f"getelementptr inbounds <{{ {kinds} }}>, ptr {closure}, i32 0, i32 {i}")
        b.line(f"store {item.type_text} {item.operand}, ptr {place}, align 1")
    size = sum(int(item.type_text[1:]) // 8 for item in captured)
    push = b.module.declare(stmt.value.value, "i32", "ptr, ptr, ptr, i32")
    b.forget_memory()
    b.effect(f"call i32 {push}(ptr {handle}, ptr {record}, ptr {closure}, i32 {size})")


def _write_record(b: Builder, stmt: AttrStmt, captured: list[Captured], emit) -> tuple[str, str]:
    """Write the function that records the kernel; return it and the handle of the call site."""
    module = b.module
    number = len(module.functions)
    name = f"{b.name}.recorded.{number}"
    inner = Builder(module, name)
    kinds = ", ".join(item.type_text for item in captured)
    for i, item in enumerate(captured):
        place = inner.op(f"getelementptr inbounds <{{ {kinds} }}>, ptr %closure, i32 0, i32 {i}")
        loaded = inner.op(f"load {item.type_text}, ptr {place}, align 1")
        enter_captured(b, inner, item, loaded)
    inner.constants = dict(b.constants)
    inner.ranges = b.ranges.copy()
    module.functions.append("")
    emit(inner, stmt.body)
    if not inner.terminated:
        inner.finish("ret i32 0")
    module.functions[number] = function_text(name, ["ptr %closure"], inner)
    handle = module.symbol(f"{name}.handle")
    module.constants.append(f"{handle} = internal global ptr null, align {module.pointer_bytes}")
    return module.symbol(name), handle
