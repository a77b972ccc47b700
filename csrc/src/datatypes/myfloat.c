/* myfloat, the custom data type of the guide on custom data types: a float32 stored in a 32-bit unsigned integer. These
 * are the functions that a library for a custom data type provides: casts, a literal, arithmetic and mathematical
 * functions. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../../include/tvm_runtime.h"

#define MYFLOAT TVM_DLL

static float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t as_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

#define BINARY(NAME, VALUE)                               \
  MYFLOAT uint32_t Custom32##NAME(uint32_t a, uint32_t b) { \
    float x = as_float(a), y = as_float(b);               \
    return as_bits(VALUE);                                \
  }
#define UNARY(NAME, VALUE)                    \
  MYFLOAT uint32_t Custom32##NAME(uint32_t a) { \
    float x = as_float(a);                    \
    return as_bits(VALUE);                    \
  }

MYFLOAT uint32_t MinCustom32(void) { return as_bits(-FLT_MAX); }
MYFLOAT uint32_t FloatToCustom32(float value) { return as_bits(value); }
MYFLOAT float Custom32ToFloat(uint32_t bits) { return as_float(bits); }
MYFLOAT uint32_t IntToCustom32(int32_t value) { return as_bits((float)value); }

BINARY(Add, x + y)
BINARY(Sub, x - y)
BINARY(Mul, x *y)
BINARY(Div, x / y)
BINARY(Max, x > y ? x : y)
UNARY(Sqrt, sqrtf(x))
UNARY(Exp, expf(x))
UNARY(Log, logf(x))
UNARY(Sigmoid, 1.0f / (1.0f + expf(-x)))
UNARY(Tanh, tanhf(x))
