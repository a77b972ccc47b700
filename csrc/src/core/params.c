/* Reader of parameter files. Every length is checked against the number of remaining bytes before memory is allocated.
 *
 * The second word of an array header is the number of padding bytes before its data: 0 in files; in libraries, the
 * padding aligns the data, which is used in place.
 */
#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t LIST_MAGIC = 0xF7E58D4F05049CB7u, ARRAY_MAGIC = 0xDD5E40F096B4A13Fu;
enum { SMALLEST_ARRAY = 8 + 8 + 8 + 4 + 4 + 8, MAX_PADDING = 63, ALIGNMENT = 64 };

typedef struct { char *name; size_t name_size; TVMArrayHandle array; } Param;
struct TVMParams { int count; Param items[]; };

static int corrupt(const ParamReader *reader, const char *what) {
  return tvm_error("params: %s (at byte %zu); the file is corrupt, truncated or not a parameter file", what,
                   reader->size - reader->left);
}

static int take(ParamReader *reader, void *out, size_t size, const char *what) {
  if (reader->left < size) return corrupt(reader, what);
  if (reader->file) {
    if (size && (out ? fread(out, 1, size, reader->file) != size : fseeko(reader->file, (long)size, SEEK_CUR) != 0))
      return corrupt(reader, "cannot read the file");
  } else {
    if (out && size) memcpy(out, reader->at, size);
    reader->at += size;
  }
  reader->left -= size;
  return 0;
}

static int take_count(ParamReader *reader, uint64_t *out, size_t smallest_item, const char *what) {
  if (take(reader, out, 8, what)) return -1;
  return *out > reader->left / smallest_item ? corrupt(reader, what) : 0;
}

static int read_name(ParamReader *reader, char **out) {
  uint64_t size;
  if (take_count(reader, &size, 1, "an array name exceeds the file")) return -1;
  if (!(*out = malloc((size_t)size + 1))) return tvm_error("out of memory");
  (*out)[size] = '\0';
  if (take(reader, *out, (size_t)size, "an array name exceeds the file")) return -1;
  return strlen(*out) == size ? 0 : corrupt(reader, "an array name contains a null character");
}

static bool is_data_type(DLDataType dtype) {
  static const uint8_t float_bits[] = {8, 16, 32, 64};
  if (dtype.lanes == 0 || dtype.lanes > 1024 || dtype.bits == 0 || dtype.bits > 128) return false;
  if (dtype.code == kDLFloat) return memchr(float_bits, dtype.bits, sizeof float_bits) != NULL;
  return true;
}

int params_next(ParamReader *reader) {
  uint64_t magic, padding;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t nbytes;
  const char *short_text = "truncated array header";
  if (take(reader, &magic, 8, short_text) || take(reader, &padding, 8, short_text)) return -1;
  if (magic != ARRAY_MAGIC) return corrupt(reader, "an array does not start with its magic number");
  if (padding > MAX_PADDING) return corrupt(reader, "invalid padding of an array");
  if (take(reader, &device, 8, short_text) || take(reader, &ndim, 4, short_text) || take(reader, &dtype, 4, short_text))
    return -1;
  if (device.device_type != kDLCPU) return corrupt(reader, "the device of an array is not the CPU");
  if (ndim < 0 || ndim > PARAMS_MAX_NDIM) return corrupt(reader, "invalid number of dimensions of an array");
  if (!is_data_type(dtype)) return corrupt(reader, "invalid data type of an array");
  if (take(reader, reader->shape, (size_t)ndim * 8, short_text) || take(reader, &nbytes, 8, short_text)) return -1;
  reader->head = (DLTensor){NULL, {kDLCPU, 0}, ndim, dtype, reader->shape, NULL, 0};
  if (TVMTensorByteSize(&reader->head, &reader->nbytes)) return corrupt(reader, "invalid shape of an array");
  if (nbytes < 0 || (uint64_t)nbytes != reader->nbytes) return corrupt(reader, "an array's size disagrees with its shape");
  if (take(reader, NULL, (size_t)padding, "truncated array data")) return -1;
  if (reader->nbytes > reader->left) return corrupt(reader, "truncated array data");
  reader->head.data = (void *)reader->at;
  return 0;
}

int params_take(ParamReader *reader, void *out) {
  ++reader->done;
  return take(reader, out, reader->nbytes, "truncated array data");
}

