/* Reads partitions: a graph in the JSON layout of Apache TVM's JSON runtime, and its constants. */
#include <stdlib.h>
#include <string.h>

#include "external.h"

static const char MAGIC[8] = {'T', 'V', 'M', 'J', 'S', 'O', 'N', '1'};
enum { MAX_NDIM = 64 };

static int take(const char **at, const char *end, TVMByteArray *out) {
  uint64_t size;
  if (end - *at < 8) return tvm_error("the partition packed in the library is corrupt");
  memcpy(&size, *at, 8);
  if (size > (uint64_t)(end - *at - 8)) return tvm_error("the partition packed in the library is corrupt");
  *out = (TVMByteArray){*at + 8, (size_t)size};
  *at += 8 + size;
  return 0;
}

static int fail(const Partition *p, const char *what) { return tvm_error("partition '%s': %s", p->symbol, what); }

static const Json *list(const Json *object, const char *key) {
  const Json *found = object ? json_member(object, key) : NULL;
  return found && found->kind == JSON_ARRAY ? found : NULL;
}

/* Returns the list inside the list of an attribute: "dtype": [["float32"]]. */
static const Json *inner(const Json *attrs, const char *key) {
  const Json *found = list(attrs, key);
  return found && found->count == 1 && found->child->kind == JSON_ARRAY ? found->child : NULL;
}

static int dtype_of(const char *text, DLDataType *out) {
  static const struct { const char *name; uint8_t code; } names[] = {
      {"float", kDLFloat}, {"int", kDLInt}, {"uint", kDLUInt}, {"bfloat", kDLBfloat}};
  if (!strcmp(text, "bool")) return *out = (DLDataType){kDLUInt, 1, 1}, 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    size_t length = strlen(names[i].name);
    char *end;
    if (strncmp(text, names[i].name, length)) continue;
    long bits = strtol(text + length, &end, 10);
    if (*end || bits < 1 || bits > 64) return -1;
    return *out = (DLDataType){names[i].code, (uint8_t)bits, 1}, 0;
  }
  return -1;
}

static int read_values(Partition *p, PartNode *n, const Json *attrs) {
  const Json *types = inner(attrs, "dtype"), *shapes = inner(attrs, "shape");
  if (!types || !shapes || types->count != n->entry_count || shapes->count != n->entry_count)
    return fail(p, "a node needs one dtype and one shape for each output");
  const Json *type = types->child, *shape = shapes->child;
  for (int k = 0; k < n->entry_count; ++k, type = type->next, shape = shape->next) {
    DLTensor *value = &p->entries[n->first_entry + k];
    if (type->kind != JSON_STRING || dtype_of(type->text, &value->dtype)) return fail(p, "a dtype is invalid");
    if (shape->kind != JSON_ARRAY || shape->count > MAX_NDIM) return fail(p, "a shape is invalid");
    value->shape = p->dims + p->dim_count;
    value->ndim = shape->count;
    for (const Json *d = shape->child; d; d = d->next) {
      if (d->kind != JSON_INT || d->integer < 0) return fail(p, "a shape is invalid");
      p->dims[p->dim_count++] = d->integer;
    }
    size_t size;
    if (tvm_byte_size(value->shape, value->ndim, value->dtype, &size)) return -1;
  }
  return 0;
}

/* Reads a list of [node, output, version]; the nodes must precede `limit`. */
static int read_refs(Partition *p, const Json *refs, int limit, int **out, int *count) {
  if (!refs) return fail(p, "a list of values is missing");
  *count = refs->count;
  if (!(*out = calloc((size_t)refs->count + 1, sizeof **out))) return tvm_error("out of memory");
  int i = 0;
  for (const Json *ref = refs->child; ref; ref = ref->next) {
    const Json *node = ref->kind == JSON_ARRAY && ref->count >= 2 ? ref->child : NULL, *index = node ? node->next : NULL;
    if (!index || node->kind != JSON_INT || index->kind != JSON_INT || node->integer < 0 || node->integer >= limit ||
        index->integer < 0 || index->integer >= p->nodes[node->integer].entry_count)
      return fail(p, "an edge does not refer to an output of an earlier node");
    (*out)[i++] = p->nodes[node->integer].first_entry + (int)index->integer;
  }
  return 0;
}

