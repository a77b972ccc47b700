/* The parts of this runtime. Each registers with core what core calls of it, so that core calls no part by name and a
 * runtime without a part is one without its line here. */
#include "core/core.h"
#include "devices/cuda/cuda.h"
#include "devices/opencl/opencl.h"
#include "graph/graph.h"
#include "rpc/rpc.h"
#include "vm/vm.h"

/* Before other constructors of a program into which the runtime is linked statically, which may call it. */
enum { EARLY = 101 };

__attribute__((constructor(EARLY))) static void start(void) {
  tvm_core_start();
  tvm_cuda_start();
  tvm_opencl_start();
  tvm_graph_start();
  tvm_factory_start();
  tvm_package_start();
  tvm_vm_start();
  tvm_rpc_start();
}
