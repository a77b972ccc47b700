"""The names under which TVM's own tests reach parts of the integer reasoning."""

from .domain import domain_touched as DomainTouched
from .narrow import narrow_predicate_expression as NarrowPredicateExpression
from .solve import solve_inequalities_as_conditions as SolveInequalitiesAsCondition

__all__ = ["DomainTouched", "NarrowPredicateExpression", "SolveInequalitiesAsCondition"]
