/* Reader of parameter blobs. Every length is checked against what is left before anything is allocated. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const uint64_t LIST_MAGIC = 0xF7E58D4F05049CB7u, ARRAY_MAGIC = 0xDD5E40F096B4A13Fu;
enum { MAX_NDIM = 64, SMALLEST_ARRAY = 8 + 8 + 8 + 4 + 4 + 8 };

typedef struct { char *name; size_t name_size; TVMArrayHandle array; } Param;
struct TVMParams { int count; Param items[]; };

typedef struct { const unsigned char *at; size_t left; size_t offset; } Reader;

static int corrupt(const Reader *reader, const char *what) {
  return tvm_error("params: %s (at byte %zu); the file is corrupt, truncated or no parameter file", what, reader->offset);
}

static int take(Reader *reader, void *out, size_t size, const char *what) {
  if (reader->left < size) return corrupt(reader, what);
  if (out && size) memcpy(out, reader->at, size);
  reader->at += size;
  reader->left -= size;
  reader->offset += size;
  return 0;
}

static int take_count(Reader *reader, uint64_t *out, size_t smallest_item, const char *what) {
  if (take(reader, out, 8, what)) return -1;
  return *out > reader->left / smallest_item ? corrupt(reader, what) : 0;
}

static int read_name(Reader *reader, Param *param) {
  uint64_t size;
  if (take_count(reader, &size, 1, "a name does not fit")) return -1;
  if (!(param->name = malloc((size_t)size + 1))) return tvm_error("out of memory");
  param->name[size] = '\0';
  param->name_size = (size_t)size;
  return take(reader, param->name, (size_t)size, "a name does not fit");
}

static bool is_data_type(DLDataType dtype) {
  static const uint8_t float_bits[] = {8, 16, 32, 64};
  if (dtype.lanes == 0 || dtype.lanes > 1024 || dtype.bits == 0 || dtype.bits > 128) return false;
  if (dtype.code == kDLFloat) return memchr(float_bits, dtype.bits, sizeof float_bits) != NULL;
  return true;
}

static int read_array(Reader *reader, Param *param) {
  uint64_t magic, reserved;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t shape[MAX_NDIM], nbytes;
  const char *short_text = "an array header does not fit";
  if (take(reader, &magic, 8, short_text) || take(reader, &reserved, 8, short_text)) return -1;
  if (magic != ARRAY_MAGIC) return corrupt(reader, "an array does not start with its magic number");
  if (take(reader, &device, 8, short_text) || take(reader, &ndim, 4, short_text) || take(reader, &dtype, 4, short_text))
    return -1;
  if (device.device_type != kDLCPU) return corrupt(reader, "an array is not stored for the cpu");
  if (ndim < 0 || ndim > MAX_NDIM) return corrupt(reader, "an array has an impossible number of dimensions");
  if (!is_data_type(dtype)) return corrupt(reader, "an array has an impossible data type");
  if (take(reader, shape, (size_t)ndim * 8, short_text) || take(reader, &nbytes, 8, short_text)) return -1;
  DLTensor probe = {NULL, {kDLCPU, 0}, ndim, dtype, shape, NULL, 0};
  size_t expected;
  if (TVMTensorByteSize(&probe, &expected)) return corrupt(reader, "an array has an impossible shape");
  if (nbytes < 0 || (uint64_t)nbytes != expected) return corrupt(reader, "an array's size disagrees with its shape");
  if (expected > reader->left) return corrupt(reader, "an array's data does not fit");
  if (TVMArrayAlloc(shape, ndim, dtype, probe.device, &param->array)) return -1;
  return take(reader, param->array->data, expected, "an array's data does not fit");
}

int TVMParamsFree(TVMParamsHandle params) {
  for (int i = 0; params && i < params->count; ++i) {
    free(params->items[i].name);
    TVMArrayFree(params->items[i].array);
  }
  free(params);
  return 0;
}

int TVMParamsLoad(const void *data, size_t size, TVMParamsHandle *out) {
  Reader reader = {data, size, 0};
  uint64_t magic, reserved, count, arrays;
  if (take(&reader, &magic, 8, "the header does not fit") || take(&reader, &reserved, 8, "the header does not fit")) return -1;
  if (magic != LIST_MAGIC) return corrupt(&reader, "it does not start with the magic number of parameter files");
  if (take_count(&reader, &count, 8, "there are more names than bytes")) return -1;
  if (count > 1 << 24) return corrupt(&reader, "there are too many names");
  struct TVMParams *params = calloc(1, sizeof *params + (size_t)count * sizeof(Param));
  if (!params) return tvm_error("out of memory");
  params->count = (int)count;
  int status = 0;
  for (uint64_t i = 0; i < count && !status; ++i) status = read_name(&reader, &params->items[i]);
  if (!status) status = take_count(&reader, &arrays, SMALLEST_ARRAY, "there are more arrays than bytes");
  if (!status && arrays != count) status = corrupt(&reader, "there are not as many arrays as names");
  for (uint64_t i = 0; i < count && !status; ++i) status = read_array(&reader, &params->items[i]);
  if (status) TVMParamsFree(params);
  else *out = params;
  return status;
}

void tvm_params_drop(TVMParamsHandle params, int index) {
  TVMArrayFree(params->items[index].array);
  params->items[index].array = NULL;
}

int TVMParamsCount(TVMParamsHandle params) { return params->count; }

const char *TVMParamsName(TVMParamsHandle params, int index, size_t *out_size) {
  if (index < 0 || index >= params->count) return NULL;
  if (out_size) *out_size = params->items[index].name_size;
  return params->items[index].name;
}

TVMArrayHandle TVMParamsArray(TVMParamsHandle params, int index) {
  return index < 0 || index >= params->count ? NULL : params->items[index].array;
}
