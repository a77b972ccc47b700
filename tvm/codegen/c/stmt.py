"""Statements of the C family."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dtype import element, info
from ...error import TVMError
from ...ir.prim import Call, IntImm, PrimExpr, StringImm, Var
from ...tir.stmt import (
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
from ..linear import one_index
from . import expr as c_expr
from . import vector as c_vector
from .names import bare
from .source import comment

if TYPE_CHECKING:
    from .like import CLike


def emit(p: CLike, stmt: Stmt | None) -> None:
    """Print a statement. A printer may return a statement to continue with, so that long chains of lets do not
    recurse."""
    while stmt is not None:
        handler = p.statements.get(type(stmt))
        if handler is None:
            raise TVMError(
                f"the {p.language} back end cannot emit {type(stmt).__name__}; lower the function before code "
                "generation"
            )
        stmt = handler(p, stmt)


def block(p: CLike, head: str, stmt: Stmt, tail: str = "}") -> None:
    p.open(head)
    emit(p, stmt)
    p.close(tail)


def _sequence(p: CLike, stmt: SeqStmt) -> None:
    for part in stmt.seq:
        emit(p, part)


def _evaluate(p: CLike, stmt: Evaluate) -> None:
    p.evaluate(stmt.value)


def _store(p: CLike, stmt: BufferStore) -> None:
    buffer = stmt.buffer
    index = one_index(buffer, stmt.indices)
    if element(stmt.value.dtype) != element(buffer.dtype):
        raise TVMError(
            f"cannot store a value of type {stmt.value.dtype} in buffer {buffer.name} of type {buffer.dtype}"
        )
    p.begin(stmt.value, index)
    p.mark_indices((index,))
    if info(index.dtype).lanes * info(buffer.dtype).lanes > 1:
        c_vector.store(p, stmt)
    else:
        text = p.last_value(stmt.value)
        p.line(f"{c_expr.place(p, buffer, index)} = {bare(text)};")
    p.end()


def let(p: CLike, stmt: LetStmt) -> Stmt:
    var, value = stmt.var, stmt.value
    p.begin(value)
    if info(var.dtype).lanes > 1 and var.dtype != "handle":
        array = c_vector.materialise(p, value, var.name)
        p.end()
        p.arrays[id(var)] = array
        p.names[var] = array
        return stmt.body
    if var not in p.pointees and var.dtype == "handle":
        p.pointees[var] = p.declared_pointee(var)
    text = p.last_value(value)
    kind = p.variable_type(var)
    promise = ""
    if var.dtype == "handle":
        if is_workspace(value):
            p.private.add(var)
            promise = f" {p.restrict}"
        text = text if kind == "void*" else f"({kind}){text}"
    bound = p.ranges.of(value) if info(var.dtype).is_int else None
    name = p.bind(var)
    p.line(f"{'' if kind.endswith('*') else 'const '}{kind}{promise} {name} = {bare(text)};{p.named(var)}")
    p.end()
    p.ranges.bind(var, bound)
    return stmt.body


def is_workspace(value: PrimExpr) -> bool:
    """Return whether a buffer is workspace memory of the runtime, which has no aliases."""
    if not isinstance(value, Call):
        return False
    name = getattr(value.op, "name", "")
    first = value.args[0] if value.args else None
    return name == "tir.TVMBackendAllocWorkspace" or (
        isinstance(first, StringImm) and first.value == "TVMBackendAllocWorkspace"
    )


# Loops


def _for(p: CLike, stmt: For) -> Stmt | None:
    kind = stmt.kind
    if kind is ForKind.PARALLEL:
        return p.parallel_loop(stmt)
    if kind is ForKind.VECTORIZED:
        raise TVMError(f"loop {stmt.loop_var.name} is still vectorized; run VectorizeLoop before code generation")
    if kind is ForKind.THREAD_BINDING:
        raise TVMError(f"loop {stmt.loop_var.name} is bound to a thread; split host and device before code generation")
    serial_loop(p, stmt)
    return None


def loop_bounds(p: CLike, stmt: For) -> tuple[str, str]:
    """Return the first value and the end of a loop."""
    p.begin(stmt.min, stmt.extent)
    p.mark_indices((stmt.min, stmt.extent))
    first = p.value(stmt.min)
    count = p.value(stmt.extent) if isinstance(stmt.extent, (IntImm, Var)) else p.named_value(stmt.extent)
    p.end()
    if isinstance(stmt.min, IntImm) and isinstance(stmt.extent, IntImm):
        return first, p.literal(stmt.loop_var.dtype, stmt.min.value + stmt.extent.value)
    if isinstance(stmt.min, IntImm) and stmt.min.value == 0:
        return first, count
    if not (first.isidentifier() or isinstance(stmt.min, IntImm)):
        first = p.temporary(stmt.min.dtype, first)
    return first, f"{first} + {count}"


def serial_loop(p: CLike, stmt: For) -> None:
    first, end = loop_bounds(p, stmt)
    counted_loop(p, stmt, first, end)


def counted_loop(p: CLike, stmt: For, first: str, end: str, step: str = "") -> None:
    """Print ``for var in [first, end)`` with the step ``step``."""
    var = stmt.loop_var
    kind = p.scalar_type(var.dtype)
    p.enter_block()
    name = p.bind(var)
    advance = f"{name} += {step}" if step else f"++{name}"
    note = p.named(var)
    p.ranges.bind(var, p.ranges.of_loop(stmt.min, stmt.extent, var.dtype))
    if stmt.kind is ForKind.UNROLLED and isinstance(stmt.extent, IntImm) and stmt.extent.value > 1 and p.unroll_line:
        p.line(p.unroll_line.format(count=min(stmt.extent.value, 65534)))
    block(p, f"for ({kind} {name} = {bare(first)}; {name} < {bare(end)}; {advance}) {{{note}", stmt.body)
    p.ranges.bind(var, None)
    p.leave_block()


def _while(p: CLike, stmt: While) -> None:
    outer, p.lines = p.lines, []
    p.indent += 1
    p.enter_block()
    p.begin(stmt.condition)
    condition = bare(p.value(stmt.condition))
    p.end()
    p.indent -= 1
    lines, p.lines = p.lines, outer
    if lines:
        p.line("while (1) {")
        p.lines += lines
        p.line(f"  if (!({condition})) break;")
    else:
        p.line(f"while ({condition}) {{")
    p.indent += 1
    emit(p, stmt.body)
    p.close()


# Branches


def _if(p: CLike, stmt: IfThenElse) -> None:
    p.begin(stmt.condition)
    flag = bare(p.value(stmt.condition))
    p.end()
    block(p, f"if ({flag}) {{", stmt.then_case, "}" if stmt.else_case is None else "} else {")
    if stmt.else_case is not None:
        p.enter_block()
        p.indent += 1
        emit(p, stmt.else_case)
        p.close()


def _assert(p: CLike, stmt: AssertStmt) -> Stmt:
    p.begin(stmt.condition)
    flag = p.value(stmt.condition)
    p.end()
    message = stmt.message.value if isinstance(stmt.message, StringImm) else str(stmt.message)
    p.line(f"if (!{flag}) {{")
    p.indent += 1
    p.report(message)
    p.line(p.fail())
    p.indent -= 1
    p.line("}")
    return stmt.body


# Memory


def _allocate(p: CLike, stmt: Allocate) -> Stmt:
    var, kind = stmt.buffer_var, info(stmt.dtype)
    count = kind.lanes
    for extent in stmt.extents:
        if not isinstance(extent, IntImm):
            raise TVMError(
                f"buffer {var.name} on the stack has a dynamic size; "
                "run LowerTVMBuiltin, which allocates it as workspace"
            )
        count *= extent.value
    if count * kind.bytes > p.stack_limit:
        raise TVMError(
            f"buffer {var.name} needs {count * kind.bytes} bytes of stack (limit {p.stack_limit}); "
            "run LowerTVMBuiltin, which allocates it as workspace"
        )
    own_memory(p, var, stmt.dtype)
    name = p.bind(var)
    scope = p.scopes.get(p.storage_scope(var), "")
    note = "" if name == var.name else f" /* {comment(var.name)} */"
    p.line(f"{scope}{p.memory_type(element(stmt.dtype))} {name}[{max(count, 1)}]{p.alignment};{note}")
    return stmt.body


def own_memory(p: CLike, var: Var, dtype: str) -> None:
    """Declare the memory of ``var`` as an array of ``dtype``; it is accessed only through this variable."""
    p.private.add(var)
    seen = p.pointees.get(var, element(dtype))
    if seen is None or p.memory_type(seen) != p.memory_type(element(dtype)):
        p.pointees[var] = None
    else:
        p.pointees[var] = element(dtype)


def _allocate_const(p: CLike, stmt: AllocateConst) -> Stmt:
    data = stmt.data_or_idx
    array = data.numpy() if hasattr(data, "numpy") else data
    dtype = element(stmt.dtype)
    numbers = [p.literal(dtype, x) for x in array.ravel().tolist()]
    kind = p.memory_type(dtype)
    rows = [", ".join(numbers[i : i + 12]) for i in range(0, len(numbers), 12)] or ["0"]
    after = f"[{max(len(numbers), 1)}]{p.alignment} = {{\n  " + ",\n  ".join(rows) + "\n}"
    constant = p.source.constant(stmt.buffer_var.name, f"static const {kind}", after, p.taken)
    own_memory(p, stmt.buffer_var, stmt.dtype)
    name = p.bind(stmt.buffer_var)
    p.line(f"{p.pointer_type(stmt.buffer_var)} {name} = ({p.pointer_type(stmt.buffer_var)}){constant};")
    return stmt.body


def _declare_buffer(p: CLike, stmt: DeclBuffer) -> Stmt:
    return stmt.body


# Attributes


def _attribute(p: CLike, stmt: AttrStmt) -> Stmt | None:
    handler = p.attributes.get(stmt.attr_key)
    return stmt.body if handler is None else handler(p, stmt)


def _thread_axis(p: CLike, stmt: AttrStmt) -> Stmt:
    tag = getattr(stmt.node, "thread_tag", "")
    text = p.thread_axes.get(tag)
    if text is None:
        raise TVMError(
            f"{p.name}: thread axis {tag or stmt.node} is not supported on the host; build for a device target, or "
            "do not bind the axis"
        )
    var = stmt.node.var
    if var not in p.names:
        name = p.bind(var)
        p.line(f"const {p.scalar_type(var.dtype)} {name} = {text};{p.named(var)}")
        if isinstance(stmt.value, IntImm):
            p.ranges.bind(var, (0, stmt.value.value - 1))
    return stmt.body


def _import_text(p: CLike, stmt: AttrStmt) -> Stmt:
    if not isinstance(stmt.value, StringImm):
        raise TVMError("pragma import_c: the value must be a string with C source or the path of a .c file")
    p.source.import_text(read_import(stmt.value.value))
    return stmt.body


def read_import(text: str) -> str:
    """Return C source as given, or the contents of the .c or .h file at the given path."""
    if "\n" in text or not text.endswith((".c", ".h")):
        return text
    with open(text, encoding="utf-8") as file:
        return file.read()


def _refuse_llvm(p: CLike, stmt: AttrStmt) -> Stmt:
    raise TVMError(f"{p.name}: pragma import_llvm needs target llvm; use import_c to import C source")


def _refuse_recording(p: CLike, stmt: AttrStmt) -> Stmt:
    raise TVMError(f"{p.name}: micro-op kernels of a coprocessor (coproc_uop_scope) need a host of target llvm")


ATTRIBUTES: dict[str, Callable] = {
    "coproc_uop_scope": _refuse_recording,
    "thread_extent": _thread_axis,
    "virtual_thread": _thread_axis,
    "pragma_debug_skip_region": lambda p, stmt: None,
    "pragma_import_c": _import_text,
    "pragma_import_llvm": _refuse_llvm,
}

STATEMENTS: dict[type, Callable] = {
    SeqStmt: _sequence,
    Evaluate: _evaluate,
    BufferStore: _store,
    LetStmt: let,
    For: _for,
    While: _while,
    IfThenElse: _if,
    AssertStmt: _assert,
    Allocate: _allocate,
    AllocateConst: _allocate_const,
    DeclBuffer: _declare_buffer,
    AttrStmt: _attribute,
}
