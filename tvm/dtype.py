"""Data types as text: ``"float32"``, ``"int8x16"``. Parsed by the runtime and the compiler.

A dtype is always a plain ``str`` in canonical form; ``info(text)`` returns its parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from .error import ExprValueError

# DLPack type codes, with Apache TVM's code for handle.
CODES = {"int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "bool": 6, "complex": 5, "custom": 129}


class DTypeInfo(NamedTuple):
    """The parts of a dtype. ``code`` is one of int, uint, float, bfloat, bool, handle, or custom[name]."""

    code: str
    bits: int
    lanes: int

    @property
    def is_int(self) -> bool:
        return self.code == "int"

    @property
    def is_uint(self) -> bool:
        return self.code in ("uint", "bool")

    @property
    def is_integer(self) -> bool:
        return self.code in ("int", "uint", "bool")

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers or of a custom type."""
        return self.code in ("float", "bfloat") or self.is_custom

    @property
    def is_custom(self) -> bool:
        """Whether it is a custom data type (``tvm.target.datatype``)."""
        return self.code.startswith("custom")

    @property
    def is_bool(self) -> bool:
        return self.code == "bool"

    @property
    def is_handle(self) -> bool:
        return self.code == "handle"

    @property
    def bytes(self) -> int:
        """Size of one element in bytes (a bool uses one byte)."""
        return (self.bits + 7) // 8


# Custom data types: their names and type codes, which start at ``CUSTOM_BEGIN``.
CUSTOM: dict[str, int] = {}
CUSTOM_BEGIN = 129
# By name of a custom type: a function from the number of bits to the smallest value as an expression.
CUSTOM_MIN: dict[str, Callable[[int], Any]] = {}
_CUSTOM_TEXT = re.compile(r"custom(?:\[(\w+)\]|_([A-Za-z_]\w*?))(\d+)$")

_CACHE: dict[str, DTypeInfo] = {}
_FLOAT_BITS = (16, 32, 64)


def info(dtype: str) -> DTypeInfo:
    """Parse ``dtype``; the result is cached. Raise a ValueError for invalid text."""
    got = _CACHE.get(dtype)
    if got is None:
        got = _CACHE[dtype] = _parse(str(dtype))
    return got


def _parse(text: str) -> DTypeInfo:
    base, lanes = text, 1
    head, sep, tail = text.rpartition("x")
    if sep and tail.isdigit() and head and (head[-1].isdigit() or head in ("bool", "handle")):
        base, lanes = head, int(tail)
    if base == "bool":
        return DTypeInfo("bool", 1, lanes)
    if base in ("handle", "void", ""):
        return DTypeInfo("handle", 64 if base == "handle" else 0, lanes)
    if base.startswith("custom"):
        return _parse_custom(base, lanes)
    word = base.rstrip("0123456789")
    digits = base[len(word) :]
    if word == "bfloat" and digits != "16":
        raise ValueError(f"unknown data type '{text}'; the only bfloat is bfloat16")
    if word not in ("int", "uint", "float", "bfloat"):
        raise ValueError(
            f"unknown data type '{text}'; examples: float32, int8, uint1, bool, bfloat16, float32x16, handle"
        )
    if word == "uint" and digits == "1":
        return DTypeInfo("bool", 1, lanes)
    bits = int(digits[:4]) if digits else 32
    if word == "float" and bits not in _FLOAT_BITS or not 1 <= bits <= 64:
        widths = "16, 32 or 64" if word == "float" else "1 to 64"
        raise ValueError(f"unknown data type '{text}'; {word} has {widths} bits")
    return DTypeInfo(word, bits, lanes)


def _parse_custom(base: str, lanes: int) -> DTypeInfo:
    """Parse ``custom[name]32``, ``custom_name32`` (later versions of TVM), or ``custom[150]32`` with the type code."""
    found = _CUSTOM_TEXT.match(base)
    name = (found[1] or found[2]) if found else base
    if name.isdigit():
        name = next((own for own, code in CUSTOM.items() if code == int(name)), name)
    if found is None or name not in CUSTOM:
        raise ExprValueError(
            f"unknown data type '{base}': no custom type '{name}' is registered; register it with "
            "tvm.target.datatype.register(name, type_code)"
        )
    return DTypeInfo(f"custom[{name}]", int(found[3]), lanes)


def make(code: str, bits: int, lanes: int = 1) -> str:
    """Return the canonical text of a dtype."""
    if code == "bool" or (code == "uint" and bits == 1):
        base = "bool"
    elif code == "handle":
        base = "handle" if bits else "void"
    else:
        base = f"{code}{bits}"
    return base if lanes == 1 else f"{base}x{lanes}"


def canonical(dtype: Any) -> str:
    """Return the canonical text of a str, NumPy dtype, NumPy or Python scalar type."""
    if isinstance(dtype, str):
        return make(*info(dtype)) if dtype else dtype
    if dtype is bool:
        return "bool"
    if dtype is int:
        return "int32"
    if dtype is float:
        return "float32"
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return make(*info(name))


_LANES: dict[tuple[str, int], str] = {}


def with_lanes(dtype: str, lanes: int) -> str:
    key = (dtype, lanes)
    got = _LANES.get(key)
    if got is None:
        i = info(dtype)
        got = _LANES[key] = make(i.code, i.bits, lanes)
    return got


def element(dtype: str) -> str:
    return with_lanes(dtype, 1)


def int_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and largest value of an integer dtype."""
    i = info(dtype)
    if i.bits == 1:
        # Conditions, which may also be written as int1 like LLVM's i1.
        return 0, 1
    if i.code == "uint":
        return 0, (1 << i.bits) - 1
    if i.code == "int":
        return -(1 << (i.bits - 1)), (1 << (i.bits - 1)) - 1
    raise ValueError(f"'{dtype}' is not an integer type")


def code_of(dtype: str) -> int:
    """Return the DLPack type code (except for bool), or the registered code of a custom type."""
    code = info(dtype).code
    return CUSTOM[code[7:-1]] if code.startswith("custom") else CODES[code]


def stored(dtype: str) -> str:
    """Return the storage type: for a custom type, the unsigned integer of the same width."""
    i = info(dtype)
    return make("uint", i.bits, i.lanes) if i.is_custom else dtype


def numbered(dtype: str) -> str:
    """Return the type as written in compiled graphs: a custom type by its code."""
    i = info(dtype)
    return make(f"custom[{code_of(dtype)}]", i.bits, i.lanes) if i.is_custom else dtype


def dlpack_parts(dtype: str) -> tuple[int, int, int]:
    """Return code, bits and lanes as in DLPack."""
    i = info(dtype)
    return code_of(dtype), 8 if i.is_bool else i.bits, i.lanes


class DataTypeCode:
    """DLPack codes, under Apache TVM's names."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4


class DataType(str):
    """``tvm.DataType("float32x4")``: a dtype string with its parts as attributes.

    Parameters
    ----------
    type_str : str
        The type, such as "float32x4".
    """

    def __new__(cls, type_str):
        return str.__new__(cls, canonical(type_str))

    @property
    def bits(self) -> int:
        return info(self).bits

    @property
    def lanes(self) -> int:
        return info(self).lanes

    @property
    def type_code(self) -> int:
        return CODES["uint"] if info(self).is_bool else dlpack_parts(self)[0]

    @property
    def itemsize(self) -> int:
        return info(self).bytes * self.lanes
