/* Convolution and matmul, in floating point and quantized. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* The parameters of qnn.conv2d or qnn.dense and of the qnn.requantize after it. oneDNN computes
 * scale[c] * sum((x - input_zero) * w) + bias[c], the epilogue, and adds output_zero. */
typedef struct {
  bool used;
  int channels, scale_count;
  int scales, input_zero, output_zero; /* slots; -1 where a zero point is 0 */
} Quantization;

static const void *constant(const Build *b, const char *name) {
  int input = role(b, name);
  const DLTensor *t = input < 0 ? NULL : &b->node->inputs[input];
  if (t && t->data) return (const char *)t->data + t->byte_offset;
  dnnl_fail("%s needs the constant input '%s'", b->node->name, name);
  return NULL;
}

static int scalar_slot(Program *p, int type, const void *data) {
  static const int64_t one = 1;
  return slot_constant(p, data, 4, md_compact(p, 1, &one, type));
}

static int zero_point(Build *b, const char *name, int arg, int *slot) {
  const int32_t *value = constant(b, name);
  *slot = -1;
  if (!value) return -1;
  if (!*value) return 0;
  if (b->program->api->primitive_attr_set_zero_points_mask(b->attr, arg, 0)) return dnnl_fail("oneDNN rejects a zero point");
  return (*slot = scalar_slot(b->program, DNNL_S32, value)) < 0 ? -1 : 0;
}

/* Reads the parameters and sets the attributes. `mask` selects the axis of output channels of the weights. */
static int quantize(Build *b, int channels, int mask, Quantization *q) {
  Program *p = b->program;
  int input = role(b, "scales");
  *q = (Quantization){.used = input >= 0, .channels = channels, .scales = -1, .input_zero = -1, .output_zero = -1};
  if (!q->used) return 0;
  const float *scales = constant(b, "scales"), *output = constant(b, "output_scale");
  if (!scales || !output) return -1;
  q->scale_count = (int)element_count(&b->node->inputs[input]);
  if (q->scale_count != 1 && q->scale_count != channels) return dnnl_fail("%s needs one scale or one for each channel", b->node->name);
  float *values = calloc((size_t)q->scale_count, sizeof *values);
  if (!values) return dnnl_fail("out of memory");
  for (int i = 0; i < q->scale_count; ++i) values[i] = scales[i] / *output;
  int64_t count = q->scale_count;
  q->scales = slot_constant(p, values, (size_t)count * sizeof *values, md_compact(p, 1, &count, DNNL_F32));
  free(values);
  if (q->scales < 0 || p->api->primitive_attr_set_scales_mask(b->attr, ARG_WEIGHTS, count > 1 ? mask : 0))
    return dnnl_fail("oneDNN rejects the scales of %s", b->node->name);
  return zero_point(b, "input_zero", ARG_SRC, &q->input_zero) || zero_point(b, "output_zero", ARG_DST, &q->output_zero) ? -1 : 0;
}

/* Returns the slot of the bias with `ndims` axes, of which the last one (or the only one) has the channels. */
static int bias_slot(Build *b, const Quantization *q, ConstMd md) {
  const void *data = constant(b, "bias");
  if (!data || !md) return -1;
  const DLTensor *t = &b->node->inputs[role(b, "bias")];
  if (!q->used) return slot_constant(b->program, data, (size_t)q->channels * t->dtype.bits / 8, md);
  float *values = calloc((size_t)q->channels, sizeof *values);
  if (!values) return dnnl_fail("out of memory");
  const float *scales = b->program->slots[q->scales].data;
  for (int i = 0; i < q->channels; ++i) values[i] = (float)((const int32_t *)data)[i] * scales[q->scale_count > 1 ? i : 0];
  int slot = slot_constant(b->program, values, (size_t)q->channels * sizeof *values, md);
  free(values);
  return slot;
}

static int common_args(Build *b, const Quantization *q, int weights, ConstMd bias) {
  if (weights < 0) return -1;
  step_arg(&b->step, ARG_WEIGHTS, weights);
  if (bias) {
    int slot = bias_slot(b, q, bias);
    if (slot < 0) return -1;
    step_arg(&b->step, ARG_BIAS, slot);
  }
  if (q->scales >= 0) step_arg(&b->step, ARG_SCALES_OF | ARG_WEIGHTS, q->scales);
  if (q->input_zero >= 0) step_arg(&b->step, ARG_ZERO_POINTS_OF | ARG_SRC, q->input_zero);
  if (q->output_zero >= 0) step_arg(&b->step, ARG_ZERO_POINTS_OF | ARG_DST, q->output_zero);
  return 0;
}

/* Writes the axes of a compact tensor in the order of `permutation`. */
static void permuted_axes(const DLTensor *t, const int *permutation, int64_t *dims, int64_t *strides) {
  int64_t stride = 1;
  for (int i = t->ndim - 1; i >= 0; --i) {
    dims[permutation[i]] = t->shape[i];
    strides[permutation[i]] = stride;
    stride *= t->shape[i];
  }
}

/* Splits the axis of output channels in groups. Returns the number of axes. */
static int grouped(int64_t groups, int ndims, int64_t *dims, int64_t *strides) {
  if (groups == 1) return ndims;
  memmove(dims + 1, dims, (size_t)ndims * sizeof *dims);
  memmove(strides + 1, strides, (size_t)ndims * sizeof *strides);
  dims[0] = groups;
  dims[1] /= groups;
  strides[0] = strides[1] * dims[1];
  return ndims + 1;
}

