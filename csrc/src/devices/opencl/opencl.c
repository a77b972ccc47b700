/* The OpenCL driver. The OpenCL library is loaded at run time, so building does not need it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

OpenCLFunctions tvm_cl;
ClDevice tvm_cl_devices[CL_MAX_DEVICES];
static int device_count;
static enum { UNTRIED, READY, FAILED, LOST } state;
static char failure[256];
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool opened[CL_MAX_DEVICES];

const char *tvm_cl_error_name(cl_int code) {
  static const struct { cl_int code; const char *name; } names[] = {
      {-1, "CL_DEVICE_NOT_FOUND"}, {-2, "CL_DEVICE_NOT_AVAILABLE"}, {-3, "CL_COMPILER_NOT_AVAILABLE"},
      {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"}, {-5, "CL_OUT_OF_RESOURCES"}, {-6, "CL_OUT_OF_HOST_MEMORY"},
      {-8, "CL_MEM_COPY_OVERLAP"}, {-11, "CL_BUILD_PROGRAM_FAILURE"}, {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
      {-30, "CL_INVALID_VALUE"}, {-34, "CL_INVALID_CONTEXT"}, {-36, "CL_INVALID_COMMAND_QUEUE"},
      {-38, "CL_INVALID_MEM_OBJECT"}, {-44, "CL_INVALID_PROGRAM"}, {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
      {-46, "CL_INVALID_KERNEL_NAME"}, {-48, "CL_INVALID_KERNEL"}, {-49, "CL_INVALID_ARG_INDEX"},
      {-50, "CL_INVALID_ARG_VALUE"}, {-51, "CL_INVALID_ARG_SIZE"}, {-52, "CL_INVALID_KERNEL_ARGS"},
      {-54, "CL_INVALID_WORK_GROUP_SIZE"}, {-55, "CL_INVALID_WORK_ITEM_SIZE"}, {-61, "CL_INVALID_BUFFER_SIZE"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (names[i].code == code) return names[i].name;
  return "OpenCL error";
}

int tvm_cl_failed(int device, const char *what, cl_int code) {
  return tvm_error("opencl(%d): %s failed: %s (%d)", device, what, tvm_cl_error_name(code), (int)code);
}

/* ---- opening the driver ---- */

uint64_t tvm_cl_number(cl_device_id id, cl_uint which, size_t size) {
  uint64_t value = 0; /* little endian: a smaller integer is stored in the low bytes */
  return tvm_cl.clGetDeviceInfo(id, which, size, &value, NULL) ? 0 : value;
}

static void text_of(cl_device_id id, cl_uint which, char *out, size_t size) {
  char text[512];
  if (tvm_cl.clGetDeviceInfo(id, which, sizeof text, text, NULL)) *text = '\0';
  snprintf(out, size, "%s", text);
}

static int load_functions(void) {
  const char *variable = "TVM_OPENCL_LIBRARY";
  void *library = tvm_driver_library(variable, SYSTEM_OPENCL_NAMES);
  const char *missing = NULL;
  if (sizeof(void *) < 8) {
    snprintf(failure, sizeof failure, "OpenCL arrays need a 64-bit runtime; this runtime has %zu bits", 8 * sizeof(void *));
    return -1;
  }
  if (!library) {
    const char *asked = getenv(variable);
    if (asked && *asked) snprintf(failure, sizeof failure, "cannot open the library '%.150s' (%s)", asked, variable);
    else snprintf(failure, sizeof failure, SYSTEM_OPENCL " was not found: install an OpenCL driver, for example Debian's pocl-opencl-icd");
    return -1;
  }
#define FIND(result, name, parameters)                         \
  {                                                            \
    void *address = system_library_symbol(library, #name);                     \
    if (!address) missing = #name;                             \
    memcpy(&tvm_cl.name, &address, sizeof address);                \
  }
  OPENCL_FUNCTIONS(FIND)
  if (!missing) return 0;
  snprintf(failure, sizeof failure, "the OpenCL library does not define %s; install OpenCL 1.1 or later", missing);
  return -1;
}

static void add_devices(cl_platform_id platform, bool processors) {
  cl_device_id found[CL_MAX_DEVICES];
  cl_uint count = 0;
  if (tvm_cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, CL_MAX_DEVICES, found, &count)) return;
  for (cl_uint i = 0; i < count && i < CL_MAX_DEVICES && device_count < CL_MAX_DEVICES; ++i) {
    bool processor = tvm_cl_number(found[i], CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU;
    if (processor != processors) continue;
    ClDevice *d = &tvm_cl_devices[device_count++];
    d->id = found[i];
    text_of(d->id, CL_DEVICE_NAME, d->name, sizeof d->name);
    d->alignment = tvm_cl_number(d->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4) / 8;
    if (!d->alignment) d->alignment = 1;
  }
}

static int find_devices(void) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  if (load_functions()) return -1;
  if (tvm_cl.clGetPlatformIDs(16, platforms, &count) || !count) {
    snprintf(failure, sizeof failure, "no OpenCL platform found: install a driver, for example Debian's pocl-opencl-icd");
    return -1;
  }
  /* List accelerators before the CPU, so that opencl(0) is an accelerator if there is one. */
  for (int processors = 0; processors < 2; ++processors)
    for (cl_uint i = 0; i < count && i < 16; ++i) add_devices(platforms[i], processors);
  if (device_count) return 0;
  snprintf(failure, sizeof failure, "the OpenCL platform has no device");
  return -1;
}

