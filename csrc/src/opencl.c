/* OpenCL, reached through the driver's library at run time: nothing of it is needed to build.
 *
 * Addresses. The host computes with addresses of device memory (a view starts at data + byte_offset), but OpenCL's
 * buffers are handles. So an array's `data` is an address of our own that no host memory has: bit 62, the number of the
 * buffer, the offset inside of it. Launches and copies turn it back into the buffer, or into a sub-buffer. Any other
 * value is taken for a cl_mem itself, as DLPack hands it over.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_bitfield;
typedef struct cl_platform *cl_platform_id;
typedef struct cl_device *cl_device_id;
typedef struct cl_context_ *cl_context;
typedef struct cl_queue *cl_command_queue;
typedef struct cl_memory *cl_mem;
typedef struct cl_program_ *cl_program;
typedef struct cl_kernel_ *cl_kernel;
typedef struct cl_event_ *cl_event;
typedef struct { size_t origin, size; } cl_buffer_region;

enum {
  CL_DEVICE_TYPE = 0x1000, CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002, CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005, CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C, CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE = 0x101E, CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023, CL_DEVICE_NAME = 0x102B, CL_DRIVER_VERSION = 0x102D, CL_DEVICE_VERSION = 0x102F,
  CL_MEM_READ_WRITE = 1, CL_BUFFER_CREATE_TYPE_REGION = 0x1220, CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_QUEUE_PROFILING_ENABLE = 2, CL_COMPLETE = 0,
  CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3, CL_PROFILING_COMMAND_END = 0x1283, CL_KERNEL_NUM_ARGS = 0x1191, CL_KERNEL_WORK_GROUP_SIZE = 0x11B0, CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2
};
static const cl_bitfield CL_DEVICE_TYPE_CPU = 2, CL_DEVICE_TYPE_ALL = 0xFFFFFFFF;

#define OPENCL_FUNCTIONS(X)                                                                                          \
  X(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                                \
  X(cl_int, clGetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                       \
  X(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                                      \
  X(cl_context, clCreateContext, (const intptr_t *, cl_uint, const cl_device_id *,                                   \
                                  void (*)(const char *, const void *, size_t, void *), void *, cl_int *))           \
  X(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *))                       \
  X(cl_mem, clCreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *))                                     \
  X(cl_mem, clCreateSubBuffer, (cl_mem, cl_bitfield, cl_uint, const void *, cl_int *))                               \
  X(cl_int, clReleaseMemObject, (cl_mem))                                                                            \
  X(cl_int, clEnqueueReadBuffer, (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const void *,  \
                                  void *))                                                                           \
  X(cl_int, clEnqueueWriteBuffer, (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint,         \
                                   const void *, void *))                                                            \
  X(cl_int, clEnqueueCopyBuffer, (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const void *,   \
                                  void *))                                                                           \
  X(cl_int, clFinish, (cl_command_queue))                                                                            \
  X(cl_int, clFlush, (cl_command_queue))                                                                             \
  X(cl_int, clEnqueueMarker, (cl_command_queue, cl_event *))                                                         \
  X(cl_int, clGetEventInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                           \
  X(cl_int, clGetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                  \
  X(cl_int, clReleaseEvent, (cl_event))                                                                              \
  X(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))           \
  X(cl_int, clBuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *,                                \
                             void (*)(cl_program, void *), void *))                                                  \
  X(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                    \
  X(cl_int, clReleaseProgram, (cl_program))                                                                          \
  X(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                                                 \
  X(cl_int, clReleaseKernel, (cl_kernel))                                                                            \
  X(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                              \
  X(cl_int, clGetKernelInfo, (cl_kernel, cl_uint, size_t, void *, size_t *))                                         \
  X(cl_int, clGetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *))                  \
  X(cl_int, clEnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,           \
                                     const size_t *, cl_uint, const void *, void *))

#define DECLARE(result, name, parameters) result(*name) parameters;
static struct { OPENCL_FUNCTIONS(DECLARE) } cl;

enum { MAX_DEVICES = 64, NAME_SIZE = 128 };
typedef struct {
  cl_device_id id;
  cl_context context;
  cl_command_queue queue;
  char name[NAME_SIZE];
  uint64_t alignment; /* bytes a sub-buffer starts at a multiple of */
} ClDevice;

