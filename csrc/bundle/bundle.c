/* The six functions of a bundle: argument checks and errors. */
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

/* ---- errors ---- */

/* Copies the last error of this thread into the handle. */
static int failed(tvm_bundle *bundle, int code) {
  const char *last = TVMGetLastError(), *text = *last ? last : "the model failed without a message";
  size_t length = strnlen(text, sizeof bundle->error - 1);
  memcpy(bundle->error, text, length);
  bundle->error[length] = '\0';
  return code;
}

#define FAIL(bundle, code, ...) (tvm_set_error(__VA_ARGS__), failed(bundle, code))

/* Checks a handle and reserves it for this thread. */
static int begin_call(const BundleModel *model, tvm_bundle *bundle) {
  if (!bundle || bundle->model != model) {
    tvm_set_error(bundle ? "the handle belongs to another bundle" : "the handle is NULL");
    return TVM_BUNDLE_BAD_HANDLE;
  }
  if (!atomic_flag_test_and_set_explicit(&bundle->is_busy, memory_order_acquire)) return TVM_BUNDLE_OK;
  tvm_set_error("another thread is using the handle");
  return TVM_BUNDLE_BUSY;
}

static int end_call(tvm_bundle *bundle, int code) {
  atomic_flag_clear_explicit(&bundle->is_busy, memory_order_release);
  return code;
}

const char *bundle_error(const BundleModel *model, const tvm_bundle *bundle) {
  return bundle && bundle->model == model ? bundle->error : TVMGetLastError();
}

/* ---- handles ---- */

int bundle_create(const BundleModel *model, tvm_bundle **out) {
  if (!out) {
    tvm_set_error("create: the pointer to the new handle is NULL");
    return TVM_BUNDLE_BAD_POINTER;
  }
  *out = NULL;
  tvm_bundle *bundle = calloc(1, sizeof *bundle);
  if (bundle) bundle->is_set = calloc((size_t)model->info->input_count + 1, sizeof *bundle->is_set);
  if (!bundle || !bundle->is_set) {
    free(bundle);
    tvm_set_error("create: out of memory");
    return TVM_BUNDLE_FAILED;
  }
  bundle->model = model;
  atomic_flag_clear(&bundle->is_busy);
  host_start(model);
  if (model_open(bundle)) {
    bundle_destroy(model, bundle);
    return TVM_BUNDLE_FAILED;
  }
  *out = bundle;
  return TVM_BUNDLE_OK;
}

void bundle_destroy(const BundleModel *model, tvm_bundle *bundle) {
  if (begin_call(model, bundle)) return;
  model_close(bundle);
  bundle->model = NULL;
  free(bundle->is_set);
  free(bundle);
}

/* ---- inputs, runs, outputs ---- */

static const tvm_bundle_tensor *tensor_at(const tvm_bundle_tensor *tensors, int count, int index) {
  return index >= 0 && index < count ? &tensors[index] : NULL;
}

/* Checks a shape against the type of an input and computes its size in bytes. */
static int check_input_shape(tvm_bundle *bundle, const tvm_bundle_tensor *input, const int64_t *shape, uint64_t *out) {
  uint64_t nbytes = (uint64_t)input->itemsize;
  for (int i = 0; i < input->ndim; ++i) {
    if (shape[i] < 0 || (input->shape[i] >= 0 && shape[i] != input->shape[i]))
      return FAIL(bundle, TVM_BUNDLE_BAD_SHAPE, "input '%s': dimension %d is %lld, expected %s%lld", input->name, i,
                  (long long)shape[i], input->shape[i] < 0 ? "at least " : "",
                  input->shape[i] < 0 ? 0LL : (long long)input->shape[i]);
    if (__builtin_mul_overflow(nbytes, (uint64_t)shape[i], &nbytes))
      return FAIL(bundle, TVM_BUNDLE_BAD_SHAPE, "input '%s': the size of the shape exceeds the address space", input->name);
  }
  *out = nbytes;
  return TVM_BUNDLE_OK;
}

