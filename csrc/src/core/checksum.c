/* The checksum of library files, and of data in several buffers. It depends on the total size and on the bytes in order,
 * not on how the bytes are divided into buffers. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LANES = 4, STEP = 8 * LANES };

typedef struct {
  uint64_t lanes[LANES];
  unsigned char held[STEP]; /* the start of a step whose other bytes are in the next buffer */
  size_t holds;
} Checksum;

static uint64_t mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0xff51afd7ed558ccdu;
  return state ^ state >> 32;
}

/* Mixes one word into each lane. The lanes are independent of each other, so memory bandwidth limits the speed. */
static void mix_lanes(uint64_t *lanes, const unsigned char *at) {
  for (int i = 0; i < LANES; ++i) {
    uint64_t word;
    memcpy(&word, at + 8 * i, 8);
    lanes[i] = mix(lanes[i], word);
  }
}

static void checksum_begin(Checksum *sum, uint64_t total) {
  sum->holds = 0;
  for (int i = 0; i < LANES; ++i) sum->lanes[i] = mix(total, 0x9e3779b97f4a7c15u * (i + 1));
}

static void checksum_add(Checksum *sum, const unsigned char *at, size_t size) {
  const unsigned char *end = at + size;
  while (sum->holds && at < end) {
    sum->held[sum->holds++] = *at++;
    if (sum->holds < STEP) continue;
    mix_lanes(sum->lanes, sum->held);
    sum->holds = 0;
  }
  for (; end - at >= STEP; at += STEP) mix_lanes(sum->lanes, at);
  while (at < end) sum->held[sum->holds++] = *at++;
}

static uint64_t checksum_end(const Checksum *sum) {
  uint64_t state = sum->lanes[0];
  for (int i = 1; i < LANES; ++i) state = mix(state, sum->lanes[i]);
  for (size_t i = 0; i < sum->holds; ++i) state = mix(state, sum->held[i]);
  return state;
}

uint64_t TVMChecksumOfParts(const void *const *parts, const size_t *sizes, int count) {
  Checksum sum;
  uint64_t total = 0;
  for (int i = 0; i < count; ++i) total += sizes[i];
  checksum_begin(&sum, total);
  for (int i = 0; i < count; ++i) checksum_add(&sum, parts[i], sizes[i]);
  return checksum_end(&sum);
}

uint64_t TVMChecksum(const void *data, size_t size) { return TVMChecksumOfParts(&data, &size, 1); }

int TVMChecksumOfFile(const char *path, uint64_t size, uint64_t *out) {
  enum { BLOCK = 1 << 20 };
  Checksum sum;
  uint64_t left = size;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tvm_error("cannot read '%s': %s", path, strerror(errno));
  unsigned char *block = malloc(BLOCK);
  checksum_begin(&sum, size);
  while (block && left) {
    ssize_t got = read(fd, block, left < BLOCK ? (size_t)left : BLOCK);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    checksum_add(&sum, block, (size_t)got);
    left -= (uint64_t)got;
  }
  bool has_block = block != NULL;
  free(block);
  close(fd);
  if (!has_block) return tvm_error("cannot read '%s': out of memory", path);
  if (left) return tvm_error("cannot read '%s': the file has fewer than %llu bytes", path, (unsigned long long)size);
  *out = checksum_end(&sum);
  return 0;
}
