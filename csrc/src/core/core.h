/* The core of the runtime: functions, arrays, modules, libraries, parameters, and devices. It depends on base/ only;
 * the components above it (graph/, vm/, rpc/, devices/) register with it at load time (start.c). */
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
  bool of_module;          /* the resource belongs to the module that contains the function */
};
struct TVMFunction *tvm_func_new(TVMBackendPackedCFunc code, void *resource, TVMFinalizer fin, struct TVMModule *owner);
int tvm_call(struct TVMFunction *func, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code);
/* An object of the embedding language (kind kTVMObjectForeign, whose finalizer takes the token), or the header of an
 * object of another part of the runtime (whose finalizer takes the object and frees it). */
struct TVMObject { atomic_int refs; int32_t kind; uint64_t token; TVMFinalizer finalize; };
/* Releases the references that a returned value owns (arrays, modules, functions, objects). */
void tvm_release_value(TVMValue value, int code);
/* Creates an array over borrowed memory, which must outlive the array. */
int tvm_array_borrow(const DLTensor *tensor, TVMArrayHandle *out);
/* Creates an array that owns device memory; the device's driver frees the memory together with the array. */
int tvm_array_adopt(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, void *data, TVMArrayHandle *out);
/* Creates an array in memory that `keeper` owns; the deleter of `keeper` is called when the array is freed. */
int tvm_array_within(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, DLManagedTensor *keeper,
                     size_t offset, TVMArrayHandle *out);
/* Computes the size of a compact tensor in bytes. */
int tvm_byte_size(const int64_t *shape, int ndim, DLDataType dtype, size_t *out);
/* Gives up ownership of the array's memory, so that freeing the array does not free the memory. */
void tvm_array_disown(TVMArrayHandle array);
/* Adds a function written in C to a module. `self` lives as long as the module; a function that is handed out keeps the
 * module alive. */
int tvm_module_builtin(TVMModuleHandle mod, const char *name, TVMBackendPackedCFunc code, void *self);
/* The first lookup for functions of the module, before its symbols and imports; *out is NULL if it has no such
 * function. */
typedef int (*ModuleLookup)(void *resource, const char *name, TVMFunctionHandle *out);
void tvm_module_set_lookup(TVMModuleHandle mod, ModuleLookup lookup);
/* Returns the resource of a module that was created with the finalizer `kind`, or NULL for other modules. */
void *tvm_module_resource(TVMModuleHandle mod, TVMFinalizer kind);
/* Visits a module and all its imports once each, depth first. A non-zero return value of `visit` ends the traversal and
 * is returned. */
typedef int (*ModuleVisit)(TVMModuleHandle mod, void *data);
int tvm_module_walk(TVMModuleHandle mod, ModuleVisit visit, void *data);

bool tvm_is_compact(const DLTensor *tensor);
/* Size of one element of a dtype in bytes: one byte per lane for bool, packed lanes for other types. */
size_t tvm_dtype_bytes(DLDataType dtype);
void tvm_dtype_text(DLDataType dtype, char *out, size_t size);

int tvm_check_tensor(const void *spec, int arg_index, TVMValue value, int code, const DLTensor **out);
int tvm_raise_value(const char *text, int64_t value);
int tvm_raise_argument_error(const char *func, int arg_index, const char *what);

/* ---- parameter files, read array by array from memory or from a file (params.c) ---- */
enum { PARAMS_MAX_NDIM = 64 };

typedef struct {
  const unsigned char *start, *at; /* for a blob in memory; NULL for a file */
  FILE *file;
  size_t size, left;
  char **names;
  int count, done;
  int64_t shape[PARAMS_MAX_NDIM];
  DLTensor head;  /* type and shape of the current array; its data is NULL unless the bytes are in memory */
  size_t nbytes;  /* size of its data, which has not been read yet */
} ParamReader;

/* Reads the names, then checks the headers of all arrays, so that a damaged blob is rejected before any array is used.
 * Close the reader whether or not opening succeeds. */
