/* The graph executor: calls kernels in order, with memory that was planned at compile time.
 *
 * `tvm.graph_executor.create(json, module, device_type, device_id, ...)` returns a module whose functions set inputs,
 * run the graph and return outputs. Everything in the JSON is checked before it is used. Each value is on the device
 * that its "device_index" names; nodes named "__copy" copy values from one device to another.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "graph.h"

void graph_drop_capture(Graph *g) {
  const DeviceApi *api = g->captured ? tvm_device(g->device) : NULL;
  if (api) api->graph_free(g->device, g->captured);
  g->captured = NULL;
}

static void graph_free(void *self) {
  Graph *g = self;
  if (!g) return;
  graph_drop_capture(g);
  for (int i = 0; g->nodes && i < g->node_count; ++i) {
    GraphNode *n = &g->nodes[i];
    free(n->name);
    free(n->inputs);
    free(n->args);
    free(n->codes);
    if (n->function) TVMFuncFree(n->function);
  }
  for (int i = 0; g->entries && i < g->entry_count; ++i) {
    TVMArrayFree(g->entries[i].own);
    TVMArrayFree(g->entries[i].shared);
  }
  for (int i = 0; g->storage && i < g->storage_count; ++i)
    if (g->storage[i]) TVMArrayFree(g->storage[i]);
  if (g->library) TVMModFree(g->library);
  free(g->nodes);
  free(g->row_ptr);
  free(g->storage);
  free(g->entries);
  free(g->tensors);
  free(g->inputs);
  map_clear(&g->input_numbers);
  map_clear(&g->constants);
  free(g->outputs);
  free(g->targets);
  free(g);
}

/* ---- running the graph ---- */

static int call_node(Graph *g, int i) {
  GraphNode *n = &g->nodes[i];
  if (n->is_copy) {
    ++g->copies;
    return TVMArrayCopyFromTo(&g->tensors[n->inputs[0]], &g->tensors[n->first_entry], NULL);
  }
  if (!n->function) return 0;
  TVMValue ret;
  int code = kTVMNullptr;
  return tvm_call(n->function, n->args, n->codes, n->arg_count, &ret, &code);
}

static int run_node(Graph *g, int i) {
  uint64_t before = tvm_run_begin(g->flush_denormals);
  int status = call_node(g, i);
  tvm_run_end(g->flush_denormals, before);
  return status;
}

/* Runs a node and waits for its device, to measure the node: a device continues to execute after the call returns. */
static int run_to_end(Graph *g, int i) {
  const DLDevice *device = &g->nodes[i].device;
  return run_node(g, i) ? -1 : TVMSynchronize(device->device_type, device->device_id, NULL);
}

static int run_nodes(Graph *g) {
  uint64_t before = tvm_run_begin(g->flush_denormals);
  int status = 0;
  for (int i = 0; i < g->node_count && !status; ++i) status = call_node(g, i);
  tvm_run_end(g->flush_denormals, before);
  return status;
}

/* Whether a replay repeats the run: only compiled code whose calls are all kernel launches does the same work each
 * time. */
static bool is_static(const Graph *g) {
  for (int i = 0; i < g->node_count; ++i)
    if (g->nodes[i].is_copy || (g->nodes[i].function && g->nodes[i].function->resource)) return false;
  return true;
}

/* If capturing fails, the executor continues to run the graph kernel by kernel. */
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

static int run_once(Graph *g) {
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
  /* Capture after the first run, which has loaded the kernels. Do not capture if the arrays change in every run. */
  g->capture = !tvm_watch_end() && is_static(g) && (g->captures < 4 || g->replays >= 2 * g->captures);
  if (g->capture) capture_run(g, api);
  return 0;
}

static int graph_run(Graph *g) { return run_once(g) ? -1 : graph_deliver(g); }

static int find_input(const Graph *g, const char *name) { return (int)(intptr_t)map_get(&g->input_numbers, name) - 1; }

/* Returns the node of an input or of a parameter that is not listed as an input; NULL if there is none. */
static const GraphNode *find_parameter(const Graph *g, const char *name) {
  int i = find_input(g, name), node = (int)(intptr_t)map_get(&g->constants, name) - 1;
  return i >= 0 ? &g->nodes[g->inputs[i]] : node >= 0 ? &g->nodes[node] : NULL;
}

/* ---- packed functions of an executor module ---- */

#define PACKED(function)                                                                                             \
  static int function(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)

static int text_of(TVMValue value, int code, const char **out) {
  if (code != kTVMStr) return tvm_error("graph executor: expected a name");
  *out = value.v_str;
  return 0;
}

