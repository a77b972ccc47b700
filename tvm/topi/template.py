"""Templates: schedules of one kind of stage with tunable knobs.

A planner passes a template the stages with its tag. Without a tuning record, the template chooses its knobs by an
estimate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from ..te.schedule import Schedule, Stage
from ..te.tensor import ComputeOp

Problem = TypeVar("Problem")
Machine = TypeVar("Machine")
Config = dict[str, Any]


class Knobs(ABC, Generic[Problem, Machine]):
    """The knobs of a template. The problem determines them: it is the operation itself, or its dimensions."""

    @abstractmethod
    def space(self, problem: Problem, machine: Machine) -> dict[str, list[Any]]:
        """Return the values of each knob that are worth trying."""

    @abstractmethod
    def choose(self, problem: Problem, machine: Machine) -> Config:
        """Return the choice of the knobs without measurement."""

    def cost(self, problem: Problem, machine: Machine, config: Config) -> float:
        """Return the estimated cycles for these values of the knobs, for templates that choose by estimated cycles."""
        raise NotImplementedError(f"{type(self).__name__} does not choose its knobs by estimated cycles")

    def valid(self, problem: Problem, machine: Machine, config: Config) -> Any:
        """Return whether values of knobs are compatible. They may be arrays if ``is_vectorized`` is set, with one
        element for each configuration."""
        return True

    is_vectorized: ClassVar[bool] = False


class CPUTemplate(Knobs[ComputeOp, Any]):
    """A CPU template. ``host`` stores the results of ``stage``, and may include the epilogue."""

    tags: ClassVar[tuple[str, ...]]
    # Supported output dtypes; None means all.
    dtypes: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def applies(self, op: ComputeOp) -> bool:
        """Return whether this schedule supports the operation."""

    @abstractmethod
    def apply(self, planner: Any, stage: Stage, host: Stage, config: Config) -> None:
        """Schedule the stage."""

    def takes(self, op: ComputeOp) -> bool:
        """Return whether the template supports the output dtype and the operation."""
        return (self.dtypes is None or op.output(0).dtype in self.dtypes) and self.applies(op)


class GPUTemplate(ABC):
    """A GPU template. The attributes of its stages contain the decisions made when they were created."""

    tags: ClassVar[tuple[str, ...]]

    @abstractmethod
    def consumer(self, planner: Any, stage: Stage, plain: Schedule) -> Stage | None:
        """Return the elementwise consumer of the stage that is scheduled with it. ``plain`` is the schedule in which
        all stages to be inlined are inlined."""

    @abstractmethod
    def apply(self, planner: Any, stage: Stage, consumer: Stage | None) -> None:
        """Schedule the stage and its consumer."""


__all__ = ["CPUTemplate", "Config", "GPUTemplate", "Knobs"]
