"""Checkpoints: ``PREFIX.index`` is a sorted table of names and places, ``PREFIX.data-0000i-of-0000n`` hold the tensors.

The table ends with a footer that says where its index block lies; entries of a block share the beginnings of their
keys. Every offset and length is checked against the file, every checksum against its bytes.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct

import numpy as np

from ....error import TVMError
from .crc32c import crc32c, masked
from .schema import dtype_name, parse
from .tensors import raw_array, shape_of

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
# A block is followed by its compression and a checksum.
_TRAILER = 5


def _varint(data, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise TVMError("the checkpoint's index is damaged: a number has no end")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _block(data: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + _TRAILER > len(data):
        raise TVMError("the checkpoint's index is damaged: a block lies beyond its end")
    if data[end]:
        raise TVMError("the checkpoint's index is compressed, which is not supported")
    (stored,) = struct.unpack_from("<I", data, end + 1)
    if masked(crc32c(data[offset : end + 1])) != stored:
        raise TVMError("the checkpoint's index is damaged: the checksum of a block is wrong")
    return data[offset:end]


def _entries(block: bytes) -> list[tuple[bytes, bytes]]:
    """The keys and values of a block."""
    if len(block) < 4:
        raise TVMError("the checkpoint's index is damaged: a block is too short")
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise TVMError("the checkpoint's index is damaged: a block has more parts than bytes")
    at, key, out = 0, b"", []
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        size, at = _varint(block, at)
        if shared > len(key) or at + own + size > end:
            raise TVMError("the checkpoint's index is damaged: an entry lies beyond its block")
        key = key[:shared] + block[at : at + own]
        out.append((key, block[at + own : at + own + size]))
        at += own + size
    return out


def read_table(data: bytes) -> dict[bytes, bytes]:
    """All entries of a sorted table."""
    if len(data) < _FOOTER or struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
        raise TVMError("not the index of a checkpoint: its last bytes are not those of a sorted table")
    at = len(data) - _FOOTER
    _, at = _varint(data, at)
    _, at = _varint(data, at)
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    out: dict[bytes, bytes] = {}
    seen: set[int] = set()
    for _, handle in _entries(_block(data, offset, size)):
        first, at = _varint(handle, 0)
        length, at = _varint(handle, at)
        if first in seen:
            raise TVMError("the checkpoint's index is damaged: two parts are one block")
        seen.add(first)
        out.update(_entries(_block(data, first, length)))
    return out


def read_file(path: str, what: str):
    """The bytes of a plain file, mapped. A link is refused: it could lead out of the model's folder."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise TVMError(f"{what} is no plain file")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if facts.st_size else b""
    except OSError as problem:
        raise TVMError(f"{what} cannot be read: {problem.strerror}") from problem


class Checkpoint:
    """The tensors of a checkpoint by name; they are read when they are asked for."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        if os.path.islink(os.path.dirname(prefix)):
            raise TVMError("the folder of the variables is a link, which is not followed")
        table = read_table(bytes(read_file(f"{prefix}.index", "the checkpoint's index")))
        header = parse("BundleHeader", table.pop(b"", b""), "the checkpoint's header")
        if header.endianness:
            raise TVMError("checkpoints written on machines with the other byte order are not supported")
        if not 0 <= header.num_shards <= 1 << 16:
            raise TVMError(f"a checkpoint of {header.num_shards} files is not supported")
        self.shards = header.num_shards
        self.entries = {key.decode("utf-8", "replace"): value for key, value in table.items()}
        self.files: dict[int, memoryview] = {}

    def shard(self, number: int) -> memoryview:
        if not 0 <= number < self.shards:
            raise TVMError(f"the checkpoint has {self.shards} files, a tensor lies in number {number}")
        if number not in self.files:
            path = f"{self.prefix}.data-{number:05d}-of-{self.shards:05d}"
            self.files[number] = memoryview(read_file(path, os.path.basename(path)))
        return self.files[number]

    def tensor(self, key: str) -> np.ndarray:
        """The value of a variable."""
        if key not in self.entries:
            raise TVMError(f"the checkpoint has no '{key}'")
        entry = parse("BundleEntry", self.entries[key], f"the entry '{key}' of the checkpoint")
        if len(entry.slices):
            raise TVMError(f"the variable '{key}' is stored in slices, which is not supported")
        data, end = self.shard(entry.shard_id), entry.offset + entry.size
        if entry.offset < 0 or entry.size < 0 or end > len(data):
            raise TVMError(f"the variable '{key}' lies beyond the end of its file")
        part = data[entry.offset : end]
        if masked(crc32c(part)) != entry.crc32c:
            raise TVMError(f"the variable '{key}' is damaged: its checksum is wrong")
        shape = shape_of(entry.shape)
        if shape is None or -1 in shape:
            raise TVMError(f"the variable '{key}' has open sizes")
        return raw_array(part, dtype_name(entry.dtype), shape)


__all__ = ["Checkpoint", "read_file", "read_table"]
