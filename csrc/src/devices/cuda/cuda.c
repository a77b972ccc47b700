/* CUDA devices, memory, streams and clocks, through the driver library, which is loaded at run time. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CudaFunctions tvm_cu;
CudaDevice tvm_cuda_devices[CUDA_MAX_DEVICES];

#ifdef TVM_CUDA_HEADER
/* Never called: it compiles only if the declarations agree with the toolkit's header. */
void tvm_cuda_check_declarations(void);
void tvm_cuda_check_declarations(void) {
#define CHECK_DECLARATION(name, parameters) tvm_cu.name = name;
  CUDA_FUNCTIONS(CHECK_DECLARATION)
  CUDA_GRAPH_FUNCTIONS(CHECK_DECLARATION)
  CUDA_LAUNCH_FUNCTIONS(CHECK_DECLARATION)
  CUDA_HOST_FUNCTIONS(CHECK_DECLARATION)
}
#endif

static int device_count;
static enum { UNTRIED, READY, FAILED, LOST } state;
static char failure[256];
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool opened[CUDA_MAX_DEVICES];

int tvm_cuda_failed(int device, const char *what, CUresult code) {
  const char *name = NULL, *text = NULL;
  if (tvm_cu.cuGetErrorName(code, &name) || !name) name = "unknown error";
  if (tvm_cu.cuGetErrorString(code, &text) || !text) text = "";
  return tvm_error("cuda(%d): %s failed: %s (%d): %s", device, what, name, (int)code, text);
}

int tvm_cuda_number(int device, CUdevice_attribute which) {
  int value = 0;
  return tvm_cu.cuDeviceGetAttribute(&value, which, tvm_cuda_devices[device].id) ? 0 : value;
}

bool tvm_cuda_lost(void) { return state != READY; }

/* ---- opening the driver ---- */

static int load_functions(void) {
  const char *variable = "TVM_CUDA_LIBRARY", *missing = NULL;
  void *library = tvm_driver_library(variable, SYSTEM_CUDA_NAMES);
  if (!library) {
    const char *asked = getenv(variable);
    if (asked && *asked) snprintf(failure, sizeof failure, "cannot open the library '%.150s' (%s)", asked, variable);
    else snprintf(failure, sizeof failure, SYSTEM_CUDA " was not found: install the NVIDIA driver");
    return -1;
  }
  void *address;
#define FIND(name, parameters) memcpy(&tvm_cu.name, (address = system_library_symbol(library, #name), &address), sizeof address);
#define FIND_OR_MISS(name, parameters) FIND(name, parameters) if (!address) missing = #name;
  CUDA_FUNCTIONS(FIND_OR_MISS)
  CUDA_GRAPH_FUNCTIONS(FIND)
  CUDA_LAUNCH_FUNCTIONS(FIND)
  CUDA_HOST_FUNCTIONS(FIND)
  if (!missing) return 0;
  snprintf(failure, sizeof failure, "the driver library does not define %s; install a newer driver", missing);
  return -1;
}

static int find_devices(void) {
  if (load_functions()) return -1;
  CUresult code = tvm_cu.cuInit(0);
  if (!code) code = tvm_cu.cuDeviceGetCount(&device_count);
  if (code && code != CUDA_ERROR_NO_DEVICE) {
    const char *name = NULL, *text = NULL;
    tvm_cu.cuGetErrorName(code, &name);
    tvm_cu.cuGetErrorString(code, &text);
    snprintf(failure, sizeof failure, "cannot initialize the driver: %s (%d): %s", name ? name : "?", (int)code, text ? text : "");
    return -1;
  }
  if (device_count > CUDA_MAX_DEVICES) device_count = CUDA_MAX_DEVICES;
  if (!code && device_count > 0) return 0;
  snprintf(failure, sizeof failure, "the driver found no GPU");
  return -1;
}

