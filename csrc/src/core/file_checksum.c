/* The checksum of a file, read in blocks. */
#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/tvm/checksum.h"

int TVMChecksumOfFile(const char *path, uint64_t size, uint64_t *out) {
  enum { BLOCK = 1 << 20 };
  tvm_checksum sum;
  uint64_t left = size;
  FILE *file = system_file_open(path, "rb");
  if (!file) return tvm_error("cannot read '%s': %s", path, strerror(errno));
  unsigned char *block = malloc(BLOCK);
  setvbuf(file, NULL, _IONBF, 0);
  tvm_checksum_begin(&sum, size);
  while (block && left) {
    size_t got = fread(block, 1, left < BLOCK ? (size_t)left : BLOCK, file);
    if (!got) break;
    tvm_checksum_add(&sum, block, got);
    left -= got;
  }
  bool has_block = block != NULL;
  free(block);
  fclose(file);
  if (!has_block) return tvm_error("cannot read '%s': out of memory", path);
  if (left) return tvm_error("cannot read '%s': the file has fewer than %llu bytes", path, (unsigned long long)size);
  *out = tvm_checksum_end(&sum);
  return 0;
}
