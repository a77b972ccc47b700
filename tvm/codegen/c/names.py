"""Names in C source: reserved names, and conversion of other names to identifiers."""

from __future__ import annotations

import re

from ..symbols import LIBM, MEMORY

_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool
    true false alignas alignof constexpr nullptr static_assert thread_local typeof_unqual
    and and_eq bitand bitor catch class compl const_cast decltype delete dynamic_cast explicit export friend mutable
    namespace new noexcept not not_eq operator or or_eq private protected public reinterpret_cast static_cast template
    this throw try typeid typename using virtual wchar_t xor xor_eq
    NULL INFINITY NAN HUGE_VAL unix linux i386 main errno
"""
_HEADERS = """
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t size_t ptrdiff_t half bfloat
    abs fabs fabsf sqrt sqrtf cbrt floor ceil trunc round rint lround nearbyint copysign copysignf fmin fmax fdim expm1
    frexp ldexp logb modf remainder lgamma tgamma gamma isnan isinf isfinite isnormal signbit fpclassify memchr memcmp
    strcat strchr strcmp strcpy strlen strncmp strncpy strstr strtok index rindex
    TVMValue TVMTensorSpec TVMRuntimeTable TVMParallelGroupEnv DLTensor DLDevice DLDataType TVM_EXPORT
"""
RESERVED = frozenset(_KEYWORDS.split()) | frozenset(_HEADERS.split()) | LIBM | frozenset(MEMORY)
# Functions that the included headers declare: another declaration with different types would be an error.
DECLARED = (frozenset(_HEADERS.split()) | LIBM | frozenset(MEMORY)) - {"half", "bfloat"}

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def clean(name: str) -> str:
    """Convert ``name`` to an identifier. Names that begin with an underscore or ``tvm_`` are reserved for the compiler
    and the code generator."""
    text = _UNSAFE.sub("_", name) or "v"
    if text[0].isdigit() or text[0] == "_" or text.startswith("tvm_"):
        text = "v" + text if text[0] == "_" else "v_" + text
    return text + "_" if text in RESERVED else text


def unique(name: str, taken) -> str:
    """Return ``name``, or the first free name of ``name_1``, ``name_2``, ..."""
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def quoted(text: str) -> str:
    """Return a string literal. Non-ASCII bytes become octal escapes, which end after three digits."""
    out = []
    for byte in text.encode():
        if byte in (34, 92):
            out.append("\\" + chr(byte))
        elif byte == 10:
            out.append("\\n")
        elif 32 <= byte < 127 and byte != 63:
            out.append(chr(byte))
        else:
            # Question marks are escaped because two of them may begin a trigraph.
            out.append(f"\\{byte:03o}")
    return f'"{"".join(out)}"'


def bare(text: str) -> str:
    """Return ``text`` without parentheses around the whole expression."""
    if text[:1] != "(" or text[-1:] != ")" or '"' in text:
        return text
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def addend(text: str) -> str:
    """Return ``text`` for use after a plus sign: outer parentheses are removed unless they contain an operator of lower
    precedence."""
    inner, depth = bare(text), 0
    for char in inner:
        depth += (char in "([") - (char in ")]")
        if depth == 0 and char in "&|^?<>=!":
            return text
    return inner
