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

/* Returns the checksum of data that is stored in several buffers. */
static inline uint64_t tvm_checksum_of_parts(const void *const *parts, const size_t *sizes, int count) {
  unsigned char held[TVM_CHECKSUM_STEP];
  uint64_t lanes[TVM_CHECKSUM_LANES], total = 0;
  size_t holds = 0;
  for (int i = 0; i < count; ++i) total += sizes[i];
  for (int i = 0; i < TVM_CHECKSUM_LANES; ++i) lanes[i] = tvm_checksum_mix(total, 0x9e3779b97f4a7c15u * (uint64_t)(i + 1));
  for (int i = 0; i < count; ++i) {
    const unsigned char *at = (const unsigned char *)parts[i], *end = at + sizes[i];
    /* Complete a step that began in a previous part. */
    while (holds && at < end) {
      held[holds++] = *at++;
      if (holds < TVM_CHECKSUM_STEP) continue;
      tvm_checksum_lanes(lanes, held);
      holds = 0;
    }
    for (; end - at >= TVM_CHECKSUM_STEP; at += TVM_CHECKSUM_STEP) tvm_checksum_lanes(lanes, at);
    while (at < end) held[holds++] = *at++;
  }
  uint64_t state = lanes[0];
  for (int i = 1; i < TVM_CHECKSUM_LANES; ++i) state = tvm_checksum_mix(state, lanes[i]);
  for (size_t i = 0; i < holds; ++i) state = tvm_checksum_mix(state, held[i]);
  return state;
}

#endif /* TVM_CHECKSUM_H_ */
