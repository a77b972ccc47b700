"""Object files that hold bytes, written without a compiler: parameters of many megabytes are no source text."""

from __future__ import annotations

import struct

_ELF = b"\x7fELF"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LITTLE_64 = (2, 1)
_PROGBITS, _SYMTAB, _STRTAB, _ALLOC = 1, 2, 3, 2
_ALIGNMENT = 64


def machine_of(path: str) -> tuple[int, int] | None:
    """Machine number and flags of a 64-bit little-endian ELF object; None for any other file."""
    with open(path, "rb") as file:
        head = file.read(_HEADER.size)
    if len(head) < _HEADER.size or not head.startswith(_ELF) or tuple(head[4:6]) != _LITTLE_64:
        return None
    fields = _HEADER.unpack(head)
    return fields[2], fields[7]


def write(path: str, symbol: str, data: bytes, machine: tuple[int, int]) -> None:
    """An object for ``machine`` whose read-only data is ``data``, under the global name ``symbol``."""
    names = b"\0.rodata\0.note.GNU-stack\0.symtab\0.strtab\0"
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + _SYMBOL.pack(1, 0x11, 0, 1, 0, len(data))
    data_at = _ALIGNMENT
    symbols_at = data_at + len(data) + -len(data) % 8
    strings_at = symbols_at + len(symbols)
    names_at = strings_at + len(strings)
    sections_at = names_at + len(names)
    sections_at += -sections_at % 8

    def section(
        name: str, kind: int, flags: int, at: int, size: int, link: int, info: int, align: int, item: int
    ) -> bytes:
        return _SECTION.pack(
            names.index(b"\0" + name.encode() + b"\0") + 1, kind, flags, 0, at, size, link, info, align, item
        )

    table = _SECTION.pack(*(0,) * 10)
    table += section(".rodata", _PROGBITS, _ALLOC, data_at, len(data), 0, 0, _ALIGNMENT, 0)
    # Says that the stack need not be executable, which linkers assume of an object without this section.
    table += section(".note.GNU-stack", _PROGBITS, 0, symbols_at, 0, 0, 0, 1, 0)
    table += section(".symtab", _SYMTAB, 0, symbols_at, len(symbols), 4, 1, 8, _SYMBOL.size)
    table += section(".strtab", _STRTAB, 0, strings_at, len(strings), 0, 0, 1, 0)
    # The names of the sections themselves; a section may go without a name.
    table += _SECTION.pack(0, _STRTAB, 0, 0, names_at, len(names), 0, 0, 1, 0)
    ident = _ELF + bytes([*_LITTLE_64, 1]) + b"\0" * 9
    header = _HEADER.pack(
        ident, 1, machine[0], 1, 0, 0, sections_at, machine[1], _HEADER.size, 0, 0, _SECTION.size, 6, 5
    )
    with open(path, "wb") as file:
        file.write(header)
        for at, part in (
            (data_at, data),
            (symbols_at, symbols),
            (strings_at, strings),
            (names_at, names),
            (sections_at, table),
        ):
            file.seek(at)
            file.write(part)
