"""Small helper functions that generated C code defines if it uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dtype import info
from ...error import InternalError

if TYPE_CHECKING:
    from .like import CLike

# Operation -> C text of the function for a type; {T} is the type, {U} its unsigned form.
BY_TYPE = {
    "min": "static inline {T} {name}({T} a, {T} b) { return a < b{or_nan} ? a : b; }",
    "max": "static inline {T} {name}({T} a, {T} b) { return a > b{or_nan} ? a : b; }",
    **{
        f"to_{integer}": "static inline {to} {name}({T} x) {\n"
        "  return x != x ? 0 : x >= {top} ? {most} : x < {bottom} ? {least} : ({to})x;\n}"
        for integer in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "floordiv": """static inline {T} {name}({T} a, {T} b) {
  return ({T})(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
}""",
    "floormod": """static inline {T} {name}({T} a, {T} b) {
  {T} r = ({T})(a % b);
  return ({T})(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}""",
    "popcount": """static inline int32_t {name}({T} x) {
  uint64_t v = ({U})x;
  v = v - ((v >> 1) & 0x5555555555555555ULL);
  v = (v & 0x3333333333333333ULL) + ((v >> 2) & 0x3333333333333333ULL);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
  return (int32_t)((v * 0x0101010101010101ULL) >> 56);
}""",
    "clz": """static inline int32_t {name}({T} x) {
  {U} v = ({U})x;
  return v == 0 ? {bits} : __builtin_clzll((uint64_t)v) - (64 - {bits});
}""",
    "trunc": """static inline {T} {name}({T} x) {
  /* Numbers that large have no fraction. */
  if (!(fabs{f}(x) < {limit})) return x;
  return copysign{f}(({T})({I})x, x);
}""",
    "floor": """static inline {T} {name}({T} x) {
  {T} t = {trunc}(x);
  return t > x ? t - 1 : t;
}""",
    "ceil": """static inline {T} {name}({T} x) {
  {T} t = {trunc}(x);
  return t < x ? t + 1 : t;
}""",
    "nearbyint": """static inline {T} {name}({T} x) {
  /* Adding and taking away this much leaves the nearest integer, halves to even. */
  {T} size = fabs{f}(x);
  return size < {limit} ? copysign{f}((size + {limit}) - {limit}, x) : x;
}""",
    "round": """static inline {T} {name}({T} x) {
  /* The largest number below a half: a half more than that would round some numbers up twice. */
  return {trunc}(x + copysign{f}({below}, x));
}""",
    "ldexp": """static inline {T} {name}({T} x, int64_t power) {
  double value = x;
  power = power < -2200 ? -2200 : power > 2200 ? 2200 : power;
  for (int step = 0; step < 4; ++step) {
    int64_t part = step < 3 ? power / 4 : power - 3 * (power / 4);
    int64_t bits = (part + 1023) << 52;
    double factor;
    memcpy(&factor, &bits, sizeof factor);
    value *= factor;
  }
  return ({T})value;
}""",
    "atomic_add": """static inline {T} {name}({T}* place, {T} amount) {
  {T} old, sum;
  __atomic_load(place, &old, __ATOMIC_SEQ_CST);
  do {
    sum = old + amount;
  } while (!__atomic_compare_exchange(place, &old, &sum, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}""",
    "alias": "typedef {T} __attribute__((may_alias)) {name};",
}

FIXED = {
    "tvm_half_to_float": """static inline float tvm_half_to_float(uint16_t x) {
  uint32_t sign = (uint32_t)(x & 0x8000) << 16, bits = (uint32_t)(x & 0x7fff) << 13, exponent = bits & 0x0f800000;
  float value;
  if (exponent == 0) {
    /* A fraction: with the exponent of one, subtracting that one leaves it normalised. */
    bits += 113u << 23;
    memcpy(&value, &bits, 4);
    value -= 6.103515625e-05f;
    memcpy(&bits, &value, 4);
  } else {
    bits += exponent == 0x0f800000 ? 224u << 23 : 112u << 23;
  }
  bits |= sign;
  memcpy(&value, &bits, 4);
  return value;
}""",
    "tvm_float_to_half": """static inline uint16_t tvm_float_to_half(float x) {
  uint32_t bits, sign, size;
  memcpy(&bits, &x, 4);
  sign = bits & 0x80000000u;
  size = bits ^ sign;
  if (size >= 143u << 23) {
    bits = size > 0x7f800000u ? 0x7e00 : 0x7c00;
  } else if (size < 113u << 23) {
    /* Adding a half rounds away the digits a subnormal has no room for. */
    float value;
    memcpy(&value, &size, 4);
    value += 0.5f;
    memcpy(&bits, &value, 4);
    bits -= 126u << 23;
  } else {
    bits = (size - (112u << 23) + 0xfff + ((size >> 13) & 1)) >> 13;
  }
  return (uint16_t)(bits | sign >> 16);
}""",
    "tvm_bfloat16_to_float": """static inline float tvm_bfloat16_to_float(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}""",
    "tvm_float_to_bfloat16": """static inline uint16_t tvm_float_to_bfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (x != x) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}""",
    "tvm_round_to_odd": """static inline float tvm_round_to_odd(double x) {
  /* Inexact values get an odd last digit, so that rounding the result once more is exact. */
  float near = (float)x;
  double size = fabs(x), rounded = fabs((double)near);
  uint32_t bits;
  memcpy(&bits, &near, 4);
  if (rounded > size) bits -= 1;
  if (rounded != size && x == x) bits |= 1;
  memcpy(&near, &bits, 4);
  return near;
}""",
}

BITS = """static inline {new} {name}({old} x) {
  {new} y;
  memcpy(&y, &x, sizeof y);
  return y;
}"""

_NEEDS = {"floor": ("trunc",), "ceil": ("trunc",), "round": ("trunc",)}


def _range_words(dialect: type[CLike], integer: str, suffix: str) -> dict[str, str]:
    """Return the range of an integer type: the float limits and the smallest and largest value."""
    bits, signed = info(integer).bits, info(integer).is_int
    to, plain = dialect.scalar_type(integer), dialect.scalar_type(f"uint{bits}")
    ends = (f"({to})(({plain})1 << {bits - 1})", f"({to})(({plain})-1 >> 1)") if signed else ("0", f"({to})-1")
    return {
        "to": to, "least": ends[0], "most": ends[1],
        "bottom": f"-{1 << (bits - 1)}.0{suffix}" if signed else f"0.0{suffix}",
        "top": f"{1 << (bits - signed)}.0{suffix}",
    }  # fmt: skip


def typed_helper(add: Callable[[str, str], None], dialect: type[CLike], operation: str, dtype: str) -> str:
    """Define the function ``operation`` for ``dtype`` and its dependencies with ``add(name, text)``; return its
    name."""
    name = f"tvm_{operation}_{dtype}"
    kind = info(dtype)
    for other in _NEEDS.get(operation, ()):
        typed_helper(add, dialect, other, dtype)
    single = kind.bits == 32
    words = {
        "name": name, "T": dialect.scalar_type(dtype), "U": dialect.scalar_type(f"uint{max(kind.bits, 8)}"),
        "bits": str(kind.bits), "or_nan": " || a != a" if kind.is_float else "",
        "f": "f" if single else "", "I": "int32_t" if single else "int64_t", "trunc": f"tvm_trunc_{dtype}",
        "limit": "8388608.0f" if single else "4503599627370496.0",
        "below": "0.49999997f" if single else "0.49999999999999994",
    }  # fmt: skip
    if operation.startswith("to_"):
        words |= _range_words(dialect, operation.removeprefix("to_"), words["f"])
    text = dialect.typed_helpers.get(f"{operation}_{dtype}") or dialect.typed_helpers[operation]
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    add(name, text)
    return name


def bits_helper(add: Callable[[str, str], None], dialect: type[CLike], source: str, target: str) -> str:
    """Return a function that reinterprets the bits of one type as another type of the same size."""
    if info(source).bytes != info(target).bytes:
        raise InternalError(f"cannot reinterpret {source} as {target}: the sizes differ")
    name = f"tvm_bits_{source}_{target}"
    words = {"name": name, "old": dialect.memory_type(source), "new": dialect.memory_type(target)}
    text = dialect.bits_helper
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    add(name, text)
    return name
