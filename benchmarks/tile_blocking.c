/* Ways to block a matmul by tile products on one core, in bytes: rows of KB bytes (bfloat16 or int8). */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef EMULATE
#define ROUNDS 20
#include "../tests/tile_emulator/tiles.c"
#define LOADCFG(p) emulated_ldtilecfg(p)
#define ZERO(t) emulated_tilezero(t)
#define LOAD(t, p, s) emulated_tileloadd64(t, (const char *)(p), s)
#define LOADT1 LOAD
#define STORE(t, p, s) emulated_tilestored64(t, (char *)(p), s)
#define BF16(a, b, c) emulated_tdpbf16ps(a, b, c)
#define INT8(a, b, c) emulated_tdpbusd(a, b, c)
#else
#define ROUNDS 200000
#define LOADCFG(p) _tile_loadconfig(p)
#define ZERO(t) _tile_zero(t)
#define LOAD(t, p, s) _tile_loadd(t, p, s)
#define LOADT1(t, p, s) _tile_stream_loadd(t, p, s)
#define STORE(t, p, s) _tile_stored(t, p, s)
#define BF16(a, b, c) _tile_dpbf16ps(a, b, c)
#define INT8(a, b, c) _tile_dpbusd(a, b, c)
#endif

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* One register block: 32 rows by 32 columns over `steps` tiles of k. a: row tiles (second at +a_next), step a_step. */
#define KERNEL(NAME, LOADA, DP)                                                                                     \
  static inline __attribute__((always_inline)) void NAME(const char *a, long pitch, long a_next, long a_step,       \
                                                         const char *b, int steps, char *c, long c_pitch, int init, \
                                                         const char *pf, int pf_every) {                            \
    if (init) {                                                                                                     \
      ZERO(0); ZERO(1); ZERO(2); ZERO(3);                                                                           \
    } else {                                                                                                        \
      LOAD(0, c, c_pitch); LOAD(1, c + 64, c_pitch);                                                                \
      LOAD(2, c + 16 * c_pitch, c_pitch); LOAD(3, c + 16 * c_pitch + 64, c_pitch);                                  \
    }                                                                                                               \
    for (int s = 0; s < steps; s++, a += a_step, b += 2048) {                                                       \
      LOAD(6, b, 128);                                                                                              \
      LOADA(4, a, pitch);                                                                                           \
      LOAD(7, b + 64, 128);                                                                                         \
      DP(0, 4, 6);                                                                                                  \
      DP(1, 4, 7);                                                                                                  \
      LOADA(5, a + a_next, pitch);                                                                                  \
      DP(2, 5, 6);                                                                                                  \
      DP(3, 5, 7);                                                                                                  \
      for (int q = 0; q < pf_every; q++, pf += 64) _mm_prefetch(pf, _MM_HINT_T1);                                   \
    }                                                                                                               \
    STORE(0, c, c_pitch); STORE(1, c + 64, c_pitch);                                                                \
    STORE(2, c + 16 * c_pitch, c_pitch); STORE(3, c + 16 * c_pitch + 64, c_pitch);                                  \
  }
KERNEL(bf16, LOAD, BF16)
KERNEL(bf16_t1, LOADT1, BF16)
KERNEL(int8, LOAD, INT8)
KERNEL(int8_t1, LOADT1, INT8)

typedef struct { int is_int8, t1, pack, add, kb, mb, pf, nr; } Way;

static long M = 2048, N = 2048, K = 2048;
static char *A, *B, *C, *packed, *panel, *reference;

static void pack_rows(const char *from, long row_bytes, long rows, int pack) {
  if (pack == 1) {
    /* Tiles of 16 rows of 64 bytes: (rows / 16, row_bytes / 64, 16, 64). */
    for (long t = 0; t < rows / 16; t++)
      for (long r = 0; r < 16; r++)
        for (long s = 0; s < row_bytes / 64; s++)
          _mm512_storeu_si512(packed + ((t * (row_bytes / 64) + s) * 16 + r) * 64,
                              _mm512_loadu_si512(from + (t * 16 + r) * row_bytes + s * 64));
  } else {
    for (long r = 0; r < rows; r++) memcpy(packed + r * (row_bytes + 64), from + r * row_bytes, row_bytes);
  }
}

