"""Expressions as LLVM text. ``value(b, node)`` returns the operand with the value of a node."""

from __future__ import annotations

from ...dtype import info
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
    Broadcast,
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
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from ...ir.primop import trunc_div, trunc_mod, wrap_int
from . import memory as llvm_memory
from . import quantize, quotients
from .builder import Builder
from .call import emit_call, is_speculatable, lazy_operands
from .cast import convert, narrow, widen
from .math import call_math
from .value import HANDLERS, OPERANDS, build_vector, choose, extract, splat, value

_RELAXED = "reassoc contract"


# Literals and variables


def _int_literal(b: Builder, node: IntImm) -> str:
    return b.types.literal(node.dtype, node.value)


def _float_literal(b: Builder, node: FloatImm) -> str:
    return b.types.literal(node.dtype, node.value)


def _string(b: Builder, node: StringImm) -> str:
    return b.module.string(node.value)


def _var(b: Builder, node: Var) -> str:
    fixed = b.constants.get(node)
    if fixed is not None:
        return b.types.literal(node.dtype, fixed)
    wide = b.wide.get(node)
    if wide is not None:
        own = b.types[node.dtype]
        if own == b.index:
            return wide
        return b.op(f"{'trunc' if int(own[1:]) < int(b.index[1:]) else 'sext'} {b.index} {wide} to {own}")
    raise TVMError(f"{b.name}: variable {node.name} is used but never defined")


# Arithmetic

_INT_OPS = {Add: "add", Sub: "sub", Mul: "mul"}
_FLOAT_OPS = {Add: "fadd", Sub: "fsub", Mul: "fmul", Div: "fdiv", Mod: "frem"}
_FOLD = {Add: int.__add__, Sub: int.__sub__, Mul: int.__mul__}


def _arithmetic(b: Builder, node) -> str:
    kind = type(node)
    x, y = value(b, node.a), value(b, node.b)
    data = info(node.dtype)
    if data.is_float:
        return float_op(b, _FLOAT_OPS[kind], node.dtype, x, y, _RELAXED if id(node) in b.relaxed else "")
    if data.lanes == 1:
        if x[0] != "%" and y[0] != "%":
            return _fold_int(b, node.dtype, _FOLD[kind], x, y)
        if y == "0" and kind is not Mul:
            return x
        if x == "0" and kind is Add:
            return y
    if data.is_bool:
        raise TVMError(f"arithmetic on bool values is not supported: {node}; cast them to an integer type")
    if kind is Mul and data.bits == 8 and data.lanes > 1 and data.lanes % 16 and b.module.cpu.arch == "x86":
        return _multiply_int8(b, data.lanes, x, y)
    return b.op(f"{_INT_OPS[kind]} {b.types[node.dtype]} {x}, {y}")


def _multiply_int8(b: Builder, lanes: int, x: str, y: str) -> str:
    """Multiply int8 values in 16 bits with a function that LLVM does not convert back to an 8-bit multiplication. On
    x86, LLVM 22 computes zero for the product of a few int8 lanes if an operand is a quotient or remainder by a
    constant whose lanes are permuted."""
    few, wide = f"<{lanes} x i8>", f"<{lanes} x i16>"
    multiply = b.module.intrinsic("umul.fix", wide, 2, ", i32")
    x, y = (b.op(f"zext {few} {v} to {wide}") for v in (x, y))
    return b.op(f"trunc {wide} {b.op(f'call {wide} {multiply}({wide} {x}, {wide} {y}, i32 0)')} to {few}")


def float_op(b: Builder, opcode: str, dtype: str, x: str, y: str, flags: str = "") -> str:
    """Emit a float operation; types that the processor does not support are computed in float32."""
    kind = info(dtype)
    flags = b.module.float_flags or flags
    opcode = f"{opcode} {flags}" if flags else opcode
    if kind.bits == 16 and not (kind.code == "float" and b.module.native_half):
        wide = b.module.float32_like(dtype)
        got = b.op(f"{opcode} {b.types[wide]} {widen(b, dtype, x)}, {widen(b, dtype, y)}")
        return narrow(b, dtype, got)
    return b.op(f"{opcode} {b.types[dtype]} {x}, {y}")


def _number(text: str) -> int:
    return 1 if text == "true" else 0 if text == "false" else int(text)


def _fold_int(b: Builder, dtype: str, function, x: str, y: str) -> str:
    return b.types.literal(dtype, wrap_int(function(_number(x), _number(y)), dtype))


