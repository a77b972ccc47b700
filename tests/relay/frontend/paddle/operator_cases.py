"""The cases of paddle_cases.py, each compared with what PaddlePaddle made of it."""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
from paddle_cases import CASES, Case
from paddle_older import OLDER, other_names
from paddle_writer import write

import tvm
from tvm import relay
from tvm.relay.frontend import from_paddle
from tvm.runtime.vm import VirtualMachine

ORACLE = (
    "PaddlePaddle 3.2 and 3.3 (floats within 1e-5, others exactly; .pdmodel and .json programs), or with NumPy "
    "(operators of older programs that PaddlePaddle 3 does not have)"
)


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


def check_older(name: str) -> None:
    """Raises where an operator of older programs does not give what NumPy gives."""
    case, wanted = OLDER[name]
    compare(run(imported(case), case.feeds), wanted)


def check_renamed(name: str) -> None:
    """Raises where another name of an operator does not give what PaddlePaddle made under the first one."""
    case, first = other_names()[name]
    wanted = dict(zip(CASES[first].fetches, expected()[first]))
    compare(run(imported(case), case.feeds), [wanted[f] for f in case.fetches])


# What PaddlePaddle's translation leaves out of a program, or asks of an input where the case has a weight.
_CHANGED = {
    "strided_slice/decrease", "fill_constant/text", "unsqueeze2/tensor", "concat/tensor", "linspace", "gather/axis",
    "top_k_v2/tensor", "fc", "conditional_block/run 1", "conditional_block/run -1", "select_input/known 1",
    "select_input/known -1", "write_to_array", "read_from_array/while", "lod_array_length", "tensor_array_to_tensor",
    *(f"reduce_{kind}/all" for kind in ("sum", "mean", "max", "min")),
}  # fmt: skip


@cache
def pir() -> dict[str, dict]:
    """The cases as programs of PaddlePaddle 3's intermediate representation."""
    found = json.loads(lzma.decompress(Path(__file__).with_name("pir.json.xz").read_bytes()))
    return {name: program for name, program in found.items() if name not in _CHANGED}


def check_pir(name: str) -> None:
    """Raises where such a program does not give what PaddlePaddle made of the case."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_text(json.dumps(pir()[name]))
        module = from_paddle(path)[0]
    compare(run(module, {**CASES[name].feeds, **CASES[name].weights}), expected()[name])


def cases() -> dict[str, Callable[[], None]]:
    newer = {f"{name}{'' if '/' in name else '/'} in .json": partial(check_pir, name) for name in pir()}
    older = {name: partial(check_older, name) for name in OLDER}
    older.update((name, partial(check_renamed, name)) for name in other_names())
    return {**{name: partial(check, name) for name in CASES}, **older, **newer}
