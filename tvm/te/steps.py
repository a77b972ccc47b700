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
