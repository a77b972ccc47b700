/* The list of CPU features that compiled code needs. A file stores it before its checksum: JSON text
 * {"cpu": ..., "features": [...]}, the length of the text (8 bytes) and TVM_NEEDS_MAGIC. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 8, TAIL = 16, ROOM = 1024 };

static int corrupt(const char *path) {
  return tvm_error("%s: the file is corrupt: cannot read the list of required CPU features", path);
}

/* Writes the features that this CPU lacks to `out`, separated by commas. */
static bool list_missing(const Json *features, char *out, size_t room) {
  size_t used = 0;
  *out = 0;
  for (const Json *feature = features->child; feature; feature = feature->next) {
    if (feature->kind != JSON_STRING) return false;
    if (TVMCpuHas(feature->text) || used >= room) continue;
    int written = snprintf(out + used, room - used, "%s%s", used ? ", " : "", feature->text);
    used += written > 0 ? (size_t)written : 0;
  }
  return true;
}

static int check_list(const char *path, const Json *needs) {
  const Json *cpu = json_member(needs, "cpu"), *features = json_member(needs, "features");
  char missing[ROOM];
  if (!cpu || cpu->kind != JSON_STRING || !features || features->kind != JSON_ARRAY) return corrupt(path);
  if (!list_missing(features, missing, sizeof missing)) return corrupt(path);
  if (!*missing) return 0;
  return tvm_error("%s was compiled for cpu %s, but this machine lacks %s; compile it here, or for a CPU without them (-mcpu)",
                   path, cpu->text, missing);
}

int tvm_check_needs(const char *path, const unsigned char *bytes, size_t size) {
  const unsigned char *end = bytes + size;
  uint64_t length;
  if (size < 2 * TAIL || memcmp(end - TAIL, TVM_SEAL_MAGIC, MAGIC) || memcmp(end - TAIL - MAGIC, TVM_NEEDS_MAGIC, MAGIC))
    return 0;
  memcpy(&length, end - 2 * TAIL, sizeof length);
  if (length > size - 2 * TAIL) return corrupt(path);
  Json *needs = NULL;
  if (json_parse((const char *)end - 2 * TAIL - length, (size_t)length, &needs)) return corrupt(path);
  int status = needs->kind == JSON_OBJECT ? check_list(path, needs) : corrupt(path);
  json_free(needs);
  return status;
}

int TVMCheckCpuNeeds(const char *path) {
  unsigned char *bytes;
  size_t size;
  if (tvm_read_file(path, &bytes, &size)) return -1;
  int status = tvm_check_needs(path, bytes, size);
  free(bytes);
  return status;
}
