/* The virtual machine: declarations that its files share. docs/vm.md describes the instructions and the serialized
 * form. */
#ifndef TVM_SRC_VM_VM_H_
#define TVM_SRC_VM_VM_H_

#include "../core/core.h"

/* ---- memory: blocks of a pool, reference-counted by the tensors in them ---- */
typedef struct VMPool VMPool;
typedef struct VMBlock {
  DLManagedTensor managed; /* arrays reference the block through this; the deleter releases the block */
  atomic_int refs;
  VMPool *pool;
  size_t size;
  struct VMBlock *next, *last;    /* links in the list of free blocks of the size class */
  struct VMBlock *before, *after; /* adjacent parts of the same device allocation, in address order */
  bool is_free;
} VMBlock;

/* A pool lives until it is closed and its last block has been released. A naive pool keeps no free blocks. */
VMPool *vm_pool_open(DLDevice device, bool naive);
void vm_pool_close(VMPool *pool);
/* Begins a run: if blocks had to be freed, one block of the peak size replaces the free blocks. */
void vm_pool_begin(VMPool *pool);
/* Returns a block of at least this size, owned by the caller; NULL with the last error set on failure. Queued kernels
 * of the machine are launched before memory is returned to the device. */
struct VM;
VMBlock *vm_block_take(VMPool *pool, size_t nbytes, struct VM *vm);
void vm_block_release(VMBlock *block);
/* Returns the number of bytes that the pool has allocated on the device, used and free. */
size_t vm_pool_bytes(VMPool *pool);

/* ---- values of registers ---- */
typedef enum { VM_EMPTY, VM_INT, VM_TENSOR, VM_STORAGE, VM_OBJECT } VMKind;
typedef struct {
  VMKind kind;
  union { int64_t number; TVMArrayHandle tensor; VMBlock *storage; TVMObjectHandle object; } as;
} VMValue;

static inline void vm_value_retain(const VMValue *value) {
  if (value->kind == VM_TENSOR) TVMArrayRetain(value->as.tensor);
  else if (value->kind == VM_OBJECT) TVMObjectRetain(value->as.object);
  else if (value->kind == VM_STORAGE) atomic_fetch_add_explicit(&value->as.storage->refs, 1, memory_order_relaxed);
}

static inline void vm_value_release(VMValue *value) {
  VMKind kind = value->kind;
  value->kind = VM_EMPTY;
  if (kind == VM_TENSOR) TVMArrayFree(value->as.tensor);
  else if (kind == VM_OBJECT) TVMObjectFree(value->as.object);
  else if (kind == VM_STORAGE) vm_block_release(value->as.storage);
}

/* An ADT value, a tuple or a closure; see tvm_runtime.h. */
typedef struct {
  struct TVMObject head;
  int64_t tag;    /* ADT value: the constructor; closure: its function */
  uint64_t owner; /* closure: the executable of its function; ADT value: 0 */
  int64_t count;
  VMValue fields[];
} VMObject;

/* Creates an object whose fields are empty. */
VMObject *vm_object_new(int kind, int64_t tag, uint64_t owner, int64_t count);
/* Converts an argument (array, object or integer) to a VM value; and a VM value to a result, owned by the caller. */
int vm_value_from(TVMValue value, int code, VMValue *out);
int vm_value_to(const VMValue *value, TVMValue *out, int *out_code);

/* ---- executables ---- */
#define VM_VERSION 3
#define VM_MAGIC "TVMVMEXE"

/* Opcodes: those of Apache TVM, and VM_SET_FIELD for references. */
typedef enum {
  VM_MOVE, VM_RET, VM_INVOKE, VM_INVOKE_CLOSURE, VM_INVOKE_PACKED, VM_ALLOC_TENSOR, VM_ALLOC_TENSOR_REG, VM_ALLOC_ADT,
  VM_ALLOC_CLOSURE, VM_GET_FIELD, VM_IF, VM_LOAD_CONST, VM_GOTO, VM_GET_TAG, VM_LOAD_CONSTI, VM_FATAL, VM_ALLOC_STORAGE,
  VM_SHAPE_OF, VM_RESHAPE_TENSOR, VM_DEVICE_COPY, VM_KILL_REGISTER, VM_SET_FIELD, VM_OPCODES
} VMOpcode;

