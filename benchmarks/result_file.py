"""Result files: one JSON file per run in ``benchmarks/results``, in the schema of ``benchmarks/results/README.md``."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from .harness import commit
from .machine import cpu_name

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "results"
# QUESTION-MACHINE-DATE.json; further runs of a day end in -2, -3, ...
NAME = re.compile(r"(?P<question>[a-z0-9-]+?)-(?P<machine>[a-z0-9]+)-(?P<date>\d{4}-\d\d-\d\d)(?:-(?P<run>\d+))?")
FIELDS = {"question", "date", "machine", "commit", "versions", "command", "method", "unit", "rows"}
OPTIONAL = {"notes"}
ROW_FIELDS = {"name", "values"}
ROW_OPTIONAL = {"input", "group", "unit", "ratios", "details"}
MACHINES = ("any", "arm", "cascadelake", "h200", "neoverse", "sapphirerapids", "x86", "xeon")


def problems(stem: str, data: dict[str, Any]) -> list[str]:
    """Return the differences between a result file and the schema; ``stem`` is the file name without its suffix."""
    found = []
    name = NAME.fullmatch(stem)
    if name is None:
        found.append(f"the file name {stem} is not QUESTION-MACHINE-DATE")
    else:
        found += [
            f"{field} is {data.get(field)!r}, the file name has {name[field]!r}"
            for field in ("question", "date")
            if data.get(field) != name[field]
        ]
        if name["machine"] not in MACHINES:
            found.append(f"unknown machine {name['machine']!r}; known: {', '.join(MACHINES)}")
    found += _fields("the file", data, FIELDS, OPTIONAL)
    for number, row in enumerate(data.get("rows", [])):
        found += _fields(f"row {number}", row, ROW_FIELDS, ROW_OPTIONAL)
        values = [*row.get("values", {}).values(), *row.get("ratios", {}).values()]
        found += [f"row {number}: {value!r} is not a number" for value in values if not _is_number(value)]
    return found


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or a number and its 95 % interval."""
    numbers = value if isinstance(value, list) and len(value) == 3 else [value]
    return all(isinstance(n, int | float) and n == n for n in numbers)


def _fields(where: str, data: dict[str, Any], required: set[str], optional: set[str]) -> list[str]:
    missing, unknown = required - data.keys(), data.keys() - required - optional
    return [f"{where}: missing field {f!r}" for f in sorted(missing)] + [
        f"{where}: unknown field {f!r}" for f in sorted(unknown)
    ]


def write(
    question: str,
    machine: str,
    rows: list[dict[str, Any]],
    *,
    unit: str,
    description: str,
    command: str,
    method: str,
    versions: dict[str, str],
    folder: Path = FOLDER,
) -> Path:
    """Write a run of today at the current commit and return its path.

    ``machine`` is one of ``MACHINES``; ``description`` is the machine in words. A second run of the same question on
    the same machine and day gets the suffix ``-2``.
    """
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    data = {
        "question": question,
        "date": date,
        "machine": description,
        "commit": commit(),
        "versions": versions,
        "command": command,
        "method": method,
        "unit": unit,
        "rows": rows,
    }
    path, run = folder / f"{question}-{machine}-{date}.json", 1
    while path.exists():
        run += 1
        path = folder / f"{question}-{machine}-{date}-{run}.json"
    wrong = problems(path.stem, data)
    if wrong:
        raise ValueError(f"{path.name} does not follow the schema of benchmarks/results/README.md: {wrong[0]}")
    path.write_text(text(data), encoding="utf-8")
    return path


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--record MACHINE`` to the command line of a benchmark."""
    parser.add_argument(
        "--record", default="", metavar="MACHINE", choices=MACHINES,
        help="also write a result file to benchmarks/results, for MACHINE: " + ", ".join(MACHINES),
    )  # fmt: skip


def record(
    machine: str,
    question: str,
    rows: list[dict[str, Any]],
    *,
    unit: str,
    command: str,
    method: str,
    versions: dict[str, str] | None = None,
    folder: Path = FOLDER,
) -> None:
    """Write a run on this machine, described by its number of cores and its processor, if ``machine`` is given."""
    if not machine:
        return
    description = f"{len(os.sched_getaffinity(0))} cores, {cpu_name()}"
    path = write(
        question, machine, rows, unit=unit, description=description, command=command, method=method,
        versions=versions or {}, folder=folder,
    )  # fmt: skip
    print(f"wrote {path.name}; python -m tools performance shows it")


def installed(packages: dict[str, str], python: str = sys.executable) -> dict[str, str]:
    """Return the installed versions of packages (title -> distribution) in a Python, without missing packages."""
    program = (
        "import importlib.metadata as m, json, sys; names = set(json.loads(sys.argv[1])); "
        "print(json.dumps({d.name: d.version for d in m.distributions() if d.name in names}))"
    )
    done = subprocess.run(
        [python, "-c", program, json.dumps(sorted(packages.values()))], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    return {title: found[name].partition("+")[0] for title, name in packages.items() if name in found}


def text(data: dict[str, Any]) -> str:
    """Return the JSON of a result file, one line for each row."""
    fields = {field: data[field] for field in data if field != "rows"}
    head = json.dumps({**fields, "rows": []}, indent=1, ensure_ascii=False)
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in data["rows"])
    return head.removesuffix("[]\n}") + f"[\n{rows}\n ]\n}}\n"


def newest(question: str, machine: str, folder: Path = FOLDER) -> Path | None:
    """Return the newest result file of a question on a machine, or None."""
    found = []
    for path in folder.glob(f"{question}-{machine}-*.json"):
        name = NAME.fullmatch(path.stem)
        if name and (name["question"], name["machine"]) == (question, machine):
            found.append((name["date"], int(name["run"] or 1), path))
    return max(found)[2] if found else None


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
