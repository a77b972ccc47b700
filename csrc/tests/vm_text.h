/* Writes executables of the virtual machine word by word, and loads them. */
#ifndef TVM_TESTS_VM_TEXT_H_
#define TVM_TESTS_VM_TEXT_H_

#include "../src/vm/vm.h"
#include "executor_calls.h"

typedef struct { int64_t word[512]; int count; } Text;

static inline void put(Text *text, int64_t word) {
  CHECK(text->count < 512);
  text->word[text->count++] = word;
}

static inline void put_name(Text *text, const char *name) {
  size_t size = strlen(name);
  put(text, (int64_t)size);
  for (size_t i = 0; i < size; i += 8) {
    int64_t word = 0;
    memcpy(&word, name + i, size - i < 8 ? size - i : 8);
    put(text, word);
  }
}

#define PUT(text, ...)                                                       \
  do {                                                                       \
    const int64_t words[] = {__VA_ARGS__};                                   \
    for (size_t w = 0; w < sizeof words / 8; ++w) put((text), words[w]);     \
  } while (0)

enum { FLOAT32 = kDLFloat | 32 << 8 | 1 << 16, INT64 = kDLInt | 64 << 8 | 1 << 16 };

/* The instructions of a function are between `begin_function` and `end_function`, which stores their count. */
static inline int begin_function(Text *text, const char *name, int params, int device, int registers) {
  put_name(text, name);
  put(text, params);
  for (int i = 0; i < params; ++i) {
    PUT(text, 1, 'a' + i, device);
    if (i) put(text, 0);
    else PUT(text, 3, FLOAT32, 2, -2); /* its second dimension is dynamic */
  }
  PUT(text, registers, 0);
  return text->count;
}

static inline void end_function(Text *text, int start) { text->word[start - 1] = text->count - start; }

/* Writes the serialized form of the words with its checksum; returns its size. */
static inline size_t seal(const Text *text, char *out) {
  uint64_t version = VM_VERSION, count = (uint64_t)text->count;
  memcpy(out, VM_MAGIC, 8);
  memcpy(out + 8, &version, 8);
  memcpy(out + 24, &count, 8);
  memcpy(out + 32, text->word, count * 8);
  uint64_t checksum = TVMChecksum(out + 24, 8 + count * 8);
  memcpy(out + 16, &checksum, 8);
  return 32 + count * 8;
}

static inline int load(const char *bytes, size_t size, TVMModuleHandle lib, TVMModuleHandle *exe) {
  TVMFunctionHandle make;
  TVMByteArray array = {bytes, size};
  TVMValue args[2] = {{.v_handle = &array}, {.v_handle = lib}}, ret;
  int codes[2] = {kTVMBytes, kTVMModuleHandle}, code = kTVMNullptr;
  OK(TVMFuncGetGlobal("runtime.vm.load_executable", &make));
  int status = TVMFuncCall(make, args, codes, 2, &ret, &code);
  OK(TVMFuncFree(make));
  if (!status) *exe = ret.v_handle;
  return status;
}

#endif /* TVM_TESTS_VM_TEXT_H_ */
