"""Size classes: an operator whose sizes are not known is compiled for all of them and, where that pays, for some as
well: for small ones, for those that fit a cache.

What computes or schedules an operator asks ``which`` of several classes it is for. Whoever compiles the kernel runs it
once for each class, and chooses between them when the kernel is called (``relay.backend.te_compiler``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from ..ir.prim import PrimExpr


class Choice:
    """Which class is compiled (0: all sizes), the conditions for it, and the most classes that were asked for."""

    def __init__(self, number: int):
        self.number = number
        self.conditions: list[PrimExpr] = []
        self.classes = 0


_CURRENT: ContextVar[Choice | None] = ContextVar("size class", default=None)


@contextmanager
def compiling(number: int) -> Iterator[Choice]:
    """Inside, kernels are made for one class of sizes."""
    choice = Choice(number)
    token = _CURRENT.set(choice)
    try:
        yield choice
    finally:
        _CURRENT.reset(token)


def is_chosen() -> bool:
    """Whether a kernel may have code for several classes."""
    return _CURRENT.get() is not None


def which(conditions: Sequence[PrimExpr]) -> int:
    """The class the code is for: n where the n-th condition is the first that holds, 0 for all sizes."""
    current = _CURRENT.get()
    if current is None:
        return 0
    current.classes = max(current.classes, len(conditions))
    if not 0 < current.number <= len(conditions):
        return 0
    current.conditions.append(conditions[current.number - 1])
    return current.number


__all__ = ["Choice", "compiling", "is_chosen", "which"]
