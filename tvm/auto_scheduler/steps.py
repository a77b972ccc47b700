"""Transform steps: the schedule primitives of a search as frozen records, stored as the lists of Ansor's logs.

A step is applied to the loops of a state (``apply``) or to a te schedule (``schedule``), and its fields are written to
a log. It refers to stages and iterators by their numbers before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from ..error import TVMError, not_defined
from ..registry import Registry

if TYPE_CHECKING:
    from .compute_dag import ComputeDAG
    from .replay import Replay
    from .state import StateObject


class TransformStep:
    """A transform step. ``stage_id`` is the number of the stage it changes."""

    __slots__ = ()
    code: ClassVar[str]
    # Whether the step changes the operations of the program, and whether the new operations depend on the loops of its
    # stage.
    changes_ops: ClassVar[bool] = False
    takes_loops: ClassVar[bool] = False
    # Whether the step changes the loops of its stage.
    changes_loops: ClassVar[bool] = False
    stage_id: int

    def apply(self, state: StateObject, dag: ComputeDAG) -> StateObject:
        """Return the state with the step applied; raise a TVMError if the step is invalid for it."""
        raise not_defined(self, "apply")

    def schedule(self, replay: Replay) -> None:
        """Apply the step to a te schedule."""
        raise not_defined(self, "schedule")

    def place_before(self, place: int) -> int | None:
        """Return the number of a stage before the step; None for a stage that the step created."""
        return place

    def alone(self, before: Sequence[TransformStep]) -> TransformStep:
        """Return the same step without references to other steps."""
        return self

    def refuse(self, reason: str) -> NoReturn:
        raise TVMError(f"step {self.code} on stage {self.stage_id}: {reason}")

    def to_json(self) -> list[Any]:
        """Return the step as a list for a log."""
        return [self.code, *(_plain(getattr(self, f.name)) for f in fields(self))]  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, bool) else value


StepClass = TypeVar("StepClass", bound=type[TransformStep])
STEPS: Registry[type[TransformStep]] = Registry("transform step")


def step(code: str) -> Callable[[StepClass], StepClass]:
    """Return a decorator that makes a class of fields the record of the step with this ``code`` in logs."""

    def make(cls: StepClass) -> StepClass:
        record: Any = dataclass(frozen=True, slots=True)(cls)
        record.code = code
        return STEPS.register(code, record)

    return make


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": lambda v: type(v) is int,
    "bool": lambda v: v in (0, 1),
    "str": lambda v: isinstance(v, str),
    "int | None": lambda v: type(v) is int,
    "tuple[int, ...]": lambda v: isinstance(v, list) and all(type(i) is int for i in v),
    "tuple[int | None, ...]": lambda v: isinstance(v, list) and all(type(i) is int for i in v),
}


# Logs contain 0 for a length that is not chosen yet.
_READ: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int | None": lambda v: v or None,
    "tuple[int, ...]": tuple,
    "tuple[int | None, ...]": tuple,
}


def from_json(value: Any) -> TransformStep:
    """Return the step for a list in a log."""
    if not isinstance(value, list) or not value or value[0] not in STEPS:
        codes = ", ".join(sorted(STEPS))
        raise TVMError(f"a step of a record must be a list that begins with one of {codes}, got {value!r}")
    cls: Any = STEPS[value[0]]
    names = fields(cls)
    if len(value) != len(names) + 1:
        raise TVMError(f"step {value[0]} must have {len(names)} fields, got {value[1:]!r}")
    given = []
    for f, item in zip(names, value[1:]):
        if not _CHECKS[str(f.type)](item):
            raise TVMError(f"step {value[0]}: invalid value {item!r} for {f.name}")
        given.append(_READ.get(str(f.type), lambda value: value)(item))
    return cls(*given)


def to_json(steps: Iterable[TransformStep]) -> list[list[Any]]:
    return [s.to_json() for s in steps]


def replayed(state: StateObject, steps: Sequence[TransformStep], dag: ComputeDAG) -> StateObject:
    """Return the state after these additional steps."""
    for s in steps:
        state = state.then(s, dag)
    return state


__all__ = ["STEPS", "TransformStep", "from_json", "replayed", "step", "to_json"]