/* Finds the input with a given name or index and its node. */
static int which_input(const Graph *g, TVMValue value, int code, const GraphNode **out) {
  int64_t number;
  if (code == kTVMArgInt) number = value.v_int64;
  else if (code == kTVMStr) number = find_input(g, value.v_str);
  else return tvm_error("graph executor: an input is selected by its name or its index");
  if (number >= 0 && number < g->input_count) {
    *out = &g->nodes[g->inputs[number]];
    return 0;
  }
  if (code == kTVMStr) return tvm_error("graph executor: there is no input '%s'", value.v_str);
  return tvm_error("graph executor: there is no input %lld; the graph has %d inputs", (long long)number, g->input_count);
}

static int which_output(const Graph *g, TVMValue value, int code, int *out) {
  if (code != kTVMArgInt || value.v_int64 < 0 || value.v_int64 >= g->output_count)
    return tvm_error("graph executor: output index out of range; the graph has %d outputs", g->output_count);
  *out = (int)value.v_int64;
  return 0;
}

static int tensor_of(TVMValue value, int code, DLTensor **out) {
  if (code != kTVMDLTensorHandle && code != kTVMNDArrayHandle) return tvm_error("graph executor: expected an array");
  *out = value.v_handle;
  return 0;
}

static int need(int have, int wanted, const char *what) {
  return have >= wanted ? 0 : tvm_error("graph executor: %s takes %d arguments, got %d", what, wanted, have);
}

PACKED(packed_set_input) {
  const GraphNode *node;
  DLTensor *from;
  (void)ret, (void)ret_code;
  if (need(n, 2, "set_input") || which_input(self, args[0], codes[0], &node) || tensor_of(args[1], codes[1], &from)) return -1;
  return graph_set(self, node->first_entry, from, node->name);
}

PACKED(packed_set_input_zero_copy) {
  const GraphNode *node;
  DLTensor *from;
  (void)ret, (void)ret_code;
  if (need(n, 2, "set_input_zero_copy") || which_input(self, args[0], codes[0], &node) || tensor_of(args[1], codes[1], &from))
    return -1;
  return graph_lend_input(self, node->first_entry, from, node->name);
}

PACKED(packed_set_output_zero_copy) {
  int output;
  DLTensor *to;
  (void)ret, (void)ret_code;
  if (need(n, 2, "set_output_zero_copy") || which_output(self, args[0], codes[0], &output) || tensor_of(args[1], codes[1], &to))
    return -1;
  return graph_lend_output(self, output, to);
}

static int give_array(TVMArrayHandle array, TVMValue *ret, int *ret_code) {
  ret->v_handle = array;
  *ret_code = kTVMNDArrayHandle;
  return 0;
}

static int copy_out(const Graph *g, int entry, TVMValue to_value, int to_code) {
  DLTensor *to;
  if (tensor_of(to_value, to_code, &to) || graph_same_tensor(to, &g->tensors[entry], "output")) return -1;
  return TVMArrayCopyFromTo(&g->tensors[entry], to, NULL);
}

/* Copies an output into the given array, or returns the executor's own array. */
PACKED(packed_get_output) {
  Graph *g = self;
  int output;
  TVMArrayHandle own;
  if (need(n, 1, "get_output") || which_output(g, args[0], codes[0], &output)) return -1;
  if (n > 1) return copy_out(g, g->outputs[output], args[1], codes[1]);
  return graph_value(g, g->outputs[output], &own) ? -1 : give_array(own, ret, ret_code);
}

PACKED(packed_get_input) {
  const GraphNode *node;
  TVMArrayHandle own;
  if (need(n, 1, "get_input") || which_input(self, args[0], codes[0], &node)) return -1;
  if (n > 1) return copy_out(self, node->first_entry, args[1], codes[1]);
  return graph_input_value(self, node->first_entry, &own) ? -1 : give_array(own, ret, ret_code);
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
  const GraphNode *node;
  if (need(n, 1, "get_input_name") || which_input(self, args[0], codes[0], &node)) return -1;
  return TVMReturnBytes(node->name, strlen(node->name), kTVMStr, ret, ret_code);
}

/* Returns the type of an input as text: its data type followed by its shape, separated by spaces. */
PACKED(packed_describe_input) {
  const GraphNode *node;
  char text[64 + 64 * 24];
  if (need(n, 1, "describe_input") || which_input(self, args[0], codes[0], &node)) return -1;
  const DLTensor *tensor = ((Graph *)self)->entries[node->first_entry].own;
  tvm_dtype_text(tensor->dtype, text, 64);
  size_t used = strlen(text);
  for (int i = 0; i < tensor->ndim; ++i)
    used += (size_t)snprintf(text + used, sizeof text - used, " %lld", (long long)tensor->shape[i]);
  return TVMReturnBytes(text, used, kTVMStr, ret, ret_code);
}

