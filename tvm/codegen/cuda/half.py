"""16-bit floats in CUDA source: two small types implemented with PTX, so that no header is needed."""

from __future__ import annotations

_HEAD = """struct __align__(2) {name} {
  unsigned short bits;
  {name}() = default;
  __device__ __forceinline__ static {name} of(unsigned short x) { {name} y; y.bits = x; return y; }
"""

_HALF = (
    _HEAD
    + """\
  __device__ __forceinline__ {name}(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ __forceinline__ {name}(double x) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x)); }
  __device__ __forceinline__ {name}(int x) { asm("cvt.rn.f16.s32 %0, %1;" : "=h"(bits) : "r"(x)); }
  __device__ __forceinline__ {name}(unsigned x) { asm("cvt.rn.f16.u32 %0, %1;" : "=h"(bits) : "r"(x)); }
  __device__ __forceinline__ {name}(long long x) { asm("cvt.rn.f16.s64 %0, %1;" : "=h"(bits) : "l"(x)); }
  __device__ __forceinline__ {name}(unsigned long long x) { asm("cvt.rn.f16.u64 %0, %1;" : "=h"(bits) : "l"(x)); }
  __device__ __forceinline__ operator float() const {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
    return y;
  }
};
{operators}
static __device__ __forceinline__ {name} operator/({name} a, {name} b) {
  /* The quotient from a reciprocal that is nearly right, and what is missing; where nothing is, or numbers are not
     finite, the first guess is right. A division of floats would branch, and every element wait for the one before. */
  float x = a, y = b, r, z;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
  float q = x * r, rest = fmaf(-q, y, x);
  asm("{ .reg .pred p; setp.gt.f32 p, %1, %2; selp.f32 %0, %3, %4, p; }"
      : "=f"(z) : "f"(fabsf(rest)), "f"(0.0f), "f"(fmaf(rest, r, q)), "f"(q));
  return {name}(z);
}"""
)

_HALF_OPERATOR = """\
static __device__ __forceinline__ {name} operator{sign}({name} a, {name} b) {
  {name} y;
  asm("{word}.rn.f16 %0, %1, %2;" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits));
  return y;
}"""

_BFLOAT = (
    _HEAD
    + """\
  __device__ __forceinline__ {name}(float x) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    unsigned y = __float_as_uint(x);
    bits = x != x ? y >> 16 | 0x40 : (y + 0x7fff + (y >> 16 & 1)) >> 16;
#endif
  }
  __device__ __forceinline__ {name}(double x) {
    /* Inexact values get an odd last digit, so that rounding the result once more is exact. */
    float near = __double2float_rz(x);
    if ((double)near != x && x == x) near = __uint_as_float(__float_as_uint(near) | 1);
    bits = {name}(near).bits;
  }
  __device__ __forceinline__ {name}(int x) { bits = {name}((double)x).bits; }
  __device__ __forceinline__ {name}(unsigned x) { bits = {name}((double)x).bits; }
  __device__ __forceinline__ {name}(long long x) { bits = {name}((double)x).bits; }
  __device__ __forceinline__ {name}(unsigned long long x) { bits = {name}((double)x).bits; }
  __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
{operators}
static __device__ __forceinline__ {name} operator/({name} a, {name} b) { return {name}((float)a / (float)b); }"""
)

_BFLOAT_OPERATOR = """\
static __device__ __forceinline__ {name} operator{sign}({name} a, {name} b) {
#if __CUDA_ARCH__ >= 900
  {name} y;
  asm("{word}.rn.bf16 %0, %1, %2;" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits));
  return y;
#else
  return {name}((float)a {sign} (float)b);
#endif
}"""

_CHOICE = """static __device__ __forceinline__ {T} {name}({T} a, {T} b) {
  {T} y;
  asm("{ .reg .pred p, q; .reg .b16 t; setp.{word}.f16 p, %1, %2; selp.b16 t, %1, %2, p; setp.neu.f16 q, %1, %1; "
      "selp.b16 %0, %1, t, q; }" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits));
  return y;
}"""

HALF, BFLOAT = "half_t", "bfloat16_t"


def _type(text: str, operator: str, name: str) -> str:
    rows = [
        operator.replace("{sign}", sign).replace("{word}", word)
        for sign, word in (("+", "add"), ("-", "sub"), ("*", "mul"))
    ]
    return text.replace("{operators}", "\n".join(rows)).replace("{name}", name)


# The source of each type, by its name.
TYPES = {HALF: _type(_HALF, _HALF_OPERATOR, HALF), BFLOAT: _type(_BFLOAT, _BFLOAT_OPERATOR, BFLOAT)}

# Helper functions by operation and type.
HELPERS = {"min_float16": _CHOICE.replace("{word}", "lt"), "max_float16": _CHOICE.replace("{word}", "gt")}
