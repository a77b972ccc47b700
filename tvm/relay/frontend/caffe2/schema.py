"""The protobuf schema of Caffe2 files. ``common/protobuf.py`` describes the notation."""

from __future__ import annotations

from ....error import TVMError
from ..common.protobuf import Schema

MESSAGES = """
Argument: name 1 string, f 2 float, i 3 int64, s 4 bytes, floats 5* float, ints 6* int64, strings 7* bytes, n 8 Net, \
nets 9* Net
Operator: input 1* string, output 2* string, name 3 string, type 4 string, arg 5* Argument
Net: name 1 string, op 2* Operator, type 3 string, arg 6* Argument, external_input 7* string, external_output 8* string
"""

# Element types by their number in the format, and the type names that Cast accepts instead.
DTYPES = {1: "float32", 2: "int32", 3: "uint8", 5: "bool", 6: "uint8", 7: "int8", 8: "uint16", 9: "int16", 10: "int64",
          12: "float16", 13: "float64"}  # fmt: skip
NAMES = {"float": 1, "int32": 2, "byte": 3, "bool": 5, "uint8": 6, "int8": 7, "uint16": 8, "int16": 9, "int64": 10,
         "float16": 12, "double": 13}  # fmt: skip
FILES = Schema("caffe2", MESSAGES)


def dtype_name(value) -> str:
    """Return the element type of an argument, which is a number or a name."""
    number = NAMES.get(value.decode("ascii", "replace").lower()) if isinstance(value, bytes) else value
    if number not in DTYPES:
        raise TVMError(f"element type {value!r} is not supported")
    return DTYPES[number]


__all__ = ["DTYPES", "FILES", "dtype_name"]