static int open_device(int device) {
  CudaDevice *d = &tvm_cuda_devices[device];
  CUresult code = tvm_cu.cuDeviceGet(&d->id, device);
  if (code) return tvm_cuda_failed(device, "cuDeviceGet", code);
  if (tvm_cu.cuDeviceGetName(d->name, sizeof d->name, d->id)) snprintf(d->name, sizeof d->name, "GPU");
  d->major = tvm_cuda_number(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  d->minor = tvm_cuda_number(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (!d->context && (code = tvm_cu.cuDevicePrimaryCtxRetain(&d->context, d->id)))
    return tvm_cuda_failed(device, "cuDevicePrimaryCtxRetain", code);
  if ((code = tvm_cu.cuCtxSetCurrent(d->context))) return tvm_cuda_failed(device, "cuCtxSetCurrent", code);
  if (!d->stream && (code = tvm_cu.cuStreamCreate(&d->stream, CU_STREAM_DEFAULT)))
    return tvm_cuda_failed(device, "cuStreamCreate", code);
  return 0;
}

static int open_first(int device) {
  if (state == UNTRIED) state = find_devices() ? FAILED : READY;
  if (state == LOST)
    return tvm_error("cuda(%d): the driver was opened before this process was forked, and a forked process cannot use it; "
                     "use the multiprocessing start method 'spawn'", device);
  if (state == FAILED) return tvm_error("cuda(%d): %s", device, failure);
  if (device >= device_count)
    return tvm_error("cuda(%d): the device does not exist; this machine has %d CUDA devices, numbered from 0", device, device_count);
  return open_device(device);
}

int tvm_cuda_open(int device) {
  if (device < CUDA_MAX_DEVICES && atomic_load_explicit(&opened[device], memory_order_acquire)) {
    /* Other libraries of the process may have made another context current on this thread. */
    CUresult code = tvm_cu.cuCtxSetCurrent(tvm_cuda_devices[device].context);
    return code ? tvm_cuda_failed(device, "cuCtxSetCurrent", code) : 0;
  }
  pthread_mutex_lock(&open_lock);
  int status = open_first(device);
  if (!status) atomic_store_explicit(&opened[device], true, memory_order_release);
  pthread_mutex_unlock(&open_lock);
  return status;
}

static int cuda_exists(int device) { return device < device_count; }

/* ---- streams ---- */

static _Thread_local CUstream chosen_stream[CUDA_MAX_DEVICES], capture_stream;
/* Set when a user creates the first stream: from then on, several streams may use the same memory. */
static atomic_bool many_streams;

void tvm_cuda_capture_to(int device, CUstream stream) {
  (void)device; /* a thread captures on only one device at a time */
  capture_stream = stream;
}

CUstream tvm_cuda_stream(int device) {
  if (capture_stream) return capture_stream;
  return chosen_stream[device] ? chosen_stream[device] : tvm_cuda_devices[device].stream;
}

bool tvm_cuda_one_stream(int device) {
  return !atomic_load(&many_streams) && tvm_cuda_stream(device) == tvm_cuda_devices[device].stream;
}

static int cuda_stream_create(DLDevice device, void **out) {
  CUstream stream;
  CUresult code = tvm_cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT);
  if (code) return tvm_cuda_failed(device.device_id, "cuStreamCreate", code);
  atomic_store(&many_streams, true);
  *out = stream;
  return 0;
}

static int cuda_stream_set(DLDevice device, void *stream) {
  if (stream) atomic_store(&many_streams, true);
  chosen_stream[device.device_id] = stream;
  return 0;
}

static int cuda_sync(DLDevice device, void *stream) {
  CUresult code = tvm_cu.cuStreamSynchronize(stream ? (CUstream)stream : tvm_cuda_stream(device.device_id));
  return code ? tvm_cuda_failed(device.device_id, "previously enqueued work", code) : 0;
}

/* ---- memory: freed blocks are cached and reused, because an allocation by the driver takes longer than most kernels
 * ---- */

typedef struct { CUdeviceptr at; size_t size; CUstream stream; int device; bool pinned; } Block;
typedef struct { Block *items; int count, room; } Blocks;

static Blocks used, idle;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
enum { GRAIN = 512 };

static int add_block(Blocks *list, Block block) {
  if (list->count == list->room) {
    int room = list->room ? 2 * list->room : 64;
    Block *more = realloc(list->items, (size_t)room * sizeof *more);
    if (!more) return tvm_error("out of memory");
    list->items = more;
    list->room = room;
  }
  list->items[list->count++] = block;
  return 0;
}

static Block take_block(Blocks *list, int index) {
  Block block = list->items[index];
  list->items[index] = list->items[--list->count];
  return block;
}

/* Finds the smallest idle block of this device and stream that fits without wasting much memory. Requires memory_lock. */
static int find_idle(int device, CUstream stream, size_t nbytes) {
  int best = -1;
  for (int i = 0; i < idle.count; ++i) {
    const Block *b = &idle.items[i];
    if (b->device != device || b->stream != stream || b->size < nbytes || b->size / 4 > nbytes / 3 + (64 << 10)) continue;
    if (best < 0 || b->size < idle.items[best].size) best = i;
  }
  return best;
}

/* Returns idle blocks to the driver. Requires memory_lock. */
static size_t release_idle(int device) {
  size_t released = 0;
  if (tvm_cu.cuCtxSynchronize()) return 0;
  for (int i = idle.count - 1; i >= 0; --i) {
    if (idle.items[i].device != device || idle.items[i].pinned) continue;
    Block block = take_block(&idle, i);
    if (!tvm_cu.cuMemFree_v2(block.at)) released += block.size;
  }
  return released;
}

static CUresult ask_driver(int device, size_t nbytes, CUdeviceptr *out) {
  CUresult code = tvm_cu.cuMemAlloc_v2(out, nbytes);
  /* During a capture no block is released: the wait would abort the capture. */
  if (code == CUDA_ERROR_OUT_OF_MEMORY && !capture_stream && release_idle(device)) code = tvm_cu.cuMemAlloc_v2(out, nbytes);
  return code;
}

static void *refuse_memory(int device, size_t nbytes, CUresult code) {
  size_t available = 0, total = 0, ours = 0;
  for (int i = 0; i < used.count; ++i)
    if (used.items[i].device == device) ours += used.items[i].size;
  if (code == CUDA_ERROR_OUT_OF_MEMORY && !tvm_cu.cuMemGetInfo_v2(&available, &total))
    tvm_set_error("cuda(%d): cannot allocate %zu bytes: %zu of the device's %zu bytes are free; the arrays of this process "
                  "take %zu", device, nbytes, available, total, ours);
  else tvm_cuda_failed(device, "cuMemAlloc", code);
  return NULL;
}

static void *cuda_alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)alignment; /* the driver aligns its blocks to at least 256 bytes */
  int id = device.device_id;
  if (nbytes > SIZE_MAX / 2) return refuse_memory(id, nbytes, CUDA_ERROR_OUT_OF_MEMORY);
  size_t size = nbytes ? (nbytes + GRAIN - 1) / GRAIN * GRAIN : GRAIN;
  CUstream stream = tvm_cuda_stream(id);
  void *data = NULL;
  pthread_mutex_lock(&memory_lock);
  int found = find_idle(id, stream, size);
  CUresult code = CUDA_SUCCESS;
  Block block = {0, size, stream, id, capture_stream != NULL};
  if (found >= 0) block = take_block(&idle, found);
  else code = ask_driver(id, size, &block.at);
  if (code) refuse_memory(id, nbytes, code);
  else if (!add_block(&used, block)) data = (void *)(uintptr_t)block.at;
  pthread_mutex_unlock(&memory_lock);
  return data;
}

