"""Statements as LLVM text."""

from __future__ import annotations

from ...dtype import info
from ...error import TVMError
from ...ir.prim import Add, And, BufferLoad, Call, IntImm, Mul, PrimExpr, StringImm, Sub, Var
from ...ir.visit import post_order
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
from . import memory as llvm_memory
from . import parallel as llvm_parallel
from . import recorded as llvm_recorded
from . import tiles as llvm_tiles
from .builder import Builder
from .expr import bind
from .loop import fixed_iteration, serial_loop
from .memory import LINE, wide_value
from .memory_operands import LaneOperands, MemoryOperands
from .runtime import leave, runtime_call
from .value import value

# Larger stack buffers are rejected; lowering should have allocated workspace.
_STACK_LIMIT = 1 << 20


def emit(b: Builder, stmt: Stmt | None) -> None:
    """Emit a statement. A handler may return a statement to continue with, so that long chains of lets do not
    recurse."""
    while stmt is not None:
        handler = HANDLERS.get(type(stmt))
        if handler is None:
            raise TVMError(
                f"the llvm back end cannot emit {type(stmt).__name__}; lower the function before code generation"
            )
        if b.terminated:
            b.revive()
        stmt = handler(b, stmt)


def _sequence(b: Builder, stmt: SeqStmt) -> None:
    for part in stmt.seq:
        emit(b, part)


def _evaluate(b: Builder, stmt: Evaluate) -> None:
    b.push_iteration()
    value(b, stmt.value)
    b.pop_iteration()


def _store(b: Builder, stmt: BufferStore) -> None:
    b.push_iteration()
    _relax_reduction(b, stmt)
    llvm_memory.store(b, stmt)
    b.pop_iteration()


def _relax_reduction(b: Builder, stmt: BufferStore) -> None:
    """Mark the arithmetic of a reduction ``C[i] = C[i] + ...``: its additions and multiplications may be contracted and
    reordered."""
    root = stmt.value
    if not isinstance(root, (Add, Sub)) or not info(root.dtype).is_float or id(root) in b.relaxed:
        return
    index = llvm_memory.access_of(b, stmt.indices[0])
    parts = (root.a, root.b) if isinstance(root, Add) else (root.a,)
    if not any(_is_same_element(b, part, stmt, index) for part in parts):
        return
    stack: list[PrimExpr] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, (Add, Sub, Mul)) and id(node) not in b.relaxed:
            b.relaxed.add(id(node))
            stack.append(node.a)
            stack.append(node.b)


def _is_same_element(b: Builder, node: PrimExpr, stmt: BufferStore, index) -> bool:
    if not isinstance(node, BufferLoad) or node.buffer.data is not stmt.buffer.data:
        return False
    if node.indices[0] is stmt.indices[0]:
        return True
    other = llvm_memory.access_of(b, node.indices[0])
    return other.base is not None and other == index


def _let(b: Builder, stmt: LetStmt) -> Stmt:
    b.push_iteration()
    operand = value(b, stmt.value)
    b.pop_iteration()
    bind(b, stmt.var, operand, stmt.value)
    if stmt.var.dtype == "handle":
        _describe_pointer(b, stmt.var, stmt.value)
    return stmt.body


def _describe_pointer(b: Builder, var: Var, source: PrimExpr) -> None:
    """Record that workspace memory of the runtime is aligned and has no aliases."""
    name = source.op.name if isinstance(source, Call) and hasattr(source.op, "name") else ""
    if name == "tir.TVMBackendAllocWorkspace" or _extern_name(source) == "TVMBackendAllocWorkspace":
        b.alignment[var] = 64
        b.private.add(var)
    if name == "tir.TVMBackendAllocWorkspace":
        device = [("i32", value(b, number)) for number in source.args[:2]]
        b.held[var] = [*device, ("ptr", value(b, var))]


def _extern_name(node: PrimExpr) -> str:
    if isinstance(node, Call) and node.args and isinstance(node.args[0], StringImm):
        return node.args[0].value
    return ""


# Loops


def _for(b: Builder, stmt: For) -> None:
    kind = stmt.kind
    if kind is ForKind.PARALLEL:
        llvm_parallel.emit_parallel(b, stmt, emit)
    elif kind is ForKind.UNROLLED:
        _unrolled(b, stmt)
    elif kind is ForKind.VECTORIZED:
        raise TVMError(f"loop {stmt.loop_var.name} is still vectorized; run VectorizeLoop before code generation")
    elif kind is ForKind.THREAD_BINDING:
        raise TVMError(f"loop {stmt.loop_var.name} is bound to a thread; a CPU function has no thread axes")
    else:
        begin, count = _bounds(b, stmt)
        serial_loop(b, stmt, begin, count, lambda: emit(b, stmt.body))