static int bind_constant(Partition *p, const PartNode *n, const char *name) {
  int count = p->params ? TVMParamsCount(p->params) : 0;
  DLTensor *value = &p->entries[n->first_entry];
  for (int i = 0; i < count; ++i) {
    if (strcmp(TVMParamsName(p->params, i, NULL), name)) continue;
    TVMArrayHandle array = TVMParamsArray(p->params, i);
    if (array->ndim != value->ndim || memcmp(&array->dtype, &value->dtype, sizeof array->dtype) ||
        (array->ndim && memcmp(array->shape, value->shape, (size_t)array->ndim * sizeof *array->shape)))
      return tvm_error("partition '%s': constant '%s' has another type or shape than its node", p->symbol, name);
    TVMArrayRetain(array);
    p->constants[n->first_entry] = array;
    value->data = array->data;
    value->byte_offset = array->byte_offset;
    return 0;
  }
  return tvm_error("partition '%s': constant '%s' is missing", p->symbol, name);
}

static int read_kernel(Partition *p, int number, const Json *json, const char *name) {
  PartNode *n = &p->nodes[number];
  DLTensor *values = NULL;
  if (read_refs(p, list(json, "inputs"), number, &n->inputs, &n->node.input_count)) return -1;
  if (!(values = calloc((size_t)n->node.input_count + 1, sizeof *values))) return tvm_error("out of memory");
  for (int i = 0; i < n->node.input_count; ++i) values[i] = p->entries[n->inputs[i]];
  n->node.inputs = values;
  n->node.outputs = p->entries + n->first_entry;
  n->node.output_count = n->entry_count;
  n->node.name = name;
  n->node.partition = p->symbol;
  n->node.attrs = json_member(json, "attrs");
  return 0;
}

static int read_node(Partition *p, int number, const Json *json) {
  PartNode *n = &p->nodes[number];
  const Json *op = json_member(json, "op"), *name = json_member(json, "name"), *attrs = json_member(json, "attrs");
  if (!op || op->kind != JSON_STRING || !name || name->kind != JSON_STRING) return fail(p, "a node has no op or no name");
  if (read_values(p, n, attrs)) return -1;
  if (!strcmp(op->text, "input")) n->kind = PART_INPUT;
  else if (!strcmp(op->text, "const")) n->kind = PART_CONSTANT;
  else if (!strcmp(op->text, "kernel")) n->kind = PART_KERNEL;
  else return tvm_error("partition '%s': node '%s' has the unknown op '%s'", p->symbol, name->text, op->text);
  if (n->kind == PART_KERNEL) return read_kernel(p, number, json, name->text);
  if (n->entry_count != 1) return fail(p, "an input or a constant must have one output");
  return n->kind == PART_CONSTANT ? bind_constant(p, n, name->text) : 0;
}

static int count_dims(const Json *nodes) {
  int total = 0;
  for (const Json *node = nodes->child; node; node = node->next) {
    const Json *shapes = inner(json_member(node, "attrs"), "shape");
    for (const Json *shape = shapes ? shapes->child : NULL; shape; shape = shape->next) total += shape->count;
  }
  return total;
}

/* Reads the entries of each node from node_row_ptr. */
static int read_rows(Partition *p, const Json *rows) {
  if (!rows || rows->count != p->node_count + 1) return fail(p, "node_row_ptr needs one number more than there are nodes");
  const Json *row = rows->child;
  int64_t last = 0;
  for (int i = 0; i <= p->node_count; ++i, row = row->next) {
    if (row->kind != JSON_INT || row->integer < last || (i ? row->integer <= last : row->integer) || row->integer > INT32_MAX / 64)
      return fail(p, "node_row_ptr must increase from 0");
    if (i) p->nodes[i - 1].entry_count = (int)(row->integer - last);
    if (i < p->node_count) p->nodes[i].first_entry = (int)row->integer;
    last = row->integer;
  }
  p->entry_count = (int)last;
  return 0;
}

static int read_inputs(Partition *p, const Json *arguments) {
  if (!arguments || !(p->inputs = calloc((size_t)arguments->count + 1, sizeof *p->inputs))) return fail(p, "arg_nodes is missing");
  for (const Json *at = arguments->child; at; at = at->next) {
    if (at->kind != JSON_INT || at->integer < 0 || at->integer >= p->node_count || p->nodes[at->integer].kind == PART_KERNEL)
      return fail(p, "arg_nodes must list inputs and constants");
    if (p->nodes[at->integer].kind == PART_INPUT) p->inputs[p->input_count++] = p->nodes[at->integer].first_entry;
  }
  return 0;
}