static ClDevice devices[MAX_DEVICES];
static int device_count;
static enum { UNTRIED, READY, FAILED, LOST } state;
static char failure[256];
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool opened[MAX_DEVICES];

static const char *error_name(cl_int code) {
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

static int failed(int device, const char *what, cl_int code) {
  return tvm_error("opencl(%d): %s failed: %s (%d)", device, what, error_name(code), (int)code);
}

/* ---- opening ---- */

static uint64_t number_of(cl_device_id id, cl_uint which, size_t size) {
  uint64_t value = 0; /* little endian: a smaller number fills its low bytes */
  return cl.clGetDeviceInfo(id, which, size, &value, NULL) ? 0 : value;
}

static void text_of(cl_device_id id, cl_uint which, char *out, size_t size) {
  char text[512];
  if (cl.clGetDeviceInfo(id, which, sizeof text, text, NULL)) *text = '\0';
  snprintf(out, size, "%s", text);
}

static int load_functions(void) {
  const char *variable = "TVM_OPENCL_LIBRARY";
  void *library = tvm_driver_library(variable, "libOpenCL.so.1 libOpenCL.so");
  const char *missing = NULL;
  if (sizeof(void *) < 8) {
    snprintf(failure, sizeof failure, "addresses of OpenCL arrays need 64 bits, and this runtime has %zu", 8 * sizeof(void *));
    return -1;
  }
  if (!library) {
    const char *asked = getenv(variable);
    if (asked && *asked) snprintf(failure, sizeof failure, "the library '%.150s' (%s) cannot be opened", asked, variable);
    else snprintf(failure, sizeof failure, "libOpenCL.so.1 was not found: install an OpenCL driver, on Debian e.g. pocl-opencl-icd");
    return -1;
  }
#define FIND(result, name, parameters)                         \
  {                                                            \
    void *address = dlsym(library, #name);                     \
    if (!address) missing = #name;                             \
    memcpy(&cl.name, &address, sizeof address);                \
  }
  OPENCL_FUNCTIONS(FIND)
  if (!missing) return 0;
  snprintf(failure, sizeof failure, "the OpenCL library has no function %s; OpenCL 1.1 or later is needed", missing);
  return -1;
}

static void add_devices(cl_platform_id platform, bool processors) {
  cl_device_id found[MAX_DEVICES];
  cl_uint count = 0;
  if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, found, &count)) return;
  for (cl_uint i = 0; i < count && i < MAX_DEVICES && device_count < MAX_DEVICES; ++i) {
    bool processor = number_of(found[i], CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU;
    if (processor != processors) continue;
    ClDevice *d = &devices[device_count++];
    d->id = found[i];
    text_of(d->id, CL_DEVICE_NAME, d->name, sizeof d->name);
    d->alignment = number_of(d->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4) / 8;
    if (!d->alignment) d->alignment = 1;
  }
}

static int find_devices(void) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  if (load_functions()) return -1;
  if (cl.clGetPlatformIDs(16, platforms, &count) || !count) {
    snprintf(failure, sizeof failure, "no OpenCL platform found: install a driver, on Debian e.g. pocl-opencl-icd");
    return -1;
  }
  /* Accelerators come before the CPU, so that opencl(0) is one where there is one. */
  for (int processors = 0; processors < 2; ++processors)
    for (cl_uint i = 0; i < count && i < 16; ++i) add_devices(platforms[i], processors);
  if (device_count) return 0;
  snprintf(failure, sizeof failure, "the OpenCL platform has no device");
  return -1;
}

static int open_device(int device_id) {
  cl_int code = 0;
  ClDevice *d = &devices[device_id];
  if (!d->context) d->context = cl.clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
  if (!d->context) return failed(device_id, "clCreateContext", code);
  /* Time stamps cost a queue little beside its commands; a device without them is timed by the host's clock. */
  if (!d->queue) d->queue = cl.clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (!d->queue) d->queue = cl.clCreateCommandQueue(d->context, d->id, 0, &code);
  return d->queue ? 0 : failed(device_id, "clCreateCommandQueue", code);
}

