/* Partitions: reading, errors, damaged bytes, and runs of one partition in several threads. */
#include <pthread.h>

#include "../include/tvm/kernel_library.h"
#include "check.h"

typedef struct { char bytes[8192]; size_t size; } Blob;

static void put(Blob *blob, const void *data, uint64_t size) {
  memcpy(blob->bytes + blob->size, &size, 8);
  memcpy(blob->bytes + blob->size + 8, data, size);
  blob->size += 8 + size;
}

static Blob packed(const char *json) {
  Blob blob = {"TVMJSON1", 8};
  put(&blob, "part", 4);
  put(&blob, json, strlen(json));
  put(&blob, "", 0);
  return blob;
}

static int load(const Blob *blob, TVMModuleHandle *out) {
  TVMFunctionHandle loader;
  TVMByteArray bytes = {blob->bytes, blob->size};
  TVMValue arg = {.v_handle = &bytes}, ret;
  int code = kTVMBytes, ret_code = kTVMNullptr;
  OK(TVMFuncGetGlobal("runtime.module.loadbinary_json_runtime", &loader));
  int status = TVMFuncCall(loader, &arg, &code, 1, &ret, &ret_code);
  TVMFuncFree(loader);
  if (!status) *out = ret.v_handle;
  return status;
}

#define VALUE "\"dtype\": [[\"float32\"]], \"shape\": [[[4]]]"
#define INPUT "{\"op\": \"input\", \"name\": \"x\", \"attrs\": {" VALUE "}}"
#define KERNEL(name, input) \
  "{\"op\": \"kernel\", \"name\": \"" name "\", \"inputs\": [[" input ", 0, 0]], \"attrs\": {\"by\": [[\"2\", \"3\"]], " VALUE "}}"
#define GRAPH(nodes, heads, rows) \
  "{\"nodes\": [" nodes "], \"arg_nodes\": [0], \"heads\": " heads ", \"node_row_ptr\": " rows "}"
static const char *TWICE = GRAPH(INPUT ", " KERNEL("test.scale", "0") ", " KERNEL("test.scale", "1"), "[[2, 0, 0]]", "[0, 1, 2, 3]");

static int prepared, released;

static int prepare(const TVMKernelNode *node, void **state) {
  CHECK(!strcmp(node->partition, "part") && node->input_count == 1 && node->output_count == 1);
  CHECK(node->inputs[0].data == NULL && node->inputs[0].shape[0] == 4);
  *state = &prepared;
  ++prepared;
  return 0;
}

static int scale(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  CHECK(state == &prepared && !strcmp(node->name, "test.scale") && inputs[0]->byte_offset == 0);
  for (int i = 0; i < 4; ++i) ((float *)outputs[0]->data)[i] = 2 * ((const float *)inputs[0]->data)[i];
  return 0;
}

static void release(void *state) {
  CHECK(state == &prepared);
  ++released;
}

static int fail(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  (void)node, (void)state, (void)inputs, (void)outputs;
  return -1;
}

static void test_kernels_are_registered_once(void) {
  TVMKernelApi api = {TVM_KERNEL_ABI_VERSION, sizeof api, prepare, scale, release};
  OK(TVMKernelRegister("test.scale", &api));
  REFUSES(TVMKernelRegister("test.scale", &api), "already registered");
  REFUSES(TVMKernelRegister("", &api), "needs a name");
  api.abi_version = 7;
  REFUSES(TVMKernelRegister("test.other", &api), "ABI version 7");
  TVMKernelApi failing = {TVM_KERNEL_ABI_VERSION, sizeof failing, NULL, fail, NULL};
  OK(TVMKernelRegister("test.fail", &failing));
  failing.run = NULL;
  REFUSES(TVMKernelRegister("test.none", &failing), "no function run");
  REFUSES(TVMKernelLibraryLoad("/nowhere.so"), "cannot open the kernel library");
}

static int call(TVMFunctionHandle function, DLTensor *x, DLTensor *y) {
  TVMValue args[2] = {{.v_handle = x}, {.v_handle = y}}, ret;
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle}, ret_code;
  return TVMFuncCall(function, args, codes, 2, &ret, &ret_code);
}

