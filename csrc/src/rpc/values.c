/* Serialization of packed values in messages. */
#include <stdlib.h>
#include <string.h>

#include "rpc.h"

/* ---- writing ---- */

static int put_device(const Endpoint *ep, DLDevice device, DLDevice *out) {
  int session = device.device_type / DEVICE_TYPES - 1;
  if (session != ep->number)
    return session < 0 ? tvm_error("a remote function requires remote devices, such as remote.cpu()")
                       : tvm_error("a device of session %d was passed to session %d", session, ep->number);
  *out = (DLDevice){device.device_type % DEVICE_TYPES, device.device_id};
  return 0;
}

static void put_tensor(Bytes *out, uint64_t handle, DLDevice device, const DLTensor *tensor, uint64_t byte_offset) {
  bytes_u64(out, handle);
  bytes_put(out, &device, 8);
  bytes_put(out, &tensor->dtype, 4);
  bytes_u32(out, (uint32_t)tensor->ndim);
  bytes_put(out, tensor->shape, (size_t)tensor->ndim * 8);
  bytes_u64(out, byte_offset);
}

static int put_array(Endpoint *ep, Bytes *out, DLTensor *tensor, int code, Lent *lent) {
  DLDevice device;
  if (!tvm_is_compact(tensor)) return tvm_error("cannot pass an array with strides to a remote function; copy it first");
  if (tensor->ndim > RPC_MOST_DIMS) return tvm_error("cannot pass an array of %d dimensions to a remote function", tensor->ndim);
  if (!ep->serves) {
    if (tensor->device.device_type < DEVICE_TYPES)
      return tvm_error("ValueError: cannot pass an array on the local device %s(%d) to a session; create it on the session, as "
                       "in tvm.nd.array(x, remote.cpu())", TVMDeviceTypeName(tensor->device.device_type), (int)tensor->device.device_id);
    if (put_device(ep, tensor->device, &device)) return -1;
    put_tensor(out, (uint64_t)(uintptr_t)tensor->data | RPC_YOURS, device, tensor, tensor->byte_offset);
    return 0;
  }
  uint64_t handle;
  TVMArrayHandle own = tensor;
  if (code == kTVMNDArrayHandle) TVMArrayRetain(own);
  else if (!lent || lent->count == RPC_MOST_LENT) return tvm_error("more than %d local arrays are passed in one call", RPC_MOST_LENT);
  else if (tvm_array_borrow(tensor, &own)) return -1;
  if (slot_add(ep, own, kTVMNDArrayHandle, &handle)) return -1;
  if (code != kTVMNDArrayHandle) lent->handles[lent->count++] = handle;
  put_tensor(out, handle, tensor->device, tensor, 0);
  return 0;
}

static int put_handle(Endpoint *ep, Bytes *out, void *value, int code) {
  bool function = code == kTVMPackedFuncHandle;
  uint64_t handle = function ? remote_function_handle(ep, value) : remote_module_handle(ep, value);
  if (handle) {
    bytes_u64(out, handle | RPC_YOURS);
    return 0;
  }
  if (!function && !ep->serves)
    return tvm_error("cannot pass a local module to a session; export it, upload the file and load it on the session");
  if (function) TVMFuncRetain(value);
  else TVMModRetain(value);
  if (slot_add(ep, value, code, &handle)) return -1;
  bytes_u64(out, handle);
  return 0;
}

static int put_value(Endpoint *ep, Bytes *out, TVMValue value, int code, Lent *lent) {
  const TVMByteArray *bytes = value.v_handle;
  if (code == kTVMOpaqueHandle && !value.v_handle) code = kTVMNullptr;
  bytes_u32(out, (uint32_t)(code == kTVMDLTensorHandle ? kTVMNDArrayHandle : code));
  switch (code) {
    case kTVMNullptr: return 0;
    case kTVMArgInt: case kTVMArgUInt: case kTVMArgFloat: case kTVMArgBool: case kTVMDataType:
      bytes_put(out, &value, 8);
      return 0;
    case kTVMDevice:
      if (!ep->serves && put_device(ep, value.v_device, &value.v_device)) return -1;
      bytes_put(out, &value, 8);
      return 0;
    case kTVMStr: bytes_text(out, value.v_str, strlen(value.v_str)); return 0;
    case kTVMBytes: bytes_text(out, bytes->data, bytes->size); return 0;
    case kTVMDLTensorHandle: case kTVMNDArrayHandle: return put_array(ep, out, value.v_handle, code, lent);
    case kTVMModuleHandle: case kTVMPackedFuncHandle: return put_handle(ep, out, value.v_handle, code);
    default: return tvm_error("TypeError: cannot pass a value of type code %d (an object or an address) to another machine", code);
  }
}