static int opencl_open(int device_id) {
  if (device_id < MAX_DEVICES && atomic_load_explicit(&opened[device_id], memory_order_acquire)) return 0;
  pthread_mutex_lock(&open_lock);
  if (state == UNTRIED) state = find_devices() ? FAILED : READY;
  int status;
  if (state == LOST)
    status = tvm_error("opencl(%d): the driver was in use before this process was forked and does not survive that; "
                       "start the process anew ('spawn')", device_id);
  else if (state == FAILED) status = tvm_error("opencl(%d): %s", device_id, failure);
  else if (device_id >= device_count)
    status = tvm_error("opencl(%d): there is no such device; OpenCL has %d here, the first is opencl(0), '%s'", device_id,
                       device_count, devices[0].name);
  else status = open_device(device_id);
  if (!status) atomic_store_explicit(&opened[device_id], true, memory_order_release);
  pthread_mutex_unlock(&open_lock);
  return status;
}

/* ---- memory ---- */

static const uint64_t OURS = (uint64_t)1 << 62;
enum { NUMBER_SHIFT = 40, NUMBER_LIMIT = 1 << 22 };

typedef struct SubBuffer { struct SubBuffer *next; size_t offset; cl_mem memory; } SubBuffer;
typedef struct {
  cl_mem memory; /* NULL: free, and `next_free` says which slot comes after it */
  size_t size;
  int device, next_free;
  bool idle; /* a workspace nobody uses */
  SubBuffer *parts;
} Buffer;

static Buffer *buffers;
static int buffer_count, buffer_room, first_free = -1;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static void *address_of(int number) { return (void *)(uintptr_t)(OURS | (uint64_t)number << NUMBER_SHIFT); }

/* The slot of an address and the offset in it; NULL when it is none of ours. Under the lock. */
static Buffer *find_buffer(const void *address, size_t *out_offset) {
  uint64_t value = (uint64_t)(uintptr_t)address;
  if (!(value & OURS)) return NULL;
  uint64_t number = (value & (OURS - 1)) >> NUMBER_SHIFT;
  *out_offset = (size_t)(value & (((uint64_t)1 << NUMBER_SHIFT) - 1));
  return number < (uint64_t)buffer_count && buffers[number].memory ? &buffers[number] : NULL;
}

static int new_slot(void) {
  if (first_free >= 0) {
    int number = first_free;
    first_free = buffers[number].next_free;
    return number;
  }
  if (buffer_count == buffer_room) {
    int room = buffer_room ? 2 * buffer_room : 64;
    Buffer *more = room <= NUMBER_LIMIT ? realloc(buffers, (size_t)room * sizeof *more) : NULL;
    if (!more) return tvm_error("opencl: more than %d buffers", buffer_count);
    buffers = more;
    buffer_room = room;
  }
  return buffer_count++;
}

static cl_mem create_buffer(int device, size_t nbytes) {
  cl_int code;
  ClDevice *d = &devices[device];
  uint64_t largest = number_of(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
  uint64_t total = number_of(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, 8);
  cl_mem memory = NULL;
  if (nbytes <= largest && !((uint64_t)nbytes >> NUMBER_SHIFT))
    memory = cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, nbytes ? nbytes : 1, NULL, &code);
  if (!memory)
    tvm_set_error("opencl(%d): cannot allocate %zu bytes; the device has %llu in all and gives at most %llu at once",
                  device, nbytes, (unsigned long long)total, (unsigned long long)largest);
  return memory;
}

static void *add_buffer(int device, size_t nbytes) {
  cl_mem memory = create_buffer(device, nbytes);
  if (!memory) return NULL;
  pthread_mutex_lock(&memory_lock);
  int number = new_slot();
  if (number >= 0) buffers[number] = (Buffer){memory, nbytes, device, -1, false, NULL};
  pthread_mutex_unlock(&memory_lock);
  if (number < 0) cl.clReleaseMemObject(memory);
  return number < 0 ? NULL : address_of(number);
}

/* Under the lock. OpenCL itself keeps a buffer until the work that uses it is done. */
static void drop_buffer(Buffer *b) {
  for (SubBuffer *part = b->parts, *next; part; part = next) {
    next = part->next;
    cl.clReleaseMemObject(part->memory);
    free(part);
  }
  cl.clReleaseMemObject(b->memory);
  b->memory = NULL;
  b->parts = NULL;
  b->next_free = first_free;
  first_free = (int)(b - buffers);
}

