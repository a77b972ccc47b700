"""Elementwise operators on two tensors with NumPy broadcasting; either operand may be a Python scalar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te, tir
from ..dtype import info
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import EQ, Any_, FloatImm, IntImm, Min, PrimExpr, ProducerLoad, Select, const, convert
from ..te.tensor import OPERATOR
from . import tag
from .assumptions import agree, assume
from .math import map_elements
from .utils import check_tensor, same_dim

# --- shapes --------------------------------------------------------------------------------------------------------


def _is_one(dim: PrimExpr) -> bool:
    return isinstance(dim, IntImm) and dim.value == 1


def _is_clamped(cut: PrimExpr, size: PrimExpr) -> bool:
    """Return whether ``cut`` is the minimum of the dynamic dimension ``size`` and a constant greater than 1."""
    if not isinstance(cut, Min) or isinstance(size, IntImm):
        return False
    limits = [x for x in (cut.a, cut.b) if isinstance(x, IntImm)]
    return len(limits) == 1 and limits[0].value > 1 and any(same_dim(x, size) for x in (cut.a, cut.b))


def _is_broadcast_of(whole: PrimExpr, part: PrimExpr) -> bool:
    """Return whether ``whole`` is the result of broadcasting a dimension with ``part``."""
    if not isinstance(whole, Select) or not isinstance(whole.condition, EQ) or not _is_one(whole.condition.b):
        return False
    first, second = whole.false_value, whole.true_value
    return same_dim(whole.condition.a, first) and (same_dim(first, part) or same_dim(second, part))


def broadcast_dim(a: PrimExpr, b: PrimExpr, what: str) -> PrimExpr:
    """Return one dimension of the broadcast shape. Of two dynamic dimensions, either one is 1 or both are equal."""
    if _is_one(a):
        return b
    if _is_one(b) or same_dim(a, b):
        return a
    if _is_clamped(a, b) or _is_clamped(b, a):
        # One dimension is 1 only if the other one is.
        agree(a, b, "dimensions that are equal")
        return a if _is_clamped(b, a) else b
    for whole, part in ((a, b), (b, a)):
        if _is_broadcast_of(whole, part):
            becomes(part, whole)
            return whole
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        raise ExprValueError(
            f"{what}: the shapes do not broadcast: dimensions {a.value} and {b.value} differ and neither is 1"
        )
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        known, dynamic = (a, b) if isinstance(a, IntImm) else (b, a)
        assume(tir.any(primop.equal(dynamic, known), primop.equal(dynamic, 1)), f"a dimension equal to {known} or 1")
        return known
    same = primop.equal(a, b)
    assume(tir.any(same, primop.equal(a, 1), primop.equal(b, 1)), "dimensions that are equal, or one of them 1")
    # A dimension of size 0 broadcasts with a dimension of size 1: the result has size 0.
    return tir.Select(primop.equal(a, 1), b, a)


def broadcast_shape(*shapes: Sequence, what: str = "broadcast") -> tuple[PrimExpr, ...]:
    """The shape to which tensors of these shapes broadcast."""
    ndim = max((len(shape) for shape in shapes), default=0)
    result = [convert(1)] * ndim
    for shape in shapes:
        for place, dim in enumerate(shape, ndim - len(shape)):
            result[place] = broadcast_dim(result[place], convert(dim), what)
    return tuple(result)


def broadcast_index(shape: Sequence[PrimExpr], full: Sequence[PrimExpr], indices: Sequence) -> list:
    """The indices into a tensor of ``shape`` that correspond to ``indices`` of the broadcast shape ``full``."""
    skip = len(indices) - len(shape)
    result = []
    for dim, whole, index in zip(shape, full[skip:], indices[skip:]):
        if _is_one(dim):
            result.append(index if _is_one(whole) else const(0, index.dtype))
        elif isinstance(dim, IntImm) or same_dim(dim, whole):
            result.append(index)
        else:
            # A dynamic dimension may be 1 at run time.
            result.append(tir.Select(primop.equal(dim, 1), const(0, index.dtype), index))
    return result


def broadcast_to(data, shape):
    """``data`` broadcast to ``shape``: dimensions of size 1 are repeated and leading dimensions are added.

    Raises
    ------
    ExprValueError
        The data cannot be broadcast to the shape.

    Examples
    --------
    >>> topi.broadcast_to(te.placeholder((1, 3)), (2, 3)).shape
    (2, 3)
    """
    check_tensor(data, "broadcast_to")
    shape = tuple(convert(dim) for dim in shape)
    if len(data.shape) > len(shape) or not all(map(becomes, data.shape[::-1], shape[::-1])):
        raise ExprValueError(f"broadcast_to: shape {list(data.shape)} does not broadcast to {list(shape)}")
    return te.compute(
        shape, lambda *i: data(*broadcast_index(data.shape, shape, i)), name="T_broadcast_to", tag=tag.BROADCAST
    )


def becomes(dim: Any, wanted: Any) -> bool:
    """Return whether a dimension can be broadcast to the wanted one. For a dynamic dimension, record this as an
    assumption."""
    dim, wanted = convert(dim), convert(wanted)
    if _is_one(dim) or isinstance(dim, Any_) or isinstance(wanted, Any_) or same_dim(dim, wanted):
        return True
    if isinstance(dim, IntImm) and isinstance(wanted, IntImm):
        return False
    assume(
        tir.any(primop.equal(dim, wanted), primop.equal(dim, 1)),
        "a dimension that broadcasts: equal to the wanted one, or 1",
    )
    return True


# --- elements ------------------------------------------------------------------------------------------------------


def combine(a: Any, b: Any, element: Callable[[Any, Any], PrimExpr], name: str) -> Any:
    """Return the broadcast result of two operands, with ``element`` applied to each pair of elements."""
    if isinstance(a, te.TensorSlice):
        a = a.asobject()
    if isinstance(b, te.TensorSlice):
        b = b.asobject()
    if not isinstance(a, te.Tensor) and not isinstance(b, te.Tensor):
        return element(convert(a), convert(b))
    tensors = [x for x in (a, b) if isinstance(x, te.Tensor)]
    shape = broadcast_shape(*(x.shape for x in tensors), what=name)
    # A Python scalar gets the dtype of the other operand.
    a, b = _scalar(a, b), _scalar(b, a)

    def at(operand, indices):
        return operand(*broadcast_index(operand.shape, shape, indices)) if isinstance(operand, te.Tensor) else operand

    kind = tag.BROADCAST if len(tensors) == 2 else tag.ELEMWISE
    return te.compute(shape, lambda *i: element(at(a, i), at(b, i)), name=f"T_{name}", tag=kind)


def _scalar(value: Any, other: Any) -> Any:
    if isinstance(value, te.Tensor) or not isinstance(other, te.Tensor):
        return value
    if isinstance(value, (IntImm, FloatImm)):
        value = value.value
    value = primop.plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return convert(value)
    if isinstance(value, float) and not info(other.dtype).is_float:
        return const(value, "float32")
    if info(other.dtype).is_bool:
        return const(value, "int32")
    return const(value, other.dtype)


def _binary(name: str, element: Callable[[Any, Any], PrimExpr], doc: str) -> Callable:
    def function(lhs, rhs):
        return combine(lhs, rhs, element, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _is_float(a: Any, b: Any) -> bool:
    return info(convert(a).dtype).is_float or info(convert(b).dtype).is_float


def _known(b: PrimExpr) -> int | None:
    """Return the value of a divisor that is a constant or an element of a constant tensor with one value, else None."""
    if isinstance(b, ProducerLoad) and isinstance(b.producer.op, te.ComputeOp):
        b = b.producer.op.body[b.producer.value_index]
    return primop.literal(b)


def _guarded(divide: Callable, at_zero: Callable, at_minus_one: Callable) -> Callable:
    """Return an integer division that is defined for the divisors 0 and -1. A constant divisor other than these needs
    no checks."""

    def element(a: Any, b: Any) -> PrimExpr:
        a, b = primop.match_types(convert(a), convert(b))
        kind, known = info(a.dtype), _known(b)
        if not (kind.is_int or kind.is_uint) or known not in (None, 0, -1):
            return divide(a, b)
        one, zero = const(1, a.dtype), const(0, a.dtype)
        is_zero = primop.equal(b, zero)
        if kind.is_uint:
            return tir.Select(is_zero, at_zero(a), divide(a, tir.Select(is_zero, one, b)))
        is_minus_one = primop.equal(b, const(-1, a.dtype))
        safe = tir.Select(primop.logical_or(is_zero, is_minus_one), one, b)
        return tir.Select(is_zero, at_zero(a), tir.Select(is_minus_one, at_minus_one(a), divide(a, safe)))

    return element


def _zero_like(a: PrimExpr) -> PrimExpr:
    return const(0, a.dtype)


def _minus(a: PrimExpr) -> PrimExpr:
    return primop.subtract(_zero_like(a), a)


_quotient = _guarded(primop.div, _zero_like, _minus)
floor_quotient = _guarded(primop.floordiv, _zero_like, _minus)
_trunc_quotient = _guarded(primop.truncdiv, _zero_like, _minus)
floor_remainder = _guarded(primop.floormod, _zero_like, _zero_like)
_trunc_remainder = _guarded(primop.truncmod, _zero_like, _zero_like)


def _floor_mod(a: Any, b: Any) -> PrimExpr:
    if not _is_float(a, b):
        return floor_remainder(a, b)
    # The truncated remainder is exact. Add the divisor if the signs differ.
    a, b = primop.match_types(convert(a), convert(b))
    zero, rest = const(0, a.dtype), te.fmod(a, b)
    moves = tir.all(primop.not_equal(rest, zero), primop.not_equal(rest < zero, b < zero))
    return tir.Select(moves, rest + b, rest)


def _mod(a: Any, b: Any) -> PrimExpr:
    if not _is_float(a, b):
        return _trunc_remainder(a, b)
    return te.fmod(a, b)


def _power(a: Any, b: Any) -> PrimExpr:
    a, b = primop.match_types(convert(a), convert(b))
    return te.power(a, b) if info(a.dtype).is_float else _integer_power(a, b)


def _integer_power(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Compute the power by repeated squaring, modulo the width of the type. A negative exponent gives 1 / a**-b rounded
    towards zero."""
    kind = info(a.dtype)
    if not kind.is_int and not kind.is_uint:
        raise ExprTypeError(f"power: operands must be numeric, got {a.dtype}")
    zero, one = const(0, a.dtype), const(1, a.dtype)
    exponent = primop.literal(b)
    if exponent is not None and exponent >= 0:
        return _known_power(a, exponent)
    result, square = one, a
    for bit in range(kind.bits - kind.is_int):
        chosen = primop.not_equal(primop.bitwise_and(primop.right_shift(b, const(bit, b.dtype)), one), zero)
        result = tir.Select(chosen, result * square, result)
        square = square * square
    if kind.is_uint:
        return result
    odd = primop.not_equal(primop.bitwise_and(b, one), zero)
    inverse = tir.Select(primop.equal(a, one), one, zero)
    inverse = tir.Select(primop.equal(a, -one), tir.Select(odd, -one, one), inverse)
    return tir.Select(b < zero, inverse, result)


