"""The public module of the solvers of integer systems."""

from .solve import (
    IntConstraints,
    IntConstraintsTransform,
    IntGroupBounds,
    solve_linear_equations,
    solve_linear_inequalities,
)

__all__ = [
    "IntConstraints",
    "IntConstraintsTransform",
    "IntGroupBounds",
    "solve_linear_equations",
    "solve_linear_inequalities",
]
