/* OpenCL with a fake driver: addresses, sub-buffers, programs, launches, errors. */
#include <stdbool.h>

#include "device_bytes.h"

static FakeDriver *fake;
static const DLDevice gpu = {kDLOpenCL, 0}, cpu = {kDLOpenCL, 1};
static const char SOURCE[] = "{\"format\": \"opencl\", \"arch\": \"\", \"offset\": 0, \"size\": 4}";

static void test_accelerators_come_first(void) {
  TVMValue value;
  int code;
  OK(TVMDeviceGetAttribute(gpu, 5, &value, &code));
  CHECK(code == kTVMStr && !strcmp(value.v_str, "Fake GPU"));
  OK(TVMDeviceGetAttribute(cpu, 5, &value, &code));
  CHECK(!strcmp(value.v_str, "Fake CPU"));
  OK(TVMDeviceGetAttribute(gpu, 4, &value, &code));
  CHECK(!strcmp(value.v_str, "1.2"));
  for (int i = 0; i < 18; ++i) OK(TVMDeviceGetAttribute(gpu, i, &value, &code));
  REFUSES(TVMSynchronize(kDLOpenCL, 2, NULL), "OpenCL has 2 devices here, the first is opencl(0), 'Fake GPU'");
  REFUSES(TVMSynchronize(kDLOpenCL, -1, NULL), "the device number must not be negative");
}

static void test_views_are_parts_of_buffers(void) {
  TVMModuleHandle mod;
  TVMArrayHandle a = device_array(gpu, 64, 0), out = device_array(gpu, 64, 0), view, odd;
  int64_t length = 32, few = 4;
  OK(load_scale("opencl", SOURCE, "text", &mod));
  OK(TVMArrayCreateView(a, &length, 1, check_float32, 128, &view));
  OK(TVMArrayCreateView(a, &few, 1, check_float32, 8, &odd));
  CHECK(element(view, 0) == 32 && element(odd, 0) == 2);
  for (int i = 0; i < 3; ++i) OK(call_scale(mod, out, view, 2, 32, 16, 100));
  CHECK(element(out, 1) == 66 && fake->parts == 1 && fake->dynamic_shared == 100);
  REFUSES(call_scale(mod, out, odd, 2, 4, 4, 0), "starts 8 bytes into its buffer; this device requires a multiple of 128");
  REFUSES(TVMArrayCopyFromTo(view, out, NULL), "the source has 128 bytes, but the destination has 256");
  OK(TVMArrayFree(view));
  OK(TVMArrayFree(odd));
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(out));
  OK(TVMModFree(mod));
  CHECK(fake->blocks == 0 && fake->parts == 0 && fake->modules == 0 && fake->kernels == 0);
}

static void test_refusals(void) {
  TVMModuleHandle mod;
  TVMArrayHandle a = device_array(gpu, 8, 1), far = device_array(cpu, 8, 1);
  OK(load_scale("opencl", SOURCE, "text", &mod));
  REFUSES(call_scale(mod, a, a, 1, 8, 128, 0), "128 x 1 x 1 = 128 threads");
  REFUSES(call_scale(mod, a, far, 1, 8, 8, 0), "the array is on opencl(1), but the kernel runs on opencl(0)");
  OK(TVMModFree(mod));
  OK(load_scale("opencl", SOURCE, "bad!", &mod));
  REFUSES(call_scale(mod, a, a, 1, 8, 8, 0), "what is 'bad'?");
  OK(TVMModFree(mod));
  CHECK(fake->modules == 0);
  OK(load_scale("opencl", "", "", &mod));
  REFUSES(call_scale(mod, a, a, 1, 8, 8, 0), "the module does not contain OpenCL source");
  OK(TVMModFree(mod));
  int64_t much = 600 << 10;
  TVMArrayHandle b;
  DLDataType byte = {kDLUInt, 8, 1};
  REFUSES(TVMArrayAlloc(&much, 1, byte, gpu, &b), "cannot allocate 614400 bytes; the device has 1048576 bytes and allows at most 524288");
  fake->fail_next_sync = -5;
  REFUSES(TVMSynchronize(kDLOpenCL, 0, NULL), "clFinish failed: CL_OUT_OF_RESOURCES (-5)");
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(far));
}

static void test_copies_between_devices(void) {
  TVMArrayHandle a = device_array(gpu, 8, 1), b = device_array(cpu, 8, 50), c = device_array(gpu, 8, 9);
  OK(TVMArrayCopyFromTo(a, b, NULL));
  OK(TVMArrayCopyFromTo(b, c, NULL));
  CHECK(element(b, 7) == 8 && element(c, 0) == 1);
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(b));
  OK(TVMArrayFree(c));
}

