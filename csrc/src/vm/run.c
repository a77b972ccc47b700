/* The instruction interpreter of the virtual machine.
 *
 * The registers of all frames are in one growing stack, so only memory limits the depth of recursion. A tail call
 * reuses the frame of its caller.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm.h"

typedef struct { int function; int64_t pc, base; int64_t result; /* register of the caller that receives the return value */ } Frame;

typedef struct {
  VM *vm;
  const VMFunction *function;
  VMValue *registers; /* registers of the current function */
  VMValue *stack;
  int64_t base, capacity;
  Frame *frames;
  int64_t depth, frame_capacity;
  TVMValue *args; /* arguments of a kernel */
  int *codes;
  int64_t arg_count, arg_capacity;
  VMValue *moved; /* arguments that are copied into a new frame */
  int64_t moved_capacity;
} Run;

/* Ensures that an array has room for `wanted` elements. */
static int reserve(void **memory, int64_t *capacity, int64_t wanted, size_t item) {
  if (wanted <= *capacity) return 0;
  int64_t room = *capacity * 2 > wanted ? *capacity * 2 : wanted;
  void *grown = realloc(*memory, (size_t)room * item);
  if (!grown) return tvm_error("virtual machine: out of memory");
  *memory = grown;
  *capacity = room;
  return 0;
}

static inline void put(Run *run, int64_t to, VMValue value) {
  if (run->registers[to].kind > VM_INT) vm_value_release(&run->registers[to]);
  run->registers[to] = value;
}

/* Stores a value in a register and adds a reference to it. */
static inline void share(Run *run, int64_t to, VMValue value) {
  vm_value_retain(&value);
  put(run, to, value);
}

static const char *const KIND_NAMES[] = {"no value", "an integer", "a tensor", "a storage", "an ADT value or a closure"};

static int wrong_kind(const VMValue *value, const char *wanted) {
  return tvm_error("virtual machine: expected %s, but the register contains %s", wanted, KIND_NAMES[value->kind]);
}

static int tensor_in(const Run *run, int64_t from, TVMArrayHandle *out) {
  const VMValue *value = &run->registers[from];
  if (value->kind != VM_TENSOR) return wrong_kind(value, "a tensor");
  *out = value->as.tensor;
  return 0;
}

static int object_in(const Run *run, int64_t from, int kind, VMObject **out) {
  const VMValue *value = &run->registers[from];
  if (value->kind != VM_OBJECT || value->as.object->kind != kind)
    return wrong_kind(value, kind == kTVMObjectADT ? "an ADT value" : "a closure");
  *out = (VMObject *)value->as.object;
  return 0;
}

/* ---- integers in tensors ---- */

static int64_t number_at(DLDataType dtype, const char *at) {
  int64_t value = 0;
  bool is_signed = dtype.code == kDLInt;
  switch (tvm_dtype_bytes(dtype)) {
    case 1: return is_signed ? *(const int8_t *)at : *(const uint8_t *)at;
    case 2: { int16_t v; memcpy(&v, at, 2); return is_signed ? v : (uint16_t)v; }
    case 4: { int32_t v; memcpy(&v, at, 4); return is_signed ? v : (int64_t)(uint32_t)v; }
    default: memcpy(&value, at, 8); return value;
  }
}

/* Copies at most MOST_DIMS integers of a tensor to the host. */
enum { MOST_DIMS = 64 };
static int numbers_of(const Run *run, const DLTensor *tensor, int64_t *out, int *count) {
  char bytes[MOST_DIMS * 8];
  size_t nbytes, item = tvm_dtype_bytes(tensor->dtype);
  if ((tensor->dtype.code != kDLInt && tensor->dtype.code != kDLUInt) || tensor->dtype.lanes != 1)
    return tvm_error("virtual machine: expected a tensor of integers");
  if (tensor->device.device_type == kDLCPU && tensor->ndim == 1 && !tensor->strides && item == 8 && tensor->shape[0] <= MOST_DIMS) {
    if ((*count = (int)tensor->shape[0])) memcpy(out, (char *)tensor->data + tensor->byte_offset, (size_t)*count * 8);
    return 0; /* fast path for shapes */
  }
  if (TVMTensorByteSize(tensor, &nbytes)) return -1;
  if (nbytes / item > MOST_DIMS) return tvm_error("virtual machine: a shape has %zu dimensions, which exceeds the maximum of 64", nbytes / item);
  if (tensor->device.device_type != kDLCPU && vm_launch(run->vm)) return -1;
  if (TVMArrayCopyToBytes(tensor, bytes, nbytes)) return -1;
  *count = (int)(nbytes / item);
  for (int i = 0; i < *count; ++i) out[i] = number_at(tensor->dtype, bytes + (size_t)i * item);
  return 0;
}

