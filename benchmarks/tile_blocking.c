/* Ways to block a matmul by tile products on one core. Times are minima over repetitions of short pieces, so that a noisy
   machine shows what a quiet one does; each is divided by the rate of products alone, measured beside it. */
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
#include "../tests/tile_emulator/tiles.c"
#define LOADCFG(p) emulated_ldtilecfg(p)
#define ZERO(t) emulated_tilezero(t)
#define LOAD(t, p, s) emulated_tileloadd64(t, (const char *)(p), s)
#define LOADT1 LOAD
#define STORE(t, p, s) emulated_tilestored64(t, (char *)(p), s)
#define BF16(a, b, c) emulated_tdpbf16ps(a, b, c)
#define INT8(a, b, c) emulated_tdpbusd(a, b, c)
#else
#define LOADCFG(p) _tile_loadconfig(p)
#define ZERO(t) _tile_zero(t)
#define LOAD(t, p, s) _tile_loadd(t, p, s)
#define LOADT1(t, p, s) _tile_stream_loadd(t, p, s)
#define STORE(t, p, s) _tile_stored(t, p, s)
#define BF16(a, b, c) _tile_dpbf16ps(a, b, c)
#define INT8(a, b, c) _tile_dpbusd(a, b, c)
#endif
#define INLINE static inline __attribute__((always_inline))

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Seconds of 400 products: the best of the attempts. */
static double products(int is_int8, int attempts) {
  double best = 1e9;
  for (int i = 0; i < attempts; i++) {
    double start = now();
    for (int r = 0; r < 100; r++)
      if (is_int8) { INT8(0, 4, 6); INT8(1, 4, 7); INT8(2, 5, 6); INT8(3, 5, 7); }
      else { BF16(0, 4, 6); BF16(1, 4, 7); BF16(2, 5, 6); BF16(3, 5, 7); }
    double took = now() - start;
    best = took < best ? took : best;
  }
  return best / 400;
}

typedef struct { long pitch, next, step; } Place;

/* 32 rows by 32 columns over `steps` tiles of k; order: 0 loads first, 1 interleaved. wrap: steps after which operands
   begin again. */
INLINE void block(const char *a, Place p, const char *b, int steps, int wrap, char *c, int init, int drain, int t1, int order,
                  const char *pf, int pf_count, int pf_stride) {
  if (init == 1) { ZERO(0); ZERO(1); ZERO(2); ZERO(3); }
  if (init == 2) { LOAD(0, c, 128); LOAD(1, c + 64, 128); LOAD(2, c + 2048, 128); LOAD(3, c + 2048 + 64, 128); }
  const char *a0 = a, *b0 = b;
  for (int s = 0, left = wrap; s < steps; s++, a += p.step, b += 2048) {
    if (wrap && left-- == 0) a = a0, b = b0, left = wrap - 1;
    if (order == 0) {
      if (t1) LOADT1(4, a, p.pitch); else LOAD(4, a, p.pitch);
      if (t1) LOADT1(5, a + p.next, p.pitch); else LOAD(5, a + p.next, p.pitch);
      LOAD(6, b, 128);
      LOAD(7, b + 64, 128);
      BF16(0, 4, 6); BF16(1, 4, 7); BF16(2, 5, 6); BF16(3, 5, 7);
    } else {
      LOAD(6, b, 128);
      if (t1) LOADT1(4, a, p.pitch); else LOAD(4, a, p.pitch);
      BF16(0, 4, 6);
      LOAD(7, b + 64, 128);
      BF16(1, 4, 7);
      if (t1) LOADT1(5, a + p.next, p.pitch); else LOAD(5, a + p.next, p.pitch);
      BF16(2, 5, 6);
      BF16(3, 5, 7);
    }
    for (int q = 0; q < pf_count; q++, pf += pf_stride) _mm_prefetch(pf, _MM_HINT_T1);
  }
  if (drain) { STORE(0, c, 128); STORE(1, c + 64, 128); STORE(2, c + 2048, 128); STORE(3, c + 2048 + 64, 128); }
}

static long M = 2048, N = 2048, ROW = 4096;
static char *A, *B, *C, *packed, *panel, *reference;
static char scratch[4096] __attribute__((aligned(64)));

INLINE void add_scratch(char *c) {
  for (int r = 0; r < 4096; r += 64)
    _mm512_store_ps(c + r, _mm512_add_ps(_mm512_load_ps(c + r), _mm512_load_ps(scratch + r)));
}

typedef struct { int t1, pack, add, kb, mb, pf, same_b, no_c, nt; } Way;

static void pack_rows(const char *from, long rows) {
  for (long t = 0; t < rows / 16; t++)
    for (long r = 0; r < 16; r++)
      for (long s = 0; s < ROW / 64; s++)
        _mm512_storeu_si512(packed + ((t * (ROW / 64) + s) * 16 + r) * 64, _mm512_loadu_si512(from + (t * 16 + r) * ROW + s * 64));
}

static double least[64][256];

