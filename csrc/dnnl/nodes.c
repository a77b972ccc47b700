/* Nodes as primitives: attributes, epilogues, and all kinds except convolution and matmul. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* ---- attributes ---- */

const char *text(const Build *b, const char *name, int index) {
  const char *found = dnnl_runtime->attr_text(b->node, name, index);
  return found ? found : "";
}

int64_t number(const Build *b, const char *name, int index) { return strtoll(text(b, name, index), NULL, 10); }

void numbers(const Build *b, const char *name, Dims out) {
  int count = dnnl_runtime->attr_count(b->node, name);
  memset(out, 0, sizeof(Dims));
  for (int i = 0; i < count && i < DNNL_MAX_DIMS; ++i) out[i] = number(b, name, i);
}

int role(const Build *b, const char *name) {
  if (!dnnl_runtime->attr_count(b->node, name)) return -1;
  int64_t index = number(b, name, 0);
  return index >= 0 && index < b->node->input_count ? (int)index : -1;
}

int64_t element_count(const DLTensor *t) {
  int64_t count = 1;
  for (int i = 0; i < t->ndim; ++i) count *= t->shape[i];
  return count;
}

void layout_permutation(const char *layout, int *out) {
  int spatial = 2;
  for (int i = 0; layout[i] && i < DNNL_MAX_DIMS; ++i) {
    char c = layout[i];
    out[i] = c == 'N' || c == 'O' ? 0 : c == 'C' || c == 'I' ? 1 : spatial++;
  }
}

static void inverted(const int *permutation, int ndims, int *out) {
  for (int i = 0; i < ndims; ++i) out[permutation[i]] = i;
}

/* ---- operands ---- */

int operand(Build *b, int arg, int input, const int *permutation) {
  Program *p = b->program;
  int back[DNNL_MAX_DIMS];
  ConstMd md = p->api->primitive_desc_query_md(b->pd, DNNL_QUERY_EXEC_ARG_MD, arg);
  if (permutation) inverted(permutation, b->node->inputs[input].ndim, back);
  int slot = slot_in_layout(p, b->inputs[input], md ? md_permuted(p, md, permutation ? back : NULL) : NULL);
  if (slot < 0) return -1;
  step_arg(&b->step, arg, slot);
  return 0;
}

int result(Build *b, const int *permutation) {
  Program *p = b->program;
  int back[DNNL_MAX_DIMS];
  ConstMd md = p->api->primitive_desc_query_md(b->pd, DNNL_QUERY_EXEC_ARG_MD, ARG_DST);
  if (permutation) inverted(permutation, b->node->outputs[0].ndim, back);
  int slot = md ? slot_temporary(p, b->output, md_permuted(p, md, permutation ? back : NULL)) : -1;
  if (slot < 0) return -1;
  step_arg(&b->step, ARG_DST, slot);
  return 0;
}

int finish(Build *b) {
  PrimitiveDesc pd = b->pd;
  b->pd = NULL;
  return step_add(b->program, pd, &b->step);
}

/* ---- epilogues ---- */

