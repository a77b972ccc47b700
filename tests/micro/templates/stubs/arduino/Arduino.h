// The part of Arduino's interface that sketches use, on a machine with POSIX: the serial port is the standard input and
// output.
#ifndef ARDUINO_H_
#define ARDUINO_H_

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct SerialStub {
  void begin(unsigned long) {}
  int available() {
    struct pollfd file = {0, POLLIN, 0};
    return poll(&file, 1, 0) > 0;
  }
  int read() {
    uint8_t byte;
    if (::read(0, &byte, 1) != 1) exit(0);
    return byte;
  }
  size_t write(const uint8_t* data, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t count = ::write(1, data + done, size - done);
      if (count <= 0) exit(0);
      done += (size_t)count;
    }
    return size;
  }
  size_t print(const char* text) { return write((const uint8_t*)text, strlen(text)); }
  size_t print(long value) {
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    return print(text);
  }
  size_t print(int value) { return print((long)value); }
  template <typename T>
  size_t println(T value) {
    return print(value) + print("\r\n");
  }
  size_t println(unsigned long value) { return println((long)value); }
};

static SerialStub Serial;

static inline unsigned long micros() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long)now.tv_sec * 1000000ul + (unsigned long)now.tv_nsec / 1000ul;
}

static inline void yield() { usleep(100); }
static inline void delay(unsigned long milliseconds) { usleep((useconds_t)milliseconds * 1000); }

#endif
