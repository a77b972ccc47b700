/* The part of oneDNN's C interface, version 3, that the engine calls. The library is opened at run time, so no header of
 * oneDNN is needed to compile this. */
#ifndef TVM_DNNL_API_H_
#define TVM_DNNL_API_H_

#include <stdbool.h>
#include <stdint.h>

#include "../include/tvm/kernel_library.h"

enum { DNNL_MAX_DIMS = 12 };
typedef int64_t Dims[DNNL_MAX_DIMS];

typedef struct dnnl_memory_desc *Md;
typedef const struct dnnl_memory_desc *ConstMd;
typedef struct dnnl_memory *Memory;
typedef struct dnnl_engine *Engine;
typedef struct dnnl_stream *Stream;
typedef struct dnnl_primitive *Primitive;
typedef struct dnnl_primitive_desc *PrimitiveDesc;
typedef struct dnnl_primitive_attr *Attr;
typedef struct dnnl_post_ops *PostOps;
typedef struct { int arg; Memory memory; } ExecArg;
typedef struct { int major, minor, patch; } Version; /* the first fields of dnnl_version_t */

/* Values of oneDNN's enumerations, which do not change within version 3. */
enum { DNNL_UNIMPLEMENTED = 3 };
enum { DNNL_F16 = 1, DNNL_BF16, DNNL_F32, DNNL_S32, DNNL_S8, DNNL_U8 };
enum { DNNL_CPU = 1, DNNL_IN_ORDER = 1, DNNL_TAG_ANY = 1, DNNL_INFERENCE = 96, DNNL_SCRATCHPAD_USER = 1 };
enum { DNNL_CONVOLUTION_DIRECT = 1, DNNL_POOLING_MAX = 511, DNNL_POOLING_AVG_INCLUDE = 767, DNNL_POOLING_AVG_EXCLUDE = 1023 };
enum { DNNL_BINARY_ADD = 131056, DNNL_BINARY_MUL = 131057, DNNL_BINARY_MAX = 131058, DNNL_BINARY_MIN = 131059, DNNL_BINARY_SUB = 131061 };
enum { DNNL_SOFTMAX = 196608, DNNL_LOG_SOFTMAX = 196609 };
enum {
  DNNL_RELU = 32, DNNL_TANH = 33, DNNL_ABS = 36, DNNL_SQRT = 37, DNNL_LINEAR = 38, DNNL_LOGISTIC = 41, DNNL_EXP = 42,
  DNNL_GELU_TANH = 43, DNNL_SWISH = 44, DNNL_LOG = 45, DNNL_CLIP = 47, DNNL_GELU_ERF = 49
};
enum { DNNL_QUERY_EXEC_ARG_MD = 255 };
enum {
  ARG_SRC = 1, ARG_SRC_1 = 2, ARG_DST = 17, ARG_WEIGHTS = 33, ARG_BIAS = 41,
  ARG_SCRATCHPAD = 80, ARG_SCALES_OF = 4096, ARG_ZERO_POINTS_OF = 8192, ARG_POST_OP = 32768
};

#define DNNL_FUNCTIONS(F)                                                                                              \
  F(engine_create, (Engine *, int, size_t))                                                                            \
  F(engine_destroy, (Engine))                                                                                          \
  F(stream_create, (Stream *, Engine, unsigned))                                                                       \
  F(stream_wait, (Stream))                                                                                             \
  F(stream_destroy, (Stream))                                                                                          \
  F(memory_desc_create_with_strides, (Md *, int, const int64_t *, int, const int64_t *))                               \
  F(memory_desc_create_with_tag, (Md *, int, const int64_t *, int, int))                                               \
  F(memory_desc_permute_axes, (Md *, ConstMd, const int *))                                                            \
  F(memory_desc_reshape, (Md *, ConstMd, int, const int64_t *))                                                        \
  F(memory_desc_clone, (Md *, ConstMd))                                                                                \
  F(memory_desc_equal, (ConstMd, ConstMd))                                                                             \
  F(memory_desc_destroy, (Md))                                                                                         \
  F(memory_create, (Memory *, ConstMd, Engine, void *))                                                                \
  F(memory_set_data_handle, (Memory, void *))                                                                          \
  F(memory_destroy, (Memory))                                                                                          \
  F(post_ops_create, (PostOps *))                                                                                      \
  F(post_ops_destroy, (PostOps))                                                                                       \
  F(post_ops_append_eltwise, (PostOps, int, float, float))                                                             \
  F(post_ops_append_binary, (PostOps, int, ConstMd))                                                                   \
  F(primitive_attr_create, (Attr *))                                                                                   \
  F(primitive_attr_destroy, (Attr))                                                                                    \
  F(primitive_attr_set_post_ops, (Attr, PostOps))                                                                      \
  F(primitive_attr_set_scratchpad_mode, (Attr, int))                                                                   \
  F(primitive_attr_set_scales_mask, (Attr, int, int))                                                                  \
  F(primitive_attr_set_zero_points_mask, (Attr, int, int))                                                             \
  F(primitive_create, (Primitive *, PrimitiveDesc))                                                                    \
  F(primitive_execute, (Primitive, Stream, int, const ExecArg *))                                                      \
  F(primitive_destroy, (Primitive))                                                                                    \
  F(primitive_desc_destroy, (PrimitiveDesc))                                                                           \
  F(reorder_primitive_desc_create, (PrimitiveDesc *, ConstMd, Engine, ConstMd, Engine, Attr))                          \
  F(convolution_forward_primitive_desc_create, (PrimitiveDesc *, Engine, int, int, ConstMd, ConstMd, ConstMd,          \
    ConstMd, const int64_t *, const int64_t *, const int64_t *, const int64_t *, Attr))                                \
  F(matmul_primitive_desc_create, (PrimitiveDesc *, Engine, ConstMd, ConstMd, ConstMd, ConstMd, Attr))                 \
  F(pooling_forward_primitive_desc_create, (PrimitiveDesc *, Engine, int, int, ConstMd, ConstMd, const int64_t *,      \
    const int64_t *, const int64_t *, const int64_t *, const int64_t *, Attr))                                         \
  F(softmax_forward_primitive_desc_create, (PrimitiveDesc *, Engine, int, int, ConstMd, ConstMd, int, Attr))           \
  F(eltwise_forward_primitive_desc_create, (PrimitiveDesc *, Engine, int, int, ConstMd, ConstMd, float, float, Attr))  \
  F(binary_primitive_desc_create, (PrimitiveDesc *, Engine, int, ConstMd, ConstMd, ConstMd, Attr))

typedef struct {
#define DECLARE(name, parameters) int (*name) parameters;
  DNNL_FUNCTIONS(DECLARE)
#undef DECLARE
  ConstMd (*primitive_desc_query_md)(PrimitiveDesc, int what, int index);
  size_t (*memory_desc_get_size)(ConstMd);
  void (*omp_set_num_threads)(int); /* NULL if this build of oneDNN has no OpenMP */
  Engine engine;
} Dnnl;

extern const TVMKernelRuntime *dnnl_runtime;

/* Returns the functions of oneDNN, or NULL with the last error set. The library is opened once. */
const Dnnl *dnnl_api(void);
/* Makes oneDNN use as many threads in this thread as the runtime does. */
void dnnl_match_threads(const Dnnl *d);
/* Sets the last error and returns -1. */
int dnnl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* TVM_DNNL_API_H_ */
