/* The virtual machine as modules: executables, and virtual machines that run them.
 *
 * `runtime.vm.load_executable(bytes, library)` returns the module of an executable; loading a library that contains an
 * executable returns the same. Its function `vm_load_executable` returns a virtual machine, whose `init` takes devices
 * and allocator types.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm.h"

#define PACKED(function)                                                                                             \
  static int function(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)

typedef struct { const char *name; TVMBackendPackedCFunc code; } NamedFunction;

static int add_functions(TVMModuleHandle mod, const NamedFunction *functions, size_t count, void *self) {
  for (size_t i = 0; i < count; ++i)
    if (tvm_module_builtin(mod, functions[i].name, functions[i].code, self)) return -1;
  return 0;
}

static int give_int(int64_t value, TVMValue *ret, int *ret_code) {
  ret->v_int64 = value;
  *ret_code = kTVMArgInt;
  return 0;
}

static int give_module(TVMModuleHandle mod, TVMValue *ret, int *ret_code) {
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

/* Finds the function whose name is the first argument. */
static int which_function(const VMExecutable *exe, const TVMValue *args, const int *codes, int n, int *out) {
  if (n < 1 || codes[0] != kTVMStr) return tvm_error("virtual machine: the first argument must be the name of a function");
  *out = vm_find_function(exe, args[0].v_str);
  return *out >= 0 ? 0 : tvm_error("virtual machine: the executable has no function '%s'", args[0].v_str);
}

static int which_number(const TVMValue *args, const int *codes, int n, int at, int64_t limit, const char *what, int64_t *out) {
  if (n <= at || codes[at] != kTVMArgInt) return tvm_error("virtual machine: expected the index of a %s", what);
  *out = args[at].v_int64;
  return *out >= 0 && *out < limit ? 0 : tvm_error("virtual machine: there is no %s with index %lld; the executable has %lld", what, (long long)*out, (long long)limit);
}

/* ---- virtual machines: inputs and outputs ---- */

static void drop_inputs(const VMFunction *f, VMInputs *inputs) {
  for (int i = 0; inputs->values && i < f->param_count; ++i) vm_value_release(&inputs->values[i]);
}

/* Resets the machine to its state before init. */
static void forget_devices(VM *vm) {
  for (int i = 0; vm->constants && i < vm->exe->constant_count; ++i) TVMArrayFree(vm->constants[i]), vm->constants[i] = NULL;
  for (int i = 0; vm->kernels && i < vm->exe->kernel_count; ++i) TVMFuncFree(vm->kernels[i]), vm->kernels[i] = NULL;
  for (int i = 0; vm->pools && i < vm->exe->device_count; ++i) vm_pool_close(vm->pools[i]), vm->pools[i] = NULL;
  vm_launches_close(vm->launches);
  vm->launches = NULL;
}

static void machine_free(void *self) {
  VM *vm = self;
  const VMExecutable *exe = vm->exe;
  vm_value_release(&vm->outputs);
  for (int i = 0; vm->inputs && i < exe->function_count; ++i) {
    drop_inputs(&exe->functions[i], &vm->inputs[i]);
    free(vm->inputs[i].values);
  }
  forget_devices(vm);
  for (int64_t i = 0; i < vm->record_count; ++i) free(vm->records[i].shapes);
  free(vm->records);
  free(vm->inputs);
  free(vm->constants);
  free(vm->kernels);
  free(vm->pools);
  free(vm->devices);
  TVMModFree(vm->owner);
  free(vm);
}

/* Returns the array itself if it is owned and already on the device, otherwise a copy on the device. */
static int place_array(DLTensor *array, bool owned, DLDevice device, TVMArrayHandle *out) {
  bool there = array->device.device_type == device.device_type && array->device.device_id == device.device_id;
  if (owned && there && tvm_is_compact(array)) return TVMArrayRetain(*out = array);
  if (TVMArrayAlloc(array->shape, array->ndim, array->dtype, device, out)) return -1;
  if (!TVMArrayCopyFromTo(array, *out, NULL)) return 0;
  TVMArrayFree(*out);
  return -1;
}

