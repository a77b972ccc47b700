"""Element types: PyTorch's codes and names, and type promotion."""

from __future__ import annotations

from ....error import TVMError

# TorchScript's codes of element types.
CODES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    11: "bool",
    15: "bfloat16",
}
_NAMES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32", "short": "int16",
          "char": "int8", "byte": "uint8"}  # fmt: skip
_WIDTHS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "float16": 16, "bfloat16": 16, "float32": 32,
           "float64": 64}  # fmt: skip


def dtype_name(value) -> str:
    """Return the element type of a TorchScript code, a name, or a ``torch.dtype``."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value not in CODES:
            raise TVMError(f"the PyTorch element type with code {value} (complex or quantized) is not supported")
        return CODES[value]
    name = str(value).removeprefix("torch.")
    name = _NAMES.get(name, name)
    if name not in CODES.values():
        raise TVMError(f"the element type '{name}' is not supported")
    return name


def category(dtype: str) -> int:
    """Return 0 for bool, 1 for integers, 2 for floats: the highest category of the operands determines the
    output type.
    """
    return 0 if dtype == "bool" else 2 if "float" in dtype else 1


def promoted(a: str, b: str) -> str:
    """Return the promoted type of two types by PyTorch's rules."""
    if a == b:
        return a
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    if {a, b} == {"uint8", "int8"}:
        return "int16"
    if _WIDTHS[a] == _WIDTHS[b]:
        return max(a, b)
    return a if _WIDTHS[a] > _WIDTHS[b] else b


__all__ = ["CODES", "category", "dtype_name", "promoted"]
