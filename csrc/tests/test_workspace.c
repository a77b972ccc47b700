#include <pthread.h>
#include <stdint.h>

#include "check.h"

static void test_blocks_are_aligned_distinct_and_reused(void) {
  void *first = TVMBackendAllocWorkspace(kDLCPU, 0, 1000, kDLFloat, 32);
  void *second = TVMBackendAllocWorkspace(kDLCPU, 0, 100000, kDLFloat, 32);
  CHECK(first && second && first != second);
  CHECK((uintptr_t)first % 64 == 0 && (uintptr_t)second % 64 == 0);
  memset(first, 1, 1000);
  memset(second, 2, 100000);
  CHECK(((char *)first)[999] == 1);
  OK(TVMBackendFreeWorkspace(kDLCPU, 0, second));
  CHECK(TVMBackendAllocWorkspace(kDLCPU, 0, 90000, kDLFloat, 32) == second);
  OK(TVMBackendFreeWorkspace(kDLCPU, 0, second));
  OK(TVMBackendFreeWorkspace(kDLCPU, 0, first));
}

static void test_large_blocks_lie_in_huge_pages(void) {
  enum { HUGE_PAGE = 2 << 20, HEADER = 64 };
  char *large = TVMBackendAllocWorkspace(kDLCPU, 0, HUGE_PAGE / 2, kDLFloat, 32);
  CHECK(large && (uintptr_t)large % HUGE_PAGE == HEADER);
  memset(large, 1, HUGE_PAGE / 2);
  OK(TVMBackendFreeWorkspace(kDLCPU, 0, large));
  /* The block uses the whole huge page. */
  CHECK(TVMBackendAllocWorkspace(kDLCPU, 0, HUGE_PAGE - HEADER, kDLFloat, 32) == large);
  memset(large, 2, HUGE_PAGE - HEADER);
  OK(TVMBackendFreeWorkspace(kDLCPU, 0, large));
  char *larger = TVMBackendAllocWorkspace(kDLCPU, 0, HUGE_PAGE, kDLFloat, 32);
  CHECK(larger && larger != large && (uintptr_t)larger % HUGE_PAGE == HEADER);
  OK(TVMBackendFreeWorkspace(kDLCPU, 0, larger));
}

static void test_bad_requests_are_refused(void) {
  CHECK(TVMBackendAllocWorkspace(kDLCPU, 0, UINT64_MAX, kDLFloat, 32) == NULL);
  CHECK(strstr(TVMGetLastError(), "exceeds the address space"));
  /* No machine has a driver for this device type. */
  CHECK(TVMBackendAllocWorkspace(kDLVPI, 0, 16, kDLFloat, 32) == NULL);
  CHECK(strstr(TVMGetLastError(), "vpi(0)"));
  static _Alignas(64) char foreign[256];
  REFUSES(TVMBackendFreeWorkspace(kDLCPU, 0, foreign + 64), "is not a workspace block");
}

static void *use_blocks(void *opaque) {
  unsigned seed = (unsigned)(uintptr_t)opaque;
  for (int i = 0; i < 300; ++i) {
    char *blocks[8];
    size_t sizes[8];
    for (int j = 0; j < 8; ++j) {
      seed = seed * 1103515245u + 12345u;
      sizes[j] = 1 + seed % 20000;
      CHECK((blocks[j] = TVMBackendAllocWorkspace(kDLCPU, 0, sizes[j], kDLInt, 8)) != NULL);
      memset(blocks[j], j, sizes[j]);
    }
    for (int j = 0; j < 8; ++j) {
      CHECK(blocks[j][0] == j && blocks[j][sizes[j] - 1] == j);
      OK(TVMBackendFreeWorkspace(kDLCPU, 0, blocks[j]));
    }
  }
  return TVMBackendAllocWorkspace(kDLCPU, 0, 64, kDLInt, 8);
}

static void test_threads_have_their_own_blocks(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, use_blocks, (void *)(uintptr_t)(i + 1)) == 0);
  for (int i = 0; i < 3; ++i) {
    void *left;
    pthread_join(threads[i], &left);
    /* Free the block after its thread has ended. */
    OK(TVMBackendFreeWorkspace(kDLCPU, 0, left));
  }
}

int main(void) {
  RUN(test_blocks_are_aligned_distinct_and_reused);
  RUN(test_large_blocks_lie_in_huge_pages);
  RUN(test_bad_requests_are_refused);
  RUN(test_threads_have_their_own_blocks);
  return 0;
}
