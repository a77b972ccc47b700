"""Compare the cases of tests/relay/frontend/pytorch/cases.py with PyTorch, from a trace and from an exported
program, and write the table in docs/coverage.md. Run it with a Python that has PyTorch."""

from __future__ import annotations

import sys
import warnings
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "coverage.md"
BEGIN, END = "<!-- pytorch operators: begin -->", "<!-- pytorch operators: end -->"
_HEAD = """## PyTorch operators

{count} operators of TorchScript and exported programs; `python -m tools conformance pytorch` writes this table, here
with PyTorch {version}. Each case is a function that is traced and exported, with odd shapes and several element types;
outputs agree within 1e-4 of the largest value. An in-place operator has the row of its name without the last `_`.
"As": another name of an operator with cases. "In models": no separate case, see [the models](pytorch_models.md) and the
tests of scripts and quantized models.
"""


def check(name: str) -> tuple[str, str, list[str]]:
    """Return a case, its problem, and the operators from which it was converted."""
    warnings.filterwarnings("ignore")
    import torch

    from tests.relay.frontend.pytorch.cases import core_cases
    from tests.relay.frontend.pytorch.support import check as compare
    from tvm.relay.frontend.pytorch.importer import TorchImporter

    class Case(torch.nn.Module):
        def forward(self, *inputs):
            return function(*inputs)

    torch.set_num_threads(1)
    function, *inputs = core_cases()[name]
    used: set[str] = set()
    whole = TorchImporter.call

    def call(self, site, operator, *rest):
        used.add(operator)
        return whole(self, site, operator, *rest)

    TorchImporter.call, problem = call, ""
    try:
        for way in ("trace", "export"):
            compare(Case(), inputs, way, level=0)
    except Exception as found:
        problem = f"{type(found).__name__}: {' '.join(str(found).split())[:200]}"
    finally:
        TorchImporter.call = whole
    return name, problem, sorted(used)


def table(results: list[tuple[str, str, list[str]]], version: str) -> str:
    """Return a table with a row for each operator that has a converter, and the core operators without one, with the
    reason."""
    from tests.relay.frontend.pytorch.cases import LEFT_OUT
    from tvm.relay.frontend.pytorch.table import CONVERTERS

    names = CONVERTERS.names()
    cases = {n: [row[:2] for row in results if {n.partition(".")[0], f"{n.partition('.')[0]}_"} & set(row[2])]
             for n in names}  # fmt: skip
    # For each converter, an operator of it that has cases.
    twins = {CONVERTERS.find(n, 0): n for n in names if cases[n]}
    rows = ["| operator | cases | equal to PyTorch |", "|---|---|---|"]
    for operator, own in cases.items():
        bad = [f"{name}: {problem}" for name, problem in own if problem]
        twin = twins.get(CONVERTERS.find(operator, 0))
        seen = "yes" if own else f"as {twin}" if twin else "in models"
        rows.append(f"| {operator} | {len(own)} | {'; '.join(bad) or seen} |")
    tail = ["", "Core operators without a converter:", "", *(f"- {n}: {why}" for n, why in sorted(LEFT_OUT.items()))]
    return "\n".join([_HEAD.format(count=len(names), version=version), *rows, *tail])


def main() -> int:
    sys.path.insert(0, str(ROOT))
    import torch

    from tests.relay.frontend.pytorch.cases import core_cases

    with get_context("spawn").Pool(2) as pool:
        results = sorted(pool.imap_unordered(check, sorted(core_cases()), chunksize=8))
    wrong = [(name, problem) for name, problem, _ in results if problem]
    for name, problem in wrong:
        print(f"{name}: {problem}")
    print(f"{len(results) - len(wrong)} passed, {len(wrong)} failed")
    text, part = TABLE.read_text(), f"{BEGIN}\n{table(results, torch.__version__.partition('+')[0])}\n{END}"
    whole = text[: text.index(BEGIN)] + part + text[text.index(END) + len(END) :] if BEGIN in text else ""
    TABLE.write_text(whole or f"{text.rstrip()}\n\n{part}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
