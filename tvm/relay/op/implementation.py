"""What computes an operator on a target: implementations, of which one is chosen.

The record of an operator has its mathematics (``compute``) and rows of implementations of ours, each with a condition
on the target (``strategy/cpu.py``, ``strategy/gpu.py``). A user may give a computation (``FTVMCompute(attrs, inputs,
out_type)`` -> tensors) or a schedule (``FTVMSchedule(attrs, outs, target)``) in their place, or a strategy
(``FTVMStrategy(attrs, inputs, out_type, target)`` -> ``OpStrategy``) that offers several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...arith import Analyzer
from ...error import OpNotImplemented
from ...ir.op import Op
from ...target import Target
from ...target.backend import templates_of
from ...te.condition import SpecializedCondition
from ...topi.schedule import schedule_for

# Levels of the plain mathematics, which every target can run, and of implementations made for a family of targets.
PLAIN_LEVEL, TEMPLATE_LEVEL = 5, 10


class OpImplementation(NamedTuple):
    """``compute(attrs, inputs, out_type)`` gives tensors, ``schedule(attrs, outs, target)`` the schedule of a kernel
    that the operator leads. Of several implementations the one with the highest ``plevel`` is taken.

    Parameters
    ----------
    compute : callable
        Gives the tensors.
    schedule : callable
        Gives the schedule of a kernel.
    name : str
        Its name.
    plevel : int
        Which one is preferred: the highest.
    """

    compute: Callable[..., Any]
    schedule: Callable[..., Any]
    name: str
    plevel: int


class OpSpecialization:
    """Implementations for where a condition on the shapes holds.

    Parameters
    ----------
    condition : SpecializedCondition, optional
        What must hold of the shapes.
    """

    def __init__(self, condition: SpecializedCondition | None = None):
        self.condition = condition
        self.implementations: list[OpImplementation] = []

    def add_implementation(self, compute, schedule, name="default", plevel=10) -> None:
        """Offer a computation with its schedule where the condition holds.

        Parameters
        ----------
        compute : callable
            Gives the tensors, for the attributes, the inputs and the type of the result.
        schedule : callable
            Gives the schedule of a kernel, for the attributes, the outputs and the target.
        name : str, optional
            Its name.
        plevel : int, optional
            Which one is preferred: the highest.
        """
        self.implementations.append(OpImplementation(compute, schedule, name, plevel))

    def holds(self) -> bool:
        """Whether the condition is known to hold.

        Returns
        -------
        bool
            True without a condition; false where the shapes do not decide it.
        """
        if self.condition is None:
            return True
        analyzer = Analyzer()
        return all(bool(getattr(analyzer.simplify(clause), "value", False)) for clause in self.condition.clauses)


class OpStrategy:
    """The implementations of an operator on a target."""

    def __init__(self):
        self.specializations: list[OpSpecialization] = []

    def add_implementation(self, compute, schedule, name="default", plevel=10) -> None:
        """Offer a computation with its schedule; inside of ``with SpecializedCondition(...)`` for where that holds.

        Parameters
        ----------
        compute : callable
            Gives the tensors, for the attributes, the inputs and the type of the result.
        schedule : callable
            Gives the schedule of a kernel, for the attributes, the outputs and the target.
        name : str, optional
            Its name.
        plevel : int, optional
            Which one is preferred: the highest.
        """
        condition = SpecializedCondition.current()
        special = next((s for s in self.specializations if s.condition is condition), None)
        if special is None:
            special = OpSpecialization(condition)
            self.specializations.append(special)
        special.add_implementation(compute, schedule, name, plevel)

    def valid(self) -> list[OpImplementation]:
        """Those whose condition holds, in the order they were offered.

        Returns
        -------
        list of OpImplementation
        """
        return [offer for special in self.specializations if special.holds() for offer in special.implementations]


class Row(NamedTuple):
    """An implementation of ours, for targets whose templates are of a family: the operator's computation with arguments
    of its own, such as a function that takes the place of one of ``topi.nn``."""

    family: str
    arguments: Callable[[Any, Target], dict[str, Any]]

    def compute(self, plain: Callable[..., Any], target: Target) -> Callable[..., Any]:
        def computed(attrs: Any, inputs: list, out_type: Any) -> Any:
            return plain(attrs, inputs, out_type, **self.arguments(attrs, target))

        return computed


def by_pattern(attrs: Any, outs: list, target: Target) -> Any:
    """The schedule that follows from what the tensors are: a template where one knows them, else one by pattern."""
    return schedule_for(list(outs), target)


class NativeStrategy:
    """What this package, or a user in the operator's record, has for an operator."""

    def __init__(self, record: Op):
        self.record = record

    def __call__(self, attrs: Any, inputs: list, out_type: Any, target: Target) -> OpStrategy:
        offered = OpStrategy()
        for offer in native_implementations(self.record, target):
            offered.add_implementation(*offer)
        return offered