def _literal_divisor(node: PrimExpr) -> int | None:
    if isinstance(node, Broadcast):
        node = node.value
    return node.value if isinstance(node, IntImm) else None


_DIVIDE_FOLD = {Div: trunc_div, Mod: trunc_mod, FloorDiv: int.__floordiv__, FloorMod: int.__mod__}


def _divide(b: Builder, node) -> str:
    kind, data = type(node), info(node.dtype)
    x, y = value(b, node.a), value(b, node.b)
    if data.is_float:
        return _float_divide(b, node, x, y)
    if data.lanes == 1 and x[0] != "%" and y[0] != "%" and _number(y):
        return _fold_int(b, node.dtype, _DIVIDE_FOLD[kind], x, y)
    text = b.types[node.dtype]
    known = b.numbered.get(quotients.key(kind, x, y))
    if known is not None:
        return known
    remainder = kind in (Mod, FloorMod)
    divisor = _literal_divisor(node.b)
    # Division by a variable may trap. If the same division was emitted before, it has been executed without a trap.
    if data.is_uint:
        return b.op(f"{'urem' if remainder else 'udiv'} {text} {x}, {y}")
    positive = divisor > 0 if divisor is not None else b.ranges.is_nonnegative(node.b)
    if positive and b.ranges.is_nonnegative(node.a):
        return b.op(f"{'urem' if remainder else 'udiv'} {text} {x}, {y}")
    if kind in (Div, Mod):
        return b.op(f"{'srem' if remainder else 'sdiv'} {text} {x}, {y}")
    return _floor_divide(b, node, x, y, divisor)


def _floor_divide(b: Builder, node, x: str, y: str, divisor: int | None) -> str:
    """Divide with rounding towards minus infinity: a truncating division with a correction if the remainder has the
    other sign."""
    text = b.types[node.dtype]
    remainder = type(node) is FloorMod
    lanes = info(node.dtype).lanes
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        if remainder:
            return b.op(f"and {text} {x}, {b.types.literal(node.dtype, divisor - 1)}")
        return b.op(f"ashr {text} {x}, {b.types.literal(node.dtype, divisor.bit_length() - 1)}")
    flag = "i1" if lanes == 1 else f"<{lanes} x i1>"
    rest = b.op(f"srem {text} {x}, {y}")
    zero = b.types.literal(node.dtype, 0)
    if divisor is not None and divisor > 0:
        wrong = b.op(f"icmp slt {text} {rest}, {zero}")
    else:
        mixed = b.op(f"xor {text} {rest}, {y}")
        signs = b.op(f"icmp slt {text} {mixed}, {zero}")
        some = b.op(f"icmp ne {text} {rest}, {zero}")
        wrong = b.op(f"and {flag} {signs}, {some}")
    if remainder:
        return b.op(f"add {text} {rest}, {b.op(f'select {flag} {wrong}, {text} {y}, {text} {zero}')}")
    quotient = b.op(f"sdiv {text} {x}, {y}")
    return b.op(f"add {text} {quotient}, {b.op(f'sext {flag} {wrong} to {text}')}")


def _float_divide(b: Builder, node, x: str, y: str) -> str:
    kind = type(node)
    if kind is Div:
        return float_op(b, "fdiv", node.dtype, x, y)
    if kind is Mod:
        return call_math(b, "fmod", node.dtype, [x, y])
    quotient = call_math(b, "floor", node.dtype, [float_op(b, "fdiv", node.dtype, x, y)])
    if kind is FloorDiv:
        return quotient
    return float_op(b, "fsub", node.dtype, x, float_op(b, "fmul", node.dtype, quotient, y))


# Comparison and choice

_PREDICATES = {
    EQ: ("eq", "eq", "oeq", int.__eq__),
    NE: ("ne", "ne", "une", int.__ne__),
    LT: ("slt", "ult", "olt", int.__lt__),
    LE: ("sle", "ule", "ole", int.__le__),
    GT: ("sgt", "ugt", "ogt", int.__gt__),
    GE: ("sge", "uge", "oge", int.__ge__),
}


def _compare(b: Builder, node) -> str:
    x, y = value(b, node.a), value(b, node.b)
    return compare(b, type(node), node.a.dtype, x, y)


