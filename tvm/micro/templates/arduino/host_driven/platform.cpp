// Platform functions of an Arduino board: the serial port, the clock, and the end of the program.
#include <Arduino.h>

#include "tvm_crt.h"

extern "C" {

int32_t TVMPlatformReadByte(void) {
  while (Serial.available() <= 0) yield();
  return Serial.read();
}

void TVMPlatformWriteBytes(const uint8_t* data, size_t size) { Serial.write(data, size); }

uint32_t TVMPlatformTimeMicroseconds(void) { return (uint32_t)micros(); }

void TVMPlatformAbort(int32_t status) {
  Serial.print("the program ended with status ");
  Serial.println((long)status);
  for (;;) delay(1000);
}

}  // extern "C"
