/* The graph executor: declarations that its files share. */
#ifndef TVM_SRC_GRAPH_GRAPH_H_
#define TVM_SRC_GRAPH_GRAPH_H_

#include "../core/core.h"

/* A list of devices, at most one of each type. */
typedef struct { DLDevice items[16]; int count; } DeviceList;

typedef struct {
  char *name;
  bool is_input, is_copy; /* is_copy: copies a value to another device */
  DLDevice device;        /* device of the node's outputs */
  int first_entry, entry_count;
  int input_count;
  int *inputs; /* indices of entries */
  TVMFunctionHandle function; /* NULL for inputs, views and copies */
  TVMValue *args;
  int *codes;
  int arg_count;
} GraphNode;

typedef enum { ENTRY_INPUT, ENTRY_VIEW, ENTRY_RESULT } EntryKind;

/* A value of the graph: one output of one node. */
typedef struct {
  EntryKind kind;
  int storage;
  int next;              /* the next entry of the same storage, as a circular list */
  int64_t offset;        /* offset of the entry in its storage */
  TVMArrayHandle own;    /* a view of the executor's memory */
  TVMArrayHandle shared; /* a parameter of the factory that is read in place and never written; NULL otherwise */
} GraphEntry;

/* An array of the caller that receives an output in every run: the kernel writes it directly, or it is copied at the
 * end. */
typedef struct { bool in_place; char *data; } OutputTarget;

typedef struct TVMGraph {
  DeviceList devices;
  /* The device of all values; if the graph uses several devices, the first one. */
  DLDevice device;
  bool many_devices;
  int64_t copies; /* number of values copied between devices so far */
  TVMModuleHandle library;
  GraphNode *nodes;
  int node_count;
  int *row_ptr;
  TVMArrayHandle *storage;
  int storage_count;
  GraphEntry *entries;
  DLTensor *tensors; /* the tensor that kernels use for each entry: in the executor's memory or in an array of the caller */
  int entry_count;
  int *inputs; /* indices of nodes */
  int input_count;
  StringMap input_numbers; /* name -> input index + 1; the first input if a name occurs twice */
  StringMap constants;     /* name -> node index + 1, for parameters that are not listed as inputs */
  int *outputs; /* indices of entries */
  OutputTarget *targets;
  int output_count;
  bool flush_denormals;
  /* A whole run captured as one graph of the device, if the device supports it. */
  bool capture;
  void *captured;
  int captures, replays;
} Graph;

/* Fills a zero-initialized graph whose devices and library are set. */
int graph_read(Graph *g, const Json *json);
void graph_drop_capture(Graph *g);

/* ---- memory: which memory kernels use for each entry ---- */
int graph_same_tensor(const DLTensor *have, const DLTensor *wanted, const char *name);
/* Copies data into the executor's own memory, which kernels use for the entry from then on. */
int graph_set(Graph *g, int entry, const DLTensor *from, const char *name);
/* Does the same with the current array of a parameter reader. */
int graph_read_input(Graph *g, int entry, ParamReader *reader, const char *name);
/* Makes kernels read an input from the caller's array in place. */
int graph_lend_input(Graph *g, int entry, DLTensor *from, const char *name);
/* Makes every run write output number `output` to the array `to`. */
int graph_lend_output(Graph *g, int output, DLTensor *to);
/* Copies the outputs that kernels do not write directly to the caller's arrays. */
int graph_deliver(Graph *g);
/* Makes the array the executor's own memory of the input, shared with the caller for reads and writes. */
int graph_share(Graph *g, int entry, TVMArrayHandle array, const char *name);
/* Sets the input to the array: read in place if possible, and never written. */
int graph_use(Graph *g, int entry, TVMArrayHandle array, const char *name);
/* Returns the value of an entry: the executor's own array, or a copy if the value is in memory of the caller. */
int graph_value(Graph *g, int entry, TVMArrayHandle *out);
/* Does the same for an input; a parameter of the factory is first copied into the executor's own memory. */
int graph_input_value(Graph *g, int entry, TVMArrayHandle *out);

/* ---- executors and factories ---- */
/* Creates an executor of a graph in JSON format that calls the functions of a library. */
int tvm_graph_create(const char *text, size_t size, TVMModuleHandle library, const DeviceList *devices, TVMModuleHandle *out);
/* Reads devices from arguments: device values, or a device type and number for each. */
int tvm_device_list(const TVMValue *args, const int *codes, int n, DeviceList *out);
/* Sets the inputs with the names of the parameters; see graph_use. */
int tvm_graph_use_params(TVMModuleHandle executor, TVMParamsHandle params);
/* Creates a factory with this name; takes ownership of the parameters, also on failure. */
int tvm_factory_create(const char *name, TVMByteArray graph, TVMParamsHandle params, TVMModuleHandle library,
                       TVMModuleHandle *out);
/* Registers the executors, the factories and the loader of packages with core. */
void tvm_graph_start(void);
void tvm_factory_start(void);
void tvm_package_start(void);

#endif /* TVM_SRC_GRAPH_GRAPH_H_ */
