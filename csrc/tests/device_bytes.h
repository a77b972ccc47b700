/* A handwritten device module with the kernel "scale", and functions that call it. */
#ifndef TVM_TESTS_DEVICE_BYTES_H_
#define TVM_TESTS_DEVICE_BYTES_H_

#include <libgen.h>

#include "check.h"
#include "fake_driver.h"
#include "portable.h"

/* `images` is the JSON list of the images, whose bytes are all in `data`. */
static inline int load_scale(const char *kind, const char *images, const char *data, TVMModuleHandle *out) {
  char json[2048], bytes[4096];
  uint64_t length = (uint64_t)snprintf(
      json, sizeof json,
      "{\"kind\": \"%s\", \"images\": [%s], \"kernels\": {\"scale\": {\"args\": [\"handle\", \"handle\", \"float32\", "
      "\"int32\"], \"launch\": [\"blockIdx.x\", \"threadIdx.x\", \"tir.use_dyn_shared_memory\"], \"threads\": 0, "
      "\"shared\": 0, \"dependent\": true}}}", kind, images);
  CHECK(length < sizeof json && 16 + length + strlen(data) < sizeof bytes);
  memcpy(bytes, "TVMDEV01", 8);
  memcpy(bytes + 8, &length, 8);
  memcpy(bytes + 16, json, (size_t)length);
  memcpy(bytes + 16 + length, data, strlen(data));
  return TVMDeviceModuleLoad(bytes, 16 + (size_t)length + strlen(data), out);
}

static inline int call_scale(TVMModuleHandle mod, DLTensor *out, DLTensor *a, double factor, int64_t n, int64_t block,
                             int64_t shared) {
  TVMFunctionHandle f;
  OK(TVMModGetFunction(mod, "scale", 0, &f));
  CHECK(f != NULL);
  TVMValue args[7] = {{.v_handle = out}, {.v_handle = a}, {.v_float64 = factor}, {.v_int64 = n},
                      {.v_int64 = (n + block - 1) / block}, {.v_int64 = block}, {.v_int64 = shared}}, ret;
  int codes[7] = {kTVMDLTensorHandle, kTVMDLTensorHandle, kTVMArgFloat, kTVMArgInt, kTVMArgInt, kTVMArgInt, kTVMArgInt}, code;
  int status = TVMFuncCall(f, args, codes, 7, &ret, &code);
  OK(TVMFuncFree(f));
  return status;
}

static inline TVMArrayHandle device_array(DLDevice device, int64_t count, float first) {
  TVMArrayHandle array;
  float values[64];
  CHECK(count <= 64);
  for (int i = 0; i < count; ++i) values[i] = first + (float)i;
  OK(TVMArrayAlloc(&count, 1, check_float32, device, &array));
  OK(TVMArrayCopyFromBytes(array, values, (size_t)count * 4));
  return array;
}

static inline float element(const DLTensor *array, int index) {
  float values[64];
  OK(TVMArrayCopyToBytes(array, values, (size_t)array->shape[0] * 4));
  return values[index];
}

/* Times "scale" on an array of 4 elements, twice 5 launches; with `broken`, one argument is invalid. */
static inline int time_scale(TVMModuleHandle mod, DLTensor *a, DLDevice device, int broken, double seconds[2]) {
  struct { TVMCallFrame head; TVMValue values[7]; int32_t codes[7]; } frame = {0};
  OK(TVMModGetFunction(mod, "scale", 0, &frame.head.func));
  frame.head.num_args = 7;
  TVMValue *v = frame.head.values;
  v[0].v_handle = v[1].v_handle = a;
  v[2].v_float64 = 1;
  v[3].v_int64 = v[5].v_int64 = 4;
  v[4].v_int64 = 1;
  int32_t *codes = (int32_t *)(v + 7);
  codes[0] = broken ? kTVMStr : kTVMDLTensorHandle;
  codes[1] = kTVMDLTensorHandle;
  codes[2] = kTVMArgFloat;
  TVMTimeOptions options = {5, 2, 0, 100, 0, 1, 0, NULL, device};
  int status = TVMFuncTime(&frame.head, &options, seconds);
  OK(TVMFuncFree(frame.head.func));
  return status;
}

/* Opens the fake driver in the folder of `beside` before the runtime does, through the variable that names the driver. */
static inline FakeDriver *open_fake(const char *beside, const char *name, const char *variable) {
  char folder[512], path[600];
  snprintf(folder, sizeof folder, "%s", beside);
  snprintf(path, sizeof path, "%s/%s", dirname(folder), name);
  setenv(variable, path, 1);
  void *library = system_library_open(path);
  if (!library) fprintf(stderr, "%s\n", system_library_error());
  CHECK(library != NULL);
  FakeDriver *fake = system_library_symbol(library, "fake_driver");
  CHECK(fake != NULL);
  return fake;
}

#endif /* TVM_TESTS_DEVICE_BYTES_H_ */
