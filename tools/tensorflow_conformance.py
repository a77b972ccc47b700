"""Compare the graphs of tests/relay/frontend/tensorflow/cases.npz with the stored outputs of TensorFlow, and write
the table in docs/coverage.md."""

from __future__ import annotations

import sys
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "relay" / "frontend" / "tensorflow"
sys.path[:0] = [str(ROOT)]
TABLE = ROOT / "docs" / "coverage.md"
BEGIN, END = "<!-- tensorflow operators: begin -->", "<!-- tensorflow operators: end -->"


class Case:
    """A graph, its inputs and the outputs of TensorFlow."""

    def __init__(self) -> None:
        self.graph = b""
        self.feeds: dict = {}
        self.expected: list = []

    @property
    def outputs(self) -> list[str]:
        return [f"y{i}" for i in range(len(self.expected))]


def cases() -> dict[str, Case]:
    """Return all cases by name: the operator, and the variant after a slash."""
    import numpy as np

    out: dict[str, Case] = {}
    with np.load(FOLDER / "cases.npz") as arrays:
        for key in arrays:
            name, _, part = key.rpartition("|")
            case = out.setdefault(name, Case())
            if part == "graph":
                case.graph = arrays[key].tobytes()
            elif part.startswith("x"):
                case.feeds[part] = arrays[key]
            else:
                case.expected.append(arrays[key])
    return out


def run_module(module, feeds: dict) -> list:
    """Return the outputs of a module compiled for the VM on this machine."""
    import tvm
    from tvm import relay
    from tvm.runtime.vm import VirtualMachine

    with tvm.transform.PassContext(opt_level=3):
        machine = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())
    machine.set_input("main", **{p.name_hint: feeds[p.name_hint] for p in module["main"].params})
    got = machine.invoke("main")
    return [g.numpy() for g in got] if not hasattr(got, "numpy") else [got.numpy()]


def difference(case: Case) -> str:
    """Return the problem of the outputs of a case; "" if they are correct."""
    from tvm.relay.frontend import from_tensorflow

    return compared(run_module(from_tensorflow(case.graph, outputs=case.outputs)[0], case.feeds), case.expected)


def compared(got: list, expected: list, tolerance: float = 1e-5) -> str:
    import numpy as np

    if len(got) != len(expected):
        return f"{len(expected)} outputs are wanted, got {len(got)}"
    for value, wanted in zip(got, expected):
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            return f"{wanted.dtype}{list(wanted.shape)} is wanted, got {value.dtype}{list(value.shape)}"
        if wanted.dtype.kind == "f":
            loose = tolerance if wanted.dtype != "float16" else 2e-3
            if not np.allclose(value, wanted, rtol=loose, atol=loose, equal_nan=True):
                return f"off by {np.abs(value - wanted).max()}"
        elif (value != wanted).any():
            return f"{(value != wanted).sum()} of {wanted.size} numbers are wrong"
    return ""


def check(name: str) -> tuple[str, str]:
    try:
        return name, difference(cases()[name])
    except Exception as problem:
        return name, f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"


def table(results: dict[str, str]) -> str:
    """Return a table with a row for each operator that has a converter."""
    from tvm.relay.frontend.tensorflow.table import CONVERTERS

    rows = ["| operator | cases | equal to TensorFlow |", "|---|---|---|"]
    names = CONVERTERS.names()
    for operator in names:
        own = [n for n in results if n.split("/")[0].split(".")[0] == operator]
        bad = [f"{n}: {results[n]}" for n in own if results[n]]
        rows.append(f"| {operator} | {len(own)} | {'; '.join(bad) or ('yes' if own else 'in graphs')} |")
    head = (
        f"## TensorFlow operators\n\n{len(names)} operators; `python -m tools conformance tensorflow` writes "
        'this table. Float outputs agree within 1e-5, integers exactly. "In graphs": tested in whole models and '
        "by separate tests.\n"
    )
    return "\n".join([head, *rows])


def main(match: str = "") -> int:
    names = [n for n in cases() if match in n]
    with get_context("spawn").Pool(2) as pool:
        results = dict(pool.imap_unordered(check, names, chunksize=8))
    for name, problem in sorted(results.items()):
        if problem:
            print(f"{name}: {problem}")
    wrong = sum(1 for p in results.values() if p)
    print(f"{len(results) - wrong} passed, {wrong} failed")
    if not match:
        text = TABLE.read_text()
        part = f"{BEGIN}\n{table(results)}\n{END}"
        if BEGIN in text:
            text = text[: text.index(BEGIN)] + part + text[text.index(END) + len(END) :]
        else:
            text = f"{text.rstrip()}\n\n{part}\n"
        TABLE.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
