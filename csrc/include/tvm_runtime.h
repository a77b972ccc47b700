/* The complete C interface of the runtime.
 *
 * Every function that can fail returns 0 on success or a negative status on failure; TVMGetLastError returns the
 * message of the calling thread's last error. No function prints, exits the process or throws. Handles are reference
 * counted: a handle returned through an `out` parameter or as a return value is owned by the caller, a handle passed as
 * an argument is borrowed.
 */
#ifndef TVM_RUNTIME_H_
#define TVM_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifndef TVM_DLL
#ifdef _WIN32
#define TVM_DLL __declspec(dllexport)
#else
#define TVM_DLL __attribute__((visibility("default")))
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DLPack: tensor layout shared with other frameworks (facts of the public ABI) ---- */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
typedef enum {
  kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLOpenCL = 4, kDLVulkan = 7, kDLMetal = 8, kDLVPI = 9, kDLROCM = 10,
  kDLROCMHost = 11, kDLExtDev = 12, kDLCUDAManaged = 13, kDLOneAPI = 14, kDLWebGPU = 15, kDLHexagon = 16
} DLDeviceType;
typedef enum {
  kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6
} DLDataTypeCode;
typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* NULL: compact, row major */
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct { uint32_t major; uint32_t minor; } DLPackVersion;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
#endif /* DLPACK_DLPACK_H_ */

/* Type codes of the 8-bit floats in Apache TVM 0.x. DLPack later assigned these numbers to other types, so they are
 * translated when an array is exported to or imported from DLPack. */
enum { kTVME4M3Float = 6, kTVME5M2Float = 7 };
/* Type codes from kCustomBegin to 255 denote custom data types that users registered. */
enum { kCustomBegin = 129 };

/* ---- values and packed functions ---- */
typedef union {
  int64_t v_int64;
  double v_float64;
  void *v_handle;
  const char *v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;

typedef enum {
  kTVMArgInt = 0,
  kTVMArgUInt = 1,
  kTVMArgFloat = 2,
  kTVMOpaqueHandle = 3,
  kTVMNullptr = 4,
  kTVMDataType = 5,
  kTVMDevice = 6,
  kTVMDLTensorHandle = 7,
  kTVMObjectHandle = 8,
  kTVMModuleHandle = 9,
  kTVMPackedFuncHandle = 10,
  kTVMStr = 11,
  kTVMBytes = 12,
  kTVMNDArrayHandle = 13,
  kTVMObjectRValueRefArg = 14,
  kTVMArgBool = 15
} TVMArgTypeCode;

typedef struct { const char *data; size_t size; } TVMByteArray;

/* A value of code kTVMNDArrayHandle also points to a DLTensor, so a callee may read both codes in the same way. */
typedef DLTensor *TVMArrayHandle;
typedef struct TVMFunction *TVMFunctionHandle;
typedef struct TVMModule *TVMModuleHandle;
typedef struct TVMObject *TVMObjectHandle;

typedef int (*TVMBackendPackedCFunc)(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value,
                                     int *out_ret_tcode, void *resource_handle);
typedef void (*TVMFinalizer)(void *resource_handle);

/* ---- the table through which generated code calls the runtime; new fields are only appended ---- */
typedef struct { int32_t num_task; void *sync_handle; } TVMParallelGroupEnv;
typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv *penv, void *cdata);

struct TVMDeviceApi;
#define TVM_RUNTIME_ABI_VERSION 1
typedef struct TVMRuntimeTable {
  uint32_t abi_version;
  uint32_t size;
  void (*set_last_error)(const char *msg);
  int (*func_call)(void *func, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code);
  int (*get_func_from_env)(void *module_ctx, const char *name, void **out_func);
  int (*parallel_launch)(FTVMParallelLambda body, void *cdata, int num_task);
  int (*parallel_barrier)(int task_id, TVMParallelGroupEnv *penv);
  void *(*alloc_workspace)(int device_type, int device_id, uint64_t nbytes, int type_code, int type_bits);
  int (*free_workspace)(int device_type, int device_id, void *ptr);
  int (*raise_argument_error)(const char *func, int arg_index, const char *what);
  int (*check_tensor)(const void *spec, int arg_index, TVMValue value, int code, const DLTensor **out);
  int (*parallel_for)(FTVMParallelLambda body, void *cdata, int64_t extent);
  int (*raise_value)(const char *text, int64_t value); /* sets the last error to text followed by value; returns -1 */
  int (*device_register)(int device_type, const char *name, const struct TVMDeviceApi *api); /* TVMDeviceRegister */
  int (*use_tiles)(const void *sizes); /* TVMBackendUseTiles */
} TVMRuntimeTable;