static DLDataType param_dtype(const int64_t *type) {
  return (DLDataType){(uint8_t)type[1], (uint8_t)(type[1] >> 8), (uint16_t)(type[1] >> 16)};
}

/* uint16 contains the bits of a bfloat16 parameter, for callers that do not have that type. */
static int read_bits(const int64_t *type, TVMArrayHandle *array) {
  TVMArrayHandle bits = *array;
  if (!*type || bits->dtype.code != kDLUInt || bits->dtype.bits != 16 || param_dtype(type).code != kDLBfloat) return 0;
  int status = TVMArrayCreateView(bits, bits->shape, bits->ndim, param_dtype(type), 0, array);
  TVMArrayFree(bits);
  return status;
}

static int take_input(const VM *vm, const VMFunction *f, int number, TVMValue value, int code, VMValue *out) {
  if (code != kTVMNDArrayHandle && code != kTVMDLTensorHandle) return vm_value_from(value, code, out);
  out->kind = VM_EMPTY;
  DLDevice device = vm->devices[f->param_devices[number]];
  if (place_array(value.v_handle, code == kTVMNDArrayHandle, device, &out->as.tensor)) return -1;
  if (read_bits(f->param_types[number], &out->as.tensor)) return -1;
  out->kind = VM_TENSOR;
  return 0;
}

static int need_ready(const VM *vm) {
  return vm->is_ready ? 0 : tvm_error("virtual machine: no devices are set; call 'init' first");
}

static int room_for_inputs(VM *vm, int function) {
  VMInputs *inputs = &vm->inputs[function];
  if (!inputs->values) inputs->values = calloc((size_t)vm->exe->functions[function].param_count + 1, sizeof *inputs->values);
  return inputs->values ? 0 : tvm_error("out of memory");
}

/* set_input(function, value, ...) */
PACKED(packed_set_input) {
  VM *vm = self;
  int function;
  (void)ret, (void)ret_code;
  if (need_ready(vm) || which_function(vm->exe, args, codes, n, &function) || room_for_inputs(vm, function)) return -1;
  const VMFunction *f = &vm->exe->functions[function];
  if (n - 1 != f->param_count)
    return tvm_error("virtual machine: function '%s' takes %d arguments, got %d", f->name, f->param_count, n - 1);
  drop_inputs(f, &vm->inputs[function]);
  for (int i = 0; i < f->param_count; ++i)
    if (take_input(vm, f, i, args[1 + i], codes[1 + i], &vm->inputs[function].values[i])) return -1;
  return 0;
}

static int find_param(const VMFunction *f, const char *name) {
  for (int i = 0; i < f->param_count; ++i)
    if (!strcmp(f->params[i], name)) return i;
  return -1;
}

/* set_one_input(function, name or index, value) */
PACKED(packed_set_one_input) {
  VM *vm = self;
  int function;
  int64_t number;
  (void)ret, (void)ret_code;
  if (need_ready(vm) || which_function(vm->exe, args, codes, n, &function) || room_for_inputs(vm, function)) return -1;
  const VMFunction *f = &vm->exe->functions[function];
  if (n != 3) return tvm_error("virtual machine: set_one_input takes a function name, an input and its value");
  if (codes[1] == kTVMStr) {
    if ((number = find_param(f, args[1].v_str)) < 0)
      return tvm_error("virtual machine: function '%s' has no input '%s'", f->name, args[1].v_str);
  } else if (which_number(args, codes, n, 1, f->param_count, "input", &number)) {
    return -1;
  }
  VMValue *slot = &vm->inputs[function].values[number];
  vm_value_release(slot);
  return take_input(vm, f, number, args[2], codes[2], slot);
}

/* Finds the first input up to `before` with the given dynamic dimension and the dimension's value; -1 if there is none. */
static int first_with_size(const VMFunction *f, const VMValue *values, int before, int64_t size, int64_t *value) {
  for (int i = 0; i <= before; ++i) {
    const int64_t *type = f->param_types[i];
    for (int64_t d = 2; d <= *type; ++d)
      if (type[d] == size) return *value = values[i].as.tensor->shape[d - 2], i;
  }
  return -1;
}

