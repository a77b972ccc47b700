"""Functions that build expressions: mathematics, reductions, calls of intrinsics and of other functions.

Arithmetic and comparison are in ``ir.primop``; this file adds what has a name instead of an operator. ``tvm.te`` and
``tvm.tir`` export these same functions.
"""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable
from typing import Any

from ..docstring import docstring
from ..dtype import canonical, info, int_range, with_lanes
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.op import Op, register_intrin_lowering, register_op_attr
from ..ir.prim import (
    BufferLoad,
    Call,
    CommReducer,
    FloatImm,
    IntImm,
    IterVar,
    PrimExpr,
    Reduce,
    StringImm,
    Var,
    bool_like,
    const,
    convert,
)
from ..ir.primop import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    div,
    floordiv,
    floormod,
    select,
)
from ..ir.primop import left_shift as shift_left
from ..ir.primop import right_shift as shift_right
from .buffer import Buffer, type_annotation
from .descriptions import FLOAT_FUNCTIONS, FLOAT_PAIRS, INTRINSICS, OPERAND, PARAMETERS, REDUCER, TWO_OPERANDS
from .intrinsics import FLOAT_UNARY, CallEffectKind

# Largest finite values of the float types.
_FLOAT_MAX = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
}


def _element(name: str, value: Any) -> PrimExpr:
    value = convert(value)
    if not isinstance(value, PrimExpr):
        raise ExprTypeError(
            f"{name}: takes an expression such as an element of a tensor, got {type(value).__name__}; "
            f"functions of whole tensors are in tvm.topi"
        )
    return value


def _call(dtype: str, name: str, *args: Any) -> PrimExpr:
    return Call(dtype, Op.get("tir." + name), args)


# --- literals ------------------------------------------------------------------------------------------------------


def min_value(dtype, span=None) -> PrimExpr:
    """The smallest finite value of a type.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr
    """
    dtype = canonical(dtype)
    if info(dtype).is_float:
        return const(-_float_max(dtype), dtype)
    return const(int_range(dtype)[0], dtype)


def max_value(dtype, span=None) -> PrimExpr:
    """The largest finite value of a type.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr
    """
    dtype = canonical(dtype)
    return const(_float_max(dtype) if info(dtype).is_float else int_range(dtype)[1], dtype)


def _float_max(dtype: str) -> float:
    got = _FLOAT_MAX.get(with_lanes(dtype, 1))
    if got is None:
        raise ExprValueError(f"the range of type '{dtype}' is not known")
    return got


def infinity(dtype, span=None) -> PrimExpr:
    """The infinity of a float type.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprValueError
        For a type that is not a float.
    """
    dtype = canonical(dtype)
    if not info(dtype).is_float:
        raise ExprValueError(f"infinity: '{dtype}' is not a float type; use max_value for integers")
    return const(math.inf, dtype)


# --- conditions ----------------------------------------------------------------------------------------------------


def _join(name: str, combine: Callable, args: tuple) -> PrimExpr:
    if not args:
        raise ExprValueError(f"{name} needs at least one condition")
    out = _element(name, args[0])
    for other in args[1:]:
        out = combine(out, other)
    return out


def all(*args, span=None) -> PrimExpr:
    """The conjunction of conditions.

    Parameters
    ----------
    *args : PrimExpr
        The conditions, at least one.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ValueError
        Where there is no condition.
    """
    return _join("all", primop.logical_and, args)


def any(*args, span=None) -> PrimExpr:
    """The disjunction of conditions.

    Parameters
    ----------
    *args : PrimExpr
        The conditions, at least one.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ValueError
        Where there is no condition.
    """
    return _join("any", primop.logical_or, args)


def if_then_else(cond, t, f, span=None) -> PrimExpr:
    """``t`` where ``cond`` holds, else ``f``; only the chosen side is evaluated, so the other may be out of bounds.

    Parameters
    ----------
    cond : PrimExpr
        The condition, a bool.
    t : PrimExpr
        The value where the condition holds.
    f : PrimExpr
        The value elsewhere.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprTypeError
        The condition is no scalar bool.

    Examples
    --------
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((6,), lambda i: te.if_then_else(i < 4, A[i], 0.0))
    >>> print(B.op.body[0])
    T.if_then_else(i < 4, A[i], T.float32(0))
    """
    cond = _element("if_then_else", cond)
    if not info(cond.dtype).is_bool or info(cond.dtype).lanes != 1:
        raise ExprTypeError(f"if_then_else: the condition must be a scalar bool, got {cond.dtype}")
    t, f = primop.match_types(_element("if_then_else", t), _element("if_then_else", f))
    if isinstance(cond, IntImm):
        return t if cond.value else f
    return _call(t.dtype, "if_then_else", cond, t, f)


