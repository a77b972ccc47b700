/* The kernels of the code generator "plainc", in plain C, and its device "plainbox". The library needs the headers of the
 * runtime, but none of its symbols: the functions that it calls are in the table it receives. */
#include <stdlib.h>
#include <string.h>
#include <tvm/kernel_library.h>

static const TVMKernelRuntime *runtime;

static int fail(const char *text) {
  runtime->table->set_last_error(text);
  return -1;
}

static int64_t elements(const DLTensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

static int is_float(const TVMKernelNode *node) {
  for (int i = 0; i < node->input_count; ++i)
    if (node->inputs[i].dtype.code != kDLFloat || node->inputs[i].dtype.bits != 32) return 0;
  return 1;
}

/* Kernels without state check their node once. */
static int check_float(const TVMKernelNode *node, void **state) {
  (void)state;
  return is_float(node) ? 0 : fail("only float32 is supported");
}

static int run_relu(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  (void)node, (void)state;
  const float *x = inputs[0]->data;
  float *y = outputs[0]->data;
  for (int64_t i = 0, n = elements(inputs[0]); i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  return 0;
}

/* x + y, where y has the shape of x or is a vector along its last dimension. */
static int run_add(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  (void)node, (void)state;
  const float *x = inputs[0]->data, *y = inputs[1]->data;
  float *z = outputs[0]->data;
  int64_t n = elements(inputs[0]), period = elements(inputs[1]);
  for (int64_t i = 0; i < n; ++i) z[i] = x[i] + y[i % period];
  return 0;
}

static int run_clip(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  (void)state;
  const char *low = runtime->attr_text(node, "a_min", 0), *high = runtime->attr_text(node, "a_max", 0);
  if (!low || !high) return fail("clip needs the attributes a_min and a_max");
  float least = strtof(low, NULL), most = strtof(high, NULL), *y = outputs[0]->data;
  const float *x = inputs[0]->data;
  for (int64_t i = 0, n = elements(inputs[0]); i < n; ++i) y[i] = x[i] < least ? least : x[i] > most ? most : x[i];
  return 0;
}

/* Splits along the first dimension in equal parts. */
static int run_split(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  (void)state;
  const float *x = inputs[0]->data;
  for (int i = 0; i < node->output_count; ++i) {
    int64_t n = elements(outputs[i]);
    memcpy(outputs[i]->data, x, (size_t)n * sizeof *x);
    x += n;
  }
  return 0;
}

/* ---- relu(dense(x, weight)): the weight is a constant, which `prepare` transposes once ---- */

typedef struct { int64_t rows, depth, columns; int threads; float transposed[]; } Dense;

static int prepare_dense(const TVMKernelNode *node, void **state) {
  const DLTensor *x = &node->inputs[0], *weight = &node->inputs[1];
  if (!is_float(node) || !weight->data) return fail("dense needs float32 data and a constant weight");
  const char *threads = runtime->attr_text(node, "threads", 0);
  int64_t columns = weight->shape[0], depth = weight->shape[1];
  Dense *dense = malloc(sizeof *dense + (size_t)(columns * depth) * sizeof(float));
  if (!dense) return fail("out of memory");
  *dense = (Dense){.rows = x->shape[0], .depth = depth, .columns = columns, .threads = threads ? atoi(threads) : 0};
  const float *w = weight->data;
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t k = 0; k < depth; ++k) dense->transposed[k * columns + c] = w[c * depth + k];
  *state = dense;
  return 0;
}

typedef struct { const Dense *dense; const float *x; float *y; } DenseRun;

static void dense_row(const DenseRun *run, int64_t row) {
  const Dense *d = run->dense;
  float *y = run->y + row * d->columns;
  memset(y, 0, (size_t)d->columns * sizeof *y);
  for (int64_t k = 0; k < d->depth; ++k)
    for (int64_t c = 0; c < d->columns; ++c) y[c] += run->x[row * d->depth + k] * d->transposed[k * d->columns + c];
  for (int64_t c = 0; c < d->columns; ++c) y[c] = y[c] > 0 ? y[c] : 0;
}

static int dense_task(int task, TVMParallelGroupEnv *group, void *data) {
  const DenseRun *run = data;
  for (int64_t row = task; row < run->dense->rows; row += group->num_task) dense_row(run, row);
  return 0;
}

static int run_dense(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  (void)node;
  DenseRun run = {state, inputs[0]->data, outputs[0]->data};
  return runtime->table->parallel_launch(dense_task, &run, run.dense->threads);
}

TVM_DLL int TVMKernelLibraryInit(const TVMKernelRuntime *given) {
  static const struct { const char *name; TVMKernelApi api; } kernels[] = {
      {"plainc.nn.relu", {TVM_KERNEL_ABI_VERSION, sizeof(TVMKernelApi), check_float, run_relu, NULL}},
      {"plainc.add", {TVM_KERNEL_ABI_VERSION, sizeof(TVMKernelApi), check_float, run_add, NULL}},
      {"plainc.clip", {TVM_KERNEL_ABI_VERSION, sizeof(TVMKernelApi), check_float, run_clip, NULL}},
      {"plainc.split", {TVM_KERNEL_ABI_VERSION, sizeof(TVMKernelApi), check_float, run_split, NULL}},
      {"plainc.dense_relu", {TVM_KERNEL_ABI_VERSION, sizeof(TVMKernelApi), prepare_dense, run_dense, free}},
  };
  runtime = given;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i)
    if (given->register_kernel(kernels[i].name, &kernels[i].api)) return -1;
  return 0;
}

/* ---- the device: memory of the host ---- */

static int exists(int device_id) { return device_id == 0; }

static void *allocate(DLDevice device, size_t size, size_t alignment) {
  (void)device;
  size_t step = alignment < 64 ? 64 : alignment;
  return aligned_alloc(step, (size / step + 1) * step);
}

static void release(DLDevice device, void *data) { (void)device, free(data); }

static int copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                DLDevice to_device, size_t size, void *stream) {
  (void)from_device, (void)to_device, (void)stream;
  memcpy((char *)to + to_offset, (const char *)from + from_offset, size);
  return 0;
}

static int synchronize(DLDevice device, void *stream) { return (void)device, (void)stream, 0; }

TVM_DLL int TVMDeviceLibraryInit(const TVMRuntimeTable *table) {
  static const TVMDeviceApi api = {.abi_version = TVM_DEVICE_ABI_VERSION, .size = sizeof api, .exists = exists,
                                   .alloc = allocate, .free = release, .copy = copy, .sync = synchronize};
  return table->device_register(93, "plainbox", &api);
}
