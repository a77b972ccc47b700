/* Utilities that every other part of the runtime may use and that depend on system.h alone: errors, the clock, maps,
 * JSON, hashes, the floating-point state, and the number of CPUs. The thread pool and tile registers are in
 * tvm_runtime.h. */
#ifndef TVM_SRC_BASE_BASE_H_
#define TVM_SRC_BASE_BASE_H_

#include "../../include/tvm_runtime.h"
#include "../system/system.h"

/* ---- errors, interrupts, and the clock (error.c) ---- */
/* Sets the last error from a format string. tvm_error has the value -1, so a function can fail with `return
 * tvm_error(...)`. */
void tvm_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define tvm_error(...) (tvm_set_error(__VA_ARGS__), -1)

/* The last error as a struct, for passing it from one thread to another. */
enum { TVM_ERROR_TEXT_SIZE = 8192 };
typedef struct { uint64_t token; char text[TVM_ERROR_TEXT_SIZE]; } ErrorRecord;
void tvm_error_save(ErrorRecord *out);
void tvm_error_restore(const ErrorRecord *record);
/* Returns non-zero if the embedding language requests an interrupt. The throttled variant checks at most every 50 ms. */
int tvm_interrupt_pending(void);
int tvm_interrupt_check(void);
double tvm_now(void); /* seconds of a monotonic clock */

/* ---- string map: name -> pointer; keys are copied (map.c) ---- */
typedef struct { char *key; void *value; } MapEntry;
typedef struct { MapEntry *entries; size_t capacity; size_t count; } StringMap;
void *map_get(const StringMap *map, const char *key);
/* Inserts or replaces an entry; *out_old receives the previous value. Returns -1 if memory is exhausted. */
int map_put(StringMap *map, const char *key, void *value, void **out_old);
void *map_remove(StringMap *map, const char *key);
void map_clear(StringMap *map); /* frees keys and table, not the values */

/* ---- JSON text, read into a tree (json.c) ---- */
typedef enum { JSON_NULL, JSON_BOOL, JSON_INT, JSON_REAL, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

/* `child` is the first element of an array or object, `next` the following sibling; members of objects have a `key`. */
typedef struct Json {
  JsonKind kind;
  char *key;
  char *text; /* strings */
  int64_t integer;
  double real;
  int count; /* children */
  struct Json *child, *next;
} Json;

int json_parse(const char *text, size_t size, Json **out); /* sets the last error on failure */
void json_free(Json *json);
const Json *json_member(const Json *object, const char *key); /* NULL if the object has no such member */

/* ---- SHA-256 (FIPS 180-4), HMAC over it (RFC 2104), and a comparison whose time does not depend on the contents
 * (sha256.c) ---- */
enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };
typedef struct { uint32_t state[8]; uint64_t length; unsigned char block[SHA256_BLOCK]; size_t used; } Sha256;

void sha256_start(Sha256 *hash);
void sha256_add(Sha256 *hash, const void *data, size_t size);
void sha256_end(Sha256 *hash, unsigned char out[SHA256_BYTES]);

/* `parts` are hashed one after another, as if they were concatenated. */
typedef struct { const void *data; size_t size; } HashPart;
void hmac_sha256(const void *key, size_t key_size, const HashPart *parts, int count, unsigned char out[SHA256_BYTES]);
bool same_bytes(const unsigned char *a, const unsigned char *b, size_t size);

/* ---- the floating-point state of the calling thread: rounding, and whether denormal numbers are flushed to zero ---- */
typedef uint64_t FloatState;

#if defined(__x86_64__) || defined(__SSE__)
/* MXCSR: FTZ and DAZ. The low six bits are exception flags, which are not settings. */
static const FloatState FLOAT_FLUSH = 0x8040, FLOAT_SETTINGS = 0xffc0;
static inline FloatState float_state(void) { return __builtin_ia32_stmxcsr(); }
static inline void float_state_set(FloatState state) { __builtin_ia32_ldmxcsr((unsigned)state); }
#elif defined(__aarch64__)
/* FPCR.FZ. FZ16 stays unchanged: subnormal float16 numbers are not slower. */
static const FloatState FLOAT_FLUSH = 1u << 24, FLOAT_SETTINGS = ~(FloatState)0;
static inline FloatState float_state(void) {
  FloatState state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
static inline void float_state_set(FloatState state) { __asm__ volatile("msr fpcr, %0" : : "r"(state)); }
#elif defined(__arm__) && defined(__ARM_FP)
/* FPSCR.FZ; vector instructions flush in any case. The low bits are exception flags, the highest bits condition flags. */
static const FloatState FLOAT_FLUSH = 1u << 24, FLOAT_SETTINGS = 0x07f70000;
static inline FloatState float_state(void) {
  uint32_t state;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(state));
  return state;
}
static inline void float_state_set(FloatState state) { __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)state)); }
#else
/* All arithmetic follows IEEE 754; there is no flush mode. */
static const FloatState FLOAT_FLUSH = 0, FLOAT_SETTINGS = 0;
static inline FloatState float_state(void) { return 0; }
static inline void float_state_set(FloatState state) { (void)state; }
#endif

/* Turns flushing of denormal numbers on or off; returns the previous state. */
static inline FloatState float_flush(bool on) {
  FloatState before = float_state(), wanted = on ? before | FLOAT_FLUSH : before & ~FLOAT_FLUSH;
  if (wanted != before) float_state_set(wanted);
  return before;
}

/* Copies the floating-point settings of another thread. */
static inline void float_state_follow(FloatState other) {
  FloatState own = float_state();
  if ((own ^ other) & FLOAT_SETTINGS) float_state_set(other);
}

/* ---- flushing of denormal numbers while executors run (denormals.c) ---- */
/* Reads the environment variable TVM_FLUSH_DENORMALS: true unless it is 0. */
int tvm_flush_default(bool *out);
/* Called around a run: `end` takes the value that `begin` returned and restores the thread's state, also after an
 * error. */
uint64_t tvm_run_begin(bool flush);
void tvm_run_end(bool flush, uint64_t before);
/* Called around a call into the embedding language, which executes with the floating-point state from outside the run. */
int tvm_foreign_begin(uint64_t *inside);
void tvm_foreign_end(int runs, uint64_t inside);

/* ---- CPUs (cpus.c) ---- */
/* Returns the number of threads this process may use: TVM_NUM_THREADS or OMP_NUM_THREADS if set, otherwise the number
 * of CPUs in the affinity mask, limited by the cgroup quota. */
int default_thread_count(void);

void tvm_pool_fork_child(void);

#endif /* TVM_SRC_BASE_BASE_H_ */
