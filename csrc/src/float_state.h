/* The floating-point state of the calling thread: rounding, and whether numbers below the normal range are zero. */
#ifndef TVM_SRC_FLOAT_STATE_H_
#define TVM_SRC_FLOAT_STATE_H_

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t FloatState;

#if defined(__x86_64__) || defined(__SSE__)
/* MXCSR: FTZ and DAZ. The low six bits are the exceptions seen so far, which are no setting. */
static const FloatState FLOAT_FLUSH = 0x8040, FLOAT_SETTINGS = 0xffc0;
static inline FloatState float_state(void) { return __builtin_ia32_stmxcsr(); }
static inline void float_state_set(FloatState state) { __builtin_ia32_ldmxcsr((unsigned)state); }
#elif defined(__aarch64__)
/* FPCR.FZ. FZ16 stays as it is: half numbers cost nothing more below their normal range. */
static const FloatState FLOAT_FLUSH = 1u << 24, FLOAT_SETTINGS = ~(FloatState)0;
static inline FloatState float_state(void) {
  FloatState state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
static inline void float_state_set(FloatState state) { __asm__ volatile("msr fpcr, %0" : : "r"(state)); }
#elif defined(__arm__) && defined(__ARM_FP)
/* FPSCR.FZ; vectors flush in any case. The low bits are the exceptions seen so far, the highest the last comparison. */
static const FloatState FLOAT_FLUSH = 1u << 24, FLOAT_SETTINGS = 0x07f70000;
static inline FloatState float_state(void) {
  uint32_t state;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(state));
  return state;
}
static inline void float_state_set(FloatState state) { __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)state)); }
#else
/* Every number is as IEEE 754 says. */
static const FloatState FLOAT_FLUSH = 0, FLOAT_SETTINGS = 0;
static inline FloatState float_state(void) { return 0; }
static inline void float_state_set(FloatState state) { (void)state; }
#endif

/* Flushes, or keeps IEEE numbers, from here on; returns the state to go back to. */
static inline FloatState float_flush(bool on) {
  FloatState before = float_state(), wanted = on ? before | FLOAT_FLUSH : before & ~FLOAT_FLUSH;
  if (wanted != before) float_state_set(wanted);
  return before;
}

/* Takes over the settings of another thread. */
static inline void float_state_follow(FloatState other) {
  FloatState own = float_state();
  if ((own ^ other) & FLOAT_SETTINGS) float_state_set(other);
}

#endif /* TVM_SRC_FLOAT_STATE_H_ */
