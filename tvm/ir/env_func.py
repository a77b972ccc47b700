"""Functions of the environment, named inside IR and found when called."""

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
    """A global function by name: saved as its name, looked up when it is needed.

    Parameters
    ----------
    name : str
        The name it is registered under.
    """

    name: str

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The global function ``name``; it must exist.

        Parameters
        ----------
        name : str
            The name it is registered under.

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