/* Reads an integer from a register, which may contain a tensor with one element. */
static int number_in(const Run *run, int64_t from, int64_t *out) {
  const VMValue *value = &run->registers[from];
  if (value->kind == VM_INT) return *out = value->as.number, 0;
  if (value->kind != VM_TENSOR) return wrong_kind(value, "an integer");
  const DLTensor *tensor = value->as.tensor;
  bool plain = tensor->ndim == 0 && tensor->device.device_type == kDLCPU && tensor->dtype.lanes == 1;
  if (plain && (tensor->dtype.code == kDLInt || tensor->dtype.code == kDLUInt))
    return *out = number_at(tensor->dtype, (const char *)tensor->data + tensor->byte_offset), 0;
  int64_t numbers[MOST_DIMS];
  int count;
  if (numbers_of(run, tensor, numbers, &count)) return -1;
  if (count != 1) return tvm_error("virtual machine: expected a tensor with one element, got one with %d", count);
  *out = numbers[0];
  return 0;
}

static int shape_in(const Run *run, int64_t from, int64_t *shape, int *ndim) {
  TVMArrayHandle tensor;
  return tensor_in(run, from, &tensor) || numbers_of(run, tensor, shape, ndim) ? -1 : 0;
}

static DLDataType dtype_of(int64_t word) {
  return (DLDataType){(uint8_t)word, (uint8_t)(word >> 8), (uint16_t)(word >> 16)};
}

/* ---- frames ---- */

/* Makes the registers of `f` start at `base` of the stack; the registers above are empty. */
static int open_frame(Run *run, const VMFunction *f, int64_t base) {
  int64_t before = run->capacity;
  if (reserve((void **)&run->stack, &run->capacity, base + f->register_count, sizeof *run->stack)) return -1;
  for (int64_t i = before; i < run->capacity; ++i) run->stack[i].kind = VM_EMPTY;
  run->base = base;
  run->registers = run->stack + base;
  run->function = f;
  return 0;
}

static void empty_registers(Run *run) {
  for (int i = 0; i < run->function->register_count; ++i)
    if (run->registers[i].kind != VM_EMPTY) vm_value_release(&run->registers[i]);
}

static bool is_returned(const Run *run, int64_t pc, int64_t result) {
  return run->function->code[pc] == VM_RET && run->function->code[pc + 1] == result;
}

/* Calls a function: the `count` values in `moved` become its registers. The caller continues at `next`. */
static int enter(Run *run, int64_t number, int64_t count, int64_t result, int64_t next, int64_t *pc) {
  const VMFunction *caller = run->function, *f = &run->vm->exe->functions[number];
  int64_t base = run->base;
  int status = 0;
  if (is_returned(run, next, result)) {
    empty_registers(run);
  } else {
    base += caller->register_count;
    if (run->depth >= VM_MOST_FRAMES)
      status = tvm_error("virtual machine: calls are nested deeper than %d", VM_MOST_FRAMES);
    if (!status) status = reserve((void **)&run->frames, &run->frame_capacity, run->depth + 1, sizeof *run->frames);
    if (!status) run->frames[run->depth++] = (Frame){(int)(caller - run->vm->exe->functions), next, run->base, result};
  }
  if (!status) status = open_frame(run, f, base);
  for (int64_t i = 0; i < count; ++i) {
    if (status) vm_value_release(&run->moved[i]);
    else run->registers[i] = run->moved[i];
  }
  *pc = 0;
  return status;
}

static int take_arguments(Run *run, const int64_t *from, int64_t count, int64_t at) {
  if (reserve((void **)&run->moved, &run->moved_capacity, at + count, sizeof *run->moved)) return -1;
  for (int64_t i = 0; i < count; ++i) {
    run->moved[at + i] = run->registers[from[i]];
    vm_value_retain(&run->moved[at + i]);
  }
  return 0;
}

