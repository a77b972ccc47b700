/* A fake libcuda: device memory is host memory, the kernel "scale" is a loop, captures are lists of launches. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/devices/cuda/cuda.h"
#include "fake_driver.h"
#include "portable.h"

#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

EXPORT FakeDriver fake_driver = {.devices = 2, .major = 7, .minor = 5, .memory = 1 << 20};
#define COUNT(what, step) __atomic_add_fetch(&fake_driver.what, step, __ATOMIC_RELAXED)
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { MAX_ARGS = 4 };
struct CUfunc_st { char name[32]; int dynamic; };
struct CUmod_st { struct CUfunc_st functions[4]; int count; };
typedef struct Launch { struct Launch *next; CUfunction f; unsigned grid, block; uint64_t args[MAX_ARGS]; } Launch;
struct CUgraph_st { Launch *first, **last; };
struct CUgraphExec_st { Launch *first; };
struct CUstream_st { CUgraph capture; };
struct CUevent_st { double time; };
struct CUctx_st { int device; };
typedef struct Memory { struct Memory *next; size_t size; void *data; } Memory;
static Memory *memory;
static struct CUctx_st contexts[8];
static double now;

EXPORT CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : 0; }
EXPORT CUresult cuDriverGetVersion(int *out) { return *out = 12040, 0; }
EXPORT CUresult cuGetErrorName(CUresult code, const char **out) {
  *out = code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_FAKE";
  return 0;
}
EXPORT CUresult cuGetErrorString(CUresult code, const char **out) { return *out = code ? "as the test requested" : "no error", 0; }
EXPORT CUresult cuDeviceGetCount(int *out) { return *out = fake_driver.devices, 0; }
EXPORT CUresult cuDeviceGet(CUdevice *out, int number) { return *out = number, 0; }
EXPORT CUresult cuDeviceGetName(char *out, int size, CUdevice d) { return snprintf(out, (size_t)size, "Fake GPU %d", d), 0; }
EXPORT CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute which, CUdevice d) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *out = fake_driver.major + 2 * d; break; /* the second device has a newer architecture */
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *out = fake_driver.minor; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *out = 1024; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *out = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *out = 65536; break;
    default: *out = 1000 + (int)which + d; break;
  }
  return 0;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice d) { return (void)d, *out = fake_driver.memory, 0; }
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d) { return *out = &contexts[d], 0; }
EXPORT CUresult cuCtxSetCurrent(CUcontext context) { return context ? 0 : CUDA_ERROR_INVALID_VALUE; }
static CUresult wait_for_all(void);
EXPORT CUresult cuCtxSynchronize(void) { return wait_for_all(); }

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size) {
  pthread_mutex_lock(&lock);
  bool fits = size <= fake_driver.memory - fake_driver.taken;
  Memory *m = fits ? malloc(sizeof *m) : NULL;
  if (m) {
    *m = (Memory){memory, size, aligned_block(size)};
    memory = m;
    fake_driver.taken += size;
    COUNT(blocks, 1);
    COUNT(allocations, 1);
    *out = (CUdeviceptr)(uintptr_t)m->data;
  }
  pthread_mutex_unlock(&lock);
  return m ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr at) {
  CUresult code = CUDA_ERROR_INVALID_VALUE;
  wait_for_all();
  pthread_mutex_lock(&lock);
  for (Memory **m = &memory; *m; m = &(*m)->next) {
    if ((CUdeviceptr)(uintptr_t)(*m)->data != at) continue;
    Memory *gone = *m;
    *m = gone->next;
    fake_driver.taken -= gone->size;
    COUNT(blocks, -1);
    aligned_block_free(gone->data);
    free(gone);
    code = 0;
    break;
  }
  pthread_mutex_unlock(&lock);
  return code;
}
EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  return *available = fake_driver.memory - fake_driver.taken, *total = fake_driver.memory, 0;
}
/* Transfers from page-locked memory are executed as late as possible. */
typedef struct Fetch { struct Fetch *next; void *to; const void *from; size_t size; } Fetch;
static Fetch *pending, **pending_end = &pending;
static struct { char *at; size_t size; } pinned[8];

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t size) {
  if (fake_driver.no_pinned || fake_driver.pinned == 8) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = pinned[fake_driver.pinned].at = malloc(size);
  pinned[fake_driver.pinned].size = size;
  return COUNT(pinned, 1), 0;
}
/* Requires the lock. */
static void catch_up(void) {
  for (Fetch *f = pending, *next; f; f = next) {
    next = f->next;
    memcpy(f->to, f->from, f->size);
    free(f);
  }
  pending = NULL;
  pending_end = &pending;
}
static CUresult wait_for_all(void) {
  pthread_mutex_lock(&lock);
  catch_up();
  pthread_mutex_unlock(&lock);
  return 0;
}
static CUresult copy(void *to, const void *from, size_t size) {
  pthread_mutex_lock(&lock);
  catch_up();
  memmove(to, from, size);
  pthread_mutex_unlock(&lock);
  return COUNT(copies, 1), 0;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream s) {
  (void)s;
  for (int i = 0; i < fake_driver.pinned; ++i) {
    const char *at = from;
    if (at < pinned[i].at || at >= pinned[i].at + pinned[i].size) continue;
    Fetch *f = malloc(sizeof *f);
    *f = (Fetch){NULL, (void *)(uintptr_t)to, from, size};
    pthread_mutex_lock(&lock);
    *pending_end = f;
    pending_end = &f->next;
    pthread_mutex_unlock(&lock);
    return COUNT(copies, 1), 0;
  }
  return copy((void *)(uintptr_t)to, from, size);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream s) {
  return (void)s, copy(to, (void *)(uintptr_t)from, size);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream s) {
  return (void)s, copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
}
EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext a, CUdeviceptr from, CUcontext b, size_t size, CUstream s) {
  return (void)a, (void)b, (void)s, COUNT(peer_copies, 1), copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  return (void)flags, COUNT(streams, 1), (*out = calloc(1, sizeof **out)) ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream s) { return COUNT(streams, -1), free(s), 0; }
