/* Partitions of models as graphs of kernels: the registry of kernels, and the JSON runtime that calls them. */
#ifndef TVM_SRC_EXTERNAL_EXTERNAL_H_
#define TVM_SRC_EXTERNAL_EXTERNAL_H_

#include "../../include/tvm/kernel_library.h"
#include "../core/core.h"

/* ---- kernels (kernels.c) ---- */
/* Copies the kernel with this name, after loading the libraries of TVM_KERNEL_LIBRARIES if it is not registered. */
int tvm_kernel_find(const char *name, TVMKernelApi *out);
/* Copies the engine that runs kernels with this name, and returns whether there is one. Loads libraries as above. */
bool tvm_kernel_engine_find(const char *kernel, TVMKernelEngine *out);
int tvm_kernel_attr_count(const TVMKernelNode *node, const char *name);
const char *tvm_kernel_attr_text(const TVMKernelNode *node, const char *name, int index);

/* ---- a partition (read.c, run.c, engine.c) ---- */
typedef enum { PART_INPUT, PART_CONSTANT, PART_KERNEL } PartKind;

typedef struct {
  PartKind kind;
  TVMKernelNode node;   /* of kernels */
  TVMKernelApi api;
  void *state;
  bool prepared;
  int *inputs;          /* indices of entries */
  int first_entry, entry_count;
} PartNode;

typedef struct Frame Frame;

typedef struct Partition {
  char *symbol;
  char *bytes;          /* the serialized form */
  size_t size;
  Json *json;
  PartNode *nodes;
  int node_count;
  /* The value of each entry; `data` is set for constants only. The shapes are in `dims`. */
  DLTensor *entries;
  int64_t *dims;
  int entry_count, dim_count;
  int *inputs, input_count;   /* entries of the arguments, in order */
  int *outputs, output_count;
  int *argument_of;           /* for each entry the index of its argument, or -1 */
  TVMParamsHandle params;     /* the constants, on the CPU */
  TVMArrayHandle *constants;  /* for each entry its array, or NULL */
  /* The state of runs: the kernels are prepared by the first one, for its device. */
  pthread_mutex_t lock;
  bool ready;
  DLDevice device;
  Frame *idle;
  /* The engine that runs all nodes, if there is one; `run` is NULL otherwise. */
  TVMKernelEngine engine;
  TVMKernelGraph graph;
  void *engine_state;
} Partition;

/* Reads the serialized form: "TVMJSON1", then the symbol, the JSON text and the constants in the format of
 * TVMParamsLoad, each with its length in eight bytes. */
int partition_read(const char *bytes, size_t size, Partition **out);
void partition_free(void *self);
/* The packed function of a partition. */
int partition_run(Partition *p, TVMValue *args, int *codes, int n);
void partition_stop(Partition *p); /* releases kernels and frames */

/* Prepares the engine of the partition's kernels, if all of them have the same one. */
int partition_engine_prepare(Partition *p);
int partition_engine_run(Partition *p, const DLTensor **values);
void partition_engine_stop(Partition *p);

/* Registers the loader of partitions with core. */
void tvm_external_start(void);

#endif /* TVM_SRC_EXTERNAL_EXTERNAL_H_ */
