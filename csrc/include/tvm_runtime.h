/* The whole C interface of the runtime.
 *
 * Every function that can fail returns 0 or a negative status; the text is behind TVMGetLastError, per thread.
 * Nothing here prints, exits or throws. Handles are reference counted by the runtime: a handle returned through an
 * `out` parameter or as a function's result belongs to the caller, a handle passed as an argument is borrowed.
 */
#ifndef TVM_RUNTIME_H_
#define TVM_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifndef TVM_DLL
#define TVM_DLL __attribute__((visibility("default")))
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

/* Classic TVM's codes of the 8-bit floats; they overlap newer DLPack codes and are translated at that border. */
enum { kTVME4M3Float = 6, kTVME5M2Float = 7 };
/* Codes from here to 255 are those of types that users registered. */
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

/* A kTVMNDArrayHandle value points at a DLTensor too, so a callee may read both codes alike. */
typedef DLTensor *TVMArrayHandle;
typedef struct TVMFunction *TVMFunctionHandle;
typedef struct TVMModule *TVMModuleHandle;
typedef struct TVMObject *TVMObjectHandle;

typedef int (*TVMBackendPackedCFunc)(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value,
                                     int *out_ret_tcode, void *resource_handle);
typedef void (*TVMFinalizer)(void *resource_handle);

/* ---- the table generated code reaches the runtime through; only ever appended to ---- */
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
  int (*raise_value)(const char *text, int64_t value); /* last error = text, then value; returns -1 */
  int (*device_register)(int device_type, const char *name, const struct TVMDeviceApi *api); /* TVMDeviceRegister */
  int (*use_tiles)(const void *sizes); /* TVMBackendUseTiles */
} TVMRuntimeTable;

/* What check_tensor compares an argument with. A shape entry of -1 accepts any extent; strides, when not NULL, hold
 * the wanted element strides (-1 accepts any); without strides the tensor must be compact. A dtype of code 255
 * accepts any type, a device_type of 0 any device. */
typedef struct {
  const char *function;
  const char *argument;
  DLDataType dtype;
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
  int32_t device_type;
  int32_t alignment; /* bytes the data address must be a multiple of; 0 or 1 accept any */
} TVMTensorSpec;

TVM_DLL const TVMRuntimeTable *TVMGetRuntimeTable(void);
TVM_DLL const char *TVMRuntimeVersion(void);

/* ---- errors ---- */
TVM_DLL const char *TVMGetLastError(void);
TVM_DLL void TVMAPISetLastError(const char *msg);
/* An error owned by the embedding language: `token` names the original exception there. Any later plain error drops
 * it. TVMTakeForeignError returns the token of the last error (0 when it is plain text) and clears it. */
TVM_DLL void TVMSetForeignError(const char *msg, uint64_t token);
TVM_DLL uint64_t TVMTakeForeignError(void);
/* Asked between long steps; a non-zero answer stops the work with the error "interrupted" and the token
 * TVM_ERROR_INTERRUPTED. */
#define TVM_ERROR_INTERRUPTED UINT64_MAX
TVM_DLL void TVMSetInterruptCheck(int (*check)(void));

/* ---- functions ---- */
TVM_DLL int TVMFuncCreateFromCFunc(TVMBackendPackedCFunc func, void *resource_handle, TVMFinalizer fin,
                                   TVMFunctionHandle *out);
TVM_DLL int TVMFuncRetain(TVMFunctionHandle func);
TVM_DLL int TVMFuncFree(TVMFunctionHandle func);
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                        int *ret_type_code);
/* Functions of the embedding language: `caller` gets every call, with the function's token as resource. It must write
 * the type code of its result; a call that leaves it alone, or writes a negative one, has failed. */
TVM_DLL void TVMSetForeignCaller(TVMBackendPackedCFunc caller);
TVM_DLL int TVMFuncCreateForeign(uint64_t token, TVMFinalizer fin, TVMFunctionHandle *out);
TVM_DLL uint64_t TVMFuncForeignToken(TVMFunctionHandle func); /* 0 for any other function */
TVM_DLL int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle func, int override);
TVM_DLL int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out); /* *out is NULL when there is none */
TVM_DLL int TVMFuncRemoveGlobal(const char *name);
TVM_DLL int TVMFuncListGlobalNames(int *out_size, const char ***out_array); /* valid until the next call */

/* One call in one block of memory, for callers that pay per foreign-function argument: `values` is followed in
 * memory by num_args int32 type codes. */
