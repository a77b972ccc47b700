"""Print the lines of code per part, the largest files, and the change since the last commit.

Docstrings are documentation and do not count. ``tests/architecture`` limits the size of files and functions.
"""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".c", ".h"}


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def part(path: Path) -> str:
    """Return the first two folders of a file of the package, else the first folder."""
    folders = path.parts[:-1]
    return "/".join(folders[:2] if folders[:1] == ("tvm",) else folders[:1]) or "."


def docstring_lines(node: ast.AST) -> int:
    """Return the number of lines of a node's own docstring."""
    first = next(iter(getattr(node, "body", [])), None)
    value = first.value if isinstance(first, ast.Expr) else None
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return (value.end_lineno or 0) - value.lineno + 1 if is_text else 0


def described_lines(tree: ast.AST) -> int:
    """Return the number of lines of the docstrings of all functions and classes of a tree."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return sum(docstring_lines(node) for node in ast.walk(tree) if isinstance(node, kinds))


def lines_of_code(text: str) -> int:
    """Return the number of lines of a Python file without the docstrings of its functions and classes."""
    return len(text.splitlines()) - described_lines(ast.parse(text))


def lines_of(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    return lines_of_code(text) if path.suffix == ".py" else len(text.splitlines())


def count_lines() -> dict[Path, int]:
    names = git("ls-files", "--cached", "--others", "--exclude-standard")
    files = [Path(name) for name in names if Path(name).suffix in SUFFIXES and (ROOT / name).exists()]
    return {path: lines_of(ROOT / path) for path in files}


def print_parts(counts: dict[Path, int]) -> None:
    change: Counter[str] = Counter()
    for row in git("diff", "--numstat", "HEAD"):
        added, removed, name = row.split("\t")
        if added != "-" and Path(name).suffix in SUFFIXES:
            change[part(Path(name))] += int(added) - int(removed)
    totals: Counter[str] = Counter()
    for path, count in counts.items():
        totals[part(path)] += count
    print(f"{'part':<20}{'files':>7}{'lines':>8}{'change':>8}")
    for name, total in sorted(totals.items()):
        print(f"{name:<20}{sum(part(path) == name for path in counts):>7}{total:>8}{change[name]:>+8}")
    print(f"{'all':<20}{len(counts):>7}{sum(counts.values()):>8}{sum(change.values()):>+8}")


def main() -> None:
    counts = count_lines()
    print_parts(counts)
    print("\nlargest files")
    for path, count in sorted(counts.items(), key=lambda item: -item[1])[:12]:
        print(f"{count:>6}  {path}")


if __name__ == "__main__":
    main()