static int do_invoke(Run *run, const int64_t *in, int64_t *pc) {
  return take_arguments(run, in + 4, in[3], 0) ? -1 : enter(run, in[2], in[3], in[1], *pc + 4 + in[3], pc);
}

static int do_invoke_closure(Run *run, const int64_t *in, int64_t *pc) {
  VMObject *closure;
  if (object_in(run, in[2], kTVMObjectClosure, &closure)) return -1;
  if (closure->owner != run->vm->exe->id) return tvm_error("virtual machine: the closure belongs to another executable");
  int64_t held = closure->count, given = in[3], wanted = run->vm->exe->functions[closure->tag].param_count;
  if (held + given != wanted)
    return tvm_error("virtual machine: a closure with %lld parameters is called with %lld arguments", (long long)(wanted - held),
                     (long long)given);
  if (reserve((void **)&run->moved, &run->moved_capacity, wanted, sizeof *run->moved)) return -1;
  for (int64_t i = 0; i < held; ++i) vm_value_retain(&closure->fields[i]), run->moved[i] = closure->fields[i];
  int64_t number = closure->tag; /* a tail call may free the closure */
  return take_arguments(run, in + 4, given, held) ? -1 : enter(run, number, wanted, in[1], *pc + 4 + given, pc);
}

/* Returns from a function; the result is true at the end of the run, whose return value is stored in `out`. */
static bool leave(Run *run, const int64_t *in, VMValue *out, int64_t *pc) {
  VMValue result = run->registers[in[1]];
  run->registers[in[1]].kind = VM_EMPTY;
  empty_registers(run);
  if (!run->depth) return *out = result, true;
  Frame frame = run->frames[--run->depth];
  run->function = &run->vm->exe->functions[frame.function];
  run->base = frame.base;
  run->registers = run->stack + frame.base;
  put(run, frame.result, result);
  *pc = frame.pc;
  return false;
}

/* ---- kernels ---- */

static int more_arguments(Run *run) {
  int64_t code_capacity = run->arg_capacity;
  return reserve((void **)&run->codes, &code_capacity, run->arg_count + 1, sizeof *run->codes) ||
         reserve((void **)&run->args, &run->arg_capacity, run->arg_count + 1, sizeof *run->args) ? -1 : 0;
}

static int add_fields(Run *run, const VMValue *value, int depth);

static inline int add_argument(Run *run, const VMValue *value, int depth) {
  if (value->kind != VM_TENSOR) return add_fields(run, value, depth);
  if (run->arg_count == run->arg_capacity && more_arguments(run)) return -1;
  run->args[run->arg_count].v_handle = value->as.tensor;
  return run->codes[run->arg_count++] = kTVMNDArrayHandle, 0;
}

/* Adds the fields of a tuple as arguments; nested tuples are only a few levels deep. */
static int add_fields(Run *run, const VMValue *value, int depth) {
  if (value->kind != VM_OBJECT || value->as.object->kind != kTVMObjectADT || depth > 32) return wrong_kind(value, "a tensor");
  const VMObject *tuple = (const VMObject *)value->as.object;
  for (int64_t i = 0; i < tuple->count; ++i)
    if (add_argument(run, &tuple->fields[i], depth + 1)) return -1;
  return 0;
}

