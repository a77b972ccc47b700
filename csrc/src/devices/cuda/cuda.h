/* Declarations of the CUDA driver functions that are used, so that building does not need the CUDA toolkit. With
 * TVM_CUDA_HEADER the toolkit's header is included instead; it checks every declaration below. */
#ifndef TVM_SRC_DEVICES_CUDA_CUDA_H_
#define TVM_SRC_DEVICES_CUDA_CUDA_H_

#include "../../core/core.h"

#ifdef TVM_CUDA_HEADER
#include <cuda.h>
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *, CUevent, CUevent); /* the newer header hides the older name */
#else
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice_attribute, CUjit_option, CUfunction_attribute, CUstreamCaptureMode;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef int CUlaunchAttributeID;
typedef union { char pad[64]; int programmaticStreamSerializationAllowed; } CUlaunchAttributeValue;
typedef struct { CUlaunchAttributeID id; char pad[8 - sizeof(CUlaunchAttributeID)]; CUlaunchAttributeValue value; } CUlaunchAttribute;
typedef struct {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
} CUlaunchConfig;
enum {
  CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_PTX = 218, CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222, CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_NOT_FOUND = 500, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8, CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12, CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1, CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2, CU_STREAM_CAPTURE_MODE_RELAXED = 2
};
#endif

#define CUDA_FUNCTIONS(X)                                                                                            \
  X(cuInit, (unsigned))                                                                                              \
  X(cuDriverGetVersion, (int *))                                                                                     \
  X(cuGetErrorName, (CUresult, const char **))                                                                       \
  X(cuGetErrorString, (CUresult, const char **))                                                                     \
  X(cuDeviceGetCount, (int *))                                                                                       \
  X(cuDeviceGet, (CUdevice *, int))                                                                                  \
  X(cuDeviceGetName, (char *, int, CUdevice))                                                                        \
  X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))                                                     \
  X(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                                       \
  X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                               \
  X(cuCtxSetCurrent, (CUcontext))                                                                                    \
  X(cuCtxSynchronize, (void))                                                                                        \
  X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                          \
  X(cuMemFree_v2, (CUdeviceptr))                                                                                     \
  X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                                             \
  X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                                   \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                              \
  X(cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))                           \
  X(cuStreamCreate, (CUstream *, unsigned))                                                                          \
  X(cuStreamDestroy_v2, (CUstream))                                                                                  \
  X(cuStreamSynchronize, (CUstream))                                                                                 \
  X(cuEventCreate, (CUevent *, unsigned))                                                                            \
  X(cuEventRecord, (CUevent, CUstream))                                                                              \
  X(cuEventSynchronize, (CUevent))                                                                                   \
  X(cuEventElapsedTime, (float *, CUevent, CUevent))                                                                 \
  X(cuEventDestroy_v2, (CUevent))                                                                                    \
  X(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, CUjit_option *, void **))                               \
  X(cuModuleUnload, (CUmodule))                                                                                      \
  X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                                     \
  X(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int))                                                     \
  X(cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction))                                                   \
  X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,     \
                     void **, void **))
/* Optional functions: a driver without them supports everything except captured graphs. */
#define CUDA_GRAPH_FUNCTIONS(X)                                                                                      \
  X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                                        \
  X(cuStreamEndCapture, (CUstream, CUgraph *))                                                                       \
  X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                                       \
  X(cuGraphLaunch, (CUgraphExec, CUstream))                                                                          \
  X(cuGraphExecDestroy, (CUgraphExec))                                                                               \
  X(cuGraphDestroy, (CUgraph))
/* Optional function: without it, a kernel is launched only after its predecessors have finished. */
#define CUDA_LAUNCH_FUNCTIONS(X) X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))
/* Optional function: without it, copies from the host are not staged, and the caller blocks. */
#define CUDA_HOST_FUNCTIONS(X) X(cuMemAllocHost_v2, (void **, size_t))

#define CUDA_DECLARE(name, parameters) CUresult(*name) parameters;
typedef struct {
  CUDA_FUNCTIONS(CUDA_DECLARE)
  CUDA_GRAPH_FUNCTIONS(CUDA_DECLARE)
  CUDA_LAUNCH_FUNCTIONS(CUDA_DECLARE)
  CUDA_HOST_FUNCTIONS(CUDA_DECLARE)
} CudaFunctions;
extern CudaFunctions tvm_cu;

enum { CUDA_MAX_DEVICES = 32 };
typedef struct {
  CUdevice id;
  CUcontext context; /* the primary context, which other libraries of the process share */
  CUstream stream;   /* synchronizes with the legacy default stream, so arrays of other libraries can be read without extra synchronization */
  int major, minor;
  char name[128];
} CudaDevice;
extern CudaDevice tvm_cuda_devices[CUDA_MAX_DEVICES];

/* Sets the last error to `what`, the driver's name of the error and its description; returns -1. */
int tvm_cuda_failed(int device, const char *what, CUresult code);
int tvm_cuda_number(int device, CUdevice_attribute which);
/* Returns the stream on which the calling thread enqueues work. */
CUstream tvm_cuda_stream(int device);
/* Whether all work uses the device's single default stream and therefore executes in order. */
bool tvm_cuda_one_stream(int device);
/* Redirects the calling thread's work to a stream that is being captured; NULL ends the redirection. Blocks allocated
 * during a capture are never returned to the driver, because replays use their addresses. */
void tvm_cuda_capture_to(int device, CUstream stream);

int tvm_cuda_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                  DLDevice to_device, size_t nbytes, void *stream);
void tvm_cuda_copy_fork_child(void);
/* Opens the driver at the first call; fails with the reason if device `device_id` does not exist. */
int tvm_cuda_open(int device_id);
int tvm_cuda_launch(DeviceKernel *kernel, int device_id, const KernelArg *args, const LaunchSizes *sizes);
void tvm_cuda_unload(DeviceModule *module);
int tvm_cuda_capture_begin(DLDevice device);
int tvm_cuda_capture_end(DLDevice device, void **out_graph);
int tvm_cuda_graph_launch(DLDevice device, void *graph);
void tvm_cuda_graph_free(DLDevice device, void *graph);
/* Registers the driver with core. */
void tvm_cuda_start(void);
bool tvm_cuda_lost(void); /* the process was forked after the driver was opened */

#endif /* TVM_SRC_DEVICES_CUDA_CUDA_H_ */
