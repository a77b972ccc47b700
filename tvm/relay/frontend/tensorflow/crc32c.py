"""The checksum of checkpoints, CRC-32C, computed for many parts of the data in parallel.

The checksum is linear: that of two concatenated parts is the checksum of the first, shifted by the length of the
second, xor the checksum of the second. So the checksums of equally long parts are computed with NumPy, and combined in
pairs.
"""

from __future__ import annotations

import numpy as np

_POLYNOMIAL = 0x82F63B78
_MOST_PARTS = 1 << 14
# Checksums of data with fewer bytes are computed byte by byte.
_FEW = 4096


def _table(bits: int) -> np.ndarray:
    """Return the state after shifting out ``bits`` bits, for each value of these bits."""
    table = np.arange(1 << bits, dtype="uint32")
    for _ in range(bits):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


_BYTE = [int(v) for v in _table(8)]
_PAIR = _table(16)


def _moved(sums: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Apply a linear map, which is given by its value for each bit."""
    out = np.zeros_like(sums)
    for bit in range(32):
        out ^= np.where(sums >> np.uint32(bit) & np.uint32(1), columns[bit], np.uint32(0))
    return out


def _distance(pairs: int) -> np.ndarray:
    """Return the linear map that shifts a checksum by this number of byte pairs."""
    out = np.uint32(1) << np.arange(32, dtype="uint32")
    power = _PAIR[out & 0xFFFF] ^ (out >> np.uint32(16))
    while pairs:
        out = _moved(out, power) if pairs & 1 else out
        power = _moved(power, power)
        pairs >>= 1
    return out


def crc32c(data) -> int:
    """Return the checksum of bytes."""
    if len(data) < _FEW:
        value = 0xFFFFFFFF
        for byte in bytes(data):
            value = _BYTE[(value ^ byte) & 255] ^ (value >> 8)
        return value ^ 0xFFFFFFFF
    parts = min(1 << (len(data) // 64).bit_length() - 1, _MOST_PARTS)
    pairs = -(-len(data) // (2 * parts))
    # Leading zeros do not change the checksum; the initial value is xored into the first four bytes.
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
    """Return a checksum as stored in files: rotated and offset, because the CRC of data that contains a CRC is weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


__all__ = ["crc32c", "masked"]
