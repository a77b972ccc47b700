"""The pictures of the documents, made from what they show: results of benchmarks, and imports of the source.

    python3 tools/pictures.py    # writes them into docs/

They are drawn by ``tvm.drawing``. ``make docs`` draws them anew for the site.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import report  # noqa: E402
from tvm.drawing.chart import grouped_bars  # noqa: E402
from tvm.drawing.graph import Edge, Node, draw_graph  # noqa: E402

PACKAGE = ROOT / "tvm"
RESULTS = ROOT / "benchmarks" / "results"
# Parts of a package that stand higher than the rest of it.
APART = ("driver.tvmc", "relay.frontend", "autotvm.task.relay_integration", "tuning.relay_model", "autotvm.graph_tuner")


def newest(prefix: str) -> dict:
    """The last results of a kind; files are named by their date."""
    files = [path for path in RESULTS.glob("*.json") if re.fullmatch(prefix + r"\d{4}-\d\d-\d\d", path.stem)]
    return json.loads(max(files).read_text(encoding="utf-8"))


def models() -> str:
    """Times of models beside other runtimes."""
    return report.plot({key: row for key, row in newest("").items() if not report.is_variant(row)})


def gpu_models() -> str:
    """Times of models on a GPU beside PyTorch's."""
    found = newest("gpu-")
    ratios = {(row["model"], row["dtype"]): row["ratio"] for row in found["models"]}
    types = ("float32", "float16")
    rows = [
        (report.TITLES.get(name, name), [ratios.get((name, dtype)) for dtype in types])
        for name in dict.fromkeys(name for name, _ in ratios)
    ]
    return grouped_bars(f"time of ours / time of PyTorch, {found['device']}", types, rows, 1.2, 1.0).file()


def part_of(module: str) -> str:
    """The part of the package a module belongs to; files at its top are one."""
    name = module.removeprefix("tvm").removeprefix(".")
    for part in APART:
        if name == part or name.startswith(part + "."):
            return part
    first = name.partition(".")[0]
    return first if (PACKAGE / first).is_dir() and first else ""


@cache
def imports() -> Counter[tuple[str, str]]:
    """How many files of a part import another one, when they are loaded; the face of the package is left out."""
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        package = module.rpartition(".")[0].split(".")
        own = part_of(module.removesuffix(".__init__"))
        used = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                above = package[: len(package) - node.level + 1]
                base = [*above, *(node.module or "").split(".")] if node.module else above
                used.update(part_of(".".join([*base, alias.name])) for alias in node.names)
        found.update((own, other) for other in used if own and other and own != other)
    return found


def without_detours(edges: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges that are not implied by a longer way."""
    below: dict[str, set[str]] = {}
    for start, end in edges:
        below.setdefault(start, set()).add(end)

    def reaches(start: str, end: str) -> bool:
        seen, stack = {start}, [other for other in below.get(start, ()) if other != end]
        while stack:
            part = stack.pop()
            if part == end:
                return True
            if part not in seen:
                seen.add(part)
                stack += below.get(part, ())
        return False

    return sorted(edge for edge in edges if not reaches(*edge))


def layers() -> str:
    """The parts of the package and who imports whom: what is implied by a longer way is left out."""
    counted = imports()
    edges = {edge for edge, number in counted.items() if number >= counted[edge[::-1]]}
    files = Counter(part_of(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in PACKAGE.rglob("*.py"))
    names = sorted({part for edge in edges for part in edge})
    nodes = [Node(name, name.replace(".", "/"), [f"{files[name]} files"]) for name in names]
    return draw_graph("who imports whom", nodes, [Edge(*edge) for edge in without_detours(edges)]).file()


PICTURES = {"models.svg": models, "gpu_models.svg": gpu_models, "layers.svg": layers}


def write(folder: Path) -> None:
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "docs")
