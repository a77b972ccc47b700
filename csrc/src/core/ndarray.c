/* Arrays: allocation, views, copies between layouts and devices, DLPack import and export. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { ARRAY_ALIGNMENT = 64 };

/* The tensor is the first field: a TVMArrayHandle is the address of the whole struct. */
typedef struct NDArray {
  DLTensor tensor;
  atomic_int refs;
  struct NDArray *base;                  /* a view keeps its base alive */
  DLManagedTensor *managed;              /* owner of memory that another framework allocated */
  DLManagedTensorVersioned *managed_versioned;
  void *owned;                           /* memory allocated by this runtime */
  int64_t dims[];                        /* shape, then strides */
} NDArray;

size_t tvm_dtype_bytes(DLDataType dtype) {
  size_t lane_bits = dtype.bits == 1 ? 8 : dtype.bits;
  return (lane_bits * dtype.lanes + 7) / 8;
}

void tvm_dtype_text(DLDataType dtype, char *out, size_t size) {
  static const char *const names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "e4m3_float", "e5m2_float"};
  char custom[16];
  snprintf(custom, sizeof custom, "custom[%u]", (unsigned)dtype.code);
  const char *name = dtype.code < sizeof names / sizeof *names ? names[dtype.code] : custom;
  char lanes[16] = "";
  if (dtype.lanes != 1) snprintf(lanes, sizeof lanes, "x%u", (unsigned)dtype.lanes);
  if (dtype.code == kDLUInt && dtype.bits == 1) snprintf(out, size, "bool%s", lanes);
  else if (dtype.code == kDLOpaqueHandle) snprintf(out, size, "handle%s", lanes);
  else snprintf(out, size, "%s%u%s", name, (unsigned)dtype.bits, lanes);
}

bool tvm_is_compact(const DLTensor *tensor) {
  if (!tensor->strides) return true;
  int64_t expected = 1;
  for (int i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] == 0) return true;
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return false;
    expected *= tensor->shape[i];
  }
  return true;
}

int tvm_byte_size(const int64_t *shape, int ndim, DLDataType dtype, size_t *out) {
  size_t total = tvm_dtype_bytes(dtype);
  bool empty = false, fits = true;
  if (ndim < 0) return tvm_error("array: the number of dimensions is negative (%d)", ndim);
  if (total == 0) return tvm_error("array: cannot allocate elements of a data type of %d bits", dtype.bits);
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] < 0) return tvm_error("array: shape[%d] is negative (%lld)", i, (long long)shape[i]);
    empty |= !shape[i];
    fits &= !__builtin_mul_overflow(total, (size_t)shape[i], &total) && total <= PTRDIFF_MAX;
  }
  if (!empty && !fits) return tvm_error("array: the size in bytes does not fit in memory");
  *out = empty ? 0 : total;
  return 0;
}

int TVMTensorByteSize(const DLTensor *tensor, size_t *out) {
  return tvm_byte_size(tensor->shape, tensor->ndim, tensor->dtype, out);
}

static NDArray *new_array(const int64_t *shape, const int64_t *strides, int ndim) {
  /* malloc instead of calloc, because calloc bypasses the allocator's fast free lists. The dimensions are written
   * below. */
  NDArray *array = malloc(sizeof *array + 2 * (size_t)ndim * sizeof(int64_t));
  if (!array) {
    tvm_set_error("out of memory");
    return NULL;
  }
  memset(array, 0, sizeof *array);
  atomic_init(&array->refs, 1);
  array->tensor.ndim = ndim;
  array->tensor.shape = array->dims;
  for (int i = 0; i < ndim; ++i) array->dims[i] = shape[i];
  if (strides && ndim) {
    memcpy(array->dims + ndim, strides, (size_t)ndim * sizeof(int64_t));
    array->tensor.strides = array->dims + ndim;
    /* Compact arrays are always represented without strides. */
    if (tvm_is_compact(&array->tensor)) array->tensor.strides = NULL;
  }
  return array;
}

int TVMArrayAlloc(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, TVMArrayHandle *out) {
  size_t nbytes;
  const DeviceApi *api = tvm_device(device);
  if (!api || tvm_byte_size(shape, ndim, dtype, &nbytes)) return -1;
  NDArray *array = new_array(shape, NULL, ndim);
  if (!array) return -1;
  array->tensor.dtype = dtype;
  array->tensor.device = device;
  array->owned = array->tensor.data = api->alloc(device, nbytes, ARRAY_ALIGNMENT);
  if (!array->owned) {
    free(array);
    return -1;
  }
  *out = &array->tensor;
  return 0;
}

