/* Argument checks that generated code calls. Each failed check sets one error message. */
#include <stdio.h>
#include <string.h>

#include "core.h"

int tvm_raise_argument_error(const char *func, int arg_index, const char *what) {
  if (arg_index < 0) return tvm_error("%s: %s", func, what);
  return tvm_error("%s: argument %d: %s", func, arg_index, what);
}

int tvm_raise_value(const char *text, int64_t value) { return tvm_error("%s%lld", text, (long long)value); }

static int refuse(const TVMTensorSpec *spec, int index, const char *what) {
  return tvm_error("%s: argument %d (%s): %s", spec->function, index, spec->argument ? spec->argument : "?", what);
}

static int check_layout(const TVMTensorSpec *spec, int index, const DLTensor *tensor) {
  char text[128];
  if (!spec->strides) {
    if (tvm_is_compact(tensor)) return 0;
    return refuse(spec, index, "expected a compact row-major array, got one with strides");
  }
  int64_t compact = 1;
  for (int i = spec->ndim - 1; i >= 0; --i) {
    int64_t got = tensor->strides ? tensor->strides[i] : compact;
    compact *= tensor->shape[i];
    if (spec->strides[i] == -1 || spec->strides[i] == got || tensor->shape[i] == 1) continue;
    snprintf(text, sizeof text, "expected strides[%d] == %lld, got %lld", i, (long long)spec->strides[i],
             (long long)got);
    return refuse(spec, index, text);
  }
  return 0;
}

static int check_shape(const TVMTensorSpec *spec, int index, const DLTensor *tensor) {
  char text[128];
  if (tensor->ndim != spec->ndim) {
    snprintf(text, sizeof text, "expected %d dimensions, got %d", (int)spec->ndim, (int)tensor->ndim);
    return refuse(spec, index, text);
  }
  for (int i = 0; i < spec->ndim; ++i) {
    if (!spec->shape || spec->shape[i] == -1 || spec->shape[i] == tensor->shape[i]) continue;
    snprintf(text, sizeof text, "expected shape[%d] == %lld, got %lld", i, (long long)spec->shape[i],
             (long long)tensor->shape[i]);
    return refuse(spec, index, text);
  }
  return 0;
}

/* A bool is stored as one byte; callers pass it as bool, uint1 or uint8. */
static bool is_bool(DLDataType type) {
  return type.lanes == 1 && (type.code == kDLBool || (type.code == kDLUInt && type.bits == 1));
}

static bool same_type(DLDataType want, DLDataType got) {
  if (!memcmp(&want, &got, sizeof want)) return true;
  bool bytes = got.lanes == 1 && got.code == kDLUInt && got.bits == 8;
  return is_bool(want) && (is_bool(got) || bytes);
}

static bool is_empty(const DLTensor *tensor) {
  for (int i = 0; i < tensor->ndim; ++i)
    if (tensor->shape[i] == 0) return true;
  return false;
}

/* Fast path: whether a compact tensor matches the specification exactly. Alignments that are not powers of two are left
 * to the slow path. */
static bool fits(const TVMTensorSpec *spec, const DLTensor *tensor) {
  uintptr_t address = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset, step = (uintptr_t)spec->alignment;
  bool same = !memcmp(&spec->dtype, &tensor->dtype, sizeof spec->dtype) && spec->ndim == tensor->ndim && tensor->data;
  for (int i = 0; same && spec->shape && i < spec->ndim; ++i) same = spec->shape[i] == -1 || spec->shape[i] == tensor->shape[i];
  same = same && !spec->strides && !tensor->strides && (!spec->device_type || spec->device_type == tensor->device.device_type);
  return same && (step <= 1 || !((step | address) & (step - 1)));
}

static int check_all(const TVMTensorSpec *spec, int index, TVMValue value, int code, const DLTensor **out) {
  char text[160], want[32], got[32];
  bool is_tensor = code == kTVMDLTensorHandle || code == kTVMNDArrayHandle || code == kTVMOpaqueHandle;
  if (!is_tensor || !value.v_handle) return refuse(spec, index, "expected an array");
  const DLTensor *tensor = value.v_handle;
  if (spec->dtype.code != 255 && !same_type(spec->dtype, tensor->dtype)) {
    tvm_dtype_text(spec->dtype, want, sizeof want);
    tvm_dtype_text(tensor->dtype, got, sizeof got);
    snprintf(text, sizeof text, "expected %s, got %s", want, got);
    return refuse(spec, index, text);
  }
  if (check_shape(spec, index, tensor) || check_layout(spec, index, tensor)) return -1;
  if (spec->device_type && spec->device_type != tensor->device.device_type) {
    snprintf(text, sizeof text, "expected an array on %s, got one on %s", TVMDeviceTypeName(spec->device_type),
             TVMDeviceTypeName(tensor->device.device_type));
    return refuse(spec, index, text);
  }
  if (!tensor->data && !is_empty(tensor)) return refuse(spec, index, "expected data, got a null pointer");
  uintptr_t address = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
  if (spec->alignment > 1 && address % (uintptr_t)spec->alignment) {
    snprintf(text, sizeof text, "expected data aligned to %d bytes", (int)spec->alignment);
    return refuse(spec, index, text);
  }
  if (out) *out = tensor;
  return 0;
}

int tvm_check_tensor(const void *opaque, int index, TVMValue value, int code, const DLTensor **out) {
  bool good = code == kTVMNDArrayHandle && value.v_handle && fits(opaque, value.v_handle);
  return !good ? check_all(opaque, index, value, code, out) : out ? *out = value.v_handle, 0 : 0;
}