/* Rejects an input whose type does not match the type for which the function was compiled. */
static int check_input(const VMFunction *f, const VMValue *values, int number) {
  const int64_t *type = f->param_types[number];
  const char *name = f->params[number];
  char have[32], wanted[32];
  int64_t value;
  if (!*type) return 0;
  if (values[number].kind != VM_TENSOR) return tvm_error("virtual machine: input '%s' of function '%s' must be a tensor", name, f->name);
  const DLTensor *tensor = values[number].as.tensor;
  DLDataType dtype = param_dtype(type);
  if (tensor->dtype.code != dtype.code || tensor->dtype.bits != dtype.bits || tensor->dtype.lanes != dtype.lanes) {
    tvm_dtype_text(tensor->dtype, have, sizeof have);
    tvm_dtype_text(dtype, wanted, sizeof wanted);
    return tvm_error("virtual machine: input '%s' of function '%s' has elements of type %s, but the model expects %s", name, f->name, have, wanted);
  }
  if (tensor->ndim != *type - 1)
    return tvm_error("virtual machine: input '%s' of function '%s' has %d dimensions, but the model expects %d", name, f->name,
                     tensor->ndim, (int)*type - 1);
  for (int d = 0; d < tensor->ndim; ++d) {
    int64_t size = type[d + 2];
    if (size >= 0 && size != tensor->shape[d])
      return tvm_error("virtual machine: input '%s' of function '%s': dimension %d is %lld, but the model expects %lld", name,
                       f->name, d, (long long)tensor->shape[d], (long long)size);
    int first = size < -1 ? first_with_size(f, values, number, size, &value) : -1;
    if (first >= 0 && value != tensor->shape[d])
      return tvm_error("virtual machine: input '%s' of function '%s': dimension %d is %lld, but the same dynamic dimension of input '%s' is %lld",
                       name, f->name, d, (long long)tensor->shape[d], f->params[first], (long long)value);
  }
  return 0;
}

static int run_function(VM *vm, int function, VMValue *out) {
  const VMFunction *f = &vm->exe->functions[function];
  if (room_for_inputs(vm, function)) return -1;
  const VMValue *values = vm->inputs[function].values;
  for (int i = 0; i < f->param_count; ++i) {
    if (values[i].kind == VM_EMPTY)
      return tvm_error("virtual machine: input '%s' of function '%s' has not been set", f->params[i], f->name);
    if (check_input(f, values, i)) return -1;
  }
  return vm_run(vm, function, vm->inputs[function].values, out);
}

/* Copies an output that is a constant, because constants belong to the executable. */
static int own_result(const VM *vm, VMValue *value) {
  for (int i = 0; value->kind == VM_TENSOR && i < vm->exe->constant_count; ++i) {
    TVMArrayHandle copy;
    if (value->as.tensor != vm->constants[i]) continue;
    if (place_array(value->as.tensor, false, value->as.tensor->device, &copy)) return -1;
    vm_value_release(value);
    *value = (VMValue){VM_TENSOR, {.tensor = copy}};
  }
  VMObject *tuple = value->kind == VM_OBJECT ? (VMObject *)value->as.object : NULL;
  /* Only an object with a single reference may be modified. */
  if (!tuple || tuple->head.kind != kTVMObjectADT || atomic_load(&tuple->head.refs) != 1) return 0;
  for (int64_t i = 0; i < tuple->count; ++i)
    if (tuple->fields[i].kind == VM_TENSOR && own_result(vm, &tuple->fields[i])) return -1;
  return 0;
}

static int run_to_result(VM *vm, const TVMValue *args, const int *codes, int n, VMValue *out) {
  int function;
  if (need_ready(vm) || which_function(vm->exe, args, codes, n, &function) || run_function(vm, function, out)) return -1;
  if (!own_result(vm, out)) return 0;
  vm_value_release(out);
  return -1;
}