typedef struct {
  TVMFunctionHandle func;
  int64_t num_args;
  TVMValue ret_value;
  int64_t ret_code;
  TVMValue values[];
} TVMCallFrame;
TVM_DLL int TVMFuncCallFrame(TVMCallFrame *frame);

/* For callbacks: hand a string or bytes back. The text is copied and lives until this thread returns another. */
TVM_DLL int TVMReturnBytes(const char *data, size_t size, int code, TVMValue *ret_value, int *ret_code);

/* ---- opaque objects of the embedding language ---- */
TVM_DLL int TVMObjectCreate(uint64_t token, TVMFinalizer fin, TVMObjectHandle *out);
TVM_DLL int TVMObjectRetain(TVMObjectHandle object);
TVM_DLL int TVMObjectFree(TVMObjectHandle object);
TVM_DLL uint64_t TVMObjectToken(TVMObjectHandle object);

/* ---- data of the virtual machine: trees of arrays, integers and closures ---- */
typedef enum { kTVMObjectForeign, kTVMObjectADT, kTVMObjectClosure } TVMObjectKindCode;
TVM_DLL int TVMObjectKind(TVMObjectHandle object);
/* Data that a constructor with this number makes of fields: arrays, integers, and other data. Tuples have the tag 0. */
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

/* ---- devices ---- */
TVM_DLL int TVMDeviceExists(DLDevice device);
TVM_DLL int TVMSynchronize(int device_type, int device_id, void *stream);
TVM_DLL const char *TVMDeviceTypeName(int device_type);
/* Gives memory of the process that is free back to the system, where its allocator keeps it. */
TVM_DLL void TVMReleaseFreeMemory(void);
/* The null value for what the device does not have. */
TVM_DLL int TVMDeviceGetAttribute(DLDevice device, int which, TVMValue *out, int *out_code);
TVM_DLL int TVMStreamCreate(int device_type, int device_id, void **out);
TVM_DLL int TVMStreamFree(int device_type, int device_id, void *stream);
/* The stream the calling thread gives work to; NULL for the first one. */
TVM_DLL int TVMSetStream(int device_type, int device_id, void *stream);

/* ---- devices from outside ----
 *
 * A kind of device is a table of functions. Those that can fail return 0, or -1 with the last error set. They may be
 * called by several threads at once, and device numbers have been checked by `exists`. A later version of the runtime
 * only appends to the table: fields beyond `size` are NULL. */
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
  uint8_t *launch; /* field of TVMLaunchSizes that each extent gives */
  int launch_count;
  int32_t dependent; /* whether it waits itself for the kernels before it, so that it may be launched while they end */
  int64_t threads, shared; /* threads of a block or 0; bytes of static shared memory */
} TVMDeviceKernel;

/* The kernels of a device module; see TVMDeviceModuleLoad. */
typedef struct TVMDeviceModule {
  TVMDeviceImage *images;
  int image_count;
  TVMDeviceKernel *kernels;
  int kernel_count;
  void *native; /* what the device keeps for this module, NULL at first; the device guards it */
} TVMDeviceModule;

