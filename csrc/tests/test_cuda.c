/* CUDA with a fake driver: memory, copies, images, launches, captured graphs. */
#include <pthread.h>
#include <stdbool.h>

#include "device_bytes.h"
#include "executor_calls.h"

static FakeDriver *fake;
static const DLDevice gpu = {kDLCUDA, 0}, second = {kDLCUDA, 1};
static const char PTX[] = "{\"format\": \"ptx\", \"arch\": \"sm_70\", \"offset\": 0, \"size\": 4}";

static TVMModuleHandle scale_module(void) {
  TVMModuleHandle mod;
  OK(load_scale("cuda", PTX, "ptx!", &mod));
  return mod;
}

static void test_attributes(void) {
  TVMValue value;
  int code;
  CHECK(TVMDeviceExists(gpu) && TVMDeviceExists(second));
  OK(TVMDeviceGetAttribute(gpu, 4, &value, &code));
  CHECK(code == kTVMStr && !strcmp(value.v_str, "7.5"));
  OK(TVMDeviceGetAttribute(gpu, 2, &value, &code));
  CHECK(code == kTVMArgInt && value.v_int64 == 32);
  OK(TVMDeviceGetAttribute(second, 5, &value, &code));
  CHECK(!strcmp(value.v_str, "Fake GPU 1"));
  OK(TVMDeviceGetAttribute(gpu, 12, &value, &code));
  CHECK(!strcmp(value.v_str, "12.4"));
  OK(TVMDeviceGetAttribute(gpu, 14, &value, &code));
  CHECK(value.v_int64 == (int64_t)fake->memory);
  for (int i = 0; i < 18; ++i) OK(TVMDeviceGetAttribute(gpu, i, &value, &code));
  REFUSES(TVMSynchronize(kDLCUDA, 5, NULL), "cuda(5): the device does not exist; this machine has 2");
}

static void test_freed_memory_is_used_again(void) {
  TVMArrayHandle a = device_array(gpu, 10, 1);
  CHECK(element(a, 9) == 10);
  void *data = a->data;
  int before = fake->allocations;
  OK(TVMArrayFree(a));
  a = device_array(gpu, 12, 1);
  CHECK(a->data == data && fake->allocations == before);
  TVMArrayHandle b = device_array(gpu, 12, 5);
  CHECK(b->data != data && fake->allocations == before + 1);
  OK(TVMArrayCopyFromTo(b, a, NULL));
  CHECK(element(a, 3) == 8);
  void *w = TVMBackendAllocWorkspace(kDLCUDA, 0, 100, 2, 32);
  CHECK(w != NULL);
  OK(TVMBackendFreeWorkspace(kDLCUDA, 0, w));
  CHECK(TVMBackendAllocWorkspace(kDLCUDA, 0, 100, 2, 32) == w);
  OK(TVMBackendFreeWorkspace(kDLCUDA, 0, w));
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(b));
}

static void test_too_much_memory_is_refused_with_numbers(void) {
  int64_t half = 600 << 10, all = 1 << 21;
  TVMArrayHandle a, b;
  DLDataType byte = {kDLUInt, 8, 1};
  OK(TVMArrayAlloc(&half, 1, byte, gpu, &a));
  REFUSES(TVMArrayAlloc(&half, 1, byte, gpu, &b), "cannot allocate 614400 bytes:");
  CHECK(strstr(TVMGetLastError(), "of the device's 1048576 bytes are free; the arrays of this process take 614400"));
  OK(TVMArrayFree(a));
  half = 900 << 10; /* fits only after the idle block has been returned to the driver */
  OK(TVMArrayAlloc(&half, 1, byte, gpu, &b));
  OK(TVMArrayFree(b));
  REFUSES(TVMArrayAlloc(&all, 1, byte, gpu, &b), "cannot allocate 2097152 bytes");
}

static void test_copies_between_devices(void) {
  TVMArrayHandle a = device_array(gpu, 8, 1), b = device_array(second, 8, 100), c = device_array(check_cpu, 8, 50);
  OK(TVMArrayCopyFromTo(a, b, NULL));
  CHECK(element(b, 7) == 8 && fake->peer_copies == 1);
  OK(TVMArrayCopyFromTo(c, b, NULL));
  CHECK(element(b, 0) == 50);
  OK(TVMArrayCopyFromTo(b, c, NULL));
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(b));
  OK(TVMArrayFree(c));
}

