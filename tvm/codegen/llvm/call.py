"""Calls: intrinsics, functions of the module and external functions."""

from __future__ import annotations

from collections.abc import Callable

from ...dtype import info
from ...error import TVMError
from ...ir.module import GlobalVar
from ...ir.prim import (
    And,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Or,
    PrimExpr,
    StringImm,
)
from ...ir.primop import literal
from ...target import codegen as target_codegen
from ..symbols import means_library
from . import math as llvm_math
from . import memory as llvm_memory
from . import tiles
from .builder import Builder
from .cast import convert, widen
from .intrinsic import check_available, full_name
from .runtime import free_held, leave, runtime_call
from .struct import STRUCT_CALLS
from .value import choose, value


def emit_call(b: Builder, node: Call) -> str:
    if isinstance(node.op, GlobalVar):
        return _call_global(b, node)
    handler = CALLS.get(node.op.name)
    if handler is not None:
        return handler(b, node)
    name = node.op.name.removeprefix("tir.")
    if name in llvm_math.FUNCTIONS:
        return llvm_math.call_math(b, name, node.dtype, [value(b, a) for a in node.args])
    raise TVMError(
        f"{b.name}: the llvm back end does not support the intrinsic {node.op.name}; register a lowering rule with "
        "register_intrin_lowering"
    )


def lazy_operands(node: Call) -> tuple[int, ...]:
    """Return the indices of operands that are not always evaluated as values."""
    name = getattr(node.op, "name", "")
    if name == "tir.if_then_else":
        return (1, 2)
    return (0,) if name in ("tir.address_of", "tir.tvm_access_ptr") else ()


# Choice


def _if_then_else(b: Builder, node: Call) -> str:
    flag = value(b, node.args[0])
    yes, no = node.args[1], node.args[2]
    if flag in ("true", "false"):
        return value(b, yes if flag == "true" else no)
    if is_speculatable(b, yes) and is_speculatable(b, no):
        return choose(b, flag, 1, node.dtype, value(b, yes), value(b, no))
    _evaluate_common(b, yes, no)
    then, other, done = b.label("then"), b.label("else"), b.label("joined")
    b.branch_if(flag, then, other)
    x, from_then = _branch_value(b, then, yes, done)
    y, from_other = _branch_value(b, other, no, done)
    b.start(done)
    text = b.types[node.dtype]
    return b.effect(f"phi {text} [ {x}, %{from_then} ], [ {y}, %{from_other} ]")


def _branch_value(b: Builder, label: str, node: PrimExpr, done: str) -> tuple[str, str]:
    b.start(label)
    b.push()
    got = value(b, node)
    last = b.block
    b.pop()
    b.branch(done)
    return got, last


def _evaluate_common(b: Builder, yes: PrimExpr, no: PrimExpr) -> None:
    """Evaluate subexpressions of both branches before branching, so that they are emitted once. Otherwise the code of a
    chain of if_then_else would double at every level."""
    first = _unconditional(b, yes)
    if not first:
        return
    for node in _unconditional(b, no).values():
        if id(node) in first:
            value(b, node)


def _unconditional(b: Builder, root: PrimExpr, limit: int = 512) -> dict[int, PrimExpr]:
    """Return the compound nodes that are evaluated whenever ``root`` is."""
    seen: dict[int, PrimExpr] = {}
    stack = [root]
    while stack and len(seen) < limit:
        node = stack.pop()
        if id(node) in seen or not node.children() or id(node) in b.memo:
            continue
        seen[id(node)] = node
        if isinstance(node, Call):
            lazy = lazy_operands(node)
            stack.extend(a for i, a in enumerate(node.args) if i not in lazy and isinstance(a, PrimExpr))
        elif isinstance(node, (And, Or)):
            stack.append(node.a)
        elif isinstance(node, Let):
            stack.append(node.value)
        else:
            stack.extend(node.children())
    return seen


HARMLESS = frozenset(
    "tir." + n for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "likely", "reinterpret", "fabs",
                         "isnan", "sqrt", "floor", "ceil", "if_then_else", "shift_left", "shift_right")
)  # fmt: skip


_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def is_speculatable(b: Builder, root: PrimExpr, limit: int = 24) -> bool:
    """Return whether ``root`` is safe and cheap to evaluate speculatively: it has no memory accesses, calls or
    divisions by a variable."""
    known = b.module.speculatable.get(id(root))
    if known is not None:
        return known[1]
    stack, steps, safe = [root], 0, True
    while stack and safe:
        node = stack.pop()
        steps += 1
        if steps > limit or isinstance(node, BufferLoad):
            safe = False
        elif isinstance(node, Call):
            safe = getattr(node.op, "name", "") in HARMLESS
        elif isinstance(node, _DIVISIONS) and not info(node.dtype).is_float:
            safe = bool(literal(node.b))
        stack.extend(node.children())
    b.module.speculatable[id(root)] = (root, safe)
    return safe


