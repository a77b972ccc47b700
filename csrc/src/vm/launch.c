/* Kernel launches of the virtual machine. Launches on a device that supports captures are queued. If a sequence of
 * launches equals one of an earlier run, with the same memory and shapes, it is replayed as one captured graph.
 *
 * Queued kernels are launched before the machine reads device memory on the host, before memory is returned to the
 * device, and before a run ends.
 */
#include <stdlib.h>
#include <string.h>

#include "vm.h"

/* A sequence of queued launches as integers: the kernel index, the number of tensors, and for each tensor the address,
 * the byte offset, the data type, the number of dimensions and the shape. */
typedef struct { int64_t *words; int64_t count, capacity, kernels; uint64_t hash; } Gathered;

typedef struct {
  Gathered gathered; /* a separate copy of the words; NULL if this entry is free */
  void *graph;       /* NULL until the sequence is captured */
  bool never;        /* the sequence cannot be captured, because it calls more than kernels */
  int64_t times;     /* how often the sequence has been launched */
  uint64_t last_use;
} Known;

/* FEWEST: fewer kernels are launched directly, since a graph is not faster. MOST: limits the delay of the first launch. */
enum { FEWEST = 3, MOST = 2048, PLACES = 32, HEAD = 4 };

struct VMLaunches {
  DLDevice device;
  const DeviceApi *api;
  bool captures_runs;
  Gathered waiting;
  Known known[PLACES];
  uint64_t clock;
  int64_t captures, replays;
  DLTensor *tensors; /* arguments of the kernel that is called */
  TVMValue *args;
  int *codes;
  int64_t room;
};

VMLaunches *vm_launches_open(DLDevice device) {
  const DeviceApi *api = tvm_device(device);
  VMLaunches *made = api && api->capture_begin ? calloc(1, sizeof *made) : NULL;
  const char *wanted = getenv("TVM_CUDA_GRAPH");
  if (!made) return NULL;
  made->device = device;
  made->api = api;
  made->captures_runs = !(wanted && !strcmp(wanted, "0"));
  return made;
}

static void forget(VMLaunches *l, Known *known) {
  if (known->graph) l->api->graph_free(l->device, known->graph);
  free(known->gathered.words);
  *known = (Known){{0}, NULL, false, 0, 0};
}

static void forget_all(VMLaunches *l) {
  for (int i = 0; i < PLACES; ++i) forget(l, &l->known[i]);
}

void vm_launches_close(VMLaunches *l) {
  if (!l) return;
  forget_all(l);
  free(l->waiting.words);
  free(l->tensors);
  free(l->args);
  free(l->codes);
  free(l);
}

void vm_launches_set(VMLaunches *l, bool captures_runs) {
  l->captures_runs = captures_runs;
  l->captures = l->replays = 0;
  if (!captures_runs) forget_all(l);
}

int64_t vm_launches_graphs(const VMLaunches *l) {
  int64_t count = 0;
  for (int i = 0; i < PLACES; ++i) count += l->known[i].graph != NULL;
  return count;
}

int64_t vm_launches_replays(const VMLaunches *l) { return l->replays; }

void vm_launches_drop(VMLaunches *l) {
  if (l) l->waiting.count = l->waiting.kernels = 0, l->waiting.hash = 0;
}

/* ---- queuing launches ---- */

static int put(Gathered *to, int64_t word) {
  if (to->count == to->capacity) {
    int64_t room = to->capacity ? 2 * to->capacity : 1024;
    int64_t *grown = realloc(to->words, (size_t)room * sizeof *grown);
    if (!grown) return tvm_error("virtual machine: out of memory");
    to->words = grown;
    to->capacity = room;
  }
  to->words[to->count++] = word;
  to->hash = (to->hash ^ (uint64_t)word) * 0x9e3779b97f4a7c15u;
  to->hash ^= to->hash >> 29;
  return 0;
}

static int gather(Gathered *to, int64_t kernel, const TVMValue *args, int64_t count) {
  int status = put(to, kernel) || put(to, count);
  for (int64_t i = 0; i < count && !status; ++i) {
    const DLTensor *t = args[i].v_handle;
    int64_t type = t->dtype.code | (int64_t)t->dtype.bits << 8 | (int64_t)t->dtype.lanes << 16;
    status = put(to, (int64_t)(intptr_t)t->data) || put(to, (int64_t)t->byte_offset) || put(to, type) || put(to, t->ndim);
    for (int d = 0; d < t->ndim && !status; ++d) status = put(to, t->shape[d]);
  }
  ++to->kernels;
  return status ? -1 : 0;
}

static bool is_on(const DLTensor *tensor, DLDevice device) {
  return tensor->device.device_type == device.device_type && tensor->device.device_id == device.device_id;
}

