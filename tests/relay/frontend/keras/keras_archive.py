"""The models of cases.tar.xz: their files, inputs and what Keras made of them."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A model as an HDF5 file and as an archive, with inputs and expected outputs."""

    name: str
    h5: bytes
    archive: bytes
    feeds: dict
    wanted: list

    def file(self, ending: str) -> bytes:
        return self.h5 if ending == "h5" else self.archive


@cache
def cases() -> dict[str, Case]:
    with tarfile.open(Path(__file__).parent / "cases.tar.xz") as archive:
        found = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
    out = {}
    for name, row in json.loads(found["index.json"]).items():
        feeds = {k: _array(found[f"{name}/in/{k}"], *v) for k, v in row["inputs"].items()}
        wanted = [_array(found[f"{name}/out/{i}"], *v) for i, v in enumerate(row["outputs"])]
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            for member in ("metadata.json", "config.json", "model.weights.h5"):
                file.writestr(member, found[f"{name}.keras/{member}"])
        out[name] = Case(name, found[f"{name}.h5"], packed.getvalue(), feeds, wanted)
    return out


def _array(data: bytes, dtype: str, shape: list) -> np.ndarray:
    return np.frombuffer(data, dtype).reshape(shape)
