"""Variables and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dtype import canonical, info, int_range, with_lanes
from ...error import ExprValueError
from ..type import PrimType, Type
from .base import EqualOp, NotEqualOp, PrimExpr, ops
from .vectors import Broadcast

if TYPE_CHECKING:
    from ..span import Span


class Var(PrimExpr, key="tir.Var"):
    """A variable; two variables are equal only if they are the same object.

    Parameters
    ----------
    name : str, optional
        Its name in printed programs.
    dtype : str, optional
        Its type; "handle" for a pointer.
    type_annotation : Type, optional
        A type with more information than ``dtype``, such as the element type of a pointer.
    """

    _variable = True

    name: str
    dtype: str
    type_annotation: Any

    def __init__(
        self, name: str = "tindex", dtype: str = "int32", type_annotation: Any = None, span: Span | None = None
    ):
        if isinstance(dtype, Type):
            type_annotation = dtype
            dtype = dtype.dtype if isinstance(dtype, PrimType) else "handle"
        self.name = str(name)
        self.dtype = canonical(dtype)
        self.type_annotation = type_annotation if type_annotation is not None else PrimType(self.dtype)
        self.span = span

    @property
    def name_hint(self):
        return self.name

    def copy_with_suffix(self, suffix: str) -> Var:
        """A new variable of the same type, with a suffix appended to the name.

        Parameters
        ----------
        suffix : str
            The suffix.

        Returns
        -------
        Var
        """
        return type(self)(self.name + suffix, self.dtype, self.type_annotation)

    def copy_with_name(self, name: str) -> Var:
        """A new variable of the same type with another name.

        Parameters
        ----------
        name : str
            The name of the new variable.

        Returns
        -------
        Var
        """
        return type(self)(name, self.dtype, self.type_annotation)


class SizeVar(Var, key="tir.SizeVar"):
    """A non-negative variable, such as the size of a dimension.

    Parameters
    ----------
    name : str, optional
        Its name in printed programs.
    dtype : str, optional
        Its type, an integer.
    type_annotation : Type, optional
        A type with more information than ``dtype``.
    """

    def __init__(self, name: str = "size", dtype: str = "int32", type_annotation: Any = None, span: Span | None = None):
        Var.__init__(self, name, dtype, type_annotation, span)


class ConstExpr(PrimExpr):
    """A literal."""


class IntImm(ConstExpr, key="IntImm"):
    """A literal integer or bool.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    value : int
        The value, which must fit in ``dtype``.
    """

    dtype: str
    value: int

    def __init__(self, dtype: str, value: Any, span: Span | None = None):
        kind = info(dtype)
        if kind.lanes != 1:
            raise ExprValueError(f"IntImm is scalar; got dtype '{dtype}'")
        if not kind.is_integer:
            raise ExprValueError(f"IntImm needs an integer dtype, got '{dtype}'")
        value = int(value)
        if kind.is_bool:
            value = 1 if value else 0
        else:
            low, high = int_range(dtype)
            if not low <= value <= high:
                raise ExprValueError(f"literal value {value} does not fit in {dtype}, whose range is {low} to {high}")
        self.dtype = canonical(dtype)
        self.value = value
        self.span = span

    def __int__(self):
        return self.value

    def __index__(self):
        return self.value

    def __float__(self):
        return float(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __eq__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(other, IntImm):
            return const(self.value == other.value, "bool")
        if isinstance(other, (bool, int)):
            return const(self.value == other, "bool")
        return EqualOp(self, other)

    def __ne__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(other, IntImm):
            return const(self.value != other.value, "bool")
        if isinstance(other, (bool, int)):
            return const(self.value != other, "bool")
        return NotEqualOp(self, other)

    __hash__ = object.__hash__


class FloatImm(ConstExpr, key="FloatImm"):
    """A literal float.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    value : float
        The value.
    """

    dtype: str
    value: float

    def __init__(self, dtype: str, value: Any, span: Span | None = None):
        if not info(dtype).is_float:
            raise ExprValueError(f"FloatImm needs a float dtype, got '{dtype}'")
        self.dtype = canonical(dtype)
        self.value = float(value)
        self.span = span

    def __float__(self):
        return self.value


class StringImm(ConstExpr, key="tir.StringImm"):
    """A string literal.

    Parameters
    ----------
    value : str
        The text.
    dtype : str, optional
        Its type.
    """

    value: str
    dtype: str = "handle"

    def __init__(self, value: Any, dtype: str = "handle", span: Span | None = None):
        self.value = str(value)
        self.dtype = "handle"
        self.span = span

    def __eq__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(other, ConstExpr):
            return isinstance(other, StringImm) and self.value == other.value
        return self.value == other

    def __ne__(self, other: object):  # pyright: ignore[reportIncompatibleMethodOverride]
        return not self == other

    def __hash__(self):
        return hash(self.value)


PYTHON_NUMBERS = (bool, int, float)
FLOAT32_MAX = float.fromhex("0x1.fffffep127")
_SMALL: dict[tuple[int, str], IntImm] = {}


def const(value: Any, dtype: Any = None, span: Span | None = None) -> PrimExpr:
    """A literal. The default types are bool, int32 and float32, or int64 and float64 for values outside their range. A
    NumPy scalar keeps its type.

    Parameters
    ----------
    value : int, float or bool
        The value.
    dtype : str, optional
        Its type.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ValueError
        Literals of the type do not exist.

    Examples
    --------
    >>> te.const(3, "float32")
    T.float32(3)
    """
    if isinstance(value, ConstExpr) and dtype is None:
        return value
    number: Any = value.value if isinstance(value, (IntImm, FloatImm)) else value
    if dtype is None:
        dtype = _default_dtype(number)
    elif not isinstance(dtype, str):
        dtype = canonical(dtype)
    kind = info(dtype)
    if kind.lanes > 1:
        return Broadcast(const(number, with_lanes(dtype, 1)), kind.lanes)
    if kind.is_float:
        return FloatImm(dtype, number)
    if kind.is_integer:
        value = int(number)
        if -1024 <= value <= 4096:
            key = (value, dtype)
            got = _SMALL.get(key)
            if got is None:
                got = _SMALL[key] = IntImm(dtype, value)
            return got
        return IntImm(dtype, value)
    if kind.is_handle:
        return ops().cast("handle", const(int(number), "uint64"))
    raise ValueError(f"cannot create a literal of type '{dtype}'")


def _default_dtype(value: Any) -> str:
    # Checked first, because NumPy's float64 is also a Python float.
    name = getattr(value, "dtype", None)
    if name is not None:
        return canonical(name)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int32" if -(1 << 31) <= value < (1 << 31) else "int64"
    if isinstance(value, float):
        return "float64" if FLOAT32_MAX < abs(value) < float("inf") else "float32"
    raise TypeError(f"cannot create a literal from {value!r} ({type(value).__name__})")


__all__ = ["ConstExpr", "FloatImm", "IntImm", "PYTHON_NUMBERS", "SizeVar", "StringImm", "Var", "const"]
