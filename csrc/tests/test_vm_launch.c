/* Launches of the virtual machine: repeated kernel sequences are replayed, and results are correct even after failures.
 * The device is that of fake_device.c, which supports captures. */
#include <libgen.h>

#include "fake_device.h"
#include "portable.h"
#include "vm_text.h"

enum { KERNELS = 4 };
static FakeDevice *fake;
static const DLDevice abacus = {ABACUS, 0};
/* The kernel call that fails, counted from now; 0 for none. */
static int fails_at;
/* The function that the kernel calls through the runtime table; NULL for none. */
static TVMFunctionHandle called;

static int add(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  (void)self;
  DLTensor *a = args[0].v_handle, *b = args[1].v_handle, *out = args[2].v_handle;
  CHECK(n == 3 && out->device.device_type == ABACUS && out->shape[1] == a->shape[1] && !out->byte_offset);
  if (fails_at && !--fails_at) return TVMAPISetLastError("add: simulated failure"), -1;
  if (called) OK(TVMGetRuntimeTable()->func_call(called, args, codes, n, ret, ret_code));
  return fake->give((FakeWork){out->data, a->data, b->data, 1, (size_t)(out->shape[0] * out->shape[1])});
}

/* main(x) doubles x once per kernel, each time into new storage. */
static void write_doubling(Text *text) {
  PUT(text, 2, kDLCPU, ABACUS, 1);
  put_name(text, "add");
  PUT(text, 0, 1);
  int start = begin_function(text, "main", 1, 1, 2 + 2 * KERNELS);
  PUT(text, VM_LOAD_CONSTI, 1, 24);
  for (int i = 0; i < KERNELS; ++i) {
    int storage = 2 + 2 * i, from = i ? storage - 1 : 0, to = storage + 1;
    PUT(text, VM_ALLOC_STORAGE, storage, 1, 64, FLOAT32, 1, VM_ALLOC_TENSOR, to, storage, 0, FLOAT32, 2, 2, 3);
    PUT(text, VM_INVOKE_PACKED, 0, 1, 3, from, from, to);
  }
  PUT(text, VM_RET, 1 + 2 * KERNELS);
  end_function(text, start);
}