/* Gives the idle workspaces of a device back; true when there were any. */
static bool drop_idle(int device) {
  bool any = false;
  pthread_mutex_lock(&memory_lock);
  for (int i = 0; i < buffer_count; ++i)
    if (buffers[i].memory && buffers[i].idle && buffers[i].device == device) {
      drop_buffer(&buffers[i]);
      any = true;
    }
  pthread_mutex_unlock(&memory_lock);
  return any;
}

static void *opencl_alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)alignment; /* buffers start at what suits every type of the device */
  void *data = add_buffer(device.device_id, nbytes);
  if (!data && drop_idle(device.device_id)) data = add_buffer(device.device_id, nbytes);
  return data;
}

static void opencl_free(DLDevice device, void *data) {
  size_t offset;
  (void)device;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(data, &offset);
  if (b) drop_buffer(b);
  pthread_mutex_unlock(&memory_lock);
}

/* One queue does all work of a device in order, so a workspace may go to the next asker at once. */
static void *opencl_workspace_alloc(DLDevice device, size_t nbytes) {
  Buffer *best = NULL;
  void *data = NULL;
  pthread_mutex_lock(&memory_lock);
  for (int i = 0; i < buffer_count; ++i) {
    Buffer *b = &buffers[i];
    if (b->memory && b->idle && b->device == device.device_id && b->size >= nbytes && b->size / 4 <= nbytes + 4096 &&
        (!best || b->size < best->size))
      best = b;
  }
  if (best) {
    best->idle = false;
    data = address_of((int)(best - buffers));
  }
  pthread_mutex_unlock(&memory_lock);
  return data ? data : opencl_alloc(device, nbytes, 1);
}

static void opencl_workspace_free(DLDevice device, void *data) {
  size_t offset;
  (void)device;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(data, &offset);
  if (b) b->idle = true;
  pthread_mutex_unlock(&memory_lock);
}

/* The buffer and the offset that stand for an address; checks that `nbytes` fit. */
static int locate(int device, const void *address, size_t more, size_t nbytes, cl_mem *out, size_t *out_offset) {
  int status = 0;
  size_t offset = 0;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(address, &offset);
  *out = b ? b->memory : (cl_mem)(uintptr_t)address;
  *out_offset = offset + more;
  if (!b && ((uint64_t)(uintptr_t)address & OURS))
    status = tvm_error("opencl(%d): the array's memory was freed before", device);
  else if (b && (*out_offset > b->size || nbytes > b->size - *out_offset))
    status = tvm_error("opencl(%d): %zu bytes at offset %zu do not fit in a buffer of %zu bytes", device, nbytes,
                       *out_offset, b->size);
  pthread_mutex_unlock(&memory_lock);
  return status;
}

/* ---- copies and waiting ---- */

/* Small writes are staged: their bytes are copied, so that the caller does not wait for the work that is before the
 * write in the queue. Larger writes, and writes beyond a total per device, block until the device has read the source.
 * The next write or synchronization frees the finished ones. No event callback does: the driver calls it in a thread
 * of its own, and releasing an event there deadlocked NVIDIA's driver with a write of the main thread. */
enum { STAGED_PIECE = 1 << 20, STAGED_BYTES = 16 << 20 };
typedef struct Staged { struct Staged *next; cl_event written; size_t size; char bytes[]; } Staged;
static struct { Staged *first, **end; size_t bytes; } staging[MAX_DEVICES]; /* oldest write first */
static pthread_mutex_t staging_lock = PTHREAD_MUTEX_INITIALIZER;

static bool finished(cl_event event) {
  cl_int status = CL_COMPLETE; /* negative: the command failed; either way the source is no longer read */
  return cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) ||
         status <= CL_COMPLETE;
}

/* Under the lock. The queue executes in order, so the first unfinished write ends the search. */
static void free_finished(int device) {
  Staged *staged;
  while ((staged = staging[device].first) && finished(staged->written)) {
    if (!(staging[device].first = staged->next)) staging[device].end = NULL;
    staging[device].bytes -= staged->size;
    cl.clReleaseEvent(staged->written);
    free(staged);
  }
}

static void collect_staged(int device) {
  pthread_mutex_lock(&staging_lock);
  free_finished(device);
  pthread_mutex_unlock(&staging_lock);
}

