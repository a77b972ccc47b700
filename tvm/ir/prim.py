"""Scalar and vector expressions: the node classes and the Python operators on them.

Integer semantics: ``Div``/``Mod`` truncate, ``FloorDiv``/``FloorMod`` round towards minus infinity; signed overflow
wraps. The page ``docs/ir.md`` has the whole of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..dtype import canonical, info, int_range, with_lanes
from ..error import ExprTypeError, ExprValueError
from .node import CONVERT, Node, _convert_all
from .op import Op
from .type import PrimType, Type

_BOOL: dict[str, str] = {}


def bool_like(dtype: str) -> str:
    """The bool type with as many lanes as ``dtype``."""
    got = _BOOL.get(dtype)
    if got is None:
        got = _BOOL[dtype] = with_lanes("bool", info(dtype).lanes)
    return got


def _ops():
    # ir.primop imports the node classes below, so the operators reach it through the loaded module table.
    return sys.modules["tvm.ir.primop"]


class BaseExpr(Node):
    """Base of expressions of every IR."""

    _followed = True


class ExprOp:
    """Python operators that build expressions. Shared by expressions, tensors and iteration variables."""

    __slots__ = ()

    def __add__(self, other):
        return _ops().add(self, other)

    def __radd__(self, other):
        return _ops().add(other, self)

    def __sub__(self, other):
        return _ops().subtract(self, other)

    def __rsub__(self, other):
        return _ops().subtract(other, self)

    def __mul__(self, other):
        return _ops().multiply(self, other)

    def __rmul__(self, other):
        return _ops().multiply(other, self)

    def __truediv__(self, other):
        return _ops().true_divide(self, other)

    def __rtruediv__(self, other):
        return _ops().true_divide(other, self)

    def __floordiv__(self, other):
        return _ops().floordiv(self, other)

    def __rfloordiv__(self, other):
        return _ops().floordiv(other, self)

    def __mod__(self, other):
        return _ops().floormod(self, other)

    def __rmod__(self, other):
        return _ops().floormod(other, self)

    def __neg__(self):
        return _ops().negative(self)

    def __lshift__(self, other):
        return _ops().left_shift(self, other)

    def __rlshift__(self, other):
        return _ops().left_shift(other, self)

    def __rshift__(self, other):
        return _ops().right_shift(self, other)

    def __rrshift__(self, other):
        return _ops().right_shift(other, self)

    def __and__(self, other):
        return _ops().bitwise_and(self, other)

    def __rand__(self, other):
        return _ops().bitwise_and(other, self)

    def __or__(self, other):
        return _ops().bitwise_or(self, other)

    def __ror__(self, other):
        return _ops().bitwise_or(other, self)

    def __xor__(self, other):
        return _ops().bitwise_xor(self, other)

    def __rxor__(self, other):
        return _ops().bitwise_xor(other, self)

    def __invert__(self):
        return _ops().bitwise_not(self)

    def __lt__(self, other):
        return _ops().less(self, other)

    def __le__(self, other):
        return _ops().less_equal(self, other)

    def __gt__(self, other):
        return _ops().greater(self, other)

    def __ge__(self, other):
        return _ops().greater_equal(self, other)

    def __eq__(self, other):
        return EqualOp(self, other)

    def __ne__(self, other):
        return NotEqualOp(self, other)

    __hash__ = object.__hash__

    def __bool__(self):
        raise ValueError(
            "an expression has no truth value while the program is being built; "
            "use tvm.tir.all / tvm.tir.any instead of and / or / not, and tvm.tir.if_then_else instead of if"
        )

    def __nonzero__(self):
        return self.__bool__()

    def equal(self, other, span=None):
        """The expression ``self == other``."""
        return _ops().equal(self, other)

    def astype(self, dtype, span=None):
        return _ops().cast(dtype, self)


class EqualOp(ExprOp):
    """``a == b`` before it is known whether Python or the compiler asks: truth is identity, use as an operand is EQ."""

    __slots__ = ("a", "b")

    def __init__(self, a, b, span=None):
        self.a, self.b = a, b

    def __bool__(self):
        return self.a is self.b

    def asobject(self):
        return _ops().equal(self.a, self.b)

    @property
    def dtype(self):
        return self.asobject().dtype


class NotEqualOp(ExprOp):
    """``a != b``; see EqualOp."""

    __slots__ = ("a", "b")

    def __init__(self, a, b, span=None):
        self.a, self.b = a, b

    def __bool__(self):
        return self.a is not self.b

    def asobject(self):
        return _ops().not_equal(self.a, self.b)

    @property
    def dtype(self):
        return self.asobject().dtype


class PrimExpr(ExprOp, BaseExpr):
    """A scalar or vector value; ``dtype`` is its type as text."""

    _followed = True

    __hash__ = object.__hash__

    if TYPE_CHECKING:

        # A field of some classes, worked out of the operands by others.
        @property
        def dtype(self) -> str: ...

        # Rules are chosen by the class of an expression, which narrows no type.
        def __getattr__(self, name: str) -> Any: ...

    @property
    def checked_type(self):
        return PrimType(self.dtype)


_SCOPE = {"bool_like": bool_like, "with_lanes": with_lanes, "canonical": canonical, "info": info}


class Var(PrimExpr, key="tir.Var"):
    """A variable; two are the same only if they are the same object.

    Parameters
    ----------
    name : str, optional
        Its name in printed programs.
    dtype : str, optional
        Its type; "handle" for a pointer.
    type_annotation : Type, optional
        A type that says more than ``dtype``: what a pointer points to.
    """

    _variable = True

    name: str
    dtype: str
    type_annotation: Any

    def __init__(self, name="tindex", dtype="int32", type_annotation=None, span=None):
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
        return type(self)(self.name + suffix, self.dtype, self.type_annotation)

    def copy_with_name(self, name: str) -> Var:
        return type(self)(name, self.dtype, self.type_annotation)


class SizeVar(Var, key="tir.SizeVar"):
    """A variable known to be at least zero: the size of a tensor.

    Parameters
    ----------
    name : str, optional
        Its name in printed programs.
    dtype : str, optional
        Its type, an integer.
    type_annotation : Type, optional
        A type that says more than ``dtype``.
    """

    def __init__(self, name="size", dtype="int32", type_annotation=None, span=None):
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
        The number, which ``dtype`` can hold.
    """

    dtype: str
    value: int

    def __init__(self, dtype, value, span=None):
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
                raise ExprValueError(f"literal value {value} does not fit in {dtype}, which holds {low} to {high}")
        self.dtype = canonical(dtype)
        self.value = value
        self.span = span

    def __int__(self):
        return self.value

    def __index__(self):
        return self.value

    def __float__(self):
        return float(self.value)

    def __bool__(self):
        return self.value != 0

    def __eq__(self, other):
        if isinstance(other, IntImm):
            return const(self.value == other.value, "bool")
        if isinstance(other, (bool, int)):
            return const(self.value == other, "bool")
        return EqualOp(self, other)

    def __ne__(self, other):
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
        The number.
    """

    dtype: str
    value: float

    def __init__(self, dtype, value, span=None):
        if not info(dtype).is_float:
            raise ExprValueError(f"FloatImm needs a float dtype, got '{dtype}'")
        self.dtype = canonical(dtype)
        self.value = float(value)
        self.span = span

    def __float__(self):
        return self.value


class StringImm(ConstExpr, key="tir.StringImm"):
    """A literal text.

    Parameters
    ----------
    value : str
        The text.
    dtype : str, optional
        Its type.
    """

    value: str
    dtype: str = "handle"

    def __init__(self, value, dtype="handle", span=None):
        self.value = str(value)
        self.dtype = "handle"
        self.span = span

    def __eq__(self, other):
        if isinstance(other, ConstExpr):
            return isinstance(other, StringImm) and self.value == other.value
        return self.value == other

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self.value)


class PrimExprWithOp(PrimExpr):
    """An expression with operands."""


class BinaryOpExpr(PrimExprWithOp):
    """Base of two-operand arithmetic."""


class CmpExpr(BinaryOpExpr):
    """Base of comparisons."""


class LogicalExpr(BinaryOpExpr):
    """Base of And, Or."""


def _mismatch(node):
    raise ExprTypeError(
        f"{type(node).__name__}: operands must have one type, got {node.a.dtype} and {node.b.dtype}; cast one of them"
    )


_SCOPE["_mismatch"] = _mismatch
_CHECK = "if a.dtype != b.dtype: _mismatch(self)"
_ARITH: dict[str, Any] = {"derived": {"dtype": "a.dtype"}, "check": _CHECK, "scope": _SCOPE}
_COMPARE: dict[str, Any] = {"derived": {"dtype": "bool_like(a.dtype)"}, "check": _CHECK, "scope": _SCOPE}


class Add(BinaryOpExpr, key="tir.Add", **_ARITH):
    """``a + b``; both have one type, and integers wrap around.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Sub(BinaryOpExpr, key="tir.Sub", **_ARITH):
    """``a - b``; both have one type, and integers wrap around.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Mul(BinaryOpExpr, key="tir.Mul", **_ARITH):
    """``a * b``; both have one type, and integers wrap around.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Div(BinaryOpExpr, key="tir.Div", **_ARITH):
    """Division; truncates on integers.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Mod(BinaryOpExpr, key="tir.Mod", **_ARITH):
    """Remainder of the truncating division.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class FloorDiv(BinaryOpExpr, key="tir.FloorDiv", **_ARITH):
    """The quotient of integers rounded down.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class FloorMod(BinaryOpExpr, key="tir.FloorMod", **_ARITH):
    """What FloorDiv leaves; it has the sign of the divisor.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Min(BinaryOpExpr, key="tir.Min", **_ARITH):
    """The smaller of two values.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Max(BinaryOpExpr, key="tir.Max", **_ARITH):
    """The larger of two values.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class EQ(CmpExpr, key="tir.EQ", **_COMPARE):
    """Whether two values are equal; a bool of as many lanes.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class NE(CmpExpr, key="tir.NE", **_COMPARE):
    """Whether two values differ; a bool of as many lanes.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class LT(CmpExpr, key="tir.LT", **_COMPARE):
    """Whether ``a`` is below ``b``.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class LE(CmpExpr, key="tir.LE", **_COMPARE):
    """Whether ``a`` is at most ``b``.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class GT(CmpExpr, key="tir.GT", **_COMPARE):
    """Whether ``a`` is above ``b``.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class GE(CmpExpr, key="tir.GE", **_COMPARE):
    """Whether ``a`` is at least ``b``.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class And(LogicalExpr, key="tir.And", **_ARITH):
    """Whether both conditions hold; ``b`` is evaluated only where ``a`` does.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Or(LogicalExpr, key="tir.Or", **_ARITH):
    """Whether one of two conditions holds; ``b`` is evaluated only where ``a`` does not.

    Parameters
    ----------
    a : PrimExpr
        The left operand.
    b : PrimExpr
        The right operand.
    """

    a: PrimExpr
    b: PrimExpr


class Not(PrimExprWithOp, key="tir.Not", derived={"dtype": "a.dtype"}):
    """Whether a condition does not hold.

    Parameters
    ----------
    a : PrimExpr
        The condition.
    """

    a: PrimExpr


class Cast(PrimExprWithOp, key="tir.Cast"):
    """A value converted to another type.

    Parameters
    ----------
    dtype : str
        The type to convert to.
    value : PrimExpr
        The value.
    """

    dtype: str
    value: PrimExpr


class Select(PrimExprWithOp, key="tir.Select", derived={"dtype": "true_value.dtype"}):
    """Both sides may be evaluated; ``if_then_else`` is the call that evaluates one.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    true_value : PrimExpr
        The value where the condition holds.
    false_value : PrimExpr
        The value elsewhere.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr


class Ramp(PrimExprWithOp, key="tir.Ramp", derived={"dtype": "with_lanes(base.dtype, lanes)"}, scope=_SCOPE):
    """The vector base, base + stride, ..., of ``lanes`` elements.

    Parameters
    ----------
    base : PrimExpr
        The first element.
    stride : PrimExpr
        The step from one to the next.
    lanes : int
        The number of elements.
    """

    base: PrimExpr
    stride: PrimExpr
    lanes: int


class Broadcast(PrimExprWithOp, key="tir.Broadcast", derived={"dtype": "with_lanes(value.dtype, lanes)"}, scope=_SCOPE):
    """A vector with one value in all its lanes.

    Parameters
    ----------
    value : PrimExpr
        The value.
    lanes : int
        The number of lanes.
    """

    value: PrimExpr
    lanes: int


class Shuffle(
    PrimExprWithOp,
    key="tir.Shuffle",
    derived={"dtype": "with_lanes(vectors[0].dtype, len(indices))"},
    scope=_SCOPE,
):
    """Elements ``indices`` of the concatenation of ``vectors``.

    Parameters
    ----------
    vectors : tuple of PrimExpr
        The vectors.
    indices : tuple[PrimExpr, ...]
        Which elements, counted through all vectors.
    """

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]