def _bounds(b: Builder, stmt: For) -> tuple[str, str]:
    b.push_iteration()
    begin, count = wide_value(b, stmt.min), wide_value(b, stmt.extent)
    b.pop_iteration()
    return begin, count


def _unrolled(b: Builder, stmt: For) -> None:
    begin, count = _bounds(b, stmt)
    if begin[0] == "%" or count[0] == "%":
        serial_loop(b, stmt, begin, count, lambda: emit(b, stmt.body))
        return
    body = stmt.body
    first = int(begin)
    for number in range(first, first + int(count)):
        fixed_iteration(b, stmt.loop_var, number, lambda: emit(b, body))


def _while(b: Builder, stmt: While) -> None:
    head, body, done = b.label("while"), b.label("body"), b.label("done")
    b.branch(head)
    b.start(head)
    b.push()
    condition = value(b, stmt.condition)
    b.branch_if(condition, body, done)
    b.start(body)
    b.push()
    emit(b, stmt.body)
    b.pop()
    b.branch(head)
    b.pop()
    b.start(done)


# Branches


def _if(b: Builder, stmt: IfThenElse) -> None:
    b.push_iteration()
    flag = value(b, stmt.condition)
    b.pop_iteration()
    if flag in ("true", "false"):
        chosen = stmt.then_case if flag == "true" else stmt.else_case
        if chosen is not None:
            emit(b, chosen)
        return
    yes, done = b.label("then"), b.label("endif")
    no = b.label("else") if stmt.else_case is not None else done
    b.branch_if(flag, yes, no, b.module.likely() if _contains_likely(stmt.condition) else "")
    _branch_body(b, yes, stmt.then_case, done)
    if stmt.else_case is not None:
        _branch_body(b, no, stmt.else_case, done)
    b.start(done)


def _contains_likely(condition: PrimExpr) -> bool:
    """Return whether a conjunction contains a condition marked likely."""
    while isinstance(condition, And):
        if is_likely(condition.b):
            return True
        condition = condition.a
    return is_likely(condition)


def is_likely(node: PrimExpr) -> bool:
    return isinstance(node, Call) and getattr(node.op, "name", "") == "tir.likely"


def _branch_body(b: Builder, label: str, stmt: Stmt, done: str) -> None:
    b.start(label)
    b.push()
    emit(b, stmt)
    b.pop()
    b.branch(done)


def _assert(b: Builder, stmt: AssertStmt) -> Stmt:
    if b.device is not None:
        # Device code cannot report errors, so assertions are removed.
        return stmt.body
    b.push_iteration()
    flag = value(b, stmt.condition)
    b.pop_iteration()
    if flag != "true":
        failed, passed = b.label("failed"), b.label("passed")
        b.branch_if(flag, passed, failed, b.module.likely())
        b.start(failed)
        b.push()
        message = stmt.message
        text = value(b, message) if isinstance(message, StringImm) else b.module.string(str(message))
        runtime_call(b, "set_last_error", [("ptr", text)])
        leave(b)
        b.pop()
        b.start(passed)
    return stmt.body


# Memory


def _allocate(b: Builder, stmt: Allocate) -> Stmt | None:
    if b.device is None and llvm_tiles.is_fragment(stmt):
        llvm_tiles.allocate(b, stmt, emit)
        return None
    shared = b.device.allocate(stmt) if b.device is not None else None
    if shared is not None:
        b.remember(stmt.buffer_var, shared)
        b.alignment[stmt.buffer_var] = 16
        b.private.add(stmt.buffer_var)
        return stmt.body
    count = info(stmt.dtype).lanes
    b.push_iteration()
    for extent in stmt.extents:
        size = value(b, extent)
        if size[0] == "%":
            b.pop_iteration()
            raise TVMError(
                f"buffer {stmt.buffer_var.name} on the stack has a dynamic size; "
                "run LowerTVMBuiltin, which allocates it as workspace"
            )
        count *= int(size)
    b.pop_iteration()
    kind = info(stmt.dtype)
    if count * kind.bytes > _STACK_LIMIT:
        raise TVMError(
            f"buffer {stmt.buffer_var.name} needs {count * kind.bytes} bytes of stack (limit {_STACK_LIMIT}); "
            "run LowerTVMBuiltin, which allocates it as workspace"
        )
    scalar = "i8" if kind.is_bool else b.types.memory(stmt.dtype).split(" x ")[-1].rstrip(">")
    pointer = b.alloca(f"[{max(count, 1)} x {scalar}]", 64, stmt.buffer_var.name)
    _own_memory(b, stmt.buffer_var, pointer)
    return stmt.body


