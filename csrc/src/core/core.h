/* The core of the runtime: functions, arrays, modules, libraries, parameters, and devices. It calls base/ only; the parts
 * above it (graph/, vm/, rpc/, devices/) register with it at load time (start.c). */
#ifndef TVM_SRC_CORE_CORE_H_
#define TVM_SRC_CORE_CORE_H_

#include <stdio.h>

#include "../base/base.h"

/* ---- functions, objects, arrays, and modules ---- */
struct TVMFunction {
  atomic_int refs;
  TVMBackendPackedCFunc code;
  void *resource;
  TVMFinalizer finalize;
  struct TVMModule *owner; /* kept alive by this function, may be NULL */
  bool of_module;          /* the resource belongs to the module that has the function */
};
struct TVMFunction *tvm_func_new(TVMBackendPackedCFunc code, void *resource, TVMFinalizer fin, struct TVMModule *owner);
int tvm_call(struct TVMFunction *func, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code);
/* An object of the embedding language (kind kTVMObjectForeign, whose finalizer takes the token), or the head of an object of
 * another part of the runtime (whose finalizer takes the object and frees it). */
struct TVMObject { atomic_int refs; int32_t kind; uint64_t token; TVMFinalizer finalize; };
/* Drops what a returned value owns (arrays, modules, functions, objects). */
void tvm_release_value(TVMValue value, int code);
/* An array over memory that outlives it. */
int tvm_array_borrow(const DLTensor *tensor, TVMArrayHandle *out);
/* An array over memory that its driver frees with it. */
int tvm_array_adopt(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, void *data, TVMArrayHandle *out);
/* An array in memory that `keeper` owns; its deleter is called when the array is freed. */
int tvm_array_within(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, DLManagedTensor *keeper,
                     size_t offset, TVMArrayHandle *out);
/* Bytes of a compact tensor. */
int tvm_byte_size(const int64_t *shape, int ndim, DLDataType dtype, size_t *out);
/* The memory outlives the array, and somebody else frees it. */
void tvm_array_disown(TVMArrayHandle array);
/* A function of a module written in C; `self` lives as long as the module, which the functions handed out keep. */
int tvm_module_builtin(TVMModuleHandle mod, const char *name, TVMBackendPackedCFunc code, void *self);
/* Where functions of the module are looked for before all else; gives NULL for one that is not there. */
typedef int (*ModuleLookup)(void *resource, const char *name, TVMFunctionHandle *out);
void tvm_module_set_lookup(TVMModuleHandle mod, ModuleLookup lookup);
/* The resource of a module made with the finalizer `kind`, NULL for other modules. */
void *tvm_module_resource(TVMModuleHandle mod, TVMFinalizer kind);
/* Visits a module and all it imports, each once, an import before the next one; what `visit` gives ends the walk unless it
 * is 0. */
typedef int (*ModuleVisit)(TVMModuleHandle mod, void *data);
int tvm_module_walk(TVMModuleHandle mod, ModuleVisit visit, void *data);

bool tvm_is_compact(const DLTensor *tensor);
/* Element bytes of a dtype: whole bytes per lane for bool, packed otherwise. */
size_t tvm_dtype_bytes(DLDataType dtype);
void tvm_dtype_text(DLDataType dtype, char *out, size_t size);

int tvm_check_tensor(const void *spec, int arg_index, TVMValue value, int code, const DLTensor **out);
int tvm_raise_value(const char *text, int64_t value);
int tvm_raise_argument_error(const char *func, int arg_index, const char *what);

/* ---- parameter blobs, read array by array from memory or from a file (params.c) ---- */
enum { PARAMS_MAX_NDIM = 64 };

typedef struct {
  const unsigned char *start, *at; /* in memory; NULL for a file */
  FILE *file;
  size_t size, left;
  char **names;
  int count, done;
  int64_t shape[PARAMS_MAX_NDIM];
  DLTensor head;  /* type and shape of the current array; its data is NULL unless the bytes are in memory */
  size_t nbytes;  /* of its data, which is not read yet */
} ParamReader;

/* Reads the names, then walks all arrays without their data, so that a damaged blob is refused before any is used. Close
 * the reader whether or not opening succeeds. */
int params_open(ParamReader *reader, const void *data, size_t size);
int params_open_file(ParamReader *reader, const char *path);
void params_close(ParamReader *reader);
/* The type of the next array, whose name is names[done]. */
int params_next(ParamReader *reader);
/* Moves the data of that array to `out`, or past it when that is NULL. */
int params_take(ParamReader *reader, void *out);

