/* Device table and the CPU device. A driver that is not there is an error text, never a crash. */
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "internal.h"

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
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost) {
    if (device.device_id >= 0) return &tvm_cpu_api;
  }
  tvm_set_error("%s(%d): this runtime has no driver for the device; available: cpu", TVMDeviceTypeName(device.device_type),
            (int)device.device_id);
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

const DeviceApi tvm_cpu_api = {cpu_alloc, cpu_free, cpu_copy, cpu_sync, cpu_exists};
