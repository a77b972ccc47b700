"""Algebraic data types in Relay: patterns and the match expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.adt import Constructor, TypeData
from ..ir.node import Node
from .expr import _TYPED, ExprWithOp, RelayExpr, Var


class Pattern(Node):
    """A pattern in a clause of a match."""


class PatternWildcard(Pattern, key="relay.PatternWildcard"):
    """A pattern that matches every value."""

    def __init__(self, span=None):
        self.span = span


class PatternVar(Pattern, key="relay.PatternVar"):
    """A pattern that matches every value and binds it to a variable.

    Parameters
    ----------
    var : Var
        The variable.
    """

    _compared = "var!"

    var: Any


class PatternConstructor(Pattern, key="relay.PatternConstructor"):
    """A pattern that matches values of a constructor whose fields match.

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
    """A pattern that matches tuples whose fields match.

    Parameters
    ----------
    patterns : list of Pattern, optional
        The patterns of the fields.
    """

    patterns: tuple = ()


class Clause(Node, key="relay.Clause", derived={"checked_type_": "None"}):
    """A clause of a match: the value of the match is ``rhs`` if the pattern ``lhs`` matches.

    Parameters
    ----------
    lhs : Pattern
        The pattern.
    rhs : RelayExpr
        The value of the clause.
    """

    _followed = True

    lhs: Pattern
    rhs: RelayExpr


class Match(ExprWithOp, key="relay.Match", derived=_TYPED):
    """The value of the first clause that matches; ``complete`` asserts that one always matches.

    Parameters
    ----------
    data : RelayExpr
        The value to match.
    clauses : list of Clause
        The clauses, tried in order.
    complete : bool, optional
        Whether the clauses cover all values.
    """

    _in_graph = True

    data: RelayExpr
    clauses: tuple[Clause, ...]
    complete: bool = True


def pattern_variables(pattern: Pattern) -> list[Var]:
    """Return the variables that a pattern binds, from left to right."""
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
    """Return a pattern with replaced variables."""
    if isinstance(pattern, PatternVar):
        return PatternVar(table.get(pattern.var, pattern.var))
    if isinstance(pattern, (PatternConstructor, PatternTuple)):
        return pattern.replace(patterns=tuple(renamed_pattern(p, table) for p in pattern.patterns))
    return pattern


__all__ = [
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "TypeData",
    "pattern_variables",
    "renamed_pattern",
]


def rename_pattern(pattern: Pattern, table: Mapping[Var, Var]) -> Pattern:
    """Return a pattern that binds other variables."""
    if isinstance(pattern, PatternVar):
        return PatternVar(table.get(pattern.var, pattern.var))
    if isinstance(pattern, PatternConstructor):
        return PatternConstructor(pattern.constructor, tuple(rename_pattern(p, table) for p in pattern.patterns))
    if isinstance(pattern, PatternTuple):
        return PatternTuple(tuple(rename_pattern(p, table) for p in pattern.patterns))
    return pattern
