"""Implementations of operators for targets, and their selection.

The record of an operator contains its target-independent computation (``compute``) and implementations for target
families, each with a condition on the target (``strategy/cpu.py``, ``strategy/gpu.py``). Users can replace them by a
computation (``FTVMCompute(attrs, inputs, out_type)`` -> tensors), by a schedule
(``FTVMSchedule(attrs, outs, target)``), or by a strategy (``FTVMStrategy(attrs, inputs, out_type, target)`` ->
``OpStrategy``) with several implementations.
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

# The priority of the generic computation, which all targets support, and of implementations for a target family.
PLAIN_LEVEL, TEMPLATE_LEVEL = 5, 10


class OpImplementation(NamedTuple):
    """An implementation of an operator.

    ``compute(attrs, inputs, out_type)`` returns tensors, and ``schedule(attrs, outs, target)`` returns the schedule of
    a kernel whose anchor is the operator. The implementation with the highest ``plevel`` is selected.

    Parameters
    ----------
    compute : callable
        Returns the output tensors.
    schedule : callable
        Returns the schedule of a kernel.
    name : str
        The name of the implementation.
    plevel : int
        The priority; the highest is selected.
    """

    compute: Callable[..., Any]
    schedule: Callable[..., Any]
    name: str
    plevel: int


class OpSpecialization:
    """Implementations that apply if a condition on the shapes holds.

    Parameters
    ----------
    condition : SpecializedCondition, optional
        The condition on the shapes; None always applies.
    """

    def __init__(self, condition: SpecializedCondition | None = None):
        self.condition = condition
        self.implementations: list[OpImplementation] = []

    def add_implementation(self, compute, schedule, name="default", plevel=10) -> None:
        """Add a computation with its schedule.

        Parameters
        ----------
        compute : callable
            Returns the output tensors, given the attributes, the inputs and the output type.
        schedule : callable
            Returns the schedule of a kernel, given the attributes, the outputs and the target.
        name : str, optional
            The name of the implementation.
        plevel : int, optional
            The priority; the highest is selected.
        """
        self.implementations.append(OpImplementation(compute, schedule, name, plevel))

    def holds(self) -> bool:
        """Return whether the condition provably holds.

        Returns
        -------
        bool
            True if there is no condition; False if the shapes do not prove it.
        """
        if self.condition is None:
            return True
        analyzer = Analyzer()
        return all(bool(getattr(analyzer.simplify(clause), "value", False)) for clause in self.condition.clauses)


class OpStrategy:
    """The implementations of an operator for a target."""

    def __init__(self):
        self.specializations: list[OpSpecialization] = []

    def add_implementation(self, compute, schedule, name="default", plevel=10) -> None:
        """Add a computation with its schedule. Inside ``with SpecializedCondition(...)`` it applies only if the
        condition holds.

        Parameters
        ----------
        compute : callable
            Returns the output tensors, given the attributes, the inputs and the output type.
        schedule : callable
            Returns the schedule of a kernel, given the attributes, the outputs and the target.
        name : str, optional
            The name of the implementation.
        plevel : int, optional
            The priority; the highest is selected.
        """
        condition = SpecializedCondition.current()
        special = next((s for s in self.specializations if s.condition is condition), None)
        if special is None:
            special = OpSpecialization(condition)
            self.specializations.append(special)
        special.add_implementation(compute, schedule, name, plevel)

    def valid(self) -> list[OpImplementation]:
        """Return the implementations whose condition holds, in the order of registration.

        Returns
        -------
        list of OpImplementation
            The implementations.
        """
        return [offer for special in self.specializations if special.holds() for offer in special.implementations]


class FamilyImplementation(NamedTuple):
    """An implementation for the targets of one template family. It calls the operator's computation with additional
    arguments, such as a replacement for a function of ``topi.nn``."""

    family: str
    arguments: Callable[[Any, Target], dict[str, Any]]

    def compute(self, plain: Callable[..., Any], target: Target) -> Callable[..., Any]:
        def computed(attrs: Any, inputs: list, out_type: Any) -> Any:
            return plain(attrs, inputs, out_type, **self.arguments(attrs, target))

        return computed


def by_pattern(attrs: Any, outs: list, target: Target) -> Any:
    """Return the schedule that matches the tensors: a template if one applies, else a schedule by pattern."""
    return schedule_for(list(outs), target)


class NativeStrategy:
    """The default strategy of an operator: its implementations in this package or in its record."""

    def __init__(self, record: Op):
        self.record = record

    def __call__(self, attrs: Any, inputs: list, out_type: Any, target: Target) -> OpStrategy:
        offered = OpStrategy()
        for offer in native_implementations(self.record, target):
            offered.add_implementation(*offer)
        return offered


def native_implementations(record: Op, target: Target) -> list[OpImplementation]:
    """Return the generic computation of an operator and the implementations for the target's family. A user-defined
    computation or schedule replaces both."""
    plain, schedule = computation(record), record.attrs.get("FTVMSchedule")
    if plain is None:
        return []
    short = short_name(record.name)
    found = [OpImplementation(plain, schedule or by_pattern, f"{short}.generic", PLAIN_LEVEL)]
    if "FTVMCompute" in record.attrs or schedule is not None:
        return found
    for entry in record.attrs.get("implementations", ()):
        if entry.family == templates_of(target):
            computed = entry.compute(plain, target)
            found.append(OpImplementation(computed, by_pattern, f"{short}.{entry.family}", TEMPLATE_LEVEL))
    return found


def short_name(operator: str) -> str:
    """Return the short name of an operator: ``dense`` for ``nn.dense``, ``conv2d_NCHWc`` for
    ``nn.contrib_conv2d_NCHWc``."""
    return operator.rpartition(".")[2].removeprefix("contrib_")


def computation(record: Op) -> Callable[..., Any] | None:
    """Return the function ``(attrs, inputs, out_type) -> tensors`` of an operator, without its strategy."""
    return record.attrs.get("FTVMCompute") or record.attrs.get("compute")


def is_computed(record: Op) -> bool:
    return computation(record) is not None or "FTVMStrategy" in record.attrs


def rules_of(record: Op) -> tuple:
    """Return the user-defined rules for computing an operator. Cached code compiled with other rules is not valid."""
    strategy = record.attrs.get("FTVMStrategy")
    generic = getattr(strategy, "generic_func_node", None)
    given = (strategy,)
    if generic is not None:
        given = (*generic.functions.values(), None if isinstance(generic.default, NativeStrategy) else generic.default)
    said = (record.attrs.get("FTVMCompute"), record.attrs.get("FTVMSchedule"), *given)
    return tuple(rule for rule in said if rule is not None)


def valid_implementations(record: Op, attrs: Any, inputs: list, out_type: Any, target: Target) -> list:
    """Return the implementations of an operator that support a target and these inputs."""
    strategy = record.attrs.get("FTVMStrategy")
    if strategy is None:
        found = native_implementations(record, target)
    else:
        with target:
            offered = strategy(attrs, inputs, out_type, target)
        found = offered.valid() if isinstance(offered, OpStrategy) else []
    if not found:
        source = "operator {} has no computation"
        if is_computed(record):
            source = "the strategy of operator {} has no implementation"
        raise OpNotImplemented(f"{source.format(record.name)} for target {target.kind}")
    return found


def highest(implementations: list[OpImplementation]) -> OpImplementation:
    """Return the implementation with the highest priority, the first of equals."""
    return max(implementations, key=lambda offer: offer.plevel)


__all__ = ["NativeStrategy", "OpImplementation", "OpSpecialization", "OpStrategy", "FamilyImplementation",
           "by_pattern", "computation", "highest", "is_computed", "rules_of", "short_name",
           "valid_implementations"]  # fmt: skip
