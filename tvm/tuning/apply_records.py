"""Apply AutoTVM or auto-scheduler records while a model is compiled; the record format is detected from the lines."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..auto_scheduler.choices import is_auto_scheduler_log, row_of
from ..auto_scheduler.dispatcher import ApplyHistoryBest as SketchHistory
from ..auto_scheduler.measure_record import RECORD_BEGIN
from ..autotvm.task.dispatcher import ApplyHistoryBest as TemplateHistory
from ..autotvm.task.dispatcher import history

USE_SKETCHES = {"relay.backend.use_auto_scheduler": True}


class Applied(NamedTuple):
    """A context for compilation, and the corresponding options of the pass context."""

    context: contextlib.AbstractContextManager
    config: dict[str, Any]


def records_of_file(path: str | os.PathLike | None) -> Applied:
    """Return the records of a file, or no records for None."""
    if path and os.path.isfile(path) and is_auto_scheduler_log(path):
        return Applied(SketchHistory(os.fspath(path)), USE_SKETCHES)
    return Applied(history(path), {})


def records_of_lines(lines: Sequence[str]) -> Applied:
    """Return the records in lines of one format. Operators without a record are compiled without a warning."""
    if not lines:
        return Applied(contextlib.nullcontext(), {})
    if RECORD_BEGIN in lines[0][: len(RECORD_BEGIN) + 2]:
        context = SketchHistory([row for row in map(row_of, lines) if row is not None])
        context.is_quiet = True
        return Applied(context, USE_SKETCHES)
    return Applied(TemplateHistory(io.StringIO("".join(f"{line}\n" for line in lines))), {})


__all__ = ["Applied", "records_of_file", "records_of_lines"]