static int open_device(int device_id) {
  cl_int code = 0;
  ClDevice *d = &tvm_cl_devices[device_id];
  if (!d->context) d->context = tvm_cl.clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
  if (!d->context) return tvm_cl_failed(device_id, "clCreateContext", code);
  /* Profiling costs little time. If the queue does not support it, the host's clock is used. */
  if (!d->queue) d->queue = tvm_cl.clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (!d->queue) d->queue = tvm_cl.clCreateCommandQueue(d->context, d->id, 0, &code);
  return d->queue ? 0 : tvm_cl_failed(device_id, "clCreateCommandQueue", code);
}

static int opencl_open(int device_id) {
  if (device_id < CL_MAX_DEVICES && atomic_load_explicit(&opened[device_id], memory_order_acquire)) return 0;
  pthread_mutex_lock(&open_lock);
  if (state == UNTRIED) state = find_devices() ? FAILED : READY;
  int status;
  if (state == LOST)
    status = tvm_error("opencl(%d): the driver was opened before this process was forked, and a forked process cannot use "
                       "it; use the multiprocessing start method 'spawn'", device_id);
  else if (state == FAILED) status = tvm_error("opencl(%d): %s", device_id, failure);
  else if (device_id >= device_count)
    status = tvm_error("opencl(%d): the device does not exist; OpenCL has %d devices here, the first is opencl(0), '%s'", device_id,
                       device_count, tvm_cl_devices[0].name);
  else status = open_device(device_id);
  if (!status) atomic_store_explicit(&opened[device_id], true, memory_order_release);
  pthread_mutex_unlock(&open_lock);
  return status;
}

bool tvm_cl_is_open(void) { return state == READY; }

/* ---- the device's clock ---- */

typedef struct { cl_event start; double host; } Timer;

static int opencl_timer_start(DLDevice device, void **out) {
  cl_command_queue queue = tvm_cl_devices[device.device_id].queue;
  Timer *timer = calloc(1, sizeof *timer);
  if (!timer) return tvm_error("out of memory");
  timer->host = tvm_now();
  cl_int code = tvm_cl.clEnqueueMarker(queue, &timer->start);
  if (!code) code = tvm_cl.clFlush(queue);
  *out = timer;
  if (!code) return 0;
  if (timer->start) tvm_cl.clReleaseEvent(timer->start);
  free(timer);
  return tvm_cl_failed(device.device_id, "clEnqueueMarker", code);
}

/* Returns the time at which all work enqueued before a marker finished, in nanoseconds; 0 if the device does not report
 * it. */
static uint64_t stamp_of(cl_event marker) {
  uint64_t stamp = 0;
  return tvm_cl.clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof stamp, &stamp, NULL) ? 0 : stamp;
}

