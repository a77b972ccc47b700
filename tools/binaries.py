"""Read the exports and imports of libraries of Windows (PE) and macOS (Mach-O)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Binary(NamedTuple):
    """A shared library: processor, exported names, and the imported names by library. Mach-O names have no leading
    underscore; a library whose imports cannot be attributed has the key ``""``."""

    machine: str
    exports: frozenset[str]
    imports: dict[str, frozenset[str]]


class Data:
    """Bytes that are read by offset; reading beyond the end raises ValueError."""

    def __init__(self, data: bytes):
        self.data = data

    def unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from("<" + layout, self.data, offset)
        except struct.error:
            raise ValueError(f"the file ends before offset {offset}") from None

    def text(self, offset: int) -> str:
        end = self.data.find(b"\0", offset)
        if not 0 <= offset < end:
            raise ValueError(f"there is no text at offset {offset}")
        return self.data[offset:end].decode("utf-8")


def read(path: Path) -> Binary:
    """Read a library.

    Raises
    ------
    ValueError
        The file has another format or is damaged.
    """
    data = Data(path.read_bytes())
    if data.data.startswith(b"MZ"):
        return _read_pe(data)
    if data.data.startswith(struct.pack("<I", 0xFEEDFACF)):
        return _read_macho(data)
    raise ValueError(f"{path} is neither a PE nor a 64-bit Mach-O file")


# ---- PE ----

_PE_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}
_BY_ORDINAL = 1 << 63


class _Sections:
    """Maps relative virtual addresses to file offsets."""

    def __init__(self, data: Data, offset: int, count: int):
        # Of each section: its size in memory, its address, its size in the file, its offset.
        self.rows = [data.unpack("IIII", offset + 40 * i + 8) for i in range(count)]

    def offset(self, address: int) -> int:
        for size, start, raw_size, raw in self.rows:
            if start <= address < start + max(size, raw_size):
                return raw + address - start
        raise ValueError(f"the address {address:#x} is in no section")


def _read_pe(data: Data) -> Binary:
    (head,) = data.unpack("I", 60)
    signature, machine, count, _, _, _, size = data.unpack("IHHIIIH", head)
    optional = head + 24
    if signature != 0x4550 or data.unpack("H", optional) != (0x20B,):
        raise ValueError("the file is not a 64-bit PE file")
    sections = _Sections(data, optional + size, count)
    exports, _, imports, _ = data.unpack("IIII", optional + 112)
    return Binary(
        _PE_MACHINES.get(machine, hex(machine)),
        frozenset(_pe_exports(data, sections, exports)) if exports else frozenset(),
        {name: frozenset(names) for name, names in _pe_imports(data, sections, imports)} if imports else {},
    )


def _pe_exports(data: Data, sections: _Sections, address: int) -> Iterator[str]:
    at = sections.offset(address)
    (count,) = data.unpack("I", at + 24)
    (names,) = data.unpack("I", at + 32)
    for i in range(count):
        (name,) = data.unpack("I", sections.offset(names) + 4 * i)
        yield data.text(sections.offset(name))


def _pe_imports(data: Data, sections: _Sections, address: int) -> Iterator[tuple[str, list[str]]]:
    at = sections.offset(address)
    while True:
        table, _, _, name, addresses = data.unpack("IIIII", at)
        if not name:
            return
        entries, names = sections.offset(table or addresses), []
        while entry := data.unpack("Q", entries)[0]:
            names.append(f"#{entry & 0xFFFF}" if entry & _BY_ORDINAL else data.text(sections.offset(entry) + 2))
            entries += 8
        yield data.text(sections.offset(name)), names
        at += 20


# ---- Mach-O ----

_MACHO_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
_SYMTAB, _LOAD_DYLIB, _LOAD_WEAK_DYLIB = 0x2, 0xC, 0x80000018
_STAB, _PRIVATE, _TYPE, _EXTERNAL = 0xE0, 0x10, 0x0E, 0x01


def _read_macho(data: Data) -> Binary:
    _, machine, _, _, count, _ = data.unpack("IIIIII", 0)
    at, libraries, symbols = 32, [], []
    for _ in range(count):
        command, size = data.unpack("II", at)
        if command in (_LOAD_DYLIB, _LOAD_WEAK_DYLIB):
            libraries.append(data.text(at + data.unpack("I", at + 8)[0]))
        if command == _SYMTAB:
            symbols = list(_macho_symbols(data, *data.unpack("III", at + 8)))
        at += size
    imports: dict[str, set[str]] = {name: set() for name in libraries}
    for name, defined, ordinal in symbols:
        if not defined:
            library = libraries[ordinal - 1] if 0 < ordinal <= len(libraries) else ""
            imports.setdefault(library, set()).add(name)
    return Binary(
        _MACHO_MACHINES.get(machine, hex(machine)),
        frozenset(name for name, defined, _ in symbols if defined),
        {library: frozenset(names) for library, names in imports.items()},
    )


def _macho_symbols(data: Data, offset: int, count: int, strings: int) -> Iterator[tuple[str, bool, int]]:
    """Yield name, whether the library defines the symbol, and the number of the library that does otherwise."""
    for i in range(count):
        text, kind, _, description, _ = data.unpack("IBBHQ", offset + 16 * i)
        if kind & (_STAB | _PRIVATE) or not kind & _EXTERNAL:
            continue
        yield data.text(strings + text).removeprefix("_"), bool(kind & _TYPE), description >> 8
