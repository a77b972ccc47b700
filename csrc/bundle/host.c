/* The parts of the runtime that depend on the process, for a bundle: it reads no environment variables and no files, and
 * its only device is the CPU. */
#include <pthread.h>
#include <string.h>
#ifdef __linux__
#include <sched.h>
#else
#include <unistd.h>
#endif

#include "bundle.h"

int default_thread_count(void) {
#ifdef __linux__
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
#else
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
#endif
}

int tvm_flush_default(bool *out) {
  *out = true;
  return 0;
}

const char *TVMDeviceTypeName(int device_type) { return device_type == kDLCPU ? "cpu" : "unknown device"; }

const DeviceApi *tvm_device(DLDevice device) {
  if (device.device_type == kDLCPU) return &tvm_cpu_api;
  tvm_set_error("a bundle runs on the CPU only, not on device type %d", (int)device.device_type);
  return NULL;
}

/* ---- the table of the code of the model ---- */

static int no_call(void *func, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code) {
  (void)func, (void)args, (void)codes, (void)n, (void)ret, (void)ret_code;
  return tvm_error("a bundle contains no functions of other modules");
}

static int no_function(void *module_context, const char *name, void **out) {
  (void)module_context;
  *out = NULL;
  return tvm_error("the model calls the function '%s', which a bundle does not contain", name);
}

static const TVMRuntimeTable bundle_table = {
  .abi_version = TVM_RUNTIME_ABI_VERSION,
  .size = sizeof(TVMRuntimeTable),
  .set_last_error = TVMAPISetLastError,
  .func_call = no_call,
  .get_func_from_env = no_function,
  .parallel_launch = TVMBackendParallelLaunch,
  .parallel_barrier = TVMBackendParallelBarrier,
  .alloc_workspace = TVMBackendAllocWorkspace,
  .free_workspace = TVMBackendFreeWorkspace,
  .raise_argument_error = tvm_raise_argument_error,
  .check_tensor = tvm_check_tensor,
  .parallel_for = TVMBackendParallelFor,
  .raise_value = tvm_raise_value,
  .use_tiles = TVMBackendUseTiles,
};

const TVMRuntimeTable *TVMGetRuntimeTable(void) { return &bundle_table; }

void host_start(const BundleModel *model) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static bool is_started;
  const TVMRuntimeTable *table = &bundle_table;
  pthread_mutex_lock(&lock);
  if (!is_started) {
    /* Threads do not survive fork: the child starts its own pool. */
    pthread_atfork(NULL, NULL, tvm_pool_fork_child);
    memcpy(model->runtime_table, &table, sizeof table);
    is_started = true;
  }
  pthread_mutex_unlock(&lock);
}