INLINE void run(const Way *w, int t1, int add) {
  long kb = w->kb ? w->kb : ROW, panels = N / 32, panel_bytes = 32 * ROW, number = 0;
  for (long i0 = 0; i0 < M; i0 += w->mb, number++) {
    long rows = w->mb < M - i0 ? w->mb : M - i0;
    const char *a = A + i0 * ROW;
    Place p = {ROW, 16 * ROW, 64};
    double start = now();
    if (w->pack) pack_rows(a, rows), a = packed, p = (Place){64, 16 * ROW, 1024};
    for (long j = 0; j < panels; j++) {
      for (long k0 = 0; k0 < ROW; k0 += kb) {
        long bytes = kb < ROW - k0 ? kb : ROW - k0, steps = bytes / 64, blocks = rows / 32;
        const char *b = B + (w->same_b ? 0 : j) * panel_bytes + k0 * 32, *ahead = b + 32 * bytes;
        /* The next piece of B, each block its share; every other line where its neighbour comes with it. */
        int stride = w->pf == 2 ? 128 : 64, count = w->pf ? (int)(32 * bytes / stride / blocks / steps) : 0;
        for (long i = 0; i < blocks; i++) {
          char *c = panel + i * 4096;
          const char *pa = a + i * 32 * ROW + k0 / 64 * p.step, *pf = ahead + i * count * steps * stride;
          int is_added = add && k0;
          block(pa, p, b, (int)steps, 0, is_added ? scratch : c, add || k0 == 0 ? 1 : 2, 1, t1, 1, pf, count, stride);
          if (is_added) add_scratch(c);
        }
      }
      if (!w->no_c)
        for (long r = 0; r < rows; r++)
          for (int h = 0; h < 2; h++) {
            float *to = (float *)C + (i0 + r) * N + j * 32 + h * 16;
            __m512 v = _mm512_load_ps(panel + r * 128 + h * 64);
            if (w->nt) _mm512_stream_ps(to, v); else _mm512_storeu_ps(to, v);
          }
      double end = now();
      if (end - start < least[number][j]) least[number][j] = end - start;
      start = end;
    }
  }
}

