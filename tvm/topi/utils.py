"""Helpers of the operators: constants, indices, shapes, and traversal of operations."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import te
from ..arith import Analyzer
from ..arith.compare import Interner
from ..error import ExprTypeError, ExprValueError
from ..ir import primop
from ..ir.prim import FloatImm, IntImm, PrimExpr, Var, const, convert
from ..ir.structural import structural_equal
from ..target import Target
from ..tir import op as tir_op
from . import tag


class InvalidShapeError(ExprValueError):
    """The shape of a tensor is not supported by an operator."""


# --- constants -----------------------------------------------------------------------------------------------------


# A cache of simplified expressions without known facts about variables, and its maximum size. Every type inference pass
# computes the dimensions of a model again.
_MOST_SIMPLE = 1 << 14


class _Simple(Interner):
    """The simplified forms of structurally equal expressions."""

    __slots__ = ("forms",)

    def __init__(self) -> None:
        super().__init__()
        self.forms: dict[PrimExpr, PrimExpr] = {}

    def of(self, expr: PrimExpr) -> PrimExpr:
        one = self.intern(expr)
        if one not in self.forms:
            self.forms[one] = Analyzer().simplify(one)
        return self.forms[one]


_simple = threading.local()


def simplify(expr: Any) -> Any:
    """Simplify an expression; numbers stay unchanged."""
    if not isinstance(expr, PrimExpr) or isinstance(expr, (IntImm, Var)):
        return expr
    table = getattr(_simple, "table", None)
    if table is None or len(table.known) > _MOST_SIMPLE:
        table = _simple.table = _Simple()
    return table.of(expr)


def get_const_int(expr: Any) -> int:
    """The value of an expression that is known at compile time.

    Parameters
    ----------
    expr : int or PrimExpr
        The expression.

    Returns
    -------
    int
        Its value.

    Raises
    ------
    ExprValueError
        The value is known only at run time.

    Examples
    --------
    >>> topi.get_const_int(te.const(3) * 4)
    12
    """
    if isinstance(expr, int):
        return int(expr)
    if not isinstance(expr, IntImm):
        expr = simplify(expr)
    if not isinstance(expr, IntImm):
        raise ExprValueError(f"expected an integer that is known at compile time, got the expression {expr}")
    return expr.value


def get_const_float(expr: Any) -> float:
    """The value of a float expression that must be known at compile time."""
    if isinstance(expr, (int, float)):
        return float(expr)
    if not isinstance(expr, FloatImm):
        expr = simplify(expr)
    if not isinstance(expr, FloatImm):
        raise ExprValueError(f"expected a float that is known at compile time, got the expression {expr}")
    return float(expr.value)


def nchw_pack_layout(layout_info: str) -> bool:
    """Whether the layout is NCHW with blocks of batch and channels, such as NCHW4n16c."""
    return layout_info[:4] == "NCHW" and "c" in layout_info and "n" in layout_info and layout_info[4:] != ""


def nchw_xc_layout(layout_info: str) -> bool:
    """Whether the layout is NCHW with blocks of channels, such as NCHW16c."""
    return layout_info[:4] == "NCHW" and layout_info.endswith("c") and layout_info[4:-1].isnumeric()


def get_const_tuple(in_tuple: Iterable) -> tuple:
    """The dimensions with constants as Python integers; dynamic dimensions stay expressions.

    Parameters
    ----------
    in_tuple : tuple of int or PrimExpr
        The dimensions.

    Returns
    -------
    tuple
        An int for each dimension that is known at compile time.

    Examples
    --------
    >>> topi.get_const_tuple(te.placeholder((te.const(2) * 4, te.var("n"))).shape)
    (8, n)
    """
    return tuple(_known(element) for element in in_tuple)


def _known(element: Any) -> Any:
    if isinstance(element, int):
        return int(element)
    if not isinstance(element, (IntImm, Var)):
        element = simplify(element)
    return element.value if isinstance(element, IntImm) else element


def get_float_tuple(in_tuple: Iterable) -> tuple[float, ...]:
    return tuple(get_const_float(element) for element in in_tuple)


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether this expression is known to equal ``value``."""
    if isinstance(expr, int):
        return expr == value
    if not isinstance(expr, IntImm):
        expr = simplify(expr)
    return isinstance(expr, IntImm) and expr.value == value