/* Formats the shapes and types of a kernel's arguments for profiling reports. */
static char *shapes_of(const Run *run) {
  size_t room = 16, used = 0;
  for (int64_t i = 0; i < run->arg_count; ++i) room += 40 + 24 * (size_t)((DLTensor *)run->args[i].v_handle)->ndim;
  char *text = malloc(room), type[32];
  for (int64_t i = 0; text && i < run->arg_count; ++i) {
    const DLTensor *tensor = run->args[i].v_handle;
    tvm_dtype_text(tensor->dtype, type, sizeof type);
    used += (size_t)snprintf(text + used, room - used, "%s%s[", i ? ", " : "", type);
    for (int d = 0; d < tensor->ndim; ++d)
      used += (size_t)snprintf(text + used, room - used, "%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
    used += (size_t)snprintf(text + used, room - used, "]");
  }
  if (text) text[used] = 0;
  return text;
}

static int timed_call(Run *run, int64_t kernel, TVMValue *ret, int *code) {
  VM *vm = run->vm;
  const DLDevice *device = run->arg_count ? &((DLTensor *)run->args[run->arg_count - 1].v_handle)->device : vm->devices;
  double start = tvm_now();
  if (tvm_call(vm->kernels[kernel], run->args, run->codes, (int)run->arg_count, ret, code)) return -1;
  if (TVMSynchronize(device->device_type, device->device_id, NULL)) return -1;
  double seconds = tvm_now() - start;
  if (reserve((void **)&vm->records, &vm->record_capacity, vm->record_count + 1, sizeof *vm->records)) return -1;
  vm->records[vm->record_count++] = (VMRecord){kernel, seconds, shapes_of(run)};
  return 0;
}

static int do_invoke_packed(Run *run, const int64_t *in) {
  VM *vm = run->vm;
  TVMValue ret;
  int code = kTVMNullptr;
  run->arg_count = 0;
  for (int64_t i = 0; i < in[3]; ++i)
    if (add_argument(run, &run->registers[in[4 + i]], 0)) return -1;
  if (vm->launches && !vm->profiles) {
    bool taken;
    if (vm_launch_call(vm, in[1], run->args, run->arg_count, &taken)) return -1;
    if (taken) return 0;
  }
  int status = vm->profiles ? timed_call(run, in[1], &ret, &code)
                            : tvm_call(vm->kernels[in[1]], run->args, run->codes, (int)run->arg_count, &ret, &code);
  if (!status && code != kTVMNullptr) tvm_release_value(ret, code);
  return status;
}

/* ---- memory ---- */

static int do_alloc_storage(Run *run, const int64_t *in) {
  const VMValue *wanted = &run->registers[in[2]];
  size_t nbytes;
  if (wanted->kind == VM_INT) {
    if (wanted->as.number < 0) return tvm_error("virtual machine: the storage size %lld is negative", (long long)wanted->as.number);
    nbytes = (size_t)wanted->as.number;
  } else {
    int64_t shape[MOST_DIMS];
    int ndim;
    if (shape_in(run, in[2], shape, &ndim) || tvm_byte_size(shape, ndim, dtype_of(in[4]), &nbytes)) return -1;
  }
  VMValue made = {VM_STORAGE, {.storage = vm_block_take(run->vm->pools[in[5]], nbytes, run->vm)}};
  if (!made.as.storage) return -1;
  put(run, in[1], made);
  return 0;
}

static int alloc_tensor(Run *run, int64_t to, int64_t from, int64_t offset, const int64_t *shape, int ndim, DLDataType dtype) {
  const VMValue *storage = &run->registers[from];
  size_t nbytes;
  if (storage->kind != VM_STORAGE) return wrong_kind(storage, "storage");
  VMBlock *block = storage->as.storage;
  if (tvm_byte_size(shape, ndim, dtype, &nbytes)) return -1;
  if ((size_t)offset > block->size || nbytes > block->size - (size_t)offset)
    return tvm_error("virtual machine: %zu bytes at offset %lld do not fit in a storage of %zu bytes", nbytes, (long long)offset,
                     block->size);
  VMValue made = {VM_TENSOR, {0}};
  DLDevice device = block->managed.dl_tensor.device;
  if (tvm_array_within(shape, ndim, dtype, device, &block->managed, (size_t)offset, &made.as.tensor)) return -1;
  vm_value_retain(storage);
  put(run, to, made);
  return 0;
}

static int do_alloc_tensor_reg(Run *run, const int64_t *in) {
  int64_t shape[MOST_DIMS];
  int ndim;
  return shape_in(run, in[4], shape, &ndim) ? -1 : alloc_tensor(run, in[1], in[2], in[3], shape, ndim, dtype_of(in[5]));
}

static int do_shape_of(Run *run, const int64_t *in) {
  TVMArrayHandle tensor;
  VMValue made = {VM_TENSOR, {0}};
  if (tensor_in(run, in[2], &tensor)) return -1;
  int64_t ndim = tensor->ndim;
  VMBlock *block = vm_block_take(run->vm->pools[0], (size_t)ndim * sizeof(int64_t), run->vm);
  if (!block || tvm_array_within(&ndim, 1, (DLDataType){kDLInt, 64, 1}, run->vm->devices[0], &block->managed, 0, &made.as.tensor))
    return block ? vm_block_release(block), -1 : -1;
  for (int64_t i = 0; i < ndim; ++i) ((int64_t *)made.as.tensor->data)[i] = tensor->shape[i];
  put(run, in[1], made);
  return 0;
}

/* Computes the dimension of a new shape that is -1, if any, from the number of elements. */
static int fill_size(const DLTensor *tensor, int64_t *shape, int ndim) {
  int64_t total = 1, known = 1, *open = NULL;
  for (int i = 0; i < tensor->ndim; ++i) total *= tensor->shape[i];
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] == -1 && !open) open = &shape[i];
    else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known)) return tvm_error("virtual machine: invalid dimension %lld of a shape", (long long)shape[i]);
  }
  if (open) *open = known ? total / known : 0;
  if ((open ? *open * known : known) != total) return tvm_error("virtual machine: %lld elements cannot be reshaped to %lld", (long long)total, (long long)known);
  return 0;
}

