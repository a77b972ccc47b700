/* Peak of one core: independent chains of fused multiply-adds on registers. All loops over the accumulators are unrolled:
   an accumulator with a variable index would be stored in every step.
   Prints GFLOPS with 512-bit and with 256-bit vectors (0 if the CPU lacks them), once per input line; on Arm the first
   number is with 128-bit vectors. */
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

#define CHAINS 16
#define STEPS 400000L

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static double peak512(void) {
  __m512 a[CHAINS], x = _mm512_set1_ps(0.999999f), y = _mm512_set1_ps(1e-9f);
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) a[i] = _mm512_set1_ps(i);
  double t = now();
  for (long k = 0; k < STEPS; k++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) a[i] = _mm512_fmadd_ps(a[i], x, y);
  }
  t = now() - t;
  volatile float sink = 0;
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) sink += _mm512_reduce_add_ps(a[i]);
  return STEPS * CHAINS * 32.0 / t / 1e9;
}

__attribute__((target("avx2,fma"))) static double peak256(void) {
  __m256 a[CHAINS - 4], x = _mm256_set1_ps(0.999999f), y = _mm256_set1_ps(1e-9f);
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS - 4; i++) a[i] = _mm256_set1_ps(i);
  double t = now();
  for (long k = 0; k < STEPS; k++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS - 4; i++) a[i] = _mm256_fmadd_ps(a[i], x, y);
  }
  t = now() - t;
  volatile float sink = 0;
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS - 4; i++) sink += _mm256_cvtss_f32(a[i]);
  return STEPS * (CHAINS - 4) * 16.0 / t / 1e9;
}

static void measure(void) {
  __builtin_cpu_init();
  int wide = __builtin_cpu_supports("avx512f"), narrow = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  printf("%.3f %.3f\n", wide ? peak512() : 0.0, narrow ? peak256() : 0.0);
}
#elif defined(__aarch64__)
#include <arm_neon.h>

static void measure(void) {
  float32x4_t a[CHAINS], x = vdupq_n_f32(0.999999f), y = vdupq_n_f32(1e-9f);
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) a[i] = vdupq_n_f32(i);
  double t = now();
  for (long k = 0; k < STEPS; k++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) a[i] = vfmaq_f32(a[i], x, y);
  }
  t = now() - t;
  volatile float sink = 0;
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) sink += vaddvq_f32(a[i]);
  printf("%.3f 0\n", STEPS * CHAINS * 8.0 / t / 1e9);
}
#else
#error "unknown peak of this CPU: add its fused multiply-adds here"
#endif

int main(void) {
  char line[16];
  while (fgets(line, sizeof line, stdin)) {
    measure();
    fflush(stdout);
  }
  return 0;
}
