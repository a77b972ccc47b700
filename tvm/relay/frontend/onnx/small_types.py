"""ONNX element types that are stored in other types: integers and floats of 8 bits or less, and strings.

The compiler has no values of these types. A small float is stored as its bit pattern in uint8, a small integer as its
value in int8 or uint8; the importer records the stored values (``ctx.small``). Operators that only move elements work
on the stored values; casts and (de)quantization convert them; all other operators report an error. A compiled program
has inputs and outputs of the storage type: ``to_carrier`` and ``from_carrier`` convert arrays.

A string is stored as an int64 hash of its text. Strings can be moved, compared and looked up in tables; the caller that
passes them to a program ensures that no two strings have the same hash (``Texts``).
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const

# Operators that move elements without computing with them.
MOVING = frozenset(
    "Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Slice SpaceToDepth Split "
    "Squeeze Tile Transpose Unsqueeze".split()
)
# Operators that accept strings: some comparisons and lookups, and operators that move elements.
WITH_STRINGS = MOVING - {"Pad"} | {"Equal", "LabelEncoder", "Constant", "Shape", "Size", "If", "Loop"}
# Operators whose converters handle small types, and those that read only the shape.
KNOWING = frozenset("Cast CastLike QuantizeLinear DequantizeLinear Constant Shape Size If Loop".split())


class SmallType(NamedTuple):
    """A type stored in an 8-bit type: its name in ml_dtypes, its storage type, and its number of bits if it is an
    integer.
    """

    name: str
    carrier: str
    integer_bits: int = 0

    @property
    def limits(self) -> tuple[int, int]:
        n = self.integer_bits
        return (-(1 << n - 1), (1 << n - 1) - 1) if self.carrier == "int8" else (0, (1 << n) - 1)


# The small types by name of their ONNX element type.
SMALL_TYPES = {
    "FLOAT8E4M3FN": SmallType("float8_e4m3fn", "uint8"),
    "FLOAT8E4M3FNUZ": SmallType("float8_e4m3fnuz", "uint8"),
    "FLOAT8E5M2": SmallType("float8_e5m2", "uint8"),
    "FLOAT8E5M2FNUZ": SmallType("float8_e5m2fnuz", "uint8"),
    "FLOAT8E8M0": SmallType("float8_e8m0fnu", "uint8"),
    "FLOAT4E2M1": SmallType("float4_e2m1fn", "uint8"),
    "FLOAT6E2M3": SmallType("float6_e2m3fn", "uint8"),
    "FLOAT6E3M2": SmallType("float6_e3m2fn", "uint8"),
    "INT4": SmallType("int4", "int8", 4),
    "UINT4": SmallType("uint4", "uint8", 4),
    "INT2": SmallType("int2", "int8", 2),
    "UINT2": SmallType("uint2", "uint8", 2),
}
STRING = SMALL_TYPES["STRING"] = SmallType("string", "int64")
_BY_NAME = {t.name: t for t in SMALL_TYPES.values()}


def small_type(code: int) -> SmallType | None:
    """Return the small type of an ONNX element type number; None for other types."""
    from onnx import TensorProto

    return SMALL_TYPES.get(TensorProto.DataType.Name(code)) if code in TensorProto.DataType.values() else None


def to_carrier(array: np.ndarray) -> np.ndarray:
    """Return an array of a small type in its storage type; other arrays are unchanged."""
    if array.dtype.kind in "OUS":
        return Texts().numbers(array)
    kind = _BY_NAME.get(array.dtype.name)
    if kind is None:
        return array
    return array.astype(kind.carrier) if kind.integer_bits else array.view(kind.carrier)


def from_carrier(array: np.ndarray, kind: SmallType) -> np.ndarray:
    """Return an array of a small type from its storage type. Strings are looked up by ``Texts`` instead."""
    if kind is STRING:
        raise TVMError("strings cannot be restored from their int64 hashes alone; use Texts.strings")
    dtype = _numpy(kind)
    return array.astype(dtype) if kind.integer_bits else array.view(dtype)


def _numpy(kind: SmallType) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, kind.name))


class Texts:
    """A table of strings by their int64 hashes."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}

    def numbers(self, array) -> np.ndarray:
        """Return the hashes of strings and add the strings to the table. Two strings with the same hash are
        an error.
        """
        texts = np.asarray(array, object)
        out = np.empty(texts.shape, STRING.carrier)
        for place, text in np.ndenumerate(texts):
            text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
            number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
            if self.known.setdefault(number, text) != text:
                raise TVMError(f"the strings '{self.known[number]}' and '{text}' have the same hash")
            out[place] = number
        return out

    def strings(self, numbers: np.ndarray) -> np.ndarray:
        """Return the strings of hashes that are in the table."""
        out = np.empty(numbers.shape, object)
        for place, number in np.ndenumerate(numbers):
            out[place] = self.known[int(number)]
        return out


# -- conversions ------------------------------------------------------------------------------------------------------