static int do_reshape(Run *run, const int64_t *in) {
  TVMArrayHandle tensor;
  int64_t shape[MOST_DIMS];
  int ndim;
  VMValue made = {VM_TENSOR, {0}};
  if (tensor_in(run, in[2], &tensor) || shape_in(run, in[3], shape, &ndim) || fill_size(tensor, shape, ndim)) return -1;
  if (TVMArrayCreateView(tensor, shape, ndim, tensor->dtype, 0, &made.as.tensor)) return -1;
  put(run, in[1], made);
  return 0;
}

static int do_device_copy(Run *run, const int64_t *in) {
  TVMArrayHandle tensor;
  VMValue made = {VM_TENSOR, {0}};
  if (tensor_in(run, in[2], &tensor) || vm_launch(run->vm)) return -1;
  if (TVMArrayAlloc(tensor->shape, tensor->ndim, tensor->dtype, run->vm->devices[in[4]], &made.as.tensor)) return -1;
  ++run->vm->copies;
  if (TVMArrayCopyFromTo(tensor, made.as.tensor, NULL)) return TVMArrayFree(made.as.tensor), -1;
  put(run, in[1], made);
  return 0;
}

/* ---- ADT values ---- */

/* Creates an ADT value or a closure from the values in registers. */
static int make_object(Run *run, int kind, const int64_t *in) {
  VMObject *object = vm_object_new(kind, in[2], kind == kTVMObjectClosure ? run->vm->exe->id : 0, in[3]);
  if (!object) return -1;
  for (int64_t i = 0; i < in[3]; ++i) {
    object->fields[i] = run->registers[in[4 + i]];
    vm_value_retain(&object->fields[i]);
  }
  put(run, in[1], (VMValue){VM_OBJECT, {.object = &object->head}});
  return 0;
}

static int field_in(const Run *run, int64_t from, int64_t index, VMValue **out) {
  VMObject *object;
  if (object_in(run, from, kTVMObjectADT, &object)) return -1;
  if (index >= object->count) return tvm_error("virtual machine: an ADT value with %lld fields has no field %lld", (long long)object->count, (long long)index);
  *out = &object->fields[index];
  return 0;
}

static int do_get_field(Run *run, const int64_t *in) {
  VMValue *field;
  if (field_in(run, in[2], in[3], &field)) return -1;
  share(run, in[1], *field);
  return 0;
}

static int do_set_field(Run *run, const int64_t *in) {
  VMValue *field;
  if (field_in(run, in[1], in[2], &field)) return -1;
  VMValue before = *field;
  vm_value_retain(&run->registers[in[3]]);
  *field = run->registers[in[3]];
  vm_value_release(&before);
  return 0;
}

/* Reads the index of a constructor in its type: the lower 16 bits of its tag. */
static int do_get_tag(Run *run, const int64_t *in) {
  VMObject *object;
  if (object_in(run, in[2], kTVMObjectADT, &object)) return -1;
  put(run, in[1], (VMValue){VM_INT, {.number = object->tag & 0xFFFF}});
  return 0;
}

static int do_if(Run *run, const int64_t *in, int64_t *pc) {
  int64_t have, wanted;
  if (number_in(run, in[1], &have) || number_in(run, in[2], &wanted)) return -1;
  *pc += have == wanted ? in[3] : in[4];
  return 0;
}

/* ---- the interpreter loop ---- */

