"""Steps: schedule primitives as data, used as log lines, cache keys and moves of the search.

Every primitive is a frozen record of its arguments, which refer to stages, axes and tensors by number. The record
therefore applies to every schedule of the same program. ``apply(schedule, step)`` is the only way to change a schedule;
the methods of stages and schedules create the record from their arguments and apply it. A new primitive is a class
decorated with ``@primitive``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from ..error import not_defined
from ..registry import Registry

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    from .schedule import Schedule
    from .stage import Stage
else:
    dataclass_transform = lambda **_: lambda function: function


class AxisRef(NamedTuple):
    """A reference to axis ``index`` of the stage with number ``stage``."""

    stage: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


class TensorRef(NamedTuple):
    """A reference to output ``index`` of the stage with number ``stage``."""

    stage: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


class StageRef(NamedTuple):
    stage: int


class Step:
    """One schedule primitive. ``stage`` is the number of the stage that it changes, or -1 if it changes the schedule
    itself."""

    __slots__ = ()
    kind: ClassVar[str]
    # The names of the fields after ``stage``, which are the arguments in a log line.
    arguments: ClassVar[tuple[str, ...]]
    # True if the only argument is a tuple whose items are the arguments in the log line.
    variadic: ClassVar[bool] = False
    stage: int

    def act(self, schedule: Schedule) -> Any:
        """Check the step, then change the schedule. An invalid step raises ScheduleError before any change."""
        raise not_defined(self, "act")

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments in the log line."""
        values = tuple(getattr(self, name) for name in self.arguments)
        return values[0] if self.variadic else values

    def __str__(self) -> str:
        return f"{self.kind}(stage {self.stage}, {', '.join(map(str, self.args))})"


class StageStep(Step):
    """A step that changes one stage."""

    __slots__ = ()

    def act(self, schedule: Schedule) -> Any:
        return self.change(schedule.stage_by_uid(self.stage))

    def change(self, stage: Stage) -> Any:
        raise not_defined(self, "change")


class ScheduleStep(Step):
    """A step that adds stages to the schedule."""

    __slots__ = ()
    stage: ClassVar[int] = -1  # pyright: ignore[reportIncompatibleVariableOverride]


StepClass = TypeVar("StepClass", bound=type[Step])
STEPS: Registry[type[Step]] = Registry("schedule step")


@dataclass_transform(frozen_default=True)
def primitive(kind: str, variadic: bool = False) -> Callable[[StepClass], StepClass]:
    """Return a decorator that makes a class the record of the primitive named ``kind``."""

    def make(cls: StepClass) -> StepClass:
        record: Any = dataclass(frozen=True, slots=True)(cls)
        record.kind, record.variadic = kind, variadic
        record.arguments = tuple(f.name for f in fields(record) if f.name != "stage")
        return STEPS.register(kind, record)

    return make


def apply(schedule: Schedule, step: Step) -> Any:
    """Check ``step`` against the schedule, execute and record it; return the axes, tensors or group that it creates. An
    invalid step raises ScheduleError and leaves the schedule unchanged."""
    made = step.act(schedule)
    schedule.steps.append(step)
    return made


_REFERENCES = {"axis": AxisRef, "tensor": TensorRef, "stage": StageRef}


def _plain(value: Any) -> Any:
    for name, kind in _REFERENCES.items():
        if isinstance(value, kind):
            return {name: list(value)}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _argument(value: Any) -> Any:
    if isinstance(value, dict):
        ((name, numbers),) = value.items()
        return _REFERENCES[name](*numbers)
    return tuple(_argument(item) for item in value) if isinstance(value, (list, tuple)) else value


def to_plain(steps: Iterable[Step]) -> list[Any]:
    """Convert steps to JSON-compatible values: kind, stage and arguments of each step."""
    return [[step.kind, step.stage, _plain(step.args)] for step in steps]


def from_plain(values: Iterable[Any]) -> list[Step]:
    """Convert the values of ``to_plain`` back to steps."""
    return [make_step(kind, stage, _argument(args)) for kind, stage, args in values]


def make_step(kind: str, stage: int, args: tuple[Any, ...]) -> Step:
    """Create the step of a log line."""
    cls: Any = STEPS[kind]
    given = (args,) if cls.variadic else args
    return cls(*given) if issubclass(cls, ScheduleStep) else cls(stage, *given)
