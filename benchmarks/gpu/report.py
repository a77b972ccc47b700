"""Results of ``python -m benchmarks.gpu`` as one object and as tables, beside the project's targets."""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from typing import Any

from ..report import TITLES
from .jobs import Outcome

# The model's time divided by PyTorch's: required, and aimed at.
MODEL_BARS = {
    ("resnet50", "float32"): (0.75, 0.5), ("resnet50", "float16"): (1.0, 0.7),
    ("resnet18", "float32"): (0.70, 0.5), ("resnet18", "float16"): (1.0, 0.8),
    ("mobilenet_v2", "float32"): (0.75, 0.5), ("mobilenet_v2", "float16"): (0.7, 0.5),
    ("vgg16", "float32"): (0.80, 0.6), ("vgg16", "float16"): (1.05, 0.9),
    ("bert_base_s128", "float32"): (1.0, 0.9), ("bert_base_s128", "float16"): (1.0, 0.85),
}  # fmt: skip
# The speed of a matmul divided by cuBLAS's, at least; the target of warpgroups (sm_90a) is higher.
PRODUCT_BARS = {("float32", False): 0.8, ("float16", False): 0.45, ("float16", True): 0.7}


def collect(folder: str, facts: dict[str, Any], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return all results as one object."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    tested = {name: os.path.join(folder, f"{name}.xml") for name in by_name}
    return {
        **facts,
        "jobs": [dataclasses.asdict(outcome) for outcome in outcomes],
        "tests": {name: counts(path) for name, path in tested.items() if os.path.exists(path)},
        "failures": {o.name: last_lines(os.path.join(folder, o.name + ".txt")) for o in outcomes if is_bad(o)},
        "models": rows_of(folder, "model-*", by_name),
        "matmul": rows_of(folder, "matmul-*", by_name),
        "operators": rows_of(folder, "operators-*", by_name),
        "tuning": rows_of(folder, "tuning", by_name),
    }


def is_bad(outcome: dict[str, Any] | Outcome) -> bool:
    status = outcome["status"] if isinstance(outcome, dict) else outcome.status
    return status != "passed"


def is_good(results: dict[str, Any]) -> bool:
    """Return whether everything ran and passed."""
    return not any(is_bad(job) for job in results["jobs"])


def rows_of(folder: str, pattern: str, by_name: dict[str, Outcome]) -> list[dict[str, Any]]:
    """Return the rows that programs of this run wrote."""
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, pattern + ".json"))):
        if os.path.splitext(os.path.basename(path))[0] in by_name:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            rows += found if isinstance(found, list) else [found]
    return rows


def counts(path: str) -> dict[str, Any]:
    """Return the outcome of a test run, and the names of failed tests."""
    try:
        suites = xml.parse(path).getroot().iter("testsuite")
        found = {"passed": 0, "failed": 0, "skipped": 0, "names": []}
        for suite in suites:
            numbers = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
            failed = numbers["failures"] + numbers["errors"]
            found["failed"] += failed
            found["skipped"] += numbers["skipped"]
            found["passed"] += numbers["tests"] - failed - numbers["skipped"]
            found["names"] += [f"{case.get('classname')}.{case.get('name')}" for case in suite.iter("testcase")
                               if case.find("failure") is not None or case.find("error") is not None]  # fmt: skip
        return found
    except (OSError, xml.ParseError) as error:
        return {"passed": 0, "failed": 1, "skipped": 0, "names": [f"{os.path.basename(path)}: {error}"]}


