"""Calls in the C family: intrinsics, functions of the module and external functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dtype import element, info
from ...error import TVMError
from ...ir.module import GlobalVar
from ...ir.prim import Call, IntImm, PrimExpr, StringImm
from ...tir.buffer import Buffer
from ..linear import one_index
from ..symbols import LIBM_BINARY, LIBM_UNARY, means_library
from . import expr as c_expr
from . import vector as c_vector
from .names import addend, bare

if TYPE_CHECKING:
    from .like import CLike

# Float functions of the C library, by the name of the intrinsic.
LIBRARY_FUNCTIONS = {
    **{name: name for name in LIBM_UNARY + LIBM_BINARY},
    "sqrt": "sqrt",
    "fabs": "fabs",
    "copysign": "copysign",
    "fma": "fma",
}


def emit_call(p: CLike, node: Call) -> str:
    if isinstance(node.op, GlobalVar):
        return _call_global(p, node)
    handler = p.calls.get(node.op.name)
    if handler is not None:
        return handler(p, node)
    name = node.op.name.removeprefix("tir.")
    if name in _FORMULAS and name not in p.math_functions:
        return _FORMULAS[name](p, element(node.dtype), p.value(node.args[0]))
    if name in p.math_functions or name in c_expr.OWN_FUNCTIONS:
        return c_expr.math_call(p, name, element(node.dtype), [p.value(a) for a in node.args])
    raise TVMError(
        f"{p.name}: the {p.language} back end does not support the intrinsic {node.op.name}; register a lowering "
        "rule with register_intrin_lowering"
    )


def _sigmoid(p: CLike, dtype: str, x: str) -> str:
    power = c_expr.math_call(p, "exp", dtype, [c_expr.arithmetic(p, "-", dtype, p.literal(dtype, -0.0), x)])
    one = p.literal(dtype, 1.0)
    return c_expr.arithmetic(p, "/", dtype, one, c_expr.arithmetic(p, "+", dtype, one, power))


def _reciprocal_root(p: CLike, dtype: str, x: str) -> str:
    return c_expr.arithmetic(p, "/", dtype, p.literal(dtype, 1.0), c_expr.math_call(p, "sqrt", dtype, [x]))


# Formulas for functions that the C library does not contain.
_FORMULAS: dict[str, Callable[[CLike, str, str], str]] = {
    "sigmoid": _sigmoid,
    "rsqrt": _reciprocal_root,
    "exp10": lambda p, dtype, x: c_expr.math_call(p, "pow", dtype, [p.literal(dtype, 10.0), x]),
}


# Choice


def _likely(p: CLike, node: Call) -> str:
    return p.value(node.args[0])


def _if_then_else(p: CLike, node: Call) -> str:
    array = p.arrays.get(id(node))
    if array is not None:
        return f"{array}[{p.lane}]"
    return c_expr.choose_lazily(p, node.dtype, p.value(node.args[0]), node.args[1], node.args[2])


# Bits


def _bitwise(operator: str) -> Callable[[CLike, Call], str]:
    def emit(p: CLike, node: Call) -> str:
        x, y = p.value(node.args[0]), p.value(node.args[1])
        kind = info(element(node.dtype))
        text = f"({x} {operator} {y})"
        return f"({p.scalar_type(element(node.dtype))}){text}" if kind.bits < 32 and not kind.is_bool else text

    return emit


def _bitwise_not(p: CLike, node: Call) -> str:
    x, dtype = p.value(node.args[0]), element(node.dtype)
    return f"(!{x})" if info(dtype).is_bool else f"({p.scalar_type(dtype)})(~{x})"


def _shift_left(p: CLike, node: Call) -> str:
    x, y, dtype = p.value(node.args[0]), p.value(node.args[1]), element(node.dtype)
    wide = p.scalar_type(f"uint{max(info(dtype).bits, 32)}")
    return f"({p.scalar_type(dtype)})(({wide}){x} << {y})"


def _shift_right(p: CLike, node: Call) -> str:
    x, y, dtype = p.value(node.args[0]), p.value(node.args[1]), element(node.dtype)
    text = f"({x} >> {y})"
    return f"({p.scalar_type(dtype)}){text}" if info(dtype).bits < 32 else text


def _reinterpret(p: CLike, node: Call) -> str:
    source, target = node.args[0].dtype, node.dtype
    have, want = info(source), info(target)
    if have.lanes != want.lanes or have.bytes != want.bytes:
        return c_vector.crossing_value(p, node)
    x = p.value(node.args[0])
    source, target = element(source), element(target)
    if p.memory_type(source) == p.memory_type(target) and not want.is_bool and not have.is_bool:
        return x
    if have.is_handle or want.is_handle or want.is_bool or have.is_bool:
        return c_expr.convert(p, source, target, x)
    if have.is_integer and want.is_integer:
        return f"({p.scalar_type(target)}){x}"
    return f"{p.source.bits_helper(source, target)}({bare(x)})"


def _large_uint(p: CLike, node: Call) -> str:
    low, high = node.args[0].value, node.args[1].value
    return p.literal(node.dtype, (high << 32) | (low & 0xFFFFFFFF))


def literal_of(node: PrimExpr) -> int | None:
    """Return the constant value of a literal, or of a vector with the same literal in each lane."""
    inner = getattr(node, "value", None)
    return node.value if isinstance(node, IntImm) else inner.value if isinstance(inner, IntImm) else None


def _multiply_shift(p: CLike, node: Call) -> str:
    """Return the fixed-point product of int32 values x * y * 2^(s - q), rounded half up."""
    fraction, shift = literal_of(node.args[2]), literal_of(node.args[3])
    if fraction is None:
        raise TVMError(f"q_multiply_shift: the number of fraction bits must be a literal, got {node.args[2]}")
    if shift is None:
        raise TVMError(f"q_multiply_shift: the shift must be a literal, got {node.args[3]}")
    x, y = p.value(node.args[0]), p.value(node.args[1])
    wide, total = p.scalar_type("int64"), fraction + max(-shift, 0)
    product = f"({wide}){x} * {p.literal('int64', 1 << max(shift, 0))} * ({wide}){y}"
    return f"({p.scalar_type('int32')})(({product} + {p.literal('int64', 1 << (total - 1))}) >> {total})"


def _count(operation: str) -> Callable[[CLike, Call], str]:
    """Return the number of leading zeros or ones of an integer; the output may have another integer type."""

    def emit(p: CLike, node: Call) -> str:
        name = p.source.typed_helper(operation, element(node.args[0].dtype))
        return c_expr.convert(p, "int32", element(node.dtype), f"{name}({bare(p.value(node.args[0]))})")

    return emit


def _ldexp(p: CLike, node: Call) -> str:
    x, power = p.value(node.args[0]), p.value(node.args[1])
    dtype = element(node.dtype)
    number = c_expr.convert(p, element(node.args[1].dtype), "int64", power)
    if c_expr.is_float_stored_as_bits(p, dtype):
        name = p.source.typed_helper("ldexp", "float32")
        return c_expr.narrow(p, dtype, f"{name}({c_expr.widen(p, dtype, x)}, {bare(number)})")
    return f"{p.source.typed_helper('ldexp', dtype)}({bare(x)}, {bare(number)})"


def _classify(name: str) -> Callable[[CLike, Call], str]:
    def emit(p: CLike, node: Call) -> str:
        dtype = element(node.args[0].dtype)
        x = p.value(node.args[0])
        if not info(dtype).is_float:
            return p.literal("bool", name == "isfinite")
        if info(dtype).bits == 16:
            x = c_expr.convert(p, dtype, "float32", x)
        return f"({name}({bare(x)}) != 0)"

    return emit


# Pointers


def _access_ptr(p: CLike, node: Call) -> str:
    annotation, data, offset = node.args[:3]
    kind = info(annotation.dtype)
    pointer = p.value(data)
    if isinstance(offset, IntImm) and offset.value == 0:
        return f"((void*){pointer})"
    unit = p.memory_type(element(annotation.dtype))
    steps = p.value(offset) if kind.lanes == 1 else f"{p.value(offset)} * {kind.lanes}"
    return f"((void*)(({unit}*){pointer} + {addend(steps)}))"


def address_of(p: CLike, node: Call) -> str:
    """Return a pointer to the loaded element."""
    load = node.args[0]
    index = one_index(load.buffer, load.indices)
    if info(index.dtype).lanes > 1:
        first = c_vector.first_index(index)
        if first is None:
            raise TVMError(f"address_of: a vector load has no single address: {load}")
        index = first
    return element_address(p, load.buffer, index)


def element_address(p: CLike, buffer: Buffer, index: PrimExpr) -> str:
    """Return a pointer to an element of a buffer."""
    pointer, lanes = c_expr.data_pointer(p, buffer), info(buffer.dtype).lanes
    if isinstance(index, IntImm) and index.value == 0:
        return pointer
    steps = p.value(index) if lanes == 1 else f"{p.value(index)} * {lanes}"
    return f"({pointer} + {addend(steps)})"


def _untyped_address(p: CLike, node: Call) -> str:
    return f"((void*){address_of(p, node)})"


def _prefetch(p: CLike, node: Call) -> str:
    numbers = [a.value if isinstance(a, IntImm) else None for a in node.args[1:3]]
    write, locality = (numbers + [None] * 2)[:2]
    p.line(f"__builtin_prefetch({bare(p.value(node.args[0]))}, {write or 0}, {3 if locality is None else locality});")
    return "0"


def _is_null(p: CLike, node: Call) -> str:
    return f"({p.value(node.args[0])} == 0)"


def _add_byte_offset(p: CLike, node: Call) -> str:
    base, offset = node.args
    return f"((void*)((char*){p.value(base)} + {p.value(offset)}))"


def _atomic_add(p: CLike, node: Call) -> str:
    place, amount = p.value(node.args[0]), p.value(node.args[1])
    dtype = node.args[1].dtype
    kind = f"({p.scalar_type(dtype)}*){place}"
    if info(dtype).is_float:
        return f"{p.source.typed_helper('atomic_add', dtype)}({kind}, {bare(amount)})"
    return f"__atomic_fetch_add({kind}, {bare(amount)}, __ATOMIC_SEQ_CST)"


# Functions


def _scalars_only(p: CLike, node: Call, args) -> None:
    for arg in (node, *args):
        if arg.dtype not in ("void", "") and info(arg.dtype).lanes > 1:
            raise TVMError(f"{p.name}: functions called from {p.language} take and return scalars, not vectors: {node}")


def _call_global(p: CLike, node: Call) -> str:
    _scalars_only(p, node, node.args)
    row = p.source.signatures.get(node.op.name_hint)
    if row is None:
        return extern_call(p, node.op.name_hint, node, node.args)
    texts = []
    for arg, kind in zip(node.args, row.parameters):
        text = bare(p.value(arg))
        fits = kind in ((have := _pointer_text(p, arg)), f"const {have}")
        texts.append(f"({kind}){p.value(arg)}" if kind.endswith("*") and not fits else text)
    return f"{row.name}({', '.join(texts)})"


def _pointer_text(p: CLike, node: PrimExpr) -> str:
    """Return the C type of a pointer expression if it is known and not void*."""
    return p.pointer_type(node) if hasattr(node, "type_annotation") else "void*"


def extern_call(p: CLike, name: str, node: Call, args) -> str:
    """Return a call of an external function; pointers are passed as void*."""
    types = tuple(p.scalar_type(a.dtype) for a in args)
    function = p.source.extern(name, p.scalar_type(node.dtype), types)
    texts = []
    for arg, kind in zip(args, types):
        text = p.value(arg)
        # Only values of type int or double are cast to these types: a declaration in an imported header may have other
        # types.
        texts.append(bare(text) if kind.endswith("*") or info(arg.dtype).bits >= 32 else f"({kind}){text}")
    return f"{function}({', '.join(texts)})"


def _extern(p: CLike, node: Call) -> str:
    name = node.args[0].value if isinstance(node.args[0], StringImm) else None
    if name is None:
        raise TVMError(
            f"{p.name}: the first argument of call_extern must be the name of the function, got {node.args[0]}"
        )
    own = p.calls.get("extern." + name)
    if own is not None:
        return own(p, node)
    _scalars_only(p, node, node.args[1:])
    row = None if means_library(name, p.source.signatures) else p.source.signatures.get(name)
    if row is not None:
        texts = [f"({kind}){p.value(arg)}" for arg, kind in zip(node.args[1:], row.parameters)]
        return f"{row.name}({', '.join(texts)})"
    return extern_call(p, name, node, node.args[1:])


def _llvm_intrinsic(p: CLike, node: Call) -> str:
    raise TVMError(
        f"{p.name}: {node.op.name.removeprefix('tir.')} names an LLVM intrinsic, which {p.language} text cannot call; "
        "build for target llvm"
    )


def _ret(p: CLike, node: Call) -> str:
    text = "" if p.result == "void" or not node.args else bare(p.last_value(node.args[0]))
    if text and p.held:
        text = p.temporary(node.args[0].dtype, text)
    for statement in reversed(p.held.values()):
        p.line(statement)
    p.line(f"return {text};" if text else "return;")
    return "0"


def _throw(p: CLike, node: Call) -> str:
    p.line(p.fail())
    return "0"


def _nothing(p: CLike, node: Call) -> str:
    return "0"


def _barrier(p: CLike, node: Call) -> str:
    scope = node.args[0].value if node.args and isinstance(node.args[0], StringImm) else ""
    text = p.barriers.get(scope)
    if text:
        p.line(text)
    return "0"


CALLS: dict[str, Callable[[CLike, Call], str]] = {
    "tir.likely": _likely,
    "tir.if_then_else": _if_then_else,
    "tir.bitwise_and": _bitwise("&"),
    "tir.bitwise_or": _bitwise("|"),
    "tir.bitwise_xor": _bitwise("^"),
    "tir.bitwise_not": _bitwise_not,
    "tir.shift_left": _shift_left,
    "tir.shift_right": _shift_right,
    "tir.reinterpret": _reinterpret,
    "tir.large_uint_imm": _large_uint,
    "tir.q_multiply_shift": _multiply_shift,
    "tir.clz": _count("clz"),
    "tir.popcount": _count("popcount"),
    "tir.ldexp": _ldexp,
    "tir.isnan": _classify("isnan"),
    "tir.isinf": _classify("isinf"),
    "tir.isfinite": _classify("isfinite"),
    "tir.tvm_access_ptr": _access_ptr,
    "tir.address_of": _untyped_address,
    "tir.prefetch": _prefetch,
    "tir.isnullptr": _is_null,
    "tir.handle_add_byte_offset": _add_byte_offset,
    "tir.vectorlow": c_vector.crossing_value,
    "tir.vectorhigh": c_vector.crossing_value,
    "tir.vectorcombine": c_vector.crossing_value,
    "tir.call_extern": _extern,
    "tir.call_pure_extern": _extern,
    "tir.call_llvm_intrin": _llvm_intrinsic,
    "tir.call_llvm_pure_intrin": _llvm_intrinsic,
    "tir.ret": _ret,
    "tir.tvm_throw_last_error": _throw,
    "tir.tvm_storage_sync": _barrier,
    "tir.tvm_tuple": _nothing,
    "tir.assume": _nothing,
    "tir.undef": lambda p, node: p.literal(element(node.dtype), 0),
    "tir.atomic_add": _atomic_add,
}
