/* Sleeping on a 32-bit word until it changes: futex on Linux, a short sleep elsewhere. */
#ifndef TVM_SRC_WAIT_H_
#define TVM_SRC_WAIT_H_

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Returns when *word != seen, when woken, or after `milliseconds`; callers loop. */
static inline void word_wait(_Atomic uint32_t *word, uint32_t seen, int milliseconds) {
#ifdef __linux__
  struct timespec limit = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, milliseconds < 0 ? NULL : &limit, NULL, 0);
#else
  (void)milliseconds;
  struct timespec nap = {0, 50000};
  if (atomic_load(word) == seen) nanosleep(&nap, NULL);
#endif
}

static inline void word_wake(_Atomic uint32_t *word) {
#ifdef __linux__
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
  (void)word;
#endif
}

#endif /* TVM_SRC_WAIT_H_ */