int vm_launch_call(VM *vm, int64_t kernel, const TVMValue *args, int64_t count, bool *taken) {
  VMLaunches *l = vm->launches;
  int64_t here = 0;
  for (int64_t i = 0; i < count; ++i) here += is_on(args[i].v_handle, l->device);
  /* A replay must repeat the same work, so only compiled code is queued; other functions have a resource. */
  *taken = l->captures_runs && here == count && count && !((struct TVMFunction *)vm->kernels[kernel])->resource;
  if (!*taken) return here ? vm_launch(vm) : 0;
  if (gather(&l->waiting, kernel, args, count)) return -1;
  return l->waiting.kernels < MOST ? 0 : vm_launch(vm);
}

/* ---- launching queued kernels ---- */

static int room_for(VMLaunches *l, int64_t count) {
  if (count <= l->room) return 0;
  free(l->tensors), free(l->args), free(l->codes);
  l->tensors = calloc((size_t)count, sizeof *l->tensors);
  l->args = calloc((size_t)count, sizeof *l->args);
  l->codes = calloc((size_t)count, sizeof *l->codes);
  l->room = l->tensors && l->args && l->codes ? count : 0;
  return l->room ? 0 : tvm_error("virtual machine: out of memory");
}

static int call_one(VM *vm, int64_t *at, int64_t **next) {
  VMLaunches *l = vm->launches;
  int64_t kernel = at[0], count = at[1];
  if (room_for(l, count)) return -1;
  at += 2;
  for (int64_t i = 0; i < count; ++i) {
    DLDataType type = {(uint8_t)at[2], (uint8_t)(at[2] >> 8), (uint16_t)(at[2] >> 16)};
    l->tensors[i] = (DLTensor){.data = (void *)(intptr_t)at[0], .device = l->device, .ndim = (int32_t)at[3], .dtype = type,
                               .shape = at + HEAD, .byte_offset = (uint64_t)at[1]};
    l->args[i].v_handle = &l->tensors[i];
    l->codes[i] = kTVMDLTensorHandle;
    at += HEAD + at[3];
  }
  TVMValue ret;
  int code = kTVMNullptr;
  if (tvm_call(vm->kernels[kernel], l->args, l->codes, (int)count, &ret, &code)) return -1;
  if (code != kTVMNullptr) tvm_release_value(ret, code);
  *next = at;
  return 0;
}

static int call_all(VM *vm) {
  const Gathered *g = &vm->launches->waiting;
  int64_t *at = g->words;
  while (at < g->words + g->count)
    if (call_one(vm, at, &at)) return -1;
  return 0;
}

static Known *find(VMLaunches *l) {
  const Gathered *g = &l->waiting;
  for (int i = 0; i < PLACES; ++i) {
    const Gathered *k = &l->known[i].gathered;
    if (k->words && k->hash == g->hash && k->count == g->count && !memcmp(k->words, g->words, (size_t)g->count * sizeof *g->words))
      return &l->known[i];
  }
  return NULL;
}

/* Stores the sequence in the least recently used entry; returns NULL if memory is exhausted. */
static Known *remember(VMLaunches *l) {
  Known *place = l->known;
  for (int i = 1; i < PLACES; ++i)
    if (l->known[i].last_use < place->last_use) place = &l->known[i];
  forget(l, place);
  int64_t *words = malloc((size_t)l->waiting.count * sizeof *words);
  if (!words) return NULL;
  memcpy(words, l->waiting.words, (size_t)l->waiting.count * sizeof *words);
  place->gathered = l->waiting;
  place->gathered.words = words;
  return place;
}

/* If capturing fails, the machine continues to launch kernel by kernel. */
static void capture(VM *vm, Known *known) {
  VMLaunches *l = vm->launches;
  ErrorRecord before;
  void *made = NULL;
  tvm_error_save(&before);
  int status = l->api->capture_begin(l->device);
  if (!status) {
    status = call_all(vm);
    if (l->api->capture_end(l->device, status ? NULL : &made)) status = -1;
  }
  ++l->captures;
  if (status) known->never = true;
  else known->graph = made;
  tvm_error_restore(&before);
}

/* Whether to capture a sequence: after it occurred twice; but after 8 times if earlier captures were rarely replayed,
 * which happens if the shapes differ in most runs. */
static bool worth(const VMLaunches *l, const Known *known) {
  return known->times >= (l->captures < 8 || l->replays >= 2 * l->captures ? 2 : 8);
}

static int launch_gathered(VM *vm) {
  VMLaunches *l = vm->launches;
  if (l->waiting.kernels < FEWEST) return call_all(vm);
  Known *known = find(l);
  if (!known) known = remember(l);
  if (known) known->last_use = ++l->clock, ++known->times;
  if (known && !known->graph && !known->never && worth(l, known)) capture(vm, known);
  if (known && known->graph) {
    int status = l->api->graph_launch(l->device, known->graph);
    ++l->replays;
    if (status <= 0) return status;
  }
  /* The first run loads the kernels and shows whether code other than kernels is called. */
  tvm_watch_begin();
  int status = call_all(vm);
  bool others = tvm_watch_end();
  if (known && others) known->never = true;
  return status;
}

int vm_launch(VM *vm) {
  if (!vm->launches || !vm->launches->waiting.kernels) return 0;
  int status = launch_gathered(vm);
  vm_launches_drop(vm->launches);
  return status;
}
