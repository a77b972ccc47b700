/* The loop for a library of functions. The host allocates the memory: it reads and writes parts of it, and calls functions
 * on parts of it. */
#include "wire.h"

typedef struct {
  uint8_t* data;
  uint32_t size;
} Memory;

static int32_t contains(const Memory* memory, uint32_t offset, uint32_t size) {
  return offset <= memory->size && size <= memory->size - offset;
}

static uint32_t length(const char* text) {
  uint32_t count = 0;
  while (text[count]) ++count;
  return count;
}

static void write_number(uint32_t value) {
  uint8_t bytes[4];
  tvm_crt_encode(bytes, value);
  TVMPlatformWrite(bytes, sizeof bytes);
}

/* Write the length of a text, then the text. */
static void write_text(const char* text) {
  const uint32_t count = length(text);
  write_number(count);
  TVMPlatformWrite(text, count);
}

static void describe(const Memory* memory) {
  uint32_t size = 4;
  for (uint32_t i = 0; i < tvm_crt_num_functions; ++i)
    size += 8 + length(tvm_crt_functions[i].name) + length(tvm_crt_functions[i].arguments);
  tvm_crt_reply(0, 0, size);
  write_number(memory->size);
  for (uint32_t i = 0; i < tvm_crt_num_functions; ++i) {
    write_text(tvm_crt_functions[i].name);
    write_text(tvm_crt_functions[i].arguments);
  }
}

static void read_memory(const Memory* memory, uint32_t offset, uint32_t size) {
  const int32_t is_inside = contains(memory, offset, size);
  tvm_crt_reply(is_inside ? 0 : TVM_CRT_OUTSIDE_MEMORY, 0, is_inside ? size : 0);
  if (is_inside) TVMPlatformWrite(memory->data + offset, size);
}

static int32_t write_memory(const Memory* memory, uint32_t offset, uint32_t size) {
  const int32_t is_inside = contains(memory, offset, size);
  if (is_inside ? TVMPlatformRead(memory->data + offset, size) : tvm_crt_skip(size)) return -1;
  tvm_crt_reply(is_inside ? 0 : TVM_CRT_OUTSIDE_MEMORY, 0, 0);
  return 0;
}

/* Reply to a request that does not exist. */
static int32_t refuse(uint32_t size) {
  if (tvm_crt_skip(size)) return -1;
  tvm_crt_reply(TVM_CRT_UNKNOWN_OPERATION, 0, 0);
  return 0;
}

static int32_t call(const Memory* memory, uint32_t index, uint32_t number, uint32_t size) {
  void* data[TVM_CRT_MAX_ARGS];
  int32_t status = 0;
  uint32_t microseconds = 0;
  if (index >= tvm_crt_num_functions || size != 4 * tvm_crt_functions[index].num_args) return refuse(size);
  const TVMCrtFunction* function = &tvm_crt_functions[index];
  for (uint32_t i = 0; i < function->num_args; ++i) {
    uint8_t bytes[4];
    if (TVMPlatformRead(bytes, sizeof bytes)) return -1;
    const uint32_t offset = tvm_crt_decoded(bytes);
    if (i >= TVM_CRT_MAX_ARGS || !contains(memory, offset, function->sizes[i]))
      status = TVM_CRT_OUTSIDE_MEMORY;
    else
      data[i] = memory->data + offset;
  }
  if (!status) {
    const uint32_t begin = TVMPlatformTimeMicroseconds();
    for (uint32_t i = 0; i < number && !status; ++i) status = function->call(data);
    microseconds = TVMPlatformTimeMicroseconds() - begin;
  }
  tvm_crt_reply(status, microseconds, 0);
  return 0;
}

void TVMCrtServeLibrary(uint8_t* data, uint32_t size) {
  const Memory memory = {data, size};
  uint8_t head[16];
  while (!TVMPlatformRead(head, sizeof head)) {
    const uint32_t operation = tvm_crt_decoded(head), data_size = tvm_crt_decoded(head + 12);
    const uint32_t first = tvm_crt_decoded(head + 4), second = tvm_crt_decoded(head + 8);
    int32_t is_end = 0;
    if (operation == TVM_CRT_WRITE)
      is_end = write_memory(&memory, first, data_size);
    else if (operation == TVM_CRT_CALL)
      is_end = call(&memory, first, second, data_size);
    else if (operation == TVM_CRT_DESCRIBE && !data_size)
      describe(&memory);
    else if (operation == TVM_CRT_READ && !data_size)
      read_memory(&memory, first, second);
    else
      is_end = refuse(data_size);
    if (is_end) return;
  }
}
