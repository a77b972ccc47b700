"""Reductions over axes, and reducers that combine values."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ...docstring import docstring
from ...dtype import info
from ...error import ExprTypeError, ExprValueError
from ...ir import primop
from ...ir.prim import CommReducer, IterVar, PrimExpr, Reduce, Var, const, convert
from ..descriptions import REDUCER
from .element import element
from .literals import infinity, max_value, min_value


def comm_reducer(fcombine: Callable, fidentity: Callable, name: str = "reduce") -> Callable:
    """A commutative reducer.

    ``fcombine(x, y)`` combines two values (or two tuples of values) and ``fidentity(*dtypes)`` returns the identity
    element. Call the reducer as ``reducer(expr, axis, where, init)``; with expressions instead of axes, ``reducer(a, b,
    ...)`` combines them directly.

    Parameters
    ----------
    fcombine : callable
        The function that combines two values, or two tuples of values.
    fidentity : callable
        The function that returns the identity element for the types of the values.
    name : str, optional
        The name of the reduction.

    Returns
    -------
    callable
        A function ``(expr, axis, where=None, init=None)``.

    Raises
    ------
    ExprTypeError
        ``fcombine`` does not take two arguments.

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
        raise ExprTypeError(f"comm_reducer: fcombine must take two arguments, got a function of {len(names)}")

    def make(expr, axis, where, init):
        single = not isinstance(expr, (list, tuple))
        sources = (element(name, expr),) if single else tuple(element(name, e) for e in expr)
        types = [e.dtype for e in sources]
        suffix = [""] if single else [f"_{i}" for i in range(len(sources))]
        lhs = tuple(Var(names[0] + s, t) for s, t in zip(suffix, types))
        rhs = tuple(Var(names[1] + s, t) for s, t in zip(suffix, types))
        result = _as_tuple(fcombine(lhs[0], rhs[0]) if single else fcombine(lhs, rhs))
        identity = _as_tuple(fidentity(*types))
        if not len(result) == len(identity) == len(sources):
            raise ExprValueError(
                f"{name}: {len(sources)} values are reduced, but fcombine returns {len(result)} "
                f"and fidentity returns {len(identity)}"
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
                raise ExprTypeError(f"{name}: the arguments are (expr, axis, where, init), got {len(args)} more")
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


sum = comm_reducer(lambda x, y: x + y, lambda t: const(0, t), "sum")


prod = comm_reducer(lambda x, y: x * y, lambda t: const(1, t), "prod")


min = comm_reducer(lambda x, y: primop.minimum(x, y), _above_all, "min")


max = comm_reducer(lambda x, y: primop.maximum(x, y), _below_all, "max")


__all__ = ["comm_reducer", "max", "min", "prod", "sum"]