/* Caches a block for reuse on the same stream, where later work executes after all work that uses the block. */
static void put_back(void *data, CUstream stream) {
  pthread_mutex_lock(&memory_lock);
  for (int i = used.count - 1; i >= 0; --i) {
    if (used.items[i].at != (CUdeviceptr)(uintptr_t)data) continue;
    Block block = take_block(&used, i);
    block.stream = stream;
    if (add_block(&idle, block)) tvm_cu.cuMemFree_v2(block.at);
    break;
  }
  pthread_mutex_unlock(&memory_lock);
}

static void cuda_free(DLDevice device, void *data) {
  /* The array may have been used on any stream. */
  if (atomic_load(&many_streams)) tvm_cu.cuCtxSynchronize();
  put_back(data, tvm_cuda_stream(device.device_id));
}

static void *cuda_workspace_alloc(DLDevice device, size_t nbytes) { return cuda_alloc(device, nbytes, 1); }

static void cuda_workspace_free(DLDevice device, void *data) { put_back(data, tvm_cuda_stream(device.device_id)); }

static int cuda_stream_free(DLDevice device, void *stream) {
  int id = device.device_id;
  if (chosen_stream[id] == stream) chosen_stream[id] = NULL;
  CUresult code = tvm_cu.cuStreamSynchronize(stream);
  if (!code) code = tvm_cu.cuStreamDestroy_v2(stream);
  /* Blocks that were idle on this stream become idle for all streams. */
  pthread_mutex_lock(&memory_lock);
  for (int i = 0; i < idle.count; ++i)
    if (idle.items[i].stream == (CUstream)stream) idle.items[i].stream = tvm_cuda_devices[id].stream;
  pthread_mutex_unlock(&memory_lock);
  return code ? tvm_cuda_failed(id, "cuStreamDestroy", code) : 0;
}

/* ---- attributes ---- */

