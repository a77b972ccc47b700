"""The C runtime is built of parts, one folder of ``csrc/src`` each, and calls between them go one way.

The test reads the symbols of the compiled objects: an unused include is not a call, and a call through a declaration
that is not in a header is one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

SOURCES = ROOT / "csrc" / "src"

# The parts each part may call. Core calls no part above it: they register with it in start.c, which may call all.
MAY_CALL = {
    "system": set(),
    "base": {"system"},
    "core": {"base", "system"},
    "external": {"base", "core", "system"},
    "graph": {"base", "core"},
    "vm": {"base", "core"},
    "rpc": {"base", "core", "system"},
    "devices/cuda": {"base", "core", "system"},
    "devices/opencl": {"base", "core", "system"},
    "datatypes": set(),
    ".": {"core", "devices/cuda", "devices/opencl", "external", "graph", "rpc", "vm"},
}


def part_of(source: Path) -> str:
    return source.parent.relative_to(SOURCES).as_posix()


def calls_against(allowed: dict[str, set[str]], defined: dict[str, str], used: dict[str, set[str]]) -> list[str]:
    """The uses of symbols of a part by another part that may not call it.

    ``defined`` gives the part of each symbol, ``used`` the symbols that each part uses.
    """
    return [
        f"{part} uses {symbol} of {defined[symbol]}"
        for part, symbols in sorted(used.items())
        for symbol in sorted(symbols)
        if symbol in defined and defined[symbol] not in allowed[part] | {part}
    ]


def symbols_of(compiled: Path) -> tuple[set[str], set[str]]:
    """The symbols that an object defines for others, and those it uses of others."""
    text = subprocess.run(["nm", "-g", compiled], check=True, capture_output=True, text=True).stdout
    entries = [line.split() for line in text.splitlines() if line]
    return {e[-1] for e in entries if e[-2] != "U"}, {e[-1] for e in entries if e[-2] == "U"}


@pytest.fixture(scope="module")
def objects(tmp_path_factory) -> dict[Path, Path]:
    """The compiled object of each source: those of the build, or new ones where a source has none."""
    if not shutil.which("nm") or not shutil.which("make"):
        pytest.skip("nm and make are needed to read the symbols of the runtime")
    sources = sorted(SOURCES.rglob("*.c"))
    build = ROOT / "csrc" / "build"
    made = made_in(build, sources)
    if any(not o.exists() or o.stat().st_mtime < source.stat().st_mtime for source, o in made.items()):
        build = tmp_path_factory.mktemp("build")
        folders = [f"TVM_BUILD_DIR={build}", f"TVM_LIB_DIR={build}"]
        subprocess.run(["make", "-s", "-C", ROOT / "csrc", "lib", "OPT=-O0", *folders], check=True)
    return made_in(build, sources)


def made_in(build: Path, sources: list[Path]) -> dict[Path, Path]:
    return {source: (build / source.relative_to(SOURCES)).with_suffix(".o") for source in sources}


@pytest.mark.slow("reads the symbols of every object file")
def test_calls_between_the_parts_of_the_runtime_go_one_way(objects):
    defined: dict[str, str] = {}
    used: dict[str, set[str]] = {}
    for source, compiled in objects.items():
        gives, takes = symbols_of(compiled)
        defined |= dict.fromkeys(gives, part_of(source))
        used.setdefault(part_of(source), set()).update(takes)
    assert set(used) == set(MAY_CALL), "a folder of csrc/src is missing in the table above, or is gone"
    assert not calls_against(MAY_CALL, defined, used)


def test_a_call_upward_is_found():
    defined = {"tvm_error": "base", "graph_run": "graph"}
    assert calls_against(MAY_CALL, defined, {"graph": {"tvm_error", "printf", "graph_run"}}) == []
    assert calls_against(MAY_CALL, defined, {"core": {"graph_run"}}) == ["core uses graph_run of graph"]


def test_the_order_of_the_parts_has_no_circle():
    left = dict(MAY_CALL)
    while free := [part for part, others in left.items() if not others & set(left)]:
        for part in free:
            del left[part]
    assert not left


@pytest.mark.parametrize("part", sorted(MAY_CALL))
def test_a_part_has_one_header_and_includes_only_those_it_may_call(part):
    folder = SOURCES / part
    headers = sorted(path.name for path in folder.glob("*.h"))
    assert headers == ([] if part in (".", "datatypes") else [f"{folder.name}.h"])
    for source in [*folder.glob("*.c"), *folder.glob("*.h")]:
        for name in re.findall(r'#include "(.+)"', source.read_text(encoding="utf-8")):
            included = (folder / name).resolve()
            if included.is_relative_to(ROOT / "csrc" / "include"):
                continue
            assert part_of(included) in MAY_CALL[part] | {part}, f"{source.name} includes {name}"
