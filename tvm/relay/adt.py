"""Algebraic data types in graphs: patterns and the match expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.adt import Constructor, TypeData
from ..ir.node import Node
from .expr import _TYPED, ExprWithOp, RelayExpr, Var


class Pattern(Node):
    """What a value is compared with in a clause of a match."""


class PatternWildcard(Pattern, key="relay.PatternWildcard"):
    """Matches everything."""

    def __init__(self, span=None):
        self.span = span


class PatternVar(Pattern, key="relay.PatternVar"):
    """Matches everything and gives it a name.

    Parameters
    ----------
    var : Var
        The name.
    """

    _compared = "var!"

    var: Any


class PatternConstructor(Pattern, key="relay.PatternConstructor"):
    """Matches values made by a constructor whose fields match.

    Parameters
    ----------
    constructor : Constructor
        The constructor.
    patterns : list of Pattern, optional
        The patterns of its fields.
    """

    constructor: Constructor
    patterns: tuple = ()


class PatternTuple(Pattern, key="relay.PatternTuple"):
    """Matches tuples whose fields match.

    Parameters
    ----------
    patterns : list of Pattern, optional
        The patterns of the fields.
    """

    patterns: tuple = ()


class Clause(Node, key="relay.Clause", derived={"checked_type_": "None"}):
    """If the pattern ``lhs`` matches, the result is ``rhs``.

    Parameters
    ----------
    lhs : Pattern
        The pattern.
    rhs : RelayExpr
        The result.
    """

    _followed = True

    lhs: Pattern
    rhs: RelayExpr


class Match(ExprWithOp, key="relay.Match", derived=_TYPED):
    """The right side of the first clause that matches; ``complete`` says that one always does.

    Parameters
    ----------
    data : RelayExpr
        What is matched.
    clauses : list of Clause
        The clauses, tried in order.
    complete : bool, optional
        Whether one of them always matches.
    """

    _in_graph = True

    data: RelayExpr
    clauses: tuple[Clause, ...]
    complete: bool = True


def pattern_variables(pattern: Pattern) -> list[Var]:
    """The variables a pattern defines, from left to right."""
    out: list[Var] = []
    stack = [pattern]
    while stack:
        p = stack.pop()
        if isinstance(p, PatternVar):
            out.append(p.var)
        elif isinstance(p, (PatternConstructor, PatternTuple)):
            stack.extend(reversed(p.patterns))
    return out


def renamed_pattern(pattern: Pattern, table: dict[Var, Var]) -> Pattern:
    """A pattern with its variables replaced; patterns nest a few levels only."""
    if isinstance(pattern, PatternVar):
        return PatternVar(table.get(pattern.var, pattern.var))
    if isinstance(pattern, (PatternConstructor, PatternTuple)):
        return pattern.replace(patterns=tuple(renamed_pattern(p, table) for p in pattern.patterns))
    return pattern


__all__ = ["Clause", "Constructor", "Match", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar",
           "PatternWildcard", "TypeData", "pattern_variables", "renamed_pattern"]


def rename_pattern(pattern: Pattern, table: Mapping[Var, Var]) -> Pattern:
    """A pattern that defines other variables."""
    if isinstance(pattern, PatternVar):
        return PatternVar(table.get(pattern.var, pattern.var))
    if isinstance(pattern, PatternConstructor):
        return PatternConstructor(pattern.constructor, tuple(rename_pattern(p, table) for p in pattern.patterns))
    if isinstance(pattern, PatternTuple):
        return PatternTuple(tuple(rename_pattern(p, table) for p in pattern.patterns))
    return pattern