static void *work(void *function) {
  int64_t shape = 4;
  for (int round = 0; round < 500; ++round) {
    float x[5], y[4];
    for (int i = 0; i < 5; ++i) x[i] = (float)(round + i);
    DLTensor in = {x, check_cpu, 1, check_float32, &shape, NULL, 4}, out = {y, check_cpu, 1, check_float32, &shape, NULL, 0};
    OK(call(function, &in, &out));
    for (int i = 0; i < 4; ++i) CHECK(y[i] == 4 * x[i + 1]);
  }
  return NULL;
}

static void test_threads_share_a_partition(void) {
  Blob blob = packed(TWICE);
  TVMModuleHandle mod;
  TVMFunctionHandle function;
  OK(load(&blob, &mod));
  OK(TVMModGetFunction(mod, "part", 0, &function));
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(!pthread_create(&threads[i], NULL, work, function));
  for (int i = 0; i < 4; ++i) CHECK(!pthread_join(threads[i], NULL));
  CHECK(prepared == 2 && released == 0);
  int64_t shape = 5;
  float data[5] = {0};
  DLTensor wrong = {data, check_cpu, 1, check_float32, &shape, NULL, 0};
  REFUSES(call(function, &wrong, &wrong), "another type, shape or layout");
  OK(TVMFuncFree(function));
  OK(TVMModFree(mod));
  CHECK(released == 2);
}

static void refuses_run(const char *json, const char *message) {
  Blob blob = packed(json);
  TVMModuleHandle mod;
  TVMFunctionHandle function;
  int64_t shape = 4;
  float data[4] = {0};
  DLTensor x = {data, check_cpu, 1, check_float32, &shape, NULL, 0};
  OK(load(&blob, &mod));
  OK(TVMModGetFunction(mod, "part", 0, &function));
  REFUSES(call(function, &x, &x), message);
  OK(TVMFuncFree(function));
  OK(TVMModFree(mod));
}

static void test_errors_of_kernels(void) {
  refuses_run(GRAPH(INPUT ", " KERNEL("test.absent", "0"), "[[1, 0, 0]]", "[0, 1, 2]"), "kernel 'test.absent' is not registered");
  refuses_run(GRAPH(INPUT ", " KERNEL("test.fail", "0"), "[[1, 0, 0]]", "[0, 1, 2]"),
              "kernel 'test.fail' of partition 'part': failed without a message");
}

/* An engine that multiplies by four at once, in place of two kernels. */
static int engine_prepare(const TVMKernelGraph *graph, void **state) {
  CHECK(graph->node_count == 2 && graph->input_count == 1 && graph->output_count == 1 && graph->value_count == 3);
  CHECK(strstr(graph->nodes[1]->name, ".scale") != NULL);
  CHECK(graph->node_inputs[1][0] == graph->node_outputs[0]);
  CHECK(graph->inputs[0] == 0 && graph->outputs[0] == 2 && graph->values[2].shape[0] == 4);
  *state = &prepared;
  return 0;
}

static int engine_run(const TVMKernelGraph *graph, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  CHECK(state == &prepared && inputs[0]->byte_offset == 0);
  for (int i = 0; i < 4; ++i) ((float *)outputs[0]->data)[i] = 4 * ((const float *)inputs[0]->data)[i];
  return 0;
}

static int engine_fail(const TVMKernelGraph *graph, void *state, const DLTensor *const *inputs, DLTensor *const *outputs) {
  return -1;
}

