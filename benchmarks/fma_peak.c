/* Bare ceilings of one core: independent chains of fused multiply-adds that never leave the registers.
   Prints GFLOPS with 512-bit and with 256-bit vectors (0 where the CPU lacks them), once per line read. */
#include <immintrin.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

#define CHAINS 16
#define STEPS 400000L

__attribute__((target("avx512f"))) static double peak512(void) {
  __m512 a[CHAINS], x = _mm512_set1_ps(0.999999f), y = _mm512_set1_ps(1e-9f);
  for (int i = 0; i < CHAINS; i++) a[i] = _mm512_set1_ps(i);
  double t = now();
  for (long k = 0; k < STEPS; k++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) a[i] = _mm512_fmadd_ps(a[i], x, y);
  }
  t = now() - t;
  volatile float sink = 0;
  for (int i = 0; i < CHAINS; i++) sink += _mm512_reduce_add_ps(a[i]);
  return STEPS * CHAINS * 32.0 / t / 1e9;
}

__attribute__((target("avx2,fma"))) static double peak256(void) {
  __m256 a[CHAINS - 4], x = _mm256_set1_ps(0.999999f), y = _mm256_set1_ps(1e-9f);
  for (int i = 0; i < CHAINS - 4; i++) a[i] = _mm256_set1_ps(i);
  double t = now();
  for (long k = 0; k < STEPS; k++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS - 4; i++) a[i] = _mm256_fmadd_ps(a[i], x, y);
  }
  t = now() - t;
  volatile float sink = 0;
  for (int i = 0; i < CHAINS - 4; i++) sink += _mm256_cvtss_f32(a[i]);
  return STEPS * (CHAINS - 4) * 16.0 / t / 1e9;
}

int main(void) {
  char line[16];
  __builtin_cpu_init();
  int wide = __builtin_cpu_supports("avx512f"), narrow = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  while (fgets(line, sizeof line, stdin)) {
    printf("%.3f %.3f\n", wide ? peak512() : 0.0, narrow ? peak256() : 0.0);
    fflush(stdout);
  }
  return 0;
}