def _own_memory(b: Builder, var: Var, pointer: str) -> None:
    b.remember(var, pointer)
    b.alignment[var] = 64 if b.device is None else 16
    b.private.add(var)


def _allocate_const(b: Builder, stmt: AllocateConst) -> Stmt:
    data = stmt.data_or_idx
    raw = data.numpy() if hasattr(data, "numpy") else data
    name = b.module.bytes_constant(raw.tobytes(), 64)
    _own_memory(b, stmt.buffer_var, name)
    return stmt.body


def _declare_buffer(b: Builder, stmt: DeclBuffer) -> Stmt:
    return stmt.body


# Attributes


def _attribute(b: Builder, stmt: AttrStmt) -> Stmt | None:
    handler = ATTRIBUTES.get(stmt.attr_key)
    if handler is not None:
        return handler(b, stmt)
    if stmt.attr_key == "thread_extent" and b.device is not None:
        return b.device.thread_axis(stmt)
    if stmt.attr_key in ("thread_extent", "virtual_thread"):
        raise TVMError(
            f"{b.name}: thread axis {getattr(stmt.node, 'thread_tag', stmt.node)} is not supported on a CPU; "
            "build for a device target, or do not bind the axis"
        )
    return stmt.body


def _import_llvm(b: Builder, stmt: AttrStmt) -> Stmt:
    if not isinstance(stmt.value, StringImm):
        raise TVMError("pragma import_llvm: the value must be a string with LLVM text or the path of a .ll file")
    b.module.import_text(stmt.value.value)
    return stmt.body


def _storage_alignment(b: Builder, stmt: AttrStmt) -> Stmt:
    if isinstance(stmt.node, Var) and isinstance(stmt.value, IntImm):
        b.alignment[stmt.node] = max(b.alignment.get(stmt.node, 0), stmt.value.value)
    return stmt.body


def _stream_stores(b: Builder, stmt: AttrStmt) -> Stmt | None:
    """Use streaming stores in a loop if they write complete cache lines. A fence orders them before later stores once
    the function returns."""
    written = {node.buffer.data for node in post_order(stmt.body) if isinstance(node, BufferStore)}
    if b.module.cpu.arch != "x86" or len(written) != 1:
        return stmt.body
    (data,) = written
    low = b.op(f"and i64 {b.op(f'ptrtoint ptr {value(b, data)} to i64')}, {LINE - 1}")
    yes, no, done = b.label("stream"), b.label("store"), b.label("stored")
    b.branch_if(b.op(f"icmp eq i64 {low}, 0"), yes, no, "")
    known = b.alignment.get(data, 0)
    b.alignment[data], b.store_hint = max(known, LINE), f", !nontemporal {b.module.add_metadata('!{i32 1}')}"
    _branch_body(b, yes, stmt.body, done)
    b.alignment[data], b.store_hint = known, ""
    _branch_body(b, no, stmt.body, done)
    b.start(done)
    b.fence = f"call void {b.module.declare('llvm.x86.sse.sfence', 'void', '')}()"
    return None


def _operands(b: Builder, stmt: AttrStmt, kind: type) -> None:
    outer, b.memory_operands = b.memory_operands, kind(int(stmt.value))
    emit(b, stmt.body)
    b.memory_operands = outer


ATTRIBUTES = {
    "coproc_uop_scope": lambda b, s: llvm_recorded.emit_recorded(b, s, emit),
    "pragma_lane_operands": lambda b, s: _operands(b, s, LaneOperands),
    "pragma_memory_operands": lambda b, s: _operands(b, s, MemoryOperands),
    "pragma_stream_stores": _stream_stores,
    "pragma_debug_skip_region": lambda b, s: None,
    "pragma_import_llvm": _import_llvm,
    "storage_alignment": _storage_alignment,
    "pragma_parallel_launch_point": lambda b, s: llvm_parallel.emit_launch_point(b, s, emit),
    "pragma_parallel_barrier_when_finish": lambda b, s: llvm_parallel.emit_barrier_after(b, s, emit),
    "pragma_parallel_if": lambda b, s: llvm_parallel.emit_parallel_if(b, s, emit),
    "pragma_parallel_stride_pattern": lambda b, s: llvm_parallel.emit_stride_pattern(b, s, emit),
}

HANDLERS = {
    SeqStmt: _sequence,
    Evaluate: _evaluate,
    BufferStore: _store,
    LetStmt: _let,
    For: _for,
    While: _while,
    IfThenElse: _if,
    AssertStmt: _assert,
    Allocate: _allocate,
    AllocateConst: _allocate_const,
    DeclBuffer: _declare_buffer,
    AttrStmt: _attribute,
}
