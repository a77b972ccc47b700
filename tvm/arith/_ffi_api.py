"""The names under which Apache TVM's tests access parts of the integer analysis."""

from .domain import domain_touched as DomainTouched
from .narrow import narrow_predicate_expression as NarrowPredicateExpression
from .solve import solve_inequalities_as_conditions as SolveInequalitiesAsCondition

__all__ = ["DomainTouched", "NarrowPredicateExpression", "SolveInequalitiesAsCondition"]