/* invoke(function): returns its output for the inputs that have been set */
PACKED(packed_invoke) {
  VMValue out;
  if (run_to_result(self, args, codes, n, &out)) return -1;
  int status = vm_value_to(&out, ret, ret_code);
  vm_value_release(&out);
  return status;
}

PACKED(packed_invoke_stateful) {
  VM *vm = self;
  VMValue out;
  (void)ret, (void)ret_code;
  if (run_to_result(vm, args, codes, n, &out)) return -1;
  vm_value_release(&vm->outputs);
  vm->outputs = out;
  return 0;
}

static int64_t output_count(const VMValue *outputs) {
  bool several = outputs->kind == VM_OBJECT && outputs->as.object->kind == kTVMObjectADT;
  return several ? ((VMObject *)outputs->as.object)->count : outputs->kind != VM_EMPTY;
}

static const VMValue *output_at(const VMValue *outputs, int64_t i) {
  bool several = outputs->kind == VM_OBJECT && outputs->as.object->kind == kTVMObjectADT;
  return several ? &((VMObject *)outputs->as.object)->fields[i] : outputs;
}

PACKED(packed_num_outputs) {
  (void)args, (void)codes, (void)n;
  return give_int(output_count(&((VM *)self)->outputs), ret, ret_code);
}

PACKED(packed_get_output) {
  VM *vm = self;
  int64_t i;
  if (which_number(args, codes, n, 0, output_count(&vm->outputs), "output", &i)) return -1;
  return vm_value_to(output_at(&vm->outputs, i), ret, ret_code);
}

static int deliver(const VMValue *results, const TVMValue *args, const int *codes, int n) {
  if (output_count(results) != n)
    return tvm_error("virtual machine: %d arrays are given for %lld outputs", n, (long long)output_count(results));
  for (int i = 0; i < n; ++i) {
    const VMValue *from = output_at(results, i);
    if (from->kind != VM_TENSOR || (codes[i] != kTVMNDArrayHandle && codes[i] != kTVMDLTensorHandle))
      return tvm_error("virtual machine: output %d is not a tensor, or the value given for it is not an array", i);
    const DLTensor *have = from->as.tensor, *to = args[i].v_handle;
    bool same = have->ndim == to->ndim && (!have->ndim || !memcmp(have->shape, to->shape, (size_t)have->ndim * sizeof(int64_t)));
    if (!same) return tvm_error("virtual machine: the array given for output %d does not have the shape of the output", i);
    if (TVMArrayCopyFromTo(have, args[i].v_handle, NULL)) return -1;
  }
  return 0;
}

/* invoke_with_outputs(function, array, ...): copies the outputs into the arrays. */
PACKED(packed_invoke_with_outputs) {
  VMValue out;
  (void)ret, (void)ret_code;
  if (run_to_result(self, args, codes, n, &out)) return -1;
  int status = deliver(&out, args + 1, codes + 1, n - 1);
  vm_value_release(&out);
  return status;
}

PACKED(packed_input_index) {
  const VM *vm = self;
  int function;
  if (n < 2 || codes[0] != kTVMStr || which_function(vm->exe, args + 1, codes + 1, n - 1, &function))
    return n < 2 || codes[0] != kTVMStr ? tvm_error("virtual machine: expected the names of an input and of a function") : -1;
  return give_int(find_param(&vm->exe->functions[function], args[0].v_str), ret, ret_code);
}

/* profile(function): one line per kernel: its index, microseconds and the shapes of its arguments, separated by tabs */
PACKED(packed_profile) {
  VM *vm = self;
  VMValue out = {VM_EMPTY, {0}};
  vm->profiles = true;
  int status = run_to_result(vm, args, codes, n, &out);
  vm->profiles = false;
  vm_value_release(&out);
  size_t room = 1, used = 0;
  for (int64_t i = 0; i < vm->record_count; ++i) room += 64 + (vm->records[i].shapes ? strlen(vm->records[i].shapes) : 0);
  char *text = malloc(room);
  if (!text) status = tvm_error("out of memory");
  for (int64_t i = 0; i < vm->record_count; ++i) {
    const VMRecord *r = &vm->records[i];
    if (text)
      used += (size_t)snprintf(text + used, room - used, "%lld\t%.9g\t%s\n", (long long)r->kernel, r->seconds * 1e6, r->shapes ? r->shapes : "");
    free(r->shapes);
  }
  vm->record_count = 0;
  if (!status) status = TVMReturnBytes(text, used, kTVMStr, ret, ret_code);
  free(text);
  return status;
}

