/* Numbers and replies on the wire. */
#ifndef TVM_CRT_WIRE_H_
#define TVM_CRT_WIRE_H_

#include "tvm_crt.h"

static inline uint32_t tvm_crt_decoded(const uint8_t* bytes) {
  return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline void tvm_crt_encode(uint8_t* bytes, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[i] = (uint8_t)(value >> (8 * i));
}

/* Write the head of a reply. The caller writes the data. */
static inline void tvm_crt_reply(int32_t status, uint32_t microseconds, uint32_t size) {
  uint8_t head[12];
  tvm_crt_encode(head, (uint32_t)status);
  tvm_crt_encode(head + 4, microseconds);
  tvm_crt_encode(head + 8, size);
  TVMPlatformWrite(head, sizeof head);
}

/* Read and discard the data of a request that has an error. Returns a nonzero value at the end of the input. */
static inline int32_t tvm_crt_skip(uint32_t size) {
  uint8_t chunk[64];
  while (size) {
    const uint32_t count = size < sizeof chunk ? size : (uint32_t)sizeof chunk;
    if (TVMPlatformRead(chunk, count)) return -1;
    size -= count;
  }
  return 0;
}

#endif /* TVM_CRT_WIRE_H_ */
