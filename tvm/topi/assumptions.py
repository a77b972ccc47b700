"""Assumptions of operators about dynamic dimensions.

An operator may require two dimensions to agree. If they are dynamic, the operator records an assumption and continues.
The compiler of a dynamic shape collects the assumptions and checks them at run time (``relay.backend.shape_func``).
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
    """An assumption: ``condition`` must hold at run time. ``equal`` contains the two dimensions if the condition is
    only their equality. ``what`` describes the condition; if ``is_message`` is set, it is the complete error message
    for a violated condition."""

    condition: PrimExpr
    what: str
    equal: tuple[PrimExpr, PrimExpr] | None = None
    is_message: bool = False


_NOTED: ContextVar[list[Assumption] | None] = ContextVar("noted assumptions", default=None)


@contextmanager
def noted() -> Iterator[list[Assumption]]:
    """Collect the assumptions recorded inside the ``with`` block in a list."""
    found: list[Assumption] = []
    token = _NOTED.set(found)
    try:
        yield found
    finally:
        _NOTED.reset(token)


@contextmanager
def of_operator(name: str) -> Iterator[None]:
    """Add the name of an operator to the assumptions recorded inside the ``with`` block."""
    found = _NOTED.get()
    start = len(found) if found is not None else 0
    yield
    if found is not None:
        of_name = [a if a.is_message else a._replace(what=f"operator {name}: {a.what}") for a in found[start:]]
        found[start:] = of_name


def are_noted() -> bool:
    """Return whether assumptions are being collected."""
    return _NOTED.get() is not None


def assume(condition: PrimExpr, what: str, is_message: bool = False) -> None:
    """Record the assumption that a condition on dimensions holds."""
    found = _NOTED.get()
    if found is None or _is_open(condition):
        return
    condition = simplify(condition)
    if not (isinstance(condition, IntImm) and condition.value):
        found.append(Assumption(condition, what, is_message=is_message))


def divides(size: Any, parts: int, what: str) -> bool:
    """Return whether a dimension is divisible into equal parts. For a dynamic dimension, record this as an
    assumption."""
    size = convert(size)
    if isinstance(size, Any_):
        return True
    if isinstance(size, IntImm):
        return size.value % parts == 0
    assume(primop.equal(size % parts, 0), what)
    return True


def agree(a: Any, b: Any, what: str) -> bool:
    """Return whether two dimensions may be equal. For dynamic dimensions, record their equality as an assumption."""
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
    """Reject reading elements of a result with the given shape from a dimension of size 0.

    Raises
    ------
    ExprValueError
        The dimension is known to be empty. For a dynamic dimension an assumption is recorded instead, unless the
        dynamic result may be empty as well.
    """
    if equal_const_int(dim, 0) and all(isinstance(d, (int, IntImm)) and int(d) > 0 for d in shape):
        raise ExprValueError(f"{what}: cannot take elements from a dimension of size 0")
    none = [primop.equal(d, 0) for d in shape if not isinstance(d, IntImm) or d.value == 0]
    assume(tir.any(convert(dim) > 0, *none), "a dimension with at least one element")


def _is_open(e: PrimExpr) -> bool:
    return any(isinstance(n, Any_) for n in post_order(e))


__all__ = ["Assumption", "agree", "are_noted", "assume", "divides", "noted", "of_operator", "refuse_empty"]
