"""What computes an operator and schedules the kernels it leads: rules a user has given, else those of its record.

``FTVMCompute(attrs, inputs, out_type)`` gives tensors and ``FTVMSchedule(attrs, outs, target)`` a schedule.
``FTVMStrategy(attrs, inputs, out_type, target)`` offers several such pairs, of which the one with the highest level
whose condition holds is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...error import OpNotImplemented
from ...ir.op import Op
from ...target import Target

USER_RULES = ("FTVMCompute", "FTVMSchedule", "FTVMStrategy")


class OpImplementation(NamedTuple):
    """A computation, its schedule (None: by what the computation is), a name, and a level."""

    compute: Callable[..., Any]
    schedule: Callable[..., Any] | None
    name: str
    plevel: int


class OpSpecialization:
    """Implementations for where a condition on the shapes holds."""

    def __init__(self, condition: Any = None):
        self.condition = condition
        self.implementations: list[OpImplementation] = []

    def add_implementation(self, compute, schedule, name="default", plevel=10) -> None:
        self.implementations.append(OpImplementation(compute, schedule, name, plevel))

    def holds(self) -> bool:
        clauses = () if self.condition is None else getattr(self.condition, "clauses", self.condition)
        return all(bool(getattr(clause, "value", clause)) for clause in clauses)


class OpStrategy:
    """The implementations of an operator on a target."""

    def __init__(self):
        self.specializations: list[OpSpecialization] = []

    def add_implementation(self, compute, schedule, name="default", plevel=10) -> None:
        """Offer a computation with its schedule; the highest ``plevel`` is taken."""
        self._general().add_implementation(compute, schedule, name, plevel)

    def _general(self) -> OpSpecialization:
        for special in self.specializations:
            if special.condition is None:
                return special
        self.specializations.append(OpSpecialization())
        return self.specializations[-1]

    def best(self) -> OpImplementation | None:
        offers = [offer for special in self.specializations if special.holds() for offer in special.implementations]
        return max(offers, key=lambda offer: offer.plevel, default=None)


def computation(record: Op) -> Callable[..., Any] | None:
    """``(attrs, inputs, out_type) -> tensors`` of an operator, a strategy aside."""
    return record.attrs.get("FTVMCompute") or record.attrs.get("compute")


def is_computed(record: Op) -> bool:
    return computation(record) is not None or "FTVMStrategy" in record.attrs


def rules_of(record: Op) -> tuple:
    """What a user has said of computing the operator: code compiled under other rules is not its code."""
    return tuple(record.attrs.get(key) for key in USER_RULES)


def implementation(record: Op, attrs: Any, inputs: list, out_type: Any, target: Target) -> OpImplementation:
    """The implementation of an operator on a target."""
    strategy = record.attrs.get("FTVMStrategy")
    if strategy is not None:
        offered = strategy(attrs, inputs, out_type, target)
        best = offered.best() if isinstance(offered, OpStrategy) else None
        if best is None:
            raise OpNotImplemented(f"the strategy of operator {record.name} has nothing for target {target.kind.name}")
        return best
    make = computation(record)
    if make is None:
        raise OpNotImplemented(f"operator {record.name} has no computation for target {target.kind.name}")
    return OpImplementation(make, record.attrs.get("FTVMSchedule"), record.name, 10)


__all__ = ["OpImplementation", "OpSpecialization", "OpStrategy", "computation", "implementation", "is_computed",
           "rules_of"]  # fmt: skip
