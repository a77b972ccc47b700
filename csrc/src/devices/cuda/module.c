/* CUDA modules: loading of images, kernel launches, captured graphs. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

typedef struct {
  CUfunction function;
  int64_t shared; /* dynamic shared memory that the kernel may currently use */
} CudaKernel;
typedef struct { CUmodule module; CudaKernel *kernels; } CudaModule; /* one per device */

/* ---- images: compiled code of a module ---- */

/* Parses "sm_90", "compute_90" or "sm_90a": returns the version number; `exact` is set if the code runs only on this
 * version. */
static int read_arch(const char *text, bool *exact) {
  const char *digits = text + strcspn(text, "0123456789");
  char *end;
  long number = strtol(digits, &end, 10);
  *exact = *end != '\0';
  return (int)number;
}

/* Machine code runs on devices of the same major version and the same or a later minor version; PTX on all later
 * versions. */
static bool runs_on(const DeviceImage *image, const CudaDevice *d) {
  bool exact, ptx = !strcmp(image->format, "ptx");
  if (!ptx && strcmp(image->format, "cubin")) return false;
  int arch = read_arch(image->arch, &exact), have = 10 * d->major + d->minor;
  if (!arch) return true; /* the driver decides */
  if (exact) return arch == have;
  return ptx ? arch <= have : arch / 10 == d->major && arch <= have;
}

static int no_image(const DeviceModule *m, int device) {
  const CudaDevice *d = &tvm_cuda_devices[device];
  char held[256] = "";
  size_t length = 0;
  for (int i = 0; i < m->image_count; ++i) {
    const DeviceImage *image = &m->images[i];
    if (!strcmp(image->format, "cuda") || length >= sizeof held) continue;
    int added = snprintf(held + length, sizeof held - length, "%s%s for %s", length ? ", " : "", image->format, image->arch);
    length += added > 0 ? (size_t)added : 0;
  }
  return tvm_error("the package contains %s; cuda(%d) is '%s', sm_%d%d, which cannot run it: compile with target "
                   "'cuda -arch=sm_%d%d'", *held ? held : "no code", device, d->name, d->major, d->minor, d->major, d->minor);
}

static CUresult load_image(const DeviceImage *image, CUmodule *out, char *log, size_t log_size) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)log_size};
  /* The driver expects PTX as null-terminated text. */
  char *copy = malloc(image->size + 1);
  if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(copy, image->data, image->size);
  copy[image->size] = '\0';
  CUresult code = tvm_cu.cuModuleLoadDataEx(out, copy, 2, options, values);
  free(copy);
  return code;
}