def compare(b: Builder, kind, dtype: str, x: str, y: str) -> str:
    signed, unsigned, floating, fold = _PREDICATES[kind]
    data = info(dtype)
    if data.is_float:
        if data.bits == 16 and not (data.code == "float" and b.module.native_half):
            x, y, dtype = widen(b, dtype, x), widen(b, dtype, y), b.module.float32_like(dtype)
        return b.op(f"fcmp {floating} {b.types[dtype]} {x}, {y}")
    if data.is_integer and data.lanes == 1 and x[0] != "%" and y[0] != "%":
        return "true" if fold(_number(x), _number(y)) else "false"
    predicate = signed if data.is_int else unsigned
    return b.op(f"icmp {predicate} {b.types[dtype]} {x}, {y}")


def _min_max(b: Builder, node) -> str:
    x, y = value(b, node.a), value(b, node.b)
    return min_max(b, type(node), node.dtype, x, y)


def min_max(b: Builder, kind, dtype: str, x: str, y: str) -> str:
    """Emit LLVM's min or max operation. NaN propagates; of two zeros, either may be returned. float16 values stored as
    bits are compared as float32."""
    data = info(dtype)
    text = b.types[dtype]
    if data.is_float and data.bits == 16 and not (data.code == "float" and b.module.native_half):
        flag = compare(b, LT if kind is Min else GT, dtype, x, y)
        larger = choose(b, flag, data.lanes, dtype, x, y)
        return choose(b, compare(b, NE, dtype, x, x), data.lanes, dtype, x, larger)
    if data.is_float:
        name = b.module.intrinsic("minimum" if kind is Min else "maximum", text, 2)
        return b.op(f"call nsz {text} {name}({text} {x}, {text} {y})")
    if data.lanes == 1 and x[0] != "%" and y[0] != "%":
        return _fold_int(b, dtype, min if kind is Min else max, x, y)
    name = ("s" if data.is_int else "u") + ("min" if kind is Min else "max")
    return b.op(f"call {text} {b.module.intrinsic(name, text, 2)}({text} {x}, {text} {y})")


def _select(b: Builder, node: Select) -> str:
    condition = node.condition
    # A broadcast condition is constant after unrolling if its scalar is.
    if isinstance(condition, Broadcast):
        condition = condition.value
    flag = value(b, condition)
    if flag == "true":
        return value(b, node.true_value)
    if flag == "false":
        return value(b, node.false_value)
    x, y = value(b, node.true_value), value(b, node.false_value)
    return choose(b, flag, info(condition.dtype).lanes, node.dtype, x, y)


def _logical(b: Builder, node) -> str:
    """Emit And/Or. The second operand is evaluated conditionally unless evaluating it is free of side effects."""
    both = type(node) is And
    x = value(b, node.a)
    if x == ("false" if both else "true"):
        return x
    if x == ("true" if both else "false"):
        return value(b, node.b)
    lanes = info(node.dtype).lanes
    if lanes > 1 or is_speculatable(b, node.b):
        y = value(b, node.b)
        if y in ("true", "false"):
            return x if (y == "true") is both else y
        return b.op(f"{'and' if both else 'or'} {b.types[node.dtype]} {x}, {y}")
    origin, rest, done = b.block, b.label("rest"), b.label("decided")
    b.branch_if(x, *((rest, done) if both else (done, rest)))
    b.start(rest)
    b.push()
    y = value(b, node.b)
    last = b.block
    b.pop()
    b.branch(done)
    b.start(done)
    return b.effect(f"phi i1 [ {'false' if both else 'true'}, %{origin} ], [ {y}, %{last} ]")


def _not(b: Builder, node: Not) -> str:
    x = value(b, node.a)
    if x in ("true", "false"):
        return "false" if x == "true" else "true"
    return b.op(f"xor {b.types[node.dtype]} {x}, {b.types.literal(node.dtype, 1)}")


# Vectors


def _broadcast(b: Builder, node: Broadcast) -> str:
    inner = info(node.value.dtype)
    if inner.lanes != 1:
        raise TVMError(f"a vector cannot be broadcast: {node}")
    if b.memory_operands is not None and isinstance(node.value, BufferLoad):
        operand = b.memory_operands.broadcast(b, node.value, node.lanes)
        if operand is not None:
            return operand
    return splat(b, node.value.dtype, value(b, node.value), node.lanes)