class Call(PrimExprWithOp, key="tir.Call"):
    """A call of an intrinsic (``op`` is an ``ir.Op``, or its name) or of another function (a GlobalVar).

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    op : Op, GlobalVar or str
        What is called.
    args : tuple
        The arguments.
    """

    dtype: str
    op: Any
    args: tuple[PrimExpr, ...]

    def __init__(self, dtype, op, args, span=None):
        if op.__class__ is str:
            op = Op.get(op if "." in op else "tir." + op)
            dtype = canonical(dtype)
        self.dtype = dtype
        self.op = op
        self.args = _convert_all(args)
        self.span = span


class Let(PrimExprWithOp, key="tir.Let", derived={"dtype": "body.dtype"}):
    """An expression in which a variable stands for a value.

    Parameters
    ----------
    var : Var
        The variable.
    value : PrimExpr
        The value.
    body : PrimExpr
        The expression.
    """

    _compared = "var! value body"
    var: Var
    value: PrimExpr
    body: PrimExpr


class Any_(PrimExprWithOp, key="tir.Any", derived={"dtype": "'int32'"}):
    """An unknown dimension of a shape.

    Parameters
    ----------
    name : str, optional
        The name in printed programs.
    """

    _compared = ""

    name: str = "any"


class Range(Node, key="Range"):
    """The integers [min, min + extent).

    Parameters
    ----------
    begin : PrimExpr, optional
        The first integer; alone, the end of a range from zero.
    end : PrimExpr, optional
        The integer after the last.
    min : PrimExpr, optional
        The first integer, given together with ``extent``.
    extent : PrimExpr, optional
        How many integers there are.
    """

    _followed = True

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin=None, end=None, span=None, min=None, extent=None):
        # Two forms: Range(end) / Range(begin, end) as users write it, and min=/extent= for rebuilding.
        if extent is None:
            if begin is None:
                raise TypeError("Range needs an end")
            if end is None:
                begin, end = convert(0), convert(begin)
                min, extent = const(0, end.dtype), end
            else:
                min = convert(begin)
                extent = _ops().subtract(convert(end), min)
        self.min = convert(min)
        self.extent = convert(extent)
        self.span = span

    @staticmethod
    def from_min_extent(min_value, extent, span=None) -> Range:
        return Range(min=min_value, extent=extent)