def last_lines(path: str, number: int = 25) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(line[:300] for line in file.readlines()[-number:])


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def result_rows(results: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of result files: of models, and of matmuls."""
    models = [
        {"name": TITLES.get(row["model"], row["model"]), "group": row["dtype"],
         "values": {"ours": row["ours_ms"], "PyTorch": row["torch_ms"]}, "details": row} for row in results["models"]
    ]  # fmt: skip
    matmuls = [
        {"name": f"{row['dtype']}, {row['target'].rpartition('=')[2]}", "input": row["size"],
         "values": {"ours": row["ours_tflops"], "cuBLAS": row["cublas_tflops"]}, "details": row}
        for row in results["matmul"]
    ]  # fmt: skip
    return models, matmuls


def tables(results: dict[str, Any]) -> str:
    """Return all results as text."""
    bad = [job for job in results["jobs"] if is_bad(job)]
    head = (f"# {results['device']}, {results['date']}\n\nTarget `{results['target']}`, commit {results['commit']}, "
            f"{results['cores']} cores, {results['seconds']:.0f} s in all; {len(results['jobs']) - len(bad)} of "
            f"{len(results['jobs'])} programs passed.")  # fmt: skip
    sections = [head, *(make(results) for make in (checks, models, products, operators, searches, programs, failures))]
    return "\n\n".join(section for section in sections if section) + "\n"


def checks(results: dict[str, Any]) -> str:
    rows = [(name, row["passed"], row["failed"], row["skipped"], "; ".join(row["names"][:5]))
            for name, row in results["tests"].items()]  # fmt: skip
    return "## Checks\n\n" + table(("tests", "passed", "failed", "skipped", "failed are"), rows) if rows else ""


def models(results: dict[str, Any]) -> str:
    rows = []
    for row in results["models"]:
        bar, aim = MODEL_BARS.get((row["model"], row["dtype"]), ("", ""))
        verdict = "" if bar == "" else "yes" if row["ratio"] <= bar else "NO"
        rows.append((row["model"], row["dtype"], f"{row['ours_ms']:.3f}", f"{row['torch_ms']:.3f}",
                     f"{row['ratio']:.2f}", bar, aim, verdict, f"{row['error']:.1e}", f"{row['torch_error']:.1e}",
                     f"{row['compile_s']:.1f}"))  # fmt: skip
    names = ("model", "type", "ours, ms", "PyTorch, ms", "ratio", "target", "aim", "met", "error", "PyTorch's error",
             "compile, s")  # fmt: skip
    return "## Models\n\n" + table(names, rows) if rows else ""


def products(results: dict[str, Any]) -> str:
    rows = []
    for row in results["matmul"]:
        by_warpgroups = "sm_90a" in row["target"]
        bar = PRODUCT_BARS.get((row["dtype"], by_warpgroups), "")
        verdict = "" if bar == "" else "yes" if row["ratio"] >= bar else "NO"
        name = f"{row['size']} cubed, {row['dtype']}" + (", warpgroups" if by_warpgroups else "")
        rows.append((name, f"{row['ours_tflops']:.1f}", f"{row['cublas_tflops']:.1f}",
                     f"{row['ratio']:.2f}", bar, verdict, f"{row['error']:.1e}"))  # fmt: skip
    head = ("matmul", "ours, TFLOPS", "cuBLAS, TFLOPS", "ratio", "target", "met", "error")
    return "## Products\n\n" + table(head, rows) if rows else ""


def operators(results: dict[str, Any]) -> str:
    rows = []
    for row in results["operators"]:
        times = {key: value for key, value in row.items() if key.endswith("_us")}
        errors = [value for key, value in row.items() if key.startswith("error")]
        rows.append((row["name"], ", ".join(f"{key[:-3]} {value:.1f}" for key, value in times.items()),
                     f"{max(errors):.1e}" if errors else ""))  # fmt: skip
    return "## Operators\n\n" + table(("operator", "microseconds", "error"), rows) if rows else ""


def searches(results: dict[str, Any]) -> str:
    parts = []
    for found in results["tuning"]:
        said = (f"{found['records']} records in {found['seconds']:.0f} s, "
                f"{found['records'] / max(found['seconds'], 1e-9):.1f} a second; "
                + ", ".join(f"{name} {count}" for name, count in found["results"].items()))  # fmt: skip
        rows = [(row["task"], row["trials"], f"{row['untuned_us']:.1f}" if row["untuned_us"] else "",
                 f"{row['best_us']:.1f}" if row["best_us"] else "") for row in found["tasks"]]  # fmt: skip
        parts.append(said + "\n\n" + table(("task", "trials", "untuned, us", "best, us"), rows))
    return "## Tuning\n\n" + "\n\n".join(parts) if parts else ""


def programs(results: dict[str, Any]) -> str:
    rows = [(job["name"], job["status"], f"{job['seconds']:.0f}", f"{job['turn']:.0f}" if job["turn"] else "")
            for job in results["jobs"]]  # fmt: skip
    return "## Programs\n\n" + table(("program", "", "work, s", "timing, s"), rows)


def failures(results: dict[str, Any]) -> str:
    parts = [f"### {name}\n\n```\n{text.rstrip()}\n```" for name, text in results["failures"].items() if text.strip()]
    return "## What went wrong\n\n" + "\n\n".join(parts) if parts else ""


__all__ = ["collect", "is_good", "tables"]
