"""Write the table of hooks in docs/map.md: `python -m tools hooks`; with --check, only compare it.

The table is read from the source: a hook is a constant ``Hook("module.NAME", "description")``, and a module gives it a
function with a statement ``NAME.give(...)`` or ``module.NAME.give(...)``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "docs" / "map.md"
BEGIN, END = "<!-- hooks: written by tools/hooks.py -->\n", "<!-- end of hooks -->\n"


def _for_the_checker(test: ast.expr) -> bool:
    return getattr(test, "id", None) == "TYPE_CHECKING" or getattr(test, "attr", None) == "TYPE_CHECKING"


def statements(tree: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield every statement of a tree that runs, and whether it is inside a function. Imports and functions are
    statements, so expressions are not visited."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, field, ()):
            if isinstance(node, ast.stmt):
                if isinstance(node, ast.If) and _for_the_checker(node.test):
                    yield from statements(ast.Module(node.orelse, []), in_function)
                    continue
                yield node, in_function
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from statements(node, inside)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.AST, path: Path) -> dict[str, str]:
    """Return the dotted path of each name that a file imports."""
    package = module_of(path).split(".")[: None if path.name == "__init__.py" else -1]
    found = {}
    for node, _ in statements(tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            found.update({alias.asname or alias.name: ".".join([*base, alias.name]) for alias in node.names})
    return found


def read(path: Path, text: str) -> tuple[dict[str, str], set[str]]:
    """Return the hooks that a file defines, with their descriptions, and the hooks to which it gives a function."""
    tree, own = ast.parse(text), module_of(path)
    names, made, given = imported(tree, path), {}, set()
    for node, _ in statements(tree):
        call = node.value if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign) else None
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Name) and call.func.id == "Hook":
            name, what = (ast.literal_eval(argument) for argument in call.args[:2])
            made[name] = what
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "give":
            head, _, rest = ast.unparse(call.func.value).partition(".")
            full = names.get(head, f"{own}.{head}") + (f".{rest}" if rest else "")
            given.add(full.removeprefix("tvm."))
    return made, given


def package() -> dict[str, str]:
    """Return the text of every file of the package, by its path from the top folder."""
    paths = (ROOT / "tvm").rglob("*.py")
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def table(texts: dict[str, str]) -> str:
    """Return the table of hooks in order of their names."""
    hooks, givers = {}, {}
    for name in sorted(texts):
        path, text = ROOT / name, texts[name]
        if " = Hook(" in text or ".give(" in text:
            made, given = read(path, text)
            hooks.update(made)
            for hook in given:
                givers.setdefault(hook, []).append(module_of(path))
    rows = ["| hook | what its function does | given by |", "|---|---|---|"]
    for name in sorted(hooks):
        rows.append(f"| `{name}` | {hooks[name]} | {', '.join(f'`{module}`' for module in givers.get(name, []))} |")
    return "\n".join(rows) + "\n"


def difference(text: str, new: str) -> str:
    """Return the correct table if the text of the map differs from it, else ""."""
    return "" if text.split(BEGIN)[1].split(END)[0] == new else new


def main() -> int:
    text = MAP.read_text(encoding="utf-8")
    new = difference(text, table(package()))
    if new and "--check" not in sys.argv:
        before, rest = text.split(BEGIN)
        MAP.write_text(before + BEGIN + new + END + rest.split(END)[1], encoding="utf-8")
    elif new:
        print(f"docs/map.md and the code have different hooks; python -m tools hooks writes:\n{new}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
