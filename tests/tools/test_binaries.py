"""The reader of PE and Mach-O libraries, on files that are made here and on damaged ones."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import binaries
import platforms


def pe(exports: list[str]) -> bytes:
    """A PE library of aarch64 with one section at address 0x1000: exports, and Sleep imported from KERNEL32.dll."""
    base, head = 0x1000, 0x400
    names_at = base + 40
    texts = names_at + 4 * len(exports)
    addresses, text = [], b""
    for name in exports:
        addresses.append(texts + len(text))
        text += name.encode() + b"\0"
    section = struct.pack("<24xI", len(exports)) + struct.pack("<III", 0, names_at, 0)
    section += struct.pack(f"<{len(exports)}I", *addresses) + text
    imports = base + len(section)
    strings = imports + 40 + 16
    section += struct.pack("<IIIII", imports + 40, 0, 0, strings + 8, imports + 40) + b"\0" * 20
    section += struct.pack("<QQ", strings, 0) + b"\0\0Sleep\0" + b"KERNEL32.dll\0"
    directories = struct.pack("<IIII", base, 40, imports, 40)
    optional = (struct.pack("<H", 0x20B) + b"\0" * 110 + directories).ljust(240, b"\0")
    row = b".rdata\0\0" + struct.pack("<IIII", len(section), base, len(section), head) + b"\0" * 16
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", 0xAA64, 1, 0, 0, 0, len(optional), 0x2000)
    return (b"MZ" + b"\0" * 58 + struct.pack("<I", 64) + coff + optional + row).ljust(head, b"\0") + section


def macho(exports: list[str]) -> bytes:
    """A Mach-O library of arm64: exports, and _malloc imported from libSystem."""
    library = b"/usr/lib/libSystem.B.dylib\0".ljust(32, b"\0")
    dylib = struct.pack("<IIIIII", 0xC, 24 + len(library), 24, 0, 0, 0) + library
    symbols_at = 32 + len(dylib) + 24
    texts, entries = b"\0", b""
    for name, kind, description in [*((name, 0x0F, 0) for name in exports), ("malloc", 0x01, 0x100)]:
        entries += struct.pack("<IBBHQ", len(texts), kind, 1, description, 0)
        texts += b"_" + name.encode() + b"\0"
    table = struct.pack("<IIIIII", 2, 24, symbols_at, len(exports) + 1, symbols_at + len(entries), len(texts))
    head = struct.pack("<IIIIIIII", 0xFEEDFACF, 0x0100000C, 0, 6, 2, len(dylib) + len(table), 0, 0)
    return head + dylib + table + entries + texts


FILES = {"pe": pe, "macho": macho}
ORIGINS = {"pe": {"KERNEL32.dll": {"Sleep"}}, "macho": {"/usr/lib/libSystem.B.dylib": {"malloc"}}}


@pytest.mark.parametrize("kind", FILES)
def test_exports_and_imports_are_read(kind, tmp_path):
    path = tmp_path / "library"
    path.write_bytes(FILES[kind](["TVMFuncCall", "TVMModFree"]))
    assert binaries.read(path) == ("aarch64", {"TVMFuncCall", "TVMModFree"}, ORIGINS[kind])
    assert platforms.problems_of(path, "aarch64", {"TVMFuncCall", "TVMModFree"}) == []
    assert platforms.problems_of(path, "x86_64", {"TVMFuncCall", "TVMOther"}) == [
        "built for aarch64 instead of x86_64", "does not export TVMOther",
        "exports TVMModFree, which the header does not declare",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_damaged_libraries_are_rejected_or_read(kind, tmp_path, seed):
    draw = random.Random(seed)
    whole = FILES[kind](["TVMFuncCall", "TVMModFree"])
    path = tmp_path / "library"
    for _ in range(200):
        data = bytearray(whole[: draw.choice([len(whole), draw.randrange(len(whole))])])
        for _ in range(draw.randrange(4) if data else 0):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            binaries.read(path)
        except ValueError:
            pass


def test_platforms_are_chosen_by_a_part_of_their_names():
    assert [item.tag for item in platforms.chosen("win")] == ["win_amd64", "win_arm64"]
    assert len(platforms.chosen("")) == len(platforms.PLATFORMS)
    with pytest.raises(ValueError, match="no platform contains 'beos'"):
        platforms.chosen("beos")


def test_the_header_declares_what_the_libraries_export():
    assert {"TVMFuncCall", "TVMModLoadFromFile", "TVMRPCServerRun"} <= platforms.declared_functions()
