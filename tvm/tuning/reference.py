"""Reference outputs of a candidate: its computation runs without a schedule on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..error import TVMError
from ..target import Target
from ..te.schedule import create_schedule
from ..te.tensor import ComputeOp
from .candidate import ArgumentInfo, compile_text, lower_to_text, run_code
from .workers import Failure, Pool

# Time limits for the plain schedule, which is slow.
_BUILD_SECONDS, _RUN_SECONDS = 60.0, 600.0


def reference_outputs(
    pool: Pool, schedule: Any, args: list[Any], info: ArgumentInfo, shapes: Sequence[Sequence[int]] | None = None
) -> bytes:
    """Return the arguments of a candidate after the plain schedule has run, concatenated. ``shapes`` are the shapes in
    which the schedule takes the arguments, if they differ from ``info``."""
    plain = create_schedule(_original_outputs(schedule))
    for stage in plain.stages:
        if isinstance(stage.op, ComputeOp) and stage.op.axis:
            stage.parallel(stage.op.axis[0])
    # Without a schedule there are no threads, and code for another machine does not run here.
    target = Target("llvm")
    code = compile_text(pool, lower_to_text(plain, args, target), _BUILD_SECONDS)
    if isinstance(code, Failure):
        raise TVMError(f"cannot compile the plain schedule for verification: {code}")
    # With best=1e-9 every run counts as too slow: the measurement ends after its first timed run.
    options = {"number": 1, "repeat": 1, "best": 1e-9, "outputs": True, "shapes": shapes}
    answer = run_code(pool, target.get_target_device_type(), info, code, _RUN_SECONDS, options)
    if isinstance(answer, Failure):
        raise TVMError(f"cannot run the plain schedule for verification: {answer}")
    return answer[1]


def _original_outputs(schedule: Any) -> list[Any]:
    """Return the original operations, without the cache stages of the schedule."""
    return [stage.origin_op for stage in schedule.stages if stage.is_output]


__all__ = ["reference_outputs"]
