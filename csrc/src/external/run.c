/* Runs partitions: prepares the kernels once, and calls them with the arguments and intermediate values of each run. */
#include <stdlib.h>
#include <string.h>

#include "external.h"

/* The memory of one run. Concurrent runs use different frames, and a finished run leaves its frame to the next one. */
struct Frame {
  Frame *next;
  TVMArrayHandle *memory;     /* intermediate values by entry; NULL for arguments and constants */
  DLTensor *arguments;        /* the arguments of the run, with the offsets added to their addresses */
  const DLTensor **values;    /* by entry */
};

static void frame_free(const Partition *p, Frame *f) {
  if (!f) return;
  for (int i = 0; f->memory && i < p->entry_count; ++i)
    if (f->memory[i]) TVMArrayFree(f->memory[i]);
  free(f->memory);
  free(f->arguments);
  free(f->values);
  free(f);
}

static Frame *frame_new(const Partition *p) {
  Frame *f = calloc(1, sizeof *f);
  if (!f || !(f->memory = calloc((size_t)p->entry_count, sizeof *f->memory)) ||
      !(f->arguments = calloc((size_t)(p->input_count + p->output_count), sizeof *f->arguments)) ||
      !(f->values = calloc((size_t)p->entry_count, sizeof *f->values))) {
    tvm_set_error("out of memory");
    frame_free(p, f);
    return NULL;
  }
  for (int i = 0; i < p->entry_count; ++i) {
    const DLTensor *value = &p->entries[i];
    if (p->argument_of[i] < 0 && !p->constants[i] && !p->engine.run &&
        TVMArrayAlloc(value->shape, value->ndim, value->dtype, p->device, &f->memory[i])) {
      frame_free(p, f);
      return NULL;
    }
    f->values[i] = p->constants[i] ? p->constants[i] : f->memory[i];
  }
  return f;
}

static Frame *frame_take(Partition *p) {
  pthread_mutex_lock(&p->lock);
  Frame *f = p->idle;
  if (f) p->idle = f->next;
  pthread_mutex_unlock(&p->lock);
  return f ? f : frame_new(p);
}

static void frame_return(Partition *p, Frame *f) {
  pthread_mutex_lock(&p->lock);
  f->next = p->idle;
  p->idle = f;
  pthread_mutex_unlock(&p->lock);
}

/* Prefixes the last error with the kernel that failed. An exception of the embedding language stays unchanged. */
static int failed(const PartNode *n) {
  ErrorRecord error;
  tvm_error_save(&error);
  if (error.token) return tvm_error_restore(&error), -1;
  return tvm_error("kernel '%s' of partition '%s': %s", n->node.name, n->node.partition,
                   *error.text ? error.text : "failed without a message");
}

/* Moves the constants to the device of the runs. */
static int place_constants(Partition *p) {
  for (int i = 0; i < p->entry_count; ++i) {
    p->entries[i].device = p->device;
    if (!p->constants[i] || p->device.device_type == kDLCPU) continue;
    TVMArrayHandle moved;
    const DLTensor *value = &p->entries[i];
    if (TVMArrayAlloc(value->shape, value->ndim, value->dtype, p->device, &moved)) return -1;
    if (TVMArrayCopyFromTo(p->constants[i], moved, NULL)) return TVMArrayFree(moved), -1;
    TVMArrayFree(p->constants[i]);
    p->constants[i] = moved;
    p->entries[i].data = moved->data;
  }
  return 0;
}

static int prepare(Partition *p) {
  if (place_constants(p) || partition_engine_prepare(p)) return -1;
  for (int i = 0; !p->engine.run && i < p->node_count; ++i) {
    PartNode *n = &p->nodes[i];
    if (n->kind != PART_KERNEL || n->prepared) continue;
    for (int k = 0; k < n->node.input_count; ++k) ((DLTensor *)n->node.inputs)[k] = p->entries[n->inputs[k]];
    if (tvm_kernel_find(n->node.name, &n->api)) return -1;
    TVMAPISetLastError("");
    if (n->api.prepare && n->api.prepare(&n->node, &n->state)) return failed(n);
    n->prepared = true;
  }
  return 0;
}

static int ensure_ready(Partition *p, DLDevice device) {
  pthread_mutex_lock(&p->lock);
  int status = 0;
  if (!p->ready) {
    p->device = device;
    status = prepare(p);
    p->ready = !status;
  }
  pthread_mutex_unlock(&p->lock);
  if (status) return -1;
  if (device.device_type != p->device.device_type || device.device_id != p->device.device_id)
    return tvm_error("partition '%s' was prepared for %s(%d); load the model again to run it on %s(%d)", p->symbol,
                     TVMDeviceTypeName(p->device.device_type), p->device.device_id, TVMDeviceTypeName(device.device_type), device.device_id);
  return 0;
}

static int check_argument(const Partition *p, int index, const TVMValue *arg, int code, DLDevice device) {
  int entry = index < p->input_count ? p->inputs[index] : p->outputs[index - p->input_count];
  const DLTensor *want = &p->entries[entry], *have = arg->v_handle;
  if (code != kTVMNDArrayHandle && code != kTVMDLTensorHandle)
    return tvm_error("partition '%s': argument %d is not an array", p->symbol, index);
  if (have->ndim != want->ndim || memcmp(&have->dtype, &want->dtype, sizeof have->dtype) || !tvm_is_compact(have) ||
      (have->ndim && memcmp(have->shape, want->shape, (size_t)have->ndim * sizeof *have->shape)))
    return tvm_error("partition '%s': argument %d has another type, shape or layout than the partition", p->symbol, index);
  if (have->device.device_type != device.device_type || have->device.device_id != device.device_id)
    return tvm_error("partition '%s': its arguments are on different devices", p->symbol);
  return 0;
}

