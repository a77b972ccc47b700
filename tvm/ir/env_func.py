"""Functions of the environment, named inside IR and found when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .node import Node

# Set by the layer that knows the runtime: name -> function, None when there is none.
FIND_FUNCTION: list[Callable[[str], Any]] = [lambda name: None]


def _find(name: str) -> Any:
    found = FIND_FUNCTION[0](name)
    if found is None:
        raise ValueError(f"no global function is named '{name}'; register it with tvm.register_func first")
    return found


class EnvFunc(Node, key="EnvFunc"):
    """A global function by name: saved as its name, looked up when it is needed."""

    name: str

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The global function ``name``; it must exist."""
        _find(name)
        return EnvFunc(name)

    @property
    def func(self) -> Any:
        return _find(self.name)

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)


__all__ = ["EnvFunc", "FIND_FUNCTION"]
