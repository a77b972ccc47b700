"""Mathematical functions: processor instructions, formulas, and calls of libm."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...dtype import element, info
from ...error import TVMError
from ..symbols import LIBM
from . import float as llvm_float
from . import round as llvm_round
from .builder import Builder
from .cast import narrow, widen
from .value import build_vector, extract
from .vector import Value


def _reciprocal_root(x: Value) -> Value:
    return x.constant(1.0) / x.intrinsic("sqrt")


# Architectures without a math library.
GPUS = ("nvptx", "amdgcn")

_SIMPLE: dict[str, Callable[..., Value]] = {
    "sqrt": lambda x: x.intrinsic("sqrt"),
    "rsqrt": _reciprocal_root,
    "fabs": Value.absolute,
    "copysign": Value.with_sign_of,
    "floor": llvm_round.floor,
    "ceil": llvm_round.ceil,
    "trunc": llvm_round.truncate,
    "nearbyint": llvm_round.nearby,
    "round": llvm_round.round_away,
}
_DOUBLE: dict[str, Callable[..., Value]] = {
    "sigmoid": lambda x: x.constant(1.0) / (_libm(-x, "exp") + 1.0),
    "exp10": lambda x: _libm(x.constant(10.0), "pow", x),
}
FUNCTIONS = frozenset(_SIMPLE) | frozenset(llvm_float.UNARY) | frozenset(llvm_float.BINARY) | frozenset(
    ("asinh", "acosh", "atanh", "atan2", "hypot", "fmod", "nextafter")
)  # fmt: skip


def call_math(b: Builder, name: str, dtype: str, operands: list[str]) -> str:
    """Emit the function ``name`` of operands that all have type ``dtype``."""
    kind = info(dtype)
    if not kind.is_float:
        raise TVMError(f"{b.name}: {name}: the operands must be floats, got {dtype}")
    if kind.bits == 16:
        wide = b.module.float32_like(dtype)
        return narrow(b, dtype, call_math(b, name, wide, [widen(b, dtype, x) for x in operands]))
    values = [Value(b, dtype, x) for x in operands]
    if name in _SIMPLE:
        return _SIMPLE[name](*values).text
    if kind.bits == 32 and (name in llvm_float.UNARY or name in llvm_float.BINARY):
        return _call_helper(b, name, dtype, operands)
    if name in _DOUBLE:
        return _DOUBLE[name](*values).text
    return _libm(values[0], name, *values[1:]).text


def fused(b: Builder, dtype: str, operands: list[str]) -> str:
    """Return x * y + z with a single rounding."""
    kind = info(dtype)
    if kind.bits == 16:
        wide = b.module.float32_like(dtype)
        return narrow(b, dtype, fused(b, wide, [widen(b, dtype, x) for x in operands]))
    x, y, z = (Value(b, dtype, text) for text in operands)
    if b.module.cpu.has_fma:
        return x.intrinsic("fma", y, z).text
    if kind.bits == 64:
        return _libm(x, "fma", y, z).text
    return (x.convert("float64") * y.convert("float64") + z.convert("float64")).convert("float32").text


def load_exponent(b: Builder, dtype: str, x: str, power_dtype: str, power: str) -> str:
    """Return x * 2^power."""
    kind = info(dtype)
    if kind.bits == 16:
        wide = b.module.float32_like(dtype)
        return narrow(b, dtype, load_exponent(b, wide, widen(b, dtype, x), power_dtype, power))
    number = Value(b, power_dtype, power)
    if info(power_dtype).is_float or info(power_dtype).bits != 64:
        number = number.convert("int64")
    number = number.less(-2200).choose(-2200, number)
    number = number.greater(2200).choose(2200, number)
    value = Value(b, dtype, x)
    if kind.bits == 32:
        value = value.convert("float64")
    # Three steps, because each factor must be a power of two that is representable.
    third = number.constant(0) + (number >> 2)
    rest = number - third - third - third
    for part in (third, third, third, rest):
        value = value * ((part + 1023) << 52).bits()
    return value.convert("float32").text if kind.bits == 32 else value.text


# Functions of the module


def _libm(x: Value, name: str, *others: Value) -> Value:
    """Emit a call of libm for each lane."""
    b = x.b
    kind = info(x.dtype)
    if b.module.cpu.arch in GPUS:
        raise TVMError(f"{b.name}: {name} of {x.dtype} is not supported on {b.module.cpu.arch}; compute it in float32")
    full = name + ("f" if kind.bits == 32 else "")
    if full not in LIBM:
        raise TVMError(f"{b.name}: {name} of {x.dtype} is not supported")
    scalar = b.types[element(x.dtype)]
    operands = [x, *others]
    function = b.module.declare(full, scalar, ", ".join([scalar] * len(operands)))
    lanes = []
    for lane in range(kind.lanes):
        parts = [o.text if kind.lanes == 1 else extract(b, o.dtype, o.text, lane) for o in operands]
        # The call is marked so that LLVM does not replace it by other functions of libm.
        lanes.append(b.op(f"call {scalar} {function}({', '.join(f'{scalar} {p}' for p in parts)}) #3"))
    return Value(b, x.dtype, lanes[0] if kind.lanes == 1 else build_vector(b, x.dtype, lanes))


def _call_helper(b: Builder, name: str, dtype: str, operands: list[str]) -> str:
    """Call the helper function of the module for a formula; it is generated at its first use."""
    module = b.module
    symbol = f"tvm.{name}.{dtype}"
    text = b.types[dtype]
    if symbol not in module.helpers:
        module.helpers[symbol] = ""
        module.helpers[symbol] = _helper_text(b, symbol, name, dtype, len(operands))
    return b.op(f"call {text} @{symbol}({', '.join(f'{text} {x}' for x in operands)})")


def _helper_text(b: Builder, symbol: str, name: str, dtype: str, arity: int) -> str:
    inner = Builder(b.module, symbol)
    arguments = [Value(inner, dtype, f"%x{i}") for i in range(arity)]
    formula = llvm_float.UNARY.get(name) or llvm_float.BINARY[name]
    result = formula(*arguments)
    if name in llvm_float.LARGE and b.module.cpu.arch not in GPUS:
        result = _or_slow(inner, name, arguments[0], result)
    text = b.types[dtype]
    parameters = ", ".join(f"{text} %x{i}" for i in range(arity))
    head = f"define internal {text} @{symbol}({parameters}) #1 {{"
    return "\n".join([head, "entry:", *inner.out, f"  ret {text} {result.text}", "}", ""])


def _or_slow(b: Builder, name: str, x: Value, fast: Value) -> Value:
    """Return ``fast``, or the value of libm if a lane is too large for the formula."""
    large = x.absolute().greater(llvm_float.LARGE[name]) & x.absolute().differs(math.inf)
    lanes = info(x.dtype).lanes
    flag = large.text
    if lanes > 1:
        kind = large.type_text
        function = b.module.declare(f"llvm.vector.reduce.or.v{lanes}i1", "i1", kind)
        flag = b.op(f"call i1 {function}({kind} {large.text})")
    start, slow, done = b.block, b.label("slow"), b.label("done")
    b.branch_if(flag, slow, done)
    b.start(slow)
    asked = _slow_function(b, name, x)
    b.branch(done)
    b.start(done)
    text = x.type_text
    # The sine of infinity is NaN; the formula already returns this.
    return Value(b, x.dtype, b.effect(f"phi {text} [ {fast.text}, %{start} ], [ {asked}, %{slow} ]"))


def _slow_function(b: Builder, name: str, x: Value) -> str:
    """Call an out-of-line function that calls libm for every lane."""
    module = b.module
    symbol = f"tvm.libm.{name}.{x.dtype}"
    text = x.type_text
    if symbol not in module.helpers:
        inner = Builder(module, symbol)
        got = _libm(Value(inner, x.dtype, "%x"), name)
        head = f"define internal {text} @{symbol}({text} %x) #2 {{\nentry:"
        module.helpers[symbol] = "\n".join([head, *inner.out, f"  ret {text} {got.text}", "}", ""])
    return b.effect(f"call {text} @{symbol}({text} {x.text})")