static Staged *stage(int device, const void *bytes, size_t nbytes) {
  if (nbytes > STAGED_PIECE || staging[device].bytes > STAGED_BYTES - nbytes) return NULL;
  Staged *staged = malloc(sizeof *staged + nbytes);
  if (!staged) return NULL;
  staged->next = NULL;
  staged->size = nbytes;
  memcpy(staged->bytes, bytes, nbytes);
  return staged;
}

/* Under the lock. */
static cl_int write_staged(int device, cl_mem memory, size_t offset, Staged *staged) {
  cl_command_queue queue = devices[device].queue;
  cl_int code = cl.clEnqueueWriteBuffer(queue, memory, 0, offset, staged->size, staged->bytes, 0, NULL, &staged->written);
  if (code) {
    free(staged);
    return code;
  }
  *(staging[device].end ? staging[device].end : &staging[device].first) = staged;
  staging[device].end = &staged->next;
  staging[device].bytes += staged->size;
  return cl.clFlush(queue);
}

static int write_from_host(int device, cl_mem memory, size_t offset, const void *source, size_t nbytes) {
  pthread_mutex_lock(&staging_lock);
  free_finished(device);
  Staged *staged = stage(device, source, nbytes);
  cl_int code = staged ? write_staged(device, memory, offset, staged) : 0;
  pthread_mutex_unlock(&staging_lock);
  if (!staged) code = cl.clEnqueueWriteBuffer(devices[device].queue, memory, 1, offset, nbytes, source, 0, NULL, NULL);
  return code ? failed(device, "clEnqueueWriteBuffer", code) : 0;
}

static int copy_between(const void *from, size_t from_offset, int from_id, void *to, size_t to_offset, int to_id,
                        size_t nbytes) {
  cl_mem source, target;
  size_t at, put;
  if (locate(from_id, from, from_offset, nbytes, &source, &at) || locate(to_id, to, to_offset, nbytes, &target, &put))
    return -1;
  cl_int code;
  if (from_id == to_id) {
    code = cl.clEnqueueCopyBuffer(devices[to_id].queue, source, target, at, put, nbytes, 0, NULL, NULL);
    return code ? failed(to_id, "clEnqueueCopyBuffer", code) : 0;
  }
  void *bytes = malloc(nbytes);
  if (!bytes) return tvm_error("copy: cannot allocate %zu bytes on the host", nbytes);
  code = cl.clEnqueueReadBuffer(devices[from_id].queue, source, 1, at, nbytes, bytes, 0, NULL, NULL);
  if (!code) code = cl.clEnqueueWriteBuffer(devices[to_id].queue, target, 1, put, nbytes, bytes, 0, NULL, NULL);
  free(bytes);
  return code ? failed(to_id, "a copy between devices", code) : 0;
}

static int opencl_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                       DLDevice to_device, size_t nbytes, void *stream) {
  (void)stream;
  cl_mem memory;
  size_t offset;
  bool reads = from_device.device_type == kDLOpenCL, writes = to_device.device_type == kDLOpenCL;
  if (!nbytes) return 0;
  int from_id = from_device.device_id, to_id = to_device.device_id;
  if (reads && writes) return copy_between(from, from_offset, from_id, to, to_offset, to_id, nbytes);
  cl_int code;
  if (reads) {
    if (locate(from_id, from, from_offset, nbytes, &memory, &offset)) return -1;
    char *target = (char *)to + to_offset;
    code = cl.clEnqueueReadBuffer(devices[from_id].queue, memory, 1, offset, nbytes, target, 0, NULL, NULL);
    collect_staged(from_id);
    return code ? failed(from_id, "clEnqueueReadBuffer", code) : 0;
  }
  if (locate(to_id, to, to_offset, nbytes, &memory, &offset)) return -1;
  return write_from_host(to_id, memory, offset, (const char *)from + from_offset, nbytes);
}

static int opencl_sync(DLDevice device, void *stream) {
  (void)stream;
  cl_int code = cl.clFinish(devices[device.device_id].queue);
  collect_staged(device.device_id);
  return code ? failed(device.device_id, "clFinish", code) : 0;
}

/* ---- the device's clock ---- */

typedef struct { cl_event start; double host; } Timer;

