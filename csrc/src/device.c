/* Device table and the CPU device. A driver that is not there is an error text, never a crash. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "device.h"

static const struct { int type; const char *name; } device_names[] = {
  {kDLCPU, "cpu"}, {kDLCUDA, "cuda"}, {kDLCUDAHost, "cuda_host"}, {kDLOpenCL, "opencl"},
  {kDLVulkan, "vulkan"}, {kDLMetal, "metal"}, {kDLVPI, "vpi"}, {kDLROCM, "rocm"},
  {kDLROCMHost, "rocm_host"}, {kDLExtDev, "ext_dev"}, {kDLCUDAManaged, "cuda_managed"}, {kDLOneAPI, "oneapi"},
  {kDLWebGPU, "webgpu"}, {kDLHexagon, "hexagon"}, {32, "aocl"}, {33, "sdaccel"}, {34, "opengl"}, {35, "microdev"},
};

const char *TVMDeviceTypeName(int device_type) {
  for (size_t i = 0; i < sizeof device_names / sizeof *device_names; ++i)
    if (device_names[i].type == device_type) return device_names[i].name;
  return "unknown device";
}

const DeviceApi *tvm_device(DLDevice device) {
  if (device.device_id < 0) {
    tvm_set_error("%s(%d): a device has a number of 0 or more", TVMDeviceTypeName(device.device_type), (int)device.device_id);
    return NULL;
  }
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost: return &tvm_cpu_api;
    case kDLOpenCL: return tvm_opencl_open(device.device_id) ? NULL : &tvm_opencl_api;
    case kDLCUDA: return tvm_cuda_open(device.device_id) ? NULL : &tvm_cuda_api;
    default: break;
  }
  tvm_set_error("%s(%d): this runtime has no driver for the device; it has drivers for cpu, cuda and opencl",
                TVMDeviceTypeName(device.device_type), (int)device.device_id);
  return NULL;
}

int TVMDeviceExists(DLDevice device) {
  const DeviceApi *api = tvm_device(device);
  return api ? api->exists(device.device_id) : 0;
}

int TVMSynchronize(int device_type, int device_id, void *stream) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  return api ? api->sync(device, stream) : -1;
}

int tvm_attribute_int(int64_t value, TVMValue *out, int *out_code) {
  out->v_int64 = value;
  *out_code = kTVMArgInt;
  return 0;
}

int tvm_attribute_text(const char *text, TVMValue *out, int *out_code) {
  return TVMReturnBytes(text, strlen(text), kTVMStr, out, out_code);
}

int TVMDeviceGetAttribute(DLDevice device, int which, TVMValue *out, int *out_code) {
  out->v_handle = NULL;
  *out_code = kTVMNullptr;
  if (which == DEVICE_EXIST) return tvm_attribute_int(TVMDeviceExists(device), out, out_code);
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  return api->attribute ? api->attribute(device, (DeviceAttribute)which, out, out_code) : 0;
}

/* ---- streams: work of one stream is done in order; 0 is the stream every thread starts with ---- */

static int no_streams(DLDevice device) {
  return tvm_error("%s(%d): the device has no streams", TVMDeviceTypeName(device.device_type), (int)device.device_id);
}

int TVMStreamCreate(int device_type, int device_id, void **out) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  return api->stream_create ? api->stream_create(device, out) : no_streams(device);
}

int TVMStreamFree(int device_type, int device_id, void *stream) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  return api->stream_free ? api->stream_free(device, stream) : no_streams(device);
}

int TVMSetStream(int device_type, int device_id, void *stream) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  if (!api->stream_set) return stream ? no_streams(device) : 0;
  return api->stream_set(device, stream);
}

/* ---- the device a thread works on ---- */

enum { DEVICE_TYPES = 36 };
static _Thread_local int chosen[DEVICE_TYPES];

int tvm_current_device(int device_type) { return device_type >= 0 && device_type < DEVICE_TYPES ? chosen[device_type] : 0; }

int tvm_set_device(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)ret, (void)ret_code, (void)resource;
  if (n != 2 || codes[0] != kTVMArgInt || codes[1] != kTVMArgInt)
    return tvm_error("__tvm_set_device: expected the type and the number of a device");
  DLDevice device = {(int32_t)args[0].v_int64, (int32_t)args[1].v_int64};
  if (!tvm_device(device)) return -1;
  if (device.device_type < DEVICE_TYPES) chosen[device.device_type] = device.device_id;
  return 0;
}

static _Thread_local bool calls_host;

void tvm_watch_begin(void) { calls_host = false; }

bool tvm_watch_end(void) { return calls_host; }

void tvm_watch_call(const struct TVMFunction *func) {
  if (func->code != tvm_call_kernel && func->code != tvm_set_device) calls_host = true;
}

void *tvm_driver_library(const char *variable, const char *names) {
  const char *asked = getenv(variable);
  if (asked && *asked) return dlopen(asked, RTLD_NOW | RTLD_LOCAL);
  char name[64];
  void *library = NULL;
  for (const char *at = names; *at && !library;) {
    size_t length = strcspn(at, " ");
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    at += length + strspn(at + length, " ");
  }
  return library;
}

/* Large arrays ask for huge pages: page walks, not arithmetic, limit strided kernels otherwise. */
enum { HUGE_PAGE_FROM = 4 << 20, PAGE = 4096 };

static void *cpu_alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)device;
  void *data = NULL;
  bool large = nbytes >= HUGE_PAGE_FROM;
  if (large && alignment < PAGE) alignment = PAGE;
  /* One byte at least, so that empty arrays have distinct valid addresses. */
  if (posix_memalign(&data, alignment, nbytes ? nbytes : 1)) {
    tvm_set_error("cpu: cannot allocate %zu bytes", nbytes);
    return NULL;
  }
#ifdef __linux__
  if (large) madvise(data, nbytes, MADV_HUGEPAGE);
#endif
  return data;
}

static void cpu_free(DLDevice device, void *data) {
  (void)device;
  free(data);
}

static int cpu_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                    DLDevice to_device, size_t nbytes, void *stream) {
  (void)from_device, (void)to_device, (void)stream;
  if (nbytes) memmove((char *)to + to_offset, (const char *)from + from_offset, nbytes);
  return 0;
}

static int cpu_sync(DLDevice device, void *stream) {
  (void)device, (void)stream;
  return 0;
}

static int cpu_exists(int device_id) {
  (void)device_id;
  return 1;
}

const DeviceApi tvm_cpu_api = {.alloc = cpu_alloc, .free = cpu_free, .copy = cpu_copy, .sync = cpu_sync, .exists = cpu_exists};

void TVMReleaseFreeMemory(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}
