/* Runs models with static shapes: the main function of ahead-of-time code on the memory of a handle. */
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

enum { ALIGNMENT = 64 };

/* `memory` contains inputs, outputs and workspaces. `pointers` has the parameters of the main function. */
typedef struct { unsigned char *memory; void **pointers; } StaticState;

static int parameter_count(const BundleModel *model) {
  return model->info->input_count + model->constant_count + model->info->output_count + model->workspace_count;
}

/* Assigns addresses in `memory`, which may be NULL, to the parameters; returns the required size. */
static size_t place(const BundleModel *model, unsigned char *memory, void **pointers) {
  const tvm_bundle_info *info = model->info;
  size_t at = 0;
  int number = 0;
#define PLACE(size)                                                                        \
  do {                                                                                     \
    pointers[number++] = memory ? memory + at : NULL;                                      \
    at += ((size_t)(size) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;                        \
  } while (0)
  for (int i = 0; i < info->input_count; ++i) PLACE(info->inputs[i].nbytes);
  for (int i = 0; i < model->constant_count; ++i) pointers[number++] = (void *)(model->data + model->constant_offsets[i]);
  for (int i = 0; i < info->output_count; ++i) PLACE(info->outputs[i].nbytes);
  for (int i = 0; i < model->workspace_count; ++i) PLACE(model->workspace_sizes[i]);
#undef PLACE
  return at;
}

int model_open(tvm_bundle *bundle) {
  const BundleModel *model = bundle->model;
  StaticState *state = bundle->state = calloc(1, sizeof *state);
  if (state) state->pointers = calloc((size_t)parameter_count(model) + 1, sizeof *state->pointers);
  if (!state || !state->pointers) return tvm_error("out of memory");
  size_t size = place(model, NULL, state->pointers);
  state->memory = tvm_cpu_api.alloc((DLDevice){kDLCPU, 0}, size, ALIGNMENT);
  if (!state->memory) return -1;
  place(model, state->memory, state->pointers);
  return 0;
}

void model_close(tvm_bundle *bundle) {
  StaticState *state = bundle->state;
  if (!state) return;
  tvm_cpu_api.free((DLDevice){kDLCPU, 0}, state->memory);
  free(state->pointers);
  free(state);
}

int model_set_input(tvm_bundle *bundle, int index, const void *data, uint64_t nbytes, const int64_t *shape) {
  (void)shape;
  if (nbytes) memcpy(((StaticState *)bundle->state)->pointers[index], data, nbytes);
  return 0;
}

int model_run(tvm_bundle *bundle) {
  uint64_t before = tvm_run_begin(true);
  int status = bundle->model->run(((StaticState *)bundle->state)->pointers);
  tvm_run_end(true, before);
  return status;
}

int model_output(tvm_bundle *bundle, int index, const void **data, uint64_t *nbytes, const int64_t **shape) {
  const BundleModel *model = bundle->model;
  const tvm_bundle_tensor *output = &model->info->outputs[index];
  *data = ((StaticState *)bundle->state)->pointers[model->info->input_count + model->constant_count + index];
  *nbytes = output->nbytes;
  *shape = output->shape;
  return 0;
}
