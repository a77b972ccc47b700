/* Launches of the virtual machine. Kernels of a device that offers captures are gathered; those that are the same as in an
 * earlier run, on the same memory and of the same sizes, are replayed as one graph.
 *
 * What is gathered has been given to the device before the machine looks at its memory, before memory goes back to it, and
 * before a run ends.
 */
#include <stdlib.h>
#include <string.h>

#include "vm.h"

/* Gathered kernels one after the other: the number of the kernel, how many tensors it takes, and of each the memory, its
 * first byte there, the data type, the number of dimensions and the sizes. */
typedef struct { int64_t *words; int64_t count, capacity, kernels; uint64_t hash; } Gathered;

typedef struct {
  Gathered gathered; /* words are its own; none where the place is free */
  void *graph;       /* NULL until it is captured */
  bool never;        /* it does more than kernels do */
  int64_t times;     /* it has come */
  uint64_t last_use;
} Known;

/* A few kernels cost no more than a graph; many must not keep the device waiting. */
enum { FEWEST = 3, MOST = 2048, PLACES = 32, HEAD = 4 };

struct VMLaunches {
  DLDevice device;
  const DeviceApi *api;
  bool captures_runs;
  Gathered waiting;
  Known known[PLACES];
  uint64_t clock;
  int64_t captures, replays;
  DLTensor *tensors; /* of a kernel that is called */
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

/* ---- gathering ---- */

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
  /* Only compiled code does the same again; functions of others have a resource. */
  *taken = l->captures_runs && here == count && count && !((struct TVMFunction *)vm->kernels[kernel])->resource;
  if (!*taken) return here ? vm_launch(vm) : 0;
  if (gather(&l->waiting, kernel, args, count)) return -1;
  return l->waiting.kernels < MOST ? 0 : vm_launch(vm);
}

/* ---- giving to the device ---- */

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

/* In the place of what has not been met for the longest time; NULL without memory. */
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

/* What goes wrong here leaves the machine as it was, running kernel by kernel. */
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

/* What comes again is captured; where captures were not replayed so far, because runs are seldom the same, what has come
 * often is. */
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
  /* The first run loads what the kernels need, and shows whether anything but kernels is called. */
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
