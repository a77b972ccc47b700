/* Custom devices from a library: registration, arrays, kernels, captured runs, and graphs on several devices. */
#include <libgen.h>

#include "device_bytes.h"
#include "executor_calls.h"
#include "fake_device.h"

static FakeDevice *fake;
static const DLDevice abacus = {ABACUS, 0}, second = {ABACUS, 1}, plain = {kDLExtDev, 0};

static void test_what_is_no_device_is_refused(void) {
  TVMDeviceApi api = {.abi_version = TVM_DEVICE_ABI_VERSION, .size = sizeof api};
  REFUSES(TVMDeviceRegister(91, "empty", &api), "device empty: its function table must define exists, alloc, free, copy and sync");
  REFUSES(TVMDeviceRegister(0, "zero", &api), "device zero: the device type is 0; it must be between 1 and 127");
  REFUSES(TVMDeviceRegister(128, "far", &api), "it must be between 1 and 127");
  REFUSES(TVMDeviceRegister(91, "", &api), "the name and the function table must not be empty");
  api.abi_version = 7;
  REFUSES(TVMDeviceRegister(91, "newer", &api), "its function table has version 7");
  REFUSES(TVMDeviceLibraryLoad("no_such_library.so"), "cannot open the device library");
  CHECK(TVMDeviceTypeOfName("empty") == -1 && TVMDeviceTypeOfName("cuda") == kDLCUDA);
  REFUSES(TVMSynchronize(91, 0, NULL), "unknown device(0): this runtime has no driver for the device; it has drivers for "
                                       "cpu, cuda, opencl, ext_dev, abacus");
}

static char path[600];

static void test_a_type_and_a_name_are_taken_once(void) {
  REFUSES(TVMDeviceLibraryLoad(path), "device ext_dev: device type 12 already has a driver, that of ext_dev");
  TVMDeviceApi api = {.abi_version = TVM_DEVICE_ABI_VERSION, .size = sizeof api};
  memcpy(&api.exists, &(void *){(void *)1}, sizeof(void *)); /* never called */
  memcpy(&api.alloc, &api.exists, sizeof(void *));
  memcpy(&api.free, &api.exists, sizeof(void *));
  memcpy(&api.copy, &api.exists, sizeof(void *));
  memcpy(&api.sync, &api.exists, sizeof(void *));
  REFUSES(TVMDeviceRegister(92, "abacus", &api), "device abacus: the name already belongs to device type 90");
  REFUSES(TVMDeviceRegister(kDLVulkan, "volcano", &api), "device volcano: device type 7 is already named vulkan");
  REFUSES(TVMDeviceRegister(kDLCPU, "cpu", &api), "type 1 already has a driver");
  memcpy(&api.capture_begin, &api.exists, sizeof(void *));
  REFUSES(TVMDeviceRegister(92, "half", &api), "defines only a part of a group");
  CHECK(TVMDeviceTypeOfName("half") == -1 && !TVMDeviceExists((DLDevice){92, 0}));
}

static void test_arrays_and_attributes(void) {
  TVMValue value;
  int code;
  CHECK(TVMDeviceTypeOfName("abacus") == ABACUS && !strcmp(TVMDeviceTypeName(ABACUS), "abacus"));
  CHECK(TVMDeviceExists(second) && !TVMDeviceExists((DLDevice){ABACUS, 2}));
  REFUSES(TVMSynchronize(ABACUS, 2, NULL), "abacus(2): the device does not exist");
  OK(TVMDeviceGetAttribute(second, 7, &value, &code));
  CHECK(code == kTVMArgInt && value.v_int64 == 11);
  OK(TVMDeviceGetAttribute(plain, 7, &value, &code));
  CHECK(code == kTVMNullptr);
  TVMArrayHandle a = device_array(abacus, 8, 1), b = device_array(second, 8, 50), c = device_array(plain, 8, 90);
  OK(TVMArrayCopyFromTo(a, b, NULL));
  CHECK(element(b, 7) == 8 && fake->within == 1);
  OK(TVMArrayCopyFromTo(b, c, NULL)); /* between two drivers, copied through host memory */
  CHECK(element(c, 3) == 4 && fake->within == 1);
  void *scratch = TVMBackendAllocWorkspace(ABACUS, 0, 100, 2, 32);
  CHECK(scratch != NULL);
  OK(TVMBackendFreeWorkspace(ABACUS, 0, scratch));
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(b));
  OK(TVMArrayFree(c));
  fake->fail_next_alloc = 1;
  int64_t one = 1;
  REFUSES(TVMArrayAlloc(&one, 1, check_float32, abacus, &a), "out of device memory");
  void *stream;
  REFUSES(TVMStreamCreate(ABACUS, 0, &stream), "abacus(0): the device does not support streams");
  CHECK(fake->blocks == 0);
}

