/* Platform functions of a program on this machine: requests on the standard input, replies on the standard output. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tvm_crt.h"

int32_t TVMPlatformRead(void* data, size_t size) { return fread(data, 1, size, stdin) == size ? 0 : -1; }

void TVMPlatformWrite(const void* data, size_t size) {
  if (fwrite(data, 1, size, stdout) != size || fflush(stdout)) TVMPlatformAbort(1);
}

uint32_t TVMPlatformTimeMicroseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint32_t)((uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u);
}

void TVMPlatformLog(const char* message) { fputs(message, stderr); }

void TVMPlatformAbort(int32_t status) { exit(status); }

int main(void) {
  /* Reads of a request are not delayed by a buffer. */
  setvbuf(stdin, NULL, _IONBF, 0);
  TVMCrtMain();
  return 0;
}
