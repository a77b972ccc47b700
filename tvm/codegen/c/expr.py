"""Expressions of the C family. ``p`` is the printer of the current function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dtype import element, info
from ...error import InternalError, TVMError
from ...ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from ...ir.visit import pre_order
from ...tir.intrinsics import CallEffectKind, effect_of
from ..linear import one_index
from .names import bare, quoted

if TYPE_CHECKING:
    from .like import CLike

# Intrinsics with a different number or order of lanes than their operands.
CROSSING = frozenset(("tir.vectorlow", "tir.vectorhigh", "tir.vectorcombine"))
# Rounding functions are expanded: without a suitable instruction, compilers would call functions that are not allowed.
OWN_FUNCTIONS = frozenset(("floor", "ceil", "trunc", "round", "nearbyint"))
_OPERATORS = {Add: "+", Sub: "-", Mul: "*", Div: "/", Mod: "%"}
_COMPARISONS = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}


def eager_operands(node: PrimExpr) -> list[PrimExpr]:
    """Return the operands that are evaluated unconditionally, before any other part of the node."""
    if isinstance(node, Call):
        lazy = lazy_operands(node)
        return [a for i, a in enumerate(node.args) if i not in lazy and isinstance(a, PrimExpr)]
    if isinstance(node, (And, Or)):
        return [node.a]
    if isinstance(node, Let):
        return [node.value]
    return [] if isinstance(node, Shuffle) else node.children()


def lazy_operands(node: Call) -> tuple[int, ...]:
    """Return the indices of operands that are not always evaluated as values."""
    name = getattr(node.op, "name", "")
    if name == "tir.if_then_else":
        return (1, 2)
    if name in ("tir.address_of", "tir.tvm_access_ptr"):
        return (0,)
    crossing = name in CROSSING or (name == "tir.reinterpret" and info(node.args[0].dtype).lanes > 1)
    return tuple(range(len(node.args))) if crossing else ()


def has_effect(node: Call) -> bool:
    """Return whether a call has a side effect."""
    return effect_of(node) in (CallEffectKind.UpdateState, CallEffectKind.ControlJump)


def reads_state(node: Call) -> bool:
    return effect_of(node) is CallEffectKind.ReadState


def is_return(node: Call) -> bool:
    return effect_of(node) is CallEffectKind.ControlJump


# Literals and variables


def _literal(p: CLike, node) -> str:
    return p.literal(node.dtype, node.value)


def _string(p: CLike, node: StringImm) -> str:
    return f"((void*){quoted(node.value)})"


def _variable(p: CLike, node: Var) -> str:
    array = p.arrays.get(id(node))
    if array is not None and p.lane is not None:
        return f"{array}[{p.lane}]"
    got = p.names.get(node)
    if got is None:
        raise TVMError(f"{p.name}: variable {node.name} is used but never defined")
    return got


# Sixteen-bit floats

_WIDEN = {"float16": "tvm_half_to_float", "bfloat16": "tvm_bfloat16_to_float"}
_NARROW = {"float16": "tvm_float_to_half", "bfloat16": "tvm_float_to_bfloat16"}


def is_float_stored_as_bits(p: CLike, dtype: str) -> bool:
    """Return whether values of the type are stored as bits that must be converted before arithmetic."""
    return dtype in _WIDEN and dtype not in p.native_16_bit_floats


def widen(p: CLike, dtype: str, text: str) -> str:
    """Return a 16-bit float as float32."""
    return f"{p.source.helper(_WIDEN[dtype])}({bare(text)})"


def narrow(p: CLike, dtype: str, text: str) -> str:
    """Return a float32 as a 16-bit float, rounded to nearest even."""
    return f"{p.source.helper(_NARROW[dtype])}({bare(text)})"


# Arithmetic


def math_call(p: CLike, name: str, dtype: str, operands: list[str]) -> str:
    """Return a call of a scalar float function whose operands have type ``dtype``."""
    kind = info(dtype)
    if not kind.is_float:
        raise TVMError(f"{p.name}: {name}: the operands must be floats, got {dtype}")
    if dtype in _WIDEN:
        wide = [convert(p, dtype, "float32", x) for x in operands]
        return convert(p, "float32", dtype, math_call(p, name, "float32", wide))
    if name in OWN_FUNCTIONS and name not in p.math_functions:
        function = p.source.typed_helper(name, dtype)
    else:
        function = p.math_functions[name] + (p.single_suffix if kind.bits == 32 else "")
    return f"{function}({', '.join(bare(x) for x in operands)})"


def arithmetic(p: CLike, operator: str, dtype: str, x: str, y: str, exact: bool = False) -> str:
    """Return x + y or similar for scalars. Integers wrap around; ``exact`` means that they cannot overflow."""
    kind = info(dtype)
    if kind.is_float:
        if is_float_stored_as_bits(p, dtype):
            return narrow(p, dtype, f"({widen(p, dtype, x)} {operator} {widen(p, dtype, y)})")
        return p.operation(x, operator, y)
    if kind.is_bool:
        raise TVMError(f"arithmetic on bool values is not supported: {x} {operator} {y}; cast them to an integer type")
    if operator in ("+", "-") and y in ("0", "0LL", "0U", "0ULL"):
        return x
    if operator == "+" and x in ("0", "0LL", "0U", "0ULL"):
        return y
    own = p.scalar_type(dtype)
    if kind.bits < 32:
        # Small integers are promoted to int; products of uint16 would overflow it.
        wide = p.scalar_type("uint32") if kind.is_uint and operator == "*" else None
        inner = f"({wide}){x} {operator} ({wide}){y}" if wide else f"{x} {operator} {y}"
        return f"({own})({inner})"
    if kind.is_uint or exact or operator in ("/", "%"):
        return p.operation(x, operator, y)
    return p.wrapping(operator, dtype, x, y)


def _arithmetic(p: CLike, node) -> str:
    x, y = p.value(node.a), p.value(node.b)
    exact = id(node) in p.plain or p.ranges.fits(node)
    return arithmetic(p, _OPERATORS[type(node)], element(node.dtype), x, y, exact)


def _divide(p: CLike, node) -> str:
    kind, dtype = type(node), element(node.dtype)
    x, y = p.value(node.a), p.value(node.b)
    if info(dtype).is_float:
        return _float_divide(p, kind, dtype, x, y)
    if kind in (FloorDiv, FloorMod):
        if not (p.ranges.is_nonnegative(node.a) and p.ranges.is_nonnegative(node.b)):
            name = p.source.typed_helper("floordiv" if kind is FloorDiv else "floormod", dtype)
            return f"{name}({bare(x)}, {bare(y)})"
        kind = Div if kind is FloorDiv else Mod
    return arithmetic(p, _OPERATORS[kind], dtype, x, y)


def _float_divide(p: CLike, kind, dtype: str, x: str, y: str) -> str:
    if kind is Mod:
        return math_call(p, "fmod", dtype, [x, y])
    if kind is Div:
        return arithmetic(p, "/", dtype, x, y)
    quotient = math_call(p, "floor", dtype, [arithmetic(p, "/", dtype, x, y)])
    if kind is FloorDiv:
        return quotient
    return arithmetic(p, "-", dtype, x, arithmetic(p, "*", dtype, quotient, y))


def _min_max(p: CLike, node) -> str:
    x, y = p.value(node.a), p.value(node.b)
    dtype = element(node.dtype)
    operation = "min" if type(node) is Min else "max"
    if is_float_stored_as_bits(p, dtype):
        name = p.source.typed_helper(operation, "float32")
        return narrow(p, dtype, f"{name}({widen(p, dtype, x)}, {widen(p, dtype, y)})")
    return f"{p.source.typed_helper(operation, dtype)}({bare(x)}, {bare(y)})"


# Comparison and choice


def _compare(p: CLike, node) -> str:
    x, y = p.value(node.a), p.value(node.b)
    dtype = element(node.a.dtype)
    if is_float_stored_as_bits(p, dtype):
        x, y = widen(p, dtype, x), widen(p, dtype, y)
    return f"({x} {_COMPARISONS[type(node)]} {y})"


# Expressions that may be evaluated whether or not their value is used: integer arithmetic wraps around.
_HARMLESS = frozenset((Var, IntImm, Add, Sub, Mul, And, Or, EQ, NE, LT, LE, GT, GE))


def _logical(p: CLike, node) -> str:
    """Print And/Or with short-circuit evaluation."""
    both = type(node) is And
    x = p.value(node.a)
    if all(type(part) in _HARMLESS for part in pre_order(node.b)):
        return f"({x} {'&&' if both else '||'} {p.value(node.b)})"
    name = p.fresh("t")
    lines, y = p.branch(node.b)
    if not lines:
        p.release(name)
        return f"({x} {'&&' if both else '||'} {y})"
    p.line(f"{p.scalar_type('bool')} {name} = {bare(x)};")
    p.line(f"if ({name}) {{" if both else f"if (!{name}) {{")
    p.lines += lines
    p.line(f"  {name} = {bare(y)};")
    p.line("}")
    return name


def _not(p: CLike, node: Not) -> str:
    return f"(!{p.value(node.a)})"


def _select(p: CLike, node: Select) -> str:
    flag = p.value(node.condition)
    x, y = p.value(node.true_value), p.value(node.false_value)
    return f"({flag} ? {x} : {y})"


def choose_lazily(p: CLike, dtype: str, flag: str, yes: PrimExpr, no: PrimExpr) -> str:
    """Return one of two values; only the selected one is evaluated."""
    evaluate_common(p, yes, no)
    # The name is reserved first: the branches must not use it for another variable.
    name = p.fresh("t")
    yes_lines, x = p.branch(yes)
    no_lines, y = p.branch(no)
    if not yes_lines and not no_lines:
        p.release(name)
        return f"({flag} ? {x} : {y})"
    p.line(f"{p.scalar_type(element(dtype))} {name};")
    p.line(f"if ({bare(flag)}) {{")
    p.lines += yes_lines
    p.line(f"  {name} = {bare(x)};")
    p.line("} else {")
    p.lines += no_lines
    p.line(f"  {name} = {bare(y)};")
    p.line("}")
    return name


def evaluate_common(p: CLike, yes: PrimExpr, no: PrimExpr) -> None:
    """Evaluate subexpressions of both branches before branching, so that they are printed once. Otherwise the code of a
    chain of if_then_else would double at every level."""
    first = unconditional(p, yes)
    if not first:
        return
    for node in reversed(list(unconditional(p, no).values())):
        if id(node) in first:
            p.named_value(node)


def unconditional(p: CLike, root: PrimExpr, limit: int = 512) -> dict[int, PrimExpr]:
    """Return the compound nodes that are evaluated whenever ``root`` is, users before operands."""
    seen: dict[int, PrimExpr] = {}
    stack = [root]
    while stack and len(seen) < limit:
        node = stack.pop()
        if id(node) in seen or not node.children() or id(node) in p.memo:
            continue
        seen[id(node)] = node
        stack.extend(eager_operands(node))
    return seen


# Conversions


def convert(p: CLike, source: str, target: str, text: str) -> str:
    """Return the scalar ``text`` of type ``source``, converted to ``target``."""
    have, want = info(source), info(target)
    if source == target or (have.is_handle and want.is_handle):
        return text
    if have.lanes != want.lanes:
        raise TVMError(f"cannot cast {source} to {target}: the numbers of lanes differ ({have.lanes} and {want.lanes})")
    source, target = element(source), element(target)
    own = p.scalar_type(target)
    if want.is_bool:
        if is_float_stored_as_bits(p, source):
            text = widen(p, source, text)
        return f"({text} != 0)"
    if have.is_handle or want.is_handle:
        return f"(({own})(uintptr_t){text})"
    if is_float_stored_as_bits(p, source):
        return convert(p, "float32", target, widen(p, source, text))
    if is_float_stored_as_bits(p, target):
        return _to_half(p, source, target, text)
    if have.is_float and want.is_integer:
        if have.bits == 16:
            text, source = f"(float){text}", "float32"
        return f"{p.source.typed_helper('to_' + target, source)}({bare(text)})"
    return f"({own}){text}"


def _to_half(p: CLike, source: str, target: str, text: str) -> str:
    have = info(source)
    if have.is_integer:
        # float16 overflows before the conversion through float32 becomes inexact; bfloat16 has a larger range and needs
        # float64.
        wide = target == "bfloat16" and have.bits > 16
        text, source = (f"(double){text}", "float64") if wide else (f"(float){text}", "float32")
    if source == "float64":
        text = f"{p.source.helper('tvm_round_to_odd')}({bare(text)})"
    return narrow(p, target, text)


def _cast(p: CLike, node: Cast) -> str:
    have, want = info(node.value.dtype), info(node.dtype)
    if have.lanes != want.lanes:
        raise TVMError(
            f"cannot cast {node.value.dtype} to {node.dtype}: the numbers of lanes differ ({have.lanes} and "
            f"{want.lanes})"
        )
    return convert(p, element(node.value.dtype), element(node.dtype), p.value(node.value))


# Variables bound inside expressions


def _let(p: CLike, node: Let) -> str:
    # A chain of lets is processed iteratively: each variable is bound for the rest of the expression.
    while isinstance(node, Let):
        bind_let(p, node.var, node.value)
        node = node.body
    return p.value(node)


def bind_let(p: CLike, var: Var, source: PrimExpr) -> None:
    """Print ``var = source`` and bind the variable to its name."""
    if id(var) in p.memo or id(var) in p.arrays:
        return
    if source.dtype != var.dtype and "handle" not in (source.dtype, var.dtype):
        raise InternalError(f"{p.name}: {var.name} of type {var.dtype} is bound to a value of type {source.dtype}")
    if info(var.dtype).lanes > 1 and p.lane is None:
        p.put(p.arrays, id(var), p.lay_out(source, var.name))
        return
    text = p.value(source)
    kind = p.variable_type(var)
    if var.dtype == "handle" and source.dtype == "handle" and kind != "void*":
        text = f"({kind}){text}"
    name = p.bind(var)
    const = "" if kind.endswith("*") else "const "
    p.line(f"{const}{kind} {name} = {bare(text)};{p.named(var)}")
    p.put(p.memo, id(var), name)
    if info(var.dtype).is_int:
        p.ranges.bind(var, p.ranges.of(source))


# Memory


def data_pointer(p: CLike, buffer) -> str:
    """Return the memory of a buffer as a pointer to scalar elements."""
    var = buffer.data
    name = _variable(p, var)
    dtype = element(buffer.dtype)
    want = p.memory_type(dtype)
    have = p.pointees.get(var)
    if have is not None and p.memory_type(have) == want:
        return name
    return p.view(var, name, dtype)


def place(p: CLike, buffer, index: PrimExpr) -> str:
    """Return the buffer element at ``index``; in a loop over lanes, the element of the current lane."""
    lanes, pointer = info(buffer.dtype).lanes, data_pointer(p, buffer)
    if lanes == 1:
        return f"{pointer}[{bare(p.value(index))}]"
    if info(index.dtype).lanes > 1:
        array = p.arrays.get(id(index))
        if array is None:
            raise InternalError(f"{p.name}: the index lanes of {buffer.name} were not stored in an array")
        return f"{pointer}[{array}[{p.lane} / {lanes}] * {lanes} + {p.lane} % {lanes}]"
    return f"{pointer}[{p.value(index)} * {lanes} + {p.lane}]"


def _load(p: CLike, node: BufferLoad) -> str:
    array = p.arrays.get(id(node))
    if array is not None:
        return f"{array}[{p.lane}]"
    text = place(p, node.buffer, one_index(node.buffer, node.indices))
    return f"({text} != 0)" if info(node.dtype).is_bool else text


EXPRESSIONS: dict[type, Callable] = {
    IntImm: _literal,
    FloatImm: _literal,
    StringImm: _string,
    Var: _variable,
    SizeVar: _variable,
    Add: _arithmetic,
    Sub: _arithmetic,
    Mul: _arithmetic,
    Div: _divide,
    Mod: _divide,
    FloorDiv: _divide,
    FloorMod: _divide,
    Min: _min_max,
    Max: _min_max,
    EQ: _compare,
    NE: _compare,
    LT: _compare,
    LE: _compare,
    GT: _compare,
    GE: _compare,
    And: _logical,
    Or: _logical,
    Not: _not,
    Cast: _cast,
    Select: _select,
    Let: _let,
    BufferLoad: _load,
}
