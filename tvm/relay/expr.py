"""The graph language: expressions over tensors, tuples and functions.

Expressions form a graph by identity: an expression used twice is computed once. ``checked_type`` is filled in by type
inference; it is derived data, so it is the one slot of a node that is written later.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ..dtype import canonical
from ..hooks import Hook
from ..ir.attrs import DictAttrs
from ..ir.module import BaseFunc, GlobalVar, RelayExpr
from ..ir.node import to_tuple
from ..ir.op import Op
from ..ir.prim import Any_
from ..ir.prim import const as prim_const
from ..ir.tensor_type import TensorType
from ..ir.type import FuncType, IncompleteType, Type
from ..runtime import ndarray

OPERATOR: Hook[..., Any] = Hook(
    "relay.expr.OPERATOR", "creates the Relay call of a Python operator, `(name, *operands)`"
)
# The span of calls that are made without one: where the model's node that is being imported, or the call that is being
# replaced, came from.
ORIGIN: ContextVar[Any] = ContextVar("ORIGIN", default=None)


def _apply(name: str, *args):
    first = next(a for a in args if isinstance(a, RelayExpr))
    return OPERATOR(name, *[_operand(a, first) for a in args])


def _operand(value, beside: RelayExpr):
    """A Python number beside an expression takes the expression's element type, where it is known."""
    if isinstance(value, RelayExpr):
        return value
    known = _known_dtype(beside)
    if isinstance(value, Real) and not isinstance(value, Integral) and known.startswith(("int", "uint", "bool")):
        known = "float32"
    return const(value, known)


def _known_dtype(e: RelayExpr) -> str:
    """The element type of an expression, as far as it shows before types are inferred."""
    while True:
        found = e.checked_type_ if e.checked_type_ is not None else getattr(e, "type_annotation", None)
        if isinstance(found, TensorType):
            return found.dtype
        if isinstance(e, TupleGetItem):
            e = e.tuple_value
            continue
        operands = e.args if isinstance(e, Call) else e.fields if isinstance(e, Tuple) else ()
        if isinstance(e, Call):
            given = getattr(e.attrs, "dtype", "") or getattr(e.attrs, "out_dtype", "")
            if given:
                return given
        # What chooses between values has its type from them, not from the condition.
        operands = operands[1:] if getattr(getattr(e, "op", None), "name", "") == "where" else operands
        if not operands or not isinstance(operands[0], RelayExpr):
            return "float32"
        e = operands[0]


class ExprWithOp(RelayExpr):
    """An expression that Python operators work on."""

    # As in ExprOp: NumPy's scalars leave the operation to the expression.
    __array_priority__ = -1.0

    def astype(self, dtype):
        return _apply_cast(self, canonical(dtype))

    def __neg__(self):
        return _apply("negative", self)

    def __lt__(self, other):
        return _apply("less", self, other)

    def __gt__(self, other):
        return _apply("greater", self, other)

    def __ge__(self, other):
        return _apply("greater_equal", self, other)

    def __le__(self, other):
        return _apply("less_equal", self, other)

    def __add__(self, other):
        return _apply("add", self, other)

    def __radd__(self, other):
        return _apply("add", other, self)

    def __sub__(self, other):
        return _apply("subtract", self, other)

    def __rsub__(self, other):
        return _apply("subtract", other, self)

    def __mul__(self, other):
        return _apply("multiply", self, other)

    def __rmul__(self, other):
        return _apply("multiply", other, self)

    def __truediv__(self, other):
        return _apply("divide", self, other)

    def __rtruediv__(self, other):
        return _apply("divide", other, self)

    def __floordiv__(self, other):
        return _apply("floor_divide", self, other)

    def __mod__(self, other):
        return _apply("mod", self, other)

    def __call__(self, *args):
        """Call this expression, a function value."""
        return Call(self, args)

    def __bool__(self):
        raise TypeError("a relay expression has no truth value while the graph is being built; use relay.If")


def _apply_cast(e, dtype: str):
    return OPERATOR("cast", e, dtype)


_TYPED = {"checked_type_": "None", "virtual_device_": "None"}


class _View(NamedTuple):
    """Elements of a constant for NumPy, not in order, and their type."""

    elements: Any
    dtype: str