/* memory(): number of bytes that the machine has allocated on its devices. */
PACKED(packed_memory) {
  const VM *vm = self;
  size_t total = 0;
  (void)args, (void)codes, (void)n;
  for (int i = 0; vm->is_ready && i < vm->exe->device_count; ++i) total += vm_pool_bytes(vm->pools[i]);
  return give_int((int64_t)total, ret, ret_code);
}

/* graph_capture(): number of captured graphs; with a bool, sets whether kernels are captured and replayed. */
PACKED(packed_graph_capture) {
  VM *vm = self;
  if (need_ready(vm)) return -1;
  if (n && codes[0] != kTVMArgInt && codes[0] != kTVMArgBool) return tvm_error("virtual machine: the argument of graph_capture must be a bool");
  if (n && vm->launches) vm_launches_set(vm->launches, args[0].v_int64 != 0);
  return give_int(vm->launches ? vm_launches_graphs(vm->launches) : 0, ret, ret_code);
}

PACKED(packed_num_replays) {
  const VM *vm = self;
  (void)args, (void)codes, (void)n;
  return give_int(vm->launches ? vm_launches_replays(vm->launches) : 0, ret, ret_code);
}

PACKED(packed_num_copies) {
  (void)args, (void)codes, (void)n;
  return give_int(((VM *)self)->copies, ret, ret_code);
}

/* ---- virtual machines: devices ---- */

typedef struct { DLDevice device; bool naive; } Place;

/* Reads the arguments of init: type, number and allocator (1 naive, 2 pooled) of each device. */
static int read_places(const TVMValue *args, const int *codes, int n, Place *places, int most, int *count) {
  if (n % 3 || n / 3 > most || !n) return tvm_error("virtual machine: init takes the type, number and allocator of each device");
  for (int i = 0; i < n; ++i)
    if (codes[i] != kTVMArgInt) return tvm_error("virtual machine: the arguments of init must be integers");
  *count = n / 3;
  for (int i = 0; i < *count; ++i) {
    int64_t kind = args[3 * i + 2].v_int64;
    if (kind != 1 && kind != 2) return tvm_error("virtual machine: unknown allocator %lld; use 1 (naive) or 2 (pooled)", (long long)kind);
    places[i] = (Place){{(int32_t)args[3 * i].v_int64, (int32_t)args[3 * i + 1].v_int64}, kind == 1};
  }
  return 0;
}

static int open_devices(VM *vm, const Place *places, int count) {
  const VMExecutable *exe = vm->exe;
  for (int d = 0; d < exe->device_count; ++d) {
    Place place = {{kDLCPU, 0}, false};
    bool found = exe->devices[d] == kDLCPU; /* the host is always available */
    for (int i = 0; i < count; ++i)
      if (places[i].device.device_type == exe->devices[d]) place = places[i], found = true;
    if (!found) return tvm_error("virtual machine: the executable needs a device of type %s, but none is given", TVMDeviceTypeName(exe->devices[d]));
    vm->devices[d] = place.device;
    if (!tvm_device(place.device) || !(vm->pools[d] = vm_pool_open(place.device, place.naive))) return -1;
    /* The naive allocator frees memory immediately, so kernels that use it cannot be launched later. */
    if (!vm->launches && !place.naive) vm->launches = vm_launches_open(place.device);
  }
  return 0;
}

static int find_kernels(VM *vm) {
  const VMExecutable *exe = vm->exe;
  for (int i = 0; i < exe->kernel_count; ++i) {
    if (!exe->library) return tvm_error("virtual machine: the executable has kernels, but no library was given with it");
    if (TVMModGetFunction(exe->library, exe->kernels[i], 1, &vm->kernels[i])) return -1;
    if (!vm->kernels[i]) return tvm_error("virtual machine: the library does not define the kernel '%s'", exe->kernels[i]);
  }
  return 0;
}