def _known_power(a: PrimExpr, exponent: int) -> PrimExpr:
    result, square = None, a
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    return const(1, a.dtype) if result is None else result


def _logical(name: str, function: Callable) -> Callable:
    def element(a, b):
        return function(_as_bool(convert(a), name), _as_bool(convert(b), name))

    return element


def _as_bool(value: PrimExpr, name: str) -> PrimExpr:
    if info(value.dtype).is_bool:
        return value
    if info(value.dtype).is_handle:
        raise ExprTypeError(f"{name}: operands must be numeric or bool, got {value.dtype}")
    return primop.not_equal(value, const(0, value.dtype))


# --- operators -----------------------------------------------------------------------------------------------------

add = _binary("add", primop.add, "The sum.")
subtract = _binary("subtract", primop.subtract, "The difference.")
multiply = _binary("multiply", primop.multiply, "The product.")
divide = _binary("divide", _quotient, "The quotient; integer quotients are rounded towards zero.")
floor_divide = _binary("floor_divide", floor_quotient, "The quotient rounded down.")
trunc_divide = _binary("trunc_divide", _trunc_quotient, "The quotient of integers, rounded towards zero.")
mod = _binary("mod", _mod, "The remainder of the division rounded towards zero; it has the sign of the dividend.")
trunc_mod = _binary("trunc_mod", _mod, "As mod.")
floor_mod = _binary(
    "floor_mod", _floor_mod, "The remainder of the division rounded down; it has the sign of the divisor."
)
maximum = _binary("maximum", primop.maximum, "The larger value; NaN if either operand is NaN.")
minimum = _binary("minimum", primop.minimum, "The smaller value; NaN if either operand is NaN.")
power = _binary("power", _power, "``lhs`` to the power of ``rhs``; integers wrap around.")
atan2 = _binary("atan2", te.atan2, "The angle of the point (rhs, lhs), as in atan2.")
bitwise_and = _binary("bitwise_and", primop.bitwise_and, "The bitwise and.")
bitwise_or = _binary("bitwise_or", primop.bitwise_or, "The bitwise or.")
bitwise_xor = _binary("bitwise_xor", primop.bitwise_xor, "The bitwise exclusive or.")
greater = _binary("greater", primop.greater, "Whether lhs > rhs, for each element.")
less = _binary("less", primop.less, "Whether lhs < rhs, for each element.")
equal = _binary("equal", primop.equal, "Whether lhs == rhs, for each element.")
not_equal = _binary("not_equal", primop.not_equal, "Whether lhs != rhs, for each element.")
greater_equal = _binary("greater_equal", primop.greater_equal, "Whether lhs >= rhs, for each element.")
less_equal = _binary("less_equal", primop.less_equal, "Whether lhs <= rhs, for each element.")
logical_and = _binary(
    "logical_and",
    _logical("logical_and", primop.logical_and),
    "Whether both operands are true (nonzero), for each element.",
)
logical_or = _binary(
    "logical_or",
    _logical("logical_or", primop.logical_or),
    "Whether either operand is true (nonzero), for each element.",
)
logical_xor = _binary(
    "logical_xor",
    _logical("logical_xor", primop.not_equal),
    "Whether exactly one operand is true (nonzero), for each element.",
)


