"""Create the development environment: a virtual environment with the dependencies of pyproject.toml and this tree in
its path.

    python3 tools/environment.py [--lowest] FOLDER [EXTRA ...]

With ``--lowest`` each package has the lowest version that pyproject.toml allows. If the machine lacks a tool, the
program prints it in one line and changes nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def missing_tools() -> list[str]:
    """Return the Debian packages that the machine lacks for a build from source."""
    lacks = []
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        lacks.append("python3-venv")
    compiler = next(filter(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang")), None)
    if compiler is None:
        lacks.append("gcc")
    elif subprocess.run([compiler, "-E", "-xc", "-"], input=b"#include <stdlib.h>", capture_output=True).returncode:
        lacks.append("libc6-dev")
    return lacks


def requirements(extras: list[str]) -> list[str]:
    """Return the dependencies of pyproject.toml with those of ``extras``."""
    try:
        import tomllib
    except ImportError:  # Python 3.10 has no TOML reader; pip contains one
        from pip._vendor import tomli as tomllib
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)["project"]
    return project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]


def lowest(requirement: str) -> str:
    """The requirement of the lowest version that this one allows, with the newest fixes of that version."""
    package, mark, condition = requirement.partition(";")
    return re.sub(r">=([\d.]+)", r"==\1.*", package) + mark + condition


def packages_of(python: str) -> str:
    """The folder of an environment's packages. Debian's Python has another one outside of environments, so that the
    environment's own interpreter is asked."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def create(folder: str, extras: list[str], has_lowest: bool = False) -> None:
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    wanted = [lowest(line) if has_lowest else line for line in requirements(extras)]
    print(f"installing {' '.join(wanted)} into {os.path.basename(folder)}", flush=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], check=True)
    with open(os.path.join(packages_of(python), "tvm_classic_tree.pth"), "w", encoding="utf-8") as file:
        file.write(ROOT + "\n")


def main() -> None:
    if sys.version_info < (3, 10):  # noqa: UP036 - runs under whatever python3 is
        sys.exit(f"TVM Classic needs Python 3.10 or newer; this is {sys.version.split()[0]} ({sys.executable})")
    lacks = missing_tools()
    if lacks:
        sys.exit(f"missing on this machine: {' '.join(lacks)}; on Debian: sudo apt-get install {' '.join(lacks)}")
    folder, *extras = [argument for argument in sys.argv[1:] if argument != "--lowest"]
    try:
        create(os.path.abspath(folder), extras, "--lowest" in sys.argv)
    except subprocess.CalledProcessError as error:
        sys.exit(f"cannot set up {folder}; this command failed: {' '.join(map(str, error.cmd))}")


if __name__ == "__main__":
    main()
