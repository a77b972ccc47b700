"""Structs of the runtime in generated code: packed arguments, DLTensor fields, and packed calls."""

from __future__ import annotations

from typing import NamedTuple

from ...dtype import dlpack_parts, info
from ...error import TVMError
from ...ir.prim import Call, IntImm, PrimExpr, StringImm
from .builder import Builder
from .cast import convert
from .module import CONTEXT
from .runtime import return_if_failed, runtime_call
from .value import value


class Field(NamedTuple):
    """A field of DLTensor: its byte offsets with 64-bit and 32-bit pointers, and its dtype."""

    offset: int
    offset_32: int
    dtype: str


# Keys are the numbers of tvm_struct_get and tvm_struct_set.
FIELDS = {
    1: Field(0, 0, "handle"),
    2: Field(24, 20, "handle"),
    3: Field(32, 24, "handle"),
    4: Field(16, 12, "int32"),
    5: Field(20, 16, "uint8"),
    6: Field(21, 17, "uint8"),
    7: Field(22, 18, "uint16"),
    8: Field(40, 32, "uint64"),
    9: Field(12, 8, "int32"),
    10: Field(8, 4, "int32"),
}
ADDRESS, VALUE = 0, 12


def _tensor_bytes(b: Builder) -> int:
    return 48 if b.index == "i64" else 40


def _number(node: PrimExpr, what: str) -> int:
    if not isinstance(node, IntImm):
        raise TVMError(f"{what} must be a literal, got {node}")
    return node.value


def _address(b: Builder, node: Call, offset: int, size: int) -> str:
    """Return the address ``offset`` bytes into struct number ``args[1]`` of an array of structs."""
    base = value(b, node.args[0])
    index = node.args[1]
    if isinstance(index, IntImm):
        offset += index.value * size
        return base if offset == 0 else b.op(f"getelementptr i8, ptr {base}, {b.index} {offset}")
    which = convert(b, index.dtype, "int64" if b.index == "i64" else "int32", value(b, index))
    base = b.op(f"getelementptr [{size} x i8], ptr {base}, {b.index} {which}")
    return base if offset == 0 else b.op(f"getelementptr i8, ptr {base}, {b.index} {offset}")


def _value_dtype(dtype: str) -> str:
    """Return the dtype in which a packed argument passes a value of ``dtype``."""
    kind = info(dtype)
    return "handle" if kind.is_handle else "float64" if kind.is_float else "int64"


def _struct_get(b: Builder, node: Call) -> str:
    kind = _number(node.args[2], "the field of tvm_struct_get")
    if kind == ADDRESS:
        return _address(b, node, 0, _tensor_bytes(b))
    if kind == VALUE:
        dtype = _value_dtype(node.dtype)
        place = _address(b, node, 0, 8)
    else:
        field = FIELDS.get(kind)
        if field is None:
            raise TVMError(f"tvm_struct_get: unknown field number {kind}")
        dtype = field.dtype
        place = _address(b, node, field.offset if b.index == "i64" else field.offset_32, _tensor_bytes(b))
    got = b.effect(f"load {b.types[dtype]}, ptr {place}, align {min(info(dtype).bytes, 8)}")
    return convert(b, dtype, node.dtype, got)


def _struct_set(b: Builder, node: Call) -> str:
    kind = _number(node.args[2], "the field of tvm_struct_set")
    given = node.args[3]
    if kind == VALUE:
        dtype = _value_dtype(given.dtype)
        place = _address(b, node, 0, 8)
    else:
        field = FIELDS.get(kind)
        if field is None:
            raise TVMError(f"tvm_struct_set: unknown field number {kind}")
        dtype = field.dtype
        place = _address(b, node, field.offset if b.index == "i64" else field.offset_32, _tensor_bytes(b))
    operand = value(b, given)
    if not (info(dtype).is_handle and isinstance(given, IntImm) and given.value == 0):
        operand = convert(b, given.dtype, dtype, operand)
    else:
        operand = "null"
    b.line(f"store {b.types[dtype]} {operand}, ptr {place}, align {min(info(dtype).bytes, 8)}")
    b.forget_memory()
    return "0"


