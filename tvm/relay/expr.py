"""Relay expressions over tensors, tuples and functions.

Expressions form a graph by object identity: an expression with several uses is computed once. Type inference sets
``checked_type``, the only slot of a node that is written after construction.
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
# The span of calls that are created without one: that of the model node being imported, or of the call being replaced.
ORIGIN: ContextVar[Any] = ContextVar("ORIGIN", default=None)


def _apply(name: str, *args):
    first = next(a for a in args if isinstance(a, RelayExpr))
    return OPERATOR(name, *[_operand(a, first) for a in args])


def _operand(value, beside: RelayExpr):
    """Convert an operand; a Python number gets the element type of the other operand if that is known."""
    if isinstance(value, RelayExpr):
        return value
    known = _known_dtype(beside)
    if isinstance(value, Real) and not isinstance(value, Integral) and known.startswith(("int", "uint", "bool")):
        known = "float32"
    return const(value, known)


def _known_dtype(e: RelayExpr) -> str:
    """Return the element type of an expression, if it is known without type inference."""
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
        # The type of a ``where`` is that of its values, not of its condition.
        operands = operands[1:] if getattr(getattr(e, "op", None), "name", "") == "where" else operands
        if not operands or not isinstance(operands[0], RelayExpr):
            return "float32"
        e = operands[0]


class ExprWithOp(RelayExpr):
    """An expression that supports Python operators."""

    # As in ExprOp, this makes NumPy scalars delegate operations to the expression.
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
        """Call this expression, which has a function as its value."""
        return Call(self, args)

    def __bool__(self):
        raise TypeError("a Relay expression has no truth value; use relay.If for conditions")


def _apply_cast(e, dtype: str):
    return OPERATOR("cast", e, dtype)


_TYPED = {"checked_type_": "None", "virtual_device_": "None"}


class _View(NamedTuple):
    """A non-contiguous NumPy view of the elements of a constant, and their type."""

    elements: Any
    dtype: str


class Constant(ExprWithOp, key="relay.Constant", derived={**_TYPED, "_view": "None"}):
    """A tensor that is known at compile time.

    Parameters
    ----------
    data : NDArray
        The elements.
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
        """Return this constant with permuted axes. The elements are copied only when ``data`` is accessed: packing a
        weight reads the view directly, and most weights are transposed before."""
        return Constant(_View(ndarray.elements(self.data).transpose(axes), self.checked_type_.dtype), self.span)

    def _elements(self) -> Any:
        """Return a NumPy view of the elements, which may be non-contiguous."""
        return ndarray.elements(self.data) if self._view is None else self._view

    def __getattr__(self, name: str) -> Any:
        if name != "data":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        view = self._view
        if view is not None:
            # ``data`` is set before the view is reset, so that concurrent accesses are safe.
            self.data = ndarray.array(view)
            self._view = None
        return object.__getattribute__(self, "data")


class Tuple(ExprWithOp, key="relay.Tuple", derived=_TYPED):
    """A tuple of values.

    Parameters
    ----------
    fields : list of RelayExpr
        The fields.
    """

    fields: tuple[RelayExpr, ...]

    def __getitem__(self, index):
        if index >= len(self.fields):
            raise IndexError(f"the tuple has {len(self.fields)} fields; field index {index} is out of range")
        return self.fields[index]

    def __len__(self):
        return len(self.fields)

    def astype(self, _):
        """Raise an error, since a tuple has no element type.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError("a tuple cannot be cast; cast its fields")


class Var(ExprWithOp, key="relay.Var", derived=_TYPED):
    """A variable. Variables are equal only if they are the same object.

    Parameters
    ----------
    name_hint : str
        The name in printed programs.
    type_annotation : Type, optional
        The type.
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
    """A call of ``op`` (an operator, a function or a constructor) with ``args``.

    Parameters
    ----------
    op : RelayExpr or Op
        The callee.
    args : list of RelayExpr
        The arguments.
    attrs : CallAttrs, optional
        The attributes of an operator call.
    type_args : list of Type, optional
        The arguments for the type parameters.
    """

    _compared = "op args attrs"
    _in_graph = True

    op: RelayExpr
    args: tuple[RelayExpr, ...]
    attrs: Any = None
    type_args: tuple = ()