# Bits


def _two_operands(opcode: str) -> Callable[[Builder, Call], str]:
    def emit(b: Builder, node: Call) -> str:
        x, y = value(b, node.args[0]), value(b, node.args[1])
        return b.op(f"{opcode} {b.types[node.dtype]} {x}, {y}")

    return emit


def _shift_right(b: Builder, node: Call) -> str:
    opcode = "ashr" if info(node.args[0].dtype).is_int else "lshr"
    return _two_operands(opcode)(b, node)


def _bitwise_not(b: Builder, node: Call) -> str:
    ones = b.types.literal(node.dtype, 1 if info(node.dtype).is_bool else -1)
    return b.op(f"xor {b.types[node.dtype]} {value(b, node.args[0])}, {ones}")


def _reinterpret(b: Builder, node: Call) -> str:
    source = node.args[0]
    x = value(b, source)
    old, new = b.types[source.dtype], b.types[node.dtype]
    if old == new:
        return x
    if "ptr" in (old, new):
        return convert(b, source.dtype, node.dtype, x)
    return b.op(f"bitcast {old} {x} to {new}")


def _large_uint(b: Builder, node: Call) -> str:
    low, high = node.args[0].value, node.args[1].value
    return b.types.literal(node.dtype, (high << 32) | (low & 0xFFFFFFFF))


def _count(name: str) -> Callable[[Builder, Call], str]:
    """Return the number of leading zeros or ones of an integer; the output may have another integer type."""

    def emit(b: Builder, node: Call) -> str:
        source = node.args[0].dtype
        text = b.types[source]
        x = value(b, node.args[0])
        if name == "ctlz":
            function = b.module.intrinsic("ctlz", text, 1, ", i1")
            got = b.op(f"call {text} {function}({text} {x}, i1 false)")
        else:
            got = b.op(f"call {text} {b.module.intrinsic(name, text, 1)}({text} {x})")
        return convert(b, source.replace("uint", "int"), node.dtype, got) if source != node.dtype else got

    return emit


def _fma(b: Builder, node: Call) -> str:
    return llvm_math.fused(b, node.dtype, [value(b, a) for a in node.args])


def _ldexp(b: Builder, node: Call) -> str:
    x, power = node.args
    return llvm_math.load_exponent(b, node.dtype, value(b, x), power.dtype, value(b, power))


# Classification of floats


def _classify(name: str) -> Callable[[Builder, Call], str]:
    def emit(b: Builder, node: Call) -> str:
        source = node.args[0].dtype
        x = value(b, node.args[0])
        kind = info(source)
        if not kind.is_float:
            return b.types.literal(node.dtype, name == "isfinite")
        if kind.bits == 16:
            x, source = widen(b, source, x), b.module.float32_like(source)
        text = b.types[source]
        if name == "isnan":
            return b.op(f"fcmp uno {text} {x}, {x}")
        size = b.op(f"call {text} {b.module.intrinsic('fabs', text, 1)}({text} {x})")
        limit = b.types.literal(source, float("inf"))
        return b.op(f"fcmp {'oeq' if name == 'isinf' else 'one'} {text} {size}, {limit}")

    return emit


# Pointers


def _access_ptr(b: Builder, node: Call) -> str:
    annotation, data, offset = node.args[:3]
    unit = b.types.element(annotation.dtype)
    pointer = value(b, data)
    form = llvm_memory.access_of(b, offset).base
    place = llvm_memory.index_value(b, form)
    return pointer if place == "0" else b.op(f"getelementptr {unit}, ptr {pointer}, {b.index} {place}")


def _address_of(b: Builder, node: Call) -> str:
    return llvm_memory.element_address(b, node.args[0])


def _prefetch(b: Builder, node: Call) -> str:
    numbers = [a.value if isinstance(a, IntImm) else None for a in node.args[1:4]]
    write, locality, kind = (numbers + [None] * 3)[:3]
    function = b.module.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    place = value(b, node.args[0])
    b.line(
        f"call void {function}(ptr {place}, i32 {write or 0}, i32 {3 if locality is None else locality}, "
        f"i32 {1 if kind is None else kind})"
    )
    return "0"


# Vectors


