/* Devices: what a driver provides, and the kernels of device modules. */
#ifndef TVM_SRC_DEVICE_H_
#define TVM_SRC_DEVICE_H_

#include "internal.h"

/* Numbers of the attributes, as Python's Device asks for them. */
typedef enum {
  DEVICE_EXIST, DEVICE_MAX_THREADS_PER_BLOCK, DEVICE_WARP_SIZE, DEVICE_MAX_SHARED_MEMORY_PER_BLOCK,
  DEVICE_COMPUTE_VERSION, DEVICE_NAME, DEVICE_MAX_CLOCK_RATE, DEVICE_MULTI_PROCESSOR_COUNT,
  DEVICE_MAX_THREAD_DIMENSIONS, DEVICE_MAX_REGISTERS_PER_BLOCK, DEVICE_GCN_ARCH, DEVICE_API_VERSION,
  DEVICE_DRIVER_VERSION, DEVICE_L2_CACHE_SIZE_BYTES, DEVICE_TOTAL_GLOBAL_MEMORY, DEVICE_AVAILABLE_GLOBAL_MEMORY
} DeviceAttribute;

/* ---- device modules: bytes of kernels, brought to a device when one is first called ---- */
typedef struct { char *format, *arch; const char *data; size_t size; } DeviceImage;
typedef enum { ARG_HANDLE, ARG_INT, ARG_FLOAT, ARG_BFLOAT } ArgKind;
typedef struct { uint8_t kind, bytes; } ArgType;
typedef struct { uint64_t bits; /* little endian; a handle is an address */ } KernelArg;
enum { LAUNCH_BLOCK = 3, LAUNCH_SHARED = 6, LAUNCH_FIELDS = 7, MAX_KERNEL_ARGS = 512 };
/* blockIdx.x, .y, .z, threadIdx.x, .y, .z, bytes of dynamic shared memory */
typedef struct { int64_t field[LAUNCH_FIELDS]; } LaunchSizes;

typedef struct DeviceKernel {
  struct DeviceModule *module;
  char *name;
  ArgType *args;
  int arg_count;
  uint8_t *launch; /* field of LaunchSizes that each extent gives */
  int launch_count;
  int64_t threads, shared; /* threads of a block or 0; bytes of static shared memory */
} DeviceKernel;

typedef struct DeviceModule {
  const struct DeviceApi *api;
  int device_type;
  char *bytes;
  size_t size;
  DeviceImage *images;
  int image_count;
  DeviceKernel *kernels;
  int kernel_count;
  pthread_mutex_t lock; /* of `native` */
  void *native;         /* what the driver keeps for this module */
} DeviceModule;

struct DeviceApi {
  void *(*alloc)(DLDevice device, size_t nbytes, size_t alignment);
  void (*free)(DLDevice device, void *data);
  int (*copy)(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
              DLDevice to_device, size_t nbytes, void *stream);
  int (*sync)(DLDevice device, void *stream);
  int (*exists)(int device_id);
  /* The rest is NULL on a CPU. An attribute the device does not have is the null value. */
  int (*attribute)(DLDevice device, DeviceAttribute which, TVMValue *out, int *out_code);
  /* Scratch memory: `free` may hand it to the next asker while work given to the device still uses it. */
  void *(*workspace_alloc)(DLDevice device, size_t nbytes);
  void (*workspace_free)(DLDevice device, void *data);
  int (*launch)(DeviceKernel *kernel, int device_id, const KernelArg *args, const LaunchSizes *sizes);
  void (*unload)(DeviceModule *module);
  /* The device's own clock; NULL where the host's clock around a synchronisation serves. */
  int (*timer_start)(DLDevice device, void **out_timer);
  int (*timer_stop)(DLDevice device, void *timer, double *out_seconds); /* frees the timer, also when it fails */
  int (*stream_create)(DLDevice device, void **out);
  int (*stream_free)(DLDevice device, void *stream);
  int (*stream_set)(DLDevice device, void *stream);
  /* Work given to the thread's stream from `begin` to `end` is kept as a graph in place of being done. `end` with no
   * place for the graph drops it. */
  int (*capture_begin)(DLDevice device);
  int (*capture_end)(DLDevice device, void **out_graph);
  int (*graph_launch)(DLDevice device, void *graph); /* 1: not on the stream this thread has chosen */
  void (*graph_free)(DLDevice device, void *graph);
};

extern const DeviceApi tvm_cpu_api, tvm_opencl_api, tvm_cuda_api;
/* Opens the driver when it is first asked for; fails with the reason when device `device_id` is not there. */
int tvm_opencl_open(int device_id);
int tvm_cuda_open(int device_id);
/* Drivers do not survive fork. */
void tvm_opencl_fork_child(void);
void tvm_cuda_fork_child(void);

/* Opens one of `names` (separated by blanks), or the library the environment variable names. */
void *tvm_driver_library(const char *variable, const char *names);
/* The device of a kind the calling thread has chosen. */
int tvm_current_device(int device_type);
int tvm_attribute_int(int64_t value, TVMValue *out, int *out_code);
int tvm_attribute_text(const char *text, TVMValue *out, int *out_code);
/* The device types of the kernels a module imports: bit 1 << type; 0 when there are none. */
uint64_t tvm_module_devices(TVMModuleHandle mod);
/* Whether generated code of this thread has called anything but kernels since `begin`: a replay would miss that. */
void tvm_watch_begin(void);
bool tvm_watch_end(void);
void tvm_watch_call(const struct TVMFunction *func);
int tvm_call_kernel(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *kernel);
int tvm_set_device(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource);
void tvm_register_device_modules(void);

#endif /* TVM_SRC_DEVICE_H_ */