static void test_kernels_of_a_device_module(void) {
  TVMModuleHandle mod;
  OK(load_scale("abacus", "{\"format\": \"beads\", \"arch\": \"\", \"offset\": 0, \"size\": 4}", "bead", &mod));
  CHECK(!strcmp(TVMModTypeKey(mod), "abacus"));
  TVMFunctionHandle loader;
  OK(TVMFuncGetGlobal("runtime.module.loadbinary_abacus", &loader));
  CHECK(loader != NULL);
  OK(TVMFuncFree(loader));
  TVMArrayHandle a = device_array(abacus, 8, 1);
  OK(call_scale(mod, a, a, 2.5, 8, 8, 0));
  CHECK(element(a, 7) == 20);
  OK(TVMArrayFree(a));
  OK(TVMModFree(mod));
  REFUSES(load_scale("ext_dev", "", "", &mod), "no driver for kernels of kind 'ext_dev'");
}

/* ---- graphs ---- */

static int on_abacus(const DLTensor *t) { return t->device.device_type == ABACUS; }

/* out = a + b on the device of the arrays, which must be the same. */
static int add(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  (void)codes, (void)ret, (void)ret_code, (void)self;
  DLTensor *a = args[0].v_handle, *b = args[1].v_handle, *out = args[2].v_handle;
  size_t bytes;
  CHECK(n == 3 && on_abacus(a) == on_abacus(out) && on_abacus(b) == on_abacus(out));
  OK(TVMTensorByteSize(out, &bytes));
  if (on_abacus(out)) return fake->give((FakeWork){out->data, a->data, b->data, 1, bytes / 4});
  for (size_t i = 0; i < bytes / 4; ++i) ((float *)out->data)[i] = ((float *)a->data)[i] + ((float *)b->data)[i];
  return 0;
}

#define NODE(name, function, inputs)                                                                                  \
  "{\"op\": \"tvm_op\", \"name\": \"" name "\", \"attrs\": {\"func_name\": \"" function "\"}, \"inputs\": " inputs "}"
#define INPUT(name) "{\"op\": \"null\", \"name\": \"" name "\", \"inputs\": []}"

/* y = copy_to_host(copy_to_device(x + x) + w) + (x + x) */
static const char GRAPH[] =
    "{\"nodes\": [" INPUT("x") ", " INPUT("w") ", " NODE("sum", "add", "[[0, 0, 0], [0, 0, 0]]") ", "
    NODE("to", "__copy", "[[2, 0, 0]]") ", " NODE("there", "add", "[[3, 0, 0], [1, 0, 0]]") ", "
    NODE("back", "__copy", "[[4, 0, 0]]") ", " NODE("last", "add", "[[5, 0, 0], [2, 0, 0]]") "],"
    "\"arg_nodes\": [0, 1], \"heads\": [[6, 0, 0], [4, 0, 0]], \"node_row_ptr\": [0, 1, 2, 3, 4, 5, 6, 7],"
    "\"attrs\": {\"dltype\": [\"list_str\", [\"float32\", \"float32\", \"float32\", \"float32\", \"float32\", \"float32\","
    " \"float32\"]], \"device_index\": [\"list_int\", [1, 90, 1, 90, 90, 1, 1]],"
    " \"storage_id\": [\"list_int\", [0, 1, 2, 3, 4, 5, 6]],"
    " \"shape\": [\"list_shape\", [[2, 3], [2, 3], [2, 3], [2, 3], [2, 3], [2, 3], [2, 3]]]}}";

