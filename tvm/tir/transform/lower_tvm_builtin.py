"""LowerTVMBuiltin: lower packed calls, tensors on the stack and large allocations to plain operations.

A packed call needs arrays for its arguments and their type codes. They are allocated once at the start of the function,
or of the body of a parallel loop, which runs in another stack frame. Their size is that of the statement with the most
arguments. They are filled directly before the statement with the call.
"""

from __future__ import annotations

from typing import Any

from ...dtype import CODES, code_of, info
from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var, const
from ...ir.visit import rewrite
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)
from .make_packed_api import (
    ARRAY_ADDRESS,
    ARRAY_BYTE_OFFSET,
    ARRAY_DATA,
    ARRAY_DEVICE_ID,
    ARRAY_DEVICE_TYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    ARRAY_TYPE_BITS,
    ARRAY_TYPE_CODE,
    ARRAY_TYPE_LANES,
    VALUE_CONTENT,
    array_over,
    device_type_of,
    handle_to,
    struct_get,
)
from .statement import StmtRewriter, is_call, op_name

# Allocations up to this size stay on the stack. Memory of scope local always stays there.
STACK_BYTES = 4096
# Memory that the schedule marked as local stays on the stack up to this size, which fits the stack of every thread.
LOCAL_STACK_BYTES = 64 * 1024

_PACKED = {
    "tir.tvm_call_packed": "tir.tvm_call_packed_lowered",
    "tir.tvm_call_cpacked": "tir.tvm_call_cpacked_lowered",
    "tir.tvm_call_trace_packed": "tir.tvm_call_trace_packed_lowered",
}
_STRING, _TENSOR, _OPAQUE = 11, 7, 3


def stays_on_stack(node: Allocate) -> bool:
    """Return whether a host function keeps an allocation on the stack: if it is small or annotated with
    ``on_stack``."""
    kind = getattr(node.buffer_var.type_annotation, "storage_scope", "") or "global"
    size = info(node.dtype).bytes * info(node.dtype).lanes
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return bool(node.annotations.get("on_stack"))
        size *= extent.value
    limit = STACK_BYTES if kind == "global" else LOCAL_STACK_BYTES
    return size <= limit or bool(node.annotations.get("on_stack"))


class Frame:
    """The stack arrays of a function or parallel body, and the number of entries that the current statement uses."""

    def __init__(self):
        self.value = Var("stack_value", "handle")
        self.code = handle_to("int32", "stack_tcode")
        self.shape = handle_to("int64", "stack_shape")
        self.array = Var("stack_array", "handle")
        self.codes = array_over(self.code, "int32")
        self.shapes = array_over(self.shape, "int64")
        self.used = {"arg_value": 0, "shape": 0, "array": 0}
        self.most = {"arg_value": 0, "shape": 0, "array": 0}

    def take(self, what: str, count: int) -> int:
        begin = self.used[what]
        self.used[what] = begin + count
        self.most[what] = max(self.most[what], begin + count)
        return begin

    def wrap(self, body: Stmt) -> Stmt:
        """Return ``body`` inside the allocations it needs."""
        for var, kind, size in (
            (self.array, "array", self.most["array"]),
            (self.shape, "shape", self.most["shape"]),
            (self.code, "arg_tcode", self.most["arg_value"]),
            (self.value, "arg_value", self.most["arg_value"]),
        ):
            if size:
                allocate = Call("handle", Op.get("tir.tvm_stack_alloca"), (StringImm(kind), const(size, "int32")))
                body = LetStmt(var, allocate, body)
        return body