def left_shift(x, n):
    """``x`` shifted left by ``n`` bits."""
    return combine(x, n, primop.left_shift, "left_shift")


def right_shift(x, n):
    """``x`` shifted right by ``n`` bits; the sign is kept."""
    return combine(x, n, primop.right_shift, "right_shift")


def logical_not(data):
    """True for each element that is false or zero."""
    return map_elements(data, lambda value: primop.logical_not(_as_bool(value, "logical_not")), "T_logical_not")


def bitwise_not(data):
    """``data`` with every bit inverted."""
    return map_elements(data, primop.bitwise_not, "T_bitwise_not")


_OPERATORS = {function.__name__: function for function in (
    add, subtract, multiply, divide, floor_divide, floor_mod, maximum, minimum, left_shift, right_shift, bitwise_and,
    bitwise_or, bitwise_xor, greater, less, equal, not_equal, greater_equal, less_equal, logical_and, logical_or,
)}  # fmt: skip


def _operator(name: str):
    """Return an operator for tensors of any broadcastable shapes; ``te`` itself supports only equal shapes."""
    return _OPERATORS.get(name) or _of_equal_shapes(name)


_of_equal_shapes = OPERATOR.give(_operator)

__all__ = [
    "add", "atan2", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_to", "divide", "equal",
    "floor_divide", "floor_mod", "greater", "greater_equal", "left_shift", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "not_equal", "power",
    "right_shift", "subtract", "trunc_divide", "trunc_mod",
]  # fmt: skip