def same_dim(a: PrimExpr, b: PrimExpr) -> bool:
    """Return whether two dimensions are known to be equal."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return bool(structural_equal(a, b)) or equal_const_int(a - b, 0)


def refuse_rewritten(name: str, layout: str, shape: Any) -> None:
    """Reject weights in a rewritten layout. The compiler applies the layouts that a search chose."""
    for what, value in (("a rewritten layout of the weights", layout), ("an original shape of the weights", shape)):
        if value is not None and len(value):
            raise ExprValueError(
                f"{name}: {what} is not supported, got {value!r}; pass the weights in their declared layout, "
                "relay.build stores them in the layout of the tuning records"
            )


def other_dim(a: PrimExpr, b: PrimExpr) -> bool:
    """Return whether two dimensions are known to be different."""
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value


def is_dynamic_shape(shape: Sequence) -> bool:
    return any(not isinstance(dim, (IntImm, int)) for dim in shape)


def is_empty_shape(shape: Sequence) -> bool:
    """Whether a dimension is known to be zero."""
    return any(equal_const_int(dim, 0) for dim in shape)


def prod(x: Iterable) -> Any:
    """The product of numbers or expressions; 1 for an empty list. If all are constant, the dtype is wide enough for the
    product."""
    values = list(x)
    if all(isinstance(value, (int, IntImm)) for value in values):
        total = math.prod(int(value) for value in values)
        if all(isinstance(value, int) for value in values):
            return total
        wide = total >= 1 << 31 or any(getattr(value, "dtype", "int32") == "int64" for value in values)
        return const(total, "int64" if wide else "int32")
    result: Any = 1
    for value in values:
        result = value if isinstance(result, int) and result == 1 else result * value
    return result


def ceil_div(a: Any, b: Any) -> Any:
    """The quotient, rounded up."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return tir_op.ceildiv(a, b)


def swap(arr: Sequence, axis: int) -> list:
    """A list with the entries at ``axis`` and at the end exchanged."""
    result = list(arr)
    result[axis], result[-1] = result[-1], result[axis]
    return result


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """The largest power of two that divides ``n`` and is at most ``max_value``."""
    x = 1
    while n % 2 == 0 and (max_value is None or x * 2 <= max_value):
        x, n = x * 2, n // 2
    return x


# --- axes ----------------------------------------------------------------------------------------------------------