class IterVar(ExprOp, Node, key="tir.IterVar"):
    """An iteration axis: its variable, its domain, and what kind of axis it is.

    Parameters
    ----------
    dom : Range
        Where it runs.
    var : Var
        The variable.
    iter_type : int
        Data parallel, reduction, thread, and so on.
    thread_tag : str, optional
        The hardware thread that carries it.
    """

    _followed = True
    _compared = "dom var! iter_type thread_tag"

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    DimInfo = 4
    Unrolled = 5
    Vectorized = 6
    Parallelized = 7
    Tensorized = 8

    dom: Range | None
    var: Var
    iter_type: int
    thread_tag: str = ""

    def __init__(self, dom, var, iter_type, thread_tag="", span=None):
        if dom is not None and not isinstance(dom, Range):
            if not isinstance(dom, (list, tuple)) or len(dom) != 2:
                raise TypeError(f"the domain of an axis is a Range or a pair (begin, end), got {dom!r}")
            dom = Range(dom[0], dom[1])
        self.dom = dom
        self.var = Var(var, dom.extent.dtype if dom is not None else "int32") if isinstance(var, str) else var
        self.iter_type = int(iter_type)
        self.thread_tag = thread_tag or ""
        self.span = span

    @property
    def dtype(self):
        return self.var.dtype


class CommReducer(Node, key="tir.CommReducer"):
    """A commutative, associative combination: result[i] = f(lhs, rhs), with its identity.

    Parameters
    ----------
    lhs : tuple of Var
        What has been combined so far.
    rhs : tuple of Var
        What is added.
    result : tuple of PrimExpr
        The combination, an expression for each value.
    identity_element : tuple of PrimExpr
        What changes nothing when combined.
    """

    _compared = "lhs! rhs! result identity_element"

    lhs: tuple
    rhs: tuple
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]

    def __call__(self, a, b):
        from .subst import substitute

        pairs = dict(zip(self.lhs, a if isinstance(a, (list, tuple)) else (a,)))
        pairs.update(zip(self.rhs, b if isinstance(b, (list, tuple)) else (b,)))
        return tuple(substitute(r, pairs) for r in self.result)