static TVMModuleHandle open_machine(void) {
  static char bytes[32 + 512 * 8];
  Text text = {.count = 0};
  TVMModuleHandle lib = module_with("add", add), exe;
  TVMValue ret, places[3] = {{.v_int64 = ABACUS}, {.v_int64 = 0}, {.v_int64 = 2}};
  int kinds[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, code;
  write_doubling(&text);
  OK(load(bytes, seal(&text, bytes), lib, &exe));
  OK(call_for(exe, "vm_load_executable", NULL, NULL, 0, &ret, &code));
  OK(call(ret.v_handle, "init", places, kinds, 3, &(TVMValue){0}));
  OK(TVMModFree(exe));
  OK(TVMModFree(lib));
  fake->captures = fake->replays = fake->done = 0;
  return ret.v_handle;
}

static TVMArrayHandle six(float first) {
  TVMArrayHandle array;
  int64_t shape[] = {2, 3};
  float values[6];
  OK(TVMArrayAlloc(shape, 2, check_float32, abacus, &array));
  for (int i = 0; i < 6; ++i) values[i] = first + (float)i;
  OK(TVMArrayCopyFromBytes(array, values, sizeof values));
  return array;
}

static int run(TVMModuleHandle machine, TVMArrayHandle x, float *values) {
  TVMValue args[2] = {{.v_str = "main"}, {.v_handle = x}}, ret;
  int codes[2] = {kTVMStr, kTVMNDArrayHandle}, code = kTVMNullptr;
  if (call(machine, "set_input", args, codes, 2, &ret) || call_for(machine, "invoke", args, codes, 1, &ret, &code)) return -1;
  CHECK(code == kTVMNDArrayHandle);
  OK(TVMArrayCopyToBytes(ret.v_handle, values, 24));
  OK(TVMArrayFree(ret.v_handle));
  return 0;
}

/* Performs one run, checks its results, and checks that the device replayed `replays` graphs. */
static void run_right(TVMModuleHandle machine, TVMArrayHandle x, int replays) {
  float before[6], after[6];
  int so_far = fake->replays;
  OK(TVMArrayCopyToBytes(x, before, 24));
  OK(run(machine, x, after));
  for (int i = 0; i < 6; ++i) CHECK(after[i] == before[i] * (1 << KERNELS));
  CHECK(replays < 0 || fake->replays == so_far + replays);
}

static int64_t graph_capture(TVMModuleHandle machine, int wanted) {
  TVMValue arg = {.v_int64 = wanted}, ret = {.v_int64 = -1};
  OK(call(machine, "graph_capture", &arg, (int[]){kTVMArgInt}, wanted >= 0, &ret));
  return ret.v_int64;
}

static void test_kernels_that_come_again_are_replayed(void) {
  TVMModuleHandle machine = open_machine();
  TVMArrayHandle x = six(1), y = six(50);
  /* From the second run on, memory is allocated in address order. */
  run_right(machine, x, 0);
  run_right(machine, x, 0);
  CHECK(fake->captures == 0 && fake->done == 2 * KERNELS);
  run_right(machine, x, 1);
  CHECK(fake->captures == 1 && graph_capture(machine, -1) == 1);
  /* Different values in the same memory are the same launch; different memory is another launch. */
  OK(TVMArrayCopyFromBytes(x, (float[6]){9, 8, 7, 6, 5, 4}, 24));
  run_right(machine, x, 1);
  run_right(machine, y, 0);
  run_right(machine, y, 1);
  CHECK(fake->captures == 2 && graph_capture(machine, -1) == 2 && fake->graphs == 2);
  graph_capture(machine, 0);
  CHECK(fake->graphs == 0);
  run_right(machine, x, 0);
  OK(TVMModFree(machine));
  setenv("TVM_CUDA_GRAPH", "0", 1);
  machine = open_machine();
  unsetenv("TVM_CUDA_GRAPH");
  for (int i = 0; i < 4; ++i) run_right(machine, x, 0);
  CHECK(fake->captures == 0);
  OK(TVMModFree(machine));
  OK(TVMArrayFree(x));
  OK(TVMArrayFree(y));
  CHECK(fake->graphs == 0 && fake->blocks == 0);
}

static void test_what_fails_is_said_and_forgotten(void) {
  TVMArrayHandle x = six(2);
  float values[6];
  for (int i = 1; i <= KERNELS; ++i) {
    TVMModuleHandle machine = open_machine();
    fails_at = i;
    REFUSES(run(machine, x, values), "simulated failure");
    for (int times = 0; times < 4; ++times) run_right(machine, x, -1);
    CHECK(fake->replays > 0);
    OK(TVMModFree(machine));
  }
  /* A failing capture does not affect the run: the kernels are executed, and no error remains set. */
  TVMModuleHandle machine = open_machine();
  run_right(machine, x, 0);
  run_right(machine, x, 0);
  fails_at = 2;
  run_right(machine, x, 0);
  CHECK(fails_at == 0 && fake->captures == 1 && fake->graphs == 0);
  for (int i = 0; i < 3; ++i) run_right(machine, x, 0);
  CHECK(fake->captures == 1);
  OK(TVMModFree(machine));
  OK(TVMArrayFree(x));
  CHECK(fake->graphs == 0 && fake->blocks == 0);
}

static int nothing(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  (void)args, (void)codes, (void)n, (void)ret, (void)ret_code, (void)self;
  return 0;
}

static void test_functions_that_do_more_than_kernels_are_not_captured(void) {
  TVMModuleHandle machine = open_machine();
  TVMArrayHandle x = six(3);
  OK(TVMFuncCreateFromCFunc(nothing, NULL, NULL, &called));
  for (int i = 0; i < 5; ++i) run_right(machine, x, 0);
  OK(TVMFuncFree(called));
  called = NULL;
  CHECK(fake->captures == 0);
  OK(TVMModFree(machine));
  OK(TVMArrayFree(x));
  CHECK(fake->blocks == 0);
}

/* Uses more arrays than launches are remembered, in any order, with failures and mode changes in between. */
static void test_any_order_of_runs_gives_right_results(void) {
  enum { ARRAYS = 40 };
  TVMModuleHandle machine = open_machine();
  TVMArrayHandle x[ARRAYS];
  const char *cases = getenv("TVM_FUZZ_CASES"), *seed = getenv("TVM_TEST_SEED");
  uint64_t state = 88172645463325252u ^ (seed ? strtoull(seed, NULL, 10) : 0);
  float values[6];
  long count = cases ? atol(cases) : 4000, failed = 0;
  for (int i = 0; i < ARRAYS; ++i) x[i] = six((float)i);
  for (long i = 0; i < count; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    /* Use only a few arrays at first, so that some are used again before their launches are evicted. */
    TVMArrayHandle one = x[state % (state >> 40 & 1 ? ARRAYS : 4)];
    switch (state >> 20 & 63) {
      case 0: graph_capture(machine, state >> 30 & 1); break;
      case 1: fails_at = 1 + (int)(state >> 30 & 3); failed += run(machine, one, values) != 0; fails_at = 0; break;
      case 2: OK(TVMArrayCopyFromBytes(one, (float[6]){(float)(i % 100), 1, 2, 3, 4, 5}, 24)); break;
      default: run_right(machine, one, -1);
    }
  }
  CHECK(fake->replays > count / 10 && fake->graphs <= 32 && (count < 4000 || failed));
  OK(TVMModFree(machine));
  for (int i = 0; i < ARRAYS; ++i) OK(TVMArrayFree(x[i]));
  CHECK(fake->graphs == 0 && fake->blocks == 0);
}

int main(int argc, char **argv) {
  char folder[512], path[600];
  CHECK(argc > 1);
  snprintf(folder, sizeof folder, "%s", argv[1]);
  snprintf(path, sizeof path, "%s/fake_device.so", dirname(folder));
  OK(TVMDeviceLibraryLoad(path));
  void *opened = system_library_open(path);
  CHECK(opened != NULL);
  fake = system_library_symbol(opened, "fake_device");
  CHECK(fake != NULL);
  fake->tagged = 1;
  RUN(test_kernels_that_come_again_are_replayed);
  RUN(test_what_fails_is_said_and_forgotten);
  RUN(test_functions_that_do_more_than_kernels_are_not_captured);
  RUN(test_any_order_of_runs_gives_right_results);
  return 0;
}