static void test_memory_of_the_host_is_free_again_after_a_copy(void) {
  TVMArrayHandle a = device_array(gpu, 8, 0);
  CHECK(fake->pinned >= 1); /* the fake driver delays copies from page-locked memory */
  for (int turn = 0; turn < 40; ++turn) {
    float values[8] = {(float)turn, 1, 2, 3, 4, 5, 6, 7};
    OK(TVMArrayCopyFromBytes(a, values, sizeof values));
    memset(values, 0xFF, sizeof values);
    if (turn % 7 == 0) CHECK(element(a, 0) == (float)turn && element(a, 7) == 7);
  }
  CHECK(element(a, 0) == 39);
  size_t size = (size_t)700 << 10; /* more than one staging part */
  int64_t count = (int64_t)size;
  char *bytes = malloc(size);
  TVMArrayHandle many;
  DLDataType byte = {kDLUInt, 8, 1};
  OK(TVMArrayAlloc(&count, 1, byte, gpu, &many));
  for (size_t i = 0; i < size; ++i) bytes[i] = (char)(i % 251);
  for (int turn = 0; turn < 9; ++turn) {
    bytes[turn] = 99;
    OK(TVMArrayCopyFromBytes(many, bytes, size));
  }
  memset(bytes, 0, size);
  OK(TVMArrayCopyToBytes(many, bytes, size));
  for (size_t i = 0; i < size; ++i) CHECK(bytes[i] == (i < 9 ? 99 : (char)(i % 251)));
  free(bytes);
  OK(TVMArrayFree(many));
  OK(TVMArrayFree(a));
}

static void test_kernel(void) {
  TVMModuleHandle mod = scale_module();
  TVMArrayHandle a = device_array(gpu, 40, 0), out = device_array(gpu, 40, 0);
  int loads = fake->loads;
  OK(call_scale(mod, out, a, 2.5, 40, 32, 0));
  OK(call_scale(mod, out, a, 2.5, 40, 32, 60000));
  CHECK(element(out, 39) == 97.5f && fake->loads == loads + 1 && fake->dynamic_shared == 60000);
  REFUSES(call_scale(mod, out, a, 1, 40, 32, 100000), "40 + 100000 bytes of shared memory");
  CHECK(strstr(TVMGetLastError(), "1024 threads") && strstr(TVMGetLastError(), "65536 bytes per block"));
  REFUSES(call_scale(mod, out, a, 1, 40, 2048, 0), "2048 x 1 x 1 = 2048 threads");
  CHECK(TVMModTypeKey(mod)[0] == 'c' && fake->modules == 1);
  OK(TVMModFree(mod));
  CHECK(fake->modules == 0);
  fake->fail_next_sync = 700;
  REFUSES(TVMSynchronize(kDLCUDA, 0, NULL), "previously enqueued work failed: CUDA_ERROR_FAKE (700)");
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(out));
}

static void choose_device(int number) {
  TVMFunctionHandle choose;
  TVMValue args[2] = {{.v_int64 = kDLCUDA}, {.v_int64 = number}}, ret;
  int codes[2] = {kTVMArgInt, kTVMArgInt}, code;
  OK(TVMFuncGetGlobal("__tvm_set_device", &choose));
  OK(TVMFuncCall(choose, args, codes, 2, &ret, &code));
  OK(TVMFuncFree(choose));
}

static void test_kernels_that_wait_themselves_overlap_where_the_device_can(void) {
  TVMModuleHandle mod = scale_module();
  TVMArrayHandle a = device_array(gpu, 8, 1), b = device_array(second, 8, 1);
  int launches = fake->launches;
  OK(call_scale(mod, a, a, 3, 8, 8, 0));
  CHECK(fake->overlapping == 0);
  choose_device(1);
  OK(call_scale(mod, b, b, 5, 8, 8, 0));
  CHECK(fake->overlapping == 1 && fake->launches == launches + 2 && element(b, 7) == 40);
  REFUSES(call_scale(mod, b, b, 1, 40, 2048, 0), "2048 x 1 x 1 = 2048 threads");
  choose_device(0);
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(b));
  OK(TVMModFree(mod));
}

static int load_and_call(const char *images, const char *data, TVMArrayHandle a) {
  TVMModuleHandle mod;
  OK(load_scale("cuda", images, data, &mod));
  int status = call_scale(mod, a, a, 1, 4, 4, 0);
  OK(TVMModFree(mod));
  return status;
}

