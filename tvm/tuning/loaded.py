"""Measure candidates on a device to which a user-defined function connects, such as a microcontroller."""

from __future__ import annotations

import time
from typing import Any

from ..runtime.measure.worker import content
from .candidate import ENTRY
from .errors import MeasureErrorNo
from .measure import Failed


def measure_loaded(loader: Any, built: Any, seconds: float, timing: dict[str, int]) -> Any:
    """Measure a candidate on the device of a session.

    ``loader`` is a function of a dictionary with the time limit (``timeout``) and of a build result; it returns a
    context manager, whose value is a session and the library of the device. Return the times and the contents of all
    arguments after a first run, or a failure.
    """
    start = time.monotonic()
    stage = MeasureErrorNo.COMPILE_DEVICE
    try:
        with loader({"timeout": seconds}, built) as (_, library):
            stage = MeasureErrorNo.RUNTIME_DEVICE
            values = [content(*one, seed=number) for number, one in enumerate(built.arg_info or ())]
            library[ENTRY](*values)
            outputs = b"".join(value.tobytes() for value in values)
            return {"costs": list(library.time_evaluator(ENTRY, None, **timing)(*values).results)}, outputs
    except TimeoutError as error:
        return Failed.since(start, MeasureErrorNo.RUN_TIMEOUT, error)
    except Exception as error:
        return Failed.since(start, stage, error)


__all__ = ["measure_loaded"]