static TVMValue answer(TVMModuleHandle mod, const char *name, TVMValue *args, int *codes, int n) {
  TVMValue ret = {.v_int64 = 0};
  OK(call(mod, name, args, codes, n, &ret));
  return ret;
}

static void set(TVMModuleHandle graph, const char *how, const char *name, DLTensor *array) {
  TVMValue args[2] = {{.v_str = name}, {.v_handle = array}};
  int codes[2] = {kTVMStr, kTVMNDArrayHandle};
  answer(graph, how, args, codes, 2);
}

static DLTensor *output(TVMModuleHandle graph, int number) {
  TVMValue index = {.v_int64 = number};
  int code = kTVMArgInt;
  return answer(graph, "get_output", &index, &code, 1).v_handle;
}

static float at(const DLTensor *array, int index) {
  float values[6];
  OK(TVMArrayCopyToBytes(array, values, sizeof values));
  return values[index];
}

static TVMArrayHandle six(DLDevice device, float step) {
  int64_t shape[] = {2, 3};
  TVMArrayHandle array;
  float values[6];
  for (int i = 0; i < 6; ++i) values[i] = step * (float)i;
  OK(TVMArrayAlloc(shape, 2, check_float32, device, &array));
  OK(TVMArrayCopyFromBytes(array, values, sizeof values));
  return array;
}

static void test_a_graph_runs_over_two_devices(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  const DLDevice devices[] = {{kDLCPU, 0}, {ABACUS, 1}};
  OK(create_executor(GRAPH, lib, devices, 2, &graph));
  CHECK(fake->blocks == 3); /* w, the copy of x + x, and their sum */
  TVMArrayHandle x = six(check_cpu, 1), w = six(check_cpu, 100), there = six(second, 7);
  set(graph, "set_input", "x", x);
  set(graph, "set_input", "w", w);
  int in = fake->in, out = fake->out;
  for (int round = 1; round < 4; ++round) {
    answer(graph, "run", NULL, NULL, 0);
    CHECK(fake->in == in + round && fake->out == out + round && fake->captures == 0);
    CHECK(answer(graph, "get_num_copies", NULL, NULL, 0).v_int64 == 2 * round);
  }
  DLTensor *y = output(graph, 0), *middle = output(graph, 1);
  CHECK(y->device.device_type == kDLCPU && on_abacus(middle) && middle->device.device_id == 1);
  CHECK(at(y, 5) == 520 && at(middle, 5) == 510);
  set(graph, "set_input_zero_copy", "w", there);
  answer(graph, "run", NULL, NULL, 0);
  CHECK(at(y, 5) == 55);
  CHECK(answer(graph, "graph_capture", (TVMValue[]){{.v_int64 = 1}}, (int[]){kTVMArgInt}, 1).v_int64 == 0);
  answer(graph, "profile_run", NULL, NULL, 0);
  CHECK(at(y, 5) == 55 && fake->captures == 0);
  OK(TVMArrayFree(y));
  OK(TVMArrayFree(middle));
  OK(TVMArrayFree(x));
  OK(TVMArrayFree(w));
  OK(TVMArrayFree(there));
  OK(TVMModFree(graph));
  OK(TVMModFree(lib));
  CHECK(fake->blocks == 0);
}

static char *changed(const char *from, const char *to) {
  static char text[sizeof GRAPH + 256];
  const char *where = strstr(GRAPH, from);
  CHECK(where != NULL);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(where - GRAPH), GRAPH, to, where + strlen(from));
  return text;
}

