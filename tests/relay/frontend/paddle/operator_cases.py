"""The cases of paddle_cases.py, each compared with what PaddlePaddle made of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
from paddle_cases import CASES, Case
from paddle_writer import write

import tvm
from tvm import relay
from tvm.relay.frontend import from_paddle
from tvm.runtime.vm import VirtualMachine

ORACLE = "PaddlePaddle 3.2 (real numbers within 1e-5, others exactly)"


@cache
def expected() -> dict[str, list]:
    """What PaddlePaddle made of each case."""
    out: dict[str, list] = {}
    with np.load(Path(__file__).with_name("cases.npz")) as arrays:
        for key in arrays:
            out.setdefault(key.rpartition("|")[0], []).append(arrays[key])
    return out


def imported(case: Case):
    """The module of a case, read from files."""
    with tempfile.TemporaryDirectory() as folder:
        return from_paddle(write(Path(folder), "model", case.program(), case.weights))[0]


def run(module, feeds: dict) -> list:
    """The outputs of a module that is compiled for this machine."""
    with tvm.transform.PassContext(opt_level=3):
        machine = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())
    machine.set_input("main", **{p.name_hint: feeds[p.name_hint] for p in module["main"].params})
    got = machine.invoke("main")
    return [g.numpy() for g in got] if not hasattr(got, "numpy") else [got.numpy()]


def compare(got: list, wanted: list, tolerance: float = 1e-5) -> None:
    assert len(got) == len(wanted)
    for value, other in zip(got, wanted):
        assert (value.shape, value.dtype) == (other.shape, other.dtype)
        if other.dtype.kind == "f":
            np.testing.assert_allclose(value, other, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(value, other)


def check(name: str) -> None:
    compare(run(imported(CASES[name]), CASES[name].feeds), expected()[name])


def cases() -> dict[str, Callable[[], None]]:
    return {name: partial(check, name) for name in CASES}