/* The properties that check_tensor requires of an argument. A shape entry of -1 accepts any extent. If strides is not
 * NULL, it contains the required strides in elements (-1 accepts any); if it is NULL, the tensor must be compact. A
 * dtype of code 255 accepts any type, and a device_type of 0 accepts any device. */
typedef struct {
  const char *function;
  const char *argument;
  DLDataType dtype;
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
  int32_t device_type;
  int32_t alignment; /* required alignment of the data address in bytes; 0 or 1 accept any address */
} TVMTensorSpec;

TVM_DLL const TVMRuntimeTable *TVMGetRuntimeTable(void);
TVM_DLL const char *TVMRuntimeVersion(void);

/* ---- errors ---- */
TVM_DLL const char *TVMGetLastError(void);
TVM_DLL void TVMAPISetLastError(const char *msg);
/* Reports an error that is an exception of the embedding language: `token` identifies the exception there. Any later
 * error of the runtime discards it. TVMTakeForeignError returns the token of the last error (0 if it is plain text) and
 * clears it. */
TVM_DLL void TVMSetForeignError(const char *msg, uint64_t token);
TVM_DLL uint64_t TVMTakeForeignError(void);
/* A callback that long-running functions call between steps. If it returns a non-zero value, the function fails with
 * the error "interrupted" and the token TVM_ERROR_INTERRUPTED. */
#define TVM_ERROR_INTERRUPTED UINT64_MAX
TVM_DLL void TVMSetInterruptCheck(int (*check)(void));

/* ---- functions ---- */
TVM_DLL int TVMFuncCreateFromCFunc(TVMBackendPackedCFunc func, void *resource_handle, TVMFinalizer fin,
                                   TVMFunctionHandle *out);
TVM_DLL int TVMFuncRetain(TVMFunctionHandle func);
TVM_DLL int TVMFuncFree(TVMFunctionHandle func);
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                        int *ret_type_code);
/* Functions of the embedding language: the runtime forwards every call to `caller`, with the function's token as
 * resource. `caller` must write the type code of the result; a call that writes no code or a negative one counts as
 * failed. */
TVM_DLL void TVMSetForeignCaller(TVMBackendPackedCFunc caller);
TVM_DLL int TVMFuncCreateForeign(uint64_t token, TVMFinalizer fin, TVMFunctionHandle *out);
TVM_DLL uint64_t TVMFuncForeignToken(TVMFunctionHandle func); /* 0 for any other function */
TVM_DLL int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle func, int override);
TVM_DLL int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out); /* *out is NULL if the function does not exist */
TVM_DLL int TVMFuncRemoveGlobal(const char *name);
TVM_DLL int TVMFuncListGlobalNames(int *out_size, const char ***out_array); /* valid until the next call */

/* All arguments of one call in a single block of memory, for language bindings in which every foreign-function argument
 * is expensive: `num_args` int32 type codes follow `values` in memory. */
typedef struct {
  TVMFunctionHandle func;
  int64_t num_args;
  TVMValue ret_value;
  int64_t ret_code;
  TVMValue values[];
} TVMCallFrame;
TVM_DLL int TVMFuncCallFrame(TVMCallFrame *frame);

/* Returns a string or bytes from a callback. The text is copied and stays valid until this thread returns another one. */
TVM_DLL int TVMReturnBytes(const char *data, size_t size, int code, TVMValue *ret_value, int *ret_code);

/* ---- opaque objects of the embedding language ---- */
TVM_DLL int TVMObjectCreate(uint64_t token, TVMFinalizer fin, TVMObjectHandle *out);
TVM_DLL int TVMObjectRetain(TVMObjectHandle object);
TVM_DLL int TVMObjectFree(TVMObjectHandle object);
TVM_DLL uint64_t TVMObjectToken(TVMObjectHandle object);

/* ---- data of the virtual machine: trees of arrays, integers and closures ---- */
typedef enum { kTVMObjectForeign, kTVMObjectADT, kTVMObjectClosure } TVMObjectKindCode;
TVM_DLL int TVMObjectKind(TVMObjectHandle object);
/* Creates an algebraic data type (ADT) value from a constructor tag and fields: arrays, integers and other ADT values.
 * Tuples have the tag 0. */