static void test_wrong_devices_are_refused(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  const DLDevice both[] = {{kDLCPU, 0}, {ABACUS, 0}, {ABACUS, 1}}, gone[] = {{kDLCPU, 0}, {ABACUS, 5}};
  REFUSES(create_executor(GRAPH, lib, both, 1, &graph), "stores values on abacus, but no device of this type was given; pass one device "
                                               "per type, as in lib['default'](tvm.cpu(), tvm.device('abacus'))");
  REFUSES(create_executor(GRAPH, lib, both + 1, 1, &graph), "stores values on cpu, but no device of this type");
  REFUSES(create_executor(GRAPH, lib, both, 3, &graph), "one device per type; two devices of type abacus were given");
  REFUSES(create_executor(GRAPH, lib, gone, 2, &graph), "abacus(5): the device does not exist");
  REFUSES(create_executor(GRAPH, lib, NULL, 0, &graph), "create takes 4 arguments");
  REFUSES(create_executor(changed("[0, 1, 2, 3, 4, 5, 6]", "[0, 1, 2, 2, 4, 5, 6]"), lib, both, 2, &graph), "storage 2 contains values of two devices");
  REFUSES(create_executor(changed("[[2, 0, 0]]", "[[2, 0, 0], [0, 0, 0]]"), lib, both, 2, &graph), "copy 'to' must have one input and one output");
  REFUSES(create_executor(changed("[1, 90,", "[1, 128,"), lib, both, 2, &graph), "'device_index' contains an invalid number");
  REFUSES(create_executor(changed("[1, 90,", "[1, 91,"), lib, both, 2, &graph), "stores values on unknown device (device type 91); this runtime has no driver for it");
  OK(TVMModFree(lib));
  CHECK(fake->blocks == 0);
}

static const char ALL_THERE[] = "[90, 90, 90, 90, 90, 90, 90]";

/* More devices than a graph needs may be passed; the graph is captured if its device supports captures. */
static void test_capture_is_what_a_device_can_do(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  const DLDevice both[] = {{kDLCPU, 0}, {ABACUS, 0}};
  char text[sizeof GRAPH + 64];
  snprintf(text, sizeof text, "%s", changed("[1, 90, 1, 90, 90, 1, 1]", ALL_THERE));
  /* A copy on the same device is not a kernel, so that graph is not captured; views of the same values are. */
  OK(create_executor(text, lib, both, 2, &graph));
  TVMArrayHandle x = six(check_cpu, 1), w = six(check_cpu, 100);
  for (int views = 0; views < 2; ++views) {
    fake->captures = fake->replays = 0;
    set(graph, "set_input", "x", x);
    set(graph, "set_input", "w", w);
    for (int round = 0; round < 3; ++round) answer(graph, "run", NULL, NULL, 0);
    CHECK(fake->captures == views && fake->replays == (views ? 2 : 0));
    DLTensor *y = output(graph, 0);
    CHECK(on_abacus(y) && at(y, 5) == 520);
    OK(TVMArrayFree(y));
    OK(TVMModFree(graph));
    if (views) break;
    for (char *copy; (copy = strstr(text, "__copy"));) memcpy(copy, "__nop\"", 6), memmove(copy + 6, copy + 7, strlen(copy + 6));
    char *ids = strstr(text, "[0, 1, 2, 3, 4, 5, 6]");
    memcpy(ids, "[0, 1, 2, 2, 4, 4, 6]", 21);
    OK(create_executor(text, lib, both + 1, 1, &graph));
  }
  CHECK(fake->graphs == 0);
  setenv("TVM_CUDA_GRAPH", "0", 1);
  OK(create_executor(text, lib, both + 1, 1, &graph));
  unsetenv("TVM_CUDA_GRAPH");
  for (int round = 0; round < 3; ++round) answer(graph, "run", NULL, NULL, 0);
  CHECK(fake->captures == 1);
  OK(TVMModFree(graph));
  OK(TVMArrayFree(x));
  OK(TVMArrayFree(w));
  OK(TVMModFree(lib));
}

