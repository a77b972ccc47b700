/* Descriptors, slots and steps of a program, and the placement of its temporaries. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { ALIGNMENT = 64 };

int type_of(DLDataType t) {
  if (t.lanes == 1 && t.code == kDLFloat && t.bits == 32) return DNNL_F32;
  if (t.lanes == 1 && t.code == kDLBfloat && t.bits == 16) return DNNL_BF16;
  if (t.lanes == 1 && t.code == kDLFloat && t.bits == 16) return DNNL_F16;
  if (t.lanes == 1 && t.code == kDLInt && (t.bits == 8 || t.bits == 32)) return t.bits == 8 ? DNNL_S8 : DNNL_S32;
  if (t.lanes == 1 && t.code == kDLUInt && t.bits == 8) return DNNL_U8;
  return dnnl_fail("oneDNN has no type with code %d and %d bits", t.code, t.bits);
}

/* Appends an element to an array of `count` elements, whose capacity is the next power of two. */
static void *grown(void *array, int count, size_t size) {
  if (count & (count - 1)) return array;
  void *out = realloc(array, (count ? 2 * (size_t)count : 1) * size);
  if (!out) dnnl_fail("out of memory");
  return out;
}

Program *program_new(const Dnnl *api, const TVMKernelGraph *graph) {
  Program *p = calloc(1, sizeof *p);
  pthread_mutex_t *lock = malloc(sizeof *lock);
  int *current = malloc(((size_t)graph->value_count + 1) * sizeof *current);
  if (!p || !lock || !current) {
    free(p), free(lock), free(current);
    dnnl_fail("out of memory");
    return NULL;
  }
  for (int i = 0; i < graph->value_count; ++i) current[i] = -1;
  pthread_mutex_init(lock, NULL);
  p->api = api, p->graph = graph, p->lock = lock, p->current = current;
  return p;
}

void program_free(void *self) {
  Program *p = self;
  frames_free(p);
  for (int i = 0; i < p->step_count; ++i) p->api->primitive_destroy(p->steps[i].primitive);
  for (int i = 0; i < p->slot_count; ++i)
    if (p->slots[i].owned) free(p->slots[i].data);
  for (int i = 0; i < p->descriptor_count; ++i) p->api->memory_desc_destroy(p->descriptors[i]);
  pthread_mutex_destroy(p->lock);
  free(p->slots), free(p->steps), free(p->descriptors), free(p->current), free(p->lock), free(p);
}

/* ---- descriptors ---- */

/* Stores the descriptor that the call with this status wrote. */
static ConstMd md_kept(Program *p, int status, Md *md) {
  if (status) return dnnl_fail("oneDNN cannot describe a layout (status %d)", status), NULL;
  Md *more = grown(p->descriptors, p->descriptor_count, sizeof *more);
  if (!more) return p->api->memory_desc_destroy(*md), NULL;
  p->descriptors = more;
  return p->descriptors[p->descriptor_count++] = *md;
}

ConstMd md_strided(Program *p, int ndims, const int64_t *dims, int type, const int64_t *strides) {
  Md md;
  if (ndims > DNNL_MAX_DIMS || type < 0) return dnnl_fail("a value has more dimensions than oneDNN supports"), NULL;
  return md_kept(p, p->api->memory_desc_create_with_strides(&md, ndims, dims, type, strides), &md);
}

ConstMd md_compact(Program *p, int ndims, const int64_t *dims, int type) {
  Dims strides;
  int64_t stride = 1;
  for (int i = ndims - 1; i >= 0 && i < DNNL_MAX_DIMS; --i) {
    strides[i] = stride;
    stride *= dims[i] > 1 ? dims[i] : 1;
  }
  return md_strided(p, ndims, dims, type, strides);
}

ConstMd md_any(Program *p, int ndims, const int64_t *dims, int type) {
  Md md;
  if (type < 0) return NULL;
  return md_kept(p, p->api->memory_desc_create_with_tag(&md, ndims, dims, type, DNNL_TAG_ANY), &md);
}

ConstMd md_permuted(Program *p, ConstMd md, const int *permutation) {
  Md out;
  if (!md || !permutation) return md;
  return md_kept(p, p->api->memory_desc_permute_axes(&out, md, permutation), &out);
}

ConstMd md_reshaped(Program *p, ConstMd md, int ndims, const int64_t *dims) {
  Md out;
  return md ? md_kept(p, p->api->memory_desc_reshape(&out, md, ndims, dims), &out) : NULL;
}

ConstMd md_of_tensor(Program *p, const DLTensor *t) {
  static const int64_t one = 1;
  return t->ndim ? md_compact(p, t->ndim, t->shape, type_of(t->dtype)) : md_compact(p, 1, &one, type_of(t->dtype));
}

