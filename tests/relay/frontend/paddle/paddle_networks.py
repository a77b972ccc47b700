"""Whole networks: programs that PaddlePaddle wrote, and what it made of them with weights that a seed gives.
tools/paddle_reference.py writes networks.npz."""

from __future__ import annotations

import lzma
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tvm.relay.frontend.paddlepaddle.program import Program


@dataclass
class Network:
    """A program, its input and what PaddlePaddle made of it."""

    program: bytes = b""
    dtype: str = ""
    shape: tuple = ()
    expected: list = field(default_factory=list)


def weights(program: bytes | Program) -> dict[str, np.ndarray]:
    """Parameters of a program: drawn so that values keep their size from layer to layer."""
    out = {}
    for v in (program if isinstance(program, Program) else Program.read(program)).persistable():
        rng = np.random.default_rng(zlib.crc32(v.name.encode()))
        draw = rng.standard_normal(v.shape)
        if ".w_2" in v.name or ".w_0" in v.name and len(v.shape) == 1:
            draw = 0.5 + rng.random(v.shape)
        elif len(v.shape) > 1:
            draw = draw * math.sqrt(2.0 / max(math.prod(v.shape[1:]), 1)) if len(v.shape) == 4 else draw * 0.2
        else:
            draw = draw * 0.1
        out[v.name] = draw.astype(v.dtype)
    return out


def feeds(dtype: str, shape: tuple) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    x = rng.integers(1, 30, shape) if dtype == "int64" else rng.standard_normal(shape)
    return {"x": x.astype(dtype)}


def networks(file: str = "networks.npz") -> dict[str, Network]:
    """Networks by name; those of ``pir_networks.npz`` are programs of PaddlePaddle 3."""
    out: dict[str, Network] = {}
    with np.load(Path(__file__).with_name(file)) as arrays:
        for key in arrays:
            name, *rest = key.split("|")
            row = out.setdefault(name, Network())
            if rest[-1] == "program":
                data = arrays[key].tobytes()
                row.program = lzma.decompress(data) if file.startswith("pir") else data
            elif rest[-1] == "shape":
                row.dtype, row.shape = rest[0], tuple(int(d) for d in arrays[key])
            else:
                row.expected.append(arrays[key])
    return out
