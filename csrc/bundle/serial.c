/* Replaces the thread pool in bundles without threads: tasks run one after the other on the calling thread. */
#include "../src/base/base.h"

int TVMThreadPoolSize(void) { return 1; }

int TVMBackendParallelLaunch(FTVMParallelLambda body, void *cdata, int num_task) {
  TVMParallelGroupEnv env = {num_task ? num_task : 1, NULL};
  int status = num_task < 0 ? tvm_error("parallel region: the number of tasks is negative (%d)", num_task) : 0;
  for (int task = 0; task < env.num_task && !status; ++task) status = body(task, &env, cdata);
  return status;
}

int TVMBackendParallelFor(FTVMParallelLambda body, void *cdata, int64_t extent) {
  if (extent > INT32_MAX) return tvm_error("parallel loop: %lld iterations exceed the maximum of 2^31 - 1", (long long)extent);
  return extent > 0 ? TVMBackendParallelLaunch(body, cdata, (int)extent) : 0;
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
  (void)task_id;
  if (penv->num_task <= 1) return 0;
  return tvm_error("barrier: the %d tasks of this parallel region run one after the other, because the bundle was written "
                   "without threads", (int)penv->num_task);
}

void tvm_pool_fork_child(void) {}
