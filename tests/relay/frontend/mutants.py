"""Damaged files, for importers: ``make fuzz-format`` tries 20,000 of a format, a run of the tests a few."""

from __future__ import annotations

import os

MUTATIONS = int(os.environ.get("TVM_FUZZ_CASES", "60"))
# What stands at the edges of numbers, and what texts are made of.
_SPECIAL = b"\x00\x01\x7f\x80\xff0123456789-(),[]{}\""


def damaged(data: bytes, rng) -> bytes:
    """A file in one to three places of which bytes are others, left out, doubled or put in, or which is cut short."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(out) + 1)), int(rng.integers(8))
        if kind == 0 and at < len(out):
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1 and at < len(out):
            out[at] = int(rng.integers(256))
        elif kind == 2 and at < len(out):
            out[at] = _SPECIAL[int(rng.integers(len(_SPECIAL)))]
        elif kind == 3:
            out[at : at + 4] = rng.bytes(4)
        elif kind == 4:
            del out[at : at + int(rng.integers(1, 20))]
        elif kind == 5:
            out[at:at] = out[at : at + int(rng.integers(1, 20))]
        elif kind == 6:
            out[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif rng.integers(4) == 0:
            del out[at:]
    return bytes(out)