static inline __attribute__((always_inline)) void run(const Way *w, int is_int8, int t1, int add) {
  long row = is_int8 ? K : 2 * K, kb = w->kb ? w->kb : row, panels = N / 32, panel_bytes = 32 * row;
  static char scratch[4096] __attribute__((aligned(64)));
  for (long i0 = 0; i0 < M; i0 += w->mb) {
    long rows = w->mb < M - i0 ? w->mb : M - i0;
    const char *a = A + i0 * row;
    long pitch = row, next = 16 * row, step = 64, block = 32 * row;
    if (w->pack) pack_rows(a, row, rows, w->pack), a = packed;
    if (w->pack == 1) pitch = 64, next = 16 * row, step = 1024, block = 32 * row;
    if (w->pack == 2) pitch = row + 64, next = 16 * pitch, block = 32 * pitch;
    int group = w->nr / 32;
    for (long j = 0; j < panels; j += group) {
      for (long k0 = 0; k0 < row; k0 += kb) {
        long bytes = kb < row - k0 ? kb : row - k0;
        int steps = (int)(bytes / 64);
        for (long i = 0; i < rows / 32; i++)
          for (int g = 0; g < group; g++) {
            const char *b = B + (j + g) * panel_bytes + k0 * 32;
            char *c = panel + g * rows * 128 + i * 32 * 128;
            const char *pa = a + i * block + k0 / 64 * step;
            /* The part of the next piece of B. */
            long lines = 32 * bytes / 64 / (rows / 32) / steps;
            const char *pf = b + 32 * bytes * (group > 1 && k0 + kb >= row ? group : 1) + i * lines * steps * 64;
            int every = w->pf ? (int)(lines > 0 ? lines : 1) : 0;
            char *to = add && k0 ? scratch : c;
            int init = add || k0 == 0;
#define CALL(f) f(pa, pitch, next, step, b, steps, to, 128, init, pf, every)
            if (is_int8) { if (t1) CALL(int8_t1); else CALL(int8); }
            else { if (t1) CALL(bf16_t1); else CALL(bf16); }
            if (add && k0)
              for (int r = 0; r < 4096; r += 64) {
                if (is_int8)
                  _mm512_store_si512(c + r, _mm512_add_epi32(_mm512_load_si512(c + r), _mm512_load_si512(scratch + r)));
                else
                  _mm512_store_ps(c + r, _mm512_add_ps(_mm512_load_ps(c + r), _mm512_load_ps(scratch + r)));
              }
          }
      }
      for (int g = 0; g < group; g++)
        for (long r = 0; r < rows; r++)
          for (int h = 0; h < 2; h++)
            _mm512_storeu_ps(C + ((i0 + r) * N + (j + g) * 32 + h * 16) * 4,
                             _mm512_load_ps(panel + g * rows * 128 + r * 128 + h * 64));
    }
  }
}

static void run_any(const Way *w) {
#define PICK(x, y, z) if (w->is_int8 == x && w->t1 == y && w->add == z) run(w, x, y, z);
  PICK(0, 0, 0) PICK(0, 0, 1) PICK(0, 1, 0) PICK(0, 1, 1) PICK(1, 0, 0) PICK(1, 0, 1) PICK(1, 1, 0) PICK(1, 1, 1)
}

