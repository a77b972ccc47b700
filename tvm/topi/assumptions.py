"""What operators take for granted of sizes that are not known while compiling.

Where an operator needs two sizes to agree and they are not known, it notes that and goes on; whoever compiles it for
unknown sizes collects the notes, and has them checked when the program runs (``relay.backend.shape_func``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from .. import tir
from ..error import ExprValueError
from ..ir import primop
from ..ir.prim import Any_, IntImm, PrimExpr, convert
from ..ir.visit import post_order
from .utils import equal_const_int, simplify


class Assumption(NamedTuple):
    """``condition`` must hold when the program runs; ``equal`` holds the two sizes where it says no more than that
    they are the same. ``what`` says what the condition is about; with ``is_message`` it is all that the user is told
    where the condition does not hold."""

    condition: PrimExpr
    what: str
    equal: tuple[PrimExpr, PrimExpr] | None = None
    is_message: bool = False


_NOTED: ContextVar[list[Assumption] | None] = ContextVar("noted assumptions", default=None)


@contextmanager
def noted() -> Iterator[list[Assumption]]:
    """The list that assumptions are written into inside."""
    found: list[Assumption] = []
    token = _NOTED.set(found)
    try:
        yield found
    finally:
        _NOTED.reset(token)


@contextmanager
def of_operator(name: str) -> Iterator[None]:
    """What is noted inside is said of an operator."""
    found = _NOTED.get()
    start = len(found) if found is not None else 0
    yield
    if found is not None:
        of_name = [a if a.is_message else a._replace(what=f"operator {name}: {a.what}") for a in found[start:]]
        found[start:] = of_name


def are_noted() -> bool:
    """Whether anybody wants to know what is taken for granted."""
    return _NOTED.get() is not None


def assume(condition: PrimExpr, what: str, is_message: bool = False) -> None:
    """Take for granted that a condition on sizes holds."""
    found = _NOTED.get()
    if found is None or _is_open(condition):
        return
    condition = simplify(condition)
    if not (isinstance(condition, IntImm) and condition.value):
        found.append(Assumption(condition, what, is_message=is_message))


def divides(size: Any, parts: int, what: str) -> bool:
    """Whether a size may be divided into equal parts; where that is not known, it is taken for granted."""
    size = convert(size)
    if isinstance(size, Any_):
        return True
    if isinstance(size, IntImm):
        return size.value % parts == 0
    assume(primop.equal(size % parts, 0), what)
    return True


def agree(a: Any, b: Any, what: str) -> bool:
    """Whether two sizes may be the same; where that is not known, it is taken for granted."""
    a, b = convert(a), convert(b)
    if a is b or isinstance(a, Any_) or isinstance(b, Any_):
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    apart = simplify(a - b)
    if isinstance(apart, IntImm):
        return apart.value == 0
    found = _NOTED.get()
    if found is not None and not _is_open(apart):
        found.append(Assumption(primop.equal(a, b), what, (a, b)))
    return True


def refuse_empty(dim: Any, shape: Sequence[Any], what: str) -> None:
    """Elements of a result, of which the shape is given, that are taken from a dimension without elements.

    Raises
    ------
    ExprValueError
        That is known now; where sizes are not known, it is taken for granted that it is not so. A result of unknown
        size may turn out to have no elements.
    """
    if equal_const_int(dim, 0) and all(isinstance(d, (int, IntImm)) and int(d) > 0 for d in shape):
        raise ExprValueError(f"{what}: nothing can be taken from a dimension of 0")
    none = [primop.equal(d, 0) for d in shape if not isinstance(d, IntImm) or d.value == 0]
    assume(tir.any(convert(dim) > 0, *none), "a dimension of at least one element to take from")


def _is_open(e: PrimExpr) -> bool:
    return any(isinstance(n, Any_) for n in post_order(e))


__all__ = ["Assumption", "agree", "are_noted", "assume", "divides", "noted", "of_operator", "refuse_empty"]