/* Called every 1024 instructions: checks the instruction limit and interrupts. */
static int look_around(VM *vm) {
  if (vm->steps_left >= 0 && (vm->steps_left -= 1024) < 0) return vm->steps_left = 0, tvm_error("virtual machine: the instruction limit is exceeded");
  return tvm_interrupt_check();
}

static int step_through(Run *run, VMValue *out) {
  int64_t pc = 0;
  for (uint32_t steps = 1;; ++steps) {
    const int64_t *in = run->function->code + pc;
    int status = 0;
    if (steps % 1024 == 0 && look_around(run->vm)) return -1;
    switch ((VMOpcode)*in) {
      case VM_MOVE: share(run, in[1], run->registers[in[2]]); pc += 3; break;
      case VM_RET:
        if (leave(run, in, out, &pc)) return 0;
        break;
      case VM_INVOKE: status = do_invoke(run, in, &pc); break;
      case VM_INVOKE_CLOSURE: status = do_invoke_closure(run, in, &pc); break;
      case VM_INVOKE_PACKED: status = do_invoke_packed(run, in); pc += 4 + in[3]; break;
      case VM_ALLOC_TENSOR:
        status = alloc_tensor(run, in[1], in[2], in[3], in + 6, (int)in[5], dtype_of(in[4]));
        pc += 6 + in[5];
        break;
      case VM_ALLOC_TENSOR_REG: status = do_alloc_tensor_reg(run, in); pc += 6; break;
      case VM_ALLOC_ADT: status = make_object(run, kTVMObjectADT, in); pc += 4 + in[3]; break;
      case VM_ALLOC_CLOSURE: status = make_object(run, kTVMObjectClosure, in); pc += 4 + in[3]; break;
      case VM_GET_FIELD: status = do_get_field(run, in); pc += 4; break;
      case VM_IF: status = do_if(run, in, &pc); break;
      case VM_LOAD_CONST: share(run, in[1], (VMValue){VM_TENSOR, {.tensor = run->vm->constants[in[2]]}}); pc += 3; break;
      case VM_GOTO: pc += in[1]; break;
      case VM_GET_TAG: status = do_get_tag(run, in); pc += 3; break;
      case VM_LOAD_CONSTI: put(run, in[1], (VMValue){VM_INT, {.number = in[2]}}); pc += 3; break;
      case VM_FATAL: return tvm_error("virtual machine: function '%s': no clause of a match expression matches the value", run->function->name);
      case VM_ALLOC_STORAGE: status = do_alloc_storage(run, in); pc += 6; break;
      case VM_SHAPE_OF: status = do_shape_of(run, in); pc += 3; break;
      case VM_RESHAPE_TENSOR: status = do_reshape(run, in); pc += 4; break;
      case VM_DEVICE_COPY: status = do_device_copy(run, in); pc += 5; break;
      case VM_KILL_REGISTER:
        for (int64_t i = 0; i < in[1]; ++i) vm_value_release(&run->registers[in[2 + i]]);
        pc += 2 + in[1];
        break;
      case VM_SET_FIELD: status = do_set_field(run, in); pc += 4; break;
      default: return tvm_error("virtual machine: unknown opcode %lld", (long long)*in);
    }
    if (status) return -1;
  }
}

/* Releases the registers of all frames after an error. */
static void unwind(Run *run) {
  for (int64_t i = 0; i < run->capacity; ++i)
    if (run->stack[i].kind != VM_EMPTY) vm_value_release(&run->stack[i]);
}

int vm_run(VM *vm, int function, const VMValue *args, VMValue *out) {
  const VMFunction *f = &vm->exe->functions[function];
  Run run = {.vm = vm, .function = f};
  out->kind = VM_EMPTY;
  for (int d = 0; d < vm->exe->device_count; ++d) vm_pool_begin(vm->pools[d]);
  int status = open_frame(&run, f, 0);
  for (int i = 0; i < f->param_count && !status; ++i) {
    run.registers[i] = args[i];
    vm_value_retain(&args[i]);
  }
  uint64_t before = tvm_run_begin(vm->flush_denormals);
  if (!status) status = step_through(&run, out);
  if (!status) status = vm_launch(vm);
  tvm_run_end(vm->flush_denormals, before);
  if (status) unwind(&run), vm_value_release(out), vm_launches_drop(vm->launches);
  free(run.stack);
  free(run.frames);
  free(run.args);
  free(run.codes);
  free(run.moved);
  return status;
}
