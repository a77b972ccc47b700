"""Names generated objects may leave undefined: memory functions and a short list of libm."""

from __future__ import annotations

MEMORY = ("memcpy", "memmove", "memset")

# Functions of one and of two doubles; the float32 forms have an f at the end.
LIBM_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "log", "log10", "log1p",
    "log2", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
LIBM_BINARY = ("atan2", "fmod", "hypot", "nextafter", "pow")
LIBM_TERNARY = ("fma",)

LIBM = frozenset(name + suffix for name in LIBM_UNARY + LIBM_BINARY + LIBM_TERNARY for suffix in ("", "f"))

# Everything an object without calls of a user's own functions may refer to.
ALLOWED_UNDEFINED = LIBM | frozenset(MEMORY)