int params_open(ParamReader *reader, const void *data, size_t size);
int params_open_file(ParamReader *reader, const char *path);
void params_close(ParamReader *reader);
/* Reads the header of the next array, whose name is names[done]. */
int params_next(ParamReader *reader);
/* Copies the data of that array to `out`, or skips the data if `out` is NULL. */
int params_take(ParamReader *reader, void *out);

/* Arrays by name. `params_borrow` uses the data in the blob without a copy where it is aligned like an allocated array. */
int params_borrow(const void *data, size_t size, TVMParamsHandle *out);
int params_new(int count, TVMParamsHandle *out);
int params_put(TVMParamsHandle params, int index, const char *name, TVMArrayHandle array); /* takes ownership of the array */

/* ---- libraries: library.c contains all platform code for opening them ---- */
/* A shared library that was opened, or an object file that was linked into this process. */
typedef struct Library Library;
/* Checks the file and opens a private copy of it; returns NULL with the last error set on failure. */
Library *library_open(const char *path);
/* Opens a library from the bytes of a file; errors name the file `path`. A `sealed` library must be a shared library
 * that ends with its checksum. */
Library *library_open_bytes(const char *path, const unsigned char *bytes, size_t size, bool sealed);
/* Checks that the CPU has the features that the code in a file needs (needs.c). */
int tvm_check_needs(const char *path, const unsigned char *bytes, size_t size);
/* Check libraries of Windows and macOS (image.c): return NULL, or why the file is not a library for this processor, which
 * may be in `text`. */
const char *image_check_pe(const unsigned char *bytes, size_t size, char *text, size_t room);
const char *image_check_macho(const unsigned char *bytes, size_t size, char *text, size_t room);
/* Reads a regular file; the caller frees the bytes. */
int tvm_read_file(const char *path, unsigned char **out, size_t *out_size);
/* Creates the module of an open library; takes ownership of the library, also on failure. */
int tvm_module_of_library(Library *library, TVMModuleHandle *out);
void library_close(Library *library);
/* Returns a symbol that the library itself defines (not one of its dependencies), or NULL. */
void *library_symbol(Library *library, const char *name);
/* Returns a data symbol and its size in bytes. */
const void *library_data(Library *library, const char *name, size_t *out_size);

/* ---- object files, linked into this process without an external linker (object.c) ---- */
typedef struct Object Object;
/* Whether a file is an object file (and not a library). */
bool object_is(const unsigned char *bytes, size_t size);
/* Returns NULL and sets `why` if the file is damaged, was built for another machine, or needs an undefined symbol. The
 * object may use symbols that this runtime exports. */
Object *object_open(const unsigned char *bytes, size_t size, char *why, size_t room);
void object_close(Object *object);
/* Returns a symbol that the object exports, and its size; NULL if there is none. */
void *object_symbol(const Object *object, const char *name, size_t *out_size);

/* ---- devices (device.c, device_module.c) ---- */
/* Attribute numbers, as used by Python's Device class. */
typedef enum {
  DEVICE_EXIST, DEVICE_MAX_THREADS_PER_BLOCK, DEVICE_WARP_SIZE, DEVICE_MAX_SHARED_MEMORY_PER_BLOCK,
  DEVICE_COMPUTE_VERSION, DEVICE_NAME, DEVICE_MAX_CLOCK_RATE, DEVICE_MULTI_PROCESSOR_COUNT,
  DEVICE_MAX_THREAD_DIMENSIONS, DEVICE_MAX_REGISTERS_PER_BLOCK, DEVICE_GCN_ARCH, DEVICE_API_VERSION,
  DEVICE_DRIVER_VERSION, DEVICE_L2_CACHE_SIZE_BYTES, DEVICE_TOTAL_GLOBAL_MEMORY, DEVICE_AVAILABLE_GLOBAL_MEMORY
} DeviceAttribute;

