"""Candidates as files, to be measured where only the runtime is (``python -m tvm.runtime.measure_files FOLDER``)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from ...error import TVMError
from ...runtime.measure.files import CANDIDATE_BEGIN, LIST, RECORDS, key_of, known_records, pieces, read_candidates
from ...runtime.measure.record_file import RecordFile
from ...runtime.measure.worker import example
from ...runtime.module import from_code, load_device_module
from ...tuning.candidate import ENTRY, Code
from ...tuning.reference import reference_outputs
from ...tuning.workers import shared_pool
from ..record import encode
from ..utils import logger
from .measure import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from .measure_methods import LocalBuilder

_NOT_MEASURED = MeasureResult((0.0,), MeasureErrorNo.NO_ERROR, 0.0, 0.0)


class FolderWriter:
    """Builds candidates in worker processes and keeps them in a folder, with how to measure them.

    ``measure`` are number, repeat and min_repeat_ms. With ``verify`` the folder also has what the plain schedule of
    each task computes, so that wrong results are found where the candidates are measured.
    """

    def __init__(
        self, folder: str | os.PathLike, measure: dict[str, Any] | None = None, verify: bool = True,
        builder: LocalBuilder | None = None,
    ):
        self.path, self.verify = os.fspath(folder), verify
        self.measure = measure or {}
        self.builder = builder or LocalBuilder(timeout=60)
        if self.builder.build_func != "default":
            raise TVMError("FolderWriter: the builder's build_func is the default one; libraries are linked here")
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise TVMError(f"candidates cannot be written to '{self.path}': {error.strerror}") from None
        self.list = RecordFile(os.path.join(self.path, LIST), CANDIDATE_BEGIN)
        self.records = RecordFile(os.path.join(self.path, RECORDS))
        self.list.append(())
        rows = read_candidates(self.path, complain=False)
        self.known = {key_of(row.record) for row in rows} | known_records(os.path.join(self.path, RECORDS))
        # By task, the file with its outputs and which arguments these are.
        self.outputs: dict[str, tuple[str | None, list[int]]] = {row.task: (row.outputs, row.compared) for row in rows}
        names = [row.file for row in rows]
        self.number = 1 + max((int(n.split(".")[0]) for n in names if n.split(".")[0].isdigit()), default=-1)

    def write(self, inputs: Iterable[MeasureInput], tell: Callable[[int, int], None] | None = None) -> tuple[int, int]:
        """Build what the folder has not: how many were built, and how many could not be. Those that could not are in
        the folder's records at once. ``tell`` hears of both numbers after each batch."""
        built = failed = 0
        waiting = iter(self._new(inputs))
        while batch := list(islice(waiting, 8 * self.builder.n_parallel)):
            made = self.builder.build([inp for inp, _ in batch])
            for (inp, record), result in zip(batch, made):
                is_built = self._keep(inp, record, result)
                built, failed = built + is_built, failed + (not is_built)
            if tell is not None:
                tell(built, failed)
        return built, failed

    def _new(self, inputs: Iterable[MeasureInput]) -> Iterable[tuple[MeasureInput, dict[str, Any]]]:
        for inp in inputs:
            record = json.loads(encode(inp, _NOT_MEASURED))
            if key_of(record) not in self.known:
                self.known.add(key_of(record))
                yield inp, record

    def _keep(self, inp: MeasureInput, record: dict[str, Any], made: Any) -> bool:
        """Write a candidate's files and then its line: a line without its file is never seen."""
        if isinstance(made, MeasureResult):
            self.records.append([encode(inp, made)])
            return False
        assert inp.target is not None
        name = f"{self.number:06d}.so"
        self.number += 1
        _write_library(made, os.path.join(self.path, name))
        task = json.dumps(record["input"])
        if task not in self.outputs:
            self.outputs[task] = self._write_outputs(inp, name, made.arg_info) if self.verify else (None, [])
        outputs, compared = self.outputs[task]
        row = {
            "file": name, "entry": ENTRY, "args": made.arg_info, "device": inp.target.get_target_device_type(),
            "measure": self.measure, "outputs": outputs, "compared": compared, "flop": inp.task.flop or 0,
            "record": record,
        }  # fmt: skip
        self.list.append([json.dumps(row)])
        return True

    def _write_outputs(self, inp: MeasureInput, name: str, arg_info: Sequence[Any]) -> tuple[str | None, list[int]]:
        """The file with what the task computes, and which arguments it writes; None where that cannot be found out."""
        outputs = f"{os.path.splitext(name)[0]}.outputs"
        try:
            data = reference_outputs(shared_pool(max(self.builder.n_parallel, 2)), *inp.instantiate(), arg_info)
        except TVMError as error:
            logger.warning("results of %s will not be compared: %s", inp.task.name, error)
            return None, []
        found = {}
        for number, ((shape, dtype), piece) in enumerate(zip(arg_info, pieces(arg_info, data))):
            if example(shape, dtype, number).tobytes() != piece:
                found[number] = piece
        with open(os.path.join(self.path, outputs), "wb") as file:
            file.write(b"".join(found.values()))
        return outputs, list(found)


def _write_library(made: BuildResult, path: str) -> None:
    """Write the output of a builder to a file, which exists only when it is complete."""
    if made.filename is not None:
        shutil.copyfile(made.filename, path + ".part")
        os.replace(path + ".part", path)
        return
    code: Code = made.code

    def save(path: str, format: str) -> None:
        with open(path, "wb") as file:
            file.write(code.object)

    module = from_code(None, code.names, save=save)
    if code.device:
        module.import_module(load_device_module(code.device))
    module.export_library(path)


def write_candidates(
    inputs: Iterable[MeasureInput], folder: str | os.PathLike, measure: dict[str, Any] | None = None,
    verify: bool = True, builder: LocalBuilder | None = None,
) -> tuple[int, int]:
    """Build each input as a library in ``folder``; how many were built, and how many could not be."""
    return FolderWriter(folder, measure, verify, builder).write(inputs)


__all__ = ["FolderWriter", "write_candidates"]
