"""Symbolic values of small integer tensors, such as the shapes that models compute from other shapes.

A value is a NumPy object array. Its elements are integers, expressions over size variables, or None for unknown
elements.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from ..ir.op import Op
from ..ir.prim import Add as _Add
from ..ir.prim import Any_, IntImm, PrimExpr, SizeVar, convert
from ..ir.prim import FloorDiv as _FloorDiv
from ..ir.prim import Max as _Max
from ..ir.prim import Mul as _Mul
from ..ir.primop import maximum, minimum
from ..ir.tensor_type import TensorType
from ..ir.type import Type
from ..ir.visit import post_order
from ..topi.utils import simplify
from .expr import Call, Constant, RelayExpr, Tuple

# The maximum number of elements: shapes are short, and longer vectors are data.
LONGEST = 64


def is_not_negative(e: Any) -> bool:
    """Return whether an expression over sizes is provably non-negative."""
    if isinstance(e, (int, IntImm)):
        return int(e) >= 0
    if isinstance(e, (_Add, _Mul, _FloorDiv)):
        return is_not_negative(e.a) and is_not_negative(e.b)
    if isinstance(e, _Max):
        return is_not_negative(e.a) or is_not_negative(e.b)
    return isinstance(e, SizeVar)


def plain(e: Any) -> Any:
    """Return a static size as an int, other sizes as expressions, and unknown ones as None."""
    if isinstance(e, PrimExpr):
        e = simplify(e)
        return int(e.value) if isinstance(e, IntImm) else None if any(isinstance(n, Any_) for n in post_order(e)) else e
    return e


def same_size(a: Any, b: Any) -> bool:
    """Return whether two sizes are provably equal."""
    if a is None or b is None:
        return False
    apart = plain(a - b)
    return isinstance(apart, int) and apart == 0


def _each(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return an element-wise rule; elements computed from unknown elements are unknown."""

    def one(*parts: Any) -> Any:
        return None if any(p is None for p in parts) else plain(function(*parts))

    return lambda attrs, *arrays: np.frompyfunc(one, len(arrays), 1)(*arrays)