/* Tests values at offsets beyond four gigabytes in a storage. */
static void test_offsets_have_64_bits(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  char text[sizeof GRAPH + 512];
  snprintf(text, sizeof text, "%s", changed("[1, 90, 1, 90, 90, 1, 1]",
           "[90, 90, 90, 90, 90, 90, 90]], \"storage_offset\": [\"list_int\", [0, 5000000000, 0, 0, 5000000064, 0, 0]"));
  char *ids = strstr(text, "[0, 1, 2, 3, 4, 5, 6]");
  memcpy(ids, "[0, 1, 2, 3, 1, 5, 6]", 21);
  OK(create_executor(text, lib, &abacus, 1, &graph));
  CHECK(fake->largest == 5000000064 + 24);
  TVMArrayHandle x = six(check_cpu, 1), w = six(check_cpu, 100);
  set(graph, "set_input", "x", x);
  set(graph, "set_input", "w", w);
  answer(graph, "run", NULL, NULL, 0);
  DLTensor *y = output(graph, 0), *middle = output(graph, 1);
  CHECK(at(y, 5) == 520 && at(middle, 5) == 510 && middle->byte_offset == 5000000064);
  OK(TVMArrayFree(y));
  OK(TVMArrayFree(middle));
  OK(TVMArrayFree(x));
  OK(TVMArrayFree(w));
  OK(TVMModFree(graph));
  OK(TVMModFree(lib));
}

static void test_damaged_graphs_do_no_harm(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  const DLDevice both[] = {{kDLCPU, 0}, {ABACUS, 0}};
  size_t size = strlen(GRAPH);
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; ++i) {
    static const char changes[] = "0919\"[]{},-:x";
    for (size_t c = 0; c + 1 < sizeof changes; ++c) {
      memcpy(text, GRAPH, size + 1);
      text[i] = changes[c];
      if (!create_executor(text, lib, both, 2, &graph)) OK(TVMModFree(graph));
    }
  }
  free(text);
  OK(TVMModFree(lib));
  CHECK(fake->blocks == 0);
}

/* The table of selected devices contains device types of this machine only. */
static void test_only_devices_of_this_machine_are_chosen(void) {
  TVMFunctionHandle choose;
  OK(TVMFuncGetGlobal("__tvm_set_device", &choose));
  static const int64_t wrong[] = {0, -1, 128, 129, 4096, INT32_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    TVMValue args[] = {{.v_int64 = wrong[i]}, {.v_int64 = 0}}, ret;
    int codes[] = {kTVMArgInt, kTVMArgInt}, code = kTVMNullptr;
    REFUSES(TVMFuncCall(choose, args, codes, 2, &ret, &code), "is not a device type of this machine");
  }
  OK(TVMFuncFree(choose));
}

int main(int argc, char **argv) {
  char folder[512];
  CHECK(argc > 1);
  snprintf(folder, sizeof folder, "%s", argv[1]);
  snprintf(path, sizeof path, "%s/fake_device.so", dirname(folder));
  OK(TVMDeviceLibraryLoad(path));
  void *opened = system_library_open(path);
  CHECK(opened != NULL);
  fake = system_library_symbol(opened, "fake_device");
  CHECK(fake != NULL);
  fake->tagged = 1;
  RUN(test_what_is_no_device_is_refused);
  RUN(test_a_type_and_a_name_are_taken_once);
  RUN(test_arrays_and_attributes);
  RUN(test_kernels_of_a_device_module);
  RUN(test_a_graph_runs_over_two_devices);
  RUN(test_wrong_devices_are_refused);
  RUN(test_capture_is_what_a_device_can_do);
  RUN(test_offsets_have_64_bits);
  RUN(test_damaged_graphs_do_no_harm);
  RUN(test_only_devices_of_this_machine_are_chosen);
  return 0;
}
