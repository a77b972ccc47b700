/* Reads the graph of an executor from JSON text. Everything in the text is checked before it is used. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static const Json *want(const Json *object, const char *key, JsonKind kind) {
  const Json *found = json_member(object, key);
  if (!found || found->kind != kind) {
    tvm_set_error("graph: '%s' is missing or has the wrong JSON type", key);
    return NULL;
  }
  return found;
}

static int number_of(const Json *at, int64_t low, int64_t high, const char *what, int64_t *out) {
  if (at->kind != JSON_INT || at->integer < low || at->integer > high)
    return tvm_error("graph: '%s' contains an invalid number", what);
  *out = at->integer;
  return 0;
}

static int int_list(const Json *list, int **out, int *count, int64_t low, int64_t high, const char *what) {
  int64_t number;
  *count = list->count;
  if (!(*out = calloc((size_t)list->count + 1, sizeof **out))) return tvm_error("out of memory");
  int *to = *out;
  for (const Json *at = list->child; at; at = at->next, *to++ = (int)number)
    if (number_of(at, low, high, what, &number)) return -1;
  return 0;
}

static int parse_dtype(const char *text, DLDataType *out) {
  static const struct { const char *name; int code; } kinds[] = {
      {"bfloat", kDLBfloat}, {"float", kDLFloat}, {"uint", kDLUInt}, {"int", kDLInt}};
  if (!strcmp(text, "bool")) {
    *out = (DLDataType){kDLUInt, 1, 1};
    return 0;
  }
  long code = -1;
  char *rest = NULL;
  if (!strncmp(text, "custom[", 7)) {
    /* A custom data type, by its type code. */
    code = strtol(text + 7, &rest, 10);
    if (code < kCustomBegin || code > 255 || *rest++ != ']') code = -1;
  }
  for (size_t i = 0; code < 0 && i < sizeof kinds / sizeof *kinds; ++i) {
    size_t n = strlen(kinds[i].name);
    if (strncmp(text, kinds[i].name, n)) continue;
    code = kinds[i].code;
    rest = (char *)text + n;
  }
  if (code >= 0) {
    long bits = strtol(rest, &rest, 10), lanes = 1;
    if (*rest == 'x') lanes = strtol(rest + 1, &rest, 10);
    if (!*rest && bits >= 1 && bits <= 128 && lanes >= 1 && lanes <= 1024) {
      *out = (DLDataType){(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
      return 0;
    }
  }
  return tvm_error("graph: '%s' is not a data type", text);
}

static const Json *attribute(const Json *attrs, const char *name, int count) {
  const Json *pair = want(attrs, name, JSON_ARRAY);
  if (!pair) return NULL;
  if (pair->count != 2 || pair->child->next->kind != JSON_ARRAY || pair->child->next->count != count) {
    tvm_set_error("graph: attribute '%s' must contain one value for each of %d entries", name, count);
    return NULL;
  }
  return pair->child->next;
}

/* Reads pairs [node, output, version] as entry indices; only nodes before `limit` are allowed. */
static int entry_list(const Graph *g, const Json *list, int limit, int **out, int *count) {
  *count = list->count;
  if (!(*out = calloc((size_t)list->count + 1, sizeof **out))) return tvm_error("out of memory");
  int i = 0;
  for (const Json *at = list->child; at; at = at->next, ++i) {
    const Json *node = at->kind == JSON_ARRAY && at->count >= 2 ? at->child : NULL;
    const Json *index = node ? node->next : NULL;
    if (!index || node->kind != JSON_INT || index->kind != JSON_INT || node->integer < 0 || node->integer >= limit ||
        index->integer < 0 || index->integer >= g->row_ptr[node->integer + 1] - g->row_ptr[node->integer])
      return tvm_error("graph: an edge does not refer to an output of an earlier node");
    (*out)[i] = g->row_ptr[node->integer] + (int)index->integer;
  }
  return 0;
}

static int read_node(Graph *g, int number, const Json *json) {
  GraphNode *n = &g->nodes[number];
  const Json *op = want(json, "op", JSON_STRING), *name = want(json, "name", JSON_STRING);
  const Json *inputs = want(json, "inputs", JSON_ARRAY);
  if (!op || !name || !inputs) return -1;
  if (!(n->name = strdup(name->text))) return tvm_error("out of memory");
  n->first_entry = g->row_ptr[number];
  n->entry_count = g->row_ptr[number + 1] - g->row_ptr[number];
  n->is_input = !strcmp(op->text, "null");
  if (!n->is_input && strcmp(op->text, "tvm_op")) return tvm_error("graph: node '%s' has the unknown op '%s'", n->name, op->text);
  if (entry_list(g, inputs, number, &n->inputs, &n->input_count)) return -1;
  if (n->is_input) return n->entry_count == 1 ? 0 : tvm_error("graph: input '%s' must have one output", n->name);
  const Json *attrs = json_member(json, "attrs");
  if (!attrs) attrs = json_member(json, "attr");
  const Json *function = want(attrs, "func_name", JSON_STRING);
  if (!function) return -1;
  n->is_copy = !strcmp(function->text, "__copy");
  if (n->is_copy)
    return n->input_count == 1 && n->entry_count == 1 ? 0 : tvm_error("graph: copy '%s' must have one input and one output", n->name);
  if (!strcmp(function->text, "__nop")) {
    if (n->input_count < 1 || n->entry_count != 1) return tvm_error("graph: view '%s' must have at least one input and exactly one output", n->name);
    return 0;
  }
  if (TVMModGetFunction(g->library, function->text, 1, &n->function)) return -1;
  if (!n->function) return tvm_error("graph: the library does not define the function '%s'", function->text);
  return 0;
}

static int read_shape(const Json *shape, int64_t *dims, int *ndim) {
  if (shape->kind != JSON_ARRAY || shape->count > 64) return tvm_error("graph: invalid type or shape");
  *ndim = 0;
  for (const Json *d = shape->child; d; d = d->next)
    if (d->kind != JSON_INT || d->integer < 0) return tvm_error("graph: a shape contains an invalid dimension");
    else dims[(*ndim)++] = d->integer;
  return 0;
}

/* Sets the kind, storage and offset of each entry, and links the entries of each storage. Without "storage_offset"
 * every entry has the offset 0. */
static int read_places(Graph *g, const Json *ids, const Json *offsets) {
  const Json *id = ids->child, *offset = offsets ? offsets->child : NULL;
  for (int i = 0; i < g->node_count; ++i)
    for (int k = 0; k < g->nodes[i].entry_count; ++k)
      g->entries[g->nodes[i].first_entry + k].kind =
          g->nodes[i].is_input ? ENTRY_INPUT : g->nodes[i].function || g->nodes[i].is_copy ? ENTRY_RESULT : ENTRY_VIEW;
  int *last = malloc(((size_t)g->entry_count + 1) * sizeof *last), status = last ? 0 : tvm_error("out of memory");
  for (int i = 0; last && i <= g->entry_count; ++i) last[i] = -1;
  for (int i = 0; !status && i < g->entry_count; ++i, id = id->next, offset = offset ? offset->next : NULL) {
    GraphEntry *entry = &g->entries[i];
    int64_t storage = 0;
    status = number_of(id, 0, g->entry_count, "storage_id", &storage);
    if (!status && offset) status = number_of(offset, 0, PTRDIFF_MAX, "storage_offset", &entry->offset);
    if (status) break;
    entry->storage = (int)storage;
    if (entry->storage >= g->storage_count) g->storage_count = entry->storage + 1;
    entry->next = i;
    if (last[storage] >= 0) {
      if (g->tensors[last[storage]].device.device_type != g->tensors[i].device.device_type)
        status = tvm_error("graph: storage %d contains values of two devices", entry->storage);
      entry->next = g->entries[last[storage]].next;
      g->entries[last[storage]].next = i;
    }
    last[storage] = i;
  }
  free(last);
  return status;
}

/* Allocates each storage on the device of its entries; a storage id without entries gets one byte. */
static int allocate(Graph *g, const size_t *sizes) {
  DLDevice *devices = malloc(((size_t)g->storage_count + 1) * sizeof *devices);
  g->storage = calloc((size_t)g->storage_count + 1, sizeof *g->storage);
  int status = devices && g->storage ? 0 : tvm_error("out of memory");
  for (int i = 0; !status && i < g->storage_count; ++i) devices[i] = g->device;
  for (int i = 0; !status && i < g->entry_count; ++i) devices[g->entries[i].storage] = g->tensors[i].device;
  for (int i = 0; !status && i < g->storage_count; ++i) {
    int64_t size = sizes[i] ? (int64_t)sizes[i] : 1;
    status = TVMArrayAlloc(&size, 1, (DLDataType){kDLUInt, 8, 1}, devices[i], &g->storage[i]);
  }
  free(devices);
  return status;
}

/* Computes the size of each storage in bytes; `dtypes` receives the types of the entries. */
static int measure(const Graph *g, const Json *types, const Json *shapes, DLDataType *dtypes, size_t *sizes) {
  const Json *type = types->child, *shape = shapes->child;
  for (int i = 0; i < g->entry_count; ++i, type = type->next, shape = shape->next) {
    int64_t dims[64];
    int ndim = 0;
    size_t nbytes, end;
    if (type->kind != JSON_STRING) return tvm_error("graph: invalid type or shape");
    if (parse_dtype(type->text, &dtypes[i]) || read_shape(shape, dims, &ndim)) return -1;
    DLTensor probe = {NULL, g->tensors[i].device, ndim, dtypes[i], dims, NULL, 0};
    if (TVMTensorByteSize(&probe, &nbytes)) return -1;
    end = (size_t)g->entries[i].offset + nbytes; /* no overflow: both are at most PTRDIFF_MAX */
    if (end > PTRDIFF_MAX) return tvm_error("graph: the size of a storage exceeds the address space");
    if (end > sizes[g->entries[i].storage]) sizes[g->entries[i].storage] = end;
  }
  return 0;
}

static int make_views(Graph *g, const Json *shapes, const DLDataType *dtypes) {
  const Json *shape = shapes->child;
  for (int i = 0; i < g->entry_count; ++i, shape = shape->next) {
    GraphEntry *entry = &g->entries[i];
    int64_t dims[64];
    int ndim = 0;
    if (read_shape(shape, dims, &ndim)) return -1;
    if (TVMArrayCreateView(g->storage[entry->storage], dims, ndim, dtypes[i], (uint64_t)entry->offset, &entry->own)) return -1;
    g->tensors[i] = *entry->own;
    g->tensors[i].data = (char *)entry->own->data + entry->own->byte_offset;
    g->tensors[i].byte_offset = 0;
  }
  return 0;
}

static int read_memory(Graph *g, const Json *attrs) {
  const Json *types = attribute(attrs, "dltype", g->entry_count), *shapes = attribute(attrs, "shape", g->entry_count);
  const Json *ids = attribute(attrs, "storage_id", g->entry_count), *places = NULL;
  if (!types || !shapes || !ids) return -1;
  if (json_member(attrs, "storage_offset") && !(places = attribute(attrs, "storage_offset", g->entry_count))) return -1;
  if (read_places(g, ids, places)) return -1;
  size_t *sizes = calloc((size_t)g->storage_count + 1, sizeof *sizes);
  DLDataType *dtypes = calloc((size_t)g->entry_count + 1, sizeof *dtypes);
  int status = sizes && dtypes ? measure(g, types, shapes, dtypes, sizes) : tvm_error("out of memory");
  if (!status) status = allocate(g, sizes);
  if (!status) status = make_views(g, shapes, dtypes);
  free(sizes);
  free(dtypes);
  return status;
}

static int prepare_calls(Graph *g) {
  for (int i = 0; i < g->node_count; ++i) {
    GraphNode *n = &g->nodes[i];
    if (!n->function) continue;
    n->arg_count = n->input_count + n->entry_count;
    n->args = calloc((size_t)n->arg_count, sizeof *n->args);
    n->codes = calloc((size_t)n->arg_count, sizeof *n->codes);
    if (!n->args || !n->codes) return tvm_error("out of memory");
    for (int a = 0; a < n->arg_count; ++a) {
      int e = a < n->input_count ? n->inputs[a] : n->first_entry + a - n->input_count;
      n->args[a].v_handle = &g->tensors[e];
      n->codes[a] = kTVMDLTensorHandle;
    }
  }
  return 0;
}

/* Checks that the code was built for the graph's device; otherwise the first kernel would fail with a less clear
 * message. `type` is the device type of the values, or 0 if the graph does not specify it. */
static int check_device(const Graph *g, int type) {
  bool built_for[DEVICE_TYPES];
  int have = g->device.device_type, functions = 0, kinds = tvm_module_devices(g->library, built_for), other = 0;
  /* The library has no device modules if the graph has no kernels (only empty or renamed arrays) or if the functions
   * were compiled for a device that uses host memory. Then the device type of the graph's values decides. */
  if (!kinds && type && !tvm_is_host(type)) kinds = built_for[type] = 1;
  for (int i = 0; i < g->node_count; ++i) functions += g->nodes[i].function != NULL;
  bool runs = !functions || (kinds ? have > 0 && have < DEVICE_TYPES && built_for[have] : tvm_is_host(have));
  if (runs) return 0;
  while (kinds && !built_for[other]) ++other;
  const char *name = kinds ? TVMDeviceTypeName(other) : "cpu";
  return tvm_error("the model was built for %s and cannot run on %s(%d); run it on %s(0), or build it for target '%s'", name,
                   TVMDeviceTypeName(have), (int)g->device.device_id, name,
                   tvm_is_host(have) ? "llvm" : TVMDeviceTypeName(have));
}

/* Finds the given device of a type; any device that uses host memory can replace the CPU. */
static int find_device(const Graph *g, int type, DLDevice *out) {
  for (int i = 0; i < g->devices.count; ++i) {
    int have = g->devices.items[i].device_type;
    if (have == type || (tvm_is_host(type) && tvm_is_host(have))) return *out = g->devices.items[i], 0;
  }
  if (!tvm_driver(type)) return tvm_error("the model stores values on %s (device type %d); this runtime has no driver for it", TVMDeviceTypeName(type), type);
  return tvm_error("the model stores values on %s, but no device of this type was given; pass one device per type, as in "
                   "lib['default'](tvm.cpu(), tvm.device('%s'))", TVMDeviceTypeName(type), TVMDeviceTypeName(type));
}

/* Sets the device of every entry. A graph that uses a single device type may run on any device that can run its code. */
static int place_entries(Graph *g, const Json *attrs) {
  const Json *places = json_member(attrs, "device_index") ? attribute(attrs, "device_index", g->entry_count) : NULL;
  int64_t type = 0, first = 0;
  if (json_member(attrs, "device_index") && !places) return -1;
  for (const Json *at = places ? places->child : NULL; at; at = at->next) {
    if (number_of(at, 0, DEVICE_TYPES - 1, "device_index", &type)) return -1;
    if (!first) first = type;
    g->many_devices = g->many_devices || type != first;
  }
  g->device = g->devices.items[0];
  if (first && (g->many_devices || g->devices.count > 1) && find_device(g, (int)first, &g->device)) return -1;
  if (!g->many_devices && check_device(g, (int)first)) return -1;
  const Json *at = places ? places->child : NULL;
  for (int i = 0; i < g->entry_count; ++i, at = at ? at->next : NULL) {
    g->tensors[i].device = g->device;
    if (g->many_devices && find_device(g, (int)at->integer, &g->tensors[i].device)) return -1;
  }
  for (int i = 0; i < g->node_count; ++i)
    g->nodes[i].device = g->nodes[i].entry_count ? g->tensors[g->nodes[i].first_entry].device : g->device;
  return 0;
}

/* Nodes without a function that arg_nodes does not list hold parameters: they have values, and callers do not see them. */
static int name_constants(Graph *g) {
  for (int i = 0; i < g->node_count; ++i) {
    const GraphNode *node = &g->nodes[i];
    bool is_listed = !node->is_input || map_get(&g->input_numbers, node->name) || map_get(&g->constants, node->name);
    if (!is_listed && map_put(&g->constants, node->name, (void *)((intptr_t)i + 1), NULL)) return -1;
  }
  return 0;
}

static int number_inputs(Graph *g) {
  for (int i = 0; i < g->input_count; ++i) {
    const GraphNode *node = &g->nodes[g->inputs[i]];
    if (!node->is_input) return tvm_error("graph: arg_nodes refers to a node that is not an input");
    if (!map_get(&g->input_numbers, node->name) &&
        map_put(&g->input_numbers, node->name, (void *)((intptr_t)i + 1), NULL))
      return -1;
  }
  return name_constants(g);
}

int graph_read(Graph *g, const Json *json) {
  const Json *nodes = want(json, "nodes", JSON_ARRAY), *rows = want(json, "node_row_ptr", JSON_ARRAY);
  const Json *args = want(json, "arg_nodes", JSON_ARRAY), *heads = want(json, "heads", JSON_ARRAY);
  const Json *attrs = want(json, "attrs", JSON_OBJECT);
  if (!nodes || !rows || !args || !heads || !attrs) return -1;
  int row_count;
  g->node_count = nodes->count;
  if (int_list(rows, &g->row_ptr, &row_count, 0, 1 << 24, "node_row_ptr")) return -1;
  if (row_count != g->node_count + 1 || g->row_ptr[0] != 0) return tvm_error("graph: node_row_ptr does not match the number of nodes");
  for (int i = 0; i < g->node_count; ++i)
    if (g->row_ptr[i + 1] < g->row_ptr[i]) return tvm_error("graph: node_row_ptr must not decrease");
  g->entry_count = g->row_ptr[g->node_count];
  g->nodes = calloc((size_t)g->node_count + 1, sizeof *g->nodes);
  g->entries = calloc((size_t)g->entry_count + 1, sizeof *g->entries);
  g->tensors = calloc((size_t)g->entry_count + 1, sizeof *g->tensors);
  if (!g->nodes || !g->entries || !g->tensors) return tvm_error("out of memory");
  int i = 0;
  for (const Json *at = nodes->child; at; at = at->next, ++i)
    if (read_node(g, i, at)) return -1;
  if (int_list(args, &g->inputs, &g->input_count, 0, g->node_count - 1, "arg_nodes")) return -1;
  if (number_inputs(g) || entry_list(g, heads, g->node_count, &g->outputs, &g->output_count)) return -1;
  if (!(g->targets = calloc((size_t)g->output_count + 1, sizeof *g->targets))) return tvm_error("out of memory");
  if (place_entries(g, attrs)) return -1;
  return read_memory(g, attrs) ? -1 : prepare_calls(g);
}