def likely(cond, span=None) -> PrimExpr:
    """``cond``, marked as true nearly always: loop partitioning splits off where it is false.

    Parameters
    ----------
    cond : PrimExpr
        The condition, a bool.

    Returns
    -------
    PrimExpr
    """
    cond = _element("likely", cond)
    return cond if isinstance(cond, IntImm) else _call(cond.dtype, "likely", cond)


# --- mathematics ---------------------------------------------------------------------------------------------------


def _float_operand(name: str, value: Any) -> PrimExpr:
    if isinstance(value, int) and not isinstance(value, bool):
        return const(float(value), "float32")
    value = _element(name, value)
    if not info(value.dtype).is_float:
        raise ExprTypeError(
            f"{name} is a function of floats, got {value.dtype}; cast the operand with .astype('float32')"
        )
    return value


def _as_float(name: str, value: Any) -> PrimExpr:
    """The one operand of a function of real numbers; whole numbers and truth values are taken as float32."""
    value = _element(name, value)
    kind = info(value.dtype)
    if kind.is_handle:
        raise ExprTypeError(f"{name} is a function of numbers, got {value.dtype}")
    return value if kind.is_float else cast(with_lanes("float32", kind.lanes), value)


def _float_unary(name: str) -> Callable:
    op = Op.get("tir." + name)

    def function(x) -> PrimExpr:
        x = _as_float(name, x)
        return Call(x.dtype, op, (x,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docstring(FLOAT_FUNCTIONS[name] + ".", OPERAND, "PrimExpr")
    return function


exp, exp2, exp10, log, log2, log10, log1p, sqrt, rsqrt, sin, cos, tan, asin, acos, atan = map(
    _float_unary, FLOAT_UNARY[:15]
)
sinh, cosh, tanh, asinh, acosh, atanh, sigmoid, erf = map(_float_unary, FLOAT_UNARY[15:])


def _round_away(x: float) -> float:
    return math.copysign(math.floor(math.fabs(x) + 0.5), x) if math.fabs(x) < 2**52 else x


def _whole(rule: Callable[[float], float]) -> Callable[[float], float]:
    """``rule`` on finite values; infinities and NaN stay as they are."""
    return lambda x: float(rule(x)) if math.isfinite(x) else x


_LITERAL_ROUNDING = {
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "round": _whole(_round_away),
    "nearbyint": _whole(lambda x: math.copysign(builtins.round(x), x)),
}


def _rounding(name: str, what: str) -> Callable:
    op = Op.get("tir." + name)
    fold = _LITERAL_ROUNDING[name]

    def function(x, span=None) -> PrimExpr:
        x = _element(name, x)
        if info(x.dtype).is_integer:
            return x
        if isinstance(x, FloatImm):
            return FloatImm(x.dtype, fold(x.value))
        if not info(x.dtype).is_float:
            raise ExprTypeError(f"{name} is a function of numbers, got {x.dtype}")
        return Call(x.dtype, op, (x,))

    function.__name__ = function.__qualname__ = name
    sentence = f"{what}; integers are returned as they are and literals are folded."
    function.__doc__ = docstring(sentence, OPERAND, "PrimExpr", ("ExprTypeError", "``x`` is no number."))
    return function


floor = _rounding("floor", "The largest integer not above x, as a float")
ceil = _rounding("ceil", "The smallest integer not below x, as a float")
trunc = _rounding("trunc", "x without its fraction")
round = _rounding("round", "The nearest integer, halves away from zero")
nearbyint = _rounding("nearbyint", "The nearest integer, halves to even")


def abs(x, span=None) -> PrimExpr:
    """The absolute value of a number; literals are folded.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprTypeError
        ``x`` is no number.
    """
    x = _element("abs", x)
    kind = info(x.dtype)
    if isinstance(x, FloatImm):
        return FloatImm(x.dtype, math.fabs(x.value))
    if isinstance(x, IntImm):
        return const(primop.wrap_int(-x.value if x.value < 0 else x.value, x.dtype), x.dtype)
    if kind.is_float:
        return _call(x.dtype, "fabs", x)
    if kind.is_uint:
        return x
    if kind.is_int:
        return select(primop.greater_equal(x, const(0, x.dtype)), x, primop.negative(x))
    raise ExprTypeError(f"abs is a function of numbers, got {x.dtype}")


def isnan(x, span=None) -> PrimExpr:
    """Whether a float is NaN.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = _element("isnan", x)
    kind = bool_like(x.dtype)
    if not info(x.dtype).is_float:
        return const(False, kind)
    if isinstance(x, FloatImm):
        return const(math.isnan(x.value), "bool")
    if info(x.dtype).bits == 16:
        x = cast(with_lanes("float32", info(x.dtype).lanes), x)
    return _call(kind, "isnan", x)


def isinf(x, span=None) -> PrimExpr:
    """Whether a float is infinite.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = _element("isinf", x)
    if not info(x.dtype).is_float:
        return const(False, bool_like(x.dtype))
    return primop.equal(abs(x), infinity(x.dtype))


def isfinite(x, span=None) -> PrimExpr:
    """Whether a float is neither infinite nor NaN.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = _element("isfinite", x)
    if not info(x.dtype).is_float:
        return const(True, bool_like(x.dtype))
    return primop.less(abs(x), infinity(x.dtype))


def _float_binary(name: str) -> Callable:
    op = Op.get("tir." + name)

    def function(x1, x2) -> PrimExpr:
        a, b = primop.match_types(_element(name, x1), _element(name, x2))
        a, b = _float_operand(name, a), _float_operand(name, b)
        return Call(a.dtype, op, (a, b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docstring(FLOAT_PAIRS[name], TWO_OPERANDS, "PrimExpr")
    return function


atan2, hypot, copysign, nextafter = map(_float_binary, ("atan2", "hypot", "copysign", "nextafter"))


def fmod(x, y) -> PrimExpr:
    """The remainder of the division rounded towards zero.

    Parameters
    ----------
    x : PrimExpr
        The operand.
    y : PrimExpr
        The second operand.

    Returns
    -------
    PrimExpr
    """
    return _fmod(x, y)


_fmod = _float_binary("fmod")
_pow = _float_binary("pow")


def ldexp(x1, x2) -> PrimExpr:
    """x1 times two to the power of the integer x2.

    Parameters
    ----------
    x1 : PrimExpr
        The first operand.
    x2 : PrimExpr
        The second operand.

    Returns
    -------
    PrimExpr
    """
    x1 = _float_operand("ldexp", x1)
    return _call(x1.dtype, "ldexp", x1, _element("ldexp", x2))


def power(x, y, span=None) -> PrimExpr:
    """x to the power of y, both floats; a literal exponent of one drops out.

    Parameters
    ----------
    x : PrimExpr
        The base.
    y : PrimExpr
        The exponent.

    Returns
    -------
    PrimExpr
    """
    if isinstance(x, PrimExpr) and isinstance(y, (int, float)):
        y = const(y, x.dtype) if info(x.dtype).is_float else y
    a, b = primop.match_types(_element("pow", x), _element("pow", y))
    if primop.literal(b) == 1:
        return a
    return _pow(a, b)


def pow(x, y, span=None) -> PrimExpr:
    """See power.

    Parameters
    ----------
    x : PrimExpr
        The base.
    y : PrimExpr
        The exponent.

    Returns
    -------
    PrimExpr
    """
    return power(x, y)


def fma(x, y, z) -> PrimExpr:
    """x * y + z, rounded once.

    Parameters
    ----------
    x : PrimExpr
        A factor.
    y : PrimExpr
        A factor.
    z : PrimExpr
        What is added.

    Returns
    -------
    PrimExpr
    """
    x, y, z = (_float_operand("fma", v) for v in (x, y, z))
    return _call(x.dtype, "fma", x, y, z)


def popcount(x) -> PrimExpr:
    """The number of set bits.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = _element("popcount", x)
    primop._want_integer("popcount", x)
    return _call(x.dtype, "popcount", x)


def clz(x) -> PrimExpr:
    """The number of leading zero bits; of zero, the width of the type.

    Parameters
    ----------
    x : PrimExpr
        The operand.

    Returns
    -------
    PrimExpr
    """
    x = _element("clz", x)
    primop._want_integer("clz", x)
    return _call(with_lanes("int32", info(x.dtype).lanes), "clz", x)


def q_multiply_shift(x, y, q, s) -> PrimExpr:
    """Fixed-point product of int32 ``x`` and the Q-``q`` number ``y``, shifted by ``s``, rounded half up.

    Parameters
    ----------
    x : PrimExpr
        The operand.
    y : PrimExpr
        The factor, a fixed-point number in an int32.
    q : int
        The number of fractional bits of ``y``.
    s : int
        How far to shift: to the left where positive.

    Returns
    -------
    PrimExpr
    """
    x = _element("q_multiply_shift", x)
    return _call(with_lanes("int32", info(x.dtype).lanes), "q_multiply_shift", x, y, q, s)


def q_multiply_shift_per_axis(x, y, ls, rs, q, is_lshift_required, is_rshift_required) -> PrimExpr:
    """As q_multiply_shift with separate left and right shifts, for per-channel scales.

    Parameters
    ----------
    x : PrimExpr
        The operand.
    y : PrimExpr
        The factor, a fixed-point number.
    ls : PrimExpr
        How far to shift left before.
    rs : PrimExpr
        How far to shift right after.
    q : int
        The number of fractional bits of ``y``.
    is_lshift_required : PrimExpr
        Whether there is a shift to the left.
    is_rshift_required : PrimExpr
        Whether there is a shift to the right.

    Returns
    -------
    PrimExpr
    """
    x = _element("q_multiply_shift_per_axis", x)
    args = (x, y, ls, rs, q, is_lshift_required, is_rshift_required)
    return _call(with_lanes("int32", info(x.dtype).lanes), "q_multiply_shift_per_axis", *args)


def reinterpret(dtype, value, span=None) -> PrimExpr:
    """The same bits read as another type of the same size.

    Parameters
    ----------
    dtype : str
        The type to read as.
    value : PrimExpr
        The value.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprTypeError
        The types differ in size.
    """
    dtype, value = canonical(dtype), _element("reinterpret", value)
    if value.dtype == dtype:
        return value
    to, source = info(dtype), info(value.dtype)
    if to.bits * to.lanes != source.bits * source.lanes:
        raise ExprTypeError(f"reinterpret: {value.dtype} and {dtype} have different sizes")
    return _call(dtype, "reinterpret", value)


# --- division ------------------------------------------------------------------------------------------------------


def _want_integers(name: str, a, b) -> tuple[PrimExpr, PrimExpr]:
    a, b = primop.match_types(_element(name, a), _element(name, b))
    if not info(a.dtype).is_integer:
        raise ExprTypeError(f"{name} is a function of integers, got {a.dtype}")
    return a, b


def truncdiv(a, b, span=None) -> PrimExpr:
    """Integer division rounded towards zero.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return div(*_want_integers("truncdiv", a, b))


def truncmod(a, b, span=None) -> PrimExpr:
    """What truncdiv leaves; it has the sign of the dividend.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return primop.truncmod(*_want_integers("truncmod", a, b))


def indexdiv(a, b, span=None) -> PrimExpr:
    """Division of indices, which are not negative: whatever rounding simplifies best.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return floordiv(a, b)


def indexmod(a, b, span=None) -> PrimExpr:
    """What indexdiv leaves.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    return floormod(a, b)


def ceildiv(lhs, rhs, span=None) -> PrimExpr:
    """Integer division rounded up.

    Parameters
    ----------
    lhs : PrimExpr
        The left operand.
    rhs : PrimExpr
        The right operand.

    Returns
    -------
    PrimExpr
    """
    a, b = _want_integers("ceildiv", lhs, rhs)
    if isinstance(a, IntImm) and isinstance(b, IntImm) and b.value:
        return const(primop.wrap_int(-(-a.value // b.value), a.dtype), a.dtype)
    return floordiv(primop.add(a, primop.subtract(b, const(1, b.dtype))), b)


shapediv = ceildiv


# --- reductions ----------------------------------------------------------------------------------------------------


def comm_reducer(fcombine: Callable, fidentity: Callable, name: str = "reduce") -> Callable:
    """A commutative reduction.

    ``fcombine(x, y)`` combines two values (or two tuples of values) and ``fidentity(*dtypes)`` gives what changes
    nothing. The result is called as ``reducer(expr, axis, where, init)``; with plain expressions instead of axes,
    ``reducer(a, b, ...)`` combines them directly.

    Parameters
    ----------
    fcombine : callable
        Combines two values, or two tuples of values.
    fidentity : callable
        Gives, for the types of the values, what changes nothing when combined.
    name : str, optional
        The name of the reduction.

    Returns
    -------
    callable
        A function ``(expr, axis, where=None, init=None)``.

    Raises
    ------
    ExprTypeError
        ``fcombine`` takes another number of arguments than two.

    Examples
    --------
    >>> largest = te.comm_reducer(lambda x, y: te.max(x, y), lambda dtype: te.min_value(dtype))
    >>> A = te.placeholder((8,), name="A")
    >>> k = te.reduce_axis((0, 8), name="k")
    >>> te.compute((1,), lambda i: largest(A[k], axis=k)).dtype
    'float32'
    """
    names = list(inspect.signature(fcombine).parameters)
    if len(names) != 2:
        raise ExprTypeError(f"comm_reducer: the combiner takes two arguments, this one takes {len(names)}")

    def make(expr, axis, where, init):
        single = not isinstance(expr, (list, tuple))
        sources = (_element(name, expr),) if single else tuple(_element(name, e) for e in expr)
        types = [e.dtype for e in sources]
        suffix = [""] if single else [f"_{i}" for i in range(len(sources))]
        lhs = tuple(Var(names[0] + s, t) for s, t in zip(suffix, types))
        rhs = tuple(Var(names[1] + s, t) for s, t in zip(suffix, types))
        result = _as_tuple(fcombine(lhs[0], rhs[0]) if single else fcombine(lhs, rhs))
        identity = _as_tuple(fidentity(*types))
        if not len(result) == len(identity) == len(sources):
            raise ExprValueError(
                f"{name}: {len(sources)} values are reduced, but the combiner gives {len(result)} "
                f"and the identity {len(identity)}"
            )
        combiner = CommReducer(lhs, rhs, result, identity)
        axes = _axes(name, axis)
        condition = const(True, "bool") if where is None else convert(where)
        start = () if init is None else _as_tuple(init)
        out = tuple(Reduce(combiner, sources, axes, condition, i, start) for i in range(len(sources)))
        return out[0] if single else out

    def reducer(expr, axis, where=None, init=None, *args):
        if isinstance(axis, (IterVar, list, tuple)):
            if args:
                raise ExprTypeError(f"{name}: takes (expr, axis, where, init), got {len(args)} arguments more")
            return make(expr, axis, where, init)
        out = convert(expr)
        for other in (axis, where, init, *args):
            if other is not None:
                out = fcombine(out, convert(other))
        return out

    reducer.__name__ = reducer.__qualname__ = name
    sentence = f"The {name} of ``expr`` over ``axis`` where ``where`` holds, or of the plain arguments."
    raises = ("ExprTypeError", "An axis is given and more arguments than those of a reduction.")
    reducer.__doc__ = docstring(sentence, REDUCER, "PrimExpr", raises)
    return reducer


def _as_tuple(values) -> tuple:
    values = values if isinstance(values, (list, tuple)) else (values,)
    return tuple(convert(v) for v in values)


def _axes(name: str, axis) -> tuple[IterVar, ...]:
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    for a in axes:
        if not isinstance(a, IterVar) or a.iter_type != IterVar.CommReduce:
            what = a.var.name if isinstance(a, IterVar) else type(a).__name__
            raise ExprValueError(f"{name}: '{what}' is not a reduction axis; make one with te.reduce_axis")
    return axes


def _above_all(dtype: str) -> PrimExpr:
    return infinity(dtype) if info(dtype).is_float else max_value(dtype)


def _below_all(dtype: str) -> PrimExpr:
    return -infinity(dtype) if info(dtype).is_float else min_value(dtype)


def plus(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """The sum of two values in their type: of truth values, which hold no 2, whether one is true, as in NumPy."""
    return primop.logical_or(x, y) if info(x.dtype).is_bool else primop.add(x, y)


def times(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """The product of two values in their type: of truth values whether both are true, as in NumPy."""
    return primop.logical_and(x, y) if info(x.dtype).is_bool else primop.multiply(x, y)


sum = comm_reducer(plus, lambda t: const(0, t), "sum")
prod = comm_reducer(times, lambda t: const(1, t), "prod")
min = comm_reducer(lambda x, y: primop.minimum(x, y), _above_all, "min")
max = comm_reducer(lambda x, y: primop.maximum(x, y), _below_all, "max")


# --- calls ---------------------------------------------------------------------------------------------------------


def call_intrin(dtype, func_name, *args, span=None) -> PrimExpr:
    """A call of the intrinsic ``func_name`` ("tir.exp" or an Op).

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    func_name : str or Op
        The intrinsic.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
    """
    return Call(dtype, func_name, args)


def _pack_buffer(buffer: Buffer) -> PrimExpr:
    """A buffer as the array descriptor packed functions take."""
    shape = _call("handle", "tvm_stack_make_shape", *buffer.shape)
    strides = _call("handle", "tvm_stack_make_shape", *buffer.strides) if buffer.strides else const(0, "int32")
    args = (buffer.data, shape, strides, len(buffer.shape), const(0, buffer.dtype), buffer.elem_offset)
    return _call("handle", "tvm_stack_make_array", *args)


def _packed(args) -> list:
    return [_pack_buffer(a) if isinstance(a, Buffer) else a for a in args]


def call_packed(*args, span=None) -> PrimExpr:
    """Call the packed function named by the first argument; buffers are passed as arrays.

    Parameters
    ----------
    *args
        The name of the function, then its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return _call("int32", "tvm_call_packed", *_packed(args))


def call_cpacked(*args, span=None) -> PrimExpr:
    """As call_packed, for a function of the packed C signature found at link time.

    Parameters
    ----------
    *args
        The name of the function, then its arguments.

    Returns
    -------
    PrimExpr
    """
    return _call("int32", "tvm_call_cpacked", *_packed(args))


def call_packed_lowered(*args, span=None) -> PrimExpr:
    """A call_packed whose arguments lie in the stack of packed values already.

    Parameters
    ----------
    *args
        The name of the function, the values, their codes, and where they begin and end.

    Returns
    -------
    PrimExpr
    """
    return _call("int32", "tvm_call_packed_lowered", *_packed(args))


def call_cpacked_lowered(*args, span=None) -> PrimExpr:
    """A call_cpacked whose arguments lie in the stack of packed values already.

    Parameters
    ----------
    *args
        The name of the function, the values, their codes, and where they begin and end.

    Returns
    -------
    PrimExpr
    """
    return _call("int32", "tvm_call_cpacked_lowered", *_packed(args))


def call_extern(dtype, func_name, *args, span=None) -> PrimExpr:
    """Call a C function, which may have effects.

    Parameters
    ----------
    dtype : str
        The type of the value.
    func_name : str
        The name of the C function.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return _call(dtype, "call_extern", StringImm(func_name), *args)


def call_pure_extern(dtype, func_name, *args, span=None) -> PrimExpr:
    """Call a C function that only computes its value.

    Parameters
    ----------
    dtype : str
        The type of the value.
    func_name : str
        The name of the C function.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return _call(dtype, "call_pure_extern", StringImm(func_name), *args)


def call_llvm_intrin(dtype, name, *args, span=None) -> PrimExpr:
    """Call an LLVM intrinsic by name; the first argument is the number of operands its overload is chosen by.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    name : str
        The name, such as "llvm.fma.v4f32".
    *args
        The number of operands its overload is chosen by, then the operands.

    Returns
    -------
    PrimExpr
        The call.
    """
    return _call(dtype, "call_llvm_intrin", StringImm(name), *args)


def call_llvm_pure_intrin(dtype, name, *args, span=None) -> PrimExpr:
    """As call_llvm_intrin, for an intrinsic without effects.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    name : str
        The name, such as "llvm.fma.v4f32".
    *args
        The number of operands its overload is chosen by, then the operands.

    Returns
    -------
    PrimExpr
    """
    return _call(dtype, "call_llvm_pure_intrin", StringImm(name), *args)


def call_tir(global_var, *args) -> PrimExpr:
    """Call another PrimFunc of the module.

    Parameters
    ----------
    global_var : GlobalVar
        The function.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return Call("void", global_var, args)


def trace(args, trace_action="tvm.default_trace_action") -> PrimExpr:
    """Call ``trace_action`` with ``args`` when the value is computed; the value is the last of them.

    Parameters
    ----------
    args : list of PrimExpr
        What is passed; the last is the value.
    trace_action : str, optional
        The name of the global function that is called.

    Returns
    -------
    PrimExpr
        The last of ``args``, whose evaluation makes the call.

    Raises
    ------
    ExprTypeError
        ``args`` is no list.
    """
    if not isinstance(args, (list, tuple)):
        raise ExprTypeError(f"trace takes a list of values, got {type(args).__name__}")
    return _call(convert(args[-1]).dtype, "tvm_call_trace_packed", StringImm(trace_action), *_packed(args))


def ret(val, span=None) -> PrimExpr:
    """Return ``val`` from the function.

    Parameters
    ----------
    val : PrimExpr
        The value.

    Returns
    -------
    PrimExpr
        The call that leaves the function.
    """
    val = convert(val)
    return _call(val.dtype, "ret", val)


def address_of(buffer_load, span=None) -> PrimExpr:
    """The address of an element, or of the first element of a buffer.

    Parameters
    ----------
    buffer_load : BufferLoad or Buffer
        The element, or the buffer.

    Returns
    -------
    PrimExpr
    """
    if isinstance(buffer_load, Buffer):
        buffer_load = BufferLoad(buffer_load, tuple(const(0, s.dtype) for s in buffer_load.shape))
    return _call("handle", "address_of", buffer_load)


def tvm_struct_get(arr, index, field, dtype) -> PrimExpr:
    """A field of the ``index``-th record at ``arr``.

    Parameters
    ----------
    arr : PrimExpr
        The address of the first record.
    index : PrimExpr
        Which record.
    field : int or str
        The field.
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr
    """
    return _call(dtype, "tvm_struct_get", arr, index, field)


def tvm_warp_shuffle(mask, value, warp_id, width, warp_size) -> PrimExpr:
    """The value that another thread of the warp has.

    Parameters
    ----------
    mask : PrimExpr
        The threads that take part, a bit each.
    value : PrimExpr
        The value of this thread.
    warp_id : PrimExpr
        The thread to read from.
    width : PrimExpr
        The size of the groups of threads that exchange.
    warp_size : PrimExpr
        The number of threads of a warp.

    Returns
    -------
    PrimExpr
    """
    return _call(convert(value).dtype, "tvm_warp_shuffle", mask, value, warp_id, width, warp_size)


def tvm_warp_shuffle_up(mask, value, offset, width, warp_size) -> PrimExpr:
    """The value of the thread ``offset`` places away in the warp.

    Parameters
    ----------
    mask : PrimExpr
        The threads that take part, a bit each.
    value : PrimExpr
        The value of this thread.
    offset : PrimExpr
        How far away the other thread is.
    width : PrimExpr
        The size of the groups of threads that exchange.
    warp_size : PrimExpr
        The number of threads of a warp.

    Returns
    -------
    PrimExpr
    """
    return _call(convert(value).dtype, "tvm_warp_shuffle_up", mask, value, offset, width, warp_size)


def tvm_warp_shuffle_down(mask, value, offset, width, warp_size) -> PrimExpr:
    """The value of the thread ``offset`` places away in the warp.

    Parameters
    ----------
    mask : PrimExpr
        The threads that take part, a bit each.
    value : PrimExpr
        The value of this thread.
    offset : PrimExpr
        How far away the other thread is.
    width : PrimExpr
        The size of the groups of threads that exchange.
    warp_size : PrimExpr
        The number of threads of a warp.

    Returns
    -------
    PrimExpr
    """
    return _call(convert(value).dtype, "tvm_warp_shuffle_down", mask, value, offset, width, warp_size)


def tvm_thread_context(var) -> PrimExpr:
    """A marker that its argument belongs to the context of a thread.

    Parameters
    ----------
    var : Var
        The variable.

    Returns
    -------
    PrimExpr
    """
    return _call(convert(var).dtype, "tvm_thread_context", var)


def dp4a(vec1, vec2, acc=0) -> PrimExpr:
    """acc + the dot product of two vectors of four 8-bit integers.

    Parameters
    ----------
    vec1 : PrimExpr
        A vector of four 8-bit integers.
    vec2 : PrimExpr
        Another.
    acc : PrimExpr, optional
        What is added to.

    Returns
    -------
    PrimExpr
    """
    return _call("int32", "dp4a", convert(vec1), convert(vec2), acc)


# Intrinsics that are a call and nothing more: (type of the value, parameters). The type "dtype" means that the caller
# gives it first; a parameter may have a default, and a last one with a star takes the rest.
_MMA_OPERANDS = (
    "shape A_layout B_layout A_dtype B_dtype C_dtype multiplicand_a a_index multiplicand_b b_index accumulator c_index"
)
_PLAIN_CALLS = {
    "isnullptr": ("bool", "val"),
    "handle_add_byte_offset": ("handle", "handle offset"),
    "assume": ("bool", "cond"),
    "undef": ("int32", ""),
    "lookup_param": ("handle", "param_name"),
    "prefetch": ("int32", "address rw locality cache_type"),
    "start_profile_intrinsic": ("handle", "id"),
    "end_profile_intrinsic": ("handle", "id"),
    "tvm_tuple": ("handle", "*value"),
    "tvm_struct_set": ("int32", "arr index field value"),
    "tvm_stack_alloca": ("handle", "dtype_str num"),
    "tvm_stack_make_shape": ("handle", "*args"),
    "tvm_stack_make_array": ("handle", "data shape strides ndim arr_dtype elem_offset"),
    "tvm_check_return": ("int32", "expected return_unexpected nested_call"),
    "tvm_throw_last_error": ("handle", ""),
    "tvm_context_id": ("handle", ""),
    "tvm_access_ptr": ("handle", "ptype data offset extent rw_mask"),
    "tvm_thread_allreduce": ("handle", "*freduce_args"),
    "tvm_storage_sync": ("int32", "storage_scope"),
    "tvm_global_barrier_kinit": ("int32", ""),
    "tvm_warp_activemask": ("uint32", ""),
    "atomic_add": ("dtype", "pointer value"),
    "create_barriers": ("handle", "barrier_count"),
    "tvm_load_matrix_sync": ("handle", "fragment m n k index buffer_ptr stride layout"),
    "tvm_mma_sync": ("handle", "fragment_d index_d fragment_a index_a fragment_b index_b fragment_c index_c"),
    "tvm_bmma_sync": ("handle", "fragment_d index_d fragment_a index_a fragment_b index_b fragment_c index_c"),
    "tvm_fill_fragment": ("handle", "fragment m n k index value"),
    "tvm_store_matrix_sync": ("handle", "fragment m n k index buffer_ptr stride layout"),
    "mma_store": ("dtype", "m n dst_ptr src_ptr src_offset dst_stride"),
    "mma_fill": ("dtype", "local_size local_ptr offset"),
    "ptx_mma": ("dtype", _MMA_OPERANDS + " saturate operator="),
    "ptx_mma_sp": ("dtype", _MMA_OPERANDS + " metadata meta_index sparse_selector saturate"),
    "ptx_ldmatrix": ("dtype", "trans num type local_ptr local_offset smem_ptr smem_offset"),
    "ptx_cp_async": ("dtype", "shared_ptr shared_offset global_ptr global_offset bytes"),
    "ptx_cp_async_bulk": ("dtype", "shared_ptr shared_offset global_ptr global_offset bytes barrier_id"),
    "ptx_commit_group": ("void", ""),
    "ptx_wait_group": ("void", "num"),
    "ptx_cp_async_barrier": ("void", "barrier_id"),
    "ptx_init_barrier_thread_count": ("void", "barrier_id thread_count"),
    "ptx_arrive_barrier": ("void", "barrier_id"),
    "ptx_arrive_barrier_expect_tx": ("void", "barrier_id byte_count"),
    "ptx_wait_barrier": ("void", "barrier_id"),
    "ptx_wgmma": ("void", "dtype m n k fragment index a_ptr a_along a_stride b_ptr b_along b_stride"),
    "ptx_wgmma_wait": ("void", "num fragment="),
    "vectorlow": ("dtype", "vec"),
    "vectorhigh": ("dtype", "vec"),
    "vectorcombine": ("dtype", "vec1 vec2"),
    "dma_copy": ("int32", "*args"),
    "dma_wait": ("int32", "*args"),
    "dma_start_group": ("int32", "*args"),
    "dma_end_group": ("int32", "*args"),
    "texture2d_store": ("handle", "*args"),
    "texture2d_load": ("dtype", "*args"),
    "anylist_getitem": ("handle", "list_handle index"),
    "anylist_resetitem": ("int32", "list_handle index"),
    "anylist_setitem_call_packed": ("int32", "list_handle index func_name *args"),
    "anylist_setitem_call_cpacked": ("int32", "list_handle index func_name *args"),
    "TVMBackendAllocWorkspace": ("handle", "device_type device_id nbytes dtype_code_hint dtype_bits_hint"),
    "TVMBackendFreeWorkspace": ("int32", "device_type device_id ptr"),
}


def _plain_call(name: str, dtype: str, parameters: str) -> Callable:
    kinds = []
    for text in (["dtype"] if dtype == "dtype" else []) + parameters.split():
        kind = inspect.Parameter.VAR_POSITIONAL if text[0] == "*" else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if text.endswith("=") else inspect.Parameter.empty
        kinds.append(inspect.Parameter(text.strip("*="), kind, default=default))
    signature = inspect.Signature(kinds)
    op = Op.get("tir." + name)

    def function(*args, **named) -> PrimExpr:
        bound = signature.bind(*args, **named)
        values = [v for v in bound.args if v is not None]
        kind = values.pop(0) if dtype == "dtype" else dtype
        return Call(kind, op, _packed(values) if name.startswith("anylist_setitem") else values)

    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature  # type: ignore[attr-defined]
    names = [str(kind).partition("=")[0] for kind in kinds]
    entries = [(text, *PARAMETERS[text.lstrip("*")]) for text in names]
    function.__doc__ = docstring(INTRINSICS[name], entries, "PrimExpr\n    The call of the intrinsic.")
    return function


for _name, (_dtype, _parameters) in _PLAIN_CALLS.items():
    globals()[_name] = _plain_call(_name, _dtype, _parameters)

__all__ = [
    "CallEffectKind",
    "abs",
    "acos",
    "acosh",
    "address_of",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call_cpacked",
    "call_cpacked_lowered",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_packed_lowered",
    "call_pure_extern",
    "call_tir",
    "ceil",
    "ceildiv",
    "clz",
    "comm_reducer",
    "const",
    "copysign",
    "cos",
    "cosh",
    "div",
    "dp4a",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "max_value",
    "min",
    "min_value",
    "nearbyint",
    "nextafter",
    "popcount",
    "pow",
    "power",
    "prod",
    "q_multiply_shift",
    "q_multiply_shift_per_axis",
    "register_intrin_lowering",
    "register_op_attr",
    "reinterpret",
    "ret",
    "round",
    "rsqrt",
    "shapediv",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "trace",
    "trunc",
    "truncdiv",
    "truncmod",
    "tvm_struct_get",
    "tvm_thread_context",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "type_annotation",
]  # fmt: skip
__all__ += list(_PLAIN_CALLS)