#define TVM_DEVICE_ABI_VERSION 1
typedef struct TVMDeviceApi {
  uint32_t abi_version; /* TVM_DEVICE_ABI_VERSION */
  uint32_t size;        /* sizeof(TVMDeviceApi) */
  /* Without these there is no device. The address `alloc` gives may be added to; `free` may come before work given to
   * the device is done. One side of a copy is the device's own memory, the other the host's or its own. A copy to the
   * host is done when it returns, and one from the host leaves its memory free. */
  int (*exists)(int device_id);
  void *(*alloc)(DLDevice device, size_t nbytes, size_t alignment);
  void (*free)(DLDevice device, void *data);
  int (*copy)(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
              DLDevice to_device, size_t nbytes, void *stream);
  int (*sync)(DLDevice device, void *stream);
  /* Any of the rest may be NULL. `open` makes a device ready and fails with the reason; it is asked at every use. */
  int (*open)(int device_id);
  /* Number `which` is that of Python's Device; the null value stands for what the device does not have. */
  int (*attribute)(DLDevice device, int which, TVMValue *out, int *out_code);
  /* Scratch memory: `workspace_free` may hand it to the next asker while work given to the device still uses it. NULL:
   * `alloc` and `free` do. */
  void *(*workspace_alloc)(DLDevice device, size_t nbytes);
  void (*workspace_free)(DLDevice device, void *data);
  /* Kernels of device modules; NULL where functions of libraries do all the work. `unload` frees `native`. */
  int (*launch)(TVMDeviceKernel *kernel, int device_id, const TVMKernelArg *args, const TVMLaunchSizes *sizes);
  void (*unload)(TVMDeviceModule *module);
  /* The device's own clock; NULL where the host's clock around a synchronisation serves. `timer_stop` frees the timer,
   * also when it fails. */
  int (*timer_start)(DLDevice device, void **out_timer);
  int (*timer_stop)(DLDevice device, void *timer, double *out_seconds);
  int (*stream_create)(DLDevice device, void **out);
  int (*stream_free)(DLDevice device, void *stream);
  int (*stream_set)(DLDevice device, void *stream);
  /* Work given to the thread's stream from `capture_begin` to `capture_end` is kept as a graph in place of being done;
   * `capture_end` with no place for the graph drops it. `graph_launch` gives 1 when the graph is not for the stream this
   * thread has chosen. A device with `capture_begin` has all four, and graph executors on it replay captured runs. */
  int (*capture_begin)(DLDevice device);
  int (*capture_end)(DLDevice device, void **out_graph);
  int (*graph_launch)(DLDevice device, void *graph);
  void (*graph_free)(DLDevice device, void *graph);
  /* In the child of a fork, where most drivers are lost. */
  void (*fork_child)(void);
} TVMDeviceApi;

/* From now on devices of this type (1 to 127) are this table's, which is copied; its functions must stay loaded. `name`
 * is what they are called in texts, by tvm.device, and as the "kind" of device modules. A type that has a driver, or a
 * name that another type has, is refused. */
TVM_DLL int TVMDeviceRegister(int device_type, const char *name, const TVMDeviceApi *api);
/* The device type of a name; -1 when there is none. */
TVM_DLL int TVMDeviceTypeOfName(const char *name);
/* Opens a shared library that brings devices and calls its function
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
TVM_DLL const char *TVMModEntryName(TVMModuleHandle mod); /* "" when the module names no entry */
TVM_DLL int TVMModSetEntryName(TVMModuleHandle mod, const char *name);
TVM_DLL int TVMModAddSymbol(TVMModuleHandle mod, const char *name, void *address);
TVM_DLL int TVMModAddFunction(TVMModuleHandle mod, const char *name, TVMFunctionHandle func);
/* Fills the two variables a generated module exports (either may be NULL). */
TVM_DLL int TVMModBind(TVMModuleHandle mod, void *runtime_table_variable, void *module_ctx_variable);
TVM_DLL int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep);
TVM_DLL int TVMModClearImports(TVMModuleHandle mod);
TVM_DLL int TVMModImportCount(TVMModuleHandle mod);
TVM_DLL int TVMModGetImport(TVMModuleHandle mod, int index, TVMModuleHandle *out);
TVM_DLL int TVMModGetFunction(TVMModuleHandle mod, const char *name, int query_imports, TVMFunctionHandle *out);
/* Address of any exported symbol of a loaded library or JIT module, NULL when there is none. */
TVM_DLL void *TVMModGetSymbol(TVMModuleHandle mod, const char *name);
TVM_DLL int TVMModGetImportBlob(TVMModuleHandle mod, const void **out_data, size_t *out_size);
/* Checksum of a library file. A file that ends in TVM_SEAL_MAGIC followed by the checksum of all bytes before the
 * magic is refused when they disagree; files without that tail are loaded unchecked. */
#define TVM_SEAL_MAGIC "TVMSEAL2"
TVM_DLL uint64_t TVMChecksum(const void *data, size_t size);
/* The checksum of bytes that lie in several parts. */
TVM_DLL uint64_t TVMChecksumOfParts(const void *const *parts, const size_t *sizes, int count);
/* Kernels of a device. Bytes: "TVMDEV01", the length of a JSON text in eight bytes (little endian), the text, images.
 * The text: {"kind": "opencl", "cuda" or another device's name, "images": [{"format", "arch", "offset" from the end of the text, "size"}],
 * "kernels": {name: {"args": [types], "launch": [thread tags], "threads": N, "shared": bytes}}}. A kernel is a function
 * of its arguments followed by the extents in the order of "launch". No driver is touched before the first call. */