static int opencl_timer_start(DLDevice device, void **out) {
  cl_command_queue queue = devices[device.device_id].queue;
  Timer *timer = calloc(1, sizeof *timer);
  if (!timer) return tvm_error("out of memory");
  timer->host = tvm_now();
  cl_int code = cl.clEnqueueMarker(queue, &timer->start);
  if (!code) code = cl.clFlush(queue);
  *out = timer;
  if (!code) return 0;
  if (timer->start) cl.clReleaseEvent(timer->start);
  free(timer);
  return failed(device.device_id, "clEnqueueMarker", code);
}

/* When all that was given before a marker was done, in nanoseconds; 0 where the device does not say. */
static uint64_t stamp_of(cl_event marker) {
  uint64_t stamp = 0;
  return cl.clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof stamp, &stamp, NULL) ? 0 : stamp;
}

static int opencl_timer_stop(DLDevice device, void *self, double *out_seconds) {
  Timer *timer = self;
  cl_event end = NULL;
  cl_command_queue queue = devices[device.device_id].queue;
  cl_int code = cl.clEnqueueMarker(queue, &end);
  if (!code) code = cl.clFinish(queue);
  if (!code) {
    uint64_t from = stamp_of(timer->start), to = stamp_of(end);
    *out_seconds = from && to >= from ? 1e-9 * (double)(to - from) : tvm_now() - timer->host;
  }
  cl.clReleaseEvent(timer->start);
  if (end) cl.clReleaseEvent(end);
  free(timer);
  return code ? failed(device.device_id, "work given to the device before", code) : 0;
}

static int opencl_exists(int device_id) { return device_id < device_count; }

static int opencl_attribute(DLDevice device, int which, TVMValue *out, int *out_code) {
  cl_device_id id = devices[device.device_id].id;
  char text[NAME_SIZE];
  size_t dims[3] = {0, 0, 0};
  switch (which) {
    case DEVICE_MAX_THREADS_PER_BLOCK:
      return tvm_attribute_int((int64_t)number_of(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t)), out, out_code);
    case DEVICE_WARP_SIZE: return tvm_attribute_int(1, out, out_code); /* OpenCL promises no lockstep of threads */
    case DEVICE_MAX_SHARED_MEMORY_PER_BLOCK:
      return tvm_attribute_int((int64_t)number_of(id, CL_DEVICE_LOCAL_MEM_SIZE, 8), out, out_code);
    case DEVICE_COMPUTE_VERSION: /* "OpenCL 3.0 vendor's text" */
      text_of(id, CL_DEVICE_VERSION, text, sizeof text);
      if (strlen(text) > 7) memmove(text, text + 7, strlen(text + 7) + 1);
      text[strcspn(text, " ")] = '\0';
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_NAME: return tvm_attribute_text(devices[device.device_id].name, out, out_code);
    case DEVICE_MAX_CLOCK_RATE: /* kHz, from MHz */
      return tvm_attribute_int(1000 * (int64_t)number_of(id, CL_DEVICE_MAX_CLOCK_FREQUENCY, 4), out, out_code);
    case DEVICE_MULTI_PROCESSOR_COUNT:
      return tvm_attribute_int((int64_t)number_of(id, CL_DEVICE_MAX_COMPUTE_UNITS, 4), out, out_code);
    case DEVICE_MAX_THREAD_DIMENSIONS:
      if (cl.clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof dims, dims, NULL)) return 0;
      snprintf(text, sizeof text, "[%zu, %zu, %zu]", dims[0], dims[1], dims[2]);
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_DRIVER_VERSION:
      text_of(id, CL_DRIVER_VERSION, text, sizeof text);
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_L2_CACHE_SIZE_BYTES:
      return tvm_attribute_int((int64_t)number_of(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, 8), out, out_code);
    case DEVICE_TOTAL_GLOBAL_MEMORY:
      return tvm_attribute_int((int64_t)number_of(id, CL_DEVICE_GLOBAL_MEM_SIZE, 8), out, out_code);
    default: return 0;
  }
}

/* ---- programs and launches ---- */

typedef struct { cl_program program; cl_kernel *kernels; } ClProgram; /* one per device */

