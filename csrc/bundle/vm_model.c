/* Runs models with dynamic shapes on the virtual machine. All handles share one executable. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../src/vm/vm.h"
#include "bundle.h"

typedef struct {
  TVMModuleHandle machine;
  TVMFunctionHandle set_input, invoke;
  TVMArrayHandle *inputs, *outputs;
  TVMValue *args;
  int *codes;
} MachineState;

/* ---- the executable ---- */

static int load_executable(const BundleModel *model, TVMModuleHandle *out) {
  TVMModuleHandle library;
  if (TVMModCreate("library", NULL, NULL, &library)) return -1;
  int status = TVMModBind(library, model->runtime_table, model->module_context);
  for (int i = 0; i < model->kernel_count && !status; ++i)
    status = TVMModAddSymbol(library, model->kernels[i].name, model->kernels[i].address);
  if (!status) status = vm_executable_module((const char *)model->data, model->data_size, true, library, out);
  TVMModFree(library);
  return status;
}

/* The executable lives as long as the process, because the code of the model refers to its library. */
static int shared_executable(const BundleModel *model, TVMModuleHandle *out) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static TVMModuleHandle executable;
  pthread_mutex_lock(&lock);
  int status = executable ? 0 : load_executable(model, &executable);
  *out = executable;
  pthread_mutex_unlock(&lock);
  return status;
}

/* ---- handles ---- */

static int call(TVMModuleHandle mod, const char *name, TVMValue *args, int *codes, int n, TVMValue *ret) {
  TVMFunctionHandle function;
  int code;
  if (TVMModGetFunction(mod, name, 0, &function)) return -1;
  if (!function) return tvm_error("the module has no function '%s'", name);
  int status = TVMFuncCall(function, args, codes, n, ret, &code);
  TVMFuncFree(function);
  return status;
}

/* Opens a machine whose memory pool keeps the blocks of a run for the next one. */
static int open_machine(const BundleModel *model, MachineState *state) {
  enum { POOLED = 2 };
  TVMModuleHandle executable;
  TVMValue ret, place[] = {{.v_int64 = kDLCPU}, {.v_int64 = 0}, {.v_int64 = POOLED}};
  int codes[] = {kTVMArgInt, kTVMArgInt, kTVMArgInt};
  if (shared_executable(model, &executable) || call(executable, "vm_load_executable", NULL, NULL, 0, &ret)) return -1;
  state->machine = ret.v_handle;
  if (call(state->machine, "init", place, codes, 3, &ret)) return -1;
  return TVMModGetFunction(state->machine, "set_input", 0, &state->set_input) ||
         TVMModGetFunction(state->machine, "invoke", 0, &state->invoke) ? -1 : 0;
}

int model_open(tvm_bundle *bundle) {
  const tvm_bundle_info *info = bundle->model->info;
  MachineState *state = bundle->state = calloc(1, sizeof *state);
  if (!state) return tvm_error("out of memory");
  size_t inputs = (size_t)info->input_count + 1;
  state->inputs = calloc(inputs, sizeof *state->inputs);
  state->outputs = calloc((size_t)info->output_count + 1, sizeof *state->outputs);
  state->args = calloc(inputs, sizeof *state->args);
  state->codes = calloc(inputs, sizeof *state->codes);
  if (!state->inputs || !state->outputs || !state->args || !state->codes) return tvm_error("out of memory");
  return open_machine(bundle->model, state);
}

static void free_arrays(TVMArrayHandle *arrays, int count) {
  for (int i = 0; arrays && i < count; ++i) {
    TVMArrayFree(arrays[i]);
    arrays[i] = NULL;
  }
}

void model_close(tvm_bundle *bundle) {
  const tvm_bundle_info *info = bundle->model->info;
  MachineState *state = bundle->state;
  if (!state) return;
  free_arrays(state->inputs, info->input_count);
  free_arrays(state->outputs, info->output_count);
  if (state->set_input) TVMFuncFree(state->set_input);
  if (state->invoke) TVMFuncFree(state->invoke);
  if (state->machine) TVMModFree(state->machine);
  free(state->inputs);
  free(state->outputs);
  free(state->args);
  free(state->codes);
  free(state);
}