static void test_the_image_that_fits_is_loaded(void) {
  TVMArrayHandle a = device_array(gpu, 4, 1);
  const char *both = "{\"format\": \"cubin\", \"arch\": \"%s\", \"offset\": 0, \"size\": 5},"
                     "{\"format\": \"ptx\", \"arch\": \"%s\", \"offset\": 5, \"size\": 3},"
                     "{\"format\": \"cuda\", \"arch\": \"\", \"offset\": 0, \"size\": 0}";
  static const struct { const char *cubin, *ptx, *loaded; } cases[] = {
      {"sm_75", "sm_75", "cubin"}, {"sm_70", "sm_70", "cubin"}, {"sm_60", "sm_60", "ptx"}, {"sm_80", "sm_75", "ptx"},
      {"sm_90", "sm_90", NULL}, {"sm_75a", "sm_90", "cubin"}, {"sm_70a", "compute_70a", NULL}, {"sm_90", "", "ptx"}};
  char images[512];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    snprintf(images, sizeof images, both, cases[i].cubin, cases[i].ptx);
    if (cases[i].loaded) {
      OK(load_and_call(images, "cubinptx", a));
      CHECK(!strcmp(fake->loaded, cases[i].loaded));
    } else {
      REFUSES(load_and_call(images, "cubinptx", a), "'Fake GPU 0', sm_75, which cannot run it");
      CHECK(strstr(TVMGetLastError(), cases[i].cubin) && strstr(TVMGetLastError(), "-arch=sm_75"));
    }
  }
  snprintf(images, sizeof images, both, "sm_75", "sm_75");
  OK(load_and_call(images, "otherptx", a)); /* the driver decides */
  CHECK(!strcmp(fake->loaded, "ptx"));
  OK(load_and_call(images, "bad..ptx", a)); /* if one image fails to load, the next is tried */
  REFUSES(load_and_call(images, "bad..bad", a), "loading the cubin for sm_75 failed");
  CHECK(strstr(TVMGetLastError(), "what is 'bad'?"));
  OK(TVMArrayFree(a));
}

static void test_streams(void) {
  void *stream;
  TVMModuleHandle mod = scale_module();
  int streams = fake->streams;
  OK(TVMStreamCreate(kDLCUDA, 0, &stream));
  OK(TVMSetStream(kDLCUDA, 0, stream));
  TVMArrayHandle a = device_array(gpu, 8, 1);
  OK(call_scale(mod, a, a, 3, 8, 8, 0));
  CHECK(element(a, 0) == 3);
  OK(TVMArrayFree(a));
  OK(TVMSetStream(kDLCUDA, 0, NULL));
  OK(TVMStreamFree(kDLCUDA, 0, stream));
  CHECK(fake->streams == streams);
  REFUSES(TVMStreamCreate(kDLCPU, 0, &stream), "cpu(0): the device does not support streams");
  OK(TVMModFree(mod));
}

/* ---- captured graphs ---- */

static TVMModuleHandle kernels;
static int host_calls, wants_host;

static int note(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  ++host_calls;
  return 0;
}

/* Does what a compiled function does: allocates a workspace and launches two kernels; sometimes calls a host function. */
static int launcher(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  const TVMRuntimeTable *table = TVMGetRuntimeTable();
  DLTensor *in = args[0].v_handle, *out = args[1].v_handle;
  void *scratch = table->alloc_workspace(kDLCUDA, 0, 256, 2, 32), *scale, *other;
  TVMValue result;
  int code, status = scratch ? 0 : -1;
  if (!status) status = table->get_func_from_env(kernels, "scale", &scale);
  for (int step = 0; step < 2 && !status; ++step) {
    TVMValue call[7] = {{.v_handle = step ? out->data : scratch}, {.v_handle = step ? scratch : in->data}, {.v_float64 = 3},
                        {.v_int64 = 4}, {.v_int64 = 1}, {.v_int64 = 4}, {.v_int64 = 0}};
    int types[7] = {kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMArgFloat, kTVMArgInt, kTVMArgInt, kTVMArgInt, kTVMArgInt};
    status = table->func_call(scale, call, types, 7, &result, &code);
  }
  if (!status && wants_host) status = table->get_func_from_env(kernels, "test.note", &other);
  if (!status && wants_host) status = table->func_call(other, NULL, NULL, 0, &result, &code);
  table->free_workspace(kDLCUDA, 0, scratch);
  return status;
}

