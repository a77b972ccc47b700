"""Conditions on dimensions under which a strategy adds specialized implementations of operators."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from ..ir.prim import convert

_CURRENT: ContextVar[tuple[SpecializedCondition, ...]] = ContextVar("specialized conditions", default=())


class SpecializedCondition:
    """Conditions that must all hold. Implementations that a strategy adds inside the ``with`` block are used only if
    they do.

    Parameters
    ----------
    conditions : PrimExpr or list of PrimExpr
        The conditions.
    """

    def __init__(self, conditions: Any):
        given = conditions if isinstance(conditions, Sequence) or hasattr(conditions, "__iter__") else [conditions]
        self.clauses = tuple(convert(clause) for clause in given)

    @staticmethod
    def current() -> SpecializedCondition | None:
        """The innermost active condition.

        Returns
        -------
        SpecializedCondition, optional
            None outside all conditions.
        """
        entered = _CURRENT.get()
        return entered[-1] if entered else None

    def __enter__(self) -> SpecializedCondition:
        _CURRENT.set((*_CURRENT.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.set(_CURRENT.get()[:-1])


__all__ = ["SpecializedCondition"]
