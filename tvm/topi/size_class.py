"""Size classes: an operator with dynamic dimensions is compiled for all sizes and, where profitable, also for special
classes such as small sizes or sizes that fit a cache.

Definitions and schedules of operators call ``which`` with the conditions of several classes to find out which class to
generate code for. The compiler generates the kernel once for each class, with a selection at the call
(``relay.backend.te_compiler``). If small inputs can be enlarged for a kernel, its code may support only large ones
(``are_enough``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from ..ir.prim import PrimExpr


class Choice:
    """The class being compiled (0: all sizes), its conditions, the maximum number of requested classes, and the minimum
    number of pixels of an image if the compiler can guarantee it (``has_copies``)."""

    def __init__(self, number: int, has_copies: bool = False):
        self.number = number
        self.has_copies = has_copies
        self.least = 0
        self.conditions: list[PrimExpr] = []
        self.classes = 0


_CURRENT: ContextVar[Choice | None] = ContextVar("size class", default=None)


@contextmanager
def compiling(number: int, has_copies: bool = False) -> Iterator[Choice]:
    """Compile the kernels inside the ``with`` block for one size class."""
    choice = Choice(number, has_copies)
    token = _CURRENT.set(choice)
    try:
        yield choice
    finally:
        _CURRENT.reset(token)


def is_chosen() -> bool:
    """Return whether a kernel may contain code for several classes."""
    return _CURRENT.get() is not None


def which(conditions: Sequence[PrimExpr]) -> int:
    """Return the class for which code is generated: n if the n-th condition is the first that holds, 0 for all
    sizes."""
    current = _CURRENT.get()
    if current is None:
        return 0
    current.classes = max(current.classes, len(conditions))
    if not 0 < current.number <= len(conditions):
        return 0
    current.conditions.append(conditions[current.number - 1])
    return current.number


def are_enough(pixels: int) -> bool:
    """Return whether the images of the kernel may be assumed to have at least this number of pixels."""
    current = _CURRENT.get()
    if current is None or not current.has_copies:
        return False
    current.least = max(current.least, pixels)
    return True


__all__ = ["Choice", "are_enough", "compiling", "is_chosen", "which"]
