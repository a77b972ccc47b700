/* A partition compiled for oneDNN: primitives in order, and the buffers that they read and write.
 *
 * Convolutions, matmuls and poolings choose the layouts of their operands. A slot is a value in one layout; a reorder
 * primitive converts between layouts, at once for constants. All descriptors of values have TVM's order of axes; the
 * builders permute them to the order that oneDNN expects (batch, channels, spatial axes). */
#ifndef TVM_DNNL_ENGINE_H_
#define TVM_DNNL_ENGINE_H_

#include "api.h"

typedef enum { SLOT_INPUT, SLOT_OUTPUT, SLOT_CONSTANT, SLOT_TEMPORARY } SlotKind;

typedef struct {
  Md md;
  SlotKind kind;
  int value;          /* of the graph, or -1 */
  int argument;       /* of inputs and outputs */
  void *data;         /* of constants */
  bool owned;
  size_t size, offset; /* in the memory of a frame, of temporaries */
  int first, last;    /* the steps that write it first and read it last */
} Slot;

enum { MAX_ARGS = 24 };
typedef struct { int arg, slot; } StepArg;
typedef struct {
  Primitive primitive;
  int arg_count;
  StepArg args[MAX_ARGS];
} Step;

typedef struct Frame Frame;

typedef struct {
  const Dnnl *api;
  const TVMKernelGraph *graph;
  Slot *slots;
  Step *steps;
  Md *descriptors;    /* all that were created; they are freed together */
  int slot_count, step_count, descriptor_count;
  int *current;       /* for each value of the graph the slot that its producer wrote, or -1 */
  size_t memory;      /* bytes of temporaries */
  void *lock;         /* pthread_mutex_t of idle */
  Frame *idle;
} Program;

/* ---- building (program.c) ---- */
Program *program_new(const Dnnl *api, const TVMKernelGraph *graph);
void program_free(void *self);
/* Returns a new descriptor that the program owns, or NULL after an error. */
ConstMd md_strided(Program *p, int ndims, const int64_t *dims, int type, const int64_t *strides);
ConstMd md_compact(Program *p, int ndims, const int64_t *dims, int type);
ConstMd md_any(Program *p, int ndims, const int64_t *dims, int type);
/* `permutation[i]` is the position of axis i in the new descriptor. NULL returns `md`. */
ConstMd md_permuted(Program *p, ConstMd md, const int *permutation);
ConstMd md_reshaped(Program *p, ConstMd md, int ndims, const int64_t *dims);
ConstMd md_of_tensor(Program *p, const DLTensor *tensor);
/* Returns oneDNN's number of a type, or -1 after an error. */
int type_of(DLDataType type);
/* Returns the slot of a value in the layout of its producer, in compact layout, or in the layout of `md`; -1 after an
 * error. */
int slot_of(Program *p, int value);
int slot_compact(Program *p, int value);
int slot_in_layout(Program *p, int value, ConstMd md);
/* Returns the slot of a new constant, whose `bytes` are copied, in the layout `user` or reordered to `wanted`. */
int slot_constant(Program *p, const void *data, size_t bytes, ConstMd user);
int slot_reordered_constant(Program *p, void *data, ConstMd user, ConstMd wanted);
int slot_temporary(Program *p, int value, ConstMd md);
/* Appends the primitive of a descriptor, with its scratchpad. Destroys the descriptor. */
int step_add(Program *p, PrimitiveDesc pd, Step *step);
void step_arg(Step *step, int arg, int slot);
/* Makes the outputs of the graph compact, and places the temporaries. */
int program_finish(Program *p);

/* ---- nodes (nodes.c, compute.c) ---- */
typedef struct {
  Program *program;
  const TVMKernelNode *node;
  const int32_t *inputs; /* values */
  int output;            /* the value */
  Attr attr;
  PrimitiveDesc pd;
  Step step;
} Build;

int build_node(Program *p, int index);
int build_convolution(Build *b);
int build_matmul(Build *b);

/* The index of the input with a role ("weights"), or -1; integer attributes; the operands of the epilogue. */
int role(const Build *b, const char *name);
int64_t number(const Build *b, const char *name, int index);
void numbers(const Build *b, const char *name, Dims out);
const char *text(const Build *b, const char *name, int index);
/* Reads the permutation from TVM's axes to batch, channels, spatial axes out of the attribute `layout`. */
void layout_permutation(const char *layout, int *out);
int append_epilogue(Build *b, const int *permutation);
int epilogue_args(Build *b, const int *permutation);
/* Adds operands in the layouts that the primitive chose, and the output. */
int operand(Build *b, int arg, int input, const int *permutation);
int result(Build *b, const int *permutation);
int finish(Build *b);
/* Returns 0 for the status 0 of a descriptor, and -1 with an error that names the node otherwise. */
int created(int status, const Build *b);
int64_t element_count(const DLTensor *t);

/* ---- runs (run.c) ---- */
int program_run(Program *p, const DLTensor *const *inputs, DLTensor *const *outputs);
void frames_free(Program *p);

#endif /* TVM_DNNL_ENGINE_H_ */
