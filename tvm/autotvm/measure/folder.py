"""Candidates as files, to be measured where only the runtime is (``python -m tvm.runtime.measure_files FOLDER``)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from ...driver.build_module import build
from ...error import TVMError
from ...runtime.measure_files import LIST, RECORDS, key_of, read_lines
from ..record import encode
from ..task.entity import InstantiationError
from .candidate import ENTRY, argument_info, instantiate
from .measure import MeasureErrorNo, MeasureInput, MeasureResult


def write_candidates(inputs: Iterable[MeasureInput], folder: str | os.PathLike) -> tuple[int, int]:
    """Build each input as a library in ``folder``; how many were built, and how many could not be.

    Those that could not are in the folder's records at once. What the folder has already is not built again.
    """
    path = os.fspath(folder)
    os.makedirs(path, exist_ok=True)
    rows = list(read_lines(os.path.join(path, LIST)))
    known = {key_of(row["record"]) for row in rows} | {key_of(r) for r in read_lines(os.path.join(path, RECORDS))}
    built = failed = 0
    with (
        open(os.path.join(path, LIST), "a", encoding="utf-8") as candidates,
        open(os.path.join(path, RECORDS), "a", encoding="utf-8") as records,
    ):
        for inp in inputs:
            record = json.loads(encode(inp, MeasureResult((0.0,), MeasureErrorNo.NO_ERROR, 0.0, 0.0)))
            if key_of(record) in known:
                continue
            known.add(key_of(record))
            name = f"{len(rows) + built:06d}.so"
            try:
                arguments = _write_one(inp, os.path.join(path, name))
            except (TVMError, InstantiationError, ValueError, RuntimeError) as error:
                kind = MeasureErrorNo.INSTANTIATION_ERROR
                records.write(encode(inp, MeasureResult((error,), kind, 0.0, 0.0)) + "\n")
                failed += 1
                continue
            assert inp.target is not None
            device = inp.target.get_target_device_type()
            row = {"file": name, "entry": ENTRY, "args": arguments, "device": device, "record": record}
            candidates.write(json.dumps(row) + "\n")
            built += 1
    return built, failed


def _write_one(inp: MeasureInput, path: str) -> list[tuple[tuple[int, ...], str]]:
    schedule, args = instantiate(inp)
    assert inp.target is not None
    with inp.target:
        library = build(schedule, args, target=inp.target, name=ENTRY)
    library.export_library(path)
    return argument_info(args)


__all__ = ["write_candidates"]
