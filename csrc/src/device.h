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
typedef TVMDeviceImage DeviceImage;
typedef TVMDeviceKernel DeviceKernel;
typedef TVMDeviceModule DeviceModule;
typedef TVMKernelArgType ArgType;
typedef TVMKernelArg KernelArg;
typedef TVMLaunchSizes LaunchSizes;
enum { LAUNCH_BLOCK = 3, LAUNCH_SHARED = 6, LAUNCH_FIELDS = 7, MAX_KERNEL_ARGS = 512 };
_Static_assert(sizeof(LaunchSizes) == LAUNCH_FIELDS * sizeof(int64_t), "the fields of a launch");
/* Guards what a driver keeps for a module. */
pthread_mutex_t *tvm_module_lock(DeviceModule *module);

/* Memory aligned to one asks for huge pages. */
enum { TVM_HUGE_PAGE = 2 << 20 };

/* Device types are below this number: classic TVM's remote devices are numbered from there. */
enum { DEVICE_TYPES = 128 };
extern const DeviceApi tvm_cpu_api, tvm_opencl_api, tvm_cuda_api;
/* ---- devices of other machines; see rpc_client.c ---- */
extern const DeviceApi tvm_remote_api;
bool tvm_is_remote(TVMFunctionHandle func);
int tvm_remote_time(TVMCallFrame *frame, const TVMTimeOptions *options, double *out_seconds);
/* 1 where the module is none of another machine's. */
int tvm_remote_import(TVMModuleHandle mod, TVMModuleHandle dep);
void tvm_rpc_unlist(int number);
void tvm_rpc_fork_child(void);
/* The driver of a device type, NULL where there is none; no device is opened. */
const DeviceApi *tvm_driver(int device_type);
/* Whether the memory of a device type is the host's own. */
bool tvm_is_host(int device_type);
/* Drivers do not survive fork. */
void tvm_devices_fork_child(void);

/* Opens one of `names` (separated by blanks), or the library the environment variable names. */
void *tvm_driver_library(const char *variable, const char *names);
/* The device of a kind the calling thread has chosen. */
int tvm_current_device(int device_type);
int tvm_attribute_int(int64_t value, TVMValue *out, int *out_code);
int tvm_attribute_text(const char *text, TVMValue *out, int *out_code);
/* Marks the device types of the kernels a module imports; gives how many there are. */
int tvm_module_devices(TVMModuleHandle mod, bool types[DEVICE_TYPES]);
/* Whether generated code of this thread has called anything but kernels since `begin`: a replay would miss that. */
void tvm_watch_begin(void);
bool tvm_watch_end(void);
void tvm_watch_call(const struct TVMFunction *func);
int tvm_call_kernel(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *kernel);
int tvm_set_device(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource);
int tvm_register_module_loader(const char *kind);
void tvm_register_device_modules(void);

#endif /* TVM_SRC_DEVICE_H_ */