static int call_kernels(Partition *p, Frame *f) {
  int status = 0;
  for (int i = 0; i < p->node_count && !status; ++i) {
    const PartNode *n = &p->nodes[i];
    if (n->kind != PART_KERNEL) continue;
    const DLTensor *few[16], **inputs = n->node.input_count > 16 ? calloc((size_t)n->node.input_count, sizeof *inputs) : few;
    if (!inputs) return tvm_error("out of memory");
    for (int k = 0; k < n->node.input_count; ++k) inputs[k] = f->values[n->inputs[k]];
    TVMAPISetLastError("");
    if (n->api.run(&n->node, n->state, inputs, (DLTensor *const *)(f->values + n->first_entry))) status = failed(n);
    if (inputs != few) free(inputs);
  }
  return status;
}

int partition_run(Partition *p, TVMValue *args, int *codes, int n) {
  if (n != p->input_count + p->output_count)
    return tvm_error("partition '%s' has %d inputs and %d outputs, but is called with %d arguments", p->symbol, p->input_count,
                     p->output_count, n);
  if (codes[0] != kTVMNDArrayHandle && codes[0] != kTVMDLTensorHandle)
    return tvm_error("partition '%s': argument 0 is not an array", p->symbol);
  DLDevice device = ((const DLTensor *)args[0].v_handle)->device;
  for (int i = 0; i < n; ++i)
    if (check_argument(p, i, &args[i], codes[i], device)) return -1;
  if (ensure_ready(p, device)) return -1;
  Frame *f = frame_take(p);
  if (!f) return -1;
  for (int i = 0; i < n; ++i) {
    f->arguments[i] = *(const DLTensor *)args[i].v_handle;
    f->arguments[i].data = (char *)f->arguments[i].data + f->arguments[i].byte_offset;
    f->arguments[i].byte_offset = 0;
  }
  for (int i = 0; i < p->input_count; ++i) f->values[p->inputs[i]] = &f->arguments[i];
  for (int i = 0; i < p->output_count; ++i)
    if (p->argument_of[p->outputs[i]] == p->input_count + i) f->values[p->outputs[i]] = &f->arguments[p->input_count + i];
  int status = p->engine.run ? partition_engine_run(p, f->values) : call_kernels(p, f);
  for (int i = 0; i < p->output_count && !status; ++i)
    if (p->argument_of[p->outputs[i]] != p->input_count + i)
      status = TVMArrayCopyFromTo(f->values[p->outputs[i]], &f->arguments[p->input_count + i], NULL);
  frame_return(p, f);
  return status;
}

void partition_stop(Partition *p) {
  partition_engine_stop(p);
  for (int i = 0; p->nodes && i < p->node_count; ++i) {
    PartNode *n = &p->nodes[i];
    if (n->prepared && n->api.release) n->api.release(n->state);
    n->prepared = false;
  }
  for (Frame *f = p->idle, *next; f; f = next) {
    next = f->next;
    frame_free(p, f);
  }
  p->idle = NULL;
}

/* ---- the module ---- */

#define PACKED(function)                                                                                             \
  static int function(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)

PACKED(packed_run) {
  *ret_code = kTVMNullptr;
  (void)ret;
  return partition_run(self, args, codes, n);
}

PACKED(packed_symbol) {
  const Partition *p = self;
  (void)args, (void)codes, (void)n;
  return TVMReturnBytes(p->symbol, strlen(p->symbol), kTVMStr, ret, ret_code);
}

PACKED(packed_bytes) {
  const Partition *p = self;
  (void)args, (void)codes, (void)n;
  return TVMReturnBytes(p->bytes, p->size, kTVMBytes, ret, ret_code);
}

PACKED(load_json_runtime) {
  (void)self;
  if (n != 1 || codes[0] != kTVMBytes) return tvm_error("loadbinary_json_runtime: expected the bytes of a partition");
  const TVMByteArray *bytes = args[0].v_handle;
  Partition *p;
  TVMModuleHandle mod;
  if (partition_read(bytes->data, bytes->size, &p)) return -1;
  if (TVMModCreate("json_runtime", partition_free, p, &mod)) return partition_free(p), -1;
  if (tvm_module_builtin(mod, p->symbol, packed_run, p) || tvm_module_builtin(mod, "get_symbol", packed_symbol, p) ||
      tvm_module_builtin(mod, "save_to_bytes", packed_bytes, p))
    return TVMModFree(mod), -1;
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

PACKED(load_kernel_library) {
  (void)self, (void)ret;
  *ret_code = kTVMNullptr;
  if (n != 1 || codes[0] != kTVMStr) return tvm_error("runtime.load_kernel_library: expected the path of a library");
  return TVMKernelLibraryLoad(args[0].v_str);
}

void tvm_external_start(void) {
  tvm_builtin("runtime.module.loadbinary_json_runtime", load_json_runtime);
  tvm_builtin("runtime.load_kernel_library", load_kernel_library);
}