int tvm_array_borrow(const DLTensor *tensor, TVMArrayHandle *out) {
  NDArray *array = new_array(tensor->shape, NULL, tensor->ndim);
  if (!array) return -1;
  array->tensor.dtype = tensor->dtype;
  array->tensor.device = tensor->device;
  array->tensor.data = tensor->data;
  array->tensor.byte_offset = tensor->byte_offset;
  *out = &array->tensor;
  return 0;
}

int tvm_array_adopt(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, void *data, TVMArrayHandle *out) {
  size_t nbytes;
  if (tvm_byte_size(shape, ndim, dtype, &nbytes)) return -1;
  NDArray *array = new_array(shape, NULL, ndim);
  if (!array) return -1;
  array->tensor.dtype = dtype;
  array->tensor.device = device;
  array->owned = array->tensor.data = data;
  *out = &array->tensor;
  return 0;
}

int tvm_array_within(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, DLManagedTensor *keeper,
                     size_t offset, TVMArrayHandle *out) {
  NDArray *array = new_array(shape, NULL, ndim);
  if (!array) return -1;
  array->tensor.dtype = dtype;
  array->tensor.device = device;
  array->tensor.data = keeper->dl_tensor.data;
  array->tensor.byte_offset = offset;
  array->managed = keeper;
  *out = &array->tensor;
  return 0;
}

void tvm_array_disown(TVMArrayHandle array) { ((NDArray *)array)->owned = NULL; }

int TVMArrayCreateView(TVMArrayHandle handle, const int64_t *shape, int ndim, DLDataType dtype, uint64_t byte_offset,
                       TVMArrayHandle *out) {
  NDArray *base = (NDArray *)handle;
  size_t have, want;
  if (!tvm_is_compact(handle)) return tvm_error("view: the array is not compact; copy it first");
  if (TVMTensorByteSize(handle, &have) || tvm_byte_size(shape, ndim, dtype, &want)) return -1;
  if (byte_offset > have || want > have - byte_offset)
    return tvm_error("view: %zu bytes at offset %llu do not fit in an array of %zu bytes", want,
                     (unsigned long long)byte_offset, have);
  NDArray *view = new_array(shape, NULL, ndim);
  if (!view) return -1;
  view->tensor.data = handle->data;
  view->tensor.device = handle->device;
  view->tensor.dtype = dtype;
  view->tensor.byte_offset = handle->byte_offset + byte_offset;
  view->base = base;
  TVMArrayRetain(handle);
  *out = &view->tensor;
  return 0;
}

int TVMArrayRetain(TVMArrayHandle array) {
  atomic_fetch_add_explicit(&((NDArray *)array)->refs, 1, memory_order_relaxed);
  return 0;
}

int TVMArrayFree(TVMArrayHandle handle) {
  NDArray *array = (NDArray *)handle;
  if (!array || atomic_fetch_sub_explicit(&array->refs, 1, memory_order_acq_rel) != 1) return 0;
  if (array->owned) {
    const DeviceApi *api = tvm_device(array->tensor.device);
    if (api) api->free(array->tensor.device, array->owned);
  }
  if (array->managed && array->managed->deleter) array->managed->deleter(array->managed);
  if (array->managed_versioned && array->managed_versioned->deleter)
    array->managed_versioned->deleter(array->managed_versioned);
  if (array->base) TVMArrayFree(&array->base->tensor);
  free(array);
  return 0;
}

int TVMArrayUseCount(TVMArrayHandle array) { return atomic_load(&((NDArray *)array)->refs); }

/* ---- copies ---- */

static char *tensor_start(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

/* Copies all elements between two CPU tensors of the same shape; a plain loop handles the innermost dimension. */
static void copy_strided(const DLTensor *shape_of, const char *from, const int64_t *from_strides, char *to,
                         const int64_t *to_strides, int dim, size_t item) {
  int64_t extent = shape_of->ndim ? shape_of->shape[dim] : 1;
  bool last = dim + 1 >= shape_of->ndim;
  int64_t from_step = from_strides[dim] * (int64_t)item, to_step = to_strides[dim] * (int64_t)item;
  if (last && from_step == (int64_t)item && to_step == (int64_t)item) {
    memmove(to, from, (size_t)extent * item);
    return;
  }
  for (int64_t i = 0; i < extent; ++i, from += from_step, to += to_step) {
    if (last) memcpy(to, from, item);
    else copy_strided(shape_of, from, from_strides, to, to_strides, dim + 1, item);
  }
}

static int64_t *strides_or_compact(const DLTensor *shape_of, const DLTensor *tensor) {
  int ndim = shape_of->ndim;
  int64_t *strides = malloc((size_t)(ndim ? ndim : 1) * sizeof *strides);
  if (!strides) {
    tvm_set_error("out of memory");
    return NULL;
  }
  int64_t step = 1;
  strides[0] = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape_of->shape[i];
  }
  if (tensor && tensor->strides) memcpy(strides, tensor->strides, (size_t)ndim * sizeof *strides);
  return strides;
}