static int build_program(DeviceModule *m, int device, ClProgram *p) {
  ClDevice *d = &devices[device];
  const DeviceImage *source = NULL;
  for (int i = 0; i < m->image_count && !source; ++i)
    if (!strcmp(m->images[i].format, "opencl")) source = &m->images[i];
  if (!source) return tvm_error("opencl(%d): the module has no OpenCL source", device);
  cl_int code;
  cl_program program = cl.clCreateProgramWithSource(d->context, 1, (const char **)&source->data, &source->size, &code);
  if (!program) return failed(device, "clCreateProgramWithSource", code);
  code = cl.clBuildProgram(program, 1, &d->id, "", NULL, NULL);
  if (code) {
    char log[6000] = "";
    size_t size = 0;
    cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *whole = malloc(size + 1);
    if (whole && !cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, whole, NULL)) {
      whole[size] = '\0';
      snprintf(log, sizeof log, "%s", whole);
    }
    free(whole);
    cl.clReleaseProgram(program);
    return tvm_error("opencl(%d), '%s': the kernels do not compile: %s (%d)\n%s", device, d->name, error_name(code),
                     (int)code, log);
  }
  p->program = program;
  return 0;
}

/* Under the module's lock. */
static int find_kernel(DeviceKernel *k, int device, cl_kernel *out) {
  DeviceModule *m = k->module;
  cl_int code;
  if (!m->native && !(m->native = calloc(MAX_DEVICES, sizeof(ClProgram)))) return tvm_error("out of memory");
  ClProgram *p = (ClProgram *)m->native + device;
  if (!p->kernels && !(p->kernels = calloc((size_t)m->kernel_count, sizeof *p->kernels))) return tvm_error("out of memory");
  if (!p->program && build_program(m, device, p)) return -1;
  cl_kernel *slot = &p->kernels[k - m->kernels];
  if (!*slot && !(*slot = cl.clCreateKernel(p->program, k->name, &code)))
    return tvm_error("opencl(%d): the program has no kernel '%s': %s (%d)", device, k->name, error_name(code), (int)code);
  *out = *slot;
  return 0;
}

/* What a kernel gets for an address: the buffer, or the part of it that starts there. */
static int kernel_memory(int device, const DeviceKernel *k, int index, const void *address, cl_mem *out) {
  size_t offset = 0;
  int status = 0;
  *out = NULL;
  if (!address) return 0;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(address, &offset);
  if (!b && !((uint64_t)(uintptr_t)address & OURS)) *out = (cl_mem)(uintptr_t)address;
  else if (!b) status = tvm_error("kernel %s: argument %d: the array's memory was freed before", k->name, index);
  else if (b->device != device)
    status = tvm_error("kernel %s: argument %d: the array is on opencl(%d), the kernel runs on opencl(%d)", k->name, index,
                       b->device, device);
  else if (!offset) *out = b->memory;
  else {
    SubBuffer *part = b->parts;
    while (part && part->offset != offset) part = part->next;
    if (!part && offset % devices[device].alignment)
      status = tvm_error("kernel %s: argument %d: the array starts %zu bytes into its memory; on this device it must be a "
                         "multiple of %llu: copy the view first", k->name, index, offset,
                         (unsigned long long)devices[device].alignment);
    else if (!part && offset >= b->size) *out = b->memory; /* an empty array at the end */
    else if (!part) {
      cl_buffer_region region = {offset, b->size - offset};
      cl_int code;
      part = calloc(1, sizeof *part);
      cl_mem memory = part ? cl.clCreateSubBuffer(b->memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code) : NULL;
      if (!memory) {
        status = part ? failed(device, "clCreateSubBuffer", code) : tvm_error("out of memory");
        free(part);
      } else {
        *part = (SubBuffer){b->parts, offset, memory};
        b->parts = part;
      }
    }
    if (!status && part) *out = part->memory;
  }
  pthread_mutex_unlock(&memory_lock);
  return status;
}

