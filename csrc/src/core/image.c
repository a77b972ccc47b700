/* Checks libraries of Windows (PE) and macOS (Mach-O) before the loader maps them: a truncated file would crash the
 * process. library.c checks those of Linux (ELF). */
#include <stdio.h>
#include <string.h>

#include "core.h"

static const char DAMAGED[] = "the file is truncated or corrupt";

#if defined(__aarch64__)
#define HOST_NAME "aarch64"
enum { PE_HOST = 0xaa64, MACHO_HOST = 0x0100000c };
#elif defined(__x86_64__)
#define HOST_NAME "x86-64"
enum { PE_HOST = 0x8664, MACHO_HOST = 0x01000007 };
#else
#define HOST_NAME "another architecture"
enum { PE_HOST = -1, MACHO_HOST = -1 };
#endif

/* Reads a little-endian number of up to 8 bytes. */
static uint64_t number(const unsigned char *at, int width) {
  uint64_t value = 0;
  for (int i = 0; i < width; ++i) value |= (uint64_t)at[i] << 8 * i;
  return value;
}

static bool inside(uint64_t offset, uint64_t length, size_t size) { return offset <= size && length <= size - offset; }

static const char *foreign(const char *machine, char *text, size_t room) {
  snprintf(text, room, "it was built for %s, but this runtime is for " HOST_NAME, machine);
  return text;
}

const char *image_check_pe(const unsigned char *bytes, size_t size, char *text, size_t room) {
  enum { DOS_HEADER = 64, HEADER = 24, SECTION = 40, IS_LIBRARY = 0x2000 };
  if (size < DOS_HEADER || memcmp(bytes, "MZ", 2)) return "it is not a library of Windows (PE)";
  uint64_t head = number(bytes + 60, 4);
  if (!inside(head, HEADER, size) || memcmp(bytes + head, "PE\0\0", 4)) return DAMAGED;
  const unsigned char *at = bytes + head;
  uint64_t machine = number(at + 4, 2), sections = head + HEADER + number(at + 20, 2), count = number(at + 6, 2);
  if (machine != (uint64_t)PE_HOST)
    return foreign(machine == 0x8664 ? "x86-64" : machine == 0xaa64 ? "aarch64" : "an unknown architecture", text, room);
  if (!(number(at + 22, 2) & IS_LIBRARY)) return "it is not a shared library";
  if (!inside(sections, count * SECTION, size)) return DAMAGED;
  for (at = bytes + sections; count--; at += SECTION)
    if (!inside(number(at + 20, 4), number(at + 16, 4), size)) return DAMAGED;
  return NULL;
}

const char *image_check_macho(const unsigned char *bytes, size_t size, char *text, size_t room) {
  enum { HEADER = 32, COMMAND = 8, SEGMENT = 72, SEGMENT_64 = 0x19, DYLIB = 6, BUNDLE = 8 };
  if (size < HEADER || number(bytes, 4) != 0xfeedfacf) return "it is not a 64-bit library of macOS (Mach-O)";
  uint64_t machine = number(bytes + 4, 4), kind = number(bytes + 12, 4), count = number(bytes + 16, 4), at = HEADER;
  if (machine != (uint64_t)MACHO_HOST)
    return foreign(machine == 0x01000007 ? "x86-64" : machine == 0x0100000c ? "aarch64" : "an unknown architecture", text, room);
  if (kind != DYLIB && kind != BUNDLE) return "it is not a shared library";
  while (count--) {
    if (!inside(at, COMMAND, size)) return DAMAGED;
    uint64_t command = number(bytes + at, 4), length = number(bytes + at + 4, 4);
    if (length < COMMAND || !inside(at, length, size) || (command == SEGMENT_64 && length < SEGMENT)) return DAMAGED;
    if (command == SEGMENT_64 && !inside(number(bytes + at + 40, 8), number(bytes + at + 48, 8), size)) return DAMAGED;
    at += length;
  }
  return NULL;
}