/* Copies between host tensors with the strides of `from` and `to`; NULL means compact. `shape_of` provides the shape. */
static int copy_layout(const DLTensor *shape_of, const char *from_data, const DLTensor *from, char *to_data,
                       const DLTensor *to) {
  size_t nbytes;
  if (TVMTensorByteSize(shape_of, &nbytes)) return -1;
  if (!nbytes) return 0;
  int64_t *from_strides = strides_or_compact(shape_of, from), *to_strides = strides_or_compact(shape_of, to);
  if (from_strides && to_strides)
    copy_strided(shape_of, from_data, from_strides, to_data, to_strides, 0, tvm_dtype_bytes(shape_of->dtype));
  int status = from_strides && to_strides ? 0 : -1;
  free(from_strides);
  free(to_strides);
  return status;
}

static int check_bytes(const DLTensor *array, size_t nbytes, const char *what) {
  size_t have;
  if (TVMTensorByteSize(array, &have)) return -1;
  if (have != nbytes) return tvm_error("%s: the array has %zu bytes, but the buffer has %zu", what, have, nbytes);
  return 0;
}

static const DLDevice host_device = {kDLCPU, 0};

int TVMArrayCopyFromBytes(DLTensor *array, const void *data, size_t nbytes) {
  const DeviceApi *api = tvm_device(array->device);
  if (!api || check_bytes(array, nbytes, "copy from bytes")) return -1;
  if (tvm_is_compact(array))
    return api->copy(data, 0, host_device, array->data, array->byte_offset, array->device, nbytes, NULL);
  if (api != &tvm_cpu_api) return tvm_error("copy from bytes: cannot write to a strided array on a device");
  return copy_layout(array, data, NULL, tensor_start(array), array);
}

int TVMArrayCopyToBytes(const DLTensor *array, void *data, size_t nbytes) {
  const DeviceApi *api = tvm_device(array->device);
  if (!api || check_bytes(array, nbytes, "copy to bytes")) return -1;
  if (tvm_is_compact(array)) {
    if (api->copy(array->data, array->byte_offset, array->device, data, 0, host_device, nbytes, NULL)) return -1;
    bool is_remote = array->device.device_type >= DEVICE_TYPES; /* the server synchronizes before it replies */
    return is_remote ? 0 : api->sync(array->device, NULL);
  }
  if (api != &tvm_cpu_api) return tvm_error("copy to bytes: cannot read a strided array on a device");
  return copy_layout(array, tensor_start(array), array, data, NULL);
}

static bool same_shape(const DLTensor *a, const DLTensor *b) {
  return a->ndim == b->ndim && (a->ndim == 0 || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(int64_t)));
}

/* Copies between two devices of different drivers, neither of which can access the other's memory. */
static int copy_through_host(const DLTensor *from, DLTensor *to, size_t nbytes) {
  void *bytes = malloc(nbytes ? nbytes : 1);
  if (!bytes) return tvm_error("copy: cannot allocate %zu bytes on the host", nbytes);
  int status = TVMArrayCopyToBytes(from, bytes, nbytes);
  if (!status) status = TVMArrayCopyFromBytes(to, bytes, nbytes);
  free(bytes);
  return status;
}

int TVMArrayCopyFromTo(const DLTensor *from, DLTensor *to, void *stream) {
  size_t from_bytes, to_bytes;
  char from_type[32], to_type[32];
  const DeviceApi *from_api = tvm_device(from->device), *to_api = tvm_device(to->device);
  if (!from_api || !to_api || TVMTensorByteSize(from, &from_bytes) || TVMTensorByteSize(to, &to_bytes)) return -1;
  tvm_dtype_text(from->dtype, from_type, sizeof from_type);
  tvm_dtype_text(to->dtype, to_type, sizeof to_type);
  if (strcmp(from_type, to_type)) return tvm_error("copy: the source has type %s, but the destination has type %s", from_type, to_type);
  if (from_bytes != to_bytes)
    return tvm_error("copy: the source has %zu bytes, but the destination has %zu", from_bytes, to_bytes);
  if (tvm_is_compact(from) && tvm_is_compact(to)) {
    bool foreign = from_api != &tvm_cpu_api && to_api != &tvm_cpu_api && from_api != to_api;
    if (foreign) return copy_through_host(from, to, from_bytes);
    /* The driver of the device copies to and from host memory. */
    const DeviceApi *api = from_api != &tvm_cpu_api ? from_api : to_api;
    return api->copy(from->data, from->byte_offset, from->device, to->data, to->byte_offset, to->device, from_bytes,
                     stream);
  }
  if (from_api != &tvm_cpu_api || to_api != &tvm_cpu_api)
    return tvm_error("copy: cannot copy a strided array between devices; make it compact first");
  if (!same_shape(from, to)) return tvm_error("copy: cannot copy between strided arrays of different shapes");
  return copy_layout(from, tensor_start(from), from, tensor_start(to), to);
}