def _stack_alloca(b: Builder, node: Call) -> str:
    kind = node.args[0].value if isinstance(node.args[0], StringImm) else ""
    count = max(_number(node.args[1], "the size of tvm_stack_alloca"), 1)
    sizes = {"shape": 8, "arg_value": 8, "arg_tcode": 4, "array": _tensor_bytes(b)}
    if kind not in sizes:
        raise TVMError(f"tvm_stack_alloca: unknown kind '{kind}'; use one of {', '.join(sizes)}")
    return b.alloca(f"[{count * sizes[kind]} x i8]", 8, kind)


def _is_null(b: Builder, node: Call) -> str:
    return b.op(f"icmp eq ptr {value(b, node.args[0])}, null")


def _add_byte_offset(b: Builder, node: Call) -> str:
    base, offset = value(b, node.args[0]), node.args[1]
    amount = convert(b, offset.dtype, "int64" if b.index == "i64" else "int32", value(b, offset))
    return base if amount == "0" else b.op(f"getelementptr i8, ptr {base}, {b.index} {amount}")


# Packed calls

# The type code of a missing return value.
_NOTHING = 4


def _function_handle(b: Builder, name: str) -> str:
    """Return the handle of the packed function ``name``, which is looked up at the first call and cached in a variable
    of the module."""
    cache = b.module.packed_handle(name)
    known = b.effect(f"load ptr, ptr {cache}, align {b.module.pointer_bytes}")
    find, found = b.label("find"), b.label("found")
    b.branch_if(b.op(f"icmp eq ptr {known}, null"), find, found)
    b.start(find)
    b.push()
    context = b.effect(f"load ptr, ptr @{CONTEXT}, align {b.module.pointer_bytes}")
    arguments = [("ptr", context), ("ptr", b.module.string(name)), ("ptr", cache)]
    return_if_failed(b, runtime_call(b, "get_func_from_env", arguments))
    b.pop()
    b.branch(found)
    b.start(found)
    return b.effect(f"load ptr, ptr {cache}, align {b.module.pointer_bytes}")


def _packed_arguments(b: Builder, node: Call) -> tuple[str, str, str]:
    values, codes = value(b, node.args[1]), value(b, node.args[2])
    begin, end = _number(node.args[3], "the begin of the arguments"), _number(node.args[4], "their end")
    if begin:
        values = b.op(f"getelementptr i8, ptr {values}, {b.index} {8 * begin}")
        codes = b.op(f"getelementptr i8, ptr {codes}, {b.index} {4 * begin}")
    return values, codes, str(end - begin)


def _return_value_address(b: Builder) -> tuple[str, str]:
    """Return the memory for return values of packed calls; each function has one."""
    if b.result_place is None:
        b.result_place = (b.alloca("i64", 8, "ret_value"), b.alloca("i32", 4, "ret_tcode"))
    return b.result_place


def _packed_result(b: Builder, node: Call, result: str) -> str:
    if node.dtype in ("void", ""):
        return "0"
    dtype = _value_dtype(node.dtype)
    return convert(b, dtype, node.dtype, b.effect(f"load {b.types[dtype]}, ptr {result}, align 8"))


def _call_traced(b: Builder, node: Call) -> str:
    """Emit a packed call whose value is its last argument if the function returns nothing."""
    result = _call_packed_at(b, node)
    values, _, count = _packed_arguments(b, node)
    code = b.effect(f"load i32, ptr {_return_value_address(b)[1]}, align 4")
    last = b.op(f"getelementptr i8, ptr {values}, {b.index} {8 * (int(count) - 1)}")
    place = b.op(f"select i1 {b.op(f'icmp eq i32 {code}, {_NOTHING}')}, ptr {last}, ptr {result}")
    return _packed_result(b, node, place)


def _call_packed(b: Builder, node: Call) -> str:
    return _packed_result(b, node, _call_packed_at(b, node))


def _call_packed_at(b: Builder, node: Call) -> str:
    """Emit the call; return the address of its return value."""
    name = node.args[0]
    function = _function_handle(b, name.value) if isinstance(name, StringImm) else value(b, name)
    values, codes, count = _packed_arguments(b, node)
    result, result_code = _return_value_address(b)
    arguments = [("ptr", function), ("ptr", values), ("ptr", codes), ("i32", count), ("ptr", result)]
    arguments.append(("ptr", result_code))
    return_if_failed(b, runtime_call(b, "func_call", arguments))
    return result