EXPORT CUresult cuStreamSynchronize(CUstream s) {
  if (s->capture) return CUDA_ERROR_INVALID_VALUE;
  wait_for_all();
  return __atomic_exchange_n(&fake_driver.fail_next_sync, 0, __ATOMIC_RELAXED);
}
EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags) {
  return (void)flags, COUNT(events, 1), (*out = calloc(1, sizeof **out)) ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuEventRecord(CUevent e, CUstream s) { return (void)s, e->time = now, 0; }
EXPORT CUresult cuEventSynchronize(CUevent e) { return (void)e, wait_for_all(); }
EXPORT CUresult cuEventElapsedTime(float *out, CUevent a, CUevent b) { return *out = (float)(b->time - a->time), 0; }
EXPORT CUresult cuEventDestroy_v2(CUevent e) { return COUNT(events, -1), free(e), 0; }

EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options, void **values) {
  pthread_mutex_lock(&lock);
  snprintf(fake_driver.loaded, sizeof fake_driver.loaded, "%s", (const char *)image);
  pthread_mutex_unlock(&lock);
  COUNT(loads, 1);
  if (strstr(image, "bad")) {
    if (n == 2 && options[0] == CU_JIT_ERROR_LOG_BUFFER)
      snprintf(values[0], (size_t)(uintptr_t)values[1], "ptxas: line 1: what is 'bad'?");
    return CUDA_ERROR_INVALID_PTX;
  }
  if (strstr(image, "other")) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  COUNT(modules, 1);
  return (*out = calloc(1, sizeof **out)) ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuModuleUnload(CUmodule m) { return COUNT(modules, -1), free(m), 0; }
EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  if (strcmp(name, "scale") || m->count == 4) return CUDA_ERROR_NOT_FOUND;
  *out = &m->functions[m->count++];
  snprintf((*out)->name, sizeof(*out)->name, "%s", name);
  (*out)->dynamic = 48 << 10;
  return 0;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value) {
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 65536) return CUDA_ERROR_INVALID_VALUE;
  return f->dynamic = value > f->dynamic ? value : f->dynamic, 0;
}
EXPORT CUresult cuFuncGetAttribute(int *out, CUfunction_attribute which, CUfunction f) {
  return (void)f, *out = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 40, 0;
}

static void compute(const Launch *l) {
  float *out = (float *)(uintptr_t)l->args[0], factor;
  const float *a = (const float *)(uintptr_t)l->args[1];
  int n;
  memcpy(&factor, &l->args[2], 4);
  memcpy(&n, &l->args[3], 4);
  for (unsigned i = 0; i < l->grid * l->block && (int)i < n; ++i) out[i] = a[i] * factor;
  now += 1;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, CUstream s, void **args, void **extra) {
  (void)gy, (void)gz, (void)extra;
  if (bx * by * bz > 1024 || (int)shared > f->dynamic) return CUDA_ERROR_INVALID_VALUE;
  Launch l = {NULL, f, gx, bx, {0}};
  memcpy(&l.args[0], args[0], 8);
  memcpy(&l.args[1], args[1], 8);
  memcpy(&l.args[2], args[2], 4);
  memcpy(&l.args[3], args[3], 4);
  pthread_mutex_lock(&lock);
  catch_up();
  COUNT(launches, 1);
  fake_driver.dynamic_shared = shared;
  Launch *kept = s->capture ? malloc(sizeof *kept) : NULL;
  if (kept) {
    *kept = l;
    *s->capture->last = kept;
    s->capture->last = &kept->next;
  } else {
    compute(&l);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **args, void **extra) {
  bool overlaps = c->numAttrs == 1 && c->attrs->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                  c->attrs->value.programmaticStreamSerializationAllowed == 1;
  if (!overlaps) return CUDA_ERROR_INVALID_VALUE;
  COUNT(overlapping, 1);
  return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
                        c->hStream, args, extra);
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
  (void)mode;
  s->capture = calloc(1, sizeof *s->capture);
  s->capture->last = &s->capture->first;
  return 0;
}
static void free_launches(Launch *l) {
  for (Launch *next; l; l = next) {
    next = l->next;
    free(l);
  }
}
EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *out) {
  *out = s->capture;
  s->capture = NULL;
  if (!fake_driver.fail_capture) return 0;
  free_launches((*out)->first);
  free(*out);
  *out = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
  (void)flags;
  *out = calloc(1, sizeof **out);
  (*out)->first = graph->first;
  graph->first = NULL;
  return COUNT(graphs, 1), 0;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream s) {
  (void)s;
  COUNT(replays, 1);
  pthread_mutex_lock(&lock); /* in order, as on a stream */
  catch_up();
  for (const Launch *l = graph->first; l; l = l->next) compute(l);
  pthread_mutex_unlock(&lock);
  return 0;
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec graph) {
  free_launches(graph->first);
  return COUNT(graphs, -1), free(graph), 0;
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) { return free_launches(graph->first), free(graph), 0; }
