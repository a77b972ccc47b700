"""The table of hooks in docs/map.md: `python tools/hooks.py` writes it again, --check only compares."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "docs" / "map.md"
BEGIN, END = "<!-- hooks: written by tools/hooks.py -->\n", "<!-- end of hooks -->\n"


def table() -> str:
    """The hooks in order of their names, once all modules that give functions are loaded."""
    sys.path.insert(0, str(ROOT))
    for path in sorted((ROOT / "tvm").rglob("*.py")):
        if ".give(" in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))
    hooks = importlib.import_module("tvm.hooks").HOOKS
    rows = ["| hook | what its function does | given by |", "|---|---|---|"]
    for name in sorted(hooks):
        givers = ", ".join(f"`{module}`" for module in hooks[name].givers)
        rows.append(f"| `{name}` | {hooks[name].what} | {givers} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    text = MAP.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    new = table()
    if "--check" not in sys.argv:
        MAP.write_text(before + BEGIN + new + END + after, encoding="utf-8")
    elif old != new:
        print(f"docs/map.md lists other hooks than the code has; python tools/hooks.py writes:\n{new}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
