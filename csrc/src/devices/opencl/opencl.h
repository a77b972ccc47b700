/* Declarations of the OpenCL functions that are used, so that building does not need OpenCL headers, and declarations
 * shared by the files of the driver. */
#ifndef TVM_SRC_DEVICES_OPENCL_OPENCL_H_
#define TVM_SRC_DEVICES_OPENCL_OPENCL_H_

#include "../../core/core.h"

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

#define OPENCL_DECLARE(result, name, parameters) result(*name) parameters;
typedef struct { OPENCL_FUNCTIONS(OPENCL_DECLARE) } OpenCLFunctions;
extern OpenCLFunctions tvm_cl;

enum { CL_MAX_DEVICES = 64, CL_NAME_SIZE = 128 };
typedef struct {
  cl_device_id id;
  cl_context context;
  cl_command_queue queue;
  char name[CL_NAME_SIZE];
  uint64_t alignment; /* required alignment of the start of a sub-buffer in bytes */
} ClDevice;
extern ClDevice tvm_cl_devices[CL_MAX_DEVICES];

/* ---- devices (opencl.c) ---- */
bool tvm_cl_is_open(void); /* false also in a process that was forked after the driver was opened */
const char *tvm_cl_error_name(cl_int code);
/* Sets the last error to the function that failed and the name of the error; returns -1. */
int tvm_cl_failed(int device, const char *what, cl_int code);
/* Returns an integer attribute of a device; `size` is its size in bytes. */
uint64_t tvm_cl_number(cl_device_id id, cl_uint which, size_t size);
/* Registers the driver with core. */
void tvm_opencl_start(void);

/* ---- memory and copies (memory.c) ---- */
void *tvm_cl_alloc(DLDevice device, size_t nbytes, size_t alignment);
void tvm_cl_free(DLDevice device, void *data);
void *tvm_cl_workspace_alloc(DLDevice device, size_t nbytes);
void tvm_cl_workspace_free(DLDevice device, void *data);
int tvm_cl_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                DLDevice to_device, size_t nbytes, void *stream);
int tvm_cl_sync(DLDevice device, void *stream);
/* Returns the buffer that a kernel gets for an address, or the sub-buffer that starts at the address. */
int tvm_cl_kernel_memory(int device, const DeviceKernel *k, int index, const void *address, cl_mem *out);
void tvm_cl_memory_fork_child(void);

/* ---- programs and launches (program.c) ---- */
int tvm_cl_launch(DeviceKernel *k, int device, const KernelArg *args, const LaunchSizes *sizes);
void tvm_cl_unload(DeviceModule *m);

#endif /* TVM_SRC_DEVICES_OPENCL_OPENCL_H_ */
