"""Hooks: functions that a layer calls and a layer above it gives, since imports go down only.

The lower layer owns the hook, says what it asks, and has a default where it can do without an answer. All hooks are
listed in docs/map.md, by tools/hooks.py. A table of many entries by name or class is a ``Registry`` or a dictionary;
a hook is one function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# All hooks by name.
HOOKS: dict[str, Hook] = {}


class Hook(Generic[P, R]):
    """A function to be given. ``name`` is where the hook stands, ``what`` says what its function does."""

    __slots__ = ("name", "what", "function", "givers")

    def __init__(self, name: str, what: str, default: Callable[P, R] | None = None):
        self.name = name
        self.what = what
        self.function = default
        # The modules whose functions were given, the last one's in use.
        self.givers: list[str] = []
        if HOOKS.setdefault(name, self) is not self:
            raise ValueError(f"hook '{name}' is there already")

    def give(self, function: Callable[P, R]) -> Callable[P, R]:
        """Let the hook call ``function`` from now on; what it called before, to go on to."""
        before, self.function = self.function, function
        self.givers.append(function.__module__)
        return before or self

    def __bool__(self) -> bool:
        """Whether there is a function to call."""
        return self.function is not None

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        if self.function is None:
            raise RuntimeError(f"nothing is given for hook {self.name}: {self.what}")
        return self.function(*args, **keywords)


# Set by `tvm._bootstrap`: the IR is imported at first use and does not import the runtime.
IR_LOADED: Hook[[], object] = Hook("hooks.IR_LOADED", "connects the loaded IR to the runtime", lambda: None)
