"""Tile registers of x86 (AMX) on machines that have none: their instructions become calls of functions in C."""

from __future__ import annotations

import ctypes
import functools
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

TARGET = "llvm -mattr=+amx-tile,+amx-bf16,+amx-int8"


@functools.cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiles.so"
        source = Path(__file__).with_name("tiles.c")
        command = [shutil.which("cc") or "gcc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", path, source]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _call(b, name: str, *arguments: tuple[str, str]) -> str:
    if name in ("tileloadd64", "tileloaddt164", "tilestored64"):
        b.forget_memory()
    name = name.replace("loaddt1", "loadd")
    function = b.module.declare(f"emulated_{name}", "void", ", ".join(t for t, _ in arguments))
    b.line(f"call void {function}({', '.join(f'{t} {x}' for t, x in arguments)})")
    return "0"


@contextmanager
def registers() -> Iterator[None]:
    """A scope in which code for tile registers runs on any machine, whatever the features of its target."""
    _library()
    from tvm.codegen.llvm import tiles

    with (
        mock.patch.object(tiles, "_call", _call),
        mock.patch.object(tiles, "_begin", lambda b, sizes: _call(b, "ldtilecfg", ("ptr", sizes))),
    ):
        yield


@contextmanager
def emulated() -> Iterator[str]:
    """A scope in which code for tile registers runs here; gives the target."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("tile registers are of x86")
    from tvm.runtime import host_cpu

    with registers(), mock.patch.object(host_cpu, "lacking", lambda features: []):
        yield TARGET