static const char GRAPH[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
    " {\"op\": \"tvm_op\", \"name\": \"a\", \"attrs\": {\"func_name\": \"launcher\", \"num_inputs\": \"1\","
    "  \"num_outputs\": \"1\", \"flatten_data\": \"0\"}, \"inputs\": [[0, 0, 0]]},"
    " {\"op\": \"tvm_op\", \"name\": \"b\", \"attrs\": {\"func_name\": \"launcher\", \"num_inputs\": \"1\","
    "  \"num_outputs\": \"1\", \"flatten_data\": \"0\"}, \"inputs\": [[1, 0, 0]]}],"
    "\"arg_nodes\": [0], \"heads\": [[2, 0, 0]], \"node_row_ptr\": [0, 1, 2, 3],"
    "\"attrs\": {\"dltype\": [\"list_str\", [\"float32\", \"float32\", \"float32\"]],"
    " \"storage_id\": [\"list_int\", [0, 1, 2]], \"shape\": [\"list_shape\", [[4], [4], [4]]]}}";

static int make_executor(DLDevice device, TVMModuleHandle *out) {
  TVMModuleHandle library;
  void *address;
  TVMBackendPackedCFunc code_address = launcher;
  memcpy(&address, &code_address, sizeof address);
  OK(TVMModCreate("test", NULL, NULL, &library));
  OK(TVMModAddSymbol(library, "launcher", address));
  OK(TVMModImport(library, kernels));
  int status = create_executor(GRAPH, library, &device, 1, out);
  OK(TVMModFree(library));
  return status;
}

static void run_on(TVMModuleHandle executor, TVMArrayHandle x, bool lend) {
  float last = element(x, 3);
  TVMValue args[2] = {{.v_str = "x"}, {.v_handle = x}}, ret;
  int codes[2] = {kTVMStr, kTVMNDArrayHandle}, number[1] = {kTVMArgInt};
  OK(call(executor, lend ? "set_input_zero_copy" : "set_input", args, codes, 2, &ret));
  OK(call(executor, "run", NULL, NULL, 0, &ret));
  TVMValue index[1] = {{.v_int64 = 0}};
  OK(call(executor, "get_output", index, number, 1, &ret));
  CHECK(element(ret.v_handle, 3) == 81 * last);
  OK(TVMArrayFree(ret.v_handle));
}

static void run_with(TVMModuleHandle executor, float first) {
  TVMArrayHandle x = device_array(gpu, 4, first);
  run_on(executor, x, false);
  OK(TVMArrayFree(x));
}

static bool captured(TVMModuleHandle executor) {
  TVMValue ret;
  OK(call(executor, "graph_capture", NULL, NULL, 0, &ret));
  return ret.v_int64 != 0;
}

static void test_a_static_run_is_captured_and_replayed(void) {
  TVMModuleHandle executor;
  OK(make_executor(gpu, &executor));
  run_with(executor, 1);
  CHECK(captured(executor) && fake->graphs == 1 && fake->replays == 0);
  int launches = fake->launches;
  run_with(executor, 2);
  run_with(executor, 3);
  CHECK(fake->replays == 2 && fake->launches == launches);
  TVMArrayHandle lent = device_array(gpu, 4, 4);
  run_on(executor, lent, true); /* a new address: the old graph has been discarded */
  CHECK(fake->graphs == 1 && fake->launches == launches + 8);
  run_on(executor, lent, true);
  CHECK(fake->graphs == 1 && fake->launches == launches + 8);
  void *stream;
  OK(TVMStreamCreate(kDLCUDA, 0, &stream));
  OK(TVMSetStream(kDLCUDA, 0, stream));
  int replays = fake->replays;
  run_with(executor, 5);
  CHECK(fake->replays == replays);
  OK(TVMSetStream(kDLCUDA, 0, NULL));
  OK(TVMStreamFree(kDLCUDA, 0, stream));
  TVMValue off[1] = {{.v_int64 = 0}}, ret;
  int codes[1] = {kTVMArgInt};
  OK(call(executor, "graph_capture", off, codes, 1, &ret));
  CHECK(fake->graphs == 0);
  run_with(executor, 6);
  CHECK(fake->graphs == 0 && !captured(executor));
  OK(TVMModFree(executor));
  OK(TVMArrayFree(lent));
}

static void test_what_cannot_be_replayed_is_run(void) {
  TVMModuleHandle executor;
  TVMFunctionHandle f;
  OK(TVMFuncCreateFromCFunc(note, NULL, NULL, &f));
  OK(TVMFuncRegisterGlobal("test.note", f, 1));
  OK(TVMFuncFree(f));
  wants_host = 1;
  OK(make_executor(gpu, &executor));
  for (int i = 0; i < 3; ++i) run_with(executor, (float)i);
  CHECK(host_calls == 6 && !captured(executor));
  OK(TVMModFree(executor));
  wants_host = 0;
  fake->fail_capture = 1;
  OK(make_executor(gpu, &executor));
  for (int i = 0; i < 3; ++i) run_with(executor, (float)i);
  CHECK(!captured(executor));
  OK(TVMModFree(executor));
  fake->fail_capture = 0;
  setenv("TVM_CUDA_GRAPH", "0", 1);
  OK(make_executor(gpu, &executor));
  for (int i = 0; i < 3; ++i) run_with(executor, (float)i);
  CHECK(!captured(executor) && fake->graphs == 0);
  OK(TVMModFree(executor));
  unsetenv("TVM_CUDA_GRAPH");
  OK(make_executor(gpu, &executor));
  TVMArrayHandle arrays[12];
  for (int i = 0; i < 12; ++i) arrays[i] = device_array(gpu, 4, (float)i);
  for (int i = 0; i < 12; ++i) run_on(executor, arrays[i], true); /* graphs are not captured if the address changes every time */
  CHECK(!captured(executor) && fake->graphs == 0);
  for (int i = 0; i < 12; ++i) OK(TVMArrayFree(arrays[i]));
  OK(TVMModFree(executor));
  REFUSES(make_executor(check_cpu, &executor), "the model was built for cuda and cannot run on cpu(0)");
}

static void *run_often(void *first) {
  TVMModuleHandle executor;
  OK(make_executor(gpu, &executor));
  for (int i = 0; i < 20; ++i) run_with(executor, *(float *)first + (float)i);
  CHECK(captured(executor));
  OK(TVMModFree(executor));
  return NULL;
}

static void test_threads_capture_and_replay(void) {
  pthread_t threads[4];
  float firsts[4] = {0, 100, 200, 300};
  for (int i = 0; i < 4; ++i) CHECK(!pthread_create(&threads[i], NULL, run_often, &firsts[i]));
  for (int i = 0; i < 4; ++i) CHECK(!pthread_join(threads[i], NULL));
  CHECK(fake->graphs == 0);
}

static void test_time_comes_from_the_device(void) {
  TVMModuleHandle mod = scale_module();
  TVMArrayHandle a = device_array(gpu, 4, 1);
  int events = fake->events;
  double seconds[2];
  OK(time_scale(mod, a, gpu, 0, seconds)); /* each launch takes one millisecond of the fake clock */
  CHECK(seconds[0] > 0.99e-3 && seconds[0] < 1.01e-3 && fake->events == events);
  CHECK(time_scale(mod, a, gpu, 1, seconds) != 0 && fake->events == events);
  OK(TVMArrayFree(a));
  OK(TVMModFree(mod));
}

#if SYSTEM_HAS_FORK
static void test_child_of_fork_is_refused(void) {
  pid_t child = fork();
  if (child == 0) {
    int64_t one = 1;
    TVMArrayHandle a;
    int status = TVMArrayAlloc(&one, 1, check_float32, gpu, &a);
    _exit(status && strstr(TVMGetLastError(), "a forked process cannot use it") ? 0 : 1);
  }
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

int main(int argc, char **argv) {
  CHECK(argc > 1);
  fake = open_fake(argv[1], "fake_cuda.so", "TVM_CUDA_LIBRARY");
  RUN(test_attributes);
  RUN(test_freed_memory_is_used_again);
  RUN(test_too_much_memory_is_refused_with_numbers);
  RUN(test_copies_between_devices);
  RUN(test_memory_of_the_host_is_free_again_after_a_copy);
  RUN(test_kernel);
  RUN(test_kernels_that_wait_themselves_overlap_where_the_device_can);
  RUN(test_the_image_that_fits_is_loaded);
  kernels = scale_module();
  RUN(test_a_static_run_is_captured_and_replayed);
  RUN(test_what_cannot_be_replayed_is_run);
  RUN(test_threads_capture_and_replay);
  OK(TVMModFree(kernels));
  RUN(test_streams);
  RUN(test_time_comes_from_the_device);
  RUN_WITH_FORK(test_child_of_fork_is_refused);
  CHECK(fake->modules == 0 && fake->graphs == 0 && fake->events == 8 * fake->pinned); /* events of the staging parts */
  return 0;
}
