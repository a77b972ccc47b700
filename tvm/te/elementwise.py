"""Elementwise operators on tensors with NumPy broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..error import TVMError
from ..ir import primop
from ..ir.prim import IntImm, PrimExpr, convert
from .operation import compute
from .tensor import OPERATOR, Tensor


def _broadcast_dim(a: PrimExpr, b: PrimExpr, name: str) -> PrimExpr:
    x, y = getattr(a, "value", None), getattr(b, "value", None)
    if x == 1:
        return b
    if y == 1 or a is b:
        return a
    if x is not None and y is not None and x != y:
        raise TVMError(f"{name}: shapes do not broadcast: dimensions {x} and {y} differ")
    return b if x is not None else a


def _shape(a: Any, b: Any, name: str) -> tuple[Any, ...]:
    sa = a.shape if isinstance(a, Tensor) else ()
    sb = b.shape if isinstance(b, Tensor) else ()
    n = max(len(sa), len(sb))
    one = convert(1)
    sa = (one,) * (n - len(sa)) + tuple(sa)
    sb = (one,) * (n - len(sb)) + tuple(sb)
    return tuple(_broadcast_dim(x, y, name) for x, y in zip(sa, sb))


def _element(value: Any, indices: tuple[Any, ...], shape: tuple[Any, ...]):
    if not isinstance(value, Tensor):
        return value
    own = indices[len(indices) - len(value.shape) :]
    at = [
        convert(0)
        if isinstance(d, IntImm) and d.value == 1 and not (isinstance(full, IntImm) and full.value == 1)
        else i
        for d, full, i in zip(value.shape, shape[len(indices) - len(value.shape) :], own)
    ]
    return value(*at)


def _binary(name: str, function: Any):
    def apply(a: Any, b: Any):
        shape = _shape(a, b, name)
        tag = "broadcast" if isinstance(a, Tensor) and isinstance(b, Tensor) else "elemwise"

        def element(*i: Any) -> Any:
            return function(_element(a, i, shape), _element(b, i, shape))

        return compute(shape, element, name=f"T_{name}", tag=tag)

    return apply


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {}
for _name, _function in {
    "add": primop.add,
    "subtract": primop.subtract,
    "multiply": primop.multiply,
    "divide": primop.div,
    "floor_divide": primop.floordiv,
    "floor_mod": primop.floormod,
    "truncdiv": primop.truncdiv,
    "truncmod": primop.truncmod,
    "maximum": primop.maximum,
    "minimum": primop.minimum,
    "left_shift": primop.left_shift,
    "right_shift": primop.right_shift,
    "bitwise_and": primop.bitwise_and,
    "bitwise_or": primop.bitwise_or,
    "bitwise_xor": primop.bitwise_xor,
    "less": primop.less,
    "less_equal": primop.less_equal,
    "greater": primop.greater,
    "greater_equal": primop.greater_equal,
    "equal": primop.equal,
    "not_equal": primop.not_equal,
    "logical_and": primop.logical_and,
    "logical_or": primop.logical_or,
}.items():
    _OPERATORS[_name] = _binary(_name, _function)


def _cast(a: Tensor, dtype: str) -> Tensor:
    def element(*i: Any) -> PrimExpr:
        return primop.cast(dtype, a(*i))

    return compute(a.shape, element, name="T_cast", tag="elemwise")


def _negative(a: Tensor, _unused: Any) -> Tensor:
    def element(*i: Any) -> PrimExpr:
        return primop.negative(a(*i))

    return compute(a.shape, element, name="T_negative", tag="elemwise")


_OPERATORS["cast"] = _cast
_OPERATORS["negative"] = _negative


def _operator(name: str) -> Any:
    return _OPERATORS.get(name)


OPERATOR.give(_operator)
