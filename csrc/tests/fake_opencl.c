/* A fake libOpenCL: device memory is host memory, the kernel "scale" is a loop that takes a millisecond, and
 * non-blocking writes are executed as late as possible. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

typedef int32_t Code;
EXPORT FakeDriver fake_driver = {.devices = 2, .memory = 1 << 20};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int device_names[8], platform, queue_name[8];

typedef struct Memory { struct Memory *parent; char *data; size_t size; } Memory;
typedef struct { int refs; } Program;
typedef struct { uint64_t args[4]; size_t shared; } Kernel;

typedef struct Event {
  uint64_t stamp; /* in nanoseconds */
  bool done;
} Event;
typedef struct Write { struct Write *next; char *to; const void *from; size_t size; Event *event; } Write;
static Write *pending, **pending_end = &pending;
static uint64_t now = 1000;

static Event *new_event(bool done) {
  Event *e = calloc(1, sizeof *e);
  *e = (Event){now, done};
  return __atomic_add_fetch(&fake_driver.events, 1, __ATOMIC_RELAXED), e;
}
EXPORT Code clReleaseEvent(Event *e) {
  return __atomic_sub_fetch(&fake_driver.events, 1, __ATOMIC_RELAXED), free(e), 0;
}
/* Executes the writes that must finish before the next command. */
static void catch_up(void) {
  pthread_mutex_lock(&lock);
  Write *first = pending;
  pending = NULL;
  pending_end = &pending;
  for (Write *w = first; w; w = w->next) {
    memcpy(w->to, w->from, w->size);
    w->event->done = true;
  }
  for (Write *w = first, *next; w; w = next) {
    next = w->next;
    free(w);
  }
  pthread_mutex_unlock(&lock);
}
EXPORT Code clGetEventInfo(Event *e, uint32_t which, size_t size, Code *out, size_t *out_size) {
  (void)out_size;
  if (which != 0x11D3 || size != sizeof *out) return -30;
  pthread_mutex_lock(&lock);
  *out = e->done ? 0 : 3;
  pthread_mutex_unlock(&lock);
  return 0;
}
EXPORT Code clFlush(void *q) { return (void)q, 0; }
EXPORT Code clEnqueueMarker(void *q, Event **out) { return (void)q, catch_up(), *out = new_event(true), 0; }
EXPORT Code clGetEventProfilingInfo(Event *e, uint32_t which, size_t size, uint64_t *out, size_t *out_size) {
  (void)out_size;
  if (which != 0x1283 || size != 8 || fake_driver.no_stamps) return -7;
  return *out = e->stamp, 0;
}

EXPORT Code clGetPlatformIDs(uint32_t room, void **out, uint32_t *count) {
  (void)room;
  return out[0] = &platform, *count = 1, 0;
}
EXPORT Code clGetDeviceIDs(void *p, uint64_t type, uint32_t room, void **out, uint32_t *count) {
  (void)p, (void)type;
  *count = (uint32_t)fake_driver.devices;
  for (uint32_t i = 0; i < *count && i < room; ++i) out[i] = &device_names[i];
  return 0;
}
EXPORT Code clGetDeviceInfo(void *device, uint32_t which, size_t size, void *out, size_t *out_size) {
  int number = (int)((int *)device - device_names);
  uint64_t value = 64;
  (void)out_size;
  memset(out, 0, size);
  switch (which) {
    case 0x1000: value = number == 0 ? 2 : 4; break; /* the first device is a CPU, which the runtime must not list first */
    case 0x1010: value = fake_driver.memory / 2; break;
    case 0x101F: value = fake_driver.memory; break;
    case 0x1019: value = 1024; break;
    case 0x102B: snprintf(out, size, "Fake %s", number == 0 ? "CPU" : "GPU"); return 0;
    case 0x102D: snprintf(out, size, "1.0"); return 0;
    case 0x102F: snprintf(out, size, "OpenCL 1.2 fake"); return 0;
    case 0x1005: break;
    default: break;
  }
  memcpy(out, &value, size < 8 ? size : 8);
  return 0;
}
EXPORT void *clCreateContext(const void *p, uint32_t n, void *const *devices, void *f, void *data, Code *code) {
  (void)p, (void)n, (void)f, (void)data;
  return *code = 0, devices[0];
}
EXPORT void *clCreateCommandQueue(void *context, void *device, uint64_t flags, Code *code) {
  (void)context;
  if (flags && device == &device_names[0]) return *code = -35, NULL; /* the CPU device does not support profiling */
  return *code = 0, &queue_name[(int *)device - device_names];
}
EXPORT Memory *clCreateBuffer(void *context, uint64_t flags, size_t size, void *host, Code *code) {
  (void)context, (void)flags, (void)host;
  Memory *m = NULL;
  pthread_mutex_lock(&lock);
  if (size <= fake_driver.memory - fake_driver.taken && (m = malloc(sizeof *m))) {
    *m = (Memory){NULL, calloc(1, size), size};
    fake_driver.taken += size;
    ++fake_driver.blocks;
    ++fake_driver.allocations;
  }
  pthread_mutex_unlock(&lock);
  return *code = m ? 0 : -4, m;
}
EXPORT Memory *clCreateSubBuffer(Memory *parent, uint64_t flags, uint32_t type, const size_t *region, Code *code) {
  (void)flags;
  if (type != 0x1220 || region[0] % 128 || region[0] + region[1] > parent->size) return *code = -13, NULL;
  Memory *m = malloc(sizeof *m);
  *m = (Memory){parent, parent->data + region[0], region[1]};
  return ++fake_driver.parts, *code = 0, m;
}
EXPORT Code clReleaseMemObject(Memory *m) {
  catch_up(); /* memory stays allocated until the work that uses it has finished */
  pthread_mutex_lock(&lock);
  if (m->parent) --fake_driver.parts;
  else {
    fake_driver.taken -= m->size;
    --fake_driver.blocks;
    free(m->data);
  }
  free(m);
  pthread_mutex_unlock(&lock);
  return 0;
}
EXPORT Code clEnqueueReadBuffer(void *q, Memory *m, uint32_t wait, size_t at, size_t size, void *out, uint32_t n, const void *l, void *e) {
  (void)q, (void)n, (void)l, (void)e;
  if (!wait || at + size > m->size) return -30;
  catch_up();
  return ++fake_driver.copies, memcpy(out, m->data + at, size), 0;
}
EXPORT Code clEnqueueWriteBuffer(void *q, Memory *m, uint32_t wait, size_t at, size_t size, const void *from, uint32_t n, const void *l, Event **e) {
  (void)q, (void)n, (void)l;
  if (!wait != !!e || at + size > m->size) return -30;
  __atomic_add_fetch(&fake_driver.copies, 1, __ATOMIC_RELAXED);
  if (wait) return catch_up(), memcpy(m->data + at, from, size), 0;
  Write *w = malloc(sizeof *w);
  pthread_mutex_lock(&lock);
  *w = (Write){NULL, m->data + at, from, size, *e = new_event(false)};
  *pending_end = w;
  pending_end = &w->next;
  pthread_mutex_unlock(&lock);
  return 0;
}
EXPORT Code clEnqueueCopyBuffer(void *q, Memory *a, Memory *b, size_t from, size_t to, size_t size, uint32_t n, const void *l, void *e) {
  (void)q, (void)n, (void)l, (void)e;
  if (from + size > a->size || to + size > b->size) return -30;
  catch_up();
  return ++fake_driver.copies, memmove(b->data + to, a->data + from, size), 0;
}
EXPORT Code clFinish(void *q) {
  (void)q;
  catch_up();
  Code code = fake_driver.fail_next_sync;
  return fake_driver.fail_next_sync = 0, code;
}

