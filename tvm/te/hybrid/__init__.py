"""Hybrid script: tensor programs written as Python functions with loops.

``@script`` gives a function that, called with tensors, makes tensors; called with NumPy arrays, it runs as Python.
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
        Makes tensors when called with tensors, and runs when called with NumPy arrays.
    """

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any):
        if kwargs:
            raise TypeError(f"hybrid script {pyfunc.__name__}: arguments are given by position")
        if any(isinstance(a, (Tensor, PrimExpr)) or _holds_tensor(a) for a in args):
            return parse(pyfunc, args)
        return runtime.run(pyfunc, args)

    setattr(wrapped, "__hybrid_script__", pyfunc)  # noqa: B010
    return wrapped


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, (Tensor, PrimExpr)) for v in value)


def source_to_op(src: Any, args: Any, symbols: Any, closure_vars: Any = None):
    """The tensors made by hybrid script given as a function.

    Parameters
    ----------
    src : callable or str
        The function.
    args : list
        Its arguments.
    symbols : dict
        What free names in it stand for.
    closure_vars : dict, optional
        Values from around the function.

    Returns
    -------
    Tensor or list of Tensor

    Raises
    ------
    TypeError
        ``src`` is no function.
    """
    if inspect.isfunction(src):
        return parse(src, args)
    raise TypeError("source_to_op: a function is wanted")


__all__ = ["HybridModule", "build", "script", "source_to_op"]