int values_put(Endpoint *ep, Bytes *out, const TVMValue *values, const int *codes, int n, Lent *lent) {
  if (n > RPC_MOST_VALUES) return tvm_error("a remote call takes at most %d arguments, got %d", RPC_MOST_VALUES, n);
  bytes_u32(out, (uint32_t)n);
  for (int i = 0; i < n; ++i)
    if (put_value(ep, out, values[i], codes[i], lent)) return -1;
  return 0;
}

void lent_drop(Endpoint *ep, const Lent *lent) {
  for (int i = 0; i < lent->count; ++i) slot_drop(ep, lent->handles[i]);
}

/* ---- reading ---- */

typedef struct { uint64_t handle, byte_offset; DLDevice device; DLDataType dtype; int ndim; int64_t shape[RPC_MOST_DIMS]; } WireArray;

static int take_wire_array(Cursor *cursor, WireArray *out) {
  const void *device, *dtype, *shape;
  uint32_t ndim;
  if (cursor_u64(cursor, &out->handle) || cursor_take(cursor, &device, 8) || cursor_take(cursor, &dtype, 4) ||
      cursor_u32(cursor, &ndim))
    return -1;
  if (ndim > RPC_MOST_DIMS) return tvm_error("RPCError: received an array of %u dimensions; the maximum is %d", (unsigned)ndim, RPC_MOST_DIMS);
  if (cursor_take(cursor, &shape, ndim * 8) || cursor_u64(cursor, &out->byte_offset)) return -1;
  memcpy(&out->device, device, 8);
  memcpy(&out->dtype, dtype, 4);
  memcpy(out->shape, shape, ndim * 8);
  out->ndim = (int)ndim;
  return 0;
}

/* Returns an array of this side, or a view of it. */
static int own_array(const Endpoint *ep, const WireArray *wire, TVMArrayHandle *out) {
  TVMArrayHandle base = slot_get(ep, wire->handle & ~RPC_YOURS, kTVMNDArrayHandle);
  if (!base) return -1;
  bool whole = !wire->byte_offset && wire->ndim == base->ndim && !memcmp(&wire->dtype, &base->dtype, sizeof base->dtype) &&
               (!wire->ndim || !memcmp(wire->shape, base->shape, (size_t)wire->ndim * 8));
  if (!whole) return TVMArrayCreateView(base, wire->shape, wire->ndim, wire->dtype, wire->byte_offset, out);
  *out = base;
  return TVMArrayRetain(base);
}

static int take_array(Endpoint *ep, Cursor *cursor, TVMValue *out) {
  WireArray wire;
  TVMArrayHandle array;
  if (take_wire_array(cursor, &wire)) return -1;
  if (wire.handle & RPC_YOURS) {
    if (own_array(ep, &wire, &array)) return -1;
  } else {
    if (ep->serves) return tvm_error("RPCError: received an array of the client; arrays must be on the server");
    if (!wire.handle || wire.device.device_type < 1 || wire.device.device_type >= DEVICE_TYPES || wire.byte_offset)
      return tvm_error("RPCError: received an array without a handle or a device");
    wire.device.device_type += DEVICE_TYPES * (ep->number + 1);
    if (tvm_array_adopt(wire.shape, wire.ndim, wire.dtype, wire.device, (void *)(uintptr_t)wire.handle, &array)) {
      remote_forget(ep, wire.handle);
      return -1;
    }
    endpoint_retain(ep);
  }
  out->v_handle = array;
  return 0;
}

