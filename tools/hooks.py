"""The table of hooks in docs/map.md: `python tools/hooks.py` writes it again, --check only compares.

It is read from the source: a hook is a constant made by ``Hook("module.NAME", "what it does")``, and a module gives it
a function by ``NAME.give(...)`` or ``module.NAME.give(...)``.
"""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "docs" / "map.md"
BEGIN, END = "<!-- hooks: written by tools/hooks.py -->\n", "<!-- end of hooks -->\n"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.AST, path: Path) -> dict[str, str]:
    """What each name means that a file imports from others, as a dotted path."""
    package = module_of(path).split(".")[: None if path.name == "__init__.py" else -1]
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            found.update({alias.asname or alias.name: ".".join([*base, alias.name]) for alias in node.names})
    return found


def read(path: Path, text: str) -> tuple[dict[str, str], set[str]]:
    """The hooks that a file makes, with what they do, and those that it gives a function to."""
    tree, own = ast.parse(text), module_of(path)
    names, made, given = imported(tree, path), {}, set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "Hook":
            name, what = (ast.literal_eval(argument) for argument in node.args[:2])
            made[name] = what
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "give":
            head, _, rest = ast.unparse(node.func.value).partition(".")
            full = names.get(head, f"{own}.{head}") + (f".{rest}" if rest else "")
            given.add(full.removeprefix("tvm."))
    return made, given


@functools.cache
def table() -> str:
    """The hooks in order of their names."""
    hooks, givers = {}, {}
    for path in sorted((ROOT / "tvm").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if " = Hook(" in text or ".give(" in text:
            made, given = read(path, text)
            hooks.update(made)
            for name in given:
                givers.setdefault(name, []).append(module_of(path))
    rows = ["| hook | what its function does | given by |", "|---|---|---|"]
    for name in sorted(hooks):
        rows.append(f"| `{name}` | {hooks[name]} | {', '.join(f'`{module}`' for module in givers.get(name, []))} |")
    return "\n".join(rows) + "\n"


def difference(text: str) -> str:
    """The table as it should be where the text of the map has another; else nothing."""
    new = table()
    return "" if text.split(BEGIN)[1].split(END)[0] == new else new


def main() -> int:
    text = MAP.read_text(encoding="utf-8")
    new = difference(text)
    if new and "--check" not in sys.argv:
        before, rest = text.split(BEGIN)
        MAP.write_text(before + BEGIN + new + END + rest.split(END)[1], encoding="utf-8")
    elif new:
        print(f"docs/map.md lists other hooks than the code has; python tools/hooks.py writes:\n{new}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
