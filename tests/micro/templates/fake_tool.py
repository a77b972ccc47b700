"""A replacement of ``arduino-cli`` and ``west`` for tests: ``compile`` and ``build`` compile the project for this
machine, with the headers in the folder ``stubs`` in place of those of Arduino and Zephyr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

STUBS = Path(__file__).resolve().parent / "stubs"
STRICT = ["-Wall", "-Wextra", "-Werror"]


def _compile(source: Path, *flags: str) -> str:
    target = f"build/{source.name}.o"
    compiler = "gcc" if source.suffix == ".c" else "g++"
    language = ["-std=c99"] if source.suffix == ".c" else ["-std=c++11", "-x", "c++"]
    # Arduino's tool inserts this line into sketches.
    language += ["-include", "Arduino.h"] if source.suffix == ".ino" else []
    subprocess.run([compiler, *language, *STRICT, *flags, "-c", str(source), "-o", target], check=True)
    return target


def _program(sources: list[Path], flags: list[str]) -> None:
    Path("build").mkdir(exist_ok=True)
    objects = [_compile(source, *flags) for source in sources]
    subprocess.run(["g++", *objects, "-lm", "-o", "build/program"], check=True)


def arduino(words: list[str]) -> None:
    if words[:2] == ["board", "list"]:
        print(os.environ["BOARDS"])
    elif words[0] == "compile":
        properties = [words[i + 1] for i, word in enumerate(words) if word == "--build-property"]
        flags = [
            flag for text in properties if text.startswith("compiler.c.") for flag in text.partition("=")[2].split()
        ]
        stubs = STUBS / "arduino"
        sketch = Path(f"{Path.cwd().name}.ino")
        sources = [*sorted(Path("src").glob("*.c*")), sketch, stubs / "main.cpp"]
        _program(sources, [f"-I{stubs}", *flags])
    elif words[0] != "upload":
        sys.exit(f"unknown command {words}")


def west(words: list[str]) -> None:
    words = [word for word in words if word != "--verbose"]
    if words[0] == "build":
        (flags,) = [word.partition("=")[2] for word in words if word.startswith("-DTVM_COMPILE_OPTIONS=")]
        stubs = STUBS / "zephyr"
        text = Path("CMakeLists.txt").read_text()
        assert "find_package(Zephyr REQUIRED" in text and "${TVM_COMPILE_OPTIONS}" in text
        sources = [*sorted(Path("src").glob("*.c")), stubs / "kernel.c"]
        _program(sources, [f"-I{stubs}", "-Isrc", *(flag for flag in flags.split(";") if flag)])
    elif words[0] != "flash":
        sys.exit(f"unknown command {words}")


def main() -> None:
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(json.dumps([name, *words]) + "\n")
    (west if name == "west" else arduino)(words)


if __name__ == "__main__":
    main()
