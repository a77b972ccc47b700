"""Reading checkpoints: ``PREFIX.index`` is a sorted table, and ``PREFIX.data-0000i-of-0000n`` contain the tensors.

The table maps names to file positions. It ends with a footer that contains the position of its index block; the entries
of a block share prefixes of their keys. All offsets and lengths are checked against the file size, and all checksums
are verified.
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
# A block is followed by its compression type and a checksum.
_TRAILER = 5


def _varint(data, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise TVMError("the checkpoint's index is damaged: a variable-length integer is not terminated")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _block(data: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + _TRAILER > len(data):
        raise TVMError("the checkpoint's index is damaged: a block extends beyond the end of the file")
    if data[end]:
        raise TVMError("the checkpoint's index is compressed, which is not supported")
    (stored,) = struct.unpack_from("<I", data, end + 1)
    if masked(crc32c(data[offset : end + 1])) != stored:
        raise TVMError("the checkpoint's index is damaged: the checksum of a block does not match")
    return data[offset:end]


def _entries(block: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of a block."""
    if len(block) < 4:
        raise TVMError("the checkpoint's index is damaged: a block is too short")
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise TVMError("the checkpoint's index is damaged: a block has more restart points than bytes")
    at, key, out = 0, b"", []
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        size, at = _varint(block, at)
        if shared > len(key) or at + own + size > end:
            raise TVMError("the checkpoint's index is damaged: an entry extends beyond its block")
        key = key[:shared] + block[at : at + own]
        out.append((key, block[at + own : at + own + size]))
        at += own + size
    return out


def read_table(data: bytes) -> dict[bytes, bytes]:
    """Return all entries of a sorted table."""
    if len(data) < _FOOTER or struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
        raise TVMError("not the index of a checkpoint: the footer of a sorted table is missing")
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
            raise TVMError("the checkpoint's index is damaged: it refers to a block twice")
        seen.add(first)
        out.update(_entries(_block(data, first, length)))
    return out


def read_file(path: str, what: str):
    """Memory-map a regular file. A link is rejected because it could lead out of the model's folder."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise TVMError(f"{what} is not a regular file")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if facts.st_size else b""
    except OSError as problem:
        raise TVMError(f"cannot read {what}: {problem.strerror}") from problem


class Checkpoint:
    """The tensors of a checkpoint by name, each read at its first use."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        if os.path.islink(os.path.dirname(prefix)):
            raise TVMError("the folder of the variables is a link, which is not supported")
        table = read_table(bytes(read_file(f"{prefix}.index", "the checkpoint's index")))
        header = parse("BundleHeader", table.pop(b"", b""), "the checkpoint's header")
        if header.endianness:
            raise TVMError("checkpoints with the other byte order are not supported")
        if not 0 <= header.num_shards <= 1 << 16:
            raise TVMError(f"checkpoints with {header.num_shards} data files are not supported")
        self.shards = header.num_shards
        self.entries = {key.decode("utf-8", "replace"): value for key, value in table.items()}
        self.files: dict[int, memoryview] = {}

    def shard(self, number: int) -> memoryview:
        if not 0 <= number < self.shards:
            raise TVMError(f"the checkpoint has {self.shards} data files, but a tensor refers to file number {number}")
        if number not in self.files:
            path = f"{self.prefix}.data-{number:05d}-of-{self.shards:05d}"
            self.files[number] = memoryview(read_file(path, os.path.basename(path)))
        return self.files[number]

    def tensor(self, key: str) -> np.ndarray:
        """Return the value of a variable."""
        if key not in self.entries:
            raise TVMError(f"the checkpoint does not contain '{key}'")
        entry = parse("BundleEntry", self.entries[key], f"the entry '{key}' of the checkpoint")
        if len(entry.slices):
            raise TVMError(f"the variable '{key}' is stored in slices, which is not supported")
        data, end = self.shard(entry.shard_id), entry.offset + entry.size
        if entry.offset < 0 or entry.size < 0 or end > len(data):
            raise TVMError(f"the data of the variable '{key}' extends beyond the end of its file")
        part = data[entry.offset : end]
        if masked(crc32c(part)) != entry.crc32c:
            raise TVMError(f"the variable '{key}' is damaged: its checksum does not match")
        shape = shape_of(entry.shape)
        if shape is None or -1 in shape:
            raise TVMError(f"the variable '{key}' has dynamic dimensions")
        return raw_array(part, dtype_name(entry.dtype), shape)


__all__ = ["Checkpoint", "read_file", "read_table"]
