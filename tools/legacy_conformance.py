"""Run the cases of an older format's importer and write their table in docs/coverage.md.

    python tools/legacy_conformance.py caffe [part of a case's name]

The cases are in tests/relay/frontend/FORMAT/operator_cases.py: ``cases()`` returns, by name ("Operator", or
"Operator/variant"), a function that raises if the importer's output is not the expected one, and ``ORACLE`` names the
reference. ``OPERATORS``, if the module has it, lists the rows; otherwise the rows are those of the importer's table of
converters. ``inside(case)``, if the module has it, returns the operators that a case contains besides the one in its
name. A converter without a case is an error.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from functools import cache
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "coverage.md"
# The package of the importer and the name of the format in texts, by the folder of its tests.
FORMATS = {
    "caffe": ("caffe", "Caffe"),
    "caffe2": ("caffe2", "Caffe2"),
    "cntk": ("cntk", "CNTK"),
    "coreml": ("coreml", "CoreML"),
    "darknet": ("darknet", "DarkNet"),
    "mxnet": ("mxnet", "MXNet"),
    "paddle": ("paddlepaddle", "PaddlePaddle"),
}


@cache
def cases_module(name: str):
    """Return the module of the cases of a format; each process runs it once."""
    folder = ROOT / "tests" / "relay" / "frontend" / name
    for path in (str(ROOT), str(folder.parent), str(folder)):
        if path not in sys.path:
            sys.path.insert(0, path)
    spec = importlib.util.spec_from_file_location(f"{name}_operator_cases", folder / "operator_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def cases_of(name: str) -> dict:
    """Return the cases of a format by name."""
    return cases_module(name).cases()


def check(row: tuple[str, str]) -> tuple[str, str]:
    """Return a case and its problem, which is "" if it passes."""
    name, case = row
    try:
        cases_of(name)[case]()
    except Exception as problem:
        return case, f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
    return case, ""


def operators(name: str) -> list[str]:
    """Return the operators that an importer converts."""
    found = getattr(cases_module(name), "OPERATORS", None)
    if found is not None:
        return list(found)
    package, _ = FORMATS[name]
    importlib.import_module(f"tvm.relay.frontend.{package}")
    return importlib.import_module(f"tvm.relay.frontend.{package}.table").CONVERTERS.names()


def cases_by_operator(name: str, cases) -> dict[str, list[str]]:
    """Return the cases of each operator of an importer."""
    inside = getattr(cases_module(name), "inside", lambda case: ())
    found: dict[str, list[str]] = {operator: [] for operator in operators(name)}
    for case in sorted(cases):
        for operator in {case.split("/")[0], *inside(case)}:
            if operator in found:
                found[operator].append(case)
    return found


def without_case(name: str) -> list[str]:
    """Return the operators that an importer converts and that have no case."""
    return [operator for operator, own in cases_by_operator(name, cases_of(name)).items() if not own]


def table(name: str, results: dict[str, str]) -> str:
    """Return a table with a row for each operator that has a converter."""
    title = FORMATS[name][1]
    oracle = getattr(cases_module(name), "ORACLE", title)
    rows = ["| operator | cases | equal |", "|---|---|---|"]
    names = operators(name)
    for operator, own in cases_by_operator(name, results).items():
        bad = [f"{n}: {results[n]}".replace("|", "\\|") for n in own if results[n]]
        rows.append(f"| {operator} | {len(own)} | {'; '.join(bad) or ('yes' if own else 'no case')} |")
    head = (
        f"## {title} operators\n\n{len(names)} operators, compared with {oracle}; `python -m tools "
        f"conformance {name}` writes this table.\n"
    )
    return "\n".join([head, *rows])


def write(name: str, results: dict[str, str]) -> None:
    begin, end = (f"<!-- {name} operators: {word} -->" for word in ("begin", "end"))
    text = TABLE.read_text()
    part = f"{begin}\n{table(name, results)}\n{end}"
    if begin in text:
        text = text[: text.index(begin)] + part + text[text.index(end) + len(end) :]
    else:
        text = f"{text.rstrip()}\n\n{part}\n"
    TABLE.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="run the cases of an older format's importer")
    parser.add_argument("format", choices=sorted(FORMATS))
    parser.add_argument("match", nargs="?", default="", help="run cases with this text in their names; write no table")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    names = [n for n in cases_of(args.format) if args.match in n]
    with get_context("spawn").Pool(args.jobs) as pool:
        results = dict(pool.imap_unordered(check, [(args.format, n) for n in names], chunksize=4))
    for name, problem in sorted(results.items()):
        if problem:
            print(f"{name}: {problem}")
    wrong = sum(1 for problem in results.values() if problem)
    print(f"{len(results) - wrong} passed, {wrong} failed")
    missing = without_case(args.format)
    if missing:
        print("converters without a case:", ", ".join(missing))
    if not args.match:
        write(args.format, results)
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