EXPORT Program *clCreateProgramWithSource(void *c, uint32_t n, const char **text, const size_t *size, Code *code) {
  (void)c, (void)n;
  snprintf(fake_driver.loaded, sizeof fake_driver.loaded, "%.*s", (int)*size, *text);
  return ++fake_driver.modules, *code = 0, calloc(1, sizeof(Program));
}
EXPORT Code clBuildProgram(Program *p, uint32_t n, void *const *d, const char *options, void *f, void *data) {
  (void)p, (void)n, (void)d, (void)options, (void)f, (void)data;
  return ++fake_driver.loads, strstr(fake_driver.loaded, "bad") ? -11 : 0;
}
EXPORT Code clGetProgramBuildInfo(Program *p, void *d, uint32_t which, size_t size, void *out, size_t *out_size) {
  static const char log[] = "line 1: what is 'bad'?";
  (void)p, (void)d, (void)which;
  if (out_size) *out_size = sizeof log;
  if (out) memcpy(out, log, size < sizeof log ? size : sizeof log);
  return 0;
}
EXPORT Code clReleaseProgram(Program *p) { return --fake_driver.modules, free(p), 0; }
EXPORT Kernel *clCreateKernel(Program *p, const char *name, Code *code) {
  (void)p;
  if (strcmp(name, "scale")) return *code = -46, NULL;
  return ++fake_driver.kernels, *code = 0, calloc(1, sizeof(Kernel));
}
EXPORT Code clReleaseKernel(Kernel *k) { return --fake_driver.kernels, free(k), 0; }
EXPORT Code clSetKernelArg(Kernel *k, uint32_t index, size_t size, const void *value) {
  if (index == 4 && !value) return k->shared = size, 0;
  if (index > 3 || size > 8 || !value) return -49;
  return memcpy(&k->args[index], value, size), 0;
}
EXPORT Code clGetKernelInfo(Kernel *k, uint32_t which, size_t size, uint32_t *out, size_t *out_size) {
  (void)k, (void)which, (void)size, (void)out_size;
  return *out = 5, 0; /* the last argument is the dynamic shared memory */
}
EXPORT Code clGetKernelWorkGroupInfo(Kernel *k, void *d, uint32_t which, size_t size, void *out, size_t *out_size) {
  uint64_t value = 64;
  (void)k, (void)d, (void)which, (void)out_size;
  return memcpy(out, &value, size < 8 ? size : 8), 0;
}
EXPORT Code clEnqueueNDRangeKernel(void *q, Kernel *k, uint32_t dims, const size_t *offset, const size_t *global,
                                   const size_t *local, uint32_t n, const void *l, void *e) {
  (void)q, (void)dims, (void)offset, (void)n, (void)l, (void)e;
  if (local[0] * local[1] * local[2] > 64) return -54;
  catch_up();
  Memory *out = (Memory *)(uintptr_t)k->args[0], *a = (Memory *)(uintptr_t)k->args[1];
  float factor;
  int count;
  memcpy(&factor, &k->args[2], 4);
  memcpy(&count, &k->args[3], 4);
  for (size_t i = 0; i < global[0] && (int)i < count; ++i) ((float *)out->data)[i] = ((float *)a->data)[i] * factor;
  fake_driver.dynamic_shared = k->shared;
  now += 1000000;
  return ++fake_driver.launches, 0;
}