static int place_constants(VM *vm) {
  const VMExecutable *exe = vm->exe;
  for (int i = 0; i < exe->constant_count; ++i) {
    const VMConstant *c = &exe->constants[i];
    if (!c->array) return tvm_error("virtual machine: the late-bound constant '%s' has not been loaded; call load_late_bound_consts", c->name);
    if (place_array(c->array, true, vm->devices[c->device], &vm->constants[i])) return -1;
  }
  return 0;
}

PACKED(packed_init) {
  VM *vm = self;
  Place places[16];
  int count;
  (void)ret, (void)ret_code;
  if (vm->is_ready) return tvm_error("virtual machine: the devices are already set");
  if (read_places(args, codes, n, places, 16, &count)) return -1;
  vm->is_ready = !open_devices(vm, places, count) && !find_kernels(vm) && !place_constants(vm);
  if (!vm->is_ready) forget_devices(vm);
  return vm->is_ready ? 0 : -1;
}

static const NamedFunction MACHINE[] = {
    {"init", packed_init}, {"set_input", packed_set_input}, {"set_one_input", packed_set_one_input},
    {"invoke", packed_invoke}, {"invoke_stateful", packed_invoke_stateful}, {"invoke_with_outputs", packed_invoke_with_outputs},
    {"get_num_outputs", packed_num_outputs}, {"get_output", packed_get_output}, {"get_input_index", packed_input_index},
    {"profile", packed_profile}, {"get_memory", packed_memory}, {"graph_capture", packed_graph_capture},
    {"get_num_replays", packed_num_replays}, {"get_num_copies", packed_num_copies},
};

static int machine_module(TVMModuleHandle owner, const VMExecutable *exe, TVMModuleHandle *out) {
  VM *vm = calloc(1, sizeof *vm);
  if (!vm) return tvm_error("out of memory");
  vm->owner = owner;
  vm->exe = exe;
  vm->steps_left = -1;
  TVMModRetain(owner);
  vm->devices = calloc((size_t)exe->device_count, sizeof *vm->devices);
  vm->pools = calloc((size_t)exe->device_count, sizeof *vm->pools);
  vm->kernels = calloc((size_t)exe->kernel_count + 1, sizeof *vm->kernels);
  vm->constants = calloc((size_t)exe->constant_count + 1, sizeof *vm->constants);
  vm->inputs = calloc((size_t)exe->function_count + 1, sizeof *vm->inputs);
  TVMModuleHandle mod = NULL;
  int status = vm->devices && vm->pools && vm->kernels && vm->constants && vm->inputs ? 0 : tvm_error("out of memory");
  if (!status) status = tvm_flush_default(&vm->flush_denormals);
  if (!status) status = TVMModCreate("VirtualMachine", machine_free, vm, &mod);
  if (status) return machine_free(vm), -1;
  if (add_functions(mod, MACHINE, sizeof MACHINE / sizeof *MACHINE, vm)) return TVMModFree(mod), -1;
  *out = mod;
  return 0;
}

VM *vm_of_module(TVMModuleHandle mod) { return tvm_module_resource(mod, machine_free); }

/* ---- executables ---- */

/* The data of an executable module. The module owns it, so that functions can return the module itself. */
typedef struct { VMExecutable exe; TVMModuleHandle mod; } Holder;

static void executable_free(void *self) {
  vm_clear(&((Holder *)self)->exe);
  free(self);
}

PACKED(packed_load) {
  Holder *holder = self;
  TVMModuleHandle mod;
  (void)args, (void)codes, (void)n;
  return machine_module(holder->mod, &holder->exe, &mod) ? -1 : give_module(mod, ret, ret_code);
}

/* Returns the words of the executable, which are its serialized form without constants. */
PACKED(packed_get_words) {
  const VMExecutable *exe = &((Holder *)self)->exe;
  (void)args, (void)codes, (void)n;
  return TVMReturnBytes((const char *)exe->words, (size_t)exe->word_count * 8, kTVMBytes, ret, ret_code);
}

