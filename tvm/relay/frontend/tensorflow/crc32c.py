"""The checksum of checkpoints, CRC-32C, of many parts of the data at once.

A checksum is linear: that of two parts one after the other is that of the first, moved on by the length of the second,
xor that of the second. Parts of one length are therefore summed side by side, and their sums joined in pairs.
"""

from __future__ import annotations

import numpy as np

_POLYNOMIAL = 0x82F63B78
_MOST_PARTS = 1 << 14
# Data of fewer bytes is summed byte by byte.
_FEW = 4096


def _table(bits: int) -> np.ndarray:
    """What each number of so many bits becomes as that many bits move out."""
    table = np.arange(1 << bits, dtype="uint32")
    for _ in range(bits):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


_BYTE = [int(v) for v in _table(8)]
_PAIR = _table(16)


def _moved(sums: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A linear map, given by what it makes of each bit."""
    out = np.zeros_like(sums)
    for bit in range(32):
        out ^= np.where(sums >> np.uint32(bit) & np.uint32(1), columns[bit], np.uint32(0))
    return out


def _distance(pairs: int) -> np.ndarray:
    """The map that moves a checksum on by this many pairs of bytes."""
    out = np.uint32(1) << np.arange(32, dtype="uint32")
    power = _PAIR[out & 0xFFFF] ^ (out >> np.uint32(16))
    while pairs:
        out = _moved(out, power) if pairs & 1 else out
        power = _moved(power, power)
        pairs >>= 1
    return out


def crc32c(data) -> int:
    """The checksum of bytes."""
    if len(data) < _FEW:
        value = 0xFFFFFFFF
        for byte in bytes(data):
            value = _BYTE[(value ^ byte) & 255] ^ (value >> 8)
        return value ^ 0xFFFFFFFF
    parts = min(1 << (len(data) // 64).bit_length() - 1, _MOST_PARTS)
    pairs = -(-len(data) // (2 * parts))
    # Zeros in front change nothing; the first four bytes carry the value that the sum begins with.
    whole = np.zeros(2 * parts * pairs, "uint8")
    whole[-len(data) :] = np.frombuffer(data, "uint8")
    start = whole.size - len(data)
    whole[start : start + 4] ^= 255
    columns = np.ascontiguousarray(whole.view("<u2").reshape(parts, pairs).T)
    sums = np.zeros(parts, "uint32")
    for column in columns:
        out = sums.astype("uint16") ^ column
        sums = sums >> np.uint32(16) ^ _PAIR.take(out, mode="clip")
    distance = _distance(pairs)
    while sums.size > 1:
        sums = _moved(sums[0::2], distance) ^ sums[1::2]
        distance = _moved(distance, distance)
    return int(sums[0]) ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """Checksums are stored turned and shifted, because checksums of checksums are weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


__all__ = ["crc32c", "masked"]
