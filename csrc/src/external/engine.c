/* Partitions that an engine runs as a whole: the description of the graph for the engine, and the calls of the engine. */
#include <stdlib.h>
#include <string.h>

#include "external.h"

static int failed(const Partition *p, const char *kernel) {
  ErrorRecord error;
  tvm_error_save(&error);
  if (error.token) return tvm_error_restore(&error), -1;
  return tvm_error("partition '%s', which the engine of kernel '%s' runs: %s", p->symbol, kernel,
                   *error.text ? error.text : "failed without a message");
}

static const PartNode *first_kernel(const Partition *p) {
  for (int i = 0; i < p->node_count; ++i)
    if (p->nodes[i].kind == PART_KERNEL) return &p->nodes[i];
  return NULL;
}

/* Returns whether all kernels have names with the same part before the first dot. */
static bool has_one_prefix(const Partition *p, const char *first) {
  size_t length = strcspn(first, ".");
  for (int i = 0; i < p->node_count; ++i) {
    const char *name = p->nodes[i].node.name;
    if (p->nodes[i].kind == PART_KERNEL && (strcspn(name, ".") != length || memcmp(name, first, length))) return false;
  }
  return true;
}

static void graph_free(TVMKernelGraph *g) {
  free((void *)g->nodes), free((void *)g->node_inputs), free((void *)g->node_outputs), free((void *)g->outputs);
  memset(g, 0, sizeof *g);
}

/* Describes the partition. Its outputs are the values of kernels; the runtime copies the other ones after a run. */
static int graph_new(Partition *p) {
  size_t nodes = (size_t)p->node_count + 1, outputs = (size_t)p->output_count + 1;
  const TVMKernelNode **list = calloc(nodes, sizeof *list);
  const int32_t **inputs = calloc(nodes, sizeof *inputs);
  int32_t *first = calloc(nodes, sizeof *first), *results = calloc(outputs, sizeof *results);
  TVMKernelGraph *g = &p->graph;
  *g = (TVMKernelGraph){.partition = p->symbol, .value_count = p->entry_count, .input_count = p->input_count,
                        .nodes = list, .node_inputs = inputs, .node_outputs = first, .values = p->entries,
                        .inputs = p->inputs, .outputs = results};
  if (!list || !inputs || !first || !results) return tvm_error("out of memory");
  for (int i = 0; i < p->node_count; ++i) {
    PartNode *n = &p->nodes[i];
    if (n->kind != PART_KERNEL) continue;
    for (int k = 0; k < n->node.input_count; ++k) ((DLTensor *)n->node.inputs)[k] = p->entries[n->inputs[k]];
    list[g->node_count] = &n->node;
    inputs[g->node_count] = n->inputs;
    first[g->node_count++] = n->first_entry;
  }
  for (int i = 0; i < p->output_count; ++i)
    if (p->argument_of[p->outputs[i]] == p->input_count + i) results[g->output_count++] = p->outputs[i];
  return 0;
}

int partition_engine_prepare(Partition *p) {
  const PartNode *first = first_kernel(p);
  TVMKernelEngine engine = {0};
  if (!first || !has_one_prefix(p, first->node.name) || !tvm_kernel_engine_find(first->node.name, &engine)) return 0;
  TVMAPISetLastError("");
  int status = graph_new(p);
  if (!status && engine.prepare(&p->graph, &p->engine_state)) status = failed(p, first->node.name);
  if (status) graph_free(&p->graph);
  else p->engine = engine;
  return status;
}

int partition_engine_run(Partition *p, const DLTensor **values) {
  const TVMKernelGraph *g = &p->graph;
  const DLTensor *few[16], **tensors = few;
  int total = g->input_count + g->output_count;
  if (total > 16 && !(tensors = calloc((size_t)total, sizeof *tensors))) return tvm_error("out of memory");
  for (int i = 0; i < g->input_count; ++i) tensors[i] = values[g->inputs[i]];
  for (int i = 0; i < g->output_count; ++i) tensors[g->input_count + i] = values[g->outputs[i]];
  TVMAPISetLastError("");
  int status = p->engine.run(g, p->engine_state, tensors, (DLTensor *const *)(tensors + g->input_count));
  if (status) failed(p, g->nodes[0]->name);
  if (tensors != few) free(tensors);
  return status ? -1 : 0;
}

void partition_engine_stop(Partition *p) {
  if (p->engine.run && p->engine.release) p->engine.release(p->engine_state);
  memset(&p->engine, 0, sizeof p->engine);
  graph_free(&p->graph);
}
