/* Registers the components of this runtime with core. Core does not reference the components by name, so removing a
 * line here builds a runtime without that component. */
#include "core/core.h"
#include "devices/cuda/cuda.h"
#include "devices/opencl/opencl.h"
#include "external/external.h"
#include "graph/graph.h"
#include "rpc/rpc.h"
#include "vm/vm.h"

/* Runs before other constructors of a program into which the runtime is linked statically, because they may call it. */
enum { EARLY = 101 };

__attribute__((constructor(EARLY))) static void start(void) {
  tvm_core_start();
  tvm_cuda_start();
  tvm_opencl_start();
  tvm_graph_start();
  tvm_factory_start();
  tvm_package_start();
  tvm_vm_start();
  tvm_external_start();
  tvm_rpc_start();
}