static int read_names(ParamReader *reader) {
  uint64_t magic, reserved, count, arrays;
  if (take(reader, &magic, 8, "the header does not fit") || take(reader, &reserved, 8, "the header does not fit")) return -1;
  if (magic != LIST_MAGIC) return corrupt(reader, "the magic number of parameter files is missing");
  if (take_count(reader, &count, 8, "the number of names exceeds the file size")) return -1;
  if (count > 1 << 24) return corrupt(reader, "there are too many names");
  if (!(reader->names = calloc((size_t)count + 1, sizeof *reader->names))) return tvm_error("out of memory");
  reader->count = (int)count;
  for (uint64_t i = 0; i < count; ++i)
    if (read_name(reader, &reader->names[i])) return -1;
  if (take_count(reader, &arrays, SMALLEST_ARRAY, "the number of arrays exceeds the file size")) return -1;
  return arrays == count ? 0 : corrupt(reader, "the number of arrays differs from the number of names");
}

static int open_reader(ParamReader *reader) {
  if (read_names(reader)) return -1;
  size_t arrays_at = reader->size - reader->left;
  while (reader->done < reader->count)
    if (params_next(reader) || params_take(reader, NULL)) return -1;
  reader->done = 0;
  reader->left = reader->size - arrays_at;
  reader->at = reader->start ? reader->start + arrays_at : NULL;
  if (reader->file && fseeko(reader->file, (off_t)arrays_at, SEEK_SET)) return corrupt(reader, "cannot read the file");
  return 0;
}

int params_open(ParamReader *reader, const void *data, size_t size) {
  static const unsigned char nothing;
  memset(reader, 0, sizeof *reader);
  reader->start = reader->at = size ? data : &nothing;
  reader->size = reader->left = size;
  return open_reader(reader);
}

int params_open_file(ParamReader *reader, const char *path) {
  memset(reader, 0, sizeof *reader);
  if (!(reader->file = system_file_open(path, "rb"))) return tvm_error("params: cannot open '%s': %s", path, strerror(errno));
  off_t size = fseeko(reader->file, 0, SEEK_END) ? -1 : ftello(reader->file);
  if (size < 0 || fseeko(reader->file, 0, SEEK_SET)) return tvm_error("params: cannot read '%s'", path);
  reader->size = reader->left = (size_t)size;
  return open_reader(reader);
}

void params_close(ParamReader *reader) {
  for (int i = 0; i < reader->count; ++i) free(reader->names[i]);
  free(reader->names);
  if (reader->file) fclose(reader->file);
}

/* ---- arrays by name ---- */

int params_new(int count, TVMParamsHandle *out) {
  if (!(*out = calloc(1, sizeof **out + (size_t)count * sizeof(Param)))) return tvm_error("out of memory");
  (*out)->count = count;
  return 0;
}

int params_put(TVMParamsHandle params, int index, const char *name, TVMArrayHandle array) {
  Param *item = &params->items[index];
  item->array = array;
  item->name_size = strlen(name);
  return (item->name = strdup(name)) ? 0 : tvm_error("out of memory");
}

static int load_array(ParamReader *reader, bool borrow, TVMArrayHandle *out) {
  const DLTensor *head = &reader->head;
  if (borrow && (uintptr_t)head->data % ALIGNMENT == 0) return tvm_array_borrow(head, out) ? -1 : params_take(reader, NULL);
  if (TVMArrayAlloc(head->shape, head->ndim, head->dtype, head->device, out)) return -1;
  return params_take(reader, (*out)->data);
}

static int load_all(ParamReader *reader, bool borrow, TVMParamsHandle *out) {
  if (params_new(reader->count, out)) return -1;
  int status = 0;
  for (int i = 0; i < reader->count && !status; ++i) {
    TVMArrayHandle array = NULL;
    status = params_next(reader) || load_array(reader, borrow, &array) ? -1 : 0;
    if (array && params_put(*out, i, reader->names[i], array)) status = -1;
  }
  if (status) {
    TVMParamsFree(*out);
    *out = NULL;
  }
  return status;
}

static int load(const void *data, size_t size, bool borrow, TVMParamsHandle *out) {
  ParamReader reader;
  int status = params_open(&reader, data, size);
  if (!status) status = load_all(&reader, borrow, out);
  params_close(&reader);
  return status;
}

int params_borrow(const void *data, size_t size, TVMParamsHandle *out) { return load(data, size, true, out); }

int TVMParamsLoad(const void *data, size_t size, TVMParamsHandle *out) { return load(data, size, false, out); }

int TVMParamsLoadFile(const char *path, TVMParamsHandle *out) {
  ParamReader reader;
  int status = params_open_file(&reader, path);
  if (!status) status = load_all(&reader, false, out);
  params_close(&reader);
  return status;
}

int TVMParamsFree(TVMParamsHandle params) {
  for (int i = 0; params && i < params->count; ++i) {
    free(params->items[i].name);
    TVMArrayFree(params->items[i].array);
  }
  free(params);
  return 0;
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
