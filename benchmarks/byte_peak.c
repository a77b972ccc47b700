/* Peak of int8 dot products on one core: independent chains of vpdpbusd on registers.
   Prints GOPS (two operations per multiply-add) with 512-bit vectors, 0 if the CPU lacks them, once per input line. It
   measures processor time, so that other programs of a shared machine do not count. */
#include <stdio.h>
#include <time.h>

#if !defined(__x86_64__)
#error "unknown peak of this CPU: add its int8 dot products here"
#endif
#include <immintrin.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

#define CHAINS 16
#define STEPS 400000L

/* Assembly, because compilers copy the accumulators of the intrinsic between registers. */
__attribute__((target("avx512f"))) static double peak(void) {
  __m512i a[CHAINS], x = _mm512_set1_epi32(0x01020304), y = _mm512_set1_epi32(0x01010101);
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) a[i] = _mm512_set1_epi32(i);
  double t = now();
  for (long k = 0; k < STEPS; k++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(a[i]) : "v"(x), "v"(y));
  }
  t = now() - t;
  volatile int sink = 0;
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) sink += _mm512_reduce_add_epi32(a[i]);
  return STEPS * CHAINS * 128.0 / t / 1e9;
}

int main(void) {
  char line[16];
  __builtin_cpu_init();
  int has = __builtin_cpu_supports("avx512vnni");
  while (fgets(line, sizeof line, stdin)) {
    printf("%.3f\n", has ? peak() : 0.0);
    fflush(stdout);
  }
  return 0;
}
