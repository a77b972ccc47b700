"""Lines of code per part, the largest files, and the change since the last commit. A report; it never fails."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".c", ".h"}
LARGE = 800


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def part(path: Path) -> str:
    """The first two folders of a file of the package, else the first."""
    folders = path.parts[:-1]
    return "/".join(folders[:2] if folders[:1] == ("tvm",) else folders[:1]) or "."


def lines(path: Path) -> int:
    return len((ROOT / path).read_bytes().splitlines())


def main() -> None:
    names = git("ls-files", "--cached", "--others", "--exclude-standard")
    files = [Path(name) for name in names if Path(name).suffix in SUFFIXES and (ROOT / name).exists()]
    counts = {path: lines(path) for path in files}
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
    print(f"{'all':<20}{len(counts):>7}{sum(counts.values()):>8}{sum(change.values()):>+8}\n\nlargest files")
    for path, count in sorted(counts.items(), key=lambda item: -item[1])[:12]:
        print(f"{count:>6}  {path}{'  (over ' + str(LARGE) + ')' if count > LARGE else ''}")


main()
