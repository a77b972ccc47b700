"""Weights beside an ONNX model: random records of where they lie are read as the format says, or refused; nothing
outside the model's folder is ever read, whatever they name."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from tvm.error import TVMError
from tvm.relay.frontend.onnx.external import Folder

CASES = int(os.environ.get("TVM_FUZZ_CASES", "500"))
BATCH = 250
# Bytes of the files inside the folder; a byte above them comes from outside.
INSIDE, SECRET = 200, 0xEE
SIZES = {"w.bin": 64, "sub/w.bin": 40, "sub/deep/v": 7, "empty": 0}
TYPES = {TensorProto.UINT8: 1, TensorProto.INT16: 2, TensorProto.FLOAT: 4, TensorProto.DOUBLE: 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model's folder with files, links and a pipe in it, and a secret beside it."""
    top = tmp_path_factory.mktemp("external")
    (top / "secret.bin").write_bytes(bytes([SECRET]) * 4096)
    inner = top / "model"
    (inner / "sub" / "deep").mkdir(parents=True)
    for number, (name, size) in enumerate(SIZES.items()):
        (inner / name).write_bytes(bytes((7 * number + i) % INSIDE for i in range(size)))
    os.symlink(top / "secret.bin", inner / "link")
    os.symlink("w.bin", inner / "alias")
    os.symlink("..", inner / "up")
    os.link(top / "secret.bin", inner / "hard")
    os.mkfifo(inner / "pipe")
    return inner


class Draw:
    """A record of external data, drawn, and what the format says of it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        kind = self.rng.choice(list(TYPES))
        dims = [self.rng.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(self.rng.randrange(4))]
        self.size = size = TYPES[kind] * int(np.prod(dims))
        drawn = {
            "location": self._location(),
            "offset": self._number([0, 4, 8, 16, 39, 40, 64]),
            "length": self._number([size, size, size, size, size + 1, max(size - 1, 0)]),
        }
        self.keys = [(key, value) for key, value in drawn.items() if value is not None]
        if self.rng.random() < 0.05:
            more = [("location", "w.bin"), ("basepath", ".."), ("checksum", "00")]
            self.keys.append(self.rng.choice([*self.keys, *more]))
        self.rng.shuffle(self.keys)
        self.tensor = TensorProto(name="w", data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in self.keys:
            self.tensor.external_data.add(key=key, value=value)

    def _location(self) -> str | None:
        if self.rng.random() < 0.7:
            plain = self.rng.choice(list(SIZES))
            return self.rng.choice([plain, plain, "./" + plain, plain.replace("/", "//"), plain.replace("/", "/./")])
        parts = ["w.bin", "sub", "deep", "v", "..", ".", "", "link", "alias", "up", "hard", "pipe", "secret.bin",
                 "model", "none", "w.bin\0", "~", "\\", "C:", "$HOME", str(self.folder.parent)]  # fmt: skip
        if self.rng.random() < 0.05:
            return None
        return "/".join(self.rng.choice(parts) for _ in range(self.rng.randrange(1, 5)))

    def _number(self, likely: list[int]) -> str | None:
        odd = ["-1", "", " 4", "4 ", "+4", "4.0", "1e1", "0x10", "٤", "9" * 19, "9" * 40, "00", "nan", "4\0"]
        pick = self.rng.random()
        return None if pick < 0.25 else self.rng.choice(odd) if pick < 0.35 else str(self.rng.choice(likely))

    def wanted(self) -> bytes | None:
        """The bytes of the weight, or None where the record is wrong."""
        given = dict(self.keys)
        location = given.get("location")
        if len(given) != len(self.keys) or not set(given) <= {"location", "offset", "length"} or location is None:
            return None
        numbers = [given[key] for key in ("offset", "length") if key in given]
        if any(not (n.isascii() and n.isdigit() and len(n) < 19) for n in numbers):
            return None
        # ``..`` is refused as such, so a path is plain when its parts name a file; parts that say nothing are left out.
        plain = "/".join(part for part in location.split("/") if part not in ("", "."))
        if location.startswith("/") or plain not in SIZES:
            return None
        offset, length = int(given.get("offset", 0)), int(given.get("length", self.size))
        if length != self.size or offset + length > SIZES[plain]:
            return None
        return (self.folder / plain).read_bytes()[offset : offset + length]


@pytest.mark.parametrize("batch", range((CASES + BATCH - 1) // BATCH))
def test_random_external_data_is_read_as_the_format_says_or_refused(batch, seed, folder):
    met = {True: 0, False: 0}
    for number in range(BATCH):
        case = Draw(seed * 100_000 + batch * BATCH + number, folder)
        label = f"case {number} of batch {batch}: {case.keys}, {case.size} bytes"
        want = case.wanted()
        try:
            got = Folder(str(folder)).array(case.tensor)
        except TVMError as problem:
            assert want is None, f"{label}: {problem}"
            assert "weight 'w'" in str(problem), label
        else:
            assert want is not None, f"{label}: read as {got}"
            assert got.tobytes() == want and got.shape == tuple(case.tensor.dims), label
        met[want is None] += 1
    assert min(met.values()) > BATCH // 50, f"the cases are one-sided: {met}"