TVM_DLL int TVMADTCreate(int64_t tag, const TVMValue *fields, const int *codes, int count, TVMObjectHandle *out);
TVM_DLL int64_t TVMADTTag(TVMObjectHandle object);
TVM_DLL int TVMADTSize(TVMObjectHandle object);
TVM_DLL int TVMADTField(TVMObjectHandle object, int index, TVMValue *out, int *out_code);

/* ---- arrays ---- */
TVM_DLL int TVMArrayAlloc(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, TVMArrayHandle *out);
TVM_DLL int TVMArrayCreateView(TVMArrayHandle array, const int64_t *shape, int ndim, DLDataType dtype,
                               uint64_t byte_offset, TVMArrayHandle *out);
TVM_DLL int TVMArrayRetain(TVMArrayHandle array);
TVM_DLL int TVMArrayFree(TVMArrayHandle array);
TVM_DLL int TVMArrayUseCount(TVMArrayHandle array);
TVM_DLL int TVMArrayCopyFromBytes(DLTensor *array, const void *data, size_t nbytes);
TVM_DLL int TVMArrayCopyToBytes(const DLTensor *array, void *data, size_t nbytes);
TVM_DLL int TVMArrayCopyFromTo(const DLTensor *from, DLTensor *to, void *stream);
TVM_DLL int TVMArrayFromDLPack(DLManagedTensor *from, TVMArrayHandle *out);
TVM_DLL int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor **out);
TVM_DLL int TVMArrayFromDLPackVersioned(DLManagedTensorVersioned *from, TVMArrayHandle *out);
TVM_DLL int TVMArrayToDLPackVersioned(TVMArrayHandle from, DLManagedTensorVersioned **out);
TVM_DLL int TVMTensorByteSize(const DLTensor *tensor, size_t *out);
/* Returns the address of the first element. Arguments of functions may have an offset. */
static inline void *TVMTensorData(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

/* ---- devices ---- */
TVM_DLL int TVMDeviceExists(DLDevice device);
TVM_DLL int TVMSynchronize(int device_type, int device_id, void *stream);
TVM_DLL const char *TVMDeviceTypeName(int device_type);
/* Returns free memory of the process to the operating system, if the memory allocator supports it. */
TVM_DLL void TVMReleaseFreeMemory(void);
/* Reads an attribute of a device; the result is the null value if the device does not have the attribute. */
TVM_DLL int TVMDeviceGetAttribute(DLDevice device, int which, TVMValue *out, int *out_code);
TVM_DLL int TVMStreamCreate(int device_type, int device_id, void **out);
TVM_DLL int TVMStreamFree(int device_type, int device_id, void *stream);
/* Sets the stream on which the calling thread enqueues work; NULL selects the default stream. */
TVM_DLL int TVMSetStream(int device_type, int device_id, void *stream);

/* ---- custom devices ----
 *
 * A table of functions implements a device type. Functions that can fail return 0, or -1 with the last error set.
 * Several threads may call them at once; the runtime has checked device numbers with `exists` before. Later versions of
 * the runtime only append fields to the table: fields beyond `size` are NULL. */
typedef struct { char *format, *arch; const char *data; size_t size; } TVMDeviceImage;
enum { kTVMKernelHandle, kTVMKernelInt, kTVMKernelFloat, kTVMKernelBfloat };
typedef struct { uint8_t kind, bytes; } TVMKernelArgType;
typedef struct { uint64_t bits; /* little endian; a handle is an address */ } TVMKernelArg;
/* blockIdx.x, .y, .z, threadIdx.x, .y, .z, bytes of dynamic shared memory */
typedef struct { int64_t field[7]; } TVMLaunchSizes;

typedef struct TVMDeviceKernel {
  struct TVMDeviceModule *module;
  char *name;
  TVMKernelArgType *args;
  int arg_count;
  uint8_t *launch; /* for each extent, the index of its field in TVMLaunchSizes */
  int launch_count;
  int32_t dependent; /* whether the kernel itself waits for its predecessors, so that it may be launched before they finish */
  int64_t threads, shared; /* threads of a block, or 0 if unknown; bytes of static shared memory */
} TVMDeviceKernel;

/* The kernels of a device module; see TVMDeviceModuleLoad. */
typedef struct TVMDeviceModule {
  TVMDeviceImage *images;
  int image_count;
  TVMDeviceKernel *kernels;
  int kernel_count;
  void *native; /* data that the driver stores for this module, NULL at first; the driver synchronizes access to it */
} TVMDeviceModule;

#define TVM_DEVICE_ABI_VERSION 1
typedef struct TVMDeviceApi {
  uint32_t abi_version; /* TVM_DEVICE_ABI_VERSION */
  uint32_t size;        /* sizeof(TVMDeviceApi) */
  /* The driver must implement these functions. The address that `alloc` returns allows pointer arithmetic. `free` may
   * be called before work enqueued on the device has finished. At least one side of a copy is this device's memory, the
   * other is host memory or also this device's. A copy to the host has finished when the function returns; after a copy
   * from the host returns, the host buffer may be reused. */
  int (*exists)(int device_id);
  void *(*alloc)(DLDevice device, size_t nbytes, size_t alignment);
  void (*free)(DLDevice device, void *data);
  int (*copy)(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
              DLDevice to_device, size_t nbytes, void *stream);
  int (*sync)(DLDevice device, void *stream);
  /* Any of the remaining functions may be NULL. `open` prepares a device for use or fails with the reason; it is called
   * at every use. */
  int (*open)(int device_id);
  /* `which` is the attribute number that Python's Device class uses; unsupported attributes return the null value. */
  int (*attribute)(DLDevice device, int which, TVMValue *out, int *out_code);
  /* Scratch memory: `workspace_free` may pass the block to the next request while enqueued work still uses it. If these
   * are NULL, `alloc` and `free` are used. */
  void *(*workspace_alloc)(DLDevice device, size_t nbytes);
  void (*workspace_free)(DLDevice device, void *data);
  /* Kernels of device modules; NULL if library functions do all the work. `unload` frees `native`. */
  int (*launch)(TVMDeviceKernel *kernel, int device_id, const TVMKernelArg *args, const TVMLaunchSizes *sizes);
  void (*unload)(TVMDeviceModule *module);
  /* The device's own clock; NULL if measuring host time around a synchronization is sufficient. `timer_stop` frees the
   * timer, even if it fails. */
  int (*timer_start)(DLDevice device, void **out_timer);
  int (*timer_stop)(DLDevice device, void *timer, double *out_seconds);
  int (*stream_create)(DLDevice device, void **out);
  int (*stream_free)(DLDevice device, void *stream);
  int (*stream_set)(DLDevice device, void *stream);
  /* Work enqueued on the thread's stream between `capture_begin` and `capture_end` is recorded as a graph instead of
   * being executed; `capture_end` discards the graph if its output pointer is NULL. `graph_launch` returns 1 if the
   * graph was not recorded for the stream that is current in this thread. A device that has `capture_begin` has all
   * four functions, and graph executors on it replay recorded runs. */
  int (*capture_begin)(DLDevice device);
  int (*capture_end)(DLDevice device, void **out_graph);
  int (*graph_launch)(DLDevice device, void *graph);
  void (*graph_free)(DLDevice device, void *graph);
  /* Called in the child process after a fork, where most drivers no longer work. */
  void (*fork_child)(void);
} TVMDeviceApi;

/* Registers a table as the driver of a device type (1 to 127). The table is copied; its functions must stay loaded.
 * `name` is the device's name in messages, in tvm.device, and in the "kind" field of device modules. The call fails if
 * the type already has a driver or the name belongs to another type. */
TVM_DLL int TVMDeviceRegister(int device_type, const char *name, const TVMDeviceApi *api);
/* Returns the device type of a name, or -1 if no device has that name. */
TVM_DLL int TVMDeviceTypeOfName(const char *name);
/* Opens a shared library that implements devices and calls its function
 *   int TVMDeviceLibraryInit(const TVMRuntimeTable *table);
 * which registers them (table->device_register) and returns 0, or -1 with the last error set. The library stays open. */
TVM_DLL int TVMDeviceLibraryLoad(const char *file_name);

/* ---- modules ---- */
TVM_DLL int TVMModCreate(const char *type_key, TVMFinalizer fin, void *resource, TVMModuleHandle *out);
/* Loads a library, an object file (.o), or a package of `tvmc compile` (.tar). `format` replaces the suffix of the file name
 * unless it is NULL or empty. */
TVM_DLL int TVMModLoadFromFile(const char *file_name, const char *format, TVMModuleHandle *out);
TVM_DLL int TVMModRetain(TVMModuleHandle mod);
TVM_DLL int TVMModFree(TVMModuleHandle mod);
TVM_DLL const char *TVMModTypeKey(TVMModuleHandle mod);
TVM_DLL const char *TVMModEntryName(TVMModuleHandle mod); /* "" if the module has no entry function */
TVM_DLL int TVMModSetEntryName(TVMModuleHandle mod, const char *name);
TVM_DLL int TVMModAddSymbol(TVMModuleHandle mod, const char *name, void *address);
TVM_DLL int TVMModAddFunction(TVMModuleHandle mod, const char *name, TVMFunctionHandle func);
/* Sets the two variables that a generated module exports (either pointer may be NULL). */
TVM_DLL int TVMModBind(TVMModuleHandle mod, void *runtime_table_variable, void *module_ctx_variable);
TVM_DLL int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep);
TVM_DLL int TVMModClearImports(TVMModuleHandle mod);
TVM_DLL int TVMModImportCount(TVMModuleHandle mod);
TVM_DLL int TVMModGetImport(TVMModuleHandle mod, int index, TVMModuleHandle *out);
TVM_DLL int TVMModGetFunction(TVMModuleHandle mod, const char *name, int query_imports, TVMFunctionHandle *out);
/* Returns the address of an exported symbol of a loaded library or JIT module, or NULL if there is none. */
TVM_DLL void *TVMModGetSymbol(TVMModuleHandle mod, const char *name);
TVM_DLL int TVMModGetImportBlob(TVMModuleHandle mod, const void **out_data, size_t *out_size);
/* Computes the checksum of a library file. If a file ends in TVM_SEAL_MAGIC followed by a checksum of all bytes before
 * the magic, the loader rejects it when the checksum does not match; files without this trailer are loaded unchecked. */
