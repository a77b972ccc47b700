"""Candidates as files, to be measured on a machine with only the runtime (``python -m tvm.runtime.measure_files
FOLDER``)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from ...error import TVMError
from ...tuning.folder import CandidateFolder, Kept, Kernel
from ...tuning.reference import reference_outputs
from ...tuning.workers import shared_pool
from ..record import encode
from ..utils import logger
from .measure import MeasureErrorNo, MeasureInput, MeasureResult
from .measure_methods import LocalBuilder

_NOT_MEASURED = MeasureResult((0.0,), MeasureErrorNo.NO_ERROR, 0.0, 0.0)


class FolderWriter:
    """A writer that builds candidates in worker processes and stores them in a folder with their measurement
    parameters.

    ``measure`` contains number, repeat and min_repeat_ms. With ``verify`` the folder also contains the outputs of the
    plain schedule of each task, so that incorrect outputs are detected where the candidates are measured.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        measure: dict[str, Any] | None = None,
        verify: bool = True,
        builder: LocalBuilder | None = None,
    ):
        self.verify, self.builder = verify, builder or LocalBuilder(timeout=60)
        if self.builder.build_func != "default":
            raise TVMError(
                "FolderWriter: the builder must use the default build_func, because FolderWriter links the libraries"
            )
        self.folder = CandidateFolder(folder, "input", measure, logger.warning)

    def write(self, inputs: Iterable[MeasureInput], tell: Callable[[int, int], None] | None = None) -> tuple[int, int]:
        """Build the candidates that the folder does not contain. Return the numbers of built and of failed candidates.
        Failed candidates are added to the folder's records immediately. ``tell`` is called with both numbers after each
        batch."""
        built = failed = 0
        rows = ((inp, json.loads(encode(inp, _NOT_MEASURED))) for inp in inputs)
        waiting = ((inp, record) for inp, record in rows if self.folder.is_new(record))
        while batch := list(islice(waiting, 8 * self.builder.n_parallel)):
            made = self.builder.build([inp for inp, _ in batch])
            for (inp, record), result in zip(batch, made):
                is_built = self._keep(inp, record, result)
                built, failed = built + is_built, failed + (not is_built)
            if tell is not None:
                tell(built, failed)
        return built, failed

    def _keep(self, inp: MeasureInput, record: dict[str, Any], made: Any) -> bool:
        if isinstance(made, MeasureResult):
            self.folder.refuse(encode(inp, made))
            return False
        assert inp.target is not None

        def reference() -> bytes:
            return reference_outputs(shared_pool(max(self.builder.n_parallel, 2)), *inp.instantiate(), made.arg_info)

        kernel = Kernel(made.code if made.filename is None else made.filename, made.arg_info)
        self.folder.keep(
            Kept(
                [kernel],
                inp.target.get_target_device_type(),
                record,
                inp.task.name,
                inp.task.flop or 0,
                reference if self.verify else None,
            )
        )
        return True


def write_candidates(
    inputs: Iterable[MeasureInput],
    folder: str | os.PathLike,
    measure: dict[str, Any] | None = None,
    verify: bool = True,
    builder: LocalBuilder | None = None,
) -> tuple[int, int]:
    """Build each input as a library in ``folder``. Return the numbers of built and of failed candidates."""
    return FolderWriter(folder, measure, verify, builder).write(inputs)


__all__ = ["FolderWriter", "write_candidates"]
