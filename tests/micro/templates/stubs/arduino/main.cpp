#include <Arduino.h>

void setup();
void loop();

int main() {
  // Text of a boot loader, with the first mark of a frame in it.
  Serial.print("boot \xa5 text\r\n");
  setup();
  for (;;) loop();
}