class Reduce(PrimExprWithOp, key="tir.Reduce", derived={"dtype": "source[value_index].dtype"}):
    """The reduction of ``source`` over ``axis`` where ``condition`` holds; only the whole value of a compute is one.

    Parameters
    ----------
    combiner : CommReducer
        How two values are combined.
    source : tuple of PrimExpr
        What is reduced.
    axis : tuple[IterVar, ...]
        The axes that are reduced over.
    condition : PrimExpr
        Points where it is false are left out.
    value_index : int, optional
        Which value of the combiner this is.
    init : tuple of PrimExpr, optional
        What the reduction begins with, in place of the identity.
    """

    _compared = "axis! combiner source init condition value_index"

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int = 0
    init: tuple[PrimExpr, ...] = ()


class BufferLoad(PrimExprWithOp, key="tir.BufferLoad", derived={"dtype": "_load_dtype(buffer, indices)"}, scope={}):
    """An element (or, with a vector index, several) of a buffer.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    indices : tuple of PrimExpr
        The index along each dimension.
    """

    buffer: Any
    indices: tuple[PrimExpr, ...]


class ProducerLoad(PrimExprWithOp, key="tir.ProducerLoad", derived={"dtype": "producer.dtype"}):
    """An element of a tensor that has no buffer yet.

    Parameters
    ----------
    producer : Tensor
        The tensor.
    indices : tuple of PrimExpr
        The index along each dimension.
    """

    producer: Any
    indices: tuple[PrimExpr, ...]


def _load_dtype(buffer, indices) -> str:
    lanes = 1
    for index in indices:
        lanes *= info(index.dtype).lanes
    if lanes == 1:
        return buffer.dtype
    return with_lanes(buffer.dtype, lanes * info(buffer.dtype).lanes)


BufferLoad.__init__.__globals__["_load_dtype"] = _load_dtype

PYTHON_NUMBERS = (bool, int, float)
FLOAT32_MAX = float.fromhex("0x1.fffffep127")

_SMALL: dict[tuple[int, str], IntImm] = {}


def const(value: Any, dtype: str | None = None, span=None) -> PrimExpr:
    """A literal; the default types are bool, int32 and float32, or int64 and float64 where these are too small. A NumPy
    scalar has its own.

    Parameters
    ----------
    value : int, float or bool
        The number.
    dtype : str, optional
        Its type.

    Returns
    -------
    PrimExpr

    Raises
    ------
    ValueError
        The type has no literals.

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
        return _ops().cast("handle", const(int(number), "uint64"))
    raise ValueError(f"no literal of type '{dtype}'")


def _default_dtype(value) -> str:
    # NumPy's float64 is a Python float too, so its own type is asked for first.
    name = getattr(value, "dtype", None)
    if name is not None:
        return canonical(name)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int32" if -(1 << 31) <= value < (1 << 31) else "int64"
    if isinstance(value, float):
        return "float64" if FLOAT32_MAX < abs(value) < float("inf") else "float32"
    raise TypeError(f"cannot make a literal of {value!r} ({type(value).__name__})")


def convert(value) -> Any:
    """A Python value as an expression: numbers, strings, bool, NumPy scalars, axes, lists of these."""
    if isinstance(value, PrimExpr):
        return value
    kind = value.__class__
    if kind is int or kind is float or kind is bool:
        return const(value)
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, Node):
        return value
    if isinstance(value, str):
        return StringImm(value)
    if hasattr(value, "asobject"):
        return value.asobject()
    if isinstance(value, (list, tuple)):
        return tuple(convert(v) for v in value)
    if value is None:
        return None
    if hasattr(value, "dtype") and getattr(value, "ndim", 0) == 0 and hasattr(value, "item"):
        return const(value.item(), canonical(value.dtype))
    if isinstance(value, (int, float)):
        return const(value)
    raise TypeError(f"cannot use {value!r} ({kind.__name__}) in an expression")


CONVERT.give(convert)