#define TVM_SEAL_MAGIC "TVMSEAL2"
TVM_DLL uint64_t TVMChecksum(const void *data, size_t size);
/* Before this trailer, a file may store the list of CPU features that its code needs, which ends in TVM_NEEDS_MAGIC.
 * Loading a library whose code needs a feature that this CPU lacks returns an error; TVMCheckCpuNeeds checks the list of
 * another file, such as an archive of objects. TVMCpuHas returns 1 if the CPU has a feature (LLVM name), 0 if it lacks
 * it, and -1 if the feature is unknown. */
#define TVM_NEEDS_MAGIC "TVMNEED1"
TVM_DLL int TVMCheckCpuNeeds(const char *path);
TVM_DLL int TVMCpuHas(const char *feature);
/* Computes the checksum of data that is stored in several buffers. */
TVM_DLL uint64_t TVMChecksumOfParts(const void *const *parts, const size_t *sizes, int count);
/* Computes the checksum of the first `size` bytes of a file, which is read in blocks. */
TVM_DLL int TVMChecksumOfFile(const char *path, uint64_t size, uint64_t *out);
/* Loads a module of device kernels. Format: "TVMDEV01", the length of a JSON text as eight bytes (little endian), the
 * JSON text, the images. JSON text: {"kind": "opencl", "cuda" or another device's name, "images": [{"format", "arch",
 * "offset" from the end of the text, "size"}], "kernels": {name: {"args": [types], "launch": [thread tags], "threads":
 * N, "shared": bytes}}}. A kernel takes its arguments followed by the extents in the order of "launch". The driver is
 * not opened before the first call. */
