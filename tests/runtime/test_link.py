"""Compilers for other machines are found, and said how to get; objects for other machines are told apart."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess

import pytest

import tvm
from tests.cpus import FOREIGN_TRIPLE
from tvm import te
from tvm.error import TVMError
from tvm.runtime import blob_object, host_cpu, link


def code_for(target: str):
    a = te.placeholder((8,), "float32", name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    return tvm.build(te.create_schedule(b.op), [a, b], target, name="add_one")


@pytest.fixture
def nothing_installed(monkeypatch):
    """A machine without compilers, but those a test puts on its PATH."""
    monkeypatch.setenv("PATH", "")
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.fixture
def compiler_named(tmp_path, monkeypatch, nothing_installed):
    """Puts a program on PATH that writes its arguments into the file that it is to make."""

    def make(name: str) -> str:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/sh\nall="$*"\nwhile [ "$1" != -o ]; do shift; done\necho "$all" > "$2"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(path.parent))
        return str(path)

    return make


@pytest.mark.parametrize("triple, name", [
    ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
    ("arm64-linux-gnu", "aarch64-linux-gnu"),
    ("armv7l-unknown-linux-gnueabihf", "arm-linux-gnueabihf"),
    ("armv8l-linux-gnueabihf", "arm-linux-gnueabihf"),
    ("armv7a-linux-gnueabi", "arm-linux-gnueabi"),
    ("riscv64-unknown-linux-gnu", "riscv64-linux-gnu"),
    ("x86_64-linux", "x86_64-linux-gnu"),
    ("aarch64-unknown-linux-musl", "aarch64-linux-musl"),
])  # fmt: skip
def test_compilers_are_called_by_a_plain_triple(triple, name):
    assert link.compilers_triple(triple) == name


def test_gcc_of_the_other_machine_is_found_before_zig(compiler_named, monkeypatch):
    foreign = compiler_named(f"{FOREIGN_TRIPLE}-gcc")
    monkeypatch.setattr(link, "_has_zig", lambda: True)
    assert link.find_cross_compiler(FOREIGN_TRIPLE) == [foreign]


def test_zig_is_found_where_no_gcc_is(nothing_installed, monkeypatch):
    monkeypatch.setattr(link, "_has_zig", lambda: True)
    command = link.find_cross_compiler("armv7l-unknown-linux-gnueabihf")
    assert command[1:] == ["-m", "ziglang", "cc", "-target", "arm-linux-gnueabihf"]


@pytest.mark.parametrize("triple, how", [
    ("riscv64-linux-gnu", "apt install gcc-riscv64-linux-gnu.*pip install 'tvm-classic.cross.'.*--cross-compiler"),
    ("armv7l-linux-gnueabihf", "apt install gcc-arm-linux-gnueabihf"),
    ("aarch64-unknown-linux-android", "from the vendor of that system"),
])  # fmt: skip
def test_a_missing_linker_is_named_with_the_way_to_get_one(triple, how, nothing_installed):
    with pytest.raises(TVMError, match=f"linking code for {triple} needs a compiler for that machine.*{how}"):
        link.find_cross_compiler(triple)


def test_a_cross_compiler_that_is_not_there_is_said_how_to_get(nothing_installed):
    with pytest.raises(TVMError, match="'x86_64-linux-gnu-gcc' was not found; .*apt install gcc-x86-64-linux-gnu"):
        link.find_compiler("x86_64-linux-gnu-gcc")


def test_code_for_another_machine_is_linked_by_its_compiler_unasked(compiler_named, tmp_path):
    compiler_named(f"{FOREIGN_TRIPLE}-gcc")
    module = code_for(f"llvm -mtriple={FOREIGN_TRIPLE}")
    module.export_library(tmp_path / "code.so", options=["-s"])
    told = (tmp_path / "code.so").read_bytes().split(b"\n")[0].decode()
    assert told.startswith("-shared") and " -s " in told and "lib0.o" in told


def test_exporting_code_for_another_machine_without_its_compiler_is_refused(nothing_installed, tmp_path):
    module = code_for(f"llvm -mtriple={FOREIGN_TRIPLE}")
    with pytest.raises(TVMError, match="needs a compiler for that machine"):
        module.export_library(tmp_path / "code.so")
    # An archive of objects needs no linker.
    module.export_library(tmp_path / "code.tar")
    with pytest.raises(TVMError, match=r"code.tar' was built for \S+, this machine is .*; link it there"):
        tvm.runtime.load_module(tmp_path / "code.tar")


def test_code_for_another_machine_says_so_when_it_is_called():
    with pytest.raises(TVMError, match=f"built for {FOREIGN_TRIPLE.split('-')[0]}.*; this machine is "):
        code_for(f"llvm -mtriple={FOREIGN_TRIPLE}")["add_one"]


def test_code_that_this_cpu_has_not_all_instructions_of_is_refused(monkeypatch):
    module = code_for("llvm")
    monkeypatch.setattr(host_cpu, "lacking", lambda features: ["sve"])
    with pytest.raises(TVMError, match="this machine lacks sve"):
        module["add_one"]


@pytest.mark.parametrize("machine, said", [
    (blob_object.Machine(183, 0, 2), "AArch64"), (blob_object.Machine(40, 0x5000000, 1), "ARM"),
    (blob_object.Machine(243, 5, 2), "RISC-V"), (blob_object.Machine(62, 0, 2), "X86-64"),
])  # fmt: skip
def test_objects_of_bytes_are_as_binutils_reads_them(machine, said, tmp_path):
    path = str(tmp_path / "data.o")
    blob_object.write(path, "payload", [b"01234", b"56789" + b"0123456789" * 12], machine)
    assert blob_object.machine_of(path) == machine
    english = {**os.environ, "LC_ALL": "C"}
    run = lambda *options: subprocess.run(["readelf", *options, path], capture_output=True, text=True, env=english)
    header, symbols = run("-hW").stdout, run("-sW").stdout
    assert said in header and f"Flags:                             {machine.flags:#x}" in header
    (row,) = [line.split() for line in symbols.splitlines() if line.endswith("payload")]
    assert row[2:6] == ["130", "OBJECT", "GLOBAL", "DEFAULT"]
    shown = run("-x", ".rodata")
    assert "0123456789012345" in shown.stdout and shown.stderr == ""


@pytest.mark.parametrize("triple, name", [
    ("x86_64-pc-windows-gnu", "x86_64-windows-gnu"), ("aarch64-pc-windows-gnu", "aarch64-windows-gnu"),
    ("arm64-apple-macosx11.0", "aarch64-macos"), ("x86_64-apple-darwin", "x86_64-macos"),
])  # fmt: skip
def test_zig_links_for_windows_and_macos(triple, name, nothing_installed, monkeypatch):
    with pytest.raises(TVMError, match=r"pip install 'tvm-classic\[cross\]'"):
        link.find_cross_compiler(triple)
    monkeypatch.setattr(link, "_has_zig", lambda: True)
    assert link.find_cross_compiler(triple)[-2:] == ["-target", name]


@pytest.mark.parametrize("triple, name", [
    ("x86_64-pc-windows-gnu", "coff"), ("arm64-apple-macosx11.0", "macho"), ("x86_64-linux-gnu", "elf"),
])  # fmt: skip
def test_the_format_of_an_object_is_found(triple, name, tmp_path):
    path = str(tmp_path / "code.o")
    code_for(f"llvm -mtriple={triple}").save(path)
    assert link.format_of(["other.c", path]) == name
