/* Sustained rate of AMX tile products on one core: four independent accumulators, operands in registers.
   tile_peak KIND MS prints GFLOPS: the median of slices of about a quarter of a millisecond over MS milliseconds. A burst
   of some milliseconds, or products of zeros, run at a higher clock than the core can sustain: operands are random. */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 10000, MOST = 100000 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

#define SLICE(product)                       \
  static double slice_##product(void) {      \
    double start = now();                    \
    for (long i = 0; i < ROUNDS; i++) {      \
      product(0, 4, 6);                      \
      product(1, 4, 7);                      \
      product(2, 5, 6);                      \
      product(3, 5, 7);                      \
    }                                        \
    return (now() - start) / (4.0 * ROUNDS); \
  }
SLICE(_tile_dpbf16ps)
SLICE(_tile_dpbusd)

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "tile_peak bf16|int8 MILLISECONDS\n"), 2;
  int is_bf16 = !strcmp(argv[1], "bf16"), count = 0;
  static double found[MOST];
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return perror("tile registers"), 1;
  uint8_t config[64] __attribute__((aligned(64))) = {1};
  for (int i = 0; i < 8; i++) config[16 + 2 * i] = 64, config[48 + i] = 16;
  _tile_loadconfig(config);
  static uint8_t operands[4][1024] __attribute__((aligned(64)));
  for (int i = 0; i < 4096; i++) ((uint8_t *)operands)[i] = is_bf16 && i % 2 ? 0x3f : rand(); /* bfloat16 from 0.5 to 2 */
  _tile_loadd(4, operands[0], 64);
  _tile_loadd(5, operands[1], 64);
  _tile_loadd(6, operands[2], 64);
  _tile_loadd(7, operands[3], 64);
  double end = now() + 1e-3 * atof(argv[2]);
  do found[count++] = is_bf16 ? slice__tile_dpbf16ps() : slice__tile_dpbusd();
  while (count < MOST && now() < end);
  _tile_release();
  qsort(found, count, sizeof found[0], by_value);
  printf("%.1f\n", 2 * 16 * 16 * (is_bf16 ? 32 : 64) / found[count / 2] / 1e9);
  return 0;
}