static void test_an_engine_runs_a_whole_partition(void) {
  TVMKernelEngine engine = {TVM_KERNEL_ABI_VERSION, sizeof engine, engine_prepare, engine_run, release};
  OK(TVMKernelEngineRegister("whole", &engine));
  REFUSES(TVMKernelEngineRegister("whole", &engine), "engine 'whole' is already registered");
  REFUSES(TVMKernelEngineRegister("a.b", &engine), "needs a name without a dot");
  engine.run = engine_fail;
  OK(TVMKernelEngineRegister("broken", &engine));
  engine.run = NULL;
  REFUSES(TVMKernelEngineRegister("other", &engine), "needs the functions prepare and run");
  engine.abi_version = 9;
  REFUSES(TVMKernelEngineRegister("other", &engine), "ABI version 9");
  Blob blob = packed(GRAPH(INPUT ", " KERNEL("whole.scale", "0") ", " KERNEL("whole.scale", "1"), "[[2, 0, 0]]", "[0, 1, 2, 3]"));
  TVMModuleHandle mod;
  TVMFunctionHandle function;
  OK(load(&blob, &mod));
  OK(TVMModGetFunction(mod, "part", 0, &function));
  int before = released;
  work(function);
  OK(TVMFuncFree(function));
  OK(TVMModFree(mod));
  CHECK(released == before + 1);
  refuses_run(GRAPH(INPUT ", " KERNEL("broken.scale", "0") ", " KERNEL("broken.scale", "1"), "[[2, 0, 0]]", "[0, 1, 2, 3]"),
              "partition 'part', which the engine of kernel 'broken.scale' runs: failed without a message");
}

static void refuses_load(const char *json, const char *message) {
  Blob blob = packed(json);
  TVMModuleHandle mod;
  REFUSES(load(&blob, &mod), message);
}

static void test_invalid_graphs(void) {
  refuses_load("[]", "has no nodes");
  refuses_load(GRAPH(INPUT, "[[0, 0, 0]]", "[0]"), "node_row_ptr");
  refuses_load(GRAPH(INPUT, "[[0, 0, 0]]", "[0, 0]"), "node_row_ptr must increase");
  refuses_load(GRAPH(INPUT, "[]", "[0, 1]"), "no outputs");
  refuses_load(GRAPH(INPUT, "[[0, 1, 0]]", "[0, 1]"), "does not refer to an output");
  refuses_load(GRAPH(INPUT ", " KERNEL("test.scale", "1"), "[[1, 0, 0]]", "[0, 1, 2]"), "does not refer to an output");
  refuses_load(GRAPH("{\"op\": \"const\", \"name\": \"c\", \"attrs\": {" VALUE "}}", "[[0, 0, 0]]", "[0, 1]"), "constant 'c' is missing");
  refuses_load(GRAPH("{\"op\": \"loop\", \"name\": \"c\", \"attrs\": {" VALUE "}}", "[[0, 0, 0]]", "[0, 1]"), "unknown op 'loop'");
  refuses_load(GRAPH("{\"op\": \"input\", \"name\": \"x\"}", "[[0, 0, 0]]", "[0, 1]"), "one dtype and one shape");
  refuses_load("{\"nodes\": [" INPUT "], \"arg_nodes\": [], \"heads\": [[0, 0, 0]], \"node_row_ptr\": [0, 1]}", "not in arg_nodes");
  refuses_load("{\"nodes\": [" INPUT "], \"arg_nodes\": [0, 0], \"heads\": [[0, 0, 0]], \"node_row_ptr\": [0, 1]}", "twice");
}

/* Every byte of a partition is replaced by other values; reading must fail or succeed without touching other memory. */
static void test_damaged_bytes(void) {
  Blob whole = packed(TWICE);
  static const char values[] = {0, 1, -1, '0', '9', '"', '[', '}'};
  for (size_t at = 0; at < whole.size; ++at)
    for (size_t i = 0; i < sizeof values; ++i) {
      Blob blob = whole;
      TVMModuleHandle mod;
      blob.bytes[at] = values[i];
      if (!load(&blob, &mod)) TVMModFree(mod);
    }
  for (size_t size = 0; size < whole.size; ++size) {
    Blob blob = whole;
    TVMModuleHandle mod;
    blob.size = size;
    CHECK(load(&blob, &mod) != 0);
  }
}

int main(void) {
  RUN(test_kernels_are_registered_once);
  RUN(test_threads_share_a_partition);
  RUN(test_errors_of_kernels);
  RUN(test_an_engine_runs_a_whole_partition);
  RUN(test_invalid_graphs);
  RUN(test_damaged_bytes);
  return 0;
}