static void test_writing_waits_neither_for_the_device_nor_for_the_host(void) {
  TVMArrayHandle a = device_array(gpu, 8, 0);
  CHECK(element(a, 7) == 7 && fake->events == 0);
  for (int turn = 0; turn < 3; ++turn) {
    float values[8] = {(float)turn, 1, 2, 3, 4, 5, 6, 7};
    OK(TVMArrayCopyFromBytes(a, values, sizeof values));
    memset(values, 0xFF, sizeof values);
    CHECK(fake->events == 1); /* the write has not been executed yet */
    CHECK(element(a, 0) == (float)turn && element(a, 7) == 7 && fake->events == 0);
  }
  size_t size = (size_t)300 << 10;
  int64_t count = (int64_t)size;
  char *bytes = malloc(size);
  TVMArrayHandle many;
  DLDataType byte = {kDLUInt, 8, 1};
  OK(TVMArrayAlloc(&count, 1, byte, gpu, &many));
  for (int turn = 0; turn < 80; ++turn) { /* more than the limit of staged writes */
    memset(bytes, turn, size);
    OK(TVMArrayCopyFromBytes(many, bytes, size));
  }
  CHECK(fake->events < 60);
  OK(TVMArrayCopyToBytes(many, bytes, size));
  CHECK(bytes[0] == 79 && bytes[size - 1] == 79 && fake->events == 0);
  free(bytes);
  OK(TVMArrayFree(many));
  OK(TVMArrayFree(a));
}

static void test_time_comes_from_the_device(void) {
  TVMModuleHandle mod;
  OK(load_scale("opencl", SOURCE, "text", &mod));
  TVMArrayHandle a = device_array(gpu, 4, 1);
  double seconds[2];
  OK(time_scale(mod, a, gpu, 0, seconds)); /* each launch takes one millisecond of the fake clock */
  CHECK(seconds[1] > 0.99e-3 && seconds[1] < 1.01e-3 && fake->events == 0);
  CHECK(time_scale(mod, a, gpu, 1, seconds) != 0 && fake->events == 0);
  fake->no_stamps = 1; /* then the host's clock is used */
  OK(time_scale(mod, a, gpu, 0, seconds));
  CHECK(seconds[1] > 0 && fake->events == 0);
  fake->no_stamps = 0;
  OK(TVMArrayFree(a));
  OK(TVMModFree(mod));
}

static void test_workspaces_are_used_again_and_given_up_for_arrays(void) {
  void *w = TVMBackendAllocWorkspace(kDLOpenCL, 0, 400 << 10, 2, 32);
  CHECK(w != NULL);
  OK(TVMBackendFreeWorkspace(kDLOpenCL, 0, w));
  CHECK(TVMBackendAllocWorkspace(kDLOpenCL, 0, 400 << 10, 2, 32) == w && fake->blocks == 1);
  OK(TVMBackendFreeWorkspace(kDLOpenCL, 0, w));
  int64_t half = 500 << 10;
  TVMArrayHandle a, b;
  DLDataType byte = {kDLUInt, 8, 1};
  OK(TVMArrayAlloc(&half, 1, byte, gpu, &a));
  OK(TVMArrayAlloc(&half, 1, byte, gpu, &b)); /* fits only after the idle workspace has been freed */
  CHECK(fake->blocks == 2);
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(b));
  CHECK(fake->blocks == 0 && fake->taken == 0);
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

static void test_damaged_bytes_are_refused(void) {
  static const char text[] = "{\"kind\": \"opencl\", \"images\": [{\"format\": \"opencl\", \"offset\": 0, \"size\": 9}], \"kernels\": {}}";
  char bytes[256];
  uint64_t length = sizeof text - 1;
  TVMModuleHandle mod;
  memcpy(bytes, "TVMDEV01", 8);
  memcpy(bytes + 8, &length, 8);
  memcpy(bytes + 16, text, sizeof text - 1);
  memset(bytes + 16 + length, 'x', 9);
  for (size_t size = 0; size < 16 + length + 9; ++size) CHECK(TVMDeviceModuleLoad(bytes, size, &mod) != 0);
  OK(TVMDeviceModuleLoad(bytes, 16 + length + 9, &mod));
  size_t size;
  CHECK(TVMDeviceModuleBytes(mod, &size) != NULL && size == 16 + length + 9);
  OK(TVMModFree(mod));
  for (size_t at = 0; at < 16 + length; ++at) {
    char kept = bytes[at];
    bytes[at] = (char)(kept ^ 0x15);
    if (!TVMDeviceModuleLoad(bytes, 16 + length + 9, &mod)) OK(TVMModFree(mod));
    bytes[at] = kept;
  }
}

int main(int argc, char **argv) {
  CHECK(argc > 1);
  fake = open_fake(argv[1], "fake_opencl.so", "TVM_OPENCL_LIBRARY");
  RUN(test_accelerators_come_first);
  RUN(test_views_are_parts_of_buffers);
  RUN(test_refusals);
  RUN(test_copies_between_devices);
  RUN(test_writing_waits_neither_for_the_device_nor_for_the_host);
  RUN(test_time_comes_from_the_device);
  RUN(test_workspaces_are_used_again_and_given_up_for_arrays);
  RUN(test_damaged_bytes_are_refused);
  RUN_WITH_FORK(test_child_of_fork_is_refused);
  CHECK(fake->blocks == 0 && fake->parts == 0 && fake->modules == 0 && fake->kernels == 0);
  return 0;
}
