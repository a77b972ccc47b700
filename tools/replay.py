"""Write the generated code of a fixed corpus into a folder, and compare two such folders.

    python tools/replay.py                          the working tree against HEAD
    python tools/replay.py main                     the working tree against a commit
    python tools/replay.py --write FOLDER           write the code of the imported package
    python tools/replay.py --compare BEFORE AFTER   compare two folders

The exit code is 1 if the code differs. The code of a commit is stored in build/replay and generated again only when the
corpus changes.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "replay"
# Maximum number of lines printed of the difference of one file, and of files whose difference is printed completely.
MOST_LINES, MOST_FILES = 40, 12


# Writing


def write(folder: Path, wanted: str, jobs: int) -> None:
    """Write the code of every case whose name contains ``wanted``; for a failing case, the error is the text."""
    import replay_corpus

    cases = [case for case in replay_corpus.cases() if wanted in "/".join(case)]
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs, initializer=leave_cuda_text) as pool:
        list(pool.map(write_case, [folder] * len(cases), cases))


def leave_cuda_text() -> None:
    """Compare CUDA as text; compiling it would take most of the time."""
    import tvm

    tvm.register_func("tvm_callback_cuda_compile", lambda text, target: "not compiled", override=True)


def write_case(folder: Path, case: tuple[str, str, str]) -> None:
    import replay_corpus

    _, name, target = case
    try:
        texts = replay_corpus.generate(*case)
    except Exception as error:  # a rejection is a result too, and may change
        texts = {"error": f"{type(error).__name__}: {error}\n", "traceback": traceback.format_exc()}
    for suffix, text in texts.items():
        path = folder / name / f"{target}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_writer(tree: Path, folder: Path, options: argparse.Namespace) -> None:
    """Write the code that the package in ``tree`` generates; the corpus is the one beside this file."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "TVM_NUM_THREADS": "1", "TOPHUB_LOCATION": "NONE"}
    arguments = ["--write", str(folder), "--only", options.only, "--jobs", str(options.jobs)]
    subprocess.run([sys.executable, str(Path(__file__).resolve()), *arguments], env=environment, check=True)


# Commits


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def code_of_commit(commit: str, options: argparse.Namespace) -> Path:
    """Return the folder with the code of a commit, which is checked out for it."""
    corpus = hashlib.sha256((ROOT / "tools" / "replay_corpus.py").read_bytes() + options.only.encode()).hexdigest()[:8]
    folder = KEPT / f"{git('rev-parse', commit + '^{commit}')[:12]}-{corpus}"
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(prefix="tvm-replay-") as temporary:
        tree, unfinished = Path(temporary) / "tree", Path(temporary) / "code"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            environment = {name: value for name, value in os.environ.items() if name != "OUT"}
            subprocess.run(["make", "--silent", "-C", str(tree / "csrc"), "lib"], env=environment, check=True)
            run_writer(tree, unfinished, options)
        finally:
            git("worktree", "remove", "--force", str(tree))
        KEPT.mkdir(parents=True, exist_ok=True)
        shutil.move(unfinished, folder)
    return folder


# Comparing


def files(folder: Path) -> dict[str, str]:
    # A traceback explains an error to a reader, but its line numbers change with the code.
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".traceback")
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def difference(name: str, before: str, after: str) -> Iterator[str]:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"before/{name}", f"after/{name}", lineterm=""
    )
    for number, line in enumerate(lines):
        if number == MOST_LINES:
            yield "... (the rest is left out)"
            return
        yield line


def compare(before_folder: Path, after_folder: Path) -> int:
    """Print the differences between two folders, and return the number of files that differ."""
    before, after = files(before_folder), files(after_folder)
    changed = [name for name in before if name in after and before[name] != after[name]]
    for name in changed[:MOST_FILES]:
        print(*difference(name, before[name], after[name]), "", sep="\n")
    for name in changed:
        old, new = before[name].splitlines(), after[name].splitlines()
        print(f"differs   {name} ({len(old)} lines, {len(new)} after)")
    gone, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    for word, names in (("is gone", gone), ("is new", new)):
        print(*(f"{word:<9} {name}" for name in names), sep="\n", end="\n" if names else "")
    print(f"{len(before)} files: {len(before) - len(changed) - len(gone)} are the same, {len(changed)} differ, "
          f"{len(gone)} are gone, {len(new)} are new")  # fmt: skip
    total = len(changed) + len(gone) + len(new)
    print(f"complete: diff -r {before_folder} {after_folder}" if total else "the generated code is the same")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="HEAD", help="commit to compare the working tree with")
    parser.add_argument("--write", metavar="FOLDER", type=Path)
    parser.add_argument("--compare", metavar=("BEFORE", "AFTER"), type=Path, nargs=2)
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this in kind/program/target")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.write is not None:
        write(options.write, options.only, options.jobs)
        return 0
    if options.compare is not None:
        return min(1, compare(*options.compare))
    before = code_of_commit(options.commit, options)
    after = KEPT / "working-tree"
    shutil.rmtree(after, ignore_errors=True)
    run_writer(ROOT, after, options)
    return min(1, compare(before, after))


if __name__ == "__main__":
    raise SystemExit(main())