static int which_node(const Graph *g, TVMValue value, int code, int *out) {
  if (code != kTVMArgInt || value.v_int64 < 0 || value.v_int64 >= g->node_count)
    return tvm_error("graph executor: node index out of range; the graph has %d nodes", g->node_count);
  *out = (int)value.v_int64;
  return 0;
}

PACKED(packed_execute_node) {
  int i;
  (void)ret, (void)ret_code;
  if (need(n, 1, "execute_node") || which_node(self, args[0], codes[0], &i)) return -1;
  return run_node(self, i);
}

/* Returns the seconds that each of `repeat` groups of `number` runs of one node takes, as the bytes of doubles. */
PACKED(packed_time_node) {
  Graph *g = self;
  int i;
  if (need(n, 3, "time_node") || which_node(g, args[0], codes[0], &i)) return -1;
  if (codes[1] != kTVMArgInt || codes[2] != kTVMArgInt) return tvm_error("graph executor: number and repeat must be integers");
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

/* Returns the seconds that every node takes in one run of the graph, as the bytes of doubles. */
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
  if (!status) status = graph_deliver(g);
  if (!status)
    status = TVMReturnBytes((const char *)seconds, (size_t)g->node_count * sizeof *seconds, kTVMBytes, ret, ret_code);
  free(seconds);
  return status;
}

/* Whether the graph's device can capture and replay a run; a run on several devices cannot be captured. */
static bool can_capture(const Graph *g) {
  const DeviceApi *api = g->many_devices ? NULL : tvm_driver(g->device.device_type);
  return api && api->capture_begin;
}

/* Returns whether runs are captured and replayed, or sets it if there is an argument. */
PACKED(packed_graph_capture) {
  Graph *g = self;
  if (n > 0) {
    if (codes[0] != kTVMArgInt && codes[0] != kTVMArgBool) return tvm_error("graph executor: the argument of graph_capture must be a bool");
    g->capture = args[0].v_int64 != 0 && can_capture(g);
    g->captures = g->replays = 0;
    if (!g->capture) graph_drop_capture(g);
  }
  return give_int(g->captured != NULL, ret, ret_code);
}

PACKED(packed_num_copies) {
  (void)args, (void)codes, (void)n;
  return give_int(((Graph *)self)->copies, ret, ret_code);
}

/* Returns whether runs flush denormal numbers, or sets it if there is an argument. */
PACKED(packed_flush_denormals) {
  Graph *g = self;
  if (n > 0) {
    if (codes[0] != kTVMArgInt && codes[0] != kTVMArgBool) return tvm_error("graph executor: the argument of flush_denormals must be a bool");
    g->flush_denormals = args[0].v_int64 != 0;
  }
  return give_int(g->flush_denormals, ret, ret_code);
}

PACKED(packed_node_output) {
  Graph *g = self;
  int i;
  if (need(n, 2, "get_node_output") || which_node(g, args[0], codes[0], &i)) return -1;
  if (codes[1] != kTVMArgInt || args[1].v_int64 < 0 || args[1].v_int64 >= g->nodes[i].entry_count)
    return tvm_error("graph executor: node '%s' has %d outputs; expected one", g->nodes[i].name, g->nodes[i].entry_count);
  TVMArrayHandle own;
  return graph_value(g, g->nodes[i].first_entry + (int)args[1].v_int64, &own) ? -1 : give_array(own, ret, ret_code);
}

/* Reads each array directly into the executor's memory, so that the weights are in memory only once. */
static int load_params(Graph *g, ParamReader *reader) {
  while (reader->done < reader->count) {
    const char *name = reader->names[reader->done];
    const GraphNode *node = find_parameter(g, name);
    if (params_next(reader)) return -1;
    /* Skip parameters that the graph does not use. */
    if (node ? graph_read_input(g, node->first_entry, reader, name) : params_take(reader, NULL)) return -1;
  }
  return 0;
}

PACKED(packed_load_params) {
  (void)ret, (void)ret_code;
  if (need(n, 1, "load_params")) return -1;
  if (codes[0] != kTVMBytes) return tvm_error("graph executor: parameters must be passed as bytes");
  const TVMByteArray *blob = args[0].v_handle;
  ParamReader reader;
  int status = params_open(&reader, blob->data, blob->size) ? -1 : load_params(self, &reader);
  params_close(&reader);
  return status;
}