def decode(ctx, x, kind: SmallType):
    """Convert stored values to float32 or int32, as a new expression that is not recorded as a small type."""
    if kind is STRING:
        raise TVMError("strings cannot be cast to numbers")
    if kind.integer_bits:
        return relay.cast(x, "int32")
    with np.errstate(all="ignore"):
        values = np.arange(256, dtype="uint8").view(_numpy(kind)).astype("float32")
    return relay.take(const(values), relay.cast(x, "int32"), axis=0)


def encode(ctx, x, kind: SmallType, saturate: bool = True, round_mode: str = "up"):
    """Convert numbers to the storage type of a small type: floats are rounded to nearest, ties to even; integers wrap
    around.
    """
    if kind is STRING:
        raise TVMError("numbers cannot be cast to strings")
    if kind.integer_bits:
        return _wrapped(ctx, x, kind)
    wide = x if ctx.dtype(x) in ("float32", "float64") else relay.cast(x, "float32")
    if kind.name == "float8_e8m0fnu":
        return _exponent(relay.cast(wide, "float32"), saturate, round_mode)
    limits, codes, sign, nan = _tables(kind, ctx.dtype(wide), saturate)
    size = relay.abs(wide)
    place = relay.searchsorted(const(limits), relay.reshape(size, (-1,)), dtype="int32")
    code = relay.reshape(relay.take(const(codes), place, axis=0), ctx.shape(x))
    zero = const(0, ctx.dtype(wide))
    # Only the reciprocal distinguishes -0 from 0.
    negative = relay.logical_or(relay.less(wide, zero), relay.less(relay.divide(const(1, ctx.dtype(wide)), wide), zero))
    below = relay.where(negative, relay.take(const(sign), relay.cast(code, "int32"), axis=0), code)
    return relay.where(relay.isnan(wide), const(nan, "uint8"), below)


def _wrapped(ctx, x, kind: SmallType):
    """Keep the low bits of integers; floats are truncated to integers first."""
    whole = relay.cast(x, "int32") if ctx.dtype(x) != "int64" else x
    number = ctx.dtype(whole)
    low = relay.bitwise_and(whole, const((1 << kind.integer_bits) - 1, number))
    if kind.carrier == "int8":
        half = const(1 << kind.integer_bits - 1, number)
        low = relay.subtract(relay.bitwise_xor(low, half), half)
    return relay.cast(low, kind.carrier)


def _tables(kind: SmallType, dtype: str, saturate: bool):
    """Return tables for rounding: the magnitudes at which the code increases, the codes, the negative codes and the NaN
    code.
    """
    import ml_dtypes

    small = _numpy(kind)
    info = ml_dtypes.finfo(small)
    half = 1 << info.bits - 1
    with np.errstate(all="ignore"):
        values = np.arange(256, dtype="uint8").view(small).astype("float64")
    last = int(np.nonzero(np.isfinite(values[:half]))[0][-1])
    ladder = np.append(values[: last + 1], 2 * values[last] - values[last - 1])
    limits = ((ladder[:-1] + ladder[1:]) / 2).astype(dtype)
    # A magnitude above limits[k] has at least the code k + 1. A magnitude equal to the limit is rounded to the even
    # code.
    limits[1::2] = np.nextafter(limits[1::2], np.zeros((), dtype))
    nans = np.nonzero(np.isnan(values[: 2 * half]))[0]
    infinite = np.nonzero(np.isposinf(values[:half]))[0]
    nan = int(nans[-1] if kind.name.endswith("uz") else nans[0]) if len(nans) else half
    over = last if saturate or not len(nans) else int(infinite[0]) if len(infinite) else nan
    if kind.name == "float8_e5m2":
        nan = 0x7E
    codes = np.append(np.arange(last + 1), over).astype("uint8")
    sign = np.arange(256) | half
    if kind.name.endswith("uz"):
        # These types have no -0; its bit pattern is the NaN.
        sign[0] = 0
    return limits, codes, sign.astype("uint8"), nan


def _exponent(x, saturate: bool, round_mode: str):
    """Return the exponent of a float32 as a power-of-two type, rounded up as ``round_mode`` specifies; the sign is
    dropped.
    """
    bits = relay.reinterpret(x, "int32")
    one = const(1, "int32")
    exponent = relay.bitwise_and(relay.right_shift(bits, const(23, "int32")), const(255, "int32"))
    fraction = relay.bitwise_and(bits, const(0x7FFFFF, "int32"))
    if round_mode == "down":
        up = const(False)
    elif round_mode == "up":
        up = relay.greater(fraction, const(0, "int32"))
    else:
        half = const(0x400000, "int32")
        tie = relay.logical_and(relay.equal(fraction, half), relay.greater(exponent, const(0, "int32")))
        up = relay.logical_or(relay.greater(fraction, half), tie)
    stop = const(0xFE if saturate else 0xFF, "int32")
    up = relay.logical_and(up, relay.less(exponent, stop))
    return relay.cast(relay.where(up, relay.add(exponent, one), exponent), "uint8")


__all__ = [
    "KNOWING", "MOVING", "SMALL_TYPES", "STRING", "SmallType", "Texts", "WITH_STRINGS", "decode", "encode",
    "from_carrier", "small_type", "to_carrier",
]  # fmt: skip
