"""What a candidate is compared with: the results of its computation without a schedule, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import TVMError
from ...runtime.measure.worker import request
from ...target import Target
from ...te.schedule import create_schedule
from ...te.tensor import ComputeOp
from ...tuning.workers import Failure, Job
from .candidate import ENTRY, Code, instantiate, lower_to_text
from .measure import BuildResult, MeasureInput

# Seconds for the plain schedule, which is slow.
_BUILD_SECONDS, _RUN_SECONDS = 60.0, 600.0


def code_of(answer: tuple[dict[str, Any], bytes], names: tuple[str, ...]) -> Code:
    """What a worker has compiled."""
    message, payload = answer
    size = message["object"]
    return Code(payload[:size], names, ENTRY, payload[size:])


def run_built(pool: Any, device: int, built: BuildResult, seconds: float, options: dict[str, Any]) -> Any:
    """Measure code in a worker: its answer, or a Failure."""
    code = built.code
    size, names = (len(code.object), code.names) if code else (0, ())
    message = request(built.arg_info or (), device, ENTRY, filename=built.filename, size=size, names=names, **options)
    return _done(pool, message, code.object + code.device if code else b"", seconds)


def plain_outputs(pool: Any, inp: MeasureInput, arg_info: Sequence[tuple[Sequence[int], str]]) -> bytes:
    """The arguments of a candidate, one after the other, as the plain schedule leaves them."""
    schedule, args = instantiate(inp)
    plain = create_schedule(_original_outputs(schedule))
    for stage in plain.stages:
        if isinstance(stage.op, ComputeOp) and stage.op.axis:
            stage.parallel(stage.op.axis[0])
    # Without a schedule there are no threads, and code of another machine does not run here.
    target = Target("llvm")
    message, text, names = lower_to_text(plain, args, target)
    compiled = _done(pool, message, text, _BUILD_SECONDS)
    if isinstance(compiled, Failure):
        raise TVMError(f"the plain schedule to verify with does not compile: {compiled}")
    reference = BuildResult(None, arg_info, None, 0.0)
    reference.code = code_of(compiled, names)
    # With best=1e-9 every run is too slow to go on: the measurement ends after its first timed run.
    options = {"number": 1, "repeat": 1, "best": 1e-9, "outputs": True}
    answer = run_built(pool, target.get_target_device_type(), reference, _RUN_SECONDS, options)
    if isinstance(answer, Failure):
        raise TVMError(f"the plain schedule to verify with does not run: {answer}")
    return answer[1]


def _done(pool: Any, message: dict[str, Any], payload: bytes, seconds: float) -> Any:
    box: list[Any] = []
    pool.submit(Job(message, payload, seconds, box.append))
    pool.finish()
    return box[0]


def _original_outputs(schedule: Any) -> list[Any]:
    """The operations as the template made them, before caches were put between."""
    return [stage.origin_op for stage in schedule.stages if stage.is_output]


__all__ = ["code_of", "plain_outputs", "run_built"]