/* ---- DLPack ---- */

/* Types whose codes differ from DLPack's: Apache TVM 0.x represents bool as a one-bit unsigned integer in a byte, and
 * its two float8 codes predate DLPack's. */
static const struct { uint8_t code, bits, exchange_code, exchange_bits; } exchange_types[] = {
  {kDLUInt, 1, kDLBool, 8}, {kTVME4M3Float, 8, 10, 8}, {kTVME5M2Float, 8, 12, 8},
};
enum { EXCHANGE_TYPES = sizeof exchange_types / sizeof *exchange_types };

static DLDataType from_exchange(DLDataType dtype) {
  for (int i = 0; i < EXCHANGE_TYPES; ++i)
    if (dtype.code == exchange_types[i].exchange_code)
      return (DLDataType){exchange_types[i].code, exchange_types[i].bits, dtype.lanes};
  return dtype;
}

static DLDataType to_exchange(DLDataType dtype) {
  for (int i = 0; i < EXCHANGE_TYPES; ++i)
    if (dtype.code == exchange_types[i].code && dtype.bits == exchange_types[i].bits)
      return (DLDataType){exchange_types[i].exchange_code, exchange_types[i].exchange_bits, dtype.lanes};
  return dtype;
}

static NDArray *wrap_exchange(const DLTensor *tensor) {
  size_t nbytes;
  DLDataType dtype = from_exchange(tensor->dtype);
  if (!tvm_device(tensor->device) || tvm_byte_size(tensor->shape, tensor->ndim, dtype, &nbytes)) return NULL;
  NDArray *array = new_array(tensor->shape, tensor->strides, tensor->ndim);
  if (!array) return NULL;
  array->tensor.data = tensor->data;
  array->tensor.byte_offset = tensor->byte_offset;
  array->tensor.device = tensor->device;
  array->tensor.dtype = dtype;
  return array;
}

int TVMArrayFromDLPack(DLManagedTensor *from, TVMArrayHandle *out) {
  NDArray *array = wrap_exchange(&from->dl_tensor);
  if (!array) return -1;
  array->managed = from;
  *out = &array->tensor;
  return 0;
}

int TVMArrayFromDLPackVersioned(DLManagedTensorVersioned *from, TVMArrayHandle *out) {
  if (from->version.major != 1)
    return tvm_error("from_dlpack: DLPack version %u.%u is not supported", from->version.major, from->version.minor);
  NDArray *array = wrap_exchange(&from->dl_tensor);
  if (!array) return -1;
  array->managed_versioned = from;
  *out = &array->tensor;
  return 0;
}

static void delete_managed(DLManagedTensor *self) {
  TVMArrayFree(self->manager_ctx);
  free(self->dl_tensor.strides);
  free(self);
}

static void delete_versioned(DLManagedTensorVersioned *self) {
  TVMArrayFree(self->manager_ctx);
  free(self->dl_tensor.strides);
  free(self);
}

/* Some consumers reject tensors without strides, so exported tensors always contain strides. */
static int fill_exchange(TVMArrayHandle from, DLTensor *tensor) {
  *tensor = *from;
  tensor->dtype = to_exchange(from->dtype);
  tensor->strides = strides_or_compact(from, from);
  if (!tensor->strides) return -1;
  TVMArrayRetain(from);
  return 0;
}

int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor **out) {
  DLManagedTensor *managed = calloc(1, sizeof *managed);
  if (!managed) return tvm_error("out of memory");
  if (fill_exchange(from, &managed->dl_tensor)) {
    free(managed);
    return -1;
  }
  managed->manager_ctx = from;
  managed->deleter = delete_managed;
  *out = managed;
  return 0;
}

int TVMArrayToDLPackVersioned(TVMArrayHandle from, DLManagedTensorVersioned **out) {
  DLManagedTensorVersioned *managed = calloc(1, sizeof *managed);
  if (!managed) return tvm_error("out of memory");
  if (fill_exchange(from, &managed->dl_tensor)) {
    free(managed);
    return -1;
  }
  managed->version = (DLPackVersion){1, 0};
  managed->manager_ctx = from;
  managed->deleter = delete_versioned;
  *out = managed;
  return 0;
}
