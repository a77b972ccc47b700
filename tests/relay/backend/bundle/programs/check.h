/* What the C and the C++ test programs share: random numbers, files, wrong calls through the C interface. */
#ifndef CHECK_H_
#define CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tvm/bundle.h>

#define REQUIRE(condition)                                                               \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "%s:%d: " #condition " is false\n", __FILE__, __LINE__);           \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t limit) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return random_state % limit;
}

/* Reads a file; the caller frees the bytes. */
static inline unsigned char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  REQUIRE(file && !fseek(file, 0, SEEK_END));
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = (unsigned char *)malloc(*size ? *size : 1);
  REQUIRE(bytes && fread(bytes, 1, *size, file) == *size);
  fclose(file);
  return bytes;
}

static inline void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  REQUIRE(file && fwrite(bytes, 1, size, file) == size && !fclose(file));
}

/* Writes a copy of a file with damage: changed bytes, or another length. */
static inline void write_damaged(const char *path, const unsigned char *bytes, size_t size) {
  unsigned char *copy = (unsigned char *)malloc(size);
  memcpy(copy, bytes, size);
  size_t kept = random_below(4) ? size : (size_t)random_below(size);
  if (kept == size)
    for (uint64_t i = 0, count = 1 + random_below(4); i < count; ++i) {
      size_t at = (size_t)random_below(random_below(2) ? size : 4096 < size ? 4096 : size);
      copy[at] = (unsigned char)(copy[at] ^ (1 + random_below(255)));
    }
  write_file(path, copy, kept);
  free(copy);
  /* Two changes of one byte can cancel each other out, which is rare: the caller compares. */
}

static inline int is_equal_file(const char *path, const unsigned char *bytes, size_t size) {
  size_t found;
  unsigned char *copy = read_file(path, &found);
  int equal = found == size && !memcmp(copy, bytes, size);
  free(copy);
  return equal;
}

/* The number of bytes of an input whose dynamic dimensions are `rows`. */
static inline uint64_t input_size(const tvm_bundle_tensor *input, int64_t rows, int64_t *shape) {
  uint64_t size = (uint64_t)input->itemsize;
  for (int i = 0; i < input->ndim; ++i) size *= (uint64_t)(shape[i] = input->shape[i] < 0 ? rows : input->shape[i]);
  return size;
}

/* One call with a wrong or a right argument. Every wrong call must return an error with a message. */
static inline void random_call(const tvm_bundle_api *api, tvm_bundle *bundle, const void *zeros) {
  const tvm_bundle_info *info = api->info;
  const void *data = NULL;
  int64_t shape[16];
  int code = 0, index = (int)random_below((uint64_t)info->input_count);
  const tvm_bundle_tensor *input = &info->inputs[index];
  uint64_t size = input_size(input, 1 + (int64_t)random_below(3), shape);
  switch (random_below(11)) {
    case 0: code = api->set_input(NULL, index, zeros, size, shape); REQUIRE(code == TVM_BUNDLE_BAD_HANDLE); return;
    case 1: code = api->set_input(bundle, random_below(2) ? -1 : info->input_count, zeros, size, shape); REQUIRE(code == TVM_BUNDLE_BAD_INDEX); break;
    case 2: code = api->set_input(bundle, index, NULL, size, shape); REQUIRE(code == TVM_BUNDLE_BAD_POINTER); break;
    case 3: code = api->set_input(bundle, index, zeros, size + 1 + random_below(1000), shape); REQUIRE(code == TVM_BUNDLE_BAD_SIZE); break;
    case 4:
      if (!input->ndim) return;
      shape[random_below((uint64_t)input->ndim)] = random_below(2) ? -1 - (int64_t)random_below(9) : INT64_MAX;
      code = api->set_input(bundle, index, zeros, size, shape);
      REQUIRE(code == TVM_BUNDLE_BAD_SHAPE || code == TVM_BUNDLE_BAD_SIZE);
      break;
    case 5: code = api->get_output(bundle, random_below(2) ? -7 : info->output_count, &data, NULL, NULL); REQUIRE(code == TVM_BUNDLE_BAD_INDEX); break;
    case 6: code = api->get_output(bundle, 0, NULL, NULL, NULL); REQUIRE(code == TVM_BUNDLE_BAD_POINTER); break;
    case 7: code = api->set_input(bundle, index, zeros, size, shape); REQUIRE(code == TVM_BUNDLE_OK); return;
    case 8: code = api->run(bundle); REQUIRE(code == TVM_BUNDLE_OK || code == TVM_BUNDLE_BAD_ORDER || code == TVM_BUNDLE_FAILED); break;
    case 9: code = api->get_output(bundle, 0, &data, NULL, NULL); REQUIRE(code == TVM_BUNDLE_OK || code == TVM_BUNDLE_BAD_ORDER); break;
    default: code = api->create(NULL); REQUIRE(code == TVM_BUNDLE_BAD_POINTER && *api->error(NULL)); return;
  }
  REQUIRE(code == TVM_BUNDLE_OK || strlen(api->error(bundle)) > 5);
}

static inline void wrong_calls(const tvm_bundle_api *api, long count) {
  void *zeros = calloc(1, 1 << 20);
  tvm_bundle *bundle = NULL;
  for (long i = 0; i < count; ++i) {
    if (i % 100 == 0) {
      api->destroy(bundle);
      REQUIRE(!api->create(&bundle) && bundle);
    }
    random_call(api, bundle, zeros);
  }
  api->destroy(bundle);
  api->destroy(NULL);
  free(zeros);
}

#endif /* CHECK_H_ */