TVM_DLL int TVMDeviceModuleLoad(const void *bytes, size_t size, TVMModuleHandle *out);
/* Returns the bytes from which a device module was loaded (borrowed), or NULL for any other module. */
TVM_DLL const void *TVMDeviceModuleBytes(TVMModuleHandle mod, size_t *out_size);
TVM_DLL int TVMBackendRegisterSystemLibSymbol(const char *name, void *address);
TVM_DLL int TVMModGetSystemLib(TVMModuleHandle *out);

/* ---- threads, workspace ---- */
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda body, void *cdata, int num_task);
/* Requests permission from the operating system to use the tile registers of x86 (AMX), once per process, and
 * configures their sizes (the 64 bytes of LDTILECFG) for this thread unless `sizes` is NULL. Fails if the system denies
 * permission. */
TVM_DLL int TVMBackendUseTiles(const void *sizes);
TVM_DLL int TVMBackendParallelFor(FTVMParallelLambda body, void *cdata, int64_t extent);
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv);
TVM_DLL int TVMThreadPoolSize(void);
TVM_DLL int TVMThreadPoolConfigure(int num_threads); /* 0: as many as the process may use */
/* Sets how arithmetic of the calling thread handles denormal numbers: flush them to zero (1), keep them (0), or follow
 * the environment variable TVM_FLUSH_DENORMALS like the executors (-1). Workers of the thread pool use the setting of
 * the thread whose parallel region they execute. Returns the previous setting, or -1 on error. */
