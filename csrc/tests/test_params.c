#include <stdint.h>

#include "check.h"

typedef struct { unsigned char bytes[512]; size_t size; } Blob;

static void put(Blob *blob, const void *data, size_t size) {
  memcpy(blob->bytes + blob->size, data, size);
  blob->size += size;
}

static void put64(Blob *blob, uint64_t value) { put(blob, &value, 8); }

static void put_array(Blob *blob, int64_t extent, const float *data) {
  int32_t device[2] = {kDLCPU, 0}, ndim = 1;
  put64(blob, 0xDD5E40F096B4A13Fu);
  put64(blob, 0);
  put(blob, device, 8);
  put(blob, &ndim, 4);
  put(blob, &check_float32, 4);
  put64(blob, (uint64_t)extent);
  put64(blob, (uint64_t)extent * 4);
  put(blob, data, (size_t)extent * 4);
}

static Blob make_blob(void) {
  static const float values[] = {1, 2, 3};
  Blob blob = {.size = 0};
  put64(&blob, 0xF7E58D4F05049CB7u);
  put64(&blob, 0);
  put64(&blob, 2);
  put64(&blob, 1);
  put(&blob, "a", 1);
  put64(&blob, 4);
  put(&blob, "bias", 4);
  put64(&blob, 2);
  put_array(&blob, 3, values);
  put_array(&blob, 0, values);
  return blob;
}

static void test_blob_is_read(void) {
  Blob blob = make_blob();
  TVMParamsHandle params;
  size_t size;
  OK(TVMParamsLoad(blob.bytes, blob.size, &params));
  CHECK(TVMParamsCount(params) == 2);
  CHECK(!strcmp(TVMParamsName(params, 1, &size), "bias") && size == 4);
  CHECK(((float *)TVMParamsArray(params, 0)->data)[2] == 3);
  CHECK(TVMParamsArray(params, 1)->shape[0] == 0);
  CHECK(TVMParamsArray(params, 2) == NULL && TVMParamsName(params, -1, NULL) == NULL);
  OK(TVMParamsFree(params));
}

/* The second word of an array header is the number of padding bytes before the data. */
static void test_padding_is_skipped(void) {
  Blob blob = make_blob(), padded = {.size = 0};
  size_t head = 8 * 3 + 8 + 1 + 8 + 4 + 8 + 8; /* offset of the padding of the first array */
  size_t data = head + 8 + 8 + 4 + 4 + 8 + 8;
  TVMParamsHandle params;
  put(&padded, blob.bytes, head);
  put64(&padded, 5);
  put(&padded, blob.bytes + head + 8, data - head - 8);
  put(&padded, "12345", 5);
  put(&padded, blob.bytes + data, blob.size - data);
  OK(TVMParamsLoad(padded.bytes, padded.size, &params));
  CHECK(((float *)TVMParamsArray(params, 0)->data)[0] == 1 && ((float *)TVMParamsArray(params, 0)->data)[2] == 3);
  OK(TVMParamsFree(params));
  padded.bytes[head] = 64;
  REFUSES(TVMParamsLoad(padded.bytes, padded.size, &params), "invalid padding");
}

static char path[600];

static void write_file(const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(bytes, 1, size, file) == size);
  fclose(file);
}

static void test_a_file_is_read(void) {
  Blob blob = make_blob();
  TVMParamsHandle params;
  write_file(blob.bytes, blob.size);
  OK(TVMParamsLoadFile(path, &params));
  CHECK(TVMParamsCount(params) == 2 && ((float *)TVMParamsArray(params, 0)->data)[2] == 3);
  OK(TVMParamsFree(params));
  for (size_t size = 0; size < blob.size; ++size) {
    write_file(blob.bytes, size);
    REFUSES(TVMParamsLoadFile(path, &params), "params: ");
  }
  remove(path);
  REFUSES(TVMParamsLoadFile(path, &params), "cannot open");
}

static void test_every_truncation_is_refused(void) {
  Blob blob = make_blob();
  for (size_t size = 0; size < blob.size; ++size) {
    TVMParamsHandle params;
    unsigned char *exact = malloc(size ? size : 1);
    memcpy(exact, blob.bytes, size);
    REFUSES(TVMParamsLoad(exact, size, &params), "params: ");
    free(exact);
  }
}

/* With any byte changed, a file is rejected or read without a crash (checked by the sanitizers). */
static void test_every_changed_byte_is_survived(void) {
  static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  for (size_t at = 0; at < make_blob().size; ++at)
    for (size_t v = 0; v < sizeof values; ++v) {
      Blob blob = make_blob();
      TVMParamsHandle params;
      blob.bytes[at] = values[v];
      if (TVMParamsLoad(blob.bytes, blob.size, &params) == 0) OK(TVMParamsFree(params));
      else CHECK(strlen(TVMGetLastError()) > 0);
    }
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  snprintf(path, sizeof path, "%.500s.params", argv[1]);
  RUN(test_blob_is_read);
  RUN(test_padding_is_skipped);
  RUN(test_a_file_is_read);
  RUN(test_every_truncation_is_refused);
  RUN(test_every_changed_byte_is_survived);
  return 0;
}