static int eltwise_algorithm(const char *name) {
  static const struct { const char *name; int algorithm; } names[] = {
      {"relu", DNNL_RELU}, {"tanh", DNNL_TANH}, {"abs", DNNL_ABS}, {"sqrt", DNNL_SQRT}, {"linear", DNNL_LINEAR},
      {"sigmoid", DNNL_LOGISTIC}, {"exp", DNNL_EXP}, {"gelu_tanh", DNNL_GELU_TANH}, {"swish", DNNL_SWISH},
      {"log", DNNL_LOG}, {"clip", DNNL_CLIP}, {"gelu", DNNL_GELU_ERF}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (!strcmp(names[i].name, name)) return names[i].algorithm;
  return -1;
}

static int binary_algorithm(const char *name) {
  static const struct { const char *name; int algorithm; } names[] = {
      {"add", DNNL_BINARY_ADD}, {"multiply", DNNL_BINARY_MUL}, {"subtract", DNNL_BINARY_SUB},
      {"maximum", DNNL_BINARY_MAX}, {"minimum", DNNL_BINARY_MIN}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (!strcmp(names[i].name, name)) return names[i].algorithm;
  return -1;
}

static bool is_output_shape(const Build *b, const DLTensor *t) {
  const DLTensor *out = &b->node->outputs[0];
  return t->ndim == out->ndim && !memcmp(t->shape, out->shape, (size_t)t->ndim * sizeof *t->shape);
}

/* Returns the descriptor of an operand that is broadcast to the rank of the output: compact, or with the layout open. */
static ConstMd broadcast_md(Build *b, int input, const int *permutation, bool open) {
  const DLTensor *t = &b->node->inputs[input];
  int rank = b->node->outputs[0].ndim, missing = rank - t->ndim;
  Dims dims;
  if (missing < 0 || rank > DNNL_MAX_DIMS) return dnnl_fail("an operand has more dimensions than the output"), NULL;
  for (int i = 0; i < rank; ++i) dims[i] = i < missing ? 1 : t->shape[i - missing];
  if (open) return md_any(b->program, rank, dims, type_of(t->dtype));
  return md_permuted(b->program, md_compact(b->program, rank, dims, type_of(t->dtype)), permutation);
}

/* Returns the descriptor of the output in oneDNN's order of axes, with the layout open. */
static ConstMd open_output(Build *b, const int *permutation) {
  const DLTensor *t = &b->node->outputs[0];
  Dims dims;
  for (int i = 0; i < t->ndim && i < DNNL_MAX_DIMS; ++i) dims[permutation ? permutation[i] : i] = t->shape[i];
  return md_any(b->program, t->ndim, dims, type_of(t->dtype));
}

static int append_operation(Build *b, PostOps ops, int index, const int *permutation) {
  const Dnnl *d = b->program->api;
  const char *name = text(b, "epilogue", index);
  int algorithm = eltwise_algorithm(name);
  if (algorithm >= 0) {
    float alpha = strtof(text(b, "epilogue", index + 1), NULL), beta = strtof(text(b, "epilogue", index + 2), NULL);
    return d->post_ops_append_eltwise(ops, algorithm, alpha, beta) ? dnnl_fail("oneDNN rejects the epilogue %s", name) : 0;
  }
  int input = (int)number(b, "epilogue", index + 1);
  if ((algorithm = binary_algorithm(name)) < 0 || input < 0 || input >= b->node->input_count)
    return dnnl_fail("unknown operator '%s' in an epilogue", name);
  ConstMd md = is_output_shape(b, &b->node->inputs[input]) ? open_output(b, permutation) : broadcast_md(b, input, permutation, false);
  if (!md) return -1;
  return d->post_ops_append_binary(ops, algorithm, md) ? dnnl_fail("oneDNN rejects the epilogue %s", name) : 0;
}

int append_epilogue(Build *b, const int *permutation) {
  const Dnnl *d = b->program->api;
  int count = dnnl_runtime->attr_count(b->node, "epilogue"), status = 0;
  PostOps ops;
  if (d->post_ops_create(&ops)) return dnnl_fail("out of memory");
  for (int i = 0; i + 2 < count && !status; i += 3) status = append_operation(b, ops, i, permutation);
  if (!status && d->primitive_attr_set_post_ops(b->attr, ops)) status = dnnl_fail("oneDNN rejects an epilogue");
  d->post_ops_destroy(ops);
  return status;
}

int epilogue_args(Build *b, const int *permutation) {
  int count = dnnl_runtime->attr_count(b->node, "epilogue");
  for (int i = 0; i + 2 < count; i += 3) {
    if (eltwise_algorithm(text(b, "epilogue", i)) >= 0) continue;
    int input = (int)number(b, "epilogue", i + 1), arg = ARG_POST_OP * (i / 3 + 1) | ARG_SRC_1;
    if (is_output_shape(b, &b->node->inputs[input])) {
      if (operand(b, arg, input, permutation)) return -1;
      continue;
    }
    int slot = slot_compact(b->program, b->inputs[input]);
    if (slot < 0) return -1;
    step_arg(&b->step, arg, slot);
  }
  return 0;
}

/* ---- kinds ---- */

int created(int status, const Build *b) {
  if (!status) return 0;
  return status == DNNL_UNIMPLEMENTED ? dnnl_fail("oneDNN does not implement %s with these types on this CPU", b->node->name)
                                      : dnnl_fail("oneDNN rejects %s (status %d)", b->node->name, status);
}

static int build_pool(Build *b) {
  Program *p = b->program;
  const char *kind = text(b, "pool", 0);
  int permutation[DNNL_MAX_DIMS], slot = slot_of(p, b->inputs[0]);
  int algorithm = !strcmp(kind, "max") ? DNNL_POOLING_MAX : !strcmp(kind, "avg") ? DNNL_POOLING_AVG_EXCLUDE : DNNL_POOLING_AVG_INCLUDE;
  Dims window, strides, dilation, begin, end;
  layout_permutation(text(b, "layout", 0), permutation);
  numbers(b, "window", window), numbers(b, "strides", strides), numbers(b, "dilation", dilation);
  numbers(b, "pad_begin", begin), numbers(b, "pad_end", end);
  for (int i = 0; i < DNNL_MAX_DIMS; ++i) dilation[i] = dilation[i] > 0 ? dilation[i] - 1 : 0;
  ConstMd src = slot < 0 ? NULL : md_permuted(p, p->slots[slot].md, permutation), dst = open_output(b, permutation);
  if (!src || !dst) return -1;
  if (created(p->api->pooling_forward_primitive_desc_create(&b->pd, p->api->engine, DNNL_INFERENCE, algorithm, src, dst,
                                                            strides, window, dilation, begin, end, b->attr), b))
    return -1;
  return operand(b, ARG_SRC, 0, permutation) || result(b, permutation) || finish(b) ? -1 : 0;
}

static int build_softmax(Build *b) {
  Program *p = b->program;
  int slot = slot_of(p, b->inputs[0]), algorithm = number(b, "log", 0) ? DNNL_LOG_SOFTMAX : DNNL_SOFTMAX;
  if (slot < 0) return -1;
  ConstMd md = p->slots[slot].md;
  if (created(p->api->softmax_forward_primitive_desc_create(&b->pd, p->api->engine, DNNL_INFERENCE, algorithm, md, md,
                                                            (int)number(b, "softmax_axis", 0), b->attr), b))
    return -1;
  return operand(b, ARG_SRC, 0, NULL) || result(b, NULL) || finish(b) ? -1 : 0;
}

static int build_eltwise(Build *b) {
  Program *p = b->program;
  int slot = slot_of(p, b->inputs[0]), algorithm = eltwise_algorithm(text(b, "epilogue", 0));
  if (slot < 0) return -1;
  if (algorithm < 0) return dnnl_fail("unknown operator '%s'", text(b, "epilogue", 0));
  ConstMd md = p->slots[slot].md;
  float alpha = strtof(text(b, "epilogue", 1), NULL), beta = strtof(text(b, "epilogue", 2), NULL);
  if (created(p->api->eltwise_forward_primitive_desc_create(&b->pd, p->api->engine, DNNL_INFERENCE, algorithm, md, md, alpha,
                                                            beta, b->attr), b))
    return -1;
  return operand(b, ARG_SRC, 0, NULL) || result(b, NULL) || finish(b) ? -1 : 0;
}

/* Returns the slot of the second operand in the layout that the primitive chose. */
static int second_operand(Build *b, ConstMd compact) {
  Program *p = b->program;
  const DLTensor *t = &b->node->inputs[1];
  ConstMd chosen = p->api->primitive_desc_query_md(b->pd, DNNL_QUERY_EXEC_ARG_MD, ARG_SRC_1);
  if (is_output_shape(b, t)) return slot_in_layout(p, b->inputs[1], chosen);
  return t->data ? slot_reordered_constant(p, (char *)t->data + t->byte_offset, compact, chosen) : slot_compact(p, b->inputs[1]);
}

/* The first operand has the shape of the output, the second one may be broadcast. oneDNN is slow if their layouts
 * differ, so a constant gets the layout of the first operand. */
static int build_binary(Build *b) {
  Program *p = b->program;
  const DLTensor *t = &b->node->inputs[1];
  int first = slot_of(p, b->inputs[0]), algorithm = binary_algorithm(text(b, "epilogue", 0)), slot;
  if (first < 0) return -1;
  if (algorithm < 0) return dnnl_fail("unknown operator '%s'", text(b, "epilogue", 0));
  ConstMd md = p->slots[first].md, compact = broadcast_md(b, 1, NULL, false);
  ConstMd other = is_output_shape(b, t) ? md : t->data ? broadcast_md(b, 1, NULL, true) : compact;
  if (!other || !compact) return -1;
  if (created(p->api->binary_primitive_desc_create(&b->pd, p->api->engine, algorithm, md, other, md, b->attr), b)) return -1;
  if (operand(b, ARG_SRC, 0, NULL) || (slot = second_operand(b, compact)) < 0) return -1;
  step_arg(&b->step, ARG_SRC_1, slot);
  return result(b, NULL) || finish(b) ? -1 : 0;
}

int build_node(Program *p, int index) {
  static const struct { const char *kind; int (*build)(Build *); } kinds[] = {
      {"convolution", build_convolution}, {"matmul", build_matmul}, {"pool", build_pool}, {"softmax", build_softmax},
      {"eltwise", build_eltwise}, {"binary", build_binary}};
  const TVMKernelGraph *g = p->graph;
  Build b = {.program = p, .node = g->nodes[index], .inputs = g->node_inputs[index], .output = g->node_outputs[index]};
  const char *kind = text(&b, "kind", 0);
  int status = 1;
  if (p->api->primitive_attr_create(&b.attr)) return dnnl_fail("out of memory");
  if (p->api->primitive_attr_set_scratchpad_mode(b.attr, DNNL_SCRATCHPAD_USER)) status = dnnl_fail("oneDNN rejects the scratchpad mode");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && status > 0; ++i)
    if (!strcmp(kinds[i].kind, kind)) status = kinds[i].build(&b);
  if (status > 0) status = dnnl_fail("%s has the unknown kind '%s'", b.node->name, kind);
  if (b.pd) p->api->primitive_desc_destroy(b.pd);
  p->api->primitive_attr_destroy(b.attr);
  return status;
}
