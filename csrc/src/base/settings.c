/* The setting of denormal numbers that a user chooses by an environment variable. */
#include <stdlib.h>
#include <string.h>

#include "base.h"

int tvm_flush_default(bool *out) {
  const char *text = getenv("TVM_FLUSH_DENORMALS");
  *out = !text || !*text || !strcmp(text, "1");
  return *out || !strcmp(text, "0") ? 0 : tvm_error("TVM_FLUSH_DENORMALS must be 0 or 1, got '%s'", text);
}

int TVMFlushDenormals(int enabled) {
  bool on = enabled > 0;
  if (enabled < 0 && tvm_flush_default(&on)) return -1;
  return FLOAT_FLUSH && (float_flush(on) & FLOAT_FLUSH) == FLOAT_FLUSH;
}