PACKED(packed_load_params_from_file) {
  const char *path;
  ParamReader reader;
  (void)ret, (void)ret_code;
  if (need(n, 1, "load_params_from_file") || text_of(args[0], codes[0], &path)) return -1;
  int status = params_open_file(&reader, path) ? -1 : load_params(self, &reader);
  params_close(&reader);
  return status;
}

/* Uses the arrays of another executor for inputs: share_arrays(name, array, name, array, ...). */
PACKED(packed_share_arrays) {
  (void)ret, (void)ret_code;
  for (int a = 0; a + 1 < n; a += 2) {
    const GraphNode *node;
    DLTensor *array;
    if (which_input(self, args[a], codes[a], &node) || tensor_of(args[a + 1], codes[a + 1], &array)) return -1;
    if (codes[a + 1] != kTVMNDArrayHandle) return tvm_error("graph executor: share_arrays requires NDArrays, which own their memory");
    if (graph_share(self, node->first_entry, array, node->name)) return -1;
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
    {"get_num_copies", packed_num_copies},
    {"get_input_index", packed_input_index},
    {"get_input_name", packed_input_name},
    {"describe_input", packed_describe_input},
    {"execute_node", packed_execute_node},
    {"time_node", packed_time_node},
    {"profile_run", packed_profile_run},
    {"get_node_output", packed_node_output},
    {"graph_capture", packed_graph_capture},
    {"flush_denormals", packed_flush_denormals},
    {"load_params", packed_load_params},
    {"load_params_from_file", packed_load_params_from_file},
    {"share_arrays", packed_share_arrays},
};

int tvm_graph_create(const char *text, size_t size, TVMModuleHandle library, const DeviceList *devices, TVMModuleHandle *out) {
  Graph *g = calloc(1, sizeof *g);
  if (!g) return tvm_error("out of memory");
  g->devices = *devices;
  g->library = library;
  const char *wanted = getenv("TVM_CUDA_GRAPH");
  TVMModRetain(g->library);
  Json *json = NULL;
  TVMModuleHandle mod = NULL;
  int status = tvm_flush_default(&g->flush_denormals) || json_parse(text, size, &json) || graph_read(g, json) ? -1 : 0;
  json_free(json);
  g->capture = !status && can_capture(g) && !(wanted && !strcmp(wanted, "0"));
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

int tvm_graph_use_params(TVMModuleHandle executor, TVMParamsHandle params) {
  Graph *g = tvm_module_resource(executor, graph_free);
  for (int p = 0; p < TVMParamsCount(params); ++p) {
    const char *name = TVMParamsName(params, p, NULL);
    const GraphNode *node = find_parameter(g, name);
    if (node && graph_use(g, node->first_entry, TVMParamsArray(params, p), name)) return -1;
  }
  return 0;
}

static int add_device(DeviceList *list, DLDevice device) {
  if (list->count == sizeof list->items / sizeof *list->items) return tvm_error("an executor supports at most %d devices", list->count);
  for (int i = 0; i < list->count; ++i)
    if (list->items[i].device_type == device.device_type)
      return tvm_error("an executor takes one device per type; two devices of type %s were given", TVMDeviceTypeName(device.device_type));
  list->items[list->count++] = device;
  return 0;
}

int tvm_device_list(const TVMValue *args, const int *codes, int n, DeviceList *out) {
  out->count = 0;
  for (int i = 0; i < n; ++i) {
    DLDevice device;
    if (codes[i] == kTVMDevice) device = args[i].v_device;
    else if (i + 1 < n && codes[i] == kTVMArgInt && codes[i + 1] == kTVMArgInt) {
      device = (DLDevice){(int32_t)args[i].v_int64, (int32_t)args[i + 1].v_int64};
      ++i;
    } else {
      out->count = 0;
      break;
    }
    if (add_device(out, device)) return -1;
  }
  return out->count ? 0 : tvm_error("an executor needs at least one device, as in lib['default'](tvm.cpu())");
}

PACKED(packed_create) {
  (void)self;
  const char *text;
  if (need(n, 4, "create") || text_of(args[0], codes[0], &text)) return -1;
  if (codes[1] != kTVMModuleHandle) return tvm_error("graph executor: the second argument must be the compiled module");
  DeviceList devices;
  TVMModuleHandle mod;
  if (tvm_device_list(args + 2, codes + 2, n - 2, &devices)) return -1;
  if (tvm_graph_create(text, strlen(text), args[1].v_handle, &devices, &mod)) return -1;
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

void tvm_graph_start(void) { tvm_builtin("tvm.graph_executor.create", packed_create); }
