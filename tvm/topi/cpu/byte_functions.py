"""C functions that multiply 8-bit data with the interleaved weights of a few filters.

Each function is one text in portable C, or with intrinsics of the DSP extension (``arm_acle.h``) or of Helium
(``arm_mve.h``) for compilers that generate these instructions, with the portable code for all others.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ...target import Target

PORTABLE, DSP, MVE = "portable", "dsp", "mve"
_MACRO = {DSP: "defined(__ARM_FEATURE_DSP)", MVE: "defined(__ARM_FEATURE_MVE)"}


class ByteKernels(NamedTuple):
    """The functions of a target for 8-bit kernels: their instructions, the terms of a filter that one step multiplies,
    and the types of the data."""

    instructions: str
    terms: int
    data: tuple[str, ...]

    def block(self, terms: int) -> int:
        """Return the number of terms in a block of weights: all terms of a short filter, else the largest divisor of at
        least half a step, else a whole step."""
        if self.instructions != MVE or terms < self.terms:
            return min(self.terms, terms)
        divisors = (d for d in range(self.terms, self.terms // 2 - 1, -1) if terms % d == 0)
        return next(divisors, self.terms)


def byte_kernels(target: Target | None) -> ByteKernels | None:
    """Return the 8-bit kernels of a target, or None if it cannot call C functions."""
    if target is None or not target.features.is_cpu or not target.features.has_c_functions:
        return None
    both = ("int8", "uint8")
    if target.features.has_mve:
        return ByteKernels(MVE, 16, ("int8",))
    return ByteKernels(DSP if target.features.has_dsp else PORTABLE, 4, both)


class Function(NamedTuple):
    """A C function: its name, the definitions that it needs (or an empty text), and its own definition."""

    name: str
    parts: str
    text: str


# Parts of the DSP functions. There is no intrinsic for sxtb16 with a rotated operand, which saves an instruction.
_DSP_PARTS = """\
#include <arm_acle.h>
static inline uint32_t tvm_word(const void* bytes) {
  uint32_t word;
  __builtin_memcpy(&word, bytes, 4);
  return word;
}
/* The bytes 0 and 2 of a word, or 1 and 3, as 16-bit integers. */
static inline int32_t tvm_even_int8(uint32_t word) { return (int32_t)__sxtb16((int32_t)word); }
static inline int32_t tvm_even_uint8(uint32_t word) { return (int32_t)__uxtb16(word); }
static inline int32_t tvm_odd_int8(uint32_t word) {
  int32_t odd;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(word));
  return odd;
}
static inline int32_t tvm_odd_uint8(uint32_t word) {
  int32_t odd;
  __asm__("uxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(word));
  return odd;
}
"""
_PARTS = {DSP: _DSP_PARTS, MVE: "#include <arm_mve.h>\n"}


def _function(name: str, parameters: str, about: str, bodies: dict[str, list[str]]) -> Function:
    """Return a function with a portable body, and with one for special instructions if the compiler generates them.
    The first and last lines that both bodies have in common are written once."""
    portable = bodies[PORTABLE]
    lines, parts = portable, ""
    for kind in bodies.keys() - {PORTABLE}:
        special = bodies[kind]
        first = len(os.path.commonprefix([portable, special]))
        last = len(os.path.commonprefix([portable[:first:-1], special[:first:-1]]))
        ends = len(portable) - last, len(special) - last
        chosen = [f"#if {_MACRO[kind]}", *special[first : ends[1]], "#else", *portable[first : ends[0]], "#endif"]
        lines = [*portable[:first], *chosen, *portable[ends[0] :]]
        parts = f"#if {_MACRO[kind]}\n{_PARTS[kind]}#endif\n"
    head = [f"/* {about} */", f"static inline void {name}({parameters}) {{"]
    return Function(name, parts, "\n".join([*head, *lines, "}", ""]))


def _joined(form: str, count: int) -> str:
    return ", ".join(form.format(j=j) for j in range(count))


def _stores(filters: int) -> list[str]:
    return [f"  sums[{j}] = sum{j};" for j in range(filters)]


def _loop(filters: int, count: str, body: list[str], advance: str, head: list[str] | None = None) -> list[str]:
    """Return statements that accumulate and store the sums. There is at least one iteration."""
    loop = ["  do {", *(f"    {line}" for line in body), f"    {advance}", f"  }} while (--{count});"]
    return [f"  int32_t {_joined('sum{j} = 0', filters)};", *(head or []), *loop, *_stores(filters)]


def _portable_dots(filters: int, block: int, data: str) -> list[str]:
    advance = f"data += {block}, weights += {filters * block};"
    if block <= 4:
        terms = [" + ".join(f"data[{i}] * weights[{j * block + i}]" for i in range(block)) for j in range(filters)]
        return _loop(filters, "blocks", [f"sum{j} += {text};" for j, text in enumerate(terms)], advance)
    steps = [f"  sum{j} += data[i] * weights[{f'{j * block} + i' if j else 'i'}];" for j in range(filters)]
    return _loop(filters, "blocks", [f"for (int32_t i = 0; i < {block}; ++i) {{", *steps, "}"], advance)


def _dsp_dots(filters: int, block: int, data: str) -> list[str]:
    body = [
        "const uint32_t x = tvm_word(data);",
        f"const int32_t even = tvm_even_{data}(x), odd = tvm_odd_{data}(x);",
        *(f"const uint32_t w{j} = tvm_word(weights{f' + {4 * j}' if j else ''});" for j in range(filters)),
        *(f"sum{j} = __smlad(odd, tvm_odd_int8(w{j}), __smlad(even, tvm_even_int8(w{j}), sum{j}));"
          for j in range(filters)),
    ]  # fmt: skip
    return _loop(filters, "blocks", body, f"data += 4, weights += {4 * filters};")


def _mve_dots(filters: int, block: int, data: str) -> list[str]:
    load, head = "vldrbq_s8({})", []
    if block < 16:
        load, head = "vldrbq_z_s8({}, lanes)", [f"  const mve_pred16_t lanes = vctp8q({block});"]
    rows = [load.format(f"weights + {j * block}" if j else "weights") for j in range(filters)]
    body = [f"const int8x16_t x = {load.format('data')};",
            *(f"sum{j} = vmladavaq_s8(sum{j}, x, {row});" for j, row in enumerate(rows))]  # fmt: skip
    return _loop(filters, "blocks", body, f"data += {block}, weights += {filters * block};", head)


def dots(kernels: ByteKernels, filters: int, block: int, data: str) -> Function:
    """Return the function that computes the dot products of a row of data with several filters."""
    name = f"tvm_dots_{filters}x{block}_{data}"
    parameters = f"const {data}_t* data, const int8_t* weights, int32_t blocks, int32_t* sums"
    about = f"Dot products of the data with {filters} filters, whose weights are interleaved in blocks of {block}."
    bodies = {PORTABLE: _portable_dots(filters, block, data)}
    if kernels.instructions == DSP and block == 4:
        bodies[DSP] = _dsp_dots(filters, block, data)
    if kernels.instructions == MVE:
        bodies[MVE] = _mve_dots(filters, block, data)
    return _function(name, parameters, about, bodies)


def _portable_taps(filters: int, data: str) -> list[str]:
    body = [f"sum{j} += data[{j}] * weights[{j}];" for j in range(filters)]
    return _loop(filters, "taps", body, f"data += stride, weights += {filters};")


def _dsp_taps(filters: int, data: str) -> list[str]:
    body = [
        "const uint32_t x = tvm_word(data), w = tvm_word(weights);",
        f"const int32_t even = tvm_even_{data}(x), odd = tvm_odd_{data}(x);",
        "const int32_t even_weights = tvm_even_int8(w), odd_weights = tvm_odd_int8(w);",
        "sum0 = __smlabb(even, even_weights, sum0);",
        "sum1 = __smlabb(odd, odd_weights, sum1);",
        "sum2 = __smlatt(even, even_weights, sum2);",
        "sum3 = __smlatt(odd, odd_weights, sum3);",
    ]
    return _loop(filters, "taps", body, f"data += stride, weights += {filters};")


def _mve_taps(filters: int, data: str) -> list[str]:
    return [
        "  int32x4_t sum = vdupq_n_s32(0);",
        "  do {",
        "    sum = vaddq_s32(sum, vmulq_s32(vldrbq_s32(data), vldrbq_s32(weights)));",
        f"    data += stride, weights += {filters};",
        "  } while (--taps);",
        "  vstrwq_s32(sums, sum);",
    ]


def taps(kernels: ByteKernels, filters: int, data: str) -> Function:
    """Return the function that multiplies the taps of a window with the weights of several channels."""
    name = f"tvm_taps_{filters}_{data}"
    parameters = f"const {data}_t* data, int32_t stride, const int8_t* weights, int32_t taps, int32_t* sums"
    about = f"Sums over the taps of a window for {filters} channels."
    bodies = {PORTABLE: _portable_taps(filters, data)}
    special = {DSP: _dsp_taps, MVE: _mve_taps}.get(kernels.instructions)
    if special is not None and filters == 4:
        bodies[kernels.instructions] = special(filters, data)
    return _function(name, parameters, about, bodies)


__all__ = ["ByteKernels", "Function", "byte_kernels", "dots", "taps"]
