"""Hooks: functions that a lower layer calls and a higher layer registers, because imports only go downwards.

The lower layer defines the hook, documents its function, and may have a default. docs/map.md lists all hooks (generated
by tools/hooks.py). A table with many entries by name or class is a ``Registry`` or a dictionary; a hook is a single
function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# All hooks by name.
HOOKS: dict[str, Hook] = {}


class Hook(Generic[P, R]):
    """A function to be registered. ``name`` is the location of the hook, ``what`` describes the function."""

    __slots__ = ("name", "what", "function", "givers")

    def __init__(self, name: str, what: str, default: Callable[P, R] | None = None):
        self.name = name
        self.what = what
        self.function = default
        # The modules that registered functions; the last one is in use.
        self.givers: list[str] = []
        if HOOKS.setdefault(name, self) is not self:
            raise ValueError(f"hook '{name}' already exists")

    def give(self, function: Callable[P, R]) -> Callable[P, R]:
        """Make the hook call ``function``; return the function that it called before."""
        before, self.function = self.function, function
        self.givers.append(function.__module__)
        return before or self

    def __bool__(self) -> bool:
        """Whether a function is registered."""
        return self.function is not None

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        if self.function is None:
            raise RuntimeError(f"no function is registered for hook {self.name}: {self.what}")
        return self.function(*args, **keywords)


# Set by `tvm._bootstrap`, because the IR is imported at first use and does not import the runtime.
IR_LOADED: Hook[[], object] = Hook("hooks.IR_LOADED", "connects the loaded IR to the runtime", lambda: None)