/* Arrays by name. Those of `params_borrow` lie in the blob itself where they are aligned as arrays of ours are. */
int params_borrow(const void *data, size_t size, TVMParamsHandle *out);
int params_new(int count, TVMParamsHandle *out);
int params_put(TVMParamsHandle params, int index, const char *name, TVMArrayHandle array); /* takes the array */

/* ---- libraries: library.c has all platform code for opening them ---- */
/* A shared library that was opened, or an object that was linked into this process. */
typedef struct Library Library;
/* Checks the file and opens a private copy of it; NULL with the last error set. */
Library *library_open(const char *path);
/* The same for the bytes of a file; `path` is its name in errors. A `sealed` library must be a shared library that ends
 * with its checksum. */
Library *library_open_bytes(const char *path, const unsigned char *bytes, size_t size, bool sealed);
/* The bytes of a regular file; the caller frees them. */
int tvm_read_file(const char *path, unsigned char **out, size_t *out_size);
/* The module of a library that was opened; takes the library, also when it fails. */
int tvm_module_of_library(Library *library, TVMModuleHandle *out);
void library_close(Library *library);
/* Removes what processes that were killed have left; once in a process. */
void library_clean(void);
/* A symbol the library itself defines (not one of its dependencies), or NULL. */
void *library_symbol(Library *library, const char *name);
/* A data symbol and how many bytes the library gives it. */
const void *library_data(Library *library, const char *name, size_t *out_size);

/* ---- object files, linked into this process without a linker (object.c) ---- */
typedef struct Object Object;
/* Whether a file is an object (and not a library). */
bool object_is(const unsigned char *bytes, size_t size);
/* NULL with `why` set where it is damaged, for another machine, or needs something that is not here. */
/* A symbol that this library exports, or NULL. Other libraries do not see its symbols: it is loaded for its users alone. */
void *library_own_symbol(const char *name);
Object *object_open(const unsigned char *bytes, size_t size, char *why, size_t room);
void object_close(Object *object);
/* A symbol that the object defines for others, and its size; NULL where there is none. */
void *object_symbol(const Object *object, const char *name, size_t *out_size);

/* ---- devices (device.c, device_module.c) ---- */
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
typedef TVMDeviceApi DeviceApi;
extern const DeviceApi tvm_cpu_api;
const DeviceApi *tvm_device(DLDevice device); /* opened; NULL with the last error set */
/* The driver of a device type, NULL where there is none; no device is opened. */
const DeviceApi *tvm_driver(int device_type);
/* Whether the memory of a device type is the host's own. */
bool tvm_is_host(int device_type);

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

/* ---- called around fork (table.c) ---- */
void tvm_registry_fork(int stage); /* 0 before, 1 in the parent, 2 in the child */
void tvm_library_fork_child(void);
void tvm_devices_fork_child(void);

/* ---- registration, at load time only: core calls the parts above it through these (start.c) ---- */
/* Registers the functions of core itself. */
void tvm_core_start(void);
void tvm_device_modules_start(void);
/* A global function of the runtime. */
void tvm_builtin(const char *name, TVMBackendPackedCFunc code);
/* The driver of a device type. */
void tvm_driver_add(int device_type, const DeviceApi *api);
/* Called in the child after fork. */
void tvm_fork_child_add(void (*callback)(void));
/* The loader of a type of packed modules that loading a library returns in place of the library. The module imports the
 * library, which keeps the packed bytes in memory. */
typedef int (*RootLoader)(TVMByteArray packed, TVMModuleHandle library, TVMModuleHandle *out);
void tvm_root_loader_add(const char *type_key, RootLoader load);
/* The loader of files of a format, which is the suffix of their names. */
typedef int (*FileLoader)(const char *path, TVMModuleHandle *out);
void tvm_file_loader_add(const char *format, FileLoader load);
/* The devices, functions and modules of other machines. `import` returns 1 for a module of this machine. */
typedef struct {
  const DeviceApi *device;
  bool (*is_function)(TVMFunctionHandle func);
  int (*time)(TVMCallFrame *frame, const TVMTimeOptions *options, double *out_seconds);
  int (*import)(TVMModuleHandle mod, TVMModuleHandle dep);
} RemoteApi;
void tvm_remote_set(const RemoteApi *api);
const RemoteApi *tvm_remote(void); /* NULL in a runtime without rpc/ */

#endif /* TVM_SRC_CORE_CORE_H_ */
