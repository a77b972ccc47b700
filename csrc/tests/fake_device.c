/* A library of custom devices, as a third-party package would provide it: "abacus", whose memory is host memory at
 * different addresses, and "ext_dev", which implements only the required functions. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake_device.h"
#include "portable.h"
#include "tvm_runtime.h"

/* Memory is reserved without being touched: a block may be larger than the machine's memory. Addresses descend, because
 * the tests of captures depend on the order. */
#if SYSTEM_HAS_FORK
#include <sys/mman.h>

static void *reserve(size_t size) {
  static char *last;
  size = (size + 4095) / 4096 * 4096;
  void *memory = mmap(last ? last - size : NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  return last = memory;
}

static void unreserve(void *memory, size_t size) { munmap(memory, size); }
#else
#include <windows.h>

static void *reserve(size_t size) { return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT | MEM_TOP_DOWN, PAGE_READWRITE); }

static void unreserve(void *memory, size_t size) { (void)size, VirtualFree(memory, 0, MEM_RELEASE); }
#endif

#define EXPORT TVM_DLL
enum { MOST_WORK = 64 };

EXPORT FakeDevice fake_device;
static const TVMRuntimeTable *runtime;
static const uintptr_t TAG = (uintptr_t)1 << 59;

typedef struct { FakeWork work[MOST_WORK]; int count; } Graph;
static Graph *captured;

static void *real(const void *address) { return (void *)((uintptr_t)address & ~TAG); }

static int fail(const char *text) {
  runtime->set_last_error(text);
  return -1;
}

static int exists(int device_id) { return device_id < 2; }

static void *alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)alignment;
  size_t *block = fake_device.fail_next_alloc ? NULL : reserve(nbytes + 4096);
  fake_device.fail_next_alloc = 0;
  if (!block) return fail("abacus: out of device memory"), NULL;
  *block = nbytes + 4096;
  if (nbytes > fake_device.largest) fake_device.largest = nbytes;
  ++fake_device.blocks;
  uintptr_t address = (uintptr_t)block + 4096;
  return (void *)(device.device_type == ABACUS && fake_device.tagged ? address | TAG : address);
}

static void release(DLDevice device, void *data) {
  (void)device;
  size_t *block = (size_t *)((char *)real(data) - 4096);
  --fake_device.blocks;
  unreserve(block, *block);
}

static int copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                DLDevice to_device, size_t nbytes, void *stream) {
  (void)stream;
  if (from_device.device_type == kDLCPU) ++fake_device.in;
  else if (to_device.device_type == kDLCPU) ++fake_device.out;
  else ++fake_device.within;
  memmove((char *)real(to) + to_offset, (const char *)real(from) + from_offset, nbytes);
  return 0;
}

static int sync_device(DLDevice device, void *stream) {
  (void)device, (void)stream;
  return 0;
}

static int attribute(DLDevice device, int which, TVMValue *out, int *out_code) {
  if (which != 7) return 0; /* multi_processor_count */
  out->v_int64 = 10 + device.device_id;
  *out_code = kTVMArgInt;
  return 0;
}

static void work_off(const FakeWork *w) {
  float *out = real(w->out);
  const float *a = real(w->a), *b = real(w->b);
  for (size_t i = 0; i < w->count; ++i) out[i] = a[i] * w->factor + (b ? b[i] : 0);
  ++fake_device.done;
}

static int give(FakeWork work) {
  if (!captured) return work_off(&work), 0;
  if (captured->count == MOST_WORK) return fail("abacus: the captured run is too long");
  captured->work[captured->count++] = work;
  return 0;
}

/* The kernel "scale" of device_bytes.h: out, a, factor, count. */
static int launch(TVMDeviceKernel *kernel, int device_id, const TVMKernelArg *args, const TVMLaunchSizes *sizes) {
  (void)device_id, (void)sizes;
  if (strcmp(kernel->name, "scale")) return fail("abacus: only the kernel 'scale' is supported");
  if (!kernel->module->native) kernel->module->native = malloc(1);
  FakeWork work = {(float *)(uintptr_t)args[0].bits, (float *)(uintptr_t)args[1].bits, NULL, 0, (size_t)args[3].bits};
  memcpy(&work.factor, &args[2].bits, 4);
  return give(work);
}

static void unload(TVMDeviceModule *module) { free(module->native); }

static int capture_begin(DLDevice device) {
  (void)device;
  if (!(captured = calloc(1, sizeof *captured))) return fail("abacus: out of memory");
  ++fake_device.captures;
  return 0;
}

static void drop(DLDevice device, void *graph) {
  (void)device;
  --fake_device.graphs;
  free(graph);
}

static int capture_end(DLDevice device, void **out) {
  ++fake_device.graphs;
  if (out) *out = captured;
  else drop(device, captured);
  captured = NULL;
  return 0;
}

static int replay(DLDevice device, void *self) {
  (void)device;
  const Graph *graph = self;
  for (int i = 0; i < graph->count; ++i) work_off(&graph->work[i]);
  ++fake_device.replays;
  return 0;
}

EXPORT int TVMDeviceLibraryInit(const TVMRuntimeTable *table) {
  TVMDeviceApi api = {
      .abi_version = TVM_DEVICE_ABI_VERSION, .size = sizeof api, .exists = exists, .alloc = alloc, .free = release,
      .copy = copy, .sync = sync_device};
  runtime = table;
  fake_device.give = give;
  if (table->size < sizeof *table) return fail("abacus: the runtime is too old for this device library");
  if (table->device_register(kDLExtDev, "ext_dev", &api)) return -1;
  api.attribute = attribute;
  api.launch = launch;
  api.unload = unload;
  api.capture_begin = capture_begin;
  api.capture_end = capture_end;
  api.graph_launch = replay;
  api.graph_free = drop;
  return table->device_register(ABACUS, "abacus", &api);
}
