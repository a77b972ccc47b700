"""The protobuf schema of PaddlePaddle programs, and the numbers of element types and attribute types.

``common/protobuf.py`` describes the notation. Strings are bytes, because programs contain call stacks in any encoding.
"""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ..common.protobuf import Schema

MESSAGES = """
Scalar: type 1 int32, b 2 bool, i 3 int64, r 4 double
Attr: name 1 bytes, type 2 int32, i 3 int32, f 4 float, s 5 bytes, ints 6* int32, floats 7* float, strings 8* bytes, \
b 10 bool, bools 11* bool, block_idx 12 int32, l 13 int64, blocks_idx 14* int32, longs 15* int64, float64s 16* double, \
var_name 17 bytes, vars_name 18* bytes, float64 19 double, scalar 20 Scalar, scalars 21* Scalar
Slot: parameter 1 bytes, arguments 2* bytes
Op: inputs 1* Slot, outputs 2* Slot, type 3 bytes, attrs 4* Attr
TensorDesc: data_type 1 int32, dims 2* int64
LodTensor: tensor 1 TensorDesc, lod_level 2 int32
VarType: type 1 int32, lod_tensor 3 LodTensor, tensor_array 4 LodTensor
Var: name 1 bytes, type 2 VarType, persistable 3 bool
Block: idx 1 int32, parent_idx 2 int32, vars 3* Var, ops 4* Op
Program: blocks 1* Block
"""

SCHEMA = Schema("paddle", MESSAGES)

# The numbers of VarType: element types, then kinds of variables.
DTYPES = {0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8",
          21: "int8", 22: "bfloat16"}  # fmt: skip
NUMBERS = {name: number for number, name in DTYPES.items()}
LOD_TENSOR, FEED, FETCH, TENSOR_ARRAY = 7, 9, 10, 13

# Maps the number of an attribute type to the field with its value.
ATTRIBUTES = {0: "i", 1: "f", 2: "s", 3: "ints", 4: "floats", 5: "strings", 6: "b", 7: "bools", 8: "block_idx", 9: "l",
              10: "blocks_idx", 11: "longs", 12: "float64s", 13: "var_name", 14: "vars_name", 15: "float64",
              16: "scalar", 17: "scalars"}  # fmt: skip


class Named(str):
    """An attribute whose value is the variable with this name."""


def dtype_name(number: int) -> str:
    """Return the name of an element type."""
    if number not in DTYPES:
        raise TVMError(f"element type {number} of PaddlePaddle is not supported")
    return DTYPES[number]


def text(data: bytes) -> str:
    """Decode a name. Bytes that are not UTF-8 are escaped, so that names stay distinct."""
    return data.decode("utf-8", "backslashreplace")


def _scalar(value) -> Any:
    return {1: bool(value.b), 2: int(value.i), 3: float(value.r)}.get(value.type, 0)


_READERS: dict[str, Any] = {
    "s": text, "strings": lambda v: [text(s) for s in v], "var_name": lambda v: Named(text(v)),
    "vars_name": lambda v: [Named(text(s)) for s in v], "scalar": _scalar,
    "scalars": lambda v: [_scalar(s) for s in v],
}  # fmt: skip


def attribute(proto) -> Any:
    """Convert an attribute to a Python value, or return None for an unknown type."""
    field = ATTRIBUTES.get(proto.type)
    if field is None:
        return None
    value = getattr(proto, field)
    if field in _READERS:
        return _READERS[field](value)
    return value if isinstance(value, (bool, int, float)) else list(value)


__all__ = ["ATTRIBUTES", "DTYPES", "FEED", "FETCH", "LOD_TENSOR", "NUMBERS", "SCHEMA", "TENSOR_ARRAY", "Named",
           "attribute", "dtype_name", "text"]  # fmt: skip