def native_implementations(record: Op, target: Target) -> list[OpImplementation]:
    """The mathematics of an operator, and the rows for a target's family; a user's computation or schedule takes the
    place of both."""
    plain, schedule = computation(record), record.attrs.get("FTVMSchedule")
    if plain is None:
        return []
    short = short_name(record.name)
    found = [OpImplementation(plain, schedule or by_pattern, f"{short}.generic", PLAIN_LEVEL)]
    if "FTVMCompute" in record.attrs or schedule is not None:
        return found
    for row in record.attrs.get("implementations", ()):
        if row.family == templates_of(target):
            computed = row.compute(plain, target)
            found.append(OpImplementation(computed, by_pattern, f"{short}.{row.family}", TEMPLATE_LEVEL))
    return found


def short_name(operator: str) -> str:
    """``dense`` of ``nn.dense``, ``conv2d_NCHWc`` of ``nn.contrib_conv2d_NCHWc``."""
    return operator.rpartition(".")[2].removeprefix("contrib_")


def computation(record: Op) -> Callable[..., Any] | None:
    """``(attrs, inputs, out_type) -> tensors`` of an operator, a strategy aside."""
    return record.attrs.get("FTVMCompute") or record.attrs.get("compute")


def is_computed(record: Op) -> bool:
    return computation(record) is not None or "FTVMStrategy" in record.attrs


def rules_of(record: Op) -> tuple:
    """What a user has said of computing the operator: code compiled under other rules is not its code."""
    strategy = record.attrs.get("FTVMStrategy")
    generic = getattr(strategy, "generic_func_node", None)
    given = (strategy,)
    if generic is not None:
        given = (*generic.functions.values(), None if isinstance(generic.default, NativeStrategy) else generic.default)
    said = (record.attrs.get("FTVMCompute"), record.attrs.get("FTVMSchedule"), *given)
    return tuple(rule for rule in said if rule is not None)


def valid_implementations(record: Op, attrs: Any, inputs: list, out_type: Any, target: Target) -> list:
    """The implementations of an operator that hold for a target and these inputs."""
    strategy = record.attrs.get("FTVMStrategy")
    if strategy is None:
        found = native_implementations(record, target)
    else:
        with target:
            offered = strategy(attrs, inputs, out_type, target)
        found = offered.valid() if isinstance(offered, OpStrategy) else []
    if not found:
        source = "the strategy of operator {} has nothing" if is_computed(record) else "operator {} has no computation"
        raise OpNotImplemented(f"{source.format(record.name)} for target {target.kind}")
    return found


def highest(implementations: list[OpImplementation]) -> OpImplementation:
    """The one with the highest level, the first of equals."""
    return max(implementations, key=lambda offer: offer.plevel)


__all__ = ["NativeStrategy", "OpImplementation", "OpSpecialization", "OpStrategy", "Row", "by_pattern", "computation",
           "highest", "is_computed", "rules_of", "short_name", "valid_implementations"]  # fmt: skip
