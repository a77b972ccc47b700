"""Writes object files that contain only data. A compiler would be slow for many megabytes of parameters."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

_ELF = b"\x7fELF"
_LITTLE = 1
_PROGBITS, _SYMTAB, _STRTAB, _ALLOC = 1, 2, 3, 2
_GLOBAL_OBJECT = 0x11
_ALIGNMENT = 64


class _Class(NamedTuple):
    """The layout of ELF records for one address width."""

    header: struct.Struct
    section: struct.Struct
    symbol: struct.Struct
    # The fields of a symbol, whose order differs between 32-bit and 64-bit files.
    symbol_fields: str


# By ELF class.
_CLASSES = {
    1: _Class(
        struct.Struct("<16sHHIIIIIHHHHHH"), struct.Struct("<10I"), struct.Struct("<IIIBBH"),
        "name value size info other section",
    ),
    2: _Class(
        struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"),
        "name info other section value size",
    ),
}  # fmt: skip

# ELF machine numbers by architecture; names that cover 32-bit and 64-bit machines are followed by the address width.
NUMBERS = {"x86_64": 62, "x8632": 3, "aarch64": 183, "arm32": 40, "riscv64": 243, "riscv32": 243, "ppc64": 21}
_NAMES = {62: "x86-64", 3: "32-bit x86", 183: "aarch64", 40: "32-bit Arm", 243: "RISC-V", 21: "POWER"}


class Machine(NamedTuple):
    """The machine of an object file: ELF machine number, flags (the calling convention on some machines), and ELF
    class."""

    number: int
    flags: int
    width: int

    @property
    def name(self) -> str:
        return _NAMES.get(self.number, f"the machine number {self.number}")


def machine_of(path: str) -> Machine | None:
    """Return the machine of a little-endian ELF object, or None for any other file."""
    with open(path, "rb") as file:
        head = file.read(_CLASSES[2].header.size)
    kind = _CLASSES.get(head[4]) if head.startswith(_ELF) and len(head) > 5 and head[5] == _LITTLE else None
    if kind is None or len(head) < kind.header.size:
        return None
    fields = kind.header.unpack_from(head)
    return Machine(fields[2], fields[7], head[4])


def write(path: str, symbol: str, parts: Sequence[bytes | bytearray], machine: Machine) -> None:
    """Write an object file for ``machine`` whose read-only data is ``parts``, under the global symbol ``symbol``."""
    length = sum(map(len, parts))
    kind = _CLASSES[machine.width]
    names = b"\0.rodata\0.note.GNU-stack\0.symtab\0.strtab\0"
    strings = b"\0" + symbol.encode() + b"\0"
    fields = {"name": 1, "value": 0, "size": length, "info": _GLOBAL_OBJECT, "other": 0, "section": 1}
    own = kind.symbol.pack(*(fields[name] for name in kind.symbol_fields.split()))
    symbols = b"\0" * kind.symbol.size + own
    data_at = _ALIGNMENT
    symbols_at = data_at + length + -length % 8
    strings_at = symbols_at + len(symbols)
    names_at = strings_at + len(strings)
    sections_at = names_at + len(names)
    sections_at += -sections_at % 8

    def section(
        name: str, kind_of: int, flags: int, at: int, size: int, link: int, info: int, align: int, item: int
    ) -> bytes:
        place = names.index(b"\0" + name.encode() + b"\0") + 1
        return kind.section.pack(place, kind_of, flags, 0, at, size, link, info, align, item)

    table = b"\0" * kind.section.size
    table += section(".rodata", _PROGBITS, _ALLOC, data_at, length, 0, 0, _ALIGNMENT, 0)
    # Marks the stack as not executable; linkers assume an executable stack for objects without this section.
    table += section(".note.GNU-stack", _PROGBITS, 0, symbols_at, 0, 0, 0, 1, 0)
    table += section(".symtab", _SYMTAB, 0, symbols_at, len(symbols), 4, 1, 8, kind.symbol.size)
    table += section(".strtab", _STRTAB, 0, strings_at, len(strings), 0, 0, 1, 0)
    # The names of the sections; a section may have no name.
    table += kind.section.pack(0, _STRTAB, 0, 0, names_at, len(names), 0, 0, 1, 0)
    ident = _ELF + bytes([machine.width, _LITTLE, 1]) + b"\0" * 9
    sizes = (kind.header.size, 0, 0, kind.section.size, 6, 5)
    header = kind.header.pack(ident, 1, machine.number, 1, 0, 0, sections_at, machine.flags, *sizes)
    with open(path, "wb") as file:
        file.write(header)
        file.seek(data_at)
        file.writelines(parts)
        for at, part in ((symbols_at, symbols), (strings_at, strings), (names_at, names), (sections_at, table)):
            file.seek(at)
            file.write(part)
