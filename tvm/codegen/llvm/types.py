"""Types and literals in LLVM text."""

from __future__ import annotations

import struct

from ...dtype import info
from ...error import TVMError
from ...ir.primop import round_float, wrap_int

# LLVM names of float types, by their size in bits.
_FLOATS = {32: "float", 64: "double"}


def bfloat_bits(value: float) -> int:
    """Return the bits of ``value`` rounded to bfloat16, to nearest even."""
    if value != value:
        return 0x7FC0
    word = struct.unpack("<I", struct.pack("<f", round_float(value, "float32")))[0]
    return ((word + 0x7FFF + ((word >> 16) & 1)) >> 16) & 0xFFFF


def half_bits(value: float) -> int:
    return struct.unpack("<H", struct.pack("<e", round_float(value, "float16")))[0]


def float_text(value: float) -> str:
    """Return a double in LLVM syntax: the sixteen hexadecimal digits of its bits."""
    return "0x" + struct.pack(">d", value).hex().upper()


class Types(dict):
    """dtype -> LLVM type of its values. ``half`` is the type of float16 values: half, or i16 if the processor cannot
    convert them. bfloat16 values are always i16."""

    def __init__(self, half: str):
        super().__init__()
        self.half = half
        self._memory: dict[str, str] = {}

    def __missing__(self, dtype: str) -> str:
        text = self[dtype] = self._vector(self._scalar(dtype), dtype)
        return text

    def _scalar(self, dtype: str) -> str:
        if dtype in ("void", ""):
            return "void"
        kind = info(dtype)
        if kind.is_bool:
            return "i1"
        if kind.code == "bfloat":
            return "i16"
        if kind.code == "float":
            if kind.bits == 16:
                return self.half
            if kind.bits in _FLOATS:
                return _FLOATS[kind.bits]
        if kind.code in ("int", "uint") and kind.bits in (1, 8, 16, 32, 64):
            return f"i{kind.bits}"
        if kind.is_handle:
            return "ptr"
        raise TVMError(f"the llvm back end does not support values of type {dtype}")

    def _vector(self, scalar: str, dtype: str) -> str:
        lanes = info(dtype).lanes if scalar != "void" else 1
        return scalar if lanes == 1 else f"<{lanes} x {scalar}>"

    def memory(self, dtype: str) -> str:
        """Return the type of a value of ``dtype`` in memory; bool uses a byte."""
        got = self._memory.get(dtype)
        if got is None:
            scalar = "i8" if info(dtype).is_bool else self._scalar(dtype)
            got = self._memory[dtype] = self._vector(scalar, dtype)
        return got

    def element(self, dtype: str) -> str:
        """Return the element type of a buffer of ``dtype``: an array type for vectors, because LLVM pads vector
        types."""
        lanes = info(dtype).lanes
        if lanes == 1:
            return self.memory(dtype)
        scalar = "i8" if info(dtype).is_bool else self._scalar(dtype)
        return f"[{lanes} x {scalar}]"

    def literal(self, dtype: str, value) -> str:
        """Return a constant; a vector constant has the same value in every lane."""
        kind = info(dtype)
        if kind.lanes > 1:
            scalar = self.literal_scalar(kind, value)
            if scalar in ("0", "false") or (value == 0 and kind.is_float and str(float(value)) == "0.0"):
                return "zeroinitializer"
            return f"splat ({self._scalar(dtype)} {scalar})"
        return self.literal_scalar(kind, value)

    def literal_scalar(self, kind, value) -> str:
        if kind.is_bool:
            return "true" if value else "false"
        if kind.code == "bfloat":
            return str(bfloat_bits(float(value)))
        if kind.code == "float":
            if kind.bits == 16:
                bits = half_bits(float(value))
                return f"0xH{bits:04X}" if self.half == "half" else str(bits)
            return float_text(round_float(float(value), f"float{kind.bits}"))
        if kind.is_handle:
            return "null"
        return str(wrap_int(int(value), f"{kind.code}{kind.bits}"))


def byte_string(data: bytes) -> str:
    """Return a byte string in LLVM syntax: ``c"..."``."""
    out = []
    for byte in data:
        out.append(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}")
    return f'c"{"".join(out)}"'
