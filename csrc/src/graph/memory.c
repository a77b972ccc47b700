/* Determines which memory kernels use for the values of a graph: the executor's memory or arrays of the caller.
 *
 * Entries of one storage are views of it and are redirected together. A caller's array can replace a storage only if it
 * covers every entry of the storage.
 */
#include <string.h>

#include "graph.h"

static char *data_of(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

static char *own_data(const Graph *g, int entry) { return data_of(g->entries[entry].own); }

static void drop_shared(GraphEntry *entry) {
  if (entry->shared) TVMArrayFree(entry->shared);
  entry->shared = NULL;
}

/* Makes kernels use the address `data` for an entry, and moves the other entries of its storage accordingly. */
static void put(Graph *g, int entry, char *data) {
  if (g->tensors[entry].data != data) graph_drop_capture(g);
  int i = entry;
  do {
    GraphEntry *at = &g->entries[i];
    drop_shared(at);
    g->tensors[i].data = data + at->offset - g->entries[entry].offset;
    i = at->next;
  } while (i != entry);
}

int graph_same_tensor(const DLTensor *have, const DLTensor *wanted, const char *name) {
  char a[32], b[32];
  tvm_dtype_text(have->dtype, a, sizeof a);
  tvm_dtype_text(wanted->dtype, b, sizeof b);
  if (strcmp(a, b)) return tvm_error("graph executor: '%s' has the type %s, got %s", name, b, a);
  if (have->ndim != wanted->ndim) return tvm_error("graph executor: '%s' has %d dimensions, got %d", name, wanted->ndim, have->ndim);
  for (int i = 0; i < have->ndim; ++i)
    if (have->shape[i] != wanted->shape[i])
      return tvm_error("graph executor: '%s' has shape[%d] == %lld, got %lld", name, i, (long long)wanted->shape[i],
                       (long long)have->shape[i]);
  return 0;
}

static bool same_device(DLDevice a, DLDevice b) { return a.device_type == b.device_type && a.device_id == b.device_id; }

/* Checks that kernels can use an array in place. */
static int check_in_place(const Graph *g, int entry, const DLTensor *array, const char *name) {
  if (graph_same_tensor(array, g->entries[entry].own, name)) return -1;
  DLDevice wanted = g->tensors[entry].device;
  if (!same_device(array->device, wanted))
    return tvm_error("graph executor: '%s' is on %s(%d) and cannot be used in place on %s(%d)", name,
                     TVMDeviceTypeName(array->device.device_type), (int)array->device.device_id,
                     TVMDeviceTypeName(wanted.device_type), (int)wanted.device_id);
  if (!tvm_is_compact(array)) return tvm_error("graph executor: '%s' must be compact to be used in place", name);
  if ((uintptr_t)data_of(array) % 64)
    return tvm_error("graph executor: '%s' must be aligned to 64 bytes to be used in place; copy it", name);
  return 0;
}

/* Whether this entry contains all entries of its storage, so that memory of its size can replace the storage. */
static bool covers_storage(const Graph *g, int entry) {
  const GraphEntry *whole = &g->entries[entry];
  size_t size, part;
  if (TVMTensorByteSize(whole->own, &size)) return false;
  for (int i = whole->next; i != entry; i = g->entries[i].next) {
    const GraphEntry *at = &g->entries[i];
    if (TVMTensorByteSize(at->own, &part) || at->offset < whole->offset ||
        (uint64_t)(at->offset - whole->offset) + part > size)
      return false;
  }
  return true;
}

static bool storage_has(const Graph *g, int entry, EntryKind kind) {
  int i = entry;
  do {
    if (g->entries[i].kind == kind) return true;
    i = g->entries[i].next;
  } while (i != entry);
  return false;
}

static int refuse_uncovered(const char *name) {
  return tvm_error("graph executor: '%s' cannot be used in place: the graph also stores other values in its memory", name);
}

int graph_set(Graph *g, int entry, const DLTensor *from, const char *name) {
  TVMArrayHandle to = g->entries[entry].own;
  if (graph_same_tensor(from, to, name)) return -1;
  bool same = same_device(from->device, to->device) && data_of(from) == data_of(to) && tvm_is_compact(from);
  if (!same && TVMArrayCopyFromTo(from, to, NULL)) return -1;
  put(g, entry, own_data(g, entry));
  return 0;
}

int graph_read_input(Graph *g, int entry, ParamReader *reader, const char *name) {
  TVMArrayHandle own = g->entries[entry].own, there;
  if (graph_same_tensor(&reader->head, own, name)) return -1;
  if (tvm_is_host(own->device.device_type)) {
    if (params_take(reader, data_of(own))) return -1;
    put(g, entry, own_data(g, entry));
    return 0;
  }
  if (TVMArrayAlloc(reader->shape, own->ndim, own->dtype, reader->head.device, &there)) return -1;
  int status = params_take(reader, there->data) ? -1 : graph_set(g, entry, there, name);
  TVMArrayFree(there);
  return status;
}

int graph_lend_input(Graph *g, int entry, DLTensor *from, const char *name) {
  if (check_in_place(g, entry, from, name)) return -1;
  if (!covers_storage(g, entry)) return refuse_uncovered(name);
  put(g, entry, data_of(from));
  return 0;
}

static bool another_fills_storage(const Graph *g, int output) {
  int storage = g->entries[g->outputs[output]].storage;
  for (int i = 0; i < g->output_count; ++i)
    if (i != output && g->targets[i].in_place && g->entries[g->outputs[i]].storage == storage) return true;
  return false;
}

int graph_lend_output(Graph *g, int output, DLTensor *to) {
  int entry = g->outputs[output];
  OutputTarget *target = &g->targets[output];
  if (check_in_place(g, entry, to, "output")) return -1;
  target->data = data_of(to);
  /* An input's memory is not replaced, and only one array at a time can replace a storage; other outputs are copied. */
  target->in_place = covers_storage(g, entry) && !storage_has(g, entry, ENTRY_INPUT) && !another_fills_storage(g, output);
  if (target->in_place) put(g, entry, target->data);
  return 0;
}

int graph_deliver(Graph *g) {
  for (int i = 0; i < g->output_count; ++i) {
    const DLTensor *from = &g->tensors[g->outputs[i]];
    DLTensor to = *from;
    to.data = g->targets[i].data;
    if (!to.data || g->targets[i].in_place || to.data == from->data) continue;
    if (TVMArrayCopyFromTo(from, &to, NULL)) return -1;
  }
  return 0;
}

int graph_share(Graph *g, int entry, TVMArrayHandle array, const char *name) {
  if (check_in_place(g, entry, array, name)) return -1;
  if (!covers_storage(g, entry)) return refuse_uncovered(name);
  TVMArrayRetain(array);
  TVMArrayFree(g->entries[entry].own);
  g->entries[entry].own = array;
  g->tensors[entry].shape = array->shape;
  put(g, entry, own_data(g, entry));
  return 0;
}

int graph_use(Graph *g, int entry, TVMArrayHandle array, const char *name) {
  if (graph_same_tensor(array, g->entries[entry].own, name)) return -1;
  bool usable = same_device(array->device, g->tensors[entry].device) && tvm_is_compact(array) && (uintptr_t)data_of(array) % 64 == 0;
  if (!usable || !covers_storage(g, entry) || storage_has(g, entry, ENTRY_RESULT)) return graph_set(g, entry, array, name);
  put(g, entry, data_of(array));
  TVMArrayRetain(array);
  g->entries[entry].shared = array;
  return 0;
}

int graph_value(Graph *g, int entry, TVMArrayHandle *out) {
  const DLTensor *seen = &g->tensors[entry];
  TVMArrayHandle own = g->entries[entry].own;
  if ((char *)seen->data == data_of(own)) {
    TVMArrayRetain(own);
    *out = own;
    return 0;
  }
  /* Do not return the executor's own memory: another executor may share it. */
  if (TVMArrayAlloc(seen->shape, seen->ndim, seen->dtype, seen->device, out)) return -1;
  if (!TVMArrayCopyFromTo(seen, *out, NULL)) return 0;
  TVMArrayFree(*out);
  return -1;
}

int graph_input_value(Graph *g, int entry, TVMArrayHandle *out) {
  TVMArrayHandle shared = g->entries[entry].shared;
  if (shared && TVMArrayCopyFromTo(&g->tensors[entry], g->entries[entry].own, NULL)) return -1;
  if (shared) put(g, entry, own_data(g, entry));
  return graph_value(g, entry, out);
}