class Constant(ExprWithOp, key="relay.Constant", derived={**_TYPED, "_view": "None"}):
    """A tensor known when compiling.

    Parameters
    ----------
    data : NDArray
        The numbers.
    """

    data: Any

    def __init__(self, data, span=None):
        self._view = None
        if isinstance(data, _View):
            self._view = data.elements
            self.checked_type_ = TensorType(data.elements.shape, data.dtype)
        else:
            self.data = data if isinstance(data, ndarray.NDArray) else ndarray.array(data)
            self.checked_type_ = TensorType(self.data.shape, self.data.dtype)
        self.virtual_device_ = None
        self.span = span

    def _transposed(self, axes: Sequence[int]) -> Constant:
        """This tensor with its axes in another order. Nothing is copied before ``data`` is asked for: who packs the
        weight of a matmul reads it where it lies, and a weight is transposed before more often than not."""
        return Constant(_View(ndarray.elements(self.data).transpose(axes), self.checked_type_.dtype), self.span)

    def _elements(self) -> Any:
        """The elements for NumPy, where they lie; not contiguous where that is in another order."""
        return ndarray.elements(self.data) if self._view is None else self._view

    def __getattr__(self, name: str) -> Any:
        if name != "data":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        view = self._view
        if view is not None:
            # In this order, so that several threads may ask at once.
            self.data = ndarray.array(view)
            self._view = None
        return object.__getattribute__(self, "data")