def _vector_part(upper: bool) -> Callable[[Builder, Call], str]:
    def emit(b: Builder, node: Call) -> str:
        source = node.args[0].dtype
        half = info(source).lanes // 2
        mask = ", ".join(f"i32 {i + (half if upper else 0)}" for i in range(half))
        text = b.types[source]
        x = value(b, node.args[0])
        return b.op(f"shufflevector {text} {x}, {text} poison, <{half} x i32> <{mask}>")

    return emit


def _vector_combine(b: Builder, node: Call) -> str:
    text = b.types[node.args[0].dtype]
    lanes = info(node.args[0].dtype).lanes
    mask = ", ".join(f"i32 {i}" for i in range(2 * lanes))
    x, y = value(b, node.args[0]), value(b, node.args[1])
    return b.op(f"shufflevector {text} {x}, {text} {y}, <{2 * lanes} x i32> <{mask}>")


# Calls of functions


def _arguments(b: Builder, args) -> tuple[str, str]:
    """Return operands with their types, and the types alone."""
    pairs = [(b.types[a.dtype], value(b, a)) for a in args]
    return ", ".join(f"{t} {x}" for t, x in pairs), ", ".join(t for t, _ in pairs)


def _finish_call(b: Builder, result: str, text: str) -> str:
    b.forget_memory()
    if result == "void":
        b.line(text)
        return "0"
    return b.effect(text)


def _call_global(b: Builder, node: Call) -> str:
    name = node.op.name_hint
    symbol_name, result = b.module.callee(name)
    text, kinds = _arguments(b, node.args)
    if result is None:
        result = b.types[node.dtype]
        b.module.declare(symbol_name, result, kinds)
    return _finish_call(b, result, f"call {result} {b.module.symbol(symbol_name)}({text})")


def _extern(pure: bool) -> Callable[[Builder, Call], str]:
    def emit(b: Builder, node: Call) -> str:
        name = node.args[0].value if isinstance(node.args[0], StringImm) else None
        if name is None:
            raise TVMError(
                f"{b.name}: the first argument of call_extern must be the name of the function, got {node.args[0]}"
            )
        own = BACKEND_CALLS.get(name)
        if own is not None:
            return own(b, node, node.args[1:])
        text, kinds = _arguments(b, node.args[1:])
        result = b.types[node.dtype] if node.dtype not in ("void", "handle0") else "void"
        symbol_name, known = (name, None) if means_library(name, b.module.names) else b.module.callee(name)
        if known is not None:
            result = known
        else:
            b.module.declare(symbol_name, result, kinds)
        call = f"call {result} {b.module.symbol(symbol_name)}({text})"
        return b.effect(call) if pure and result != "void" else _finish_call(b, result, call)

    return emit


def _intrinsic_type(b: Builder, dtype: str) -> str:
    """Return the type of LLVM intrinsics for values of ``dtype``. Other instructions use the bits of a bfloat16."""
    text = b.types[dtype]
    return text.replace("i16", "bfloat") if info(dtype).code == "bfloat" else text


def _retyped(b: Builder, text: str, have: str, want: str) -> str:
    return text if have == want else b.op(f"bitcast {have} {text} to {want}")


def _llvm_intrinsic(pure: bool) -> Callable[[Builder, Call], str]:
    def emit(b: Builder, node: Call) -> str:
        which = node.args[0]
        if isinstance(which, StringImm):
            name = which.value
        elif isinstance(which, IntImm):
            name = target_codegen.llvm_get_intrinsic_name(which.value)
        else:
            raise TVMError(
                f"{b.name}: call_llvm_intrin: the first argument must be the name or number of an intrinsic, got "
                f"{which}"
            )
        # Calls of older interfaces contain a uint32 before the operands: the number of operands that select the
        # overload.
        args = node.args[1:]
        if args and isinstance(args[0], IntImm) and args[0].dtype == "uint32":
            args = args[1:]
        kinds = [_intrinsic_type(b, a.dtype) for a in args]
        values = [_retyped(b, value(b, a), b.types[a.dtype], kind) for a, kind in zip(args, kinds)]
        result = _intrinsic_type(b, node.dtype)
        check_available(name, b.module.cpu)
        b.has_bfloat_products |= name.startswith(
            ("llvm.x86.avx512bf16.dp", "llvm.aarch64.neon.bfdot", "llvm.aarch64.neon.bfmmla")
        )
        function = b.module.declare(full_name(name, result, kinds), result, ", ".join(kinds))
        call = f"call {result} {function}({', '.join(map(' '.join, zip(kinds, values)))})"
        if pure and result != "void":
            return _retyped(b, b.op(call), result, b.types[node.dtype])
        return _finish_call(b, result, call)

    return emit


