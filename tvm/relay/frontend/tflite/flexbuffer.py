"""Reading of the options of custom operators: a flexbuffer map of numbers, with each offset checked against the buffer.

A flexbuffer is read from its end: the last byte is the width of the root, the byte before it the type of the root, and
the root is an offset back to the values of a map. Before the values are the offset of the keys, their width and the
count; after the values is a type for each value.
"""

from __future__ import annotations

import struct

from ....error import TVMError

_MAP = 9
_MOST_KEYS = 256
# Format characters of the value types, by the width of the value.
_INT, _UINT, _FLOAT = {1: "b", 2: "<h", 4: "<i", 8: "<q"}, {1: "B", 2: "<H", 4: "<I", 8: "<Q"}, {4: "<f", 8: "<d"}
_INLINE = {1: _INT, 2: _UINT, 3: _FLOAT, 26: _UINT}
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}


class _Reader:
    def __init__(self, data):
        self.data = bytes(data)

    def number(self, at: int, width: int, forms: dict):
        if width not in forms or at < 0 or at + width > len(self.data):
            raise TVMError("the custom options are damaged")
        return struct.unpack_from(forms[width], self.data, at)[0]

    def back(self, at: int, width: int) -> int:
        """Return the position that an offset refers to."""
        return at - self.number(at, width, _UINT)

    def text(self, at: int) -> str:
        end = self.data.find(b"\0", at) if at >= 0 else -1
        if end < 0:
            raise TVMError("the custom options are damaged")
        return self.data[at:end].decode("utf-8", "replace")


def number_map(data) -> dict[str, float]:
    """Return the numbers of a map by name; values of other types are omitted."""
    if data is None or len(data) < 3:
        raise TVMError("the custom options are missing")
    reader = _Reader(data)
    width, kind = reader.data[-1], reader.data[-2]
    if kind >> 2 != _MAP:
        raise TVMError("the custom options are not a flexbuffer map")
    values, step = reader.back(len(reader.data) - 2 - width, width), 1 << (kind & 3)
    count = reader.number(values - step, step, _UINT)
    if count > _MOST_KEYS:
        raise TVMError(f"the custom options have too many entries ({count})")
    keys, key_step = reader.back(values - 3 * step, step), reader.number(values - 2 * step, step, _UINT)
    out: dict[str, float] = {}
    for i in range(count):
        name = reader.text(reader.back(keys + i * key_step, key_step))
        own = reader.number(values + count * step + i, 1, _UINT)
        if own >> 2 in _INLINE:
            out[name] = reader.number(values + i * step, step, _INLINE[own >> 2])
        elif own >> 2 in _INDIRECT:
            out[name] = reader.number(reader.back(values + i * step, step), 1 << (own & 3), _INDIRECT[own >> 2])
    return out


__all__ = ["number_map"]
