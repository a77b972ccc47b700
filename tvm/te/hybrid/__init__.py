"""Hybrid script: tensor programs written as Python functions with loops.

``@script`` returns a function. Called with tensors, the function creates tensors; called with NumPy arrays, it runs as
Python.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ...ir.prim import PrimExpr
from ..tensor import Tensor
from . import runtime
from .module import HybridModule, build
from .parser import parse


def script(pyfunc: Any) -> Any:
    """Decorate a Python function written in hybrid script.

    Parameters
    ----------
    pyfunc : callable
        The function.

    Returns
    -------
    callable
        A function that creates tensors when called with tensors, and runs as Python when called with NumPy arrays.
    """

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any):
        if kwargs:
            raise TypeError(
                f"hybrid script {pyfunc.__name__}: pass arguments by position; keyword arguments are not supported"
            )
        if any(isinstance(a, (Tensor, PrimExpr)) or _holds_tensor(a) for a in args):
            return parse(pyfunc, args)
        return runtime.run(pyfunc, args)

    setattr(wrapped, "__hybrid_script__", pyfunc)  # noqa: B010
    return wrapped


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, (Tensor, PrimExpr)) for v in value)


def source_to_op(src: Any, args: Any, symbols: Any, closure_vars: Any = None):
    """The output tensors of a hybrid script given as a function.

    Parameters
    ----------
    src : callable or str
        The function.
    args : list
        Its arguments.
    symbols : dict
        The values of free names in the function.
    closure_vars : dict, optional
        Values of variables of enclosing functions.

    Returns
    -------
    Tensor or list of Tensor

    Raises
    ------
    TypeError
        ``src`` is not a function.
    """
    if inspect.isfunction(src):
        return parse(src, args)
    raise TypeError("source_to_op: expected a function")


__all__ = ["HybridModule", "build", "script", "source_to_op"]