def _call_cpacked(b: Builder, node: Call) -> str:
    if not isinstance(node.args[0], StringImm):
        raise TVMError(f"tvm_call_cpacked: the first argument must be the name of a C function, got {node.args[0]}")
    values, codes, count = _packed_arguments(b, node)
    result, result_code = _return_value_address(b)
    resource = value(b, node.args[5]) if len(node.args) > 5 else "null"
    if resource == "0":
        resource = "null"
    name, _ = b.module.callee(node.args[0].value)  # pyright: ignore[reportGeneralTypeIssues]
    function = b.module.declare(name, "i32", "ptr, ptr, i32, ptr, ptr, ptr")
    status = b.effect(
        f"call i32 {function}(ptr {values}, ptr {codes}, i32 {count}, ptr {result}, ptr {result_code}, ptr {resource})"
    )
    b.forget_memory()
    return_if_failed(b, status)
    return _packed_result(b, node, result)


# Checked arguments


def _int64_array(b: Builder, items: tuple[PrimExpr, ...]) -> str:
    """Return an array of int64 values: a constant for literals, else an array that is filled on the stack."""
    if not items:
        return "null"
    operands = [convert(b, i.dtype, "int64", value(b, i)) for i in items]
    kind = f"[{len(items)} x i64]"
    if all(x[0] != "%" for x in operands):
        return b.module.shared_constant(f"{kind} [{', '.join('i64 ' + x for x in operands)}]")
    array = b.alloca(kind, 8, "extents")
    for i, x in enumerate(operands):
        place = array if i == 0 else b.op(f"getelementptr i64, ptr {array}, i32 {i}")
        b.line(f"store i64 {x}, ptr {place}, align 8")
    return array


def _check_tensor(b: Builder, node: Call) -> str:
    function, name, index, given, code, annotation, device, alignment, ndim = node.args[:9]
    rank = _number(ndim, "the rank of tvm_check_tensor")
    shape = _int64_array(b, node.args[9 : 9 + rank])
    strides = _int64_array(b, node.args[10 + rank : 10 + rank + _number(node.args[9 + rank], "the number of strides")])
    type_code, bits, lanes = dlpack_parts(annotation.dtype)
    kind = "{ ptr, ptr, i8, i8, i16, i32, ptr, ptr, i32, i32 }"
    parts = [
        ("ptr", value(b, function)), ("ptr", value(b, name)), ("i8", str(type_code)), ("i8", str(bits)),
        ("i16", str(lanes)), ("i32", str(rank)), ("ptr", shape), ("ptr", strides),
        ("i32", convert(b, device.dtype, "int32", value(b, device))), ("i32", value(b, alignment)),
    ]  # fmt: skip
    if all(x[0] != "%" for _, x in parts):
        spec = b.module.shared_constant(f"{kind} {{ {', '.join(f'{t} {x}' for t, x in parts)} }}")
    else:
        spec = b.alloca(kind, 8, "spec")
        for i, (t, x) in enumerate(parts):
            b.line(f"store {t} {x}, ptr {b.op(f'getelementptr {kind}, ptr {spec}, i32 0, i32 {i}')}")
    out = b.alloca("ptr", 8, "tensor")
    arguments = [("ptr", spec), ("i32", value(b, index)), _by_value(b, value(b, given)), ("i32", value(b, code))]
    arguments.append(("ptr", out))
    return runtime_call(b, "check_tensor", arguments)


def _by_value(b: Builder, handle: str) -> tuple[str, str]:
    """Return a handle as a TVMValue that is passed by value: eight bytes, even if a pointer has four."""
    return ("ptr", handle) if b.index == "i64" else ("i64", b.op(f"ptrtoint ptr {handle} to i64"))


STRUCT_CALLS = {
    "tir.tvm_struct_get": _struct_get,
    "tir.tvm_struct_set": _struct_set,
    "tir.tvm_stack_alloca": _stack_alloca,
    "tir.isnullptr": _is_null,
    "tir.handle_add_byte_offset": _add_byte_offset,
    "tir.tvm_call_packed_lowered": _call_packed,
    "tir.tvm_call_trace_packed_lowered": _call_traced,
    "tir.tvm_call_cpacked_lowered": _call_cpacked,
    "tir.tvm_check_tensor": _check_tensor,
}
