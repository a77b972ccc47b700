"""The pictures of the documentation: the charts of the performance page and the import graph of the package.

    python -m tools pictures    # writes them into docs/

``tvm.drawing`` draws them. ``make docs`` draws them for the site; ``python -m tools performance`` writes the charts
and their tables.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import performance  # noqa: E402
from tvm.drawing.graph import Edge, Node, draw_graph  # noqa: E402

PACKAGE = ROOT / "tvm"
# Parts of a package that are in a higher layer than the rest of the package.
APART = ("driver.tvmc", "relay.frontend", "autotvm.task.relay_integration", "tuning.relay_model", "autotvm.graph_tuner")


def part_of(module: str) -> str:
    """Return the part of the package that a module belongs to; the files directly in it are one part, ""."""
    name = module.removeprefix("tvm").removeprefix(".")
    for part in APART:
        if name == part or name.startswith(part + "."):
            return part
    first = name.partition(".")[0]
    return first if (PACKAGE / first).is_dir() and first else ""


@cache
def imports() -> Counter[tuple[str, str]]:
    """Count, for each pair of parts, the files of one that import the other when they are loaded.

    The part of the files directly in the package is left out.
    """
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
    """Return the edges that no longer path implies."""
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
    """Draw the parts of the package and their imports, without the edges that a longer path implies."""
    counted = imports()
    edges = {edge for edge, number in counted.items() if number >= counted[edge[::-1]]}
    files = Counter(part_of(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in PACKAGE.rglob("*.py"))
    names = sorted({part for edge in edges for part in edge})
    nodes = [Node(name, name.replace(".", "/"), [f"{files[name]} files"]) for name in names]
    return draw_graph("who imports whom", nodes, [Edge(*edge) for edge in without_detours(edges)]).file()


def write(folder: Path) -> None:
    """Write all pictures into the folder of the documentation, the charts into its subfolder ``performance``."""
    (folder / "performance").mkdir(parents=True, exist_ok=True)
    for name, text in performance.charts().items():
        (folder / "performance" / name).write_text(text, encoding="utf-8")
    (folder / "layers.svg").write_text(layers(), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "docs")