static int set_input(tvm_bundle *bundle, int index, const void *data, uint64_t nbytes, const int64_t *shape) {
  const tvm_bundle_info *info = bundle->model->info;
  const tvm_bundle_tensor *input = tensor_at(info->inputs, info->input_count, index);
  if (!input) return FAIL(bundle, TVM_BUNDLE_BAD_INDEX, "set_input: there is no input %d; the model has %d", index, (int)info->input_count);
  bool is_dynamic = false;
  for (int i = 0; i < input->ndim; ++i) is_dynamic |= input->shape[i] < 0;
  if (!shape && is_dynamic) return FAIL(bundle, TVM_BUNDLE_BAD_POINTER, "input '%s' has dynamic dimensions and needs a shape, got NULL", input->name);
  if (!shape) shape = input->shape;
  uint64_t wanted = 0;
  int code = check_input_shape(bundle, input, shape, &wanted);
  if (code) return code;
  if (nbytes != wanted)
    return FAIL(bundle, TVM_BUNDLE_BAD_SIZE, "input '%s' has %llu bytes, got %llu", input->name, (unsigned long long)wanted, (unsigned long long)nbytes);
  if (!data && nbytes) return FAIL(bundle, TVM_BUNDLE_BAD_POINTER, "input '%s': the data is NULL", input->name);
  if (model_set_input(bundle, index, data, nbytes, shape)) return failed(bundle, TVM_BUNDLE_FAILED);
  bundle->is_set[index] = true;
  bundle->has_run = false;
  return TVM_BUNDLE_OK;
}

int bundle_set_input(const BundleModel *model, tvm_bundle *bundle, int index, const void *data, uint64_t nbytes,
                     const int64_t *shape) {
  int code = begin_call(model, bundle);
  return code ? code : end_call(bundle, set_input(bundle, index, data, nbytes, shape));
}

static int run_model(tvm_bundle *bundle) {
  const tvm_bundle_info *info = bundle->model->info;
  for (int i = 0; i < info->input_count; ++i)
    if (!bundle->is_set[i]) return FAIL(bundle, TVM_BUNDLE_BAD_ORDER, "run: input '%s' is not set", info->inputs[i].name);
  bundle->has_run = false;
  TVMAPISetLastError("");
  if (model_run(bundle)) return failed(bundle, TVM_BUNDLE_FAILED);
  bundle->has_run = true;
  return TVM_BUNDLE_OK;
}

int bundle_run(const BundleModel *model, tvm_bundle *bundle) {
  int code = begin_call(model, bundle);
  return code ? code : end_call(bundle, run_model(bundle));
}

static int get_output(tvm_bundle *bundle, int index, const void **data, uint64_t *nbytes, const int64_t **shape) {
  const tvm_bundle_info *info = bundle->model->info;
  if (!tensor_at(info->outputs, info->output_count, index))
    return FAIL(bundle, TVM_BUNDLE_BAD_INDEX, "get_output: there is no output %d; the model has %d", index, (int)info->output_count);
  if (!data) return FAIL(bundle, TVM_BUNDLE_BAD_POINTER, "get_output: the pointer for the data is NULL");
  if (!bundle->has_run) return FAIL(bundle, TVM_BUNDLE_BAD_ORDER, "get_output: the model has not run with these inputs");
  const int64_t *dims;
  uint64_t size;
  if (model_output(bundle, index, data, &size, &dims)) return failed(bundle, TVM_BUNDLE_FAILED);
  if (nbytes) *nbytes = size;
  if (shape) *shape = dims;
  return TVM_BUNDLE_OK;
}

int bundle_get_output(const BundleModel *model, tvm_bundle *bundle, int index, const void **data, uint64_t *nbytes,
                      const int64_t **shape) {
  int code = begin_call(model, bundle);
  return code ? code : end_call(bundle, get_output(bundle, index, data, nbytes, shape));
}
