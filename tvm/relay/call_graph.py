"""The call graph of a module."""

from __future__ import annotations

import functools
from collections import Counter

from ..ir.module import GlobalVar, IRModule
from ..ir.visit import components, post_order
from .expr import Function


class CallGraph:
    """The functions of a module, with the functions that each of them references.

    Parameters
    ----------
    module : IRModule
        The module.

    Examples
    --------
    >>> mod, twice = tvm.IRModule(), relay.GlobalVar("twice")
    >>> x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    >>> mod[twice], mod["main"] = relay.Function([x], x + x), relay.Function([y], twice(y))
    >>> relay.analysis.CallGraph(mod).ref_count("twice")
    1
    """

    def __init__(self, module: IRModule):
        self.module = module
        self._called = {var.name_hint: _names(f) for var, f in module.functions.items()}
        self._references = Counter(name for called in self._called.values() for name in called)

    def _name(self, var: str | GlobalVar) -> str:
        return self.module.get_global_var(var if isinstance(var, str) else var.name_hint).name_hint

    def global_call_count(self, var: str | GlobalVar) -> int:
        """Return how many functions a function references.

        Parameters
        ----------
        var : str or GlobalVar
            The function.

        Returns
        -------
        int
            The number of functions.
        """
        return len(self._called[self._name(var)])

    def ref_count(self, var: str | GlobalVar) -> int:
        """Return how many functions reference a function, including itself.

        Parameters
        ----------
        var : str or GlobalVar
            The function.

        Returns
        -------
        int
            The number of functions.
        """
        return self._references[self._name(var)]

    def is_recursive(self, var: str | GlobalVar) -> bool:
        """Return whether a function can call itself, directly or through other functions.

        Parameters
        ----------
        var : str or GlobalVar
            The function.

        Returns
        -------
        bool
            True if the function is recursive.
        """
        return self._name(var) in self.recursive

    @functools.cached_property
    def recursive(self) -> frozenset[str]:
        """The names of all recursive functions: those that reference themselves or are in a strongly connected
        component of several functions."""
        groups = components(self._called, lambda name: self._called.get(name, []))
        return frozenset(n for group in groups for n in group if len(group) > 1 or n in self._called.get(n, []))

    def print_var(self, var: str | GlobalVar) -> str:
        """Return a text that describes one function.

        Parameters
        ----------
        var : str or GlobalVar
            The function.

        Returns
        -------
        str
            The text.
        """
        name = self._name(var)
        calls = "".join(f"\n  @{called}" for called in self._called[name])
        return f"@{name}: #refs = {self.ref_count(name)}{', calls' if calls else ''}{calls}"

    def __str__(self) -> str:
        return "\n".join(self.print_var(name) for name in self._called)


def _names(function: object) -> list[str]:
    """Return the functions that a function references, in order of occurrence."""
    if not isinstance(function, Function):
        return []
    return list(dict.fromkeys(n.name_hint for n in post_order(function) if isinstance(n, GlobalVar)))


__all__ = ["CallGraph"]
