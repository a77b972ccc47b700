"""The visitor classes of ``stmt_functor`` under the names of Apache TVM."""

from __future__ import annotations

from .stmt_functor import StmtExprMutator as PyStmtExprMutator
from .stmt_functor import StmtExprVisitor as PyStmtExprVisitor


def visitor(cls: type) -> type:
    """Mark a class as a visitor."""
    return cls


def mutator(cls: type) -> type:
    """Mark a class as a mutator."""
    return cls


__all__ = ["PyStmtExprMutator", "PyStmtExprVisitor", "mutator", "visitor"]
