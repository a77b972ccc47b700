/* The checksum of a file, read in blocks. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/tvm/checksum.h"

int TVMChecksumOfFile(const char *path, uint64_t size, uint64_t *out) {
  enum { BLOCK = 1 << 20 };
  tvm_checksum sum;
  uint64_t left = size;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tvm_error("cannot read '%s': %s", path, strerror(errno));
  unsigned char *block = malloc(BLOCK);
  tvm_checksum_begin(&sum, size);
  while (block && left) {
    ssize_t got = read(fd, block, left < BLOCK ? (size_t)left : BLOCK);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    tvm_checksum_add(&sum, block, (size_t)got);
    left -= (uint64_t)got;
  }
  bool has_block = block != NULL;
  free(block);
  close(fd);
  if (!has_block) return tvm_error("cannot read '%s': out of memory", path);
  if (left) return tvm_error("cannot read '%s': the file has fewer than %llu bytes", path, (unsigned long long)size);
  *out = tvm_checksum_end(&sum);
  return 0;
}
