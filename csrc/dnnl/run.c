/* Runs of programs. Each concurrent run has a frame: the memory of temporaries, and oneDNN's objects for the slots. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct Frame {
  Frame *next;
  void *memory;
  Memory *slots;
  ExecArg *args; /* of all steps, MAX_ARGS for each */
  Stream stream;
};

static void frame_free(const Program *p, Frame *f) {
  for (int i = 0; f->slots && i < p->slot_count; ++i)
    if (f->slots[i]) p->api->memory_destroy(f->slots[i]);
  if (f->stream) p->api->stream_destroy(f->stream);
  free(f->slots), free(f->args), free(f->memory), free(f);
}

void frames_free(Program *p) {
  for (Frame *f = p->idle, *next; f; f = next) {
    next = f->next;
    frame_free(p, f);
  }
  p->idle = NULL;
}

static int frame_fill(const Program *p, Frame *f) {
  if (!(f->memory = aligned_alloc(64, p->memory + 64)) || !(f->slots = calloc((size_t)p->slot_count + 1, sizeof *f->slots)) ||
      !(f->args = calloc((size_t)p->step_count * MAX_ARGS + 1, sizeof *f->args)))
    return dnnl_fail("out of memory");
  if (p->api->stream_create(&f->stream, p->api->engine, DNNL_IN_ORDER)) return dnnl_fail("oneDNN cannot create a stream");
  for (int i = 0; i < p->slot_count; ++i) {
    const Slot *s = &p->slots[i];
    void *data = s->kind == SLOT_TEMPORARY ? (char *)f->memory + s->offset : s->data;
    if (p->api->memory_create(&f->slots[i], s->md, p->api->engine, data)) return dnnl_fail("oneDNN cannot create a memory object");
  }
  for (int i = 0; i < p->step_count; ++i)
    for (int k = 0; k < p->steps[i].arg_count; ++k)
      f->args[i * MAX_ARGS + k] = (ExecArg){p->steps[i].args[k].arg, f->slots[p->steps[i].args[k].slot]};
  return 0;
}

static Frame *frame_take(Program *p) {
  pthread_mutex_lock(p->lock);
  Frame *f = p->idle;
  if (f) p->idle = f->next;
  pthread_mutex_unlock(p->lock);
  if (f) return f;
  if (!(f = calloc(1, sizeof *f))) return dnnl_fail("out of memory"), NULL;
  if (frame_fill(p, f)) return frame_free(p, f), NULL;
  return f;
}

int program_run(Program *p, const DLTensor *const *inputs, DLTensor *const *outputs) {
  Frame *f = frame_take(p);
  if (!f) return -1;
  dnnl_match_threads(p->api);
  int status = 0;
  for (int i = 0; i < p->slot_count && !status; ++i) {
    const Slot *s = &p->slots[i];
    if (s->kind == SLOT_INPUT) status = p->api->memory_set_data_handle(f->slots[i], inputs[s->argument]->data);
    else if (s->kind == SLOT_OUTPUT) status = p->api->memory_set_data_handle(f->slots[i], outputs[s->argument]->data);
  }
  for (int i = 0; i < p->step_count && !status; ++i)
    status = p->api->primitive_execute(p->steps[i].primitive, f->stream, p->steps[i].arg_count, f->args + i * MAX_ARGS);
  if (!status) status = p->api->stream_wait(f->stream);
  pthread_mutex_lock(p->lock);
  f->next = p->idle;
  p->idle = f;
  pthread_mutex_unlock(p->lock);
  return status ? dnnl_fail("oneDNN failed with status %d", status) : 0;
}

/* ---- the library ---- */

static int prepare(const TVMKernelGraph *graph, void **state) {
  const Dnnl *api = dnnl_api();
  if (!api) return -1;
  for (int i = 0; i < graph->input_count; ++i)
    if (graph->values[graph->inputs[i]].device.device_type != kDLCPU) return dnnl_fail("oneDNN partitions run on the CPU only");
  Program *p = program_new(api, graph);
  if (!p) return -1;
  dnnl_match_threads(api);
  int status = 0;
  for (int i = 0; i < graph->node_count && !status; ++i) status = build_node(p, i);
  if (!status) status = program_finish(p);
  if (status) program_free(p);
  else *state = p;
  return status;
}

static int run(const TVMKernelGraph *graph, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  return program_run(state, inputs, outputs);
}

TVM_DLL int TVMKernelLibraryInit(const TVMKernelRuntime *runtime) {
  static const TVMKernelEngine engine = {TVM_KERNEL_ABI_VERSION, sizeof engine, prepare, run, program_free};
  dnnl_runtime = runtime;
  if (runtime->size < sizeof *runtime) return dnnl_fail("this runtime is older than the kernel library for oneDNN");
  return runtime->register_engine("dnnl", &engine);
}