static int opencl_timer_stop(DLDevice device, void *self, double *out_seconds) {
  Timer *timer = self;
  cl_event end = NULL;
  cl_command_queue queue = tvm_cl_devices[device.device_id].queue;
  cl_int code = tvm_cl.clEnqueueMarker(queue, &end);
  if (!code) code = tvm_cl.clFinish(queue);
  if (!code) {
    uint64_t from = stamp_of(timer->start), to = stamp_of(end);
    *out_seconds = from && to >= from ? 1e-9 * (double)(to - from) : tvm_now() - timer->host;
  }
  tvm_cl.clReleaseEvent(timer->start);
  if (end) tvm_cl.clReleaseEvent(end);
  free(timer);
  return code ? tvm_cl_failed(device.device_id, "previously enqueued work", code) : 0;
}

static int opencl_exists(int device_id) { return device_id < device_count; }

static int opencl_attribute(DLDevice device, int which, TVMValue *out, int *out_code) {
  cl_device_id id = tvm_cl_devices[device.device_id].id;
  char text[CL_NAME_SIZE];
  size_t dims[3] = {0, 0, 0};
  switch (which) {
    case DEVICE_MAX_THREADS_PER_BLOCK:
      return tvm_attribute_int((int64_t)tvm_cl_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t)), out, out_code);
    case DEVICE_WARP_SIZE: return tvm_attribute_int(1, out, out_code); /* OpenCL does not guarantee that threads execute in lockstep */
    case DEVICE_MAX_SHARED_MEMORY_PER_BLOCK:
      return tvm_attribute_int((int64_t)tvm_cl_number(id, CL_DEVICE_LOCAL_MEM_SIZE, 8), out, out_code);
    case DEVICE_COMPUTE_VERSION: /* "OpenCL 3.0 vendor's text" */
      text_of(id, CL_DEVICE_VERSION, text, sizeof text);
      if (strlen(text) > 7) memmove(text, text + 7, strlen(text + 7) + 1);
      text[strcspn(text, " ")] = '\0';
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_NAME: return tvm_attribute_text(tvm_cl_devices[device.device_id].name, out, out_code);
    case DEVICE_MAX_CLOCK_RATE: /* converted from MHz to kHz */
      return tvm_attribute_int(1000 * (int64_t)tvm_cl_number(id, CL_DEVICE_MAX_CLOCK_FREQUENCY, 4), out, out_code);
    case DEVICE_MULTI_PROCESSOR_COUNT:
      return tvm_attribute_int((int64_t)tvm_cl_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, 4), out, out_code);
    case DEVICE_MAX_THREAD_DIMENSIONS:
      if (tvm_cl.clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof dims, dims, NULL)) return 0;
      snprintf(text, sizeof text, "[%zu, %zu, %zu]", dims[0], dims[1], dims[2]);
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_DRIVER_VERSION:
      text_of(id, CL_DRIVER_VERSION, text, sizeof text);
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_L2_CACHE_SIZE_BYTES:
      return tvm_attribute_int((int64_t)tvm_cl_number(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, 8), out, out_code);
    case DEVICE_TOTAL_GLOBAL_MEMORY:
      return tvm_attribute_int((int64_t)tvm_cl_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, 8), out, out_code);
    default: return 0;
  }
}

static void opencl_fork_child(void) {
  pthread_mutex_init(&open_lock, NULL);
  tvm_cl_memory_fork_child();
  if (state == READY) state = LOST;
  for (int i = 0; i < CL_MAX_DEVICES; ++i) atomic_store(&opened[i], false);
}

static const DeviceApi opencl_api = {
    .open = opencl_open,
    .fork_child = opencl_fork_child,
    .alloc = tvm_cl_alloc,
    .free = tvm_cl_free,
    .copy = tvm_cl_copy,
    .sync = tvm_cl_sync,
    .exists = opencl_exists,
    .attribute = opencl_attribute,
    .workspace_alloc = tvm_cl_workspace_alloc,
    .workspace_free = tvm_cl_workspace_free,
    .launch = tvm_cl_launch,
    .unload = tvm_cl_unload,
    .timer_start = opencl_timer_start,
    .timer_stop = opencl_timer_stop,
};

void tvm_opencl_start(void) { tvm_driver_add(kDLOpenCL, &opencl_api); }
