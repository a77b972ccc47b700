/* The types of bundles: files with a compiled model, its weights and its runtime. The header of each bundle contains
 * them too. Valid C99 and C++17. */
#ifndef TVM_BUNDLE_TYPES_H_
#define TVM_BUNDLE_TYPES_H_

#include <stddef.h>
#include <stdint.h>

/* Return values of the functions of a bundle. */
enum {
  TVM_BUNDLE_OK = 0,
  TVM_BUNDLE_BAD_HANDLE = -1, /* the handle is NULL, or belongs to another bundle */
  TVM_BUNDLE_BAD_INDEX = -2,  /* there is no input or output with this index */
  TVM_BUNDLE_BAD_POINTER = -3, /* a pointer is NULL */
  TVM_BUNDLE_BAD_SIZE = -4,   /* the size in bytes does not match the shape */
  TVM_BUNDLE_BAD_SHAPE = -5,  /* the shape does not match the type of the input */
  TVM_BUNDLE_BAD_ORDER = -6,  /* run before every input is set, or an output is read before a run */
  TVM_BUNDLE_BUSY = -7,       /* another thread is using the handle */
  TVM_BUNDLE_FAILED = -8      /* out of memory, or the model failed */
};

/* An input or an output. A dimension of -1 is dynamic; `nbytes` is 0 if a dimension is dynamic. */
typedef struct {
  const char *name;
  const char *dtype; /* "float32", "int8", "bool" */
  int32_t ndim;
  int32_t itemsize; /* bytes of an element */
  const int64_t *shape;
  uint64_t nbytes;
} tvm_bundle_tensor;

#define TVM_BUNDLE_ABI_VERSION 1

/* The description of a bundle. */
typedef struct {
  uint32_t abi_version; /* TVM_BUNDLE_ABI_VERSION */
  uint32_t size;        /* size of this struct in bytes; later versions append fields */
  const char *model;
  int32_t input_count, output_count;
  const tvm_bundle_tensor *inputs, *outputs;
  uint64_t weight_bytes;
  int32_t uses_threads; /* whether kernels run on all CPUs that the process may use */
  int32_t is_dynamic;   /* whether a dimension of an input or output is dynamic */
} tvm_bundle_info;

/* A model that is ready to run, with separate inputs and outputs. One thread at a time uses a handle. Several handles may
 * be used at the same time. */
typedef struct tvm_bundle tvm_bundle;

#endif /* TVM_BUNDLE_TYPES_H_ */
