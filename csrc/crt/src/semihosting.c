/* Platform functions that use semihosting: a debugger or an emulator accesses pipes of the host for the program. */
#include "tvm_crt.h"

/* Operation numbers of semihosting. */
enum { SYS_OPEN = 0x01, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_CLOCK = 0x10,
       SYS_EXIT_EXTENDED = 0x20, SYS_ELAPSED = 0x30, SYS_TICKFREQ = 0x31 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5 };

static uintptr_t call(uintptr_t operation, const void* argument) {
#if defined(__riscv)
  register uintptr_t a0 __asm__("a0") = operation;
  register uintptr_t a1 __asm__("a1") = (uintptr_t)argument;
  /* This sequence of three uncompressed instructions, aligned to 16 bytes, is a semihosting call on RISC-V. */
  __asm__ volatile(
      ".option push\n.option norvc\n.balign 16\n"
      "slli zero, zero, 0x1f\nebreak\nsrai zero, zero, 7\n.option pop"
      : "+r"(a0) : "r"(a1) : "memory");
  return a0;
#else
  register uintptr_t r0 __asm__("r0") = operation;
  register uintptr_t r1 __asm__("r1") = (uintptr_t)argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
#endif
}

/* Return the file handles of the pipes "requests" and "replies" in the host's working folder; open them first. */
static const uintptr_t* pipes(void) {
  static uintptr_t files[2];
  static uint8_t is_open;
  if (!is_open) {
    const uintptr_t requests[3] = {(uintptr_t)"requests", MODE_READ_BINARY, 8};
    const uintptr_t replies[3] = {(uintptr_t)"replies", MODE_WRITE_BINARY, 7};
    files[0] = call(SYS_OPEN, requests);
    files[1] = call(SYS_OPEN, replies);
    if (files[0] == (uintptr_t)-1 || files[1] == (uintptr_t)-1) TVMPlatformAbort(2);
    is_open = 1;
  }
  return files;
}

int32_t TVMPlatformRead(void* data, size_t size) {
  uint8_t* rest = data;
  while (size) {
    const uintptr_t block[3] = {pipes()[0], (uintptr_t)rest, size};
    /* The call returns the number of bytes that it did not read; at the end of the input, this is the requested size. */
    const uintptr_t left = call(SYS_READ, block);
    if (left >= size) return -1;
    rest += size - left;
    size = left;
  }
  return 0;
}

void TVMPlatformWrite(const void* data, size_t size) {
  const uint8_t* rest = data;
  while (size) {
    const uintptr_t block[3] = {pipes()[1], (uintptr_t)rest, size};
    const uintptr_t left = call(SYS_WRITE, block);
    if (left >= size) TVMPlatformAbort(1);
    rest += size - left;
    size = left;
  }
}

/* The time of the host: its tick counter, if it has one; otherwise a clock in hundredths of a second. A board with a
 * timer defines this function itself. */
__attribute__((weak)) uint32_t TVMPlatformTimeMicroseconds(void) {
  const uint32_t per_microsecond = (uint32_t)call(SYS_TICKFREQ, 0) / 1000000u;
  uint64_t ticks = 0;
  if (per_microsecond && per_microsecond <= 4000u && call(SYS_ELAPSED, &ticks) == 0)
    return (uint32_t)(ticks / per_microsecond);
  return (uint32_t)call(SYS_CLOCK, 0) * 10000u;
}

void TVMPlatformLog(const char* message) { call(SYS_WRITE0, message); }

void TVMPlatformAbort(int32_t status) {
  const uintptr_t block[2] = {0x20026, (uintptr_t)status};
  call(SYS_EXIT_EXTENDED, block);
  for (;;) {
  }
}