def normalize_axis(axis: Any, ndim: int, what: str) -> int:
    """Return ``axis`` counted from the front. An error is raised if the tensor does not have it."""
    axis = get_const_int(axis)
    if not -ndim <= axis < ndim:
        raise ExprValueError(f"{what}: axis {axis} is out of range for a tensor of {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def normalize_axes(axes: Any, ndim: int, what: str) -> list[int]:
    """Return several axes counted from the front, each at most once; None means all axes."""
    if axes is None:
        return list(range(ndim))
    if isinstance(axes, (int, IntImm)):
        axes = [axes]
    result = [normalize_axis(axis, ndim, what) for axis in axes]
    if len(set(result)) != len(result):
        raise ExprValueError(f"{what}: an axis is repeated in {list(axes)}")
    return result


def check_tensor(value: Any, what: str) -> te.Tensor:
    if not isinstance(value, te.Tensor):
        raise ExprTypeError(f"{what}: expected a tensor, got {type(value).__name__}")
    return value


# --- indices -------------------------------------------------------------------------------------------------------


def ravel_index(indices: Sequence, shape: Sequence) -> Any:
    """The row-major index of an element."""
    index: Any = None
    for own, dim in zip(indices, shape):
        index = own if index is None else index * dim + own
    return 0 if index is None else index


def unravel_index(idx: Any, shape: Sequence) -> list:
    """The indices of the element with a row-major index. The first index gets the remainder."""
    indices = []
    for i, dim in enumerate(reversed(shape)):
        last = i == len(shape) - 1
        # A dimension of 0 has no elements, but the divisor must not be 0.
        dim = 1 if equal_const_int(dim, 0) else dim
        indices.append(idx if last else idx % dim)
        idx = idx if last else idx // dim
    return indices[::-1]


def within_index(b: Any, e: Any, s: Any, i: Any) -> PrimExpr:
    """Whether ``i`` is one of b, b + s, b + 2 s, ... before ``e``."""
    forward = tir_op.all(convert(s) >= 0, i >= b, i < e, primop.equal(convert(i - b) % s, 0))
    backward = tir_op.all(convert(s) < 0, i <= b, i > e, primop.equal(convert(b - i) % -s, 0))
    return tir_op.any(forward, backward)


def make_idx(b: Any, e: Any, s: Any, z: Any, i: Any) -> PrimExpr:
    """The step at which b, b + s, ... reaches ``i``, limited to the number of steps in a dimension of ``z``."""
    forward, backward = convert(i - b) // s, convert(b - i) // -s
    step = te.if_then_else(convert(s) > 0, forward, backward)
    return tir_op.max(0, tir_op.min(step, convert(z) - 1))


def get_shape(src_shape: Sequence, src_layout: str, dst_layout: str) -> tuple:
    """A shape converted to another layout."""
    from ..target.layout import bijective_layout

    mapping = bijective_layout(src_layout, dst_layout)
    if mapping is None:
        raise ExprValueError(f"layout {src_layout} cannot be converted to {dst_layout}")
    return get_const_tuple(convert(dim) for dim in mapping.forward_shape(get_const_tuple(src_shape)))


def const_matrix(matrix: Any, name: str = "const_matrix", attrs: dict | None = None) -> te.Tensor:
    """A small constant matrix as a tensor: a select by index, folded if the index is constant."""
    rows, columns = matrix.shape
    dtype = str(matrix.dtype)

    def select_array(i, j):
        result = const(matrix[0, 0].item(), dtype)
        for row in range(rows):
            for column in range(columns):
                chosen = tir_op.all(primop.equal(i % rows, row), primop.equal(j % columns, column))
                result = te.if_then_else(chosen, const(matrix[row, column].item(), dtype), result)
        return result

    return te.compute((rows, columns), select_array, name=name, attrs=attrs)


def const_vector(vector: Any, name: str = "const_vector") -> te.Tensor:
    """A small constant vector as a tensor."""
    dtype = str(vector.dtype)

    def select_array(i):
        result = const(vector[0].item(), dtype)
        for place in range(1, vector.shape[0]):
            result = te.if_then_else(primop.equal(i, place), const(vector[place].item(), dtype), result)
        return result

    return te.compute((vector.shape[0],), select_array, name=name)


# --- operations ----------------------------------------------------------------------------------------------------


def traverse_inline(s: te.Schedule, final_op: te.Operation, callback: Callable[[te.Operation], None]) -> None:
    """Inline the injective operations before ``final_op`` and call ``callback`` once for every visited operation."""
    visited: set[te.Operation] = set()
    pending = [(final_op, False)]
    while pending:
        op, inputs_done = pending.pop()
        if inputs_done:
            callback(op)
            continue
        if op in visited:
            continue
        visited.add(op)
        if tag.is_injective(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            pending.append((op, True))
            pending.extend((t.op, False) for t in reversed(op.input_tensors) if t.op.input_tensors)
        else:
            pending.append((op, True))


def is_target(names: str | Sequence[str]) -> bool:
    """Whether the current target is one of these kinds."""
    target = Target.current(allow_none=True)
    names = [names] if isinstance(names, str) else names
    return target is not None and target.kind.name in names
