/* Factories of graph executors: loading from serialized bytes, lifetimes, and rejection of damaged bytes. */
#include "executor_calls.h"

static const char GRAPH[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}], \"arg_nodes\": [0], \"heads\": [[0, 0, 0]],"
    "\"node_row_ptr\": [0, 1], \"attrs\": {\"dltype\": [\"list_str\", [\"float32\"]],"
    " \"storage_id\": [\"list_int\", [0]], \"shape\": [\"list_shape\", [[2]]]}}";

static size_t put(char *at, const void *data, uint64_t size) {
  memcpy(at, &size, 8);
  memcpy(at + 8, data, size);
  return 8 + (size_t)size;
}

/* Serializes the name, the graph and empty parameters. */
static size_t pack(char *out) {
  size_t size = put(out, "default", 7);
  size += put(out + size, GRAPH, strlen(GRAPH));
  return size + put(out + size, "", 0);
}

static int create(const char *packed, size_t size, TVMModuleHandle *out) {
  TVMFunctionHandle make;
  TVMModuleHandle lib;
  OK(TVMModCreate("test", NULL, NULL, &lib));
  OK(TVMFuncGetGlobal("tvm.graph_executor_factory.create", &make));
  CHECK(make != NULL);
  /* A block of exactly this size, so that the sanitizers detect reads past its end. */
  char *copy = malloc(size ? size : 1);
  memcpy(copy, packed, size);
  TVMByteArray bytes = {copy, size};
  TVMValue args[2] = {{.v_handle = &bytes}, {.v_handle = lib}}, ret;
  int codes[2] = {kTVMBytes, kTVMModuleHandle}, code = kTVMNullptr;
  int status = TVMFuncCall(make, args, codes, 2, &ret, &code);
  free(copy);
  OK(TVMFuncFree(make));
  OK(TVMModFree(lib));
  if (!status) *out = ret.v_handle;
  return status;
}

static void test_executors_and_functions_outlive_the_factory(void) {
  char packed[1024];
  TVMModuleHandle factory, bare;
  TVMFunctionHandle make, run;
  TVMValue device = {.v_device = {kDLCPU, 0}}, ret;
  int device_code = kTVMDevice, code = kTVMNullptr;
  OK(create(packed, pack(packed), &factory));
  OK(call(factory, "get_graph_json", NULL, NULL, 0, &ret));
  CHECK(!strcmp(ret.v_str, GRAPH));
  OK(call(factory, "remove_params", NULL, NULL, 0, &ret));
  bare = ret.v_handle;
  OK(TVMModGetFunction(bare, "default", 0, &make));
  OK(TVMModFree(factory));
  OK(TVMModFree(bare));
  OK(TVMFuncCall(make, &device, &device_code, 1, &ret, &code));
  OK(TVMFuncFree(make));
  TVMModuleHandle executor = ret.v_handle;
  OK(TVMModGetFunction(executor, "run", 0, &run));
  OK(TVMModFree(executor));
  OK(TVMFuncCall(run, NULL, NULL, 0, &ret, &code));
  OK(TVMFuncFree(run));
}

static void test_wrong_uses_are_refused(void) {
  char packed[1024];
  TVMModuleHandle factory;
  TVMValue args[2] = {{.v_str = "other"}, {.v_device = {kDLCPU, 0}}}, ret;
  int codes[2] = {kTVMStr, kTVMDevice};
  OK(create(packed, pack(packed), &factory));
  REFUSES(call(factory, "default", NULL, NULL, 0, &ret), "needs at least one device");
  REFUSES(call(factory, "debug_create", args, codes, 2, &ret), "name of the model, 'default'");
  OK(TVMModFree(factory));
}

static void test_damaged_bytes_are_refused(void) {
  char packed[1024];
  size_t size = pack(packed);
  TVMModuleHandle factory;
  for (size_t cut = 0; cut < size; ++cut) REFUSES(create(packed, cut, &factory), "corrupt");
  packed[size] = 0;
  REFUSES(create(packed, size + 1, &factory), "corrupt");
  for (int bit = 0; bit < 64; ++bit) { /* incorrect lengths */
    pack(packed);
    packed[bit / 8] ^= (char)(1 << bit % 8);
    CHECK(create(packed, size, &factory) != 0);
  }
}

int main(void) {
  RUN(test_executors_and_functions_outlive_the_factory);
  RUN(test_wrong_uses_are_refused);
  RUN(test_damaged_bytes_are_refused);
  return 0;
}