TVM_DLL int TVMDeviceModuleLoad(const void *bytes, size_t size, TVMModuleHandle *out);
/* The bytes a device module was made of, borrowed; NULL for any other module. */
TVM_DLL const void *TVMDeviceModuleBytes(TVMModuleHandle mod, size_t *out_size);
TVM_DLL int TVMBackendRegisterSystemLibSymbol(const char *name, void *address);
TVM_DLL int TVMModGetSystemLib(TVMModuleHandle *out);

/* ---- threads, workspace ---- */
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda body, void *cdata, int num_task);
/* Asks the system for the tile registers of x86 (AMX), once a process, and sets their sizes (the 64 bytes of LDTILECFG)
 * for this thread unless they are NULL; an error where the system refuses. */
TVM_DLL int TVMBackendUseTiles(const void *sizes);
TVM_DLL int TVMBackendParallelFor(FTVMParallelLambda body, void *cdata, int64_t extent);
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv);
TVM_DLL int TVMThreadPoolSize(void);
TVM_DLL int TVMThreadPoolConfigure(int num_threads); /* 0: what the machine allows */
/* Whether arithmetic of the calling thread takes denormal numbers for zero (1), keeps them (0), or does what the
 * environment variable TVM_FLUSH_DENORMALS says executors do (-1). Workers of the pool follow the thread whose region they
 * run. Returns what was before, -1 for an error. */
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
  TVMFunctionHandle preprocess; /* called with the arguments before each repeat, or NULL */
  DLDevice device;
} TVMTimeOptions;
/* Calls once untimed, then writes `repeat` mean times in seconds. */
TVM_DLL int TVMFuncTime(TVMCallFrame *frame, const TVMTimeOptions *options, double *out_seconds);

/* ---- parameter blobs ---- */
typedef struct TVMParams *TVMParamsHandle;
TVM_DLL int TVMParamsLoad(const void *data, size_t size, TVMParamsHandle *out);
TVM_DLL int TVMParamsLoadFile(const char *path, TVMParamsHandle *out);
TVM_DLL int TVMParamsCount(TVMParamsHandle params);
TVM_DLL const char *TVMParamsName(TVMParamsHandle params, int index, size_t *out_size);
TVM_DLL TVMArrayHandle TVMParamsArray(TVMParamsHandle params, int index); /* borrowed */
TVM_DLL int TVMParamsFree(TVMParamsHandle params);

/* ---- sessions on other machines (docs/rpc.md) ----
 *
 * A session is a number. Its devices have the type of the device there plus 128 times (number + 1); its functions and
 * modules are handles like any others, and keep it open. */
/* Takes the socket over, on which the handshake has been done. Seconds of 0 are no limit. */
TVM_DLL int TVMRPCSessionOpen(int fd, uint64_t max_message, double seconds, int *out_session);
/* Ends the session immediately; using its handles afterwards is an error. */
TVM_DLL int TVMRPCSessionClose(int session);
/* Drops the caller's hold; the session ends with the last array, function or module of it. */
TVM_DLL int TVMRPCSessionFree(int session);
/* A global function of the server; NULL when there is none. */
TVM_DLL int TVMRPCSessionFunction(int session, const char *name, TVMFunctionHandle *out);

typedef struct {
  const char *key;                             /* clients must name it */
  const char *secret; size_t secret_size;      /* of no bytes: none, which only loopback addresses allow */
  const char *tracker_host; int tracker_port;  /* NULL: none */
  const char *proxy_host; int proxy_port;      /* called in place of listening; NULL: none */
  const char *custom_addr;                     /* told to the tracker in place of the address it sees; or NULL */
  uint64_t max_message, max_memory, max_files; /* bytes; 0: the default */
  double max_seconds;                          /* of a session; 0: no limit */
  int measure_only, silent;
  int watch_fd;                                /* the server ends when this one does; -1: none */
  int told_port;                               /* told to the tracker in place of the socket's; 0: the socket's */
  int (*fork_process)(void);                   /* NULL: fork */
} TVMRPCServerOptions;
/* Serves one session after the other, each in a process of its own, until it is told to end by SIGTERM, SIGINT or
 * `watch_fd`. The socket listens already; it is -1 for a server that waits at a proxy. */
TVM_DLL int TVMRPCServerRun(int listen_fd, const TVMRPCServerOptions *options);
/* Serves one session, without a handshake, on a socket, with the current folder as its own; for programs that have been
 * started by their client. */
TVM_DLL int TVMRPCServe(int fd, const TVMRPCServerOptions *options);

#ifdef __cplusplus
}
#endif
#endif /* TVM_RUNTIME_H_ */