static int cuda_attribute(DLDevice device, int which, TVMValue *out, int *out_code) {
  static const struct { int which; CUdevice_attribute number; } plain[] = {
      {DEVICE_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {DEVICE_WARP_SIZE, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
      {DEVICE_MAX_SHARED_MEMORY_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
      {DEVICE_MAX_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
      {DEVICE_MULTI_PROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {DEVICE_MAX_REGISTERS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
      {DEVICE_L2_CACHE_SIZE_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE}};
  int id = device.device_id, version = 0;
  size_t available = 0, total = 0;
  char text[64];
  for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i)
    if (plain[i].which == which) return tvm_attribute_int(tvm_cuda_number(id, plain[i].number), out, out_code);
  switch ((DeviceAttribute)which) {
    case DEVICE_COMPUTE_VERSION:
      snprintf(text, sizeof text, "%d.%d", tvm_cuda_devices[id].major, tvm_cuda_devices[id].minor);
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_NAME: return tvm_attribute_text(tvm_cuda_devices[id].name, out, out_code);
    case DEVICE_MAX_THREAD_DIMENSIONS:
      snprintf(text, sizeof text, "[%d, %d, %d]", tvm_cuda_number(id, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
               tvm_cuda_number(id, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y), tvm_cuda_number(id, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z));
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_API_VERSION: /* for example 12040 for CUDA 12.4 */
      return tvm_cu.cuDriverGetVersion(&version) ? 0 : tvm_attribute_int(version, out, out_code);
    case DEVICE_DRIVER_VERSION:
      if (tvm_cu.cuDriverGetVersion(&version)) return 0;
      snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
      return tvm_attribute_text(text, out, out_code);
    case DEVICE_TOTAL_GLOBAL_MEMORY:
      return tvm_cu.cuDeviceTotalMem_v2(&total, tvm_cuda_devices[id].id) ? 0 : tvm_attribute_int((int64_t)total, out, out_code);
    case DEVICE_AVAILABLE_GLOBAL_MEMORY:
      return tvm_cu.cuMemGetInfo_v2(&available, &total) ? 0 : tvm_attribute_int((int64_t)available, out, out_code);
    default: return 0;
  }
}

/* ---- the device's clock ---- */

typedef struct { CUevent start, end; CUstream stream; } Timer;

static void timer_free(Timer *timer) {
  if (timer->start) tvm_cu.cuEventDestroy_v2(timer->start);
  if (timer->end) tvm_cu.cuEventDestroy_v2(timer->end);
  free(timer);
}

static int cuda_timer_start(DLDevice device, void **out) {
  Timer *timer = calloc(1, sizeof *timer);
  if (!timer) return tvm_error("out of memory");
  timer->stream = tvm_cuda_stream(device.device_id);
  CUresult code = tvm_cu.cuEventCreate(&timer->start, CU_EVENT_DEFAULT);
  if (!code) code = tvm_cu.cuEventCreate(&timer->end, CU_EVENT_DEFAULT);
  if (!code) code = tvm_cu.cuEventRecord(timer->start, timer->stream);
  if (code) {
    timer_free(timer);
    return tvm_cuda_failed(device.device_id, "an event", code);
  }
  *out = timer;
  return 0;
}

static int cuda_timer_stop(DLDevice device, void *self, double *out_seconds) {
  Timer *timer = self;
  float milliseconds = 0;
  CUresult code = tvm_cuda_open(device.device_id) ? CUDA_ERROR_INVALID_VALUE : tvm_cu.cuEventRecord(timer->end, timer->stream);
  if (!code) code = tvm_cu.cuEventSynchronize(timer->end);
  if (!code) code = tvm_cu.cuEventElapsedTime(&milliseconds, timer->start, timer->end);
  timer_free(timer);
  if (code) return tvm_cuda_failed(device.device_id, "previously enqueued work", code);
  *out_seconds = 1e-3 * (double)milliseconds;
  return 0;
}

static void cuda_fork_child(void) {
  tvm_cuda_copy_fork_child();
  pthread_mutex_init(&open_lock, NULL);
  pthread_mutex_init(&memory_lock, NULL);
  if (state == READY) state = LOST;
  for (int i = 0; i < CUDA_MAX_DEVICES; ++i) atomic_store(&opened[i], false);
}

static const DeviceApi cuda_api = {
    .open = tvm_cuda_open,
    .fork_child = cuda_fork_child,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = tvm_cuda_copy,
    .sync = cuda_sync,
    .exists = cuda_exists,
    .attribute = cuda_attribute,
    .workspace_alloc = cuda_workspace_alloc,
    .workspace_free = cuda_workspace_free,
    .launch = tvm_cuda_launch,
    .unload = tvm_cuda_unload,
    .timer_start = cuda_timer_start,
    .timer_stop = cuda_timer_stop,
    .stream_create = cuda_stream_create,
    .stream_free = cuda_stream_free,
    .stream_set = cuda_stream_set,
    .capture_begin = tvm_cuda_capture_begin,
    .capture_end = tvm_cuda_capture_end,
    .graph_launch = tvm_cuda_graph_launch,
    .graph_free = tvm_cuda_graph_free,
};

void tvm_cuda_start(void) { tvm_driver_add(kDLCUDA, &cuda_api); }
