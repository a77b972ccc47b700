/* The runtime of bundles. The generated file of a bundle defines a Model and the six public functions, which call the
 * functions below. bundle.c checks arguments; static_model.c or vm_model.c runs the model. */
#ifndef TVM_BUNDLE_BUNDLE_H_
#define TVM_BUNDLE_BUNDLE_H_

#include "../include/tvm/bundle_types.h"
#include "../src/core/core.h"

typedef struct { const char *name; void *address; } BundleKernel;

typedef struct {
  const tvm_bundle_info *info;
  void *runtime_table; /* address of the pointer through which the code of the model calls the runtime */
  void *module_context; /* address of the module pointer of the code; NULL if the code does not use it */
  const unsigned char *data; /* static model: the constants; otherwise the executable of the virtual machine */
  size_t data_size;
  /* ---- static models: `run` takes inputs, constants, outputs and workspaces ---- */
  int (*run)(void *const *pointers);
  const size_t *constant_offsets, *workspace_sizes;
  int constant_count, workspace_count;
  /* ---- models for the virtual machine ---- */
  const BundleKernel *kernels;
  int kernel_count;
} BundleModel;

struct tvm_bundle {
  const BundleModel *model;
  atomic_flag is_busy;
  bool has_run;
  bool *is_set;     /* for each input */
  void *state;      /* of the file that runs the model */
  char error[1024];
};

/* Implementations of the public functions. */
int bundle_create(const BundleModel *model, tvm_bundle **out);
int bundle_set_input(const BundleModel *model, tvm_bundle *bundle, int index, const void *data, uint64_t nbytes,
                     const int64_t *shape);
int bundle_run(const BundleModel *model, tvm_bundle *bundle);
int bundle_get_output(const BundleModel *model, tvm_bundle *bundle, int index, const void **data, uint64_t *nbytes,
                      const int64_t **shape);
const char *bundle_error(const BundleModel *model, const tvm_bundle *bundle);
void bundle_destroy(const BundleModel *model, tvm_bundle *bundle);

/* Implemented by static_model.c and vm_model.c. Arguments are valid, and a failure sets the last error of the thread. */
int model_open(tvm_bundle *bundle);
void model_close(tvm_bundle *bundle); /* also after model_open failed */
int model_set_input(tvm_bundle *bundle, int index, const void *data, uint64_t nbytes, const int64_t *shape);
int model_run(tvm_bundle *bundle);
int model_output(tvm_bundle *bundle, int index, const void **data, uint64_t *nbytes, const int64_t **shape);

/* Prepares the process: the code of the model calls the runtime through its table from now on (host.c). */
void host_start(const BundleModel *model);

#endif /* TVM_BUNDLE_BUNDLE_H_ */