class Tuple(ExprWithOp, key="relay.Tuple", derived=_TYPED):
    """Several values as one.

    Parameters
    ----------
    fields : list of RelayExpr
        The fields.
    """

    fields: tuple[RelayExpr, ...]

    def __getitem__(self, index):
        if index >= len(self.fields):
            raise IndexError(f"the tuple has {len(self.fields)} fields; there is no field {index}")
        return self.fields[index]

    def __len__(self):
        return len(self.fields)

    def astype(self, _):
        """A tuple is refused: its fields have types of their own.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError("a tuple has no element type to cast")


class Var(ExprWithOp, key="relay.Var", derived=_TYPED):
    """A variable; two are the same only if they are the same object.

    Parameters
    ----------
    name_hint : str
        Its name in printed programs.
    type_annotation : Type, optional
        Its type.
    """

    _variable = True

    name_hint: str
    type_annotation: Type | None = None

    def __init__(self, name_hint, type_annotation=None, span=None):
        self.name_hint = str(name_hint)
        self.type_annotation = None if isinstance(type_annotation, IncompleteType) else type_annotation
        self.checked_type_ = type_annotation if isinstance(type_annotation, (TensorType,)) else None
        self.virtual_device_ = None
        self.span = span

    @property
    def vid(self):
        return self


class Call(
    ExprWithOp,
    key="relay.Call",
    derived=_TYPED,
    check="span = ORIGIN.get() if span is None else span",
    scope={"ORIGIN": ORIGIN},
):
    """``op`` (an operator, a function, a constructor) applied to ``args``.

    Parameters
    ----------
    op : RelayExpr or Op
        What is called.
    args : list of RelayExpr
        The arguments.
    attrs : CallAttrs, optional
        The attributes of an operator's call.
    type_args : list of Type, optional
        The types that type parameters stand for.
    """

    _compared = "op args attrs"
    _in_graph = True

    op: RelayExpr
    args: tuple[RelayExpr, ...]
    attrs: Any = None
    type_args: tuple = ()


def _type_args(call: Call) -> tuple:
    """The types an operator is called with, and those that the type parameters of a function stand for, once they are
    known; before that those that were given."""
    given = _GIVEN_TYPE_ARGS.__get__(call)
    types = [getattr(a, "checked_type_", None) for a in call.args]
    if any(t is None for t in types):
        return given
    if type(call.op) is Op:
        return tuple(types) or given
    callee = getattr(call.op, "checked_type_", None)
    if call.checked_type_ is None or not isinstance(callee, FuncType) or not callee.type_params:
        return given
    from .infer_adt import type_arguments

    return type_arguments(callee, types, call.checked_type_)


_GIVEN_TYPE_ARGS = Call.type_args
Call.type_args = property(_type_args, _GIVEN_TYPE_ARGS.__set__)


class Let(ExprWithOp, key="relay.Let", derived=_TYPED):
    """``variable`` is ``value`` inside ``body``.

    Parameters
    ----------
    var : Var, optional
        The variable.
    value : RelayExpr, optional
        What it stands for.
    body : RelayExpr, optional
        Where it does.
    variable : Var, optional
        The same as ``var``, under its name as a field.
    """

    _compared = "var! value body"
    _in_graph = True

    var: Any
    value: RelayExpr
    body: RelayExpr

    def __init__(self, var=None, value=None, body=None, span=None, variable=None):
        self.var = variable if var is None else var
        self.value, self.body = value, body
        self.checked_type_ = self.virtual_device_ = None
        self.span = span


class If(ExprWithOp, key="relay.If", derived=_TYPED):
    """One of two values, by a condition; only that one is computed.

    Parameters
    ----------
    cond : RelayExpr
        The condition, a bool without dimensions.
    true_branch : RelayExpr
        The value where it holds.
    false_branch : RelayExpr
        The value elsewhere.
    """

    _in_graph = True
    cond: RelayExpr
    true_branch: RelayExpr
    false_branch: RelayExpr


class TupleGetItem(ExprWithOp, key="relay.TupleGetItem", derived=_TYPED):
    """A field of a tuple.

    Parameters
    ----------
    tuple_value : RelayExpr
        The tuple.
    index : int
        Which field.
    """

    tuple_value: RelayExpr
    index: int


class RefCreate(ExprWithOp, key="relay.RefCreate", derived=_TYPED):
    """A new reference that holds a value.

    Parameters
    ----------
    value : RelayExpr
        The value.
    """

    _in_graph = True
    value: RelayExpr


class RefRead(ExprWithOp, key="relay.RefRead", derived=_TYPED):
    """The value that a reference holds.

    Parameters
    ----------
    ref : RelayExpr
        The reference.
    """

    _in_graph = True
    ref: RelayExpr


class RefWrite(ExprWithOp, key="relay.RefWrite", derived=_TYPED):
    """Put a value into a reference; the result is the empty tuple.

    Parameters
    ----------
    ref : RelayExpr
        The reference.
    value : RelayExpr
        The value.
    """

    _in_graph = True
    ref: RelayExpr
    value: RelayExpr


class TempExpr(ExprWithOp):
    """An expression that only exists inside a pass."""

    def realize(self):
        """The expression that stands for this one outside of the pass.

        Returns
        -------
        RelayExpr

        Raises
        ------
        TypeError
            The class does not define it.
        """
        raise TypeError(f"{type(self).__name__} has no realization")


class Function(BaseFunc, key="relay.Function", derived=_TYPED):
    """A function value. ``attrs`` says what passes know of it: Primitive, Composite, hash, ...

    Parameters
    ----------
    params : list of Var
        The parameters.
    body : RelayExpr
        The result.
    ret_type : Type, optional
        The type of the result.
    type_params : list of TypeVar, optional
        What may stand for any type.
    attrs : DictAttrs or dict, optional
        What passes know of it.
    """

    _compared = "type_params! params! ret_type body attrs"

    params: tuple
    body: RelayExpr
    ret_type: Type | None = None
    type_params: tuple = ()
    attrs: Any = None

    def __init__(self, params, body, ret_type=None, type_params=None, attrs=None, span=None):
        self.params = to_tuple(params)
        for p in self.params:
            if not isinstance(p, Var):
                raise TypeError(f"a parameter of a function is a relay.Var, got {type(p).__name__}")
        self.body = body.tuple_value if isinstance(body, TupleWrapper) else body
        self.ret_type = ret_type
        self.type_params = to_tuple(type_params)
        self.attrs = dict(attrs.items()) if isinstance(attrs, DictAttrs) else dict(attrs or {})
        self.checked_type_ = self.virtual_device_ = None
        self.span = span

    def __call__(self, *args):
        return Call(self, args)

    def replace(self, **changes):
        """A copy with some fields changed, whose results lie where they did; the same object when nothing differs.

        Parameters
        ----------
        **changes
            New values by field.

        Returns
        -------
        Function
            The copy.
        """
        return self._placed_alike(super().replace(**changes))

    def _placed_alike(self, made):
        if made is not self:
            made.virtual_device_ = self.virtual_device_
        return made

    @property
    def checked_type(self):
        if self.checked_type_ is None:
            raise ValueError("the type of this function is not inferred yet; run relay.transform.InferType")
        return self.checked_type_


_MAP_CHILDREN = Function.map_children
Function.map_children = lambda self, f: self._placed_alike(_MAP_CHILDREN(self, f))


class TupleWrapper:
    """What an operator with several results returns: it can be indexed, unpacked and used as a tuple.

    Parameters
    ----------
    tuple_value : RelayExpr
        The tuple.
    size : int
        How many fields it has.
    """

    def __init__(self, tuple_value: RelayExpr, size: int):
        self.tuple_value = tuple_value.tuple_value if isinstance(tuple_value, TupleWrapper) else tuple_value
        self.size = size

    def astuple(self) -> RelayExpr:
        """The tuple as one expression.

        Returns
        -------
        RelayExpr
        """
        return self.tuple_value

    def astext(self):
        """The text of the tuple in Relay's syntax.

        Returns
        -------
        str
        """
        return str(self.tuple_value)

    def __getitem__(self, index: int):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.size))]
        if not -self.size <= index < self.size:
            raise IndexError(f"the result has {self.size} parts; there is no part {index}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self):
        return self.size

    def __iter__(self):
        return (self[i] for i in range(self.size))

    def __repr__(self):
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"

    def asobject(self):
        """The tuple as one expression, which is what it becomes as an operand.

        Returns
        -------
        RelayExpr
        """
        return self.tuple_value


def var(name_hint, type_annotation=None, shape=None, dtype="float32", span=None) -> Var:
    """A variable; ``shape`` and ``dtype`` make a tensor type.

    Parameters
    ----------
    name_hint : str
        Its name in printed programs.
    type_annotation : Type or str, optional
        Its type; a text is the element type of a scalar.
    shape : tuple of int or PrimExpr, optional
        The shape of its tensor type.
    dtype : str, optional
        The element type.

    Returns
    -------
    Var

    Raises
    ------
    ValueError
        Both a type and a shape are given.

    Examples
    --------
    >>> relay.var("x", shape=(1, 3), dtype="float32").type_annotation
    Tensor[(1, 3), float32]
    """
    if type_annotation is not None and shape is not None:
        raise ValueError("var: give a type annotation or a shape, not both")
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    return Var(name_hint, type_annotation)


def narrow_dtype(array) -> str:
    """The type of numbers that say none: half as wide as NumPy's where no value is lost."""
    narrow = {"float64": "float32", "int64": "int32"}.get(str(array.dtype))
    if narrow is None:
        return str(array.dtype)
    with np.errstate(over="ignore"):
        cast = array.astype(narrow)
    whole = np.isfinite(cast) | ~np.isfinite(array) if narrow == "float32" else cast == array
    return narrow if np.all(whole) else str(array.dtype)