def _type_args(call: Call) -> tuple:
    """Return the type arguments of a call: the argument types of an operator, or the types bound to the type parameters
    of a function. Before inference, these are the given ones."""
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
    """A let binding: ``variable`` has the value ``value`` inside ``body``.

    Parameters
    ----------
    var : Var, optional
        The variable.
    value : RelayExpr, optional
        The value of the variable.
    body : RelayExpr, optional
        The expression in which the variable is visible.
    variable : Var, optional
        The same as ``var``, under the name of the field.
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
    """A conditional expression; only the selected branch is evaluated.

    Parameters
    ----------
    cond : RelayExpr
        The condition, a bool scalar.
    true_branch : RelayExpr
        The value if the condition is true.
    false_branch : RelayExpr
        The value if the condition is false.
    """

    _in_graph = True
    cond: RelayExpr
    true_branch: RelayExpr
    false_branch: RelayExpr


class TupleGetItem(ExprWithOp, key="relay.TupleGetItem", derived=_TYPED):
    """An access to a field of a tuple.

    Parameters
    ----------
    tuple_value : RelayExpr
        The tuple.
    index : int
        The index of the field.
    """

    tuple_value: RelayExpr
    index: int


class RefCreate(ExprWithOp, key="relay.RefCreate", derived=_TYPED):
    """The creation of a reference.

    Parameters
    ----------
    value : RelayExpr
        The initial value.
    """

    _in_graph = True
    value: RelayExpr


class RefRead(ExprWithOp, key="relay.RefRead", derived=_TYPED):
    """A read of the value of a reference.

    Parameters
    ----------
    ref : RelayExpr
        The reference.
    """

    _in_graph = True
    ref: RelayExpr


class RefWrite(ExprWithOp, key="relay.RefWrite", derived=_TYPED):
    """A write to a reference; its value is the empty tuple.

    Parameters
    ----------
    ref : RelayExpr
        The reference.
    value : RelayExpr
        The new value.
    """

    _in_graph = True
    ref: RelayExpr
    value: RelayExpr


class TempExpr(ExprWithOp):
    """An expression that exists only inside a pass."""

    def realize(self):
        """Return the expression that replaces this one after the pass.

        Returns
        -------
        RelayExpr

        Raises
        ------
        TypeError
            The class does not define it.
        """
        raise TypeError(f"{type(self).__name__} does not define realize")


class Function(BaseFunc, key="relay.Function", derived=_TYPED):
    """A function. ``attrs`` contains information for passes, such as Primitive, Composite and hash.

    Parameters
    ----------
    params : list of Var
        The parameters.
    body : RelayExpr
        The body.
    ret_type : Type, optional
        The return type.
    type_params : list of TypeVar, optional
        The type parameters.
    attrs : DictAttrs or dict, optional
        Information for passes.
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
                raise TypeError(f"parameters of a function must be relay.Var, got {type(p).__name__}")
        self.body = body.tuple_value if isinstance(body, TupleWrapper) else body
        self.ret_type = ret_type
        self.type_params = to_tuple(type_params)
        self.attrs = dict(attrs.items()) if isinstance(attrs, DictAttrs) else dict(attrs or {})
        self.checked_type_ = self.virtual_device_ = None
        self.span = span

    def __call__(self, *args):
        return Call(self, args)

    def replace(self, **changes):
        """Return a copy with some fields replaced, on the same virtual device; the same object if no field changes.

        Parameters
        ----------
        **changes
            New values by field name.

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
            raise ValueError("the type of this function has not been inferred; run relay.transform.InferType")
        return self.checked_type_


_MAP_CHILDREN = Function.map_children
Function.map_children = lambda self, f: self._placed_alike(_MAP_CHILDREN(self, f))


class TupleWrapper:
    """The result of an operator with several outputs: it supports indexing, unpacking and use as a tuple.

    Parameters
    ----------
    tuple_value : RelayExpr
        The tuple.
    size : int
        The number of fields.
    """

    def __init__(self, tuple_value: RelayExpr, size: int):
        self.tuple_value = tuple_value.tuple_value if isinstance(tuple_value, TupleWrapper) else tuple_value
        self.size = size

    def astuple(self) -> RelayExpr:
        """Return the tuple as one expression.

        Returns
        -------
        RelayExpr
            The tuple.
        """
        return self.tuple_value

    def astext(self):
        """Return the text of the tuple in Relay syntax.

        Returns
        -------
        str
            The text.
        """
        return str(self.tuple_value)

    def __getitem__(self, index: int):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.size))]
        if not -self.size <= index < self.size:
            raise IndexError(f"there are {self.size} outputs; output index {index} is out of range")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self):
        return self.size

    def __iter__(self):
        return (self[i] for i in range(self.size))

    def __repr__(self):
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"

    def asobject(self):
        """Return the tuple as one expression, as when it is used as an operand.

        Returns
        -------
        RelayExpr
            The tuple.
        """
        return self.tuple_value


def var(name_hint, type_annotation=None, shape=None, dtype="float32", span=None) -> Var:
    """Create a variable; ``shape`` and ``dtype`` define a tensor type.

    Parameters
    ----------
    name_hint : str
        The name in printed programs.
    type_annotation : Type or str, optional
        The type; a string is the element type of a scalar.
    shape : tuple of int or PrimExpr, optional
        The shape of a tensor type.
    dtype : str, optional
        The element type.

    Returns
    -------
    Var
        The variable.

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
        raise ValueError("var: type_annotation and shape exclude each other")
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    return Var(name_hint, type_annotation)


def narrow_dtype(array) -> str:
    """Return the element type of values without explicit type: half as wide as NumPy's type if this loses no value."""
    narrow = {"float64": "float32", "int64": "int32"}.get(str(array.dtype))
    if narrow is None:
        return str(array.dtype)
    with np.errstate(over="ignore"):
        cast = array.astype(narrow)
    whole = np.isfinite(cast) | ~np.isfinite(array) if narrow == "float32" else cast == array
    return narrow if np.all(whole) else str(array.dtype)


def const(value, dtype=None, span=None) -> Constant:
    """Create a constant from a number, a bool, an array or nested lists.

    Parameters
    ----------
    value : int, float, bool, array or list
        The value or values.
    dtype : str, optional
        The element type. By default arrays keep their type; 64-bit numbers of Python or NumPy become int32 or float32
        if these represent them.

    Returns
    -------
    Constant
        The constant.

    Raises
    ------
    ValueError
        ``value`` is not a number, bool or array, or it is an integer that does not fit in ``dtype``.

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
        raise ValueError(f"const: expected a number, a bool or an array, got {type(value).__name__}")
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
    """Replace variables in an expression; a function loses the replaced parameters.

    Parameters
    ----------
    expr : RelayExpr
        The expression.
    binds : dict of Var to RelayExpr
        The replacements of variables.

    Returns
    -------
    RelayExpr
        The expression with the replacements.
    """
    from .substitute import bind as apply

    return apply(expr, binds)


def Any() -> Any_:  # noqa: F811 - the public name
    """Return an anonymous dynamic dimension.

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
