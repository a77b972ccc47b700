"""Reading of HDF5 files as Keras writes them: groups, string attributes, and contiguous arrays of numbers.

All offsets are checked, the number of visited objects is limited, and no other file is read: links other than those to
objects of the file, and external data, are rejected. Array data is read only when it is used.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NOWHERE = (1 << 64) - 1
# Maximum number of visited parts of a file; a model has a few for each weight.
_MOST_PARTS = 1 << 21
_SPACE, _LINK_INFO, _TYPE, _LINK, _EXTERNAL, _LAYOUT = 0x01, 0x02, 0x03, 0x06, 0x07, 0x08
_ATTRIBUTE, _CONTINUATION, _SYMBOLS, _ATTRIBUTE_INFO = 0x0C, 0x10, 0x11, 0x15
_NUMBER, _REAL, _TEXT, _ENUMERATION, _VARIABLE = 0, 1, 3, 8, 9


def damaged(what: str) -> TVMError:
    return TVMError(f"the HDF5 file is damaged: {what}")


class Message(NamedTuple):
    """A message in the header of an object: its type, and the position of its content."""

    kind: int
    begin: int
    end: int


class Kind(NamedTuple):
    """The type of elements: its class, its size, and for numbers the NumPy type."""

    number: int
    size: int
    dtype: Any


class File:
    """The bytes of a file, with bounds checks."""

    def __init__(self, data):
        self.data = memoryview(data)
        self.parts = 0
        self.entries: dict[int, dict[str, tuple[str, int]]] = {}
        self.heaps: dict[int, dict[int, tuple[int, int]]] = {}

    def piece(self, begin: int, count: int) -> memoryview:
        """Return ``count`` bytes at a position."""
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise damaged("it has too many references to the same data")
        if begin < 0 or count < 0 or begin + count > len(self.data):
            raise damaged(f"{count} bytes at offset {begin} exceed its size of {len(self.data)} bytes")
        return self.data[begin : begin + count]

    def numbers(self, form: str, begin: int) -> tuple:
        return struct.unpack(f"<{form}", self.piece(begin, struct.calcsize(f"<{form}")))

    def number(self, form: str, begin: int) -> int:
        return self.numbers(form, begin)[0]

    def signed(self, begin: int, signature: bytes) -> None:
        if bytes(self.piece(begin, len(signature))) != signature:
            raise damaged(f"the signature '{signature.decode()}' is missing at offset {begin}")

    def root(self) -> int:
        """Return the position of the header of the root group."""
        if bytes(self.piece(0, 8)) != SIGNATURE:
            raise TVMError("the file is not an HDF5 file")
        version = self.number("B", 8)
        if version in (0, 1):
            offsets, lengths = self.numbers("BB", 13)
            base, root = self.number("Q", 24 if version == 0 else 28), self.number("Q", 64 if version == 0 else 68)
        elif version in (2, 3):
            offsets, lengths = self.numbers("BB", 9)
            base, root = self.number("Q", 12), self.number("Q", 36)
        else:
            raise TVMError(f"HDF5 files of version {version} are not supported")
        if (offsets, lengths, base) != (8, 8, 0):
            raise TVMError("HDF5 files must have 64-bit offsets that are relative to the start of the file")
        return root

    # -- headers --------------------------------------------------------------------------------------------------

    def messages(self, at: int) -> list[Message]:
        """Return the messages in an object's header, which can have continuation blocks."""
        new = bytes(self.piece(at, 4)) == b"OHDR"
        blocks, extra = [self._first_block(at, new)], 0
        if new:
            extra = 2 if self.number("B", at + 5) & 4 else 0
        out: list[Message] = []
        while blocks:
            begin, end = blocks.pop(0)
            while begin + (4 + extra if new else 8) <= end:
                if new:
                    kind, size, flags = self.numbers("BHB", begin)
                    begin += 4 + extra
                else:
                    kind, size, flags = self.numbers("HHB", begin)
                    begin += 8
                if begin + size > end:
                    raise damaged("a header message is longer than the header")
                if flags & 2 and kind in (_TYPE, _SPACE, _ATTRIBUTE, _LAYOUT):
                    raise TVMError("HDF5 files with shared header messages are not supported")
                if kind == _CONTINUATION:
                    where, count = self.numbers("QQ", begin)
                    if new:
                        self.signed(where, b"OCHK")
                        where, count = where + 4, count - 8
                    self.piece(where, count)
                    blocks.append((where, where + count))
                out.append(Message(kind, begin, begin + size))
                begin += size
        return out

    def _first_block(self, at: int, new: bool) -> tuple[int, int]:
        if not new:
            version, size = self.number("B", at), self.number("I", at + 8)
            if version != 1:
                raise damaged(f"the header at offset {at} has the unknown version {version}")
            self.piece(at + 16, size)
            return at + 16, at + 16 + size
        flags = self.number("B", at + 5)
        begin = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(self.piece(begin, width), "little")
        self.piece(begin + width, size)
        return begin + width, begin + width + size

    # -- groups ---------------------------------------------------------------------------------------------------

    def members(self, at: int) -> dict[str, tuple[str, int]]:
        """Return the members of a group by name: the type of link, and the position of the object."""
        if at not in self.entries:
            found: dict[str, tuple[str, int]] = {}
            for part in self.messages(at):
                if part.kind == _SYMBOLS:
                    tree, heap = self.numbers("QQ", part.begin)
                    self.signed(heap, b"HEAP")
                    size, _, names = self.numbers("QQQ", heap + 8)
                    self._tree(tree, names, size, found)
                elif part.kind == _LINK:
                    self._link(part, found)
                elif part.kind == _LINK_INFO:
                    flags = self.number("B", part.begin + 1)
                    if self.number("Q", part.begin + 2 + (8 if flags & 1 else 0)) != _NOWHERE:
                        raise TVMError(
                            "HDF5 files with indexed groups are not supported; write the file again with "
                            "h5py's default settings"
                        )
            self.entries[at] = found
        return self.entries[at]

    def _tree(self, tree: int, names: int, size: int, found: dict) -> None:
        work: list[tuple[int, int | None]] = [(tree, None)]
        while work:
            at, wanted = work.pop()
            self.signed(at, b"TREE")
            kind, level, count = self.numbers("BBH", at + 4)
            if kind != 0 or wanted is not None and level != wanted:
                raise damaged(f"the B-tree node at offset {at} is not a group node")
            children = [self.number("Q", at + 32 + 16 * i) for i in range(count)]
            if level:
                work += [(c, level - 1) for c in children]
            else:
                for child in children:
                    self._leaf(child, names, size, found)

    def _leaf(self, at: int, names: int, size: int, found: dict) -> None:
        self.signed(at, b"SNOD")
        for i in range(self.number("H", at + 6)):
            name, header, cached = self.numbers("QQI", at + 8 + 40 * i)
            if name >= size:
                raise damaged("a name is outside the name heap of its group")
            text = bytes(self.piece(names + name, min(size - name, 1 << 16))).split(b"\0")[0]
            found[text.decode("utf-8", "replace")] = ("soft" if cached == 2 else "hard", header)

    def _link(self, part: Message, found: dict) -> None:
        flags, at = self.number("B", part.begin + 1), part.begin + 2
        kind = 0
        if flags & 8:
            kind, at = self.number("B", at), at + 1
        at += (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
        width = 1 << (flags & 3)
        length = int.from_bytes(self.piece(at, width), "little")
        name = bytes(self.piece(at + width, length)).decode("utf-8", "replace")
        where = self.number("Q", at + width + length) if kind == 0 else 0
        found[name] = ("hard" if kind == 0 else "other", where)

    # -- elements -------------------------------------------------------------------------------------------------

    def kind(self, begin: int) -> Kind:
        """Return the element type in a header."""
        first, bits, size = self.number("B", begin), self.number("B", begin + 1), self.number("I", begin + 4)
        number, order = first & 15, ">" if bits & 1 else "<"
        if number == _ENUMERATION:
            # Bool values are stored as an enumeration of bytes.
            return Kind(number, size, np.dtype("bool")) if size == 1 else Kind(number, size, None)
        if number == _NUMBER and size in (1, 2, 4, 8):
            return Kind(number, size, np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}"))
        if number == _REAL and size in (2, 4, 8):
            if size == 2 and self.number("B", begin + 13) == 8:
                import ml_dtypes

                return Kind(number, size, np.dtype(ml_dtypes.bfloat16))
            return Kind(number, size, np.dtype(f"{order}f{size}"))
        return Kind(number, size, None)

    def sizes(self, begin: int) -> list[int] | None:
        """Return the shape in a header; None for an empty data space."""
        version, rank = self.numbers("BB", begin)
        if version not in (1, 2) or rank > 32:
            raise damaged(f"a data space of version {version} with {rank} dimensions is not valid")
        if version == 2 and self.number("B", begin + 3) == 2:
            return None
        at = begin + (8 if version == 1 else 4)
        return [self.number("Q", at + 8 * i) for i in range(rank)]

    def text(self, at: int) -> str:
        """Return a variable-length string, which is stored in a global heap."""
        length, collection, index = self.numbers("IQI", at)
        if length == 0:
            return ""
        if collection not in self.heaps:
            self.heaps[collection] = self._collection(collection)
        begin, size = self.heaps[collection].get(index, (0, 0))
        if length > size:
            raise damaged("a string is longer than its heap object")
        return bytes(self.piece(begin, length)).decode("utf-8")

    def _collection(self, at: int) -> dict[int, tuple[int, int]]:
        self.signed(at, b"GCOL")
        end, found = at + self.number("Q", at + 8), {}
        self.piece(at, end - at)
        at += 16
        while at + 16 <= end:
            index, size = self.number("H", at), self.number("Q", at + 8)
            if index == 0:
                break
            found[index] = (at + 16, size)
            at += 16 + -(-size // 8) * 8
        return found


class Weight:
    """An array of the file; its elements are read when they are used."""

    def __init__(self, file: File, messages: list[Message], name: str):
        self.file, self.messages, self.name = file, messages, name

    def part(self, kind: int) -> Message:
        found = next((m for m in self.messages if m.kind == kind), None)
        if found is None:
            raise damaged(f"the header of the array '{self.name}' is incomplete")
        return found

    def array(self) -> np.ndarray:
        """Return the elements.

        Raises
        ------
        TVMError
            The elements are damaged, stored in another file, or not numbers.
        """
        file = self.file
        if any(m.kind == _EXTERNAL for m in self.messages):
            raise TVMError(f"the array '{self.name}' is stored in another file, which is not supported")
        kind, shape = file.kind(self.part(_TYPE).begin), file.sizes(self.part(_SPACE).begin)
        if kind.dtype is None or shape is None:
            raise TVMError(f"the array '{self.name}' of the HDF5 file does not contain numbers")
        count = math.prod(shape) * kind.dtype.itemsize
        if count > len(file.data):
            raise TVMError(f"the array '{self.name}' requires {count} bytes, which exceeds the size of the file")
        raw = file.piece(self.place(count), count) if count else b""
        found = np.frombuffer(raw, kind.dtype).reshape(shape)
        return found.astype(kind.dtype.newbyteorder("="))

    def place(self, count: int) -> int:
        """Return the position of the elements."""
        part = self.part(_LAYOUT)
        version, way = self.file.numbers("BB", part.begin)
        if version in (3, 4) and way == 3:
            raise TVMError(f"the array '{self.name}' is stored in another file, which is not supported")
        if version not in (3, 4) or way not in (0, 1):
            raise TVMError(
                f"the array '{self.name}' is chunked or compressed, which is not supported; write the file again "
                "with the "
                "default settings of Keras"
            )
        if way == 0:
            if self.file.number("H", part.begin + 2) < count:
                raise damaged(f"the array '{self.name}' is longer than its storage")
            return part.begin + 4
        at, size = self.file.numbers("QQ", part.begin + 2)
        if size < count:
            raise damaged(f"the array '{self.name}' is longer than its storage")
        return at


class Group:
    """A group of the file."""

    def __init__(self, file: File, at: int, path: str = ""):
        self.file, self.at, self.path = file, at, path
        self._attributes: dict[str, tuple[Kind, int, int]] | None = None

    def _member(self, name: str) -> int | None:
        at = self.at
        for part in name.strip("/").split("/"):
            found = self.file.members(at).get(part)
            if found is None:
                return None
            if found[0] != "hard":
                where = f"'{self.path}/{name}' of the HDF5 file"
                raise TVMError(f"{where} is a soft or external link, which is not supported")
            at = found[1]
        return at

    def group(self, name: str) -> Group | None:
        """Return a member group, or None."""
        at = self._member(name)
        return None if at is None else Group(self.file, at, f"{self.path}/{name}")

    def weight(self, name: str) -> Weight | None:
        """Return a member array, or None."""
        at = self._member(name)
        if at is None:
            return None
        messages = self.file.messages(at)
        return Weight(self.file, messages, f"{self.path}/{name}") if any(m.kind == _TYPE for m in messages) else None

    # -- attributes -----------------------------------------------------------------------------------------------

    def attributes(self) -> dict[str, tuple[Kind, int, int]]:
        """Return the attributes by name: the type, the number of elements, and the position of the elements."""
        if self._attributes is None:
            self._attributes = {}
            for part in self.file.messages(self.at):
                if part.kind == _ATTRIBUTE_INFO:
                    flags = self.file.number("B", part.begin + 1)
                    if self.file.number("Q", part.begin + 2 + (2 if flags & 1 else 0)) != _NOWHERE:
                        raise TVMError(
                            "HDF5 files with indexed attributes are not supported; write the file again "
                            "with h5py's default settings"
                        )
                elif part.kind == _ATTRIBUTE:
                    name, found = self._attribute(part)
                    self._attributes[name] = found
        return self._attributes

    def _attribute(self, part: Message) -> tuple[str, tuple[Kind, int, int]]:
        file = self.file
        version, flags, *lengths = file.numbers("BBHHH", part.begin)
        if version not in (1, 2, 3) or version > 1 and flags & 3:
            raise damaged(f"an attribute has the unknown version {version}")
        at, step = part.begin + (9 if version == 3 else 8), 8 if version == 1 else 1
        places = []
        for length in lengths:
            places.append(at)
            at += -(-length // step) * step
        name = bytes(file.piece(places[0], lengths[0])).split(b"\0")[0].decode("utf-8", "replace")
        sizes = file.sizes(places[2])
        count = 0 if sizes is None else math.prod(sizes)
        kind = file.kind(places[1])
        if at > part.end or count * max(kind.size, 1) > part.end - at:
            raise damaged(f"the attribute '{name}' is longer than its message")
        return name, (kind, count, at)

    def text(self, name: str) -> str | None:
        """Return a string attribute, or None."""
        found = self._part(name) if name in self.attributes() else []
        return found[0] if found else None

    def texts(self, name: str) -> list[str]:
        """Return a list of strings; a list that is too long for an attribute is stored in numbered parts."""
        if name in self.attributes():
            return self._part(name)
        out: list[str] = []
        number = 0
        while f"{name}{number}" in self.attributes():
            out += self._part(f"{name}{number}")
            number += 1
        return out

    def _part(self, name: str) -> list[str]:
        kind, count, at = self.attributes()[name]
        if count and kind.number not in (_TEXT, _VARIABLE):
            raise TVMError(f"the attribute '{name}' of the HDF5 file is not a string")
        try:
            if kind.number == _VARIABLE:
                return [self.file.text(at + 16 * i) for i in range(count)]
            whole = [bytes(self.file.piece(at + kind.size * i, kind.size)) for i in range(count)]
            return [raw.split(b"\0")[0].decode("utf-8") for raw in whole]
        except UnicodeDecodeError as problem:
            raise damaged(f"the attribute '{name}' is not valid text: {problem}") from problem


def opened(data) -> Group:
    """Return the root group of a file with these bytes.

    Raises
    ------
    TVMError
        The bytes are not an HDF5 file.
    """
    file = File(data)
    return Group(file, file.root())


__all__ = ["SIGNATURE", "File", "Group", "Weight", "opened"]
