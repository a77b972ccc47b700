/* Shared by the runtime's own files only. */
#ifndef TVM_SRC_INTERNAL_H_
#define TVM_SRC_INTERNAL_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../include/tvm_runtime.h"

/* Sets the last error from a format; an expression of value -1, so a refusal is one line. */
void tvm_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define tvm_error(...) (tvm_set_error(__VA_ARGS__), -1)

/* The last error as a value, to carry it from one thread to another. */
enum { TVM_ERROR_TEXT_SIZE = 8192 };
typedef struct { uint64_t token; char text[TVM_ERROR_TEXT_SIZE]; } ErrorRecord;
void tvm_error_save(ErrorRecord *out);
void tvm_error_restore(const ErrorRecord *record);
/* Asks the embedding language whether to stop; 0 to go on. The second asks at most every 50 ms. */
int tvm_interrupt_pending(void);
int tvm_interrupt_check(void);
double tvm_now(void); /* seconds of a monotonic clock */

/* ---- string map: name -> pointer; keys are copied ---- */
typedef struct { char *key; void *value; } MapEntry;
typedef struct { MapEntry *entries; size_t capacity; size_t count; } StringMap;
void *map_get(const StringMap *map, const char *key);
/* Puts or replaces; *out_old receives what was there. Returns -1 without memory. */
int map_put(StringMap *map, const char *key, void *value, void **out_old);
void *map_remove(StringMap *map, const char *key);
void map_clear(StringMap *map); /* frees keys and table, not the values */

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
/* Of the embedding language, or, of another kind, data of the virtual machine, whose fields follow (vm.h). */
struct TVMObject { atomic_int refs; int32_t kind; uint64_t token; TVMFinalizer finalize; };
/* Frees data of the virtual machine that nobody holds. */
void tvm_object_delete(struct TVMObject *dead);
/* Drops what a returned value owns (arrays, modules, functions, objects). */
void tvm_release_value(TVMValue value, int code);
/* An array over memory that outlives it. */
int tvm_array_borrow(const DLTensor *tensor, TVMArrayHandle *out);
/* An array over memory that its driver frees with it. */
int tvm_array_adopt(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, void *data, TVMArrayHandle *out);
/* An array in memory that is given back through `keeper`, whose deleter is called with the array's end. */
int tvm_array_within(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, DLManagedTensor *keeper,
                     size_t offset, TVMArrayHandle *out);
/* Bytes of a compact tensor. */
int tvm_byte_size(const int64_t *shape, int ndim, DLDataType dtype, size_t *out);
/* The memory outlives the array, and somebody else frees it. */
void tvm_array_disown(TVMArrayHandle array);
/* Gives the inputs of these names of an executor their values; see graph_use. */
int tvm_graph_use_params(TVMModuleHandle executor, TVMParamsHandle params);
void tvm_register_builtins(void);
void tvm_register_graph(void);
void tvm_register_factory(void);
void tvm_register_vm(void);
/* An executor of the graph described by JSON text, over the functions of a library, on one device of each type. */
typedef struct { DLDevice items[16]; int count; } DeviceList;
int tvm_graph_create(const char *text, size_t size, TVMModuleHandle library, const DeviceList *devices, TVMModuleHandle *out);
/* The devices of arguments: devices, or for each its type and its number. */
int tvm_device_list(const TVMValue *args, const int *codes, int n, DeviceList *out);
/* The factory packed in a library, which becomes its import and keeps the packed bytes in memory. */
int tvm_factory_load(TVMByteArray packed, TVMModuleHandle library, TVMModuleHandle *out);
/* The same for an executable of the virtual machine. */
int tvm_executable_load(TVMByteArray packed, TVMModuleHandle library, TVMModuleHandle *out);
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
void tvm_builtin(const char *name, TVMBackendPackedCFunc code);
void tvm_registry_fork(int stage); /* 0 before, 1 in the parent, 2 in the child */
void tvm_pool_fork_child(void);

/* ---- devices; see device.h ---- */
typedef TVMDeviceApi DeviceApi;
const DeviceApi *tvm_device(DLDevice device); /* NULL with the last error set */

bool tvm_is_compact(const DLTensor *tensor);
/* Element bytes of a dtype: whole bytes per lane for bool, packed otherwise. */
size_t tvm_dtype_bytes(DLDataType dtype);
void tvm_dtype_text(DLDataType dtype, char *out, size_t size);

int tvm_check_tensor(const void *spec, int arg_index, TVMValue value, int code, const DLTensor **out);
int tvm_raise_value(const char *text, int64_t value);
int tvm_raise_argument_error(const char *func, int arg_index, const char *what);

#endif /* TVM_SRC_INTERNAL_H_ */
