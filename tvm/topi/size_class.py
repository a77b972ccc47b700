"""Size classes: an operator whose sizes are not known is compiled for large ones and, where that pays, for small ones.

What computes or schedules an operator asks ``is_small(size, limit)``. Whoever compiles the kernel runs it twice where
something was asked, and chooses between both when the kernel is called (``relay.backend.te_compiler``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..ir.prim import IntImm, PrimExpr


class Choice:
    """Which class is compiled, and the conditions for the small one that were asked for."""

    def __init__(self, small: bool):
        self.small = small
        self.conditions: list[PrimExpr] = []


_CURRENT: ContextVar[Choice | None] = ContextVar("size class", default=None)


@contextmanager
def compiling(small: bool) -> Iterator[Choice]:
    """Inside, kernels are made for one class of sizes."""
    choice = Choice(small)
    token = _CURRENT.set(choice)
    try:
        yield choice
    finally:
        _CURRENT.reset(token)


def is_chosen() -> bool:
    """Whether a kernel may have code for several classes."""
    return _CURRENT.get() is not None


def is_small(size: PrimExpr | int, limit: int) -> bool:
    """Whether the code is for a size below the limit."""
    if isinstance(size, (int, IntImm)):
        return int(size) < limit
    current = _CURRENT.get()
    if current is None:
        return False
    current.conditions.append(size < limit)
    return current.small


__all__ = ["Choice", "compiling", "is_chosen", "is_small"]
