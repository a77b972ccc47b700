/* POSIX functions of the tests, for systems without them. A test of fork is compiled if SYSTEM_HAS_FORK is 1. */
#ifndef TVM_TESTS_PORTABLE_H_
#define TVM_TESTS_PORTABLE_H_

#include <stdlib.h>

#include "../src/system/system.h"

#if SYSTEM_HAS_FORK
#include <sys/wait.h>
#include <unistd.h>

/* qemu-user aborts in the child of a process with several threads. */
#define RUN_WITH_FORK(test) \
  do { \
    if (!getenv("TVM_TEST_EMULATED")) RUN(test); \
  } while (0)

static inline void *aligned_block(size_t size) { return aligned_alloc(256, (size + 255) / 256 * 256); }

static inline void aligned_block_free(void *block) { free(block); }
#else
#include <malloc.h>

#define RUN_WITH_FORK(test) (void)0

static inline void *aligned_block(size_t size) { return _aligned_malloc(size, 256); }

static inline void aligned_block_free(void *block) { _aligned_free(block); }

static inline int setenv(const char *name, const char *value, int overwrite) {
  (void)overwrite;
  return _putenv_s(name, value);
}

static inline int unsetenv(const char *name) { return _putenv_s(name, ""); }
#endif

#endif /* TVM_TESTS_PORTABLE_H_ */