typedef struct {
  char *name;
  char **params; /* names of the parameters */
  int param_count, register_count;
  int *param_devices;  /* indices of devices in the executable; unused for parameters that are not tensors */
  /* For each parameter, a pointer into the words of the executable: the number of words that follow, 0 if the type is
   * unknown; the data type; the dimensions, where -1 is dynamic and other negative numbers identify equal dynamic
   * dimensions. */
  const int64_t **param_types;
  const int64_t *code; /* points into the words of the executable */
  int64_t length;
} VMFunction;

typedef struct { char *name; int device; TVMArrayHandle array; /* NULL until it is set */ } VMConstant;

/* A validated executable: registers, jumps and the indices of functions, constants, kernels and devices are in range. */
typedef struct VMExecutable {
  uint64_t id; /* unique in the process */
  TVMModuleHandle library;
  int64_t *words;
  int64_t word_count;
  int *devices; /* device types; the first is the host */
  int device_count;
  char **kernels;
  int kernel_count;
  VMConstant *constants;
  int constant_count;
  VMFunction *functions;
  int function_count;
  TVMParamsHandle params;
} VMExecutable;

/* Fills a zero-initialized executable from its serialized form. With `in_place` the bytes outlive the executable, and
 * arrays are read from them without a copy. */
int vm_read(VMExecutable *exe, const char *data, size_t size, bool in_place);
void vm_clear(VMExecutable *exe);
int vm_find_function(const VMExecutable *exe, const char *name); /* -1 if there is none */

/* ---- running ---- */
typedef struct { bool given; VMValue *values; } VMInputs;
typedef struct { int64_t kernel; double seconds; char *shapes; } VMRecord;

typedef struct VMLaunches VMLaunches;

typedef struct VM {
  TVMModuleHandle owner; /* module of the executable */
  const VMExecutable *exe;
  DLDevice *devices; /* device for each device index of the executable */
  VMPool **pools;
  TVMFunctionHandle *kernels;
  TVMArrayHandle *constants; /* constants, copied to their devices */
  VMInputs *inputs;          /* inputs of every function */
  VMValue outputs;           /* output of the last invoke_stateful */
  bool is_ready, flush_denormals;
  bool profiles;
  VMRecord *records;
  int64_t record_count, record_capacity;
  int64_t steps_left; /* negative: no limit */
  int64_t copies;        /* number of copies between devices so far */
  VMLaunches *launches;  /* NULL if no device supports captures */
} VM;

/* ---- launches: kernel launches of one device are queued and submitted together; see launch.c ---- */
VMLaunches *vm_launches_open(DLDevice device); /* NULL if the device does not support captures */
void vm_launches_close(VMLaunches *launches);
void vm_launches_set(VMLaunches *launches, bool captures_runs);
int64_t vm_launches_graphs(const VMLaunches *launches);
int64_t vm_launches_replays(const VMLaunches *launches);
void vm_launches_drop(VMLaunches *launches);
/* Queues a kernel call if possible and sets `taken`. Otherwise, if the kernel uses memory of the device, all queued
 * kernels are launched first. */
int vm_launch_call(VM *vm, int64_t kernel, const TVMValue *args, int64_t count, bool *taken);
/* Launches all queued kernels. */
int vm_launch(VM *vm);

/* Calls a function; the caller keeps ownership of the argument values. */
int vm_run(VM *vm, int function, const VMValue *args, VMValue *out);
int vm_executable_module(const char *data, size_t size, bool in_place, TVMModuleHandle library, TVMModuleHandle *out);
/* Returns the virtual machine of a module that `vm_load_executable` returned; NULL for other modules. */
VM *vm_of_module(TVMModuleHandle mod);
/* Registers the virtual machine with core. */
void tvm_vm_start(void);
enum { VM_MOST_FRAMES = 1 << 20 };

#endif /* TVM_SRC_VM_VM_H_ */