def _ramp(b: Builder, node: Ramp) -> str:
    kind = info(node.base.dtype)
    scalar, vector = b.types[node.base.dtype], b.types[node.dtype]
    base = splat(b, node.base.dtype, value(b, node.base), node.lanes)
    stride = value(b, node.stride)
    if stride[0] != "%" and kind.is_integer:
        step = int(stride)
        lanes = ", ".join(f"{scalar} {wrap_int(i * step, node.base.dtype)}" for i in range(node.lanes))
        return b.op(f"add {vector} {base}, <{lanes}>")
    counts = ", ".join(f"{scalar} {b.types.literal(node.base.dtype, i)}" for i in range(node.lanes))
    strides = splat(b, node.base.dtype, stride, node.lanes)
    if kind.is_float:
        return b.op(f"fadd {vector} {base}, {b.op(f'fmul {vector} {strides}, <{counts}>')}")
    return b.op(f"add {vector} {base}, {b.op(f'mul {vector} {strides}, <{counts}>')}")


def _shuffle(b: Builder, node: Shuffle) -> str:
    lanes: list[tuple[PrimExpr, int]] = []
    for vector in node.vectors:
        lanes.extend((vector, i) for i in range(info(vector.dtype).lanes))
    picked = []
    for index in node.indices:
        # Variables of unrolled loops are constants here.
        number = value(b, index)
        if not number.isdigit() or int(number) >= len(lanes):
            raise TVMError(f"the indices of a shuffle must be literals below {len(lanes)}, got {index}")
        picked.append(lanes[int(number)])
    first, last = node.vectors[0], node.vectors[-1]
    if len(node.vectors) <= 2 and first.dtype == last.dtype and info(first.dtype).lanes > 1 and len(picked) > 1:
        whole, text = info(first.dtype).lanes, b.types[first.dtype]
        mask = ", ".join(f"i32 {lane + whole * (vector is not first)}" for vector, lane in picked)
        other = value(b, last) if last is not first else "poison"
        return b.op(f"shufflevector {text} {value(b, first)}, {text} {other}, <{len(picked)} x i32> <{mask}>")
    scalars = []
    for vector, lane in picked:
        got = value(b, vector)
        scalars.append(got if info(vector.dtype).lanes == 1 else extract(b, vector.dtype, got, lane))
    return scalars[0] if len(scalars) == 1 else build_vector(b, node.dtype, scalars)


# Other expressions


def _cast(b: Builder, node: Cast) -> str:
    steps = quantize.steps_of(node) if quantize.rounds_by_conversion(b) else None
    if steps is not None:
        return quantize.emit(b, node.dtype, steps, value(b, steps.source))
    return convert(b, node.value.dtype, node.dtype, value(b, node.value))


def _let(b: Builder, node: Let) -> str:
    # A chain of lets is processed iteratively: each variable is bound for the rest of the expression.
    while isinstance(node, Let):
        bind(b, node.var, value(b, node.value), node.value)
        node = node.body
    return value(b, node)


def bind(b: Builder, var: Var, operand: str, source: PrimExpr | None = None) -> None:
    """Bind a variable to its value."""
    if source is not None and source.dtype != var.dtype and "handle" not in (source.dtype, var.dtype):
        raise InternalError(f"{b.name}: {var.name} of type {var.dtype} is bound to a value of type {source.dtype}")
    b.remember(var, operand)
    b.level[var] = b.loop_depth
    if source is not None and var.dtype != "handle" and info(var.dtype).is_int:
        b.ranges.bind(var, b.ranges.of(source))


def _load_operands(b: Builder, node: BufferLoad) -> list[PrimExpr]:
    access = llvm_memory.access_of(b, node.indices[0])
    place = access.scattered[0] if access.scattered is not None else access.base
    return [node.indices[0]] if place is None else list(place.terms)


def _call_operands(b: Builder, node: Call) -> list[PrimExpr]:
    lazy = lazy_operands(node)
    return [a for i, a in enumerate(node.args) if i not in lazy and isinstance(a, PrimExpr)]


def _first_operand(b: Builder, node) -> list[PrimExpr]:
    return [node.value] if isinstance(node, Let) else [node.a]


OPERANDS.update({BufferLoad: _load_operands, Call: _call_operands, Let: _first_operand, And: _first_operand,
                 Or: _first_operand})  # fmt: skip

HANDLERS.update(
    {
        IntImm: _int_literal,
        FloatImm: _float_literal,
        StringImm: _string,
        Var: _var,
        SizeVar: _var,
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
        Ramp: _ramp,
        Broadcast: _broadcast,
        Shuffle: _shuffle,
        Let: _let,
        BufferLoad: llvm_memory.load,
        Call: emit_call,
    }
)