PACKED(packed_get_constant) {
  const VMExecutable *exe = &((Holder *)self)->exe;
  int64_t i;
  if (which_number(args, codes, n, 0, exe->constant_count, "constant", &i)) return -1;
  if (!exe->constants[i].array) return 0;
  TVMArrayRetain(ret->v_handle = exe->constants[i].array);
  *ret_code = kTVMNDArrayHandle;
  return 0;
}

/* set_constant(index, array), or None to remove it; existing virtual machines keep their constants. */
PACKED(packed_set_constant) {
  VMExecutable *exe = &((Holder *)self)->exe;
  int64_t i;
  (void)ret, (void)ret_code;
  if (which_number(args, codes, n, 0, exe->constant_count, "constant", &i)) return -1;
  if (n != 2 || (codes[1] != kTVMNDArrayHandle && codes[1] != kTVMNullptr)) return tvm_error("virtual machine: a constant must be an array");
  TVMArrayHandle array = codes[1] == kTVMNullptr ? NULL : args[1].v_handle;
  if (array) TVMArrayRetain(array);
  TVMArrayFree(exe->constants[i].array);
  exe->constants[i].array = array;
  return 0;
}

PACKED(packed_arity) {
  const VMExecutable *exe = &((Holder *)self)->exe;
  int function;
  if (which_function(exe, args, codes, n, &function)) return -1;
  return give_int(exe->functions[function].param_count, ret, ret_code);
}

PACKED(packed_param_name) {
  const VMExecutable *exe = &((Holder *)self)->exe;
  int function;
  int64_t i;
  if (which_function(exe, args, codes, n, &function)) return -1;
  const VMFunction *f = &exe->functions[function];
  if (which_number(args, codes, n, 1, f->param_count, "parameter", &i)) return -1;
  return TVMReturnBytes(f->params[i], strlen(f->params[i]), kTVMStr, ret, ret_code);
}

static const NamedFunction EXECUTABLE[] = {
    {"vm_load_executable", packed_load}, {"get_words", packed_get_words}, {"get_constant", packed_get_constant},
    {"set_constant", packed_set_constant}, {"get_function_arity", packed_arity}, {"get_function_param_name", packed_param_name},
};

int vm_executable_module(const char *data, size_t size, bool in_place, TVMModuleHandle library, TVMModuleHandle *out) {
  Holder *holder = calloc(1, sizeof *holder);
  if (!holder) return tvm_error("out of memory");
  if (library) TVMModRetain(holder->exe.library = library);
  TVMModuleHandle mod = NULL;
  if (vm_read(&holder->exe, data, size, in_place) || TVMModCreate("VMExecutable", executable_free, holder, &mod))
    return executable_free(holder), -1;
  holder->mod = mod;
  int status = add_functions(mod, EXECUTABLE, sizeof EXECUTABLE / sizeof *EXECUTABLE, holder);
  if (!status && library) status = TVMModImport(mod, library);
  if (status) TVMModFree(mod);
  else *out = mod;
  return status;
}

static int load_packed(TVMByteArray packed, TVMModuleHandle library, TVMModuleHandle *out) {
  return vm_executable_module(packed.data, packed.size, true, library, out);
}

/* runtime.vm.load_executable(bytes, library or None) */
PACKED(packed_load_executable) {
  (void)self;
  if (n != 2 || codes[0] != kTVMBytes || (codes[1] != kTVMModuleHandle && codes[1] != kTVMNullptr))
    return tvm_error("runtime.vm.load_executable: expected the bytes of an executable and its library");
  const TVMByteArray *bytes = args[0].v_handle;
  TVMModuleHandle mod, library = codes[1] == kTVMNullptr ? NULL : args[1].v_handle;
  return vm_executable_module(bytes->data, bytes->size, false, library, &mod) ? -1 : give_module(mod, ret, ret_code);
}

void tvm_vm_start(void) {
  tvm_builtin("runtime.vm.load_executable", packed_load_executable);
  tvm_root_loader_add("VMExecutable", load_packed);
}
