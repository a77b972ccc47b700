/* The checksum at the end of libraries and bundles: for each of four interleaved streams of words a multiplicative hash,
 * which are combined with the remaining bytes. Valid C11 and C++17. */
#ifndef TVM_CHECKSUM_H_
#define TVM_CHECKSUM_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TVM_CHECKSUM_LANES = 4, TVM_CHECKSUM_STEP = 8 * TVM_CHECKSUM_LANES };

static inline uint64_t tvm_checksum_mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0xff51afd7ed558ccdu;
  return state ^ state >> 32;
}

/* Mixes one word into each lane. The lanes are independent of each other, so memory bandwidth limits the speed. */
static inline void tvm_checksum_lanes(uint64_t *lanes, const unsigned char *at) {
  for (int i = 0; i < TVM_CHECKSUM_LANES; ++i) {
    uint64_t word;
    memcpy(&word, at + 8 * i, 8);
    lanes[i] = tvm_checksum_mix(lanes[i], word);
  }
}

/* A checksum in progress. It depends on the total size and on the bytes in order, not on how they are divided into
 * buffers. */
typedef struct {
  uint64_t lanes[TVM_CHECKSUM_LANES];
  unsigned char held[TVM_CHECKSUM_STEP]; /* the start of a step whose other bytes are in the next buffer */
  size_t holds;
} tvm_checksum;

static inline void tvm_checksum_begin(tvm_checksum *sum, uint64_t total) {
  sum->holds = 0;
  for (int i = 0; i < TVM_CHECKSUM_LANES; ++i)
    sum->lanes[i] = tvm_checksum_mix(total, 0x9e3779b97f4a7c15u * (uint64_t)(i + 1));
}

static inline void tvm_checksum_add(tvm_checksum *sum, const void *data, size_t size) {
  const unsigned char *at = (const unsigned char *)data, *end = at + size;
  while (sum->holds && at < end) {
    sum->held[sum->holds++] = *at++;
    if (sum->holds < TVM_CHECKSUM_STEP) continue;
    tvm_checksum_lanes(sum->lanes, sum->held);
    sum->holds = 0;
  }
  for (; end - at >= TVM_CHECKSUM_STEP; at += TVM_CHECKSUM_STEP) tvm_checksum_lanes(sum->lanes, at);
  while (at < end) sum->held[sum->holds++] = *at++;
}

static inline uint64_t tvm_checksum_end(const tvm_checksum *sum) {
  uint64_t state = sum->lanes[0];
  for (int i = 1; i < TVM_CHECKSUM_LANES; ++i) state = tvm_checksum_mix(state, sum->lanes[i]);
  for (size_t i = 0; i < sum->holds; ++i) state = tvm_checksum_mix(state, sum->held[i]);
  return state;
}

/* Returns the checksum of data that is stored in several buffers. */
static inline uint64_t tvm_checksum_of_parts(const void *const *parts, const size_t *sizes, int count) {
  tvm_checksum sum;
  uint64_t total = 0;
  for (int i = 0; i < count; ++i) total += sizes[i];
  tvm_checksum_begin(&sum, total);
  for (int i = 0; i < count; ++i) tvm_checksum_add(&sum, parts[i], sizes[i]);
  return tvm_checksum_end(&sum);
}

#endif /* TVM_CHECKSUM_H_ */