def _alloc_workspace(b: Builder, node: Call, args) -> str:
    return runtime_call(b, "alloc_workspace", _typed(b, args, ("int32", "int32", "uint64", "int32", "int32")))


def _free_workspace(b: Builder, node: Call, args) -> str:
    return runtime_call(b, "free_workspace", _typed(b, args, ("int32", "int32", "handle")))


def _free_own_workspace(b: Builder, node: Call) -> str:
    b.held = {var: arguments for var, arguments in b.held.items() if var is not node.args[2]}
    return _free_workspace(b, node, node.args)


def _typed(b: Builder, args, dtypes) -> list[tuple[str, str]]:
    return [(b.types[d], convert(b, a.dtype, d, value(b, a))) for a, d in zip(args, dtypes)]


BACKEND_CALLS = {"TVMBackendAllocWorkspace": _alloc_workspace, "TVMBackendFreeWorkspace": _free_workspace}


def _ret(b: Builder, node: Call) -> str:
    got = value(b, node.args[0]) if node.args else "0"
    dtype = node.args[0].dtype if node.args else "int32"
    want = b.result
    free_held(b)
    if want == "void":
        b.finish("ret void")
        return "0"
    if b.types[dtype] != want:
        got = convert(b, dtype, "int32", got)
    b.finish(f"ret {want} {got}")
    return "0"


def _throw(b: Builder, node: Call) -> str:
    leave(b)
    return "0"


def _raise_value(b: Builder, node: Call) -> str:
    return runtime_call(b, "raise_value", _typed(b, node.args, ("handle", "int64")))


def _nothing(b: Builder, node: Call) -> str:
    return "0"


def _barrier(b: Builder, node: Call) -> str:
    if b.device is not None:
        b.device.wait(node.args[0].value if node.args and isinstance(node.args[0], StringImm) else "")
    return "0"


def _undefined(b: Builder, node: Call) -> str:
    return "undef"


def _assume(b: Builder, node: Call) -> str:
    return "0"


def _atomic_add(b: Builder, node: Call) -> str:
    place, amount = value(b, node.args[0]), value(b, node.args[1])
    opcode = "fadd" if info(node.args[1].dtype).is_float else "add"
    return _finish_call(b, "value", f"atomicrmw {opcode} ptr {place}, {b.types[node.args[1].dtype]} {amount} seq_cst")


def _first(b: Builder, node: Call) -> str:
    return value(b, node.args[0])


CALLS: dict[str, Callable[[Builder, Call], str]] = {
    "tir.likely": _first,
    "tir.if_then_else": _if_then_else,
    "tir.bitwise_and": _two_operands("and"),
    "tir.bitwise_or": _two_operands("or"),
    "tir.bitwise_xor": _two_operands("xor"),
    "tir.bitwise_not": _bitwise_not,
    "tir.shift_left": _two_operands("shl"),
    "tir.shift_right": _shift_right,
    "tir.reinterpret": _reinterpret,
    "tir.large_uint_imm": _large_uint,
    "tir.clz": _count("ctlz"),
    "tir.popcount": _count("ctpop"),
    "tir.fma": _fma,
    "tir.ldexp": _ldexp,
    "tir.isnan": _classify("isnan"),
    "tir.isinf": _classify("isinf"),
    "tir.isfinite": _classify("isfinite"),
    "tir.tvm_access_ptr": _access_ptr,
    "tir.address_of": _address_of,
    "tir.prefetch": _prefetch,
    "tir.vectorlow": _vector_part(False),
    "tir.vectorhigh": _vector_part(True),
    "tir.vectorcombine": _vector_combine,
    "tir.call_extern": _extern(False),
    "tir.call_pure_extern": _extern(True),
    "tir.call_llvm_intrin": _llvm_intrinsic(False),
    "tir.call_llvm_pure_intrin": _llvm_intrinsic(True),
    "tir.TVMBackendAllocWorkspace": lambda b, n: _alloc_workspace(b, n, n.args),
    "tir.TVMBackendFreeWorkspace": _free_own_workspace,
    "tir.ret": _ret,
    "tir.tvm_throw_last_error": _throw,
    "tir.tvm_raise_value": _raise_value,
    "tir.tvm_storage_sync": _barrier,
    "tir.tvm_tuple": _nothing,
    "tir.assume": _assume,
    "tir.undef": _undefined,
    "tir.atomic_add": _atomic_add,
    **STRUCT_CALLS,
    **tiles.CALLS,
}
