/* The virtual machine: what its files share. docs/vm.md describes the instructions and the saved form. */
#ifndef TVM_SRC_VM_VM_H_
#define TVM_SRC_VM_VM_H_

#include "../core/core.h"

/* ---- memory: blocks of a pool, each kept by the tensors that lie in it ---- */
typedef struct VMPool VMPool;
typedef struct VMBlock {
  DLManagedTensor managed; /* how arrays keep the block: their deleter gives it back */
  atomic_int refs;
  VMPool *pool;
  size_t size;
  struct VMBlock *next, *last;    /* among the free blocks of its size class */
  struct VMBlock *before, *after; /* the other parts of what the device gave as one, in the order of addresses */
  bool is_free;
} VMBlock;

/* A pool lives until it is closed and its last block has come back. A naive one keeps no free blocks. */
VMPool *vm_pool_open(DLDevice device, bool naive);
void vm_pool_close(VMPool *pool);
/* Begins a run: if blocks had to be freed, one block of the peak size replaces the free blocks. */
void vm_pool_begin(VMPool *pool);
/* A block of at least this size, owned by the caller; NULL with the last error set. Before memory goes back to the device,
 * what the machine has gathered is launched. */
struct VM;
VMBlock *vm_block_take(VMPool *pool, size_t nbytes, struct VM *vm);
void vm_block_release(VMBlock *block);
/* Bytes the pool has from the device: used and free. */
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

/* Data made by a constructor, a tuple, or a closure; see tvm_runtime.h. */
typedef struct {
  struct TVMObject head;
  int64_t tag;    /* of data: the constructor; of a closure: its function */
  uint64_t owner; /* of a closure: the executable whose function it is; 0 for data */
  int64_t count;
  VMValue fields[];
} VMObject;

/* An object whose fields are empty. */
VMObject *vm_object_new(int kind, int64_t tag, uint64_t owner, int64_t count);
/* A value from outside: arrays, objects and integers; and back, owned by the caller. */
int vm_value_from(TVMValue value, int code, VMValue *out);
int vm_value_to(const VMValue *value, TVMValue *out, int *out_code);

/* ---- executables ---- */
#define VM_VERSION 3
#define VM_MAGIC "TVMVMEXE"

/* Numbers of the instructions: those of classic TVM, and VM_SET_FIELD for references. */
typedef enum {
  VM_MOVE, VM_RET, VM_INVOKE, VM_INVOKE_CLOSURE, VM_INVOKE_PACKED, VM_ALLOC_TENSOR, VM_ALLOC_TENSOR_REG, VM_ALLOC_ADT,
  VM_ALLOC_CLOSURE, VM_GET_FIELD, VM_IF, VM_LOAD_CONST, VM_GOTO, VM_GET_TAG, VM_LOAD_CONSTI, VM_FATAL, VM_ALLOC_STORAGE,
  VM_SHAPE_OF, VM_RESHAPE_TENSOR, VM_DEVICE_COPY, VM_KILL_REGISTER, VM_SET_FIELD, VM_OPCODES
} VMOpcode;

typedef struct {
  char *name;
  char **params; /* names */
  int param_count, register_count;
  int *param_devices;  /* numbers of devices of the executable; of values that are no tensors it says nothing */
  /* In the words of the executable, the types of tensors: how many words follow, none where nothing is known; the data type;
   * the sizes, of which negative ones are unknown: -1, or one number for all places of one size. */
  const int64_t **param_types;
  const int64_t *code; /* in the words of the executable */
  int64_t length;
} VMFunction;

typedef struct { char *name; int device; TVMArrayHandle array; /* NULL until it is given */ } VMConstant;

/* Everything in it has been checked: registers, jumps, and numbers of functions, constants, kernels and devices. */
typedef struct VMExecutable {
  uint64_t id; /* of no other executable of the process */
  TVMModuleHandle library;
  int64_t *words;
  int64_t word_count;
  int *devices; /* types; the first is the host's */
  int device_count;
  char **kernels;
  int kernel_count;
  VMConstant *constants;
  int constant_count;
  VMFunction *functions;
  int function_count;
  TVMParamsHandle params;
} VMExecutable;

/* Fills an executable of zeros from its saved form. Arrays are read in place where the bytes outlive the executable. */
int vm_read(VMExecutable *exe, const char *data, size_t size, bool in_place);
void vm_clear(VMExecutable *exe);
int vm_find_function(const VMExecutable *exe, const char *name); /* -1 where there is none */

/* ---- running ---- */
typedef struct { bool given; VMValue *values; } VMInputs;
typedef struct { int64_t kernel; double seconds; char *shapes; } VMRecord;

typedef struct VMLaunches VMLaunches;

typedef struct VM {
  TVMModuleHandle owner; /* the module of the executable */
  const VMExecutable *exe;
  DLDevice *devices; /* of the numbers in the executable */
  VMPool **pools;
  TVMFunctionHandle *kernels;
  TVMArrayHandle *constants; /* on their devices */
  VMInputs *inputs;          /* of every function */
  VMValue outputs;           /* what invoke_stateful left */
  bool is_ready, flush_denormals;
  bool profiles;
  VMRecord *records;
  int64_t record_count, record_capacity;
  int64_t steps_left; /* negative: no limit */
  int64_t copies;        /* between devices, so far */
  VMLaunches *launches;  /* NULL where no device offers captures */
} VM;

/* ---- launches: kernels of one device are gathered and given to it together; see launch.c ---- */
VMLaunches *vm_launches_open(DLDevice device); /* NULL for a device that offers no captures */
void vm_launches_close(VMLaunches *launches);
void vm_launches_set(VMLaunches *launches, bool captures_runs);
int64_t vm_launches_graphs(const VMLaunches *launches);
int64_t vm_launches_replays(const VMLaunches *launches);
void vm_launches_drop(VMLaunches *launches);
/* A call of a kernel of a machine that has launches: whether it was taken, and otherwise all before it are launched if it
 * uses memory of their device. */
int vm_launch_call(VM *vm, int64_t kernel, const TVMValue *args, int64_t count, bool *taken);
/* Gives the device all that has been gathered. */
int vm_launch(VM *vm);

/* Calls a function on values that stay the caller's. */
int vm_run(VM *vm, int function, const VMValue *args, VMValue *out);
int vm_executable_module(const char *data, size_t size, bool in_place, TVMModuleHandle library, TVMModuleHandle *out);
/* The machine of a module that `vm_load_executable` gave; NULL for others. */
VM *vm_of_module(TVMModuleHandle mod);
/* Registers the virtual machine with core. */
void tvm_vm_start(void);
enum { VM_MOST_FRAMES = 1 << 20 };

#endif /* TVM_SRC_VM_VM_H_ */