static void *memory(size_t bytes) {
  char *p = mmap(0, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(p, 0, bytes);
  return p;
}

/* The register block on operands that stay in the L1 cache, or where A comes from the L2 cache. */
static double bound(int is_int8, int t1, long a_bytes, long kb, int packed_a) {
  double best = 1e9;
  long blocks = 2000, steps = kb / 64, each = 32 * kb, count = a_bytes / each;
  static char c[4096] __attribute__((aligned(64)));
  for (int attempt = 0; attempt < 20; attempt++) {
    double start = now();
    for (long i = 0; i < blocks; i++) {
      const char *a = A + i % count * each;
      long pitch = packed_a ? 64 : kb, next = 16 * kb, step = packed_a ? 1024 : 64;
      if (is_int8) { if (t1) int8_t1(a, pitch, next, step, B, steps, c, 128, 1, 0, 0); else int8(a, pitch, next, step, B, steps, c, 128, 1, 0, 0); }
      else { if (t1) bf16_t1(a, pitch, next, step, B, steps, c, 128, 1, 0, 0); else bf16(a, pitch, next, step, B, steps, c, 128, 1, 0, 0); }
    }
    double took = now() - start;
    best = took < best ? took : best;
  }
  return 2.0 * 32 * 32 * (is_int8 ? kb : kb / 2) * blocks / best / 1e9;
}

#define RATE(name, DP)                                          \
  static double name(long rounds) {                             \
    double best = 1e9;                                          \
    for (int attempt = 0; attempt < 10; attempt++) {            \
      double start = now();                                     \
      for (long i = 0; i < rounds; i++) {                       \
        DP(0, 4, 6); DP(1, 4, 7); DP(2, 5, 6); DP(3, 5, 7);     \
      }                                                         \
      double took = now() - start;                              \
      best = took < best ? took : best;                         \
    }                                                           \
    return best / (4.0 * rounds);                               \
  }
RATE(rate_bf16, BF16)
RATE(rate_int8, INT8)

int main(int argc, char **argv) {
#ifdef EMULATE
  M = N = 128, K = 256;
#else
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return perror("tile registers"), 1;
#endif
  double limit = argc > 1 ? atof(argv[1]) : 60, begin = now();
  uint8_t config[64] __attribute__((aligned(64))) = {1};
  for (int i = 0; i < 8; i++) config[16 + 2 * i] = 64, config[48 + i] = 16;
  LOADCFG(config);
  A = memory(M * K * 2), B = memory(N * K * 2 + (1 << 20)), C = memory(M * N * 4), reference = memory(M * N * 4);
  packed = memory(M * (K * 2 + 64)), panel = memory(M * 128 * 4);
  for (long i = 0; i < M * K; i++) ((uint16_t *)A)[i] = (uint16_t)(0x3f80 + (rand() % 3) * 0x40);
  for (long i = 0; i < N * K; i++) ((uint16_t *)B)[i] = (uint16_t)(0x3f80 + (rand() % 3) * 0x40);
  double peak[2] = {2 * 16 * 16 * 32 / rate_bf16(ROUNDS) / 1e9, 2 * 16 * 16 * 64 / rate_int8(ROUNDS) / 1e9};
  printf("peak bf16 %.0f int8 %.0f\n", peak[0], peak[1]);
#ifndef EMULATE
  for (int t1 = 0; t1 < 2; t1++)
    for (int p = 0; p < 2; p++)
      for (long kb = 512; kb <= 2048; kb *= 2) {
        printf("bound t1=%d packed=%d kb=%ld:", t1, p, kb);
        for (long a = 32 * kb; a <= 1 << 20; a = a < 32 * kb * 8 ? a * 8 : a * 4) printf(" A of %ld KB %.2f", a >> 10, bound(0, t1, a, kb, p) / peak[0]);
        printf("\n");
        fflush(stdout);
      }
#endif
  static const int kbs[] = {0, 512, 768, 1024, 2048};
  for (int pass = 0; pass < 2; pass++)
    for (int is_int8 = 0; is_int8 < 2; is_int8++) {
      int first = 1;
      for (int pack = 0; pack < 3; pack++)
        for (int kbi = 0; kbi < 5; kbi++)
          for (int add = 0; add < 2; add++)
            for (int t1 = 0; t1 < 2; t1++)
              for (int mb = 128; mb <= 512; mb *= 2)
                for (int nr = 32; nr <= 64; nr += 32)
                  for (int pf = 0; pf < 2; pf++) {
                    int kb = kbs[kbi];
                    /* The second pass: what the first left out. */
                    int is_main = mb == 256 && pack != 2 && (nr == 32 || kb == 512 || kb == 768);
                    if (is_main != !pass || (kb == 0 && (add || nr == 64)) || (is_int8 && kb == 2048)) continue;
                    if (!first && now() - begin > limit) continue;
                    Way w = {is_int8, t1, pack, add, kb, mb, pf, nr};
                    double best = 1e9;
                    for (int attempt = 0; attempt < 4; attempt++) {
                      double start = now();
                      run_any(&w);
                      double took = now() - start;
                      best = took < best ? took : best;
                    }
                    if (first) memcpy(reference, C, M * N * 4), first = 0;
                    int same = 1;
                    for (long i = 0; i < M * N; i++) {
                      if (is_int8) same &= ((int32_t *)C)[i] == ((int32_t *)reference)[i];
                      else { float x = ((float *)C)[i], y = ((float *)reference)[i]; same &= x - y < 1e-2f * y && y - x < 1e-2f * y; }
                    }
                    double g = 2.0 * M * N * K / best / 1e9;
                    printf("%s pack=%d kb=%d add=%d t1=%d mb=%d nr=%d pf=%d: %.0f %.3f%s\n", is_int8 ? "int8" : "bf16", pack, kb, add, t1, mb, nr, pf, g, g / peak[is_int8], same ? "" : " WRONG");
                    fflush(stdout);
                  }
    }
  return 0;
}
