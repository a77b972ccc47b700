/* Kernels of the JSON runtime: how a shared library implements the nodes of partitions.
 *
 * An external code generator writes a partition of a model as a graph in JSON (docs/howto_codegen.md). Each node of the
 * graph names a kernel, such as "acme.conv2d_relu". The runtime binds the constants, allocates the intermediate values
 * and calls the kernels in order. A library registers its kernels when it is loaded:
 *
 *   int TVMKernelLibraryInit(const TVMKernelRuntime *runtime) {
 *     return runtime->register_kernel("acme.conv2d_relu", &conv2d_relu);
 *   }
 *
 * TVMKernelLibraryLoad, tvm.runtime.load_kernel_library in Python, and the environment variable TVM_KERNEL_LIBRARIES
 * (paths, separated by colons, or by semicolons on Windows) load such a library. The runtime loads libtvm_acme.so from its
 * own folder when a partition needs the kernel "acme.conv2d_relu". A kernel library needs no symbol of the runtime.
 */
#ifndef TVM_KERNEL_LIBRARY_H_
#define TVM_KERNEL_LIBRARY_H_

#include "../tvm_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TVM_KERNEL_ABI_VERSION 1

/* A node of a partition. It is valid until `release` has been called for it. */
typedef struct TVMKernelNode {
  const char *name;       /* the name of the kernel */
  const char *partition;  /* the symbol of the partition */
  int32_t input_count, output_count;
  /* The types, shapes and device of the values. `data` is NULL except for inputs that are constants. */
  const DLTensor *inputs, *outputs;
  const void *attrs;      /* read them with attr_count and attr_text */
} TVMKernelNode;

/* The tensors of `run` have byte_offset 0 and are compact. Functions that can fail return 0, or -1 with the last error
 * set (runtime->table->set_last_error). Several threads may call `run` at once with the same state. Later versions of
 * the runtime only append fields. */
typedef struct TVMKernelApi {
  uint32_t abi_version; /* TVM_KERNEL_ABI_VERSION */
  uint32_t size;        /* sizeof(TVMKernelApi) */
  /* Prepares a node, once, before its first run: checks it, packs constant weights, compiles code. May be NULL. */
  int (*prepare)(const TVMKernelNode *node, void **state);
  int (*run)(const TVMKernelNode *node, void *state, const DLTensor *const *inputs, DLTensor *const *outputs);
  void (*release)(void *state); /* frees the state; may be NULL */
} TVMKernelApi;

/* A partition as a whole, for an engine. It is valid until `release` has been called for it. */
typedef struct TVMKernelGraph {
  const char *partition;          /* the symbol of the partition */
  int32_t node_count, value_count, input_count, output_count;
  const TVMKernelNode *const *nodes; /* in execution order */
  const int32_t *const *node_inputs; /* for each node the indices of its inputs in `values` */
  const int32_t *node_outputs;       /* for each node the index of its first output; the others follow */
  const DLTensor *values;            /* types, shapes and device; `data` is NULL except for constants */
  const int32_t *inputs, *outputs;   /* the values that are arguments of `run`, each at most once */
} TVMKernelGraph;

/* An engine runs all nodes of a partition together. It chooses the layouts and the memory of intermediate values. The
 * rules of TVMKernelApi apply. */
typedef struct TVMKernelEngine {
  uint32_t abi_version; /* TVM_KERNEL_ABI_VERSION */
  uint32_t size;        /* sizeof(TVMKernelEngine) */
  int (*prepare)(const TVMKernelGraph *graph, void **state);
  int (*run)(const TVMKernelGraph *graph, void *state, const DLTensor *const *inputs, DLTensor *const *outputs);
  void (*release)(void *state); /* frees the state; may be NULL */
} TVMKernelEngine;

/* The functions of the runtime that a kernel library calls. */
typedef struct TVMKernelRuntime {
  uint32_t abi_version;
  uint32_t size;
  const TVMRuntimeTable *table; /* errors, parallel loops, scratch memory */
  /* Registers a kernel. The table is copied; its functions must stay loaded. Fails if the name is taken. */
  int (*register_kernel)(const char *name, const TVMKernelApi *api);
  /* Returns the number of values of an attribute, 0 if the node does not have it. */
  int (*attr_count)(const TVMKernelNode *node, const char *name);
  /* Returns a value of an attribute as text, or NULL if there is none. */
  const char *(*attr_text)(const TVMKernelNode *node, const char *name, int index);
  /* Registers an engine. It runs the partitions whose kernels all have names that start with `name` and a dot. */
  int (*register_engine)(const char *name, const TVMKernelEngine *engine);
} TVMKernelRuntime;

TVM_DLL int TVMKernelRegister(const char *name, const TVMKernelApi *api);
TVM_DLL int TVMKernelEngineRegister(const char *name, const TVMKernelEngine *engine);
/* Opens a kernel library and calls its function
 *   int TVMKernelLibraryInit(const TVMKernelRuntime *runtime);
 * which returns 0, or -1 with the last error set. The library stays open; loading it again has no effect. */
TVM_DLL int TVMKernelLibraryLoad(const char *file_name);

#ifdef __cplusplus
}
#endif
#endif /* TVM_KERNEL_LIBRARY_H_ */
