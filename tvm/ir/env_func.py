"""Global functions that IR refers to by name."""

from __future__ import annotations

from typing import Any

from ..hooks import Hook
from .node import Node

FIND_FUNCTION: Hook[[str], Any] = Hook(
    "ir.env_func.FIND_FUNCTION", "returns the global function with this name, or None", lambda name: None
)


def _find(name: str) -> Any:
    found = FIND_FUNCTION(name)
    if found is None:
        raise ValueError(f"no global function is named '{name}'; register it with tvm.register_func first")
    return found


class EnvFunc(Node, key="EnvFunc"):
    """A reference to a global function by name, which is looked up when the function is called.

    Parameters
    ----------
    name : str
        The name under which the function is registered.
    """

    name: str

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The global function ``name``; it must exist.

        Parameters
        ----------
        name : str
            The name under which the function is registered.

        Returns
        -------
        EnvFunc

        Raises
        ------
        ValueError
            No global function has this name.
        """
        _find(name)
        return EnvFunc(name)

    @property
    def func(self) -> Any:
        return _find(self.name)

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)


__all__ = ["EnvFunc", "FIND_FUNCTION"]
