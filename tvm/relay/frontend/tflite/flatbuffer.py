"""Reading of flatbuffers that can be damaged: each offset is checked against the buffer before it is followed.

A table is read by a schema of its fields: ``"axis:i32 beta:f32=1 inputs:[i32] name:str tensors:[Tensor]"``, in the
order of their slots. ``_`` is a slot that is not read. Schemas are not recursive, so that reading terminates; the
elements that are read are counted, so that a file with excessively many references to the same data is rejected.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from ....error import TVMError

_NUMBERS = {
    "bool": ("?", 1), "i8": ("b", 1), "u8": ("B", 1), "i32": ("<i", 4), "u32": ("<I", 4), "i64": ("<q", 8),
    "u64": ("<Q", 8), "f32": ("<f", 4), "f64": ("<d", 8), "i16": ("<h", 2), "u16": ("<H", 2),
}  # fmt: skip
# Each element of a vector occupies space in the file; a shared element is read again for each reference. The number of
# elements read is limited to this multiple of the file size in bytes.
_SHARING = 4


class _Field(NamedTuple):
    name: str
    kind: str
    default: Any


@cache
def _fields(description: str) -> tuple[_Field, ...]:
    rows = []
    for part in description.split():
        name, _, kind = part.partition(":")
        kind, _, default = kind.partition("=")
        number = _NUMBERS.get(kind)
        value: Any = None
        if number is not None:
            value = float(default or 0) if kind in ("f32", "f64") else int(default or 0)
            value = bool(value) if kind == "bool" else value
        rows.append(_Field(name, kind, value))
    return tuple(rows)


class Flatbuffer:
    """A buffer and the schemas of its tables by name."""

    def __init__(self, data, tables: Mapping[str, str]):
        self.data = memoryview(data).cast("B")
        self.tables = tables
        self._left = _SHARING * len(self.data) + 1024

    def root(self, name: str) -> SimpleNamespace:
        """Return the root table of the buffer."""
        return self._table(self._offset(0), name)

    def default(self, name: str) -> SimpleNamespace:
        """Return a table in which all fields have their defaults."""
        return SimpleNamespace(
            **{
                f.name: f.default if not f.kind.startswith("[") else None
                for f in _fields(self.tables[name])
                if f.name != "_"
            }
        )

    def table(self, at: int, name: str) -> SimpleNamespace:
        """Return the table at an offset that ``root`` has read from a field of type ``at``."""
        return self._table(at, name)

    # -- parts ----------------------------------------------------------------------------------------------------

    def _number(self, at: int, kind: str):
        form, size = _NUMBERS[kind]
        if at < 0 or at + size > len(self.data):
            raise TVMError(f"the file is damaged: offset {at} is outside its {len(self.data)} bytes")
        return struct.unpack_from(form, self.data, at)[0]

    def _offset(self, at: int) -> int:
        return at + self._number(at, "u32")

    def _count(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise TVMError("the file is damaged: it has too many references to the same data")

    def _table(self, at: int, name: str) -> SimpleNamespace:
        self._count(1)
        rows = at - self._number(at, "i32")
        size, inline = self._number(rows, "u16"), self._number(rows + 2, "u16")
        if rows < 0 or size < 4 or size % 2 or rows + size > len(self.data) or at + inline > len(self.data):
            raise TVMError(f"the file is damaged: the table at byte {at} is outside the file")
        out = self.default(name)
        for slot, field in enumerate(_fields(self.tables[name])):
            if field.name == "_" or 4 + 2 * slot + 2 > size:
                continue
            place = self._number(rows + 4 + 2 * slot, "u16")
            if place:
                if place >= inline:
                    raise TVMError(f"the file is damaged: field '{field.name}' is outside its table")
                setattr(out, field.name, self._value(at + place, field.kind))
        return out

    def _value(self, at: int, kind: str):
        if kind in _NUMBERS:
            return self._number(at, kind)
        where = self._offset(at)
        if kind == "str":
            return bytes(self._bytes(where, 1)).decode("utf-8", "replace")
        if kind == "at":
            self._number(where, "i32")
            return where
        if not kind.startswith("["):
            return self._table(where, kind)
        inner = kind[1:-1]
        if inner == "bytes":
            return self._bytes(where, 1)
        if inner in _NUMBERS:
            form, size = _NUMBERS[inner]
            raw = self._bytes(where, size)
            count = len(raw) // size
            self._count(count)
            return list(struct.unpack(f"<{count}{form[-1]}", raw))
        count = len(self._bytes(where, 4)) // 4
        return [self._table(self._offset(where + 4 + 4 * i), inner) for i in range(count)]

    def _bytes(self, at: int, size: int) -> memoryview:
        """Return the bytes of a vector whose elements have ``size`` bytes."""
        count = self._number(at, "u32")
        if at + 4 + count * size > len(self.data):
            raise TVMError(f"the file is damaged or truncated: {count} elements at byte {at} extend beyond its end")
        return self.data[at + 4 : at + 4 + count * size]


__all__ = ["Flatbuffer"]