/* ---- device modules: compiled kernels that are loaded onto a device at the first call ---- */
typedef TVMDeviceImage DeviceImage;
typedef TVMDeviceKernel DeviceKernel;
typedef TVMDeviceModule DeviceModule;
typedef TVMKernelArgType ArgType;
typedef TVMKernelArg KernelArg;
typedef TVMLaunchSizes LaunchSizes;
enum { LAUNCH_BLOCK = 3, LAUNCH_SHARED = 6, LAUNCH_FIELDS = 7, MAX_KERNEL_ARGS = 512 };
_Static_assert(sizeof(LaunchSizes) == LAUNCH_FIELDS * sizeof(int64_t), "LaunchSizes must contain exactly its launch fields");
/* Returns the lock that protects a module's driver data. */
pthread_mutex_t *tvm_module_lock(DeviceModule *module);

/* Memory that is aligned to a huge page is allocated with huge pages. */
enum { TVM_HUGE_PAGE = 2 << 20 };

/* Device types are below this number; remote devices have types from this number on, as in Apache TVM. */
enum { DEVICE_TYPES = 128 };
typedef TVMDeviceApi DeviceApi;
extern const DeviceApi tvm_cpu_api;
const DeviceApi *tvm_device(DLDevice device); /* opens the device; NULL with the last error set on failure */
/* Returns the driver of a device type, or NULL if there is none; does not open a device. */
const DeviceApi *tvm_driver(int device_type);
/* Whether a device type uses host memory. */
bool tvm_is_host(int device_type);

/* Opens the library that the environment variable names, or else the first of `names` (separated by spaces) that
 * exists. */
void *tvm_driver_library(const char *variable, const char *names);
/* Returns the device number of a device type that the calling thread has selected. */
int tvm_current_device(int device_type);
int tvm_attribute_int(int64_t value, TVMValue *out, int *out_code);
int tvm_attribute_text(const char *text, TVMValue *out, int *out_code);
/* Sets types[t] for each device type t whose kernels a module imports; returns the number of device types. */
int tvm_module_devices(TVMModuleHandle mod, bool types[DEVICE_TYPES]);
/* Watches whether generated code of this thread calls any function other than a kernel: a graph replay would skip it. */
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

/* ---- registration at load time: core calls the components above it through these functions (start.c) ---- */
/* Registers the functions that core itself implements. */
void tvm_core_start(void);
void tvm_device_modules_start(void);
/* Registers a global function of the runtime. */
void tvm_builtin(const char *name, TVMBackendPackedCFunc code);
/* Registers the driver of a device type. */
void tvm_driver_add(int device_type, const DeviceApi *api);
/* Registers a callback that runs in the child process after a fork. */
void tvm_fork_child_add(void (*callback)(void));
/* Registers the loader of a packed module type that loading a library returns instead of the library. The module
 * imports the library, which keeps the packed bytes in memory. */
typedef int (*RootLoader)(TVMByteArray packed, TVMModuleHandle library, TVMModuleHandle *out);
void tvm_root_loader_add(const char *type_key, RootLoader load);
/* Registers the loader of a file format; the format is the suffix of the file name. */
typedef int (*FileLoader)(const char *path, TVMModuleHandle *out);
void tvm_file_loader_add(const char *format, FileLoader load);
/* Devices, functions and modules of remote machines. `import` returns 1 for a module of this machine. */
typedef struct {
  const DeviceApi *device;
  bool (*is_function)(TVMFunctionHandle func);
  int (*time)(TVMCallFrame *frame, const TVMTimeOptions *options, double *out_seconds);
  int (*import)(TVMModuleHandle mod, TVMModuleHandle dep);
} RemoteApi;
void tvm_remote_set(const RemoteApi *api);
const RemoteApi *tvm_remote(void); /* NULL if the runtime was built without rpc/ */

#endif /* TVM_SRC_CORE_CORE_H_ */