TVM_DLL int TVMFlushDenormals(int enabled);
TVM_DLL void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int type_code, int type_bits);
TVM_DLL int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr);
TVM_DLL int TVMBackendGetFuncFromEnv(void *module_ctx, const char *name, TVMFunctionHandle *out);

/* ---- timing ---- */
typedef struct {
  int32_t number;
  int32_t repeat;
  int32_t min_repeat_ms;
  int32_t limit_zero_time_iterations;
  int32_t cooldown_interval_ms;
  int32_t repeats_to_cooldown;
  int64_t cache_flush_bytes;
  TVMFunctionHandle preprocess; /* called with the arguments before each repetition, or NULL */
  DLDevice device;
} TVMTimeOptions;
/* Calls the function once untimed, then writes the mean time of each of `repeat` repetitions in seconds. */
TVM_DLL int TVMFuncTime(TVMCallFrame *frame, const TVMTimeOptions *options, double *out_seconds);

/* ---- parameter blobs ---- */
typedef struct TVMParams *TVMParamsHandle;
TVM_DLL int TVMParamsLoad(const void *data, size_t size, TVMParamsHandle *out);
TVM_DLL int TVMParamsLoadFile(const char *path, TVMParamsHandle *out);
TVM_DLL int TVMParamsCount(TVMParamsHandle params);
TVM_DLL const char *TVMParamsName(TVMParamsHandle params, int index, size_t *out_size);
TVM_DLL TVMArrayHandle TVMParamsArray(TVMParamsHandle params, int index); /* borrowed */
TVM_DLL int TVMParamsFree(TVMParamsHandle params);

/* ---- RPC sessions (docs/rpc.md) ----
 *
 * A session is identified by a number. Its device types are the remote machine's device types plus 128 * (number + 1).
 * Its functions and modules are ordinary handles, and each keeps the session open. */
/* Opens a session on a socket whose handshake has completed, and takes ownership of the socket. `seconds` is the time
 * limit; 0 means no limit. */
TVM_DLL int TVMRPCSessionOpen(int fd, uint64_t max_message, double seconds, int *out_session);
/* Ends the session immediately; using its handles afterwards is an error. */
TVM_DLL int TVMRPCSessionClose(int session);
/* Releases the caller's reference; the session ends when its last array, function and module have been released. */
TVM_DLL int TVMRPCSessionFree(int session);
/* Looks up a global function of the server; *out is NULL if it does not exist. */
TVM_DLL int TVMRPCSessionFunction(int session, const char *name, TVMFunctionHandle *out);

typedef struct {
  const char *key;                             /* clients must send the same key */
  const char *secret; size_t secret_size;      /* empty: no authentication, allowed on loopback addresses only */
  const char *tracker_host; int tracker_port;  /* NULL: no tracker */
  const char *proxy_host; int proxy_port;      /* the server connects to it instead of listening; NULL: no proxy */
  const char *custom_addr;                     /* address reported to the tracker instead of the one it sees; or NULL */
  uint64_t max_message, max_memory, max_files; /* bytes; 0: the default */
  double max_seconds;                          /* time limit of a session; 0: no limit */
  int measure_only, silent;
  int watch_fd;                                /* the server ends when this descriptor reaches end of file; -1: none */
  int told_port;                               /* port reported to the tracker; 0: the socket's port */
  int (*fork_process)(void);                   /* NULL: fork */
} TVMRPCServerOptions;
/* Serves sessions one after another, each in its own process, until SIGTERM, SIGINT or end of file on `watch_fd`. The
 * socket is already listening; pass -1 for a server that connects to a proxy. */
TVM_DLL int TVMRPCServerRun(int listen_fd, const TVMRPCServerOptions *options);
/* Serves one session on a socket without a handshake, in the current working directory; for programs that their client
 * has started. */
TVM_DLL int TVMRPCServe(int fd, const TVMRPCServerOptions *options);

#ifdef __cplusplus
}
#endif
#endif /* TVM_RUNTIME_H_ */