class BuiltinLowerer(StmtRewriter):
    def __init__(self, device_type: int = 1):
        self.frame = Frame()
        self.prepare: list[Stmt] = []
        self.device_type: PrimExpr = const(device_type, "int32")
        self.device_id: PrimExpr = const(0, "int32")

    def run(self, body: Stmt) -> Stmt:
        return self.framed(body)

    def framed(self, body: Stmt) -> Stmt:
        outer, self.frame = self.frame, Frame()
        new = self.frame.wrap(self.stmt(body))
        self.frame = outer
        return new

    # Statements -----------------------------------------------------------------------------------------------
    def stmt(self, node: Stmt) -> Stmt:
        outer, self.prepare = self.prepare, []
        used = dict(self.frame.used)
        new = StmtRewriter.stmt(self, node)
        new = seq(*self.prepare, new) if self.prepare else new
        self.prepare = outer
        self.frame.used = used
        return new

    def on_For(self, node: For) -> Stmt:
        low, extent = self.expr(node.min), self.expr(node.extent)
        body = self.framed(node.body) if node.kind is ForKind.PARALLEL else self.stmt(node.body)
        return node.replace(min=low, extent=extent, body=body)

    def on_While(self, node: While) -> Stmt:
        condition = self.expr(node.condition)
        if self.prepare:
            raise TVMError("a packed call in the condition of a while loop is not supported; call it in the body")
        return While(condition, self.stmt(node.body))

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key in ("device_id", "device_type", "device_context_id", "device_context_type"):
            field = "device_id" if node.attr_key.endswith("id") else "device_type"
            old = getattr(self, field)
            setattr(self, field, self.expr(node.value))
            body = self.stmt(node.body)
            setattr(self, field, old)
            return body
        return self.keep(node)

    def on_Allocate(self, node: Allocate) -> Stmt:
        body = self.stmt(node.body)
        # A device cannot access the stack of the host.
        on_host = isinstance(self.device_type, IntImm) and self.device_type.value == 1
        if on_host and stays_on_stack(node) or node.annotations.get("on_stack"):
            return node if body is node.body else node.replace(body=body)
        total: PrimExpr = const(info(node.dtype).bytes * info(node.dtype).lanes, "uint64")
        for extent in node.extents:
            total = total * primop.cast("uint64", self.expr(extent))
        return self.workspace(node, total, body)

    def workspace(self, node: Allocate, nbytes: PrimExpr, body: Stmt) -> Stmt:
        code = CODES["uint"] if info(node.dtype).is_bool else code_of(node.dtype)
        numbers = (nbytes, const(code, "int32"), const(info(node.dtype).bits, "int32"))
        var = node.buffer_var
        where = (self.device_type, self.device_id)
        allocate = Call("handle", Op.get("tir.TVMBackendAllocWorkspace"), (*where, *numbers))
        free = Call("int32", Op.get("tir.TVMBackendFreeWorkspace"), (*where, var))
        fail = Evaluate(Call("int32", Op.get("tir.tvm_throw_last_error"), ()))
        failed = Call("bool", Op.get("tir.isnullptr"), (var,))
        inner = seq(IfThenElse(failed, fail), body, IfThenElse(primop.not_equal(free, 0), fail))
        return LetStmt(var, allocate, AttrStmt(var, "storage_alignment", const(64, "int32"), inner))

    # Expressions ----------------------------------------------------------------------------------------------
    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after)

    def after(self, node: Any):
        name = op_name(node)
        if name in _PACKED:
            return self.packed(node, _PACKED[name])
        if name == "tir.tvm_stack_make_shape":
            return self.make_shape(node)
        if name == "tir.tvm_stack_make_array":
            return self.make_array(node)
        return None

    def packed(self, node: Call, lowered: str) -> PrimExpr:
        args = list(node.args[1:])
        extra = (args.pop(),) if lowered.endswith("cpacked_lowered") and args else ()
        frame = self.frame
        begin = frame.take("arg_value", len(args) + 1)
        for i, arg in enumerate(args):
            code, value = packed_value(arg)
            if value is not None:
                self.put(frame.value, begin + i, VALUE_CONTENT, value)
            self.prepare.append(BufferStore(frame.codes, const(code, "int32"), (const(begin + i, "int32"),)))
        bounds = (const(begin, "int32"), const(begin + len(args), "int32"))
        return Call(node.dtype, Op.get(lowered), (node.args[0], frame.value, frame.code, *bounds, *extra))

    def put(self, pointer: Var, index: int, field: int, value: PrimExpr) -> None:
        args = (pointer, const(index, "int32"), const(field, "int32"), value)
        self.prepare.append(Evaluate(Call("int32", Op.get("tir.tvm_struct_set"), args)))

    def make_shape(self, node: Call) -> PrimExpr:
        frame = self.frame
        begin = frame.take("shape", max(len(node.args), 1))
        for i, extent in enumerate(node.args):
            self.prepare.append(BufferStore(frame.shapes, primop.cast("int64", extent), (const(begin + i, "int32"),)))
        return Call("handle", Op.get("tir.address_of"), (BufferLoad(frame.shapes, (const(begin, "int32"),)),))

    def make_array(self, node: Call) -> PrimExpr:
        data, shape, strides, ndim, like, elem_offset = node.args
        kind = info(like.dtype)
        index = self.frame.take("array", 1)
        array = self.frame.array
        null = Call("handle", Op.get("tir.reinterpret"), (const(0, "uint64"),))
        code = CODES["uint"] if kind.is_bool else code_of(like.dtype)
        offset = primop.cast("uint64", elem_offset) * const(kind.bytes * kind.lanes, "uint64")
        for field, value in (
            (ARRAY_DATA, data),
            (ARRAY_SHAPE, shape),
            (ARRAY_STRIDES, null if isinstance(strides, IntImm) else strides),
            (ARRAY_NDIM, primop.cast("int32", ndim)),
            (ARRAY_TYPE_CODE, const(code, "uint8")),
            (ARRAY_TYPE_BITS, const(kind.bits, "uint8")),
            (ARRAY_TYPE_LANES, const(kind.lanes, "uint16")),
            (ARRAY_BYTE_OFFSET, offset),
            (ARRAY_DEVICE_ID, self.device_id),
            (ARRAY_DEVICE_TYPE, self.device_type),
        ):
            self.put(array, index, field, value)
        return struct_get("handle", array, index, ARRAY_ADDRESS)


def packed_value(arg: PrimExpr) -> tuple[int, PrimExpr | None]:
    """Return the type code of an argument, and its value in the type that packed calls pass."""
    if isinstance(arg, StringImm):
        return _STRING, arg
    kind = info(arg.dtype)
    if kind.lanes != 1:
        raise TVMError(f"the arguments of a packed call must be scalars or tensors, got a vector of type {arg.dtype}")
    if kind.is_handle:
        tensor = is_call(arg, "tir.tvm_struct_get") and int(arg.args[2]) == ARRAY_ADDRESS
        return (_TENSOR if tensor else _OPAQUE), arg
    if kind.is_float:
        return CODES["float"], primop.cast("float64", arg)
    return CODES["int"], primop.cast("int64", arg)


def lower_tvm_builtin(func: PrimFunc) -> PrimFunc:
    return func.replace(body=BuiltinLowerer(device_type_of(func)).run(func.body))
