"""Steps: frozen records of schedule moves. A step is a log line, a cache key and a search move at once."""

from __future__ import annotations

from typing import Any, NamedTuple


class AxisRef(NamedTuple):
    """Axis ``index`` of the stage with this number."""

    stage: int
    index: int


class TensorRef(NamedTuple):
    stage: int
    index: int


class StageRef(NamedTuple):
    stage: int


class Step(NamedTuple):
    """One primitive, on the stage with this number (-1: on the schedule itself)."""

    kind: str
    stage: int
    args: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.kind}(stage {self.stage}, {', '.join(map(str, self.args))})"


_REFERENCES = {"axis": AxisRef, "tensor": TensorRef, "stage": StageRef}


def to_plain(value: Any) -> Any:
    """An argument of a step, or a list of them, as a value that has a form as JSON."""
    for name, kind in _REFERENCES.items():
        if isinstance(value, kind):
            return {name: list(value)}
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_plain(value: Any) -> Any:
    """The argument that ``to_plain`` was given."""
    if isinstance(value, dict):
        ((name, numbers),) = value.items()
        return _REFERENCES[name](*numbers)
    return tuple(from_plain(item) for item in value) if isinstance(value, (list, tuple)) else value