/* Sets the error for an image that should run on this device but failed to load. */
static int image_failed(int device, const DeviceImage *image, CUresult code, const char *log) {
  char what[64];
  ErrorRecord first;
  snprintf(what, sizeof what, "loading the %.8s for %.16s", image->format, image->arch);
  tvm_cuda_failed(device, what, code);
  tvm_error_save(&first);
  if (*log) return tvm_error("%.3000s\n%.4000s", first.text, log);
  if (code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    return tvm_error("%.3000s; the driver is older than the compiler: compile with -arch=sm_%d%d to generate machine code",
                     first.text, tvm_cuda_devices[device].major, tvm_cuda_devices[device].minor);
  return -1;
}

static int load_module(const DeviceModule *m, int device, CUmodule *out) {
  char log[4096];
  const DeviceImage *broken = NULL;
  ErrorRecord why;
  for (int i = 0; i < m->image_count; ++i) {
    if (!runs_on(&m->images[i], &tvm_cuda_devices[device])) continue;
    memset(log, 0, sizeof log);
    CUresult code = load_image(&m->images[i], out, log, sizeof log - 1);
    if (!code) return 0;
    if (code == CUDA_ERROR_NO_BINARY_FOR_GPU || broken) continue;
    broken = &m->images[i];
    image_failed(device, broken, code, log);
    tvm_error_save(&why);
  }
  if (!broken) return no_image(m, device);
  tvm_error_restore(&why);
  return -1;
}

/* Requires the module's lock. */
static int find_kernel(DeviceKernel *k, int device, CudaKernel **out) {
  DeviceModule *m = k->module;
  if (!m->native && !(m->native = calloc(CUDA_MAX_DEVICES, sizeof(CudaModule)))) return tvm_error("out of memory");
  CudaModule *loaded = (CudaModule *)m->native + device;
  if (!loaded->kernels && !(loaded->kernels = calloc((size_t)m->kernel_count, sizeof *loaded->kernels)))
    return tvm_error("out of memory");
  if (!loaded->module && load_module(m, device, &loaded->module)) return -1;
  CudaKernel *slot = &loaded->kernels[k - m->kernels];
  if (!slot->function) {
    CUresult code = tvm_cu.cuModuleGetFunction(&slot->function, loaded->module, k->name);
    if (code == CUDA_ERROR_NOT_FOUND) return tvm_error("cuda(%d): the image does not contain the kernel '%s'", device, k->name);
    if (code) return tvm_cuda_failed(device, "cuModuleGetFunction", code);
  }
  *out = slot;
  return 0;
}

/* ---- kernel launches ---- */

static int refused_launch(const DeviceKernel *k, int device, const CudaKernel *kernel, const LaunchSizes *s, CUresult code) {
  int threads = 0, registers = 0, fixed = 0;
  const char *name = NULL;
  tvm_cu.cuGetErrorName(code, &name);
  tvm_cu.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel->function);
  tvm_cu.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel->function);
  tvm_cu.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel->function);
  const int64_t *grid = s->field, *block = s->field + LAUNCH_BLOCK;
  return tvm_error("cannot launch kernel %s: %s (%d); requested: a grid of %lld x %lld x %lld blocks of %lld x %lld x %lld = "
                   "%lld threads with %d registers each and %d + %lld bytes of shared memory; cuda(%d) '%s' allows "
                   "%d threads for this kernel, %d registers and %d bytes per block", k->name, name ? name : "?", (int)code,
                   (long long)grid[0], (long long)grid[1], (long long)grid[2], (long long)block[0], (long long)block[1],
                   (long long)block[2], (long long)(block[0] * block[1] * block[2]), registers, fixed,
                   (long long)s->field[LAUNCH_SHARED], device, tvm_cuda_devices[device].name, threads,
                   tvm_cuda_number(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                   tvm_cuda_number(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
}

/* Requests more dynamic shared memory than the default limit of all kernels. Requires the module's lock. */
static CUresult allow_shared(CudaKernel *kernel, int64_t bytes) {
  if (bytes <= kernel->shared) return CUDA_SUCCESS;
  CUresult code = tvm_cu.cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
  if (!code) kernel->shared = bytes;
  return code;
}

/* Whether the driver can launch a kernel before its predecessors finish, also in captured graphs (version 12.4 or
 * later). */
static bool overlaps_launches(int device) {
  static atomic_int version;
  int known = atomic_load(&version);
  if (!known) {
    if (tvm_cu.cuDriverGetVersion(&known)) known = 1;
    atomic_store(&version, known);
  }
  return tvm_cu.cuLaunchKernelEx && known >= 12040 && tvm_cuda_devices[device].major >= 9;
}

static CUresult launch(const DeviceKernel *k, CUfunction function, int device, const int64_t *f, void **pointers) {
  CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {(unsigned)f[0], (unsigned)f[1], (unsigned)f[2], (unsigned)f[3], (unsigned)f[4], (unsigned)f[5],
                           (unsigned)f[LAUNCH_SHARED], tvm_cuda_stream(device), &overlap, 1};
  if (k->dependent && overlaps_launches(device)) return tvm_cu.cuLaunchKernelEx(&config, function, pointers, NULL);
  return tvm_cu.cuLaunchKernel(function, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY,
                               config.blockDimZ, config.sharedMemBytes, config.hStream, pointers, NULL);
}

int tvm_cuda_launch(DeviceKernel *k, int device, const KernelArg *args, const LaunchSizes *sizes) {
  CudaKernel *kernel = NULL;
  const int64_t *f = sizes->field;
  void *pointers[MAX_KERNEL_ARGS + 1];
  for (int i = 0; i < k->arg_count; ++i) pointers[i] = (void *)&args[i].bits;
  for (int i = 0; i < LAUNCH_FIELDS; ++i)
    if (f[i] > INT32_MAX) return tvm_error("kernel %s: the launch extent %lld exceeds 2^31 - 1", k->name, (long long)f[i]);
  pthread_mutex_lock(tvm_module_lock(k->module));
  int status = find_kernel(k, device, &kernel);
  CUresult code = status ? CUDA_SUCCESS : allow_shared(kernel, f[LAUNCH_SHARED]);
  pthread_mutex_unlock(tvm_module_lock(k->module));
  if (status) return -1;
  if (!code) code = launch(k, kernel->function, device, f, pointers);
  return code ? refused_launch(k, device, kernel, sizes, code) : 0;
}

void tvm_cuda_unload(DeviceModule *m) {
  CudaModule *loaded = m->native;
  for (int d = 0; d < CUDA_MAX_DEVICES; ++d) {
    /* Unloading waits for the device. After a fork, the parent's driver must not be called. */
    if (loaded[d].module && !tvm_cuda_lost() && !tvm_cuda_open(d)) tvm_cu.cuModuleUnload(loaded[d].module);
    free(loaded[d].kernels);
  }
  free(loaded);
}

/* ---- captured graphs ----
 *
 * A capture records all work that is enqueued on its stream, by any thread. Therefore captures use a separate stream,
 * which one thread uses at a time. Captured graphs share the workspaces of that stream and are replayed only on the
 * device's default stream, one after another. */

static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static CUstream capture_streams[CUDA_MAX_DEVICES];

static int begin_capture(int id) {
  CUresult code = CUDA_SUCCESS;
  if (!capture_streams[id]) code = tvm_cu.cuStreamCreate(&capture_streams[id], CU_STREAM_NON_BLOCKING);
  if (!code) code = tvm_cu.cuStreamBeginCapture_v2(capture_streams[id], CU_STREAM_CAPTURE_MODE_RELAXED);
  return code ? tvm_cuda_failed(id, "cuStreamBeginCapture", code) : 0;
}

int tvm_cuda_capture_begin(DLDevice device) {
  int id = device.device_id;
  if (!tvm_cu.cuStreamBeginCapture_v2 || !tvm_cu.cuGraphInstantiateWithFlags || !tvm_cu.cuGraphLaunch ||
      !tvm_cu.cuStreamEndCapture || !tvm_cu.cuGraphExecDestroy || !tvm_cu.cuGraphDestroy)
    return tvm_error("cuda(%d): the driver does not support graphs", id);
  pthread_mutex_lock(&capture_lock);
  if (begin_capture(id)) {
    pthread_mutex_unlock(&capture_lock);
    return -1;
  }
  tvm_cuda_capture_to(id, capture_streams[id]);
  return 0;
}

int tvm_cuda_capture_end(DLDevice device, void **out) {
  CUgraph graph = NULL;
  CUgraphExec ready = NULL;
  int id = device.device_id;
  tvm_cuda_capture_to(id, NULL);
  CUresult code = tvm_cu.cuStreamEndCapture(capture_streams[id], &graph);
  pthread_mutex_unlock(&capture_lock);
  if (!code && out) code = tvm_cu.cuGraphInstantiateWithFlags(&ready, graph, 0);
  if (graph) tvm_cu.cuGraphDestroy(graph);
  if (code) return tvm_cuda_failed(id, "capturing a graph", code);
  if (out) *out = ready;
  return 0;
}

int tvm_cuda_graph_launch(DLDevice device, void *graph) {
  CUstream stream = tvm_cuda_stream(device.device_id);
  if (stream != tvm_cuda_devices[device.device_id].stream) return 1;
  CUresult code = tvm_cu.cuGraphLaunch(graph, stream);
  return code ? tvm_cuda_failed(device.device_id, "cuGraphLaunch", code) : 0;
}

void tvm_cuda_graph_free(DLDevice device, void *graph) {
  if (!tvm_cuda_lost() && !tvm_cuda_open(device.device_id)) tvm_cu.cuGraphExecDestroy(graph);
}
