"""Base classes of scalar expressions, and the Python operators on them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...dtype import canonical, info, with_lanes
from ..node import Node
from ..type import PrimType

if TYPE_CHECKING:
    from ..node import slot_field
    from ..span import Span

_BOOL: dict[str, str] = {}


def bool_like(dtype: str) -> str:
    """Return the bool type with the same number of lanes as ``dtype``."""
    got = _BOOL.get(dtype)
    if got is None:
        got = _BOOL[dtype] = with_lanes("bool", info(dtype).lanes)
    return got


def ops():
    # ir.primop imports the node classes below, so the operators access it through sys.modules.
    return sys.modules["tvm.ir.primop"]


class BaseExpr(Node):
    """Base class of expressions of every IR."""

    _followed = True


class ExprOp:
    """Python operators that build expressions, shared by expressions, tensors and iteration variables."""

    __slots__ = ()
    # Higher than NumPy scalars and lower than NumPy arrays, so that a scalar defers to the expression. Without it,
    # NumPy before 2.1 converts comparisons to bool.
    __array_priority__ = -1.0

    def __add__(self, other: Any):
        return ops().add(self, other)

    def __radd__(self, other: Any):
        return ops().add(other, self)

    def __sub__(self, other: Any):
        return ops().subtract(self, other)

    def __rsub__(self, other: Any):
        return ops().subtract(other, self)

    def __mul__(self, other: Any):
        return ops().multiply(self, other)

    def __rmul__(self, other: Any):
        return ops().multiply(other, self)

    def __truediv__(self, other: Any):
        return ops().true_divide(self, other)

    def __rtruediv__(self, other: Any):
        return ops().true_divide(other, self)

    def __floordiv__(self, other: Any):
        return ops().floordiv(self, other)

    def __rfloordiv__(self, other: Any):
        return ops().floordiv(other, self)

    def __mod__(self, other: Any):
        return ops().floormod(self, other)

    def __rmod__(self, other: Any):
        return ops().floormod(other, self)

    def __neg__(self):
        return ops().negative(self)

    def __lshift__(self, other: Any):
        return ops().left_shift(self, other)

    def __rlshift__(self, other: Any):
        return ops().left_shift(other, self)

    def __rshift__(self, other: Any):
        return ops().right_shift(self, other)

    def __rrshift__(self, other: Any):
        return ops().right_shift(other, self)

    def __and__(self, other: Any):
        return ops().bitwise_and(self, other)

    def __rand__(self, other: Any):
        return ops().bitwise_and(other, self)

    def __or__(self, other: Any):
        return ops().bitwise_or(self, other)

    def __ror__(self, other: Any):
        return ops().bitwise_or(other, self)

    def __xor__(self, other: Any):
        return ops().bitwise_xor(self, other)

    def __rxor__(self, other: Any):
        return ops().bitwise_xor(other, self)

    def __invert__(self):
        return ops().bitwise_not(self)

    def __lt__(self, other: Any):
        return ops().less(self, other)

    def __le__(self, other: Any):
        return ops().less_equal(self, other)

    def __gt__(self, other: Any):
        return ops().greater(self, other)

    def __ge__(self, other: Any):
        return ops().greater_equal(self, other)

    def __eq__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        return EqualOp(self, other)

    def __ne__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        return NotEqualOp(self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ValueError(
            "an expression has no truth value while the program is being built; "
            "use tvm.tir.all / tvm.tir.any instead of and / or / not, and tvm.tir.if_then_else instead of if"
        )

    def __nonzero__(self):
        return self.__bool__()

    def equal(self, other: Any, span: Span | None = None):
        """The expression ``self == other``.

        Parameters
        ----------
        other : PrimExpr or number
            The other operand.

        Returns
        -------
        PrimExpr
            A bool expression; a literal if both operands are literals.
        """
        return ops().equal(self, other)

    def astype(self, dtype: str, span: Span | None = None):
        """The value converted to another type. Literals are converted immediately: floats truncate to integers,
        integers wrap.

        Parameters
        ----------
        dtype : str
            The type, such as "float32"; a vector type broadcasts a scalar.

        Returns
        -------
        PrimExpr
            The converted value; the value itself if it already has the type.

        Raises
        ------
        ExprTypeError
            The value is a pointer or a string, or its number of lanes differs.
        """
        return ops().cast(dtype, self)


class EqualOp(ExprOp):
    """The result of ``a == b``: as a Python bool it compares identity, as an operand it becomes an EQ expression."""

    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any, span: Span | None = None):
        self.a, self.b = a, b

    def __bool__(self) -> bool:
        return self.a is self.b

    def asobject(self):
        return ops().equal(self.a, self.b)

    @property
    def dtype(self):
        return self.asobject().dtype


class NotEqualOp(ExprOp):
    """The result of ``a != b``; see EqualOp."""

    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any, span: Span | None = None):
        self.a, self.b = a, b

    def __bool__(self) -> bool:
        return self.a is not self.b

    def asobject(self):
        return ops().not_equal(self.a, self.b)

    @property
    def dtype(self):
        return self.asobject().dtype


class PrimExpr(ExprOp, BaseExpr):
    """A scalar or vector expression; ``dtype`` is its type as text."""

    _followed = True

    __hash__ = object.__hash__

    if TYPE_CHECKING:
        # A field in some classes, derived from the operands in others.
        dtype: str = slot_field()

        # Rules are selected by the class of an expression, which type checkers cannot use to narrow its type.
        def __getattr__(self, name: str) -> Any: ...

    @property
    def checked_type(self):
        return PrimType(self.dtype)


SCOPE: dict[str, Any] = {"bool_like": bool_like, "with_lanes": with_lanes, "canonical": canonical, "info": info}


class PrimExprWithOp(PrimExpr):
    """An expression with operands."""


__all__ = ["BaseExpr", "EqualOp", "ExprOp", "NotEqualOp", "PrimExpr", "PrimExprWithOp", "SCOPE", "bool_like", "ops"]
