"""How dtypes and literals are written in LLVM text."""

from __future__ import annotations

import struct

from ...dtype import info
from ...error import TVMError
from ...ir.primop import round_float, wrap_int

# Bytes of the scalar types LLVM text knows as values of ours.
_FLOATS = {32: "float", 64: "double"}


def bfloat_bits(value: float) -> int:
    """The bits of ``value`` rounded to bfloat16, nearest even."""
    if value != value:
        return 0x7FC0
    word = struct.unpack("<I", struct.pack("<f", round_float(value, "float32")))[0]
    return ((word + 0x7FFF + ((word >> 16) & 1)) >> 16) & 0xFFFF


def half_bits(value: float) -> int:
    return struct.unpack("<H", struct.pack("<e", round_float(value, "float16")))[0]


def float_text(value: float) -> str:
    """A double as LLVM wants it: the sixteen digits of its bits."""
    return "0x" + struct.pack(">d", value).hex().upper()


class Types(dict):
    """dtype -> LLVM type of a value of it. ``half`` is the type a float16 value has: half, or i16 where the
    processor cannot convert it. bfloat16 values are always i16."""

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
        raise TVMError(f"the llvm back end has no values of type {dtype}")

    def _vector(self, scalar: str, dtype: str) -> str:
        lanes = info(dtype).lanes if scalar != "void" else 1
        return scalar if lanes == 1 else f"<{lanes} x {scalar}>"

    def memory(self, dtype: str) -> str:
        """The type a value of ``dtype`` has in memory: bool takes a byte."""
        got = self._memory.get(dtype)
        if got is None:
            scalar = "i8" if info(dtype).is_bool else self._scalar(dtype)
            got = self._memory[dtype] = self._vector(scalar, dtype)
        return got

    def element(self, dtype: str) -> str:
        """What an index into a buffer of ``dtype`` counts: an array type, since LLVM pads vectors."""
        lanes = info(dtype).lanes
        if lanes == 1:
            return self.memory(dtype)
        scalar = "i8" if info(dtype).is_bool else self._scalar(dtype)
        return f"[{lanes} x {scalar}]"

    def literal(self, dtype: str, value) -> str:
        """A constant; with more than one lane, the same in every lane."""
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
    """``c"..."`` of the given bytes."""
    out = []
    for byte in data:
        out.append(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}")
    return f'c"{"".join(out)}"'