static int bias_type(const Build *b, const Quantization *q) {
  return q->used ? DNNL_F32 : type_of(b->node->inputs[role(b, "bias")].dtype);
}

static ConstMd open_md(Program *p, const DLTensor *t, const int *permutation) {
  Dims dims, strides;
  permuted_axes(t, permutation, dims, strides);
  return md_any(p, t->ndim, dims, type_of(t->dtype));
}

int build_convolution(Build *b) {
  Program *p = b->program;
  const Dnnl *d = p->api;
  const TVMKernelNode *n = b->node;
  const DLTensor *w = &n->inputs[role(b, "weights")];
  int data[DNNL_MAX_DIMS], kernel[DNNL_MAX_DIMS];
  Dims strides, dilation, begin, end, dims, steps;
  int64_t groups = number(b, "groups", 0);
  Quantization q;
  if (!constant(b, "weights") || w->ndim + 1 > DNNL_MAX_DIMS) return -1;
  layout_permutation(text(b, "data_layout", 0), data);
  layout_permutation(text(b, "kernel_layout", 0), kernel);
  numbers(b, "strides", strides), numbers(b, "dilation", dilation), numbers(b, "pad_begin", begin), numbers(b, "pad_end", end);
  for (int i = 0; i < DNNL_MAX_DIMS; ++i) dilation[i] = dilation[i] > 0 ? dilation[i] - 1 : 0;
  permuted_axes(w, kernel, dims, steps);
  int64_t channels = dims[0];
  int rank = grouped(groups, w->ndim, dims, steps);
  ConstMd user = md_strided(p, rank, dims, type_of(w->dtype), steps), weights = md_any(p, rank, dims, type_of(w->dtype));
  ConstMd src = open_md(p, &n->inputs[0], data), dst = open_md(p, &n->outputs[0], data), bias = NULL;
  if (!user || !weights || !src || !dst || quantize(b, (int)channels, groups > 1 ? 3 : 1, &q)) return -1;
  if (role(b, "bias") >= 0 && !(bias = md_compact(p, 1, &channels, bias_type(b, &q)))) return -1;
  if (append_epilogue(b, data)) return -1;
  if (created(d->convolution_forward_primitive_desc_create(&b->pd, d->engine, DNNL_INFERENCE, DNNL_CONVOLUTION_DIRECT, src, weights,
                                                           bias, dst, strides, dilation, begin, end, b->attr), b))
    return -1;
  int slot = slot_reordered_constant(p, (void *)constant(b, "weights"), user,
                                     d->primitive_desc_query_md(b->pd, DNNL_QUERY_EXEC_ARG_MD, ARG_WEIGHTS));
  return operand(b, ARG_SRC, 0, data) || common_args(b, &q, slot, bias) || epilogue_args(b, data) || result(b, data) || finish(b);
}

/* Returns the order of axes of an operand whose last two axes may be transposed. */
static void matrix_axes(int ndims, bool transposed, int *out) {
  for (int i = 0; i < ndims; ++i) out[i] = i;
  if (transposed) out[ndims - 1] = ndims - 2, out[ndims - 2] = ndims - 1;
}

int build_matmul(Build *b) {
  Program *p = b->program;
  const Dnnl *d = p->api;
  const TVMKernelNode *n = b->node;
  int index = role(b, "weights");
  const DLTensor *w = &n->inputs[index], *y = &n->outputs[0];
  int first[DNNL_MAX_DIMS], second[DNNL_MAX_DIMS], weights;
  int64_t columns = y->shape[y->ndim - 1];
  Quantization q;
  matrix_axes(n->inputs[0].ndim, number(b, "transpose_first", 0), first);
  matrix_axes(w->ndim, number(b, "transpose_second", 0), second);
  ConstMd src = md_permuted(p, md_of_tensor(p, &n->inputs[0]), first), user = md_permuted(p, md_of_tensor(p, w), second);
  ConstMd wanted = w->data ? open_md(p, w, second) : user, dst = md_of_tensor(p, y), bias = NULL;
  if (!src || !user || !wanted || !dst || quantize(b, (int)columns, 1 << (y->ndim - 1), &q)) return -1;
  if (role(b, "bias") >= 0) {
    Dims dims;
    for (int i = 0; i < y->ndim; ++i) dims[i] = i + 1 < y->ndim ? 1 : columns;
    if (!(bias = md_compact(p, y->ndim, dims, bias_type(b, &q)))) return -1;
  }
  if (append_epilogue(b, NULL)) return -1;
  if (created(d->matmul_primitive_desc_create(&b->pd, d->engine, src, wanted, bias, dst, b->attr), b)) return -1;
  int input = slot_compact(p, b->inputs[0]);
  if (w->data)
    weights = slot_reordered_constant(p, (void *)constant(b, "weights"), user,
                                      d->primitive_desc_query_md(b->pd, DNNL_QUERY_EXEC_ARG_MD, ARG_WEIGHTS));
  else weights = slot_compact(p, b->inputs[index]);
  if (input < 0) return -1;
  step_arg(&b->step, ARG_SRC, input);
  return common_args(b, &q, weights, bias) || epilogue_args(b, NULL) || result(b, NULL) || finish(b);
}
