/* Platform functions for a serial line that also carries text, such as messages of a boot loader. Data is sent in frames:
 *
 *   0xa5 0x5a, the number of bytes (1 to 255), the bytes, CRC-16/CCITT of the number and the bytes (low byte first)
 *
 * Bytes outside frames are text. A frame with a wrong checksum is dropped; the other side then exceeds its time limit. The
 * host sends 0xa5 0x5a 0x00 to find out whether the program is ready, and the program sends the same bytes back. */
#include "tvm_crt.h"

enum { FIRST = 0xa5, SECOND = 0x5a, LARGEST = 255 };

static uint16_t checksum(uint16_t sum, uint8_t byte) {
  sum ^= (uint16_t)(byte << 8);
  for (int bit = 0; bit < 8; ++bit) sum = (uint16_t)(sum & 0x8000 ? sum << 1 ^ 0x1021 : sum << 1);
  return sum;
}

/* The received frame, and the position of the next byte in it. */
static uint8_t frame[LARGEST];
static uint32_t frame_size, frame_at;

/* Read the bytes of a frame after its two marks. Returns its size, 0 for a damaged or empty frame, or -1 at the end of the
 * input. */
static int32_t read_body(void) {
  const int32_t size = TVMPlatformReadByte();
  uint16_t sum = checksum(0xffff, (uint8_t)size);
  if (size == 0) {
    const uint8_t ready[3] = {FIRST, SECOND, 0};
    TVMPlatformWriteBytes(ready, sizeof ready);
  }
  if (size <= 0) return size;
  for (int32_t i = 0; i < size; ++i) {
    const int32_t byte = TVMPlatformReadByte();
    if (byte < 0) return -1;
    frame[i] = (uint8_t)byte;
    sum = checksum(sum, (uint8_t)byte);
  }
  const int32_t low = TVMPlatformReadByte(), high = TVMPlatformReadByte();
  if (low < 0 || high < 0) return -1;
  return sum == (low | high << 8) ? size : 0;
}

/* Read the next undamaged frame with data. Returns a nonzero value at the end of the input. */
static int32_t read_frame(void) {
  int32_t previous = 0;
  for (;;) {
    const int32_t byte = TVMPlatformReadByte();
    if (byte < 0) return -1;
    if (previous == FIRST && byte == SECOND) {
      const int32_t size = read_body();
      if (size < 0) return -1;
      if (size > 0) {
        frame_size = (uint32_t)size;
        frame_at = 0;
        return 0;
      }
    }
    previous = byte;
  }
}

int32_t TVMPlatformRead(void* data, size_t size) {
  uint8_t* rest = data;
  while (size--) {
    if (frame_at == frame_size && read_frame()) return -1;
    *rest++ = frame[frame_at++];
  }
  return 0;
}

void TVMPlatformWrite(const void* data, size_t size) {
  const uint8_t* rest = data;
  while (size) {
    const uint8_t count = (uint8_t)(size < LARGEST ? size : LARGEST);
    const uint8_t head[3] = {FIRST, SECOND, count};
    uint16_t sum = checksum(0xffff, count);
    for (uint32_t i = 0; i < count; ++i) sum = checksum(sum, rest[i]);
    const uint8_t tail[2] = {(uint8_t)sum, (uint8_t)(sum >> 8)};
    TVMPlatformWriteBytes(head, sizeof head);
    TVMPlatformWriteBytes(rest, count);
    TVMPlatformWriteBytes(tail, sizeof tail);
    rest += count;
    size -= count;
  }
}

/* Text is outside frames. */
void TVMPlatformLog(const char* message) {
  size_t size = 0;
  while (message[size]) ++size;
  TVMPlatformWriteBytes((const uint8_t*)message, size);
}
