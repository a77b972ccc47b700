"""A case: a small program of one or a few operators, with its inputs."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np
from paddle_writer import program

from tvm.relay.frontend.paddlepaddle.schema import NUMBERS

F32, I32, I64, BOOL = (NUMBERS[n] for n in ("float32", "int32", "int64", "bool"))


@dataclass
class Case:
    """Operators, inputs and parameters by name, and the variables that are compared."""

    operators: list
    feeds: dict
    fetches: list
    weights: dict = field(default_factory=dict)
    blocks: list = field(default_factory=list)
    kinds: dict = field(default_factory=dict)
    # Sizes that the program leaves open, by input.
    opened: dict = field(default_factory=dict)
    # Inputs whose rows PaddlePaddle is told to be one sequence.
    one_sequence: tuple = ()

    def shapes(self, name: str) -> tuple:
        shape = self.feeds[name].shape
        return tuple(-1 if i in self.opened.get(name, ()) else d for i, d in enumerate(shape))

    def program(self, framed: bool = True, complete=lambda row: row) -> bytes:
        feeds = {n: (self.shapes(n), str(a.dtype)) for n, a in self.feeds.items()}
        blocks = [[complete(row) for row in rows] for rows in self.blocks]
        return program(
            [complete(row) for row in self.operators],
            feeds,
            self.fetches,
            self.weights,
            blocks,
            self.kinds,
            framed=framed,
        )


CASES: dict[str, Case] = {}


def case(name: str, inputs: dict, attrs: dict | None = None, out="Out", weights=(), opened=None) -> None:
    """A program of one operator: what is not among ``weights`` is fed. ``out`` are the outputs that are compared, with
    a number behind those of many variables."""
    feeds, params, slots = {}, {}, {}
    for parameter, values in inputs.items():
        many = values if isinstance(values, list) else [values]
        names = [f"{parameter}_{i}" for i in range(len(many))]
        (params if parameter in weights else feeds).update(zip(names, many))
        slots[parameter] = names
    outputs, fetches = {}, []
    for part in out.split():
        parameter, _, count = part.partition("*")
        outputs[parameter] = [f"{parameter}_out{i}" for i in range(int(count or 1))]
        fetches += outputs[parameter]
    axes = {f"{parameter}_0": rows for parameter, rows in (opened or {}).items()}
    row = (name.split("/")[0], slots, outputs, attrs or {})
    CASES[name] = Case([row], feeds, fetches, params, opened=axes)


def real(name: str, *shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.uniform(low, high, shape).astype(dtype)


def whole(name: str, *shape: int, low: int = 0, high: int = 5, dtype: str = "int64") -> np.ndarray:
    return np.random.default_rng(zlib.crc32(name.encode())).integers(low, high, shape).astype(dtype)


__all__ = ["BOOL", "CASES", "F32", "I32", "I64", "Case", "case", "real", "whole"]
