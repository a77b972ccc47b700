/* The graph executor: kernels called in order over memory planned when compiling.
 *
 * `tvm.graph_executor.create(json, module, device_type, device_id)` gives a module whose functions set inputs, run, and
 * hand out results. Everything in the JSON is checked before it is used.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "json.h"

typedef struct {
  char *name;
  bool is_input;
  int first_entry, entry_count;
  int input_count;
  int *inputs; /* entries */
  TVMFunctionHandle function; /* NULL for inputs and reshapes */
  TVMValue *args;
  int *codes;
  int arg_count;
} GraphNode;

typedef struct TVMGraph {
  DLDevice device;
  TVMModuleHandle library;
  GraphNode *nodes;
  int node_count;
  int *row_ptr;
  TVMArrayHandle *storage;
  int storage_count;
  int *storage_of; /* of each entry; those of one storage are views of it */
  int *offset;     /* where each entry starts in its storage */
  TVMArrayHandle *entries;
  DLTensor *tensors; /* what kernels see; the data of an input may be the caller's */
  int entry_count;
  int *inputs; /* nodes */
  int input_count;
  int *outputs; /* entries */
  int output_count;
  /* A whole run as one piece of work for the device, where it has such a thing. */
  bool capture;
  void *captured;
  int captures, replays;
} Graph;

static void drop_capture(Graph *g) {
  const DeviceApi *api = g->captured ? tvm_device(g->device) : NULL;
  if (api) api->graph_free(g->device, g->captured);
  g->captured = NULL;
}

static void graph_free(void *self) {
  Graph *g = self;
  if (!g) return;
  drop_capture(g);
  for (int i = 0; g->nodes && i < g->node_count; ++i) {
    GraphNode *n = &g->nodes[i];
    free(n->name);
    free(n->inputs);
    free(n->args);
    free(n->codes);
    if (n->function) TVMFuncFree(n->function);
  }
  for (int i = 0; g->entries && i < g->entry_count; ++i)
    if (g->entries[i]) TVMArrayFree(g->entries[i]);
  for (int i = 0; g->storage && i < g->storage_count; ++i)
    if (g->storage[i]) TVMArrayFree(g->storage[i]);
  if (g->library) TVMModFree(g->library);
  free(g->nodes);
  free(g->row_ptr);
  free(g->storage);
  free(g->storage_of);
  free(g->offset);
  free(g->entries);
  free(g->tensors);
  free(g->inputs);
  free(g->outputs);
  free(g);
}

/* ---- reading ---- */

static const Json *want(const Json *object, const char *key, JsonKind kind) {
  const Json *found = json_member(object, key);
  if (!found || found->kind != kind) {
    tvm_set_error("graph: '%s' is missing or of the wrong kind", key);
    return NULL;
  }
  return found;
}

static int int_list(const Json *list, int **out, int *count, int64_t low, int64_t high, const char *what) {
  *count = list->count;
  if (!(*out = calloc((size_t)list->count + 1, sizeof **out))) return tvm_error("out of memory");
  int i = 0;
  for (const Json *at = list->child; at; at = at->next, ++i) {
    if (at->kind != JSON_INT || at->integer < low || at->integer > high)
      return tvm_error("graph: a number in '%s' is wrong", what);
    (*out)[i] = (int)at->integer;
  }
  return 0;
}

static int parse_dtype(const char *text, DLDataType *out) {
  static const struct { const char *name; int code; } kinds[] = {
      {"bfloat", kDLBfloat}, {"float", kDLFloat}, {"uint", kDLUInt}, {"int", kDLInt}};
  if (!strcmp(text, "bool")) {
    *out = (DLDataType){kDLUInt, 1, 1};
    return 0;
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    size_t n = strlen(kinds[i].name);
    if (strncmp(text, kinds[i].name, n)) continue;
    char *end;
    long bits = strtol(text + n, &end, 10), lanes = 1;
    if (*end == 'x') lanes = strtol(end + 1, &end, 10);
    if (*end || bits < 1 || bits > 128 || lanes < 1 || lanes > 1024) break;
    *out = (DLDataType){(uint8_t)kinds[i].code, (uint8_t)bits, (uint16_t)lanes};
    return 0;
  }
  return tvm_error("graph: '%s' is no data type", text);
}

