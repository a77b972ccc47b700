/* The last error of each thread, the clock, and the interrupt check for long-running loops. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base.h"

static _Thread_local ErrorRecord last_error;
static _Thread_local double last_check;
static _Atomic(int (*)(void)) interrupt_check;

const char *TVMGetLastError(void) { return last_error.text; }

static void set_text(const char *msg) {
  size_t length = msg ? strlen(msg) : 0;
  if (length >= sizeof last_error.text) length = sizeof last_error.text - 1;
  /* memmove: the message may be the current error itself, passed on by a called function. */
  if (length) memmove(last_error.text, msg, length);
  last_error.text[length] = '\0';
}

void TVMAPISetLastError(const char *msg) { TVMSetForeignError(msg, 0); }

void TVMSetForeignError(const char *msg, uint64_t token) {
  set_text(msg);
  last_error.token = token;
}

uint64_t TVMTakeForeignError(void) {
  uint64_t token = last_error.token;
  last_error.token = 0;
  return token;
}

void tvm_set_error(const char *format, ...) {
  char text[TVM_ERROR_TEXT_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  TVMAPISetLastError(text);
}

void tvm_error_save(ErrorRecord *out) {
  out->token = last_error.token;
  snprintf(out->text, sizeof out->text, "%s", last_error.text);
}

void tvm_error_restore(const ErrorRecord *record) { TVMSetForeignError(record->text, record->token); }

double tvm_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void TVMSetInterruptCheck(int (*check)(void)) { atomic_store(&interrupt_check, check); }

int tvm_interrupt_pending(void) {
  int (*check)(void) = atomic_load(&interrupt_check);
  if (!check || !check()) return 0;
  TVMSetForeignError("interrupted", TVM_ERROR_INTERRUPTED);
  return -1;
}

int tvm_interrupt_check(void) {
  if (!atomic_load(&interrupt_check)) return 0;
  double now = tvm_now();
  if (now - last_check < 0.05) return 0;
  last_check = now;
  return tvm_interrupt_pending();
}
