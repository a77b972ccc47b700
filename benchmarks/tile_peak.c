/* The rate of tile products on one core: four independent sums, operands that stay in registers. */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

#define RATE(product)                                                \
  static double rate_##product(long rounds) {                        \
    double best = 1e9;                                               \
    for (int attempt = 0; attempt < 20; attempt++) {                 \
      double start = now();                                          \
      for (long i = 0; i < rounds; i++) {                            \
        product(0, 4, 6);                                            \
        product(1, 4, 7);                                            \
        product(2, 5, 6);                                            \
        product(3, 5, 7);                                            \
      }                                                              \
      double took = now() - start;                                   \
      best = took < best ? took : best;                              \
    }                                                                \
    return best / (4.0 * rounds);                                    \
  }
RATE(_tile_dpbf16ps)
RATE(_tile_dpbusd)

int main(void) {
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return perror("tile registers"), 1;
  uint8_t config[64] __attribute__((aligned(64))) = {1};
  for (int i = 0; i < 8; i++) config[16 + 2 * i] = 64, config[48 + i] = 16;
  _tile_loadconfig(config);
  long rounds = 40000;
  printf("{\"bf16\": %.1f, \"int8\": %.1f}\n", 2 * 16 * 16 * 32 / rate__tile_dpbf16ps(rounds) / 1e9,
         2 * 16 * 16 * 64 / rate__tile_dpbusd(rounds) / 1e9);
  _tile_release();
  return 0;
}
