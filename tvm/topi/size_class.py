"""Size classes: an operator whose sizes are not known is compiled for all of them and, where that pays, for some as
well: for small ones, for those that fit a cache.

What computes or schedules an operator asks ``which`` of several classes it is for. Whoever compiles the kernel runs it
once for each class, and chooses between them when the kernel is called (``relay.backend.te_compiler``). Where sizes can
be made larger for a kernel, its code may be for large ones alone (``are_enough``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from ..ir.prim import PrimExpr


class Choice:
    """Which class is compiled (0: all sizes), the conditions for it, the most classes that were asked for, and the
    pixels that images have at least, where whoever compiles the kernel can see to that (``has_copies``)."""

    def __init__(self, number: int, has_copies: bool = False):
        self.number = number
        self.has_copies = has_copies
        self.least = 0
        self.conditions: list[PrimExpr] = []
        self.classes = 0


_CURRENT: ContextVar[Choice | None] = ContextVar("size class", default=None)


@contextmanager
def compiling(number: int, has_copies: bool = False) -> Iterator[Choice]:
    """Inside, kernels are made for one class of sizes."""
    choice = Choice(number, has_copies)
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


def are_enough(pixels: int) -> bool:
    """Whether the images of the kernel may be taken to have at least so many pixels."""
    current = _CURRENT.get()
    if current is None or not current.has_copies:
        return False
    current.least = max(current.least, pixels)
    return True


__all__ = ["Choice", "are_enough", "compiling", "is_chosen", "which"]
