"""Candidates as files, to be measured on a machine with only the runtime (``python -m tvm.runtime.measure_files
FOLDER``).

Each kind of search defines its candidates; this module writes the folder format that all of them use.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..error import TVMError
from ..runtime.measure.files import CANDIDATE_BEGIN, LIST, RECORDS, key_of, known_records, pieces, read_candidates
from ..runtime.measure.record_file import RecordFile
from ..runtime.measure.record_formats import FORMATS, format_of
from ..runtime.measure.worker import example
from ..runtime.module import from_code, load_device_module
from .candidate import ENTRY, ArgumentInfo, Code


@dataclass(frozen=True)
class Kernel:
    """The code of a candidate, in memory or as the path of a library, with its arguments. ``shapes`` are the shapes in
    which it takes the arguments if it expects another order of their elements."""

    code: Code | str
    info: ArgumentInfo
    shapes: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True)
class Kept:
    """A candidate that has been built: its kernels for a device type, whose times are added, and its record. For a
    comparison it also contains the function that computes the expected outputs with a plain schedule, and the order in
    which the kernels read the elements of arguments, if that differs from the task's."""

    kernels: Sequence[Kernel]
    device: int
    record: dict[str, Any]
    title: str
    flop: float = 0.0
    reference: Callable[[], bytes] | None = None
    layouts: str = ""


class CandidateFolder:
    """A folder for the candidates of one kind of search. ``format`` is the field of its records in the table of
    formats. ``measure`` contains number, repeat and min_repeat_ms. ``warn`` is called for candidates that cannot be
    compared."""

    def __init__(
        self,
        folder: str | os.PathLike,
        format: str,
        measure: dict[str, Any] | None = None,
        warn: Callable[[str], None] = print,
    ):
        self.path, self.measure, self.warn = os.fspath(folder), measure or {}, warn
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise TVMError(f"cannot write candidates to '{self.path}': {error.strerror}") from None
        kind = FORMATS[format]
        self.list = RecordFile(os.path.join(self.path, LIST), CANDIDATE_BEGIN)
        self.records = RecordFile(os.path.join(self.path, RECORDS), kind.begin)
        self.list.append(())
        rows = read_candidates(self.path, complain=False)
        other = next((row.format for row in rows if row.format is not kind), None)
        if other is not None:
            raise TVMError(f"'{self.path}' contains {other.words}; use a separate folder for {kind.words}")
        self.known = {key_of(row.record) for row in rows} | known_records(os.path.join(self.path, RECORDS))
        # By task and argument order: the file with the expected outputs, and the indices of these arguments.
        self.outputs: dict[tuple[str, str, str], tuple[str | None, list[int]]] = {
            (row.task, json.dumps(row.shapes), row.layouts): (row.outputs, row.compared) for row in rows if row.outputs
        }
        stems = [name.split(".")[0] for row in rows for name in row.files]
        self.number = 1 + max((int(stem) for stem in stems if stem.isdigit()), default=-1)

    def is_new(self, record: dict[str, Any]) -> bool:
        """Return whether a candidate is new in the folder, and record it."""
        key = key_of(record)
        is_new = key not in self.known
        self.known.add(key)
        return is_new

    def refuse(self, line: str) -> None:
        """Write the record of a candidate that could not be built."""
        self.records.append([line])

    def keep(self, candidate: Kept) -> None:
        """Write the files of a candidate before its line, so that a line never refers to a missing file."""
        parts = [{"file": self._written(kernel.code), "args": kernel.info} for kernel in candidate.kernels]
        first, shapes = candidate.kernels[0], candidate.kernels[0].shapes
        task = json.dumps(format_of(candidate.record).identity(candidate.record)[0])
        told = (task, json.dumps(shapes), candidate.layouts)
        outputs: tuple[str | None, list[int]] = (None, [])
        if candidate.reference is not None:
            if told not in self.outputs:
                self.outputs[told] = self._write_outputs(candidate, parts[0]["file"], first.info)
            outputs = self.outputs[told]
        row = {
            **parts[0], "entry": ENTRY, "device": candidate.device, "measure": self.measure, "outputs": outputs[0],
            "compared": outputs[1], "flop": candidate.flop, "title": candidate.title, "record": candidate.record,
            **({"shapes": shapes} if shapes else {}), **({"layouts": candidate.layouts} if candidate.layouts else {}),
            **({"more": parts[1:]} if len(parts) > 1 else {}),
        }  # fmt: skip
        self.list.append([json.dumps(row)])

    def _written(self, code: Code | str) -> str:
        name = f"{self.number:06d}.so"
        self.number += 1
        _write_library(code, os.path.join(self.path, name))
        return name

    def _write_outputs(self, candidate: Kept, name: str, info: ArgumentInfo) -> tuple[str | None, list[int]]:
        """Return the file with the expected outputs of the task and the indices of the output arguments, or None if
        they cannot be computed."""
        outputs = f"{os.path.splitext(name)[0]}.outputs"
        assert candidate.reference is not None
        try:
            data = candidate.reference()
        except TVMError as error:
            self.warn(f"results of {candidate.title} will not be compared: {error}")
            return None, []
        found = {}
        for number, ((shape, dtype), piece) in enumerate(zip(info, pieces(info, data))):
            if example(list(shape), dtype, number).tobytes() != piece:
                found[number] = piece
        with open(os.path.join(self.path, outputs), "wb") as file:
            file.write(b"".join(found.values()))
        return outputs, list(found)


def _write_library(code: Code | str, path: str) -> None:
    """Write the output of a builder to a file, which appears under its name only when it is complete."""
    if isinstance(code, str):
        shutil.copyfile(code, path + ".part")
        os.replace(path + ".part", path)
        return

    def save(path: str, format: str) -> None:
        with open(path, "wb") as file:
            file.write(code.object)

    module = from_code(None, code.names, save=save)
    if code.device:
        module.import_module(load_device_module(code.device))
    module.export_library(path)


__all__ = ["CandidateFolder", "Kept", "Kernel"]
