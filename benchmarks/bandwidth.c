/* Peak memory bandwidth: GB/s of reading working sets of several sizes with all threads at once.
   Argument: the number of threads. Prints the sizes in bytes in the first line, then one line of GB/s per input line. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZES 4
static const size_t sizes[SIZES] = {1u << 20, 4u << 20, 32u << 20, 128u << 20};
static int threads;
static float *memory;
static pthread_barrier_t barrier;
static size_t size;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

typedef float vec __attribute__((vector_size(64), aligned(64)));

#if defined(__x86_64__)
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#endif
static float read_all(const float *from, size_t n) {
  vec a = {0}, b = {0}, c = {0}, d = {0};
  const vec *p = (const vec *)from;
  for (size_t i = 0; i + 3 < n / 64; i += 4) a += p[i], b += p[i + 1], c += p[i + 2], d += p[i + 3];
  a += b + c + d;
  return a[0];
}

/* Enough passes for about 4 ms on a fast machine. */
static long passes(void) { return size >= (128u << 20) ? 1 : (long)((256u << 20) / size); }

static void *work(void *arg) {
  long me = (long)(intptr_t)arg;
  volatile float sink = 0;
  for (;;) {
    pthread_barrier_wait(&barrier);
    size_t part = size / threads / 256 * 256;
    for (long k = 0; k < passes(); k++) sink += read_all(memory + part / 4 * me, part);
    pthread_barrier_wait(&barrier);
    if (!me) return NULL;
  }
}

int main(int argc, char **argv) {
  threads = argc > 1 ? atoi(argv[1]) : 1;
  memory = aligned_alloc(1 << 21, sizes[SIZES - 1]);
  memset(memory, 0, sizes[SIZES - 1]);
  pthread_barrier_init(&barrier, NULL, threads);
  for (long i = 1; i < threads; i++) {
    pthread_t t;
    pthread_create(&t, NULL, work, (void *)(intptr_t)i);
  }
  for (int i = 0; i < SIZES; i++) printf("%zu ", sizes[i]);
  printf("\n");
  fflush(stdout);
  char line[16];
  while (fgets(line, sizeof line, stdin)) {
    for (int i = 0; i < SIZES; i++) {
      size = sizes[i];
      double t = now();
      work((void *)0);
      printf("%.3f ", (double)size * passes() / (now() - t) / 1e9);
    }
    printf("\n");
    fflush(stdout);
  }
  return 0;
}