static void *memory(size_t bytes, int huge) {
  bytes = (bytes + (1 << 21)) & ~(size_t)((1 << 21) - 1);
  char *p = mmap(0, bytes + (1 << 21), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  p = (char *)(((uintptr_t)p + (1 << 21) - 1) & ~(uintptr_t)((1 << 21) - 1));
  if (huge) madvise(p, bytes, MADV_HUGEPAGE);
  memset(p, 0, bytes);
  return p;
}

#define TIMED(best, attempts, body)                                      \
  for (int attempt_ = 0; attempt_ < attempts; attempt_++) {              \
    double start_ = now();                                               \
    body;                                                                \
    double took_ = now() - start_;                                       \
    if (took_ < best) best = took_;                                      \
  }

int main(int argc, char **argv) {
  int attempts = 100, repeats = 16, products_of = 100;
#ifdef EMULATE
  M = N = 128, ROW = 512, attempts = 1, repeats = 1, products_of = 1;
#else
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return perror("tile registers"), 1;
#endif
  double limit = argc > 1 ? atof(argv[1]) : 60, begin = now();
  uint8_t config[64] __attribute__((aligned(64))) = {1};
  for (int i = 0; i < 8; i++) config[16 + 2 * i] = 64, config[48 + i] = 16;
  LOADCFG(config);
  for (int huge = 0; huge < 2; huge++) {
    A = memory(M * ROW, huge), B = memory((N + 64) * ROW, huge), C = memory(M * N * 4, huge);
    packed = memory(M * ROW, huge), panel = memory(M * 128, huge);
    if (!huge) reference = memory(M * N * 4, 0);
    srand(1);
    for (long i = 0; i < M * ROW / 2; i++) ((uint16_t *)A)[i] = (uint16_t)(0x3f80 + (rand() % 3) * 0x40);
    for (long i = 0; i < N * ROW / 2; i++) ((uint16_t *)B)[i] = (uint16_t)(0x3f80 + (rand() % 3) * 0x40);
    double own = products(0, 20 * products_of);
    printf("huge=%d peak %.0f GFLOPS, int8 %.0f\n", huge, 16384 / own / 1e9, 32768 / products(1, 20 * products_of) / 1e9);
    /* A register block alone: operands in L1 that begin again, each order of loads; sums drained after some steps. */
    Place tiles = {64, 16 * 512, 1024}, strided = {4096, 16 * 4096, 64};
    for (int order = 0; order < 2; order++)
      for (int drain = 0; drain < 3; drain++)
        for (int steps = 8; steps <= 64; steps *= 2) {
          double best = 1e9, p = products(0, products_of);
          int count = 512 / steps;
#define BLOCKS(ORDER, DRAIN) for (int i = 0; i < count; i++) { block(A, tiles, B, steps, 8, DRAIN == 2 ? scratch : panel + i % 8 * 4096, 1, DRAIN > 0, 0, ORDER, 0, 0, 64); if (DRAIN == 2) add_scratch(panel + i % 8 * 4096); }
          TIMED(best, attempts, if (order == 0) { if (drain == 0) BLOCKS(0, 0) else if (drain == 1) BLOCKS(0, 1) else BLOCKS(0, 2) } else { if (drain == 0) BLOCKS(1, 0) else if (drain == 1) BLOCKS(1, 1) else BLOCKS(1, 2) })
          printf("L1 order=%d drain=%d steps=%d: %.3f\n", order, drain, steps, 4 * 512 * p / best);
        }
    /* A from L2, B in L1: kb bytes of k. */
    for (int t1 = 0; t1 < 2; t1++)
      for (int pack = 0; pack < 2; pack++)
        for (int steps = 4; steps <= 32; steps *= 2)
          for (int init = 1; init < 3; init++) {
            double best = 1e9, p = products(0, products_of);
            Place at = pack ? (Place){64, 16 * 64 * steps, 1024} : strided;
            int count = M / 32 < 8 ? (int)M / 32 : 8;
            for (int part = 0; part < 1; part++) {
              /* 256 rows of A; strided ones read columns of the matrix. */
#define STREAM(T1, INIT) for (int i = 0; i < count; i++) block(A + i * (pack ? 32 * 64 * steps : 32 * 4096) + part * 64 * steps, at, B, steps, 0, panel + i * 4096, INIT, 1, T1, 1, 0, 0, 64);
              TIMED(best, attempts, for (int q = 0; q < 4; q++) { part = q * (pack ? 0 : 1); if (t1) { if (init == 1) STREAM(1, 1) else STREAM(1, 2) } else { if (init == 1) STREAM(0, 1) else STREAM(0, 2) } } part = 0)
            }
            printf("L2 t1=%d pack=%d steps=%d init=%d: %.3f\n", t1, pack, steps, init, 4.0 * 4 * count * steps * p / best);
          }
    fflush(stdout);
    static const Way ways[] = {
        /* t1 pack add kb mb pf same_b no_c nt */
        {0, 0, 0, 0, 256, 0, 0, 0, 0},    {1, 1, 0, 512, 256, 2, 1, 1, 0},  {1, 1, 0, 1024, 256, 2, 1, 1, 0}, {0, 1, 0, 512, 256, 2, 1, 1, 0},
        {1, 0, 0, 1024, 256, 2, 1, 1, 0}, {1, 1, 0, 1024, 256, 2, 0, 1, 0}, {1, 1, 0, 1024, 256, 2, 1, 0, 0}, {1, 1, 0, 1024, 256, 0, 0, 0, 0},
        {1, 1, 0, 1024, 256, 1, 0, 0, 0}, {1, 1, 0, 1024, 256, 2, 0, 0, 0}, {1, 1, 0, 1024, 256, 2, 0, 0, 1}, {1, 1, 0, 1024, 384, 2, 0, 0, 0},
        {1, 1, 0, 1024, 320, 2, 0, 0, 0}, {1, 1, 0, 512, 256, 2, 0, 0, 0},  {1, 1, 1, 1024, 256, 2, 0, 0, 0}, {1, 1, 1, 512, 256, 2, 0, 0, 0},
        {0, 1, 0, 512, 256, 2, 0, 0, 0},  {1, 0, 0, 1024, 256, 2, 0, 0, 0}, {1, 1, 0, 2048, 256, 2, 0, 0, 0}, {1, 1, 0, 0, 256, 2, 0, 0, 0},
        {1, 1, 0, 768, 256, 2, 0, 0, 0},  {1, 1, 0, 1024, 384, 2, 0, 0, 1},
    };
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
      const Way *w = ways + n;
      if (now() - begin > limit) break;
      for (int i = 0; i < 64; i++) for (int j = 0; j < 256; j++) least[i][j] = 1e9;
      double p = 1e9, whole = 1e9;
      for (int r = 0; r < repeats; r++) {
        double q = products(0, products_of / 4 + 1), start = now();
        p = q < p ? q : p;
        if (w->t1) { if (w->add) run(w, 1, 1); else run(w, 1, 0); } else { if (w->add) run(w, 0, 1); else run(w, 0, 0); }
        double took = now() - start;
        whole = took < whole ? took : whole;
      }
      double total = 0;
      for (int i = 0; i < (M + w->mb - 1) / w->mb; i++) for (int j = 0; j < N / 32; j++) total += least[i][j];
      if (n == 0 && !huge) memcpy(reference, C, M * N * 4);
      int same = 1;
      for (long i = 0; i < M * N && !w->same_b && !w->no_c; i++) {
        float x = ((float *)C)[i], y = ((float *)reference)[i];
        same &= x - y < 1e-2f * y && y - x < 1e-2f * y;
      }
      double flops = 1.0 * M * N * ROW, peak = 16384 / p;
      printf("huge=%d t1=%d pack=%d add=%d kb=%d mb=%d pf=%d same_b=%d no_c=%d nt=%d: minima %.3f whole %.3f (%.0f GFLOPS)%s\n", huge, w->t1,
             w->pack, w->add, w->kb, w->mb, w->pf, w->same_b, w->no_c, w->nt, flops / total / peak, flops / whole / peak, flops / whole / 1e9, same ? "" : " WRONG");
      fflush(stdout);
    }
  }
  return 0;
}