static int set_arguments(DeviceKernel *k, int device, cl_kernel kernel, const KernelArg *args, const LaunchSizes *sizes) {
  for (int i = 0; i < k->arg_count; ++i) {
    cl_int code;
    if (k->args[i].kind == kTVMKernelHandle) {
      cl_mem memory;
      if (kernel_memory(device, k, i, (void *)(uintptr_t)args[i].bits, &memory)) return -1;
      code = cl.clSetKernelArg(kernel, (cl_uint)i, sizeof memory, &memory);
    } else {
      code = cl.clSetKernelArg(kernel, (cl_uint)i, k->args[i].bytes, &args[i].bits);
    }
    if (code) return tvm_error("kernel %s: argument %d cannot be passed: %s (%d)", k->name, i, error_name(code), (int)code);
  }
  /* Dynamic shared memory is one more argument, of a size and no value. */
  cl_uint count = 0;
  if (cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL) || count == (cl_uint)k->arg_count) return 0;
  size_t shared = sizes->field[LAUNCH_SHARED] ? (size_t)sizes->field[LAUNCH_SHARED] : 1;
  cl_int code = cl.clSetKernelArg(kernel, (cl_uint)k->arg_count, shared, NULL);
  if (code) return tvm_error("kernel %s: %zu bytes of dynamic shared memory: %s (%d)", k->name, shared, error_name(code), (int)code);
  return 0;
}

static int refused_launch(DeviceKernel *k, int device, cl_kernel kernel, cl_int code, const size_t *local, size_t shared) {
  ClDevice *d = &devices[device];
  size_t limit = 0;
  uint64_t used = 0;
  cl.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit, &limit, NULL);
  cl.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used, NULL);
  return tvm_error("kernel %s cannot be launched: %s (%d); a block of %zu x %zu x %zu = %zu threads and %llu bytes of shared "
                   "memory were asked for, '%s' allows %zu threads for this kernel (%llu in all) and %llu bytes",
                   k->name, error_name(code), (int)code, local[0], local[1], local[2], local[0] * local[1] * local[2],
                   (unsigned long long)(used > shared ? used : shared), d->name, limit,
                   (unsigned long long)number_of(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t)),
                   (unsigned long long)number_of(d->id, CL_DEVICE_LOCAL_MEM_SIZE, 8));
}

static int opencl_launch(DeviceKernel *k, int device, const KernelArg *args, const LaunchSizes *sizes) {
  size_t global[3], local[3];
  for (int i = 0; i < 3; ++i) {
    local[i] = (size_t)sizes->field[LAUNCH_BLOCK + i];
    global[i] = (size_t)sizes->field[i] * local[i];
  }
  cl_kernel kernel;
  /* Arguments are state of the kernel object: nobody else may set them until it is enqueued. */
  pthread_mutex_lock(tvm_module_lock(k->module));
  int status = find_kernel(k, device, &kernel);
  if (!status) status = set_arguments(k, device, kernel, args, sizes);
  if (!status) {
    cl_int code = cl.clEnqueueNDRangeKernel(devices[device].queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    if (code) status = refused_launch(k, device, kernel, code, local, (size_t)sizes->field[LAUNCH_SHARED]);
  }
  pthread_mutex_unlock(tvm_module_lock(k->module));
  return status;
}

static void opencl_unload(DeviceModule *m) {
  ClProgram *programs = m->native;
  for (int d = 0; d < MAX_DEVICES && state == READY; ++d) {
    for (int i = 0; programs[d].kernels && i < m->kernel_count; ++i)
      if (programs[d].kernels[i]) cl.clReleaseKernel(programs[d].kernels[i]);
    if (programs[d].program) cl.clReleaseProgram(programs[d].program);
  }
  for (int d = 0; d < MAX_DEVICES; ++d) free(programs[d].kernels);
  free(programs);
}

static void opencl_fork_child(void) {
  pthread_mutex_init(&open_lock, NULL);
  pthread_mutex_init(&memory_lock, NULL);
  if (state == READY) state = LOST;
  for (int i = 0; i < MAX_DEVICES; ++i) atomic_store(&opened[i], false);
}

const DeviceApi tvm_opencl_api = {
    .open = opencl_open,
    .fork_child = opencl_fork_child,
    .alloc = opencl_alloc,
    .free = opencl_free,
    .copy = opencl_copy,
    .sync = opencl_sync,
    .exists = opencl_exists,
    .attribute = opencl_attribute,
    .workspace_alloc = opencl_workspace_alloc,
    .workspace_free = opencl_workspace_free,
    .launch = opencl_launch,
    .unload = opencl_unload,
    .timer_start = opencl_timer_start,
    .timer_stop = opencl_timer_stop,
};