def _divided(a: Any, b: Any) -> Any:
    """Divide with rounding towards zero, which is floor division for non-negative sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a // b if is_not_negative(a) and isinstance(b, int) and b > 0 else None


def _equal(a: Any, b: Any) -> bool | None:
    apart = plain(a - b)
    if isinstance(apart, int):
        return apart == 0
    low = a if isinstance(a, int) else b
    return False if isinstance(low, int) and low < 0 and is_not_negative(b if low is a else a) else None


def _ordered(largest: bool) -> Callable[[Any, Any], Any]:
    def choose(a: Any, b: Any) -> Any:
        apart = plain(a - b)
        if isinstance(apart, int):
            return a if (apart >= 0) == largest else b
        for low, high in ((a, b), (b, a)):
            if isinstance(low, int) and low <= 0 and is_not_negative(high):
                return high if largest else low
        return None

    return choose


def _where(attrs: Any, *arrays: np.ndarray) -> np.ndarray:
    def one(test: Any, a: Any, b: Any) -> Any:
        return (a if test else b) if isinstance(test, (bool, int)) else None

    return np.frompyfunc(one, 3, 1)(*arrays)


def _take(attrs: Any, data: np.ndarray, index: np.ndarray) -> np.ndarray | None:
    if attrs.axis is None or attrs.batch_dims or any(not isinstance(i, int) for i in index.ravel()):
        return None
    places = index.astype("int64")
    limit = data.shape[attrs.axis]
    return None if limit == 0 else np.take(data, np.clip(places, 0, limit - 1), attrs.axis)


def _sliced(attrs: Any, data: np.ndarray) -> np.ndarray | None:
    if attrs.slice_mode != "end" or data.ndim != 1:
        return None
    (begin,), (end,) = attrs.begin, attrs.end
    step = attrs.strides[0] if attrs.strides else 1
    # With a negative stride, an end below -size selects up to the first element.
    return data[slice(int(begin), None if step < 0 and end < -data.shape[0] else int(end), int(step))]


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., np.ndarray | None]:
    """Return a rule for the reduction of a whole vector."""

    def fold(attrs: Any, data: np.ndarray) -> np.ndarray | None:
        if data.ndim != 1 or attrs.exclude or not data.size or any(e is None for e in data):
            return None
        total = data[0]
        for e in data[1:]:
            total = plain(function(total, e))
        return _array([total] if attrs.keepdims else total)

    return fold


def _array(value: Any) -> np.ndarray:
    out = np.empty(np.shape(value), object)
    out[...] = value
    return out


_RULES: dict[str, Callable[..., Any]] = {
    "add": _each(lambda a, b: a + b),
    "subtract": _each(lambda a, b: a - b),
    "multiply": _each(lambda a, b: a * b),
    "trunc_divide": _each(_divided),
    "maximum": _each(_ordered(True)),
    "minimum": _each(_ordered(False)),
    "equal": _each(_equal),
    "where": _where,
    "take": _take,
    "strided_slice": _sliced,
    "prod": _folded(lambda a, b: a * b),
    "sum": _folded(lambda a, b: a + b),
    "concatenate": lambda attrs, *parts: np.concatenate(parts, attrs.axis),
    "stack": lambda attrs, *parts: np.stack(parts, attrs.axis),
    "cast": lambda attrs, data: data,
    "copy": lambda attrs, data: data,
}
# Operators that only change the shape.
_MOVED = ("reshape", "expand_dims", "squeeze")


class SizeValues:
    """Computes the values of expressions, whose types ``type_of`` returns; results are memoized."""

    def __init__(self, type_of: Callable[[RelayExpr], Any] = attrgetter("checked_type_")) -> None:
        self.known: dict[int, tuple[RelayExpr, np.ndarray | None]] = {}
        self.type_of = type_of

    def of(self, e: RelayExpr) -> np.ndarray | None:
        """Return the elements of an expression, or None if they are unknown."""
        for node in post_order(e, self.known, self._looked_at):
            self.known[id(node)] = (node, self._value(node))
        return self.known[id(e)][1]

    def _value(self, node: RelayExpr) -> np.ndarray | None:
        if isinstance(node, Constant):
            data = node.data
            if data.dtype not in ("int32", "int64", "bool") or int(np.prod(data.shape)) > LONGEST:
                return None
            return _array(data.numpy().tolist()).reshape(data.shape)
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return None
        t = self.type_of(node)
        if not isinstance(t, TensorType) or t.dtype not in ("int32", "int64", "bool"):
            return None
        if node.op.name == "shape_of":
            return _array([plain(d) for d in self.type_of(node.args[0]).shape])
        if node.op.name == "ndarray_size":
            total: Any = 1
            for d in map(plain, self.type_of(node.args[0]).shape):
                total = None if total is None or d is None else plain(total * d)
            return _array(total)
        parts = [self.known[id(p)][1] for p in self._looked_at(node)]
        if not parts or any(p is None for p in parts):
            return None
        if node.op.name in _MOVED:
            sizes = [d.value if isinstance(d, IntImm) else -1 for d in t.shape]
            return parts[0].reshape(sizes) if min(sizes, default=0) >= 0 else None
        made = _RULES[node.op.name](node.attrs, *parts)
        # NumPy functions return a single element without an array.
        return made if made is None or isinstance(made, np.ndarray) else _array(made)

    def _looked_at(self, node: RelayExpr) -> list[RelayExpr]:
        """Return the operands that determine the value of a node; none for unsupported operators."""
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return []
        if node.op.name not in _RULES and node.op.name not in _MOVED or not _is_small(self.type_of(node)):
            return []
        return [part for a in node.args for part in (a.fields if isinstance(a, Tuple) else (a,))]


def with_slice_sizes(call: Call, t: Type, type_of: Callable[[RelayExpr], Any] = attrgetter("checked_type_")) -> Type:
    """Return the type of a call; for a slice, dimensions are computed from shapes if possible.

    This covers complete axes and axes whose non-negative bounds are computed from shapes.
    """
    if call.op.name != "dyn.strided_slice" or call.attrs.slice_mode != "end":
        return t
    shape, values = list(type_of(call.args[0]).shape), SizeValues(type_of)
    bounds = [values.of(a) for a in call.args[1:]]
    axes = range(type_of(call.args[1]).shape[0].value) if call.attrs.axes is None else call.attrs.axes
    for number, axis in enumerate(axes):
        size, (begin, end, step) = plain(shape[axis]), (None if v is None else v[number] for v in bounds)
        follows = size is not None and step == 1 and is_not_negative(begin) and is_not_negative(end)
        shape[axis] = maximum(minimum(end, size) - minimum(begin, size), 0) if follows else Any_()
    return TensorType([d if isinstance(d, Any_) else convert(plain(d)) for d in shape], t.dtype)


def _is_small(t: Any) -> bool:
    if not isinstance(t, TensorType) or t.dtype not in ("int32", "int64", "bool"):
        return False
    sizes = [d.value if isinstance(d, IntImm) else None for d in t.shape]
    return None not in sizes and int(np.prod(sizes)) <= LONGEST


__all__ = ["SizeValues", "is_not_negative", "plain", "same_size", "with_slice_sizes"]