/* ---- slots ---- */

static int slot_add(Program *p, Slot slot, ConstMd md) {
  Slot *more = md ? grown(p->slots, p->slot_count, sizeof *more) : NULL;
  if (!more) return -1;
  p->slots = more;
  slot.md = (Md)md;
  slot.size = (p->api->memory_desc_get_size(md) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  slot.first = slot.last = -1;
  p->slots[p->slot_count] = slot;
  return p->slot_count++;
}

int slot_temporary(Program *p, int value, ConstMd md) {
  Md copy;
  if (!md) return dnnl_fail("oneDNN returned no layout");
  ConstMd kept = md_kept(p, p->api->memory_desc_clone(&copy, md), &copy);
  int slot = slot_add(p, (Slot){.kind = SLOT_TEMPORARY, .value = value}, kept);
  if (value >= 0 && p->current[value] < 0) p->current[value] = slot;
  return slot;
}

int slot_constant(Program *p, const void *data, size_t bytes, ConstMd user) {
  size_t size = user ? p->api->memory_desc_get_size(user) : 0;
  void *copy = user ? aligned_alloc(ALIGNMENT, (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT) : NULL;
  if (!copy) return user ? dnnl_fail("out of memory") : -1;
  memcpy(copy, data, bytes < size ? bytes : size);
  int slot = slot_add(p, (Slot){.kind = SLOT_CONSTANT, .value = -1, .data = copy, .owned = true}, user);
  if (slot < 0) free(copy);
  return slot;
}

static int reorder_desc(Program *p, ConstMd from, ConstMd to, PrimitiveDesc *pd) {
  Attr attr;
  if (p->api->primitive_attr_create(&attr)) return dnnl_fail("out of memory");
  int status = p->api->primitive_attr_set_scratchpad_mode(attr, DNNL_SCRATCHPAD_USER);
  if (!status) status = p->api->reorder_primitive_desc_create(pd, from, p->api->engine, to, p->api->engine, attr);
  p->api->primitive_attr_destroy(attr);
  return status ? dnnl_fail("oneDNN cannot convert between two layouts (status %d)", status) : 0;
}

/* Runs the last step now, and removes it. */
static int run_last_step(Program *p) {
  const Dnnl *d = p->api;
  Step *step = &p->steps[p->step_count - 1];
  ExecArg args[MAX_ARGS] = {{0}};
  void *scratch = NULL;
  Stream stream = NULL;
  int status = d->stream_create(&stream, d->engine, DNNL_IN_ORDER);
  for (int i = 0; i < step->arg_count && !status; ++i) {
    const Slot *s = &p->slots[step->args[i].slot];
    void *data = s->data;
    if (s->kind == SLOT_TEMPORARY && !(data = scratch = aligned_alloc(ALIGNMENT, s->size + ALIGNMENT))) status = 1;
    args[i].arg = step->args[i].arg;
    if (!status) status = d->memory_create(&args[i].memory, s->md, d->engine, data);
  }
  if (!status) status = d->primitive_execute(step->primitive, stream, step->arg_count, args);
  if (!status) status = d->stream_wait(stream);
  for (int i = 0; i < step->arg_count; ++i)
    if (args[i].memory) d->memory_destroy(args[i].memory);
  if (stream) d->stream_destroy(stream);
  d->primitive_destroy(step->primitive);
  free(scratch);
  --p->step_count;
  return status ? dnnl_fail("oneDNN cannot convert a constant (status %d)", status) : 0;
}

static int add_reorder(Program *p, int from, int to) {
  PrimitiveDesc pd;
  Step step = {0};
  if (reorder_desc(p, p->slots[from].md, p->slots[to].md, &pd)) return -1;
  step_arg(&step, ARG_SRC, from);
  step_arg(&step, ARG_DST, to);
  return step_add(p, pd, &step);
}

int slot_reordered_constant(Program *p, void *data, ConstMd user, ConstMd wanted) {
  if (!user || !wanted) return -1;
  int from = slot_add(p, (Slot){.kind = SLOT_CONSTANT, .value = -1, .data = data}, user);
  if (from < 0 || p->api->memory_desc_equal(user, wanted)) return from;
  Md copy;
  ConstMd kept = md_kept(p, p->api->memory_desc_clone(&copy, wanted), &copy);
  size_t size = p->api->memory_desc_get_size(wanted);
  void *memory = kept ? aligned_alloc(ALIGNMENT, (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT) : NULL;
  if (!memory) return kept ? dnnl_fail("out of memory") : -1;
  int to = slot_add(p, (Slot){.kind = SLOT_CONSTANT, .value = -1, .data = memory, .owned = true}, kept);
  if (to < 0) return free(memory), -1;
  return add_reorder(p, from, to) || run_last_step(p) ? -1 : to;
}

int slot_of(Program *p, int value) {
  const DLTensor *t = &p->graph->values[value];
  if (p->current[value] >= 0) return p->current[value];
  Slot slot = {.kind = SLOT_CONSTANT, .value = value, .data = (char *)t->data + (t->data ? t->byte_offset : 0)};
  for (int i = 0; !t->data && i < p->graph->input_count; ++i)
    if (p->graph->inputs[i] == value) slot.kind = SLOT_INPUT, slot.argument = i;
  return p->current[value] = slot_add(p, slot, md_of_tensor(p, t));
}

int slot_in_layout(Program *p, int value, ConstMd md) {
  int from = slot_of(p, value), to;
  if (from < 0 || !md) return -1;
  for (int i = 0; i < p->slot_count; ++i)
    if (p->slots[i].value == value && p->api->memory_desc_equal(p->slots[i].md, md)) return i;
  if (p->slots[from].kind == SLOT_CONSTANT) {
    to = slot_reordered_constant(p, p->slots[from].data, p->slots[from].md, md);
    if (to >= 0) p->slots[to].value = value;
    return to;
  }
  to = slot_temporary(p, value, md);
  return to < 0 || add_reorder(p, from, to) ? -1 : to;
}

int slot_compact(Program *p, int value) { return slot_in_layout(p, value, md_of_tensor(p, &p->graph->values[value])); }

/* ---- steps ---- */

void step_arg(Step *step, int arg, int slot) {
  if (step->arg_count < MAX_ARGS) step->args[step->arg_count++] = (StepArg){arg, slot};
}

int step_add(Program *p, PrimitiveDesc pd, Step *step) {
  ConstMd scratch = p->api->primitive_desc_query_md(pd, DNNL_QUERY_EXEC_ARG_MD, ARG_SCRATCHPAD);
  int status = 0;
  if (scratch && p->api->memory_desc_get_size(scratch)) {
    int slot = slot_temporary(p, -1, scratch);
    status = slot < 0 ? -1 : 0;
    step_arg(step, ARG_SCRATCHPAD, slot);
  }
  if (!status && p->api->primitive_create(&step->primitive, pd)) status = dnnl_fail("oneDNN cannot create a primitive");
  p->api->primitive_desc_destroy(pd);
  Step *more = status ? NULL : grown(p->steps, p->step_count, sizeof *more);
  if (!more) return status ? status : (p->api->primitive_destroy(step->primitive), -1);
  p->steps = more;
  p->steps[p->step_count++] = *step;
  return 0;
}

/* ---- memory ---- */

static int by_size(const void *a, const void *b) {
  const Slot *x = *(Slot *const *)a, *y = *(Slot *const *)b;
  return x->size < y->size ? 1 : x->size > y->size ? -1 : (x > y) - (x < y);
}

/* Returns the lowest offset at which a slot does not overlap a placed one that is live at the same time. */
static size_t free_offset(Slot *const *placed, int count, const Slot *s) {
  size_t offset = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < count; ++i) {
      const Slot *o = placed[i];
      bool together = o->first <= s->last && s->first <= o->last;
      if (together && offset < o->offset + o->size && o->offset < offset + s->size) offset = o->offset + o->size, moved = true;
    }
  }
  return offset;
}

static int place_temporaries(Program *p) {
  Slot **order = calloc((size_t)p->slot_count + 1, sizeof *order);
  int count = 0;
  if (!order) return dnnl_fail("out of memory");
  for (int i = 0; i < p->step_count; ++i)
    for (int k = 0; k < p->steps[i].arg_count; ++k) {
      Slot *s = &p->slots[p->steps[i].args[k].slot];
      if (s->first < 0) s->first = i;
      s->last = i;
    }
  for (int i = 0; i < p->slot_count; ++i)
    if (p->slots[i].kind == SLOT_TEMPORARY && p->slots[i].first >= 0) order[count++] = &p->slots[i];
  qsort(order, (size_t)count, sizeof *order, by_size);
  for (int i = 0; i < count; ++i) {
    order[i]->offset = free_offset(order, i, order[i]);
    if (order[i]->offset + order[i]->size > p->memory) p->memory = order[i]->offset + order[i]->size;
  }
  free(order);
  return 0;
}

int program_finish(Program *p) {
  for (int i = 0; i < p->graph->output_count; ++i) {
    int value = p->graph->outputs[i], slot = slot_compact(p, value);
    if (slot < 0) return -1;
    p->slots[slot].kind = SLOT_OUTPUT;
    p->slots[slot].argument = i;
  }
  return place_temporaries(p);
}
