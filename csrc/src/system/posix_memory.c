/* Implements memory of system.h for Linux and macOS. */
#include "system.h"

#ifndef _WIN32
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void *system_alloc(size_t alignment, size_t size) {
  void *memory = NULL;
  return posix_memalign(&memory, alignment, size) ? NULL : memory;
}

void system_free(void *memory) { free(memory); }

void system_use_large_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
  madvise(memory, size, MADV_HUGEPAGE);
#else
  (void)memory, (void)size;
#endif
}

void system_release_memory(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}
#endif
