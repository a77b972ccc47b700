"""The source of the package, parsed once for all tests of its architecture."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tvm"


@functools.cache
def sources() -> dict[str, ast.Module]:
    """The syntax tree of every file of the package, by its path from the top folder."""
    files = sorted(PACKAGE.rglob("*.py"))
    # Half of the time would be spent by the collector in looking at nodes that all stay.
    gc.disable()
    try:
        return {p.relative_to(ROOT).as_posix(): ast.parse(p.read_text(encoding="utf-8"), str(p)) for p in files}
    finally:
        gc.enable()


def statements(tree: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement of a tree that runs, and whether it is inside a function. Imports and functions are statements,
    so expressions are not looked into."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, field, ()):
            if isinstance(node, ast.stmt):
                if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                    yield from statements(ast.Module(node.orelse, []), in_function)
                    continue
                yield node, in_function
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from statements(node, inside)