/* ---- runs ---- */

static const struct { const char *name; DLDataTypeCode code; } KINDS[] = {
    {"int", kDLInt}, {"uint", kDLUInt}, {"float", kDLFloat}, {"bfloat", kDLBfloat}};

static int type_of(const tvm_bundle_tensor *tensor, DLDataType *out) {
  if (!strcmp(tensor->dtype, "bool")) return *out = (DLDataType){kDLUInt, 1, 1}, 0;
  size_t letters = strcspn(tensor->dtype, "0123456789");
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; ++i)
    if (strlen(KINDS[i].name) == letters && !strncmp(KINDS[i].name, tensor->dtype, letters))
      return *out = (DLDataType){(uint8_t)KINDS[i].code, (uint8_t)(8 * tensor->itemsize), 1}, 0;
  return tvm_error("input '%s' has type %s, which a bundle does not support", tensor->name, tensor->dtype);
}

int model_set_input(tvm_bundle *bundle, int index, const void *data, uint64_t nbytes, const int64_t *shape) {
  const tvm_bundle_tensor *input = &bundle->model->info->inputs[index];
  MachineState *state = bundle->state;
  TVMArrayHandle array = state->inputs[index];
  DLDataType dtype;
  if (!array || (input->ndim && memcmp(array->shape, shape, (size_t)input->ndim * sizeof *shape))) {
    TVMArrayHandle made;
    if (type_of(input, &dtype) || TVMArrayAlloc(shape, input->ndim, dtype, (DLDevice){kDLCPU, 0}, &made)) return -1;
    TVMArrayFree(array);
    state->inputs[index] = array = made;
  }
  if (nbytes) memcpy(array->data, data, (size_t)nbytes);
  return 0;
}

/* Stores the tensors of a value and of its fields in order; `*count` is the number of outputs so far. */
static int store(const tvm_bundle_info *info, MachineState *state, TVMValue value, int code, int *count) {
  if (code == kTVMNDArrayHandle) {
    if (*count == info->output_count) return tvm_error("the model returned more than %d outputs", (int)info->output_count);
    state->outputs[(*count)++] = value.v_handle;
    return 0;
  }
  if (code != kTVMObjectHandle) return tvm_error("the model returned a value that is not a tensor");
  int status = 0;
  for (int i = 0; i < TVMADTSize(value.v_handle) && !status; ++i) {
    TVMValue field;
    int field_code;
    status = TVMADTField(value.v_handle, i, &field, &field_code) || store(info, state, field, field_code, count) ? -1 : 0;
  }
  TVMObjectFree(value.v_handle);
  return status;
}

int model_run(tvm_bundle *bundle) {
  const tvm_bundle_info *info = bundle->model->info;
  MachineState *state = bundle->state;
  TVMValue ret;
  int code, count = 0;
  free_arrays(state->outputs, info->output_count);
  state->args[0].v_str = "main";
  state->codes[0] = kTVMStr;
  for (int i = 0; i < info->input_count; ++i) {
    state->args[i + 1].v_handle = state->inputs[i];
    state->codes[i + 1] = kTVMNDArrayHandle;
  }
  if (TVMFuncCall(state->set_input, state->args, state->codes, info->input_count + 1, &ret, &code)) return -1;
  if (TVMFuncCall(state->invoke, state->args, state->codes, 1, &ret, &code)) return -1;
  if (store(info, state, ret, code, &count)) return -1;
  return count == info->output_count ? 0 : tvm_error("the model returned %d outputs, expected %d", count, (int)info->output_count);
}

int model_output(tvm_bundle *bundle, int index, const void **data, uint64_t *nbytes, const int64_t **shape) {
  TVMArrayHandle array = ((MachineState *)bundle->state)->outputs[index];
  size_t size;
  if (TVMTensorByteSize(array, &size)) return -1;
  *data = (const char *)array->data + array->byte_offset;
  *nbytes = size;
  *shape = array->shape;
  return 0;
}