def const(value, dtype=None, span=None) -> Constant:
    """A constant of a number, a bool, an array or nested lists.

    Parameters
    ----------
    value : int, float, bool, array or list
        The numbers.
    dtype : str, optional
        The element type. By default arrays keep theirs, and numbers of Python or NumPy that have 64 bits are int32 and
        float32 where that can hold them.

    Returns
    -------
    Constant

    Raises
    ------
    ValueError
        ``value`` is no number, bool or array, or an integer that does not fit in ``dtype``.

    Examples
    --------
    >>> relay.const([1, 2]).data.numpy().tolist()
    [1, 2]
    """
    if isinstance(value, Constant):
        return value
    if isinstance(value, ndarray.NDArray):
        return Constant(value)
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        array = np.asarray(value)
    elif isinstance(value, (bool, int, float, list, tuple, np.generic)):
        array = np.array(value)
    else:
        raise ValueError(f"const: a number, a bool or an array is wanted, got {type(value).__name__}")
    if dtype is None and not isinstance(value, np.ndarray):
        dtype = narrow_dtype(array)
    if dtype is not None:
        if isinstance(value, int):
            prim_const(value, dtype)
        if canonical(dtype) == "bfloat16":
            import ml_dtypes

            array = array.astype(ml_dtypes.bfloat16)
        else:
            array = array.astype(canonical(dtype))
    return Constant(ndarray.array(array))


def bind(expr, binds):
    """``expr`` with variables replaced; a function loses the parameters that were.

    Parameters
    ----------
    expr : RelayExpr
        The expression.
    binds : dict of Var to RelayExpr
        What variables become.

    Returns
    -------
    RelayExpr
    """
    from .substitute import bind as apply

    return apply(expr, binds)


def Any() -> Any_:  # noqa: F811 - the public name
    """An unknown dimension.

    Returns
    -------
    Any
        The dimension.
    """
    return Any_()


__all__ = [
    "Call",
    "Constant",
    "ExprWithOp",
    "FuncType",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "RelayExpr",
    "TempExpr",
    "Tuple",
    "TupleGetItem",
    "TupleWrapper",
    "Var",
    "bind",
    "const",
    "var",
]
Expr = RelayExpr