static int read_arguments(Partition *p) {
  for (int i = 0; i < p->entry_count; ++i) p->argument_of[i] = -1;
  for (int i = 0; i < p->input_count; ++i) {
    if (p->argument_of[p->inputs[i]] >= 0) return fail(p, "arg_nodes lists an input twice");
    p->argument_of[p->inputs[i]] = i;
  }
  for (int i = 0; i < p->node_count; ++i)
    if (p->nodes[i].kind == PART_INPUT && p->argument_of[p->nodes[i].first_entry] < 0)
      return fail(p, "an input is not in arg_nodes");
  /* An output that is an input, a constant or an earlier output is copied after the run. */
  for (int i = 0; i < p->output_count; ++i)
    if (p->argument_of[p->outputs[i]] < 0 && !p->constants[p->outputs[i]]) p->argument_of[p->outputs[i]] = p->input_count + i;
  return 0;
}

static int read_graph(Partition *p) {
  const Json *nodes = list(p->json, "nodes");
  if (p->json->kind != JSON_OBJECT || !nodes) return fail(p, "the graph has no nodes");
  p->node_count = nodes->count;
  p->nodes = calloc((size_t)nodes->count + 1, sizeof *p->nodes);
  if (!p->nodes) return tvm_error("out of memory");
  if (read_rows(p, list(p->json, "node_row_ptr"))) return -1;
  size_t entries = (size_t)p->entry_count + 1;
  p->entries = calloc(entries, sizeof *p->entries);
  p->constants = calloc(entries, sizeof *p->constants);
  p->argument_of = calloc(entries, sizeof *p->argument_of);
  p->dims = calloc((size_t)count_dims(nodes) + 1, sizeof *p->dims);
  if (!p->entries || !p->constants || !p->argument_of || !p->dims) return tvm_error("out of memory");
  for (int i = 0; i < p->entry_count; ++i) p->entries[i].device = (DLDevice){kDLCPU, 0};
  int number = 0;
  for (const Json *node = nodes->child; node; node = node->next, ++number)
    if (read_node(p, number, node)) return -1;
  if (read_inputs(p, list(p->json, "arg_nodes"))) return -1;
  if (read_refs(p, list(p->json, "heads"), p->node_count, &p->outputs, &p->output_count)) return -1;
  return p->output_count ? read_arguments(p) : fail(p, "the graph has no outputs");
}

int partition_read(const char *bytes, size_t size, Partition **out) {
  TVMByteArray symbol, text, params;
  const char *at = bytes + sizeof MAGIC, *end = bytes + size;
  if (size < sizeof MAGIC || memcmp(bytes, MAGIC, sizeof MAGIC)) return tvm_error("the partition packed in the library is corrupt");
  if (take(&at, end, &symbol) || take(&at, end, &text) || take(&at, end, &params)) return -1;
  if (at != end || !symbol.size || memchr(symbol.data, 0, symbol.size)) return tvm_error("the partition packed in the library is corrupt");
  Partition *p = calloc(1, sizeof *p);
  if (!p) return tvm_error("out of memory");
  pthread_mutex_init(&p->lock, NULL);
  p->size = size;
  int status = (p->symbol = calloc(symbol.size + 1, 1)) && (p->bytes = malloc(size)) ? 0 : tvm_error("out of memory");
  if (!status) memcpy(p->symbol, symbol.data, symbol.size), memcpy(p->bytes, bytes, size);
  if (!status && params.size) status = TVMParamsLoad(params.data, params.size, &p->params);
  if (!status) status = json_parse(text.data, text.size, &p->json);
  if (!status) status = read_graph(p);
  if (status) partition_free(p);
  else *out = p;
  return status;
}

void partition_free(void *self) {
  Partition *p = self;
  partition_stop(p);
  for (int i = 0; p->nodes && i < p->node_count; ++i) {
    free(p->nodes[i].inputs);
    free((void *)p->nodes[i].node.inputs);
  }
  for (int i = 0; p->constants && i < p->entry_count; ++i)
    if (p->constants[i]) TVMArrayFree(p->constants[i]);
  if (p->params) TVMParamsFree(p->params);
  json_free(p->json);
  pthread_mutex_destroy(&p->lock);
  free(p->nodes), free(p->entries), free(p->dims), free(p->inputs), free(p->outputs);
  free(p->argument_of), free(p->constants), free(p->symbol), free(p->bytes), free(p);
}