static const Json *attribute(const Json *attrs, const char *name, int count) {
  const Json *pair = want(attrs, name, JSON_ARRAY);
  if (!pair) return NULL;
  if (pair->count != 2 || pair->child->next->kind != JSON_ARRAY || pair->child->next->count != count) {
    tvm_set_error("graph: attribute '%s' must list one value for each of %d entries", name, count);
    return NULL;
  }
  return pair->child->next;
}

/* Entry ids of pairs [node, output, version]; only nodes before `limit` may be named. */
static int entry_list(const Graph *g, const Json *list, int limit, int **out, int *count) {
  *count = list->count;
  if (!(*out = calloc((size_t)list->count + 1, sizeof **out))) return tvm_error("out of memory");
  int i = 0;
  for (const Json *at = list->child; at; at = at->next, ++i) {
    const Json *node = at->kind == JSON_ARRAY && at->count >= 2 ? at->child : NULL;
    const Json *index = node ? node->next : NULL;
    if (!index || node->kind != JSON_INT || index->kind != JSON_INT || node->integer < 0 || node->integer >= limit ||
        index->integer < 0 || index->integer >= g->row_ptr[node->integer + 1] - g->row_ptr[node->integer])
      return tvm_error("graph: an edge leads to no result of an earlier node");
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
  if (!n->is_input && strcmp(op->text, "tvm_op")) return tvm_error("graph: node '%s' has unknown kind '%s'", n->name, op->text);
  if (entry_list(g, inputs, number, &n->inputs, &n->input_count)) return -1;
  if (n->is_input) return n->entry_count == 1 ? 0 : tvm_error("graph: input '%s' must have one result", n->name);
  const Json *attrs = json_member(json, "attrs");
  if (!attrs) attrs = json_member(json, "attr");
  const Json *function = want(attrs, "func_name", JSON_STRING);
  if (!function) return -1;
  if (!strcmp(function->text, "__nop")) {
    if (n->input_count < 1 || n->entry_count != 1) return tvm_error("graph: view '%s' takes some and gives one", n->name);
    return 0;
  }
  if (TVMModGetFunction(g->library, function->text, 1, &n->function)) return -1;
  if (!n->function) return tvm_error("graph: the library has no function '%s'", function->text);
  return 0;
}

static char *own_data(const Graph *g, int entry) { return (char *)g->entries[entry]->data + g->entries[entry]->byte_offset; }

/* Kernels see an entry at `data`, and what shares its storage beside it. */
static void put(Graph *g, int entry, char *data) {
  if (g->tensors[entry].data != data) drop_capture(g);
  for (int i = 0; i < g->entry_count; ++i)
    if (g->storage_of[i] == g->storage_of[entry]) {
      g->tensors[i] = *g->entries[i];
      g->tensors[i].byte_offset = 0;
      g->tensors[i].data = data + g->offset[i] - g->offset[entry];
    }
}

static int read_shape(const Json *shape, int64_t *dims, int *ndim) {
  if (shape->kind != JSON_ARRAY || shape->count > 64) return tvm_error("graph: a type or shape is wrong");
  *ndim = 0;
  for (const Json *d = shape->child; d; d = d->next)
    if (d->kind != JSON_INT || d->integer < 0) return tvm_error("graph: a shape has a wrong size");
    else dims[(*ndim)++] = d->integer;
  return 0;
}

static int allocate(Graph *g, const size_t *sizes) {
  for (int i = 0; i < g->entry_count; ++i)
    if (g->storage_of[i] >= g->storage_count) g->storage_count = g->storage_of[i] + 1;
  if (!(g->storage = calloc((size_t)g->storage_count + 1, sizeof *g->storage))) return tvm_error("out of memory");
  for (int i = 0; i < g->storage_count; ++i) {
    int64_t size = sizes[i] ? (int64_t)sizes[i] : 1;
    if (TVMArrayAlloc(&size, 1, (DLDataType){kDLUInt, 8, 1}, g->device, &g->storage[i])) return -1;
  }
  return 0;
}

/* Without "storage_offset" every entry starts where its storage does. */
static int read_memory(Graph *g, const Json *attrs) {
  const Json *types = attribute(attrs, "dltype", g->entry_count), *shapes = attribute(attrs, "shape", g->entry_count);
  const Json *ids = attribute(attrs, "storage_id", g->entry_count), *places = NULL;
  if (!types || !shapes || !ids) return -1;
  if (json_member(attrs, "storage_offset") && !(places = attribute(attrs, "storage_offset", g->entry_count))) return -1;
  int count = 0, status = int_list(ids, &g->storage_of, &count, 0, g->entry_count, "storage_id");
  if (!status && places) status = int_list(places, &g->offset, &count, 0, 0x7fffffff, "storage_offset");
  if (!places && !(g->offset = calloc((size_t)g->entry_count + 1, sizeof *g->offset))) status = tvm_error("out of memory");
  size_t *sizes = calloc((size_t)g->entry_count + 1, sizeof *sizes);
  DLDataType *dtypes = calloc((size_t)g->entry_count + 1, sizeof *dtypes);
  if (!status && (!sizes || !dtypes)) status = tvm_error("out of memory");
  int64_t dims[64];
  int ndim = 0;
  const Json *type = types->child, *shape = shapes->child;
  for (int i = 0; !status && i < g->entry_count; ++i, type = type->next, shape = shape->next) {
    if (type->kind != JSON_STRING) status = tvm_error("graph: a type or shape is wrong");
    if (!status) status = parse_dtype(type->text, &dtypes[i]);
    if (!status) status = read_shape(shape, dims, &ndim);
    DLTensor probe = {NULL, g->device, ndim, dtypes[i], dims, NULL, 0};
    size_t nbytes = 0, before = (size_t)g->offset[i];
    if (!status) status = TVMTensorByteSize(&probe, &nbytes);
    if (!status && before + nbytes > sizes[g->storage_of[i]]) sizes[g->storage_of[i]] = before + nbytes;
  }
  if (!status) status = allocate(g, sizes);
  shape = shapes->child;
  for (int i = 0; !status && i < g->entry_count; ++i, shape = shape->next) {
    uint64_t before = (uint64_t)g->offset[i];
    status = read_shape(shape, dims, &ndim);
    if (!status) status = TVMArrayCreateView(g->storage[g->storage_of[i]], dims, ndim, dtypes[i], before, &g->entries[i]);
    if (status) break;
    g->tensors[i] = *g->entries[i];
    g->tensors[i].data = own_data(g, i);
    g->tensors[i].byte_offset = 0;
  }
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

/* Code for one kind of device does not run on another: better said here than by the first kernel. */
static int check_device(const Graph *g, const Json *attrs) {
  uint64_t built_for = tvm_module_devices(g->library);
  if (!built_for && json_member(attrs, "device_index")) {
    /* A model of nothing but empty or renamed arrays has no kernels; its graph still says where its arrays are. */
    const Json *places = attribute(attrs, "device_index", g->entry_count);
    int *types = NULL, count = 0;
    if (!places || int_list(places, &types, &count, 0, 63, "device_index")) return -1;
    if (count && types[0] != kDLCPU) built_for = UINT64_C(1) << types[0];
    free(types);
  }
  int type = g->device.device_type, functions = 0, other = 0;
  bool host = type == kDLCPU || type == kDLCUDAHost;
  for (int i = 0; i < g->node_count; ++i) functions += g->nodes[i].function != NULL;
  if (!functions || (built_for ? built_for >> type & 1 : host)) return 0;
  while (built_for && !(built_for >> other & 1)) ++other;
  const char *name = built_for ? TVMDeviceTypeName(other) : "cpu";
  return tvm_error("the model was built for %s and cannot run on %s(%d); run it on %s(0), or build it for target '%s'", name,
                   TVMDeviceTypeName(type), (int)g->device.device_id, name, host ? "llvm" : TVMDeviceTypeName(type));
}

static int graph_read(Graph *g, const Json *json) {
  const Json *nodes = want(json, "nodes", JSON_ARRAY), *rows = want(json, "node_row_ptr", JSON_ARRAY);
  const Json *args = want(json, "arg_nodes", JSON_ARRAY), *heads = want(json, "heads", JSON_ARRAY);
  const Json *attrs = want(json, "attrs", JSON_OBJECT);
  if (!nodes || !rows || !args || !heads || !attrs) return -1;
  int row_count;
  g->node_count = nodes->count;
  if (int_list(rows, &g->row_ptr, &row_count, 0, 1 << 24, "node_row_ptr")) return -1;
  if (row_count != g->node_count + 1 || g->row_ptr[0] != 0) return tvm_error("graph: node_row_ptr does not fit the nodes");
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
  for (i = 0; i < g->input_count; ++i)
    if (!g->nodes[g->inputs[i]].is_input) return tvm_error("graph: arg_nodes names a node that is no input");
  if (entry_list(g, heads, g->node_count, &g->outputs, &g->output_count)) return -1;
  if (check_device(g, attrs)) return -1;
  return read_memory(g, attrs) ? -1 : prepare_calls(g);
}

/* ---- running ---- */

static int run_node(Graph *g, int i) {
  GraphNode *n = &g->nodes[i];
  if (!n->function) return 0;
  TVMValue ret;
  int code = kTVMNullptr;
  return tvm_call(n->function, n->args, n->codes, n->arg_count, &ret, &code);
}

/* A node's own time needs its end: work given to a device goes on after the call. */
static int run_to_end(Graph *g, int i) {
  return run_node(g, i) ? -1 : TVMSynchronize(g->device.device_type, g->device.device_id, NULL);
}

static int run_nodes(Graph *g) {
  for (int i = 0; i < g->node_count; ++i)
    if (run_node(g, i)) return -1;
  return 0;
}

/* Only compiled code whose calls are all kernels does the same again when it is replayed. */
static bool is_static(const Graph *g) {
  for (int i = 0; i < g->node_count; ++i)
    if (g->nodes[i].function && g->nodes[i].function->resource) return false;
  return true;
}

/* What goes wrong here leaves the executor as it was, running kernel by kernel. */
static void capture_run(Graph *g, const DeviceApi *api) {
  ErrorRecord before;
  void *made = NULL;
  tvm_error_save(&before);
  int status = api->capture_begin(g->device);
  if (!status) {
    status = run_nodes(g);
    if (api->capture_end(g->device, status ? NULL : &made)) status = -1;
  }
  ++g->captures;
  if (status) g->capture = false;
  else g->captured = made;
  tvm_error_restore(&before);
}

static int graph_run(Graph *g) {
  const DeviceApi *api = g->capture ? tvm_device(g->device) : NULL;
  if (g->capture && !api) return -1;
  if (g->captured) {
    int status = api->graph_launch(g->device, g->captured);
    ++g->replays;
    if (status <= 0) return status;
    return run_nodes(g);
  }
  tvm_watch_begin();
  if (run_nodes(g)) return -1;
  if (!g->capture) return 0;
  /* The first run has loaded what the kernels need. Arrays that change with every run are not worth a capture. */
  g->capture = api->capture_begin && !tvm_watch_end() && is_static(g) && (g->captures < 4 || g->replays >= 2 * g->captures);
  if (g->capture) capture_run(g, api);
  return 0;
}

static int find_input(const Graph *g, const char *name) {
  for (int i = 0; i < g->input_count; ++i)
    if (!strcmp(g->nodes[g->inputs[i]].name, name)) return i;
  return -1;
}

/* ---- the functions of an executor ---- */

#define PACKED(function)                                                                                             \
  static int function(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)

static int text_of(TVMValue value, int code, const char **out) {
  if (code != kTVMStr) return tvm_error("graph executor: a name is wanted");
  *out = value.v_str;
  return 0;
}

/* The input meant by a name or a number. */
static int which_input(const Graph *g, TVMValue value, int code, int *out) {
  if (code == kTVMArgInt) *out = (int)value.v_int64;
  else if (code == kTVMStr) *out = find_input(g, value.v_str);
  else return tvm_error("graph executor: an input is named by text or by number");
  if (*out >= 0 && *out < g->input_count) return 0;
  if (code == kTVMStr) return tvm_error("graph executor: there is no input '%s'", value.v_str);
  return tvm_error("graph executor: there is no input %d; there are %d", *out, g->input_count);
}

static int tensor_of(TVMValue value, int code, DLTensor **out) {
  if (code != kTVMDLTensorHandle && code != kTVMNDArrayHandle) return tvm_error("graph executor: an array is wanted");
  *out = value.v_handle;
  return 0;
}

static int same_tensor(const DLTensor *have, const DLTensor *wanted, const char *name) {
  char a[32], b[32];
  tvm_dtype_text(have->dtype, a, sizeof a);
  tvm_dtype_text(wanted->dtype, b, sizeof b);
  if (strcmp(a, b)) return tvm_error("graph executor: '%s' is %s, got %s", name, b, a);
  if (have->ndim != wanted->ndim) return tvm_error("graph executor: '%s' has %d dimensions, got %d", name, wanted->ndim, have->ndim);
  for (int i = 0; i < have->ndim; ++i)
    if (have->shape[i] != wanted->shape[i])
      return tvm_error("graph executor: '%s' has shape[%d] == %lld, got %lld", name, i, (long long)wanted->shape[i],
                       (long long)have->shape[i]);
  return 0;
}

static int need(int have, int wanted, const char *what) {
  return have >= wanted ? 0 : tvm_error("graph executor: %s takes %d arguments, got %d", what, wanted, have);
}

PACKED(packed_set_input) {
  Graph *g = self;
  int i;
  DLTensor *from;
  (void)ret, (void)ret_code;
  if (need(n, 2, "set_input") || which_input(g, args[0], codes[0], &i) || tensor_of(args[1], codes[1], &from)) return -1;
  GraphNode *node = &g->nodes[g->inputs[i]];
  DLTensor *to = g->entries[node->first_entry];
  if (same_tensor(from, to, node->name)) return -1;
  put(g, node->first_entry, own_data(g, node->first_entry));
  return TVMArrayCopyFromTo(from, to, NULL);
}

static int lend(Graph *g, int entry, DLTensor *from, const char *name) {
  if (same_tensor(from, g->entries[entry], name)) return -1;
  if (!tvm_is_compact(from)) return tvm_error("graph executor: '%s' must be compact to be used in place", name);
  if (((uintptr_t)from->data + from->byte_offset) % 64)
    return tvm_error("graph executor: '%s' must lie at a multiple of 64 bytes to be used in place; copy it", name);
  put(g, entry, (char *)from->data + from->byte_offset);
  return 0;
}

PACKED(packed_set_input_zero_copy) {
  Graph *g = self;
  int i;
  DLTensor *from;
  (void)ret, (void)ret_code;
  if (need(n, 2, "set_input_zero_copy") || which_input(g, args[0], codes[0], &i) || tensor_of(args[1], codes[1], &from)) return -1;
  GraphNode *node = &g->nodes[g->inputs[i]];
  return lend(g, node->first_entry, from, node->name);
}

PACKED(packed_set_output_zero_copy) {
  Graph *g = self;
  DLTensor *to;
  (void)ret, (void)ret_code;
  if (need(n, 2, "set_output_zero_copy") || tensor_of(args[1], codes[1], &to)) return -1;
  if (codes[0] != kTVMArgInt || args[0].v_int64 < 0 || args[0].v_int64 >= g->output_count)
    return tvm_error("graph executor: an output is named by a number below %d", g->output_count);
  return lend(g, g->outputs[args[0].v_int64], to, "output");
}

/* An entry as an array of its own, or copied into the one given. Results in borrowed memory are always copied. */
static int give(Graph *g, int entry, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code) {
  DLTensor *to;
  if (n > 1) {
    if (tensor_of(args[1], codes[1], &to) || same_tensor(to, &g->tensors[entry], "output")) return -1;
    return TVMArrayCopyFromTo(&g->tensors[entry], to, NULL);
  }
  if ((char *)g->tensors[entry].data != own_data(g, entry) && TVMArrayCopyFromTo(&g->tensors[entry], g->entries[entry], NULL)) return -1;
  TVMArrayRetain(g->entries[entry]);
  ret->v_handle = g->entries[entry];
  *ret_code = kTVMNDArrayHandle;
  return 0;
}

PACKED(packed_get_output) {
  Graph *g = self;
  if (need(n, 1, "get_output")) return -1;
  if (codes[0] != kTVMArgInt || args[0].v_int64 < 0 || args[0].v_int64 >= g->output_count)
    return tvm_error("graph executor: there is no such output; there are %d", g->output_count);
  return give(g, g->outputs[args[0].v_int64], args, codes, n, ret, ret_code);
}

PACKED(packed_get_input) {
  Graph *g = self;
  int i;
  if (need(n, 1, "get_input") || which_input(g, args[0], codes[0], &i)) return -1;
  return give(g, g->nodes[g->inputs[i]].first_entry, args, codes, n, ret, ret_code);
}

PACKED(packed_run) {
  (void)args, (void)codes, (void)n, (void)ret, (void)ret_code;
  return graph_run(self);
}

static int give_int(int64_t value, TVMValue *ret, int *ret_code) {
  ret->v_int64 = value;
  *ret_code = kTVMArgInt;
  return 0;
}

PACKED(packed_num_inputs) {
  (void)args, (void)codes, (void)n;
  return give_int(((Graph *)self)->input_count, ret, ret_code);
}

PACKED(packed_num_outputs) {
  (void)args, (void)codes, (void)n;
  return give_int(((Graph *)self)->output_count, ret, ret_code);
}

PACKED(packed_num_nodes) {
  (void)args, (void)codes, (void)n;
  return give_int(((Graph *)self)->node_count, ret, ret_code);
}

PACKED(packed_input_index) {
  const char *name;
  if (need(n, 1, "get_input_index") || text_of(args[0], codes[0], &name)) return -1;
  return give_int(find_input(self, name), ret, ret_code);
}

PACKED(packed_input_name) {
  Graph *g = self;
  int i;
  if (need(n, 1, "get_input_name") || which_input(g, args[0], codes[0], &i)) return -1;
  const char *name = g->nodes[g->inputs[i]].name;
  return TVMReturnBytes(name, strlen(name), kTVMStr, ret, ret_code);
}

static int which_node(const Graph *g, TVMValue value, int code, int *out) {
  if (code != kTVMArgInt || value.v_int64 < 0 || value.v_int64 >= g->node_count)
    return tvm_error("graph executor: there is no such node; there are %d", g->node_count);
  *out = (int)value.v_int64;
  return 0;
}

PACKED(packed_execute_node) {
  int i;
  (void)ret, (void)ret_code;
  if (need(n, 1, "execute_node") || which_node(self, args[0], codes[0], &i)) return -1;
  return run_node(self, i);
}

/* Seconds of each of `repeat` groups of `number` runs of one node, as bytes of doubles. */
PACKED(packed_time_node) {
  Graph *g = self;
  int i;
  if (need(n, 3, "time_node") || which_node(g, args[0], codes[0], &i)) return -1;
  int64_t number = args[1].v_int64, repeat = args[2].v_int64;
  if (number < 1 || repeat < 1 || repeat > 100000) return tvm_error("graph executor: number and repeat must be at least 1");
  double *seconds = calloc((size_t)repeat, sizeof *seconds);
  if (!seconds) return tvm_error("out of memory");
  int status = run_to_end(g, i);
  for (int64_t r = 0; r < repeat && !status; ++r) {
    double start = tvm_now();
    for (int64_t k = 1; k < number && !status; ++k) status = run_node(g, i);
    if (!status) status = run_to_end(g, i);
    seconds[r] = (tvm_now() - start) / (double)number;
  }
  if (!status) status = TVMReturnBytes((const char *)seconds, (size_t)repeat * sizeof *seconds, kTVMBytes, ret, ret_code);
  free(seconds);
  return status;
}

/* Seconds of every node in one run of the whole graph, as bytes of doubles. */
PACKED(packed_profile_run) {
  Graph *g = self;
  (void)args, (void)codes, (void)n;
  double *seconds = calloc((size_t)g->node_count + 1, sizeof *seconds);
  if (!seconds) return tvm_error("out of memory");
  int status = 0;
  double start = tvm_now();
  for (int i = 0; i < g->node_count && !status; ++i) {
    status = run_to_end(g, i);
    double now = tvm_now();
    seconds[i] = now - start;
    start = now;
  }
  if (!status)
    status = TVMReturnBytes((const char *)seconds, (size_t)g->node_count * sizeof *seconds, kTVMBytes, ret, ret_code);
  free(seconds);
  return status;
}

/* Whether runs are captured and replayed: asks, or sets. */
PACKED(packed_graph_capture) {
  Graph *g = self;
  if (n > 0) {
    if (codes[0] != kTVMArgInt && codes[0] != kTVMArgBool) return tvm_error("graph executor: graph_capture takes true or false");
    g->capture = args[0].v_int64 != 0;
    g->captures = g->replays = 0;
    if (!g->capture) drop_capture(g);
  }
  return give_int(g->captured != NULL, ret, ret_code);
}

PACKED(packed_node_output) {
  Graph *g = self;
  int i;
  if (need(n, 2, "get_node_output") || which_node(g, args[0], codes[0], &i)) return -1;
  if (codes[1] != kTVMArgInt || args[1].v_int64 < 0 || args[1].v_int64 >= g->nodes[i].entry_count)
    return tvm_error("graph executor: node '%s' has %d results", g->nodes[i].name, g->nodes[i].entry_count);
  return give(g, g->nodes[i].first_entry + (int)args[1].v_int64, args, codes, 1, ret, ret_code);
}

PACKED(packed_load_params) {
  Graph *g = self;
  (void)ret, (void)ret_code;
  if (need(n, 1, "load_params")) return -1;
  if (codes[0] != kTVMBytes) return tvm_error("graph executor: parameters are given as bytes");
  const TVMByteArray *blob = args[0].v_handle;
  TVMParamsHandle params;
  if (TVMParamsLoad(blob->data, blob->size, &params)) return -1;
  int status = 0;
  for (int p = 0; p < TVMParamsCount(params) && !status; ++p) {
    int i = find_input(g, TVMParamsName(params, p, NULL));
    if (i < 0) continue; /* a parameter the graph does not need */
    GraphNode *node = &g->nodes[g->inputs[i]];
    DLTensor *from = TVMParamsArray(params, p), *to = g->entries[node->first_entry];
    status = same_tensor(from, to, node->name) ? -1 : TVMArrayCopyFromTo(from, to, NULL);
    put(g, node->first_entry, own_data(g, node->first_entry));
    tvm_params_drop(params, p); /* one copy of the weights at a time */
  }
  TVMParamsFree(params);
  return status;
}

/* Use the arrays of another executor for the inputs of these names: share_params(name, array, name, array, ...). */
PACKED(packed_share_arrays) {
  Graph *g = self;
  (void)ret, (void)ret_code;
  for (int a = 0; a + 1 < n; a += 2) {
    int i;
    DLTensor *from;
    if (which_input(g, args[a], codes[a], &i) || tensor_of(args[a + 1], codes[a + 1], &from)) return -1;
    if (codes[a + 1] != kTVMNDArrayHandle) return tvm_error("graph executor: only whole arrays can be shared");
    GraphNode *node = &g->nodes[g->inputs[i]];
    if (same_tensor(from, g->entries[node->first_entry], node->name)) return -1;
    TVMArrayRetain(from);
    TVMArrayFree(g->entries[node->first_entry]);
    g->entries[node->first_entry] = from;
    drop_capture(g);
    put(g, node->first_entry, own_data(g, node->first_entry));
  }
  return 0;
}

static const struct { const char *name; TVMBackendPackedCFunc code; } FUNCTIONS[] = {
    {"set_input", packed_set_input},
    {"set_input_zero_copy", packed_set_input_zero_copy},
    {"set_output_zero_copy", packed_set_output_zero_copy},
    {"get_output", packed_get_output},
    {"get_input", packed_get_input},
    {"run", packed_run},
    {"get_num_inputs", packed_num_inputs},
    {"get_num_outputs", packed_num_outputs},
    {"get_num_nodes", packed_num_nodes},
    {"get_input_index", packed_input_index},
    {"get_input_name", packed_input_name},
    {"execute_node", packed_execute_node},
    {"time_node", packed_time_node},
    {"profile_run", packed_profile_run},
    {"get_node_output", packed_node_output},
    {"graph_capture", packed_graph_capture},
    {"load_params", packed_load_params},
    {"share_arrays", packed_share_arrays},
};

int tvm_graph_create(const char *text, size_t size, TVMModuleHandle library, DLDevice device, TVMModuleHandle *out) {
  Graph *g = calloc(1, sizeof *g);
  if (!g) return tvm_error("out of memory");
  g->device = device;
  g->library = library;
  const char *wanted = getenv("TVM_CUDA_GRAPH");
  g->capture = device.device_type == kDLCUDA && !(wanted && !strcmp(wanted, "0"));
  TVMModRetain(g->library);
  Json *json = NULL;
  TVMModuleHandle mod = NULL;
  int status = json_parse(text, size, &json) || graph_read(g, json) ? -1 : 0;
  json_free(json);
  if (!status) status = TVMModCreate("GraphExecutor", graph_free, g, &mod);
  if (status) {
    graph_free(g);
    return -1;
  }
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS && !status; ++i)
    status = tvm_module_builtin(mod, FUNCTIONS[i].name, FUNCTIONS[i].code, g);
  if (status) TVMModFree(mod);
  else *out = mod;
  return status;
}

PACKED(packed_create) {
  (void)self;
  const char *text;
  if (need(n, 4, "create") || text_of(args[0], codes[0], &text)) return -1;
  if (codes[1] != kTVMModuleHandle) return tvm_error("graph executor: the second argument is the compiled module");
  DLDevice device = {(int32_t)args[2].v_int64, (int32_t)args[3].v_int64};
  TVMModuleHandle mod;
  if (tvm_graph_create(text, strlen(text), args[1].v_handle, device, &mod)) return -1;
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

void tvm_register_graph(void) { tvm_builtin("tvm.graph_executor.create", packed_create); }