static int take_function(Endpoint *ep, Cursor *cursor, TVMValue *out) {
  uint64_t handle;
  TVMFunctionHandle func;
  if (cursor_u64(cursor, &handle)) return -1;
  if (!(handle & RPC_YOURS)) {
    if (remote_function(ep, handle, &func)) return -1;
  } else {
    if (!(func = slot_get(ep, handle & ~RPC_YOURS, kTVMPackedFuncHandle))) return -1;
    TVMFuncRetain(func);
  }
  out->v_handle = func;
  return 0;
}

static int take_module(Endpoint *ep, Cursor *cursor, TVMValue *out) {
  uint64_t handle;
  TVMModuleHandle mod;
  if (cursor_u64(cursor, &handle)) return -1;
  if (!(handle & RPC_YOURS)) {
    if (ep->serves) return tvm_error("RPCError: received a module of the client; modules must be on the server");
    if (remote_module(ep, handle, &mod)) return -1;
  } else {
    if (!(mod = slot_get(ep, handle & ~RPC_YOURS, kTVMModuleHandle))) return -1;
    TVMModRetain(mod);
  }
  out->v_handle = mod;
  return 0;
}

static int take_value(Endpoint *ep, Cursor *cursor, TVMValue *out, int *out_code, TVMByteArray *bytes) {
  uint32_t code;
  const void *from;
  const char *text;
  size_t size;
  if (cursor_u32(cursor, &code)) return -1;
  out->v_handle = NULL;
  switch (code) {
    case kTVMNullptr: break;
    case kTVMArgInt: case kTVMArgUInt: case kTVMArgFloat: case kTVMArgBool: case kTVMDataType: case kTVMDevice:
      if (cursor_take(cursor, &from, 8)) return -1;
      memcpy(out, from, 8);
      if (code == kTVMDevice && !ep->serves) {
        int32_t type = out->v_device.device_type;
        if (type < 1 || type >= DEVICE_TYPES) return tvm_error("RPCError: received a device of unknown type %d", (int)type);
        out->v_device.device_type = type + DEVICE_TYPES * (ep->number + 1);
      }
      break;
    case kTVMStr:
      if (cursor_text(cursor, &out->v_str, &size)) return -1;
      if (strlen(out->v_str) != size) return tvm_error("RPCError: received a text that contains a null character");
      break;
    case kTVMBytes:
      if (cursor_text(cursor, &text, &size)) return -1;
      *bytes = (TVMByteArray){text, size};
      out->v_handle = bytes;
      break;
    case kTVMNDArrayHandle: if (take_array(ep, cursor, out)) return -1; break;
    case kTVMPackedFuncHandle: if (take_function(ep, cursor, out)) return -1; break;
    case kTVMModuleHandle: if (take_module(ep, cursor, out)) return -1; break;
    default: return tvm_error("RPCError: received a value of unknown type code %u", (unsigned)code);
  }
  *out_code = (int)code;
  return 0;
}

int values_take(Endpoint *ep, Cursor *cursor, Values *out) {
  uint32_t count;
  *out = (Values){NULL, NULL, NULL, 0};
  if (cursor_u32(cursor, &count)) return -1;
  if (count > RPC_MOST_VALUES) return tvm_error("RPCError: received a call with %u values; the maximum is %d", (unsigned)count, RPC_MOST_VALUES);
  out->values = calloc(count + 1, sizeof *out->values);
  out->codes = calloc(count + 1, sizeof *out->codes);
  out->bytes = calloc(count + 1, sizeof *out->bytes);
  int status = out->values && out->codes && out->bytes ? 0 : tvm_error("out of memory");
  for (uint32_t i = 0; i < count && !status; ++i) {
    status = take_value(ep, cursor, &out->values[i], &out->codes[i], &out->bytes[i]);
    if (!status) out->count = (int)i + 1;
  }
  if (!status) status = cursor_end(cursor);
  if (status) values_free(out);
  return status;
}

void values_free(Values *values) {
  for (int i = 0; i < values->count; ++i) tvm_release_value(values->values[i], values->codes[i]);
  free(values->values);
  free(values->codes);
  free(values->bytes);
  *values = (Values){NULL, NULL, NULL, 0};
}
