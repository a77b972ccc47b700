"""What a template is: the schedule of one kind of stage, with knobs that a tuner may turn.

A planner gives a template the stages whose tag it names. A template without records picks its knobs itself, by an
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
    """The knobs of a template. The problem is what decides on them: the operation itself, or its sizes."""

    @abstractmethod
    def space(self, problem: Problem, machine: Machine) -> dict[str, list[Any]]:
        """The values of each knob that are worth trying."""

    @abstractmethod
    def choose(self, problem: Problem, machine: Machine) -> Config:
        """The pick without measuring."""

    def cost(self, problem: Problem, machine: Machine, config: Config) -> float:
        """Estimated cycles with these values of the knobs, for templates that pick by them."""
        raise NotImplementedError(f"{type(self).__name__} does not pick by cycles")

    def valid(self, problem: Problem, machine: Machine, config: Config) -> Any:
        """Whether values of knobs go together. They may be arrays where ``is_vectorized``, an element for each
        configuration."""
        return True

    is_vectorized: ClassVar[bool] = False


class CPUTemplate(Knobs[ComputeOp, Any]):
    """A template of CPUs: ``host`` stores the results of ``stage``, and may do more to them."""

    tags: ClassVar[tuple[str, ...]]
    # Types of results that it is for; None: all.
    dtypes: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def applies(self, op: ComputeOp) -> bool:
        """Whether the operation is one this schedule fits."""

    @abstractmethod
    def apply(self, planner: Any, stage: Stage, host: Stage, config: Config) -> None:
        """Schedule the stage."""

    def takes(self, op: ComputeOp) -> bool:
        """Whether the template is for results of this type, and fits."""
        return (self.dtypes is None or op.output(0).dtype in self.dtypes) and self.applies(op)


class GPUTemplate(ABC):
    """A template of GPUs; its stages have what was decided when they were computed among their attributes."""

    tags: ClassVar[tuple[str, ...]]

    @abstractmethod
    def consumer(self, planner: Any, stage: Stage, plain: Schedule) -> Stage | None:
        """The operation after the stage that is done with it, element by element; ``plain`` is the schedule with all
        inlined that is to be."""

    @abstractmethod
    def apply(self, planner: Any, stage: Stage, consumer: Stage | None) -> None:
        """Schedule the stage, and its consumer."""


__all__ = ["CPUTemplate", "Config", "GPUTemplate", "Knobs"]
