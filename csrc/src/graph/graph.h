/* The graph executor: what its files share. */
#ifndef TVM_SRC_GRAPH_GRAPH_H_
#define TVM_SRC_GRAPH_GRAPH_H_

#include "../core/core.h"

/* One device of each type. */
typedef struct { DLDevice items[16]; int count; } DeviceList;

typedef struct {
  char *name;
  bool is_input, is_copy; /* a copy of a value to another device */
  DLDevice device;        /* of its results */
  int first_entry, entry_count;
  int input_count;
  int *inputs; /* entries */
  TVMFunctionHandle function; /* NULL for inputs, views and copies */
  TVMValue *args;
  int *codes;
  int arg_count;
} GraphNode;

typedef enum { ENTRY_INPUT, ENTRY_VIEW, ENTRY_RESULT } EntryKind;

/* A value of the graph: one result of one node. */
typedef struct {
  EntryKind kind;
  int storage;
  int next;              /* the next entry of the same storage, in a ring */
  int64_t offset;        /* where it starts in its storage */
  TVMArrayHandle own;    /* a view of the executor's memory */
  TVMArrayHandle shared; /* a parameter of the factory that is read in place and never written; NULL otherwise */
} GraphEntry;

/* An array of the caller's that every run fills: by the kernel itself, or by a copy at the end. */
typedef struct { bool in_place; char *data; } OutputTarget;

typedef struct TVMGraph {
  DeviceList devices;
  /* The device of all values where they have one; of several, the first. */
  DLDevice device;
  bool many_devices;
  int64_t copies; /* values copied from device to device so far */
  TVMModuleHandle library;
  GraphNode *nodes;
  int node_count;
  int *row_ptr;
  TVMArrayHandle *storage;
  int storage_count;
  GraphEntry *entries;
  DLTensor *tensors; /* what kernels see of each entry: the executor's memory, or what is lent */
  int entry_count;
  int *inputs; /* nodes */
  int input_count;
  StringMap input_numbers; /* name -> number + 1; of equal names the first */
  int *outputs; /* entries */
  OutputTarget *targets;
  int output_count;
  bool flush_denormals;
  /* A whole run as one piece of work for the device, where it has such a thing. */
  bool capture;
  void *captured;
  int captures, replays;
} Graph;

/* Fills a graph of zeros that knows its devices and its library. */
int graph_read(Graph *g, const Json *json);
void graph_drop_capture(Graph *g);

/* ---- memory: where kernels find each entry ---- */
int graph_same_tensor(const DLTensor *have, const DLTensor *wanted, const char *name);
/* Copies into the executor's own memory, where kernels find the entry from then on. */
int graph_set(Graph *g, int entry, const DLTensor *from, const char *name);
/* The same with the array a reader has come to. */
int graph_read_input(Graph *g, int entry, ParamReader *reader, const char *name);
/* Kernels read an input where the caller has it. */
int graph_lend_input(Graph *g, int entry, DLTensor *from, const char *name);
/* Every run fills `to` with output number `output`. */
int graph_lend_output(Graph *g, int output, DLTensor *to);
/* Copies the outputs whose arrays no kernel writes. */
int graph_deliver(Graph *g);
/* The array becomes the executor's own memory of the input: what either writes, both read. */
int graph_share(Graph *g, int entry, TVMArrayHandle array, const char *name);
/* The array is the value of the input: read in place where that can be, and never written. */
int graph_use(Graph *g, int entry, TVMArrayHandle array, const char *name);
/* The value of an entry: the executor's own array, or a copy of what lies in memory of others. */
int graph_value(Graph *g, int entry, TVMArrayHandle *out);
/* The same for an input, which takes a parameter of the factory into the executor's own memory first. */
int graph_input_value(Graph *g, int entry, TVMArrayHandle *out);

/* ---- executors and factories ---- */
/* An executor of the graph described by JSON text, over the functions of a library. */
int tvm_graph_create(const char *text, size_t size, TVMModuleHandle library, const DeviceList *devices, TVMModuleHandle *out);
/* The devices of arguments: devices, or for each its type and its number. */
int tvm_device_list(const TVMValue *args, const int *codes, int n, DeviceList *out);
/* Gives the inputs of these names of an executor their values; see graph_use. */
int tvm_graph_use_params(TVMModuleHandle executor, TVMParamsHandle params);
/* A factory of this name; takes the parameters, also when it fails. */
int tvm_factory_create(const char *name, TVMByteArray graph, TVMParamsHandle params, TVMModuleHandle library,
                       TVMModuleHandle *out);
/* Register the executors, the factories and the loader of packages with core. */
void tvm_graph_start(void);
void tvm_factory_start(void);
void tvm_package_start(void);

#endif /* TVM_SRC_GRAPH_GRAPH_H_ */
