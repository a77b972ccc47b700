"""Match quantized operands: int8 or uint8 tensors minus their zero point, in a wider type."""

from __future__ import annotations

from typing import NamedTuple

from ....ir.op import Op
from ...expr import Call, Constant, RelayExpr

BYTE_TYPES = ("int8", "uint8")
# Types that represent all int8 and uint8 values and their differences. A cast between int8 and uint8 may change values.
WIDE_TYPES = ("int16", "int32", "int64", "float16", "float32", "float64")


class ByteOperand(NamedTuple):
    """An int8 or uint8 tensor and the zero point that is subtracted from it."""

    bytes: RelayExpr
    zero: int


def _is(e: RelayExpr, name: str) -> bool:
    return type(e) is Call and type(e.op) is Op and e.op.name == name


def byte_operand(e: RelayExpr) -> ByteOperand | None:
    """Return the quantized tensor of ``cast(bytes) - zero`` or ``cast(bytes)`` in a wider type, or of a reshape of
    these; None for other expressions."""
    if _is(e, "reshape"):
        inner = byte_operand(e.args[0])
        return None if inner is None else ByteOperand(Call(e.op, (inner.bytes,), e.attrs, (), e.span), inner.zero)
    zero = 0
    if _is(e, "subtract") and isinstance(e.args[1], Constant):
        value = e.args[1].data.numpy()
        if value.size != 1 or value.ndim > len(e.args[0].checked_type_.shape) or value.item() != int(value.item()):
            return None
        e, zero = e.args[0], int(value.item())
    if not _is(e, "cast") or e.attrs.dtype not in WIDE_TYPES:
        return None
    source = e.args[0]
    dtype = source.checked_type_.dtype
    low = -128 if dtype == "int8" else 0
    return ByteOperand(source, zero) if dtype in BYTE_TYPES and low <= zero < low + 256 else None


__all__ = ["BYTE_TYPES", "WIDE_TYPES", "ByteOperand", "byte_operand"]
