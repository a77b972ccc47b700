/* The function table that generated code uses, and the handling of fork. */
#include <assert.h>

#include "core.h"

int tvm_flush_arguments(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource);

static int table_func_call(void *func, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code) {
  tvm_watch_call(func);
  return TVMFuncCall(func, args, codes, n, ret, ret_code);
}

static int table_get_func(void *module_ctx, const char *name, void **out) {
  TVMFunctionHandle func = NULL;
  int status = TVMBackendGetFuncFromEnv(module_ctx, name, &func);
  *out = func;
  return status;
}

static const TVMRuntimeTable runtime_table = {
  .abi_version = TVM_RUNTIME_ABI_VERSION,
  .size = sizeof(TVMRuntimeTable),
  .set_last_error = TVMAPISetLastError,
  .func_call = table_func_call,
  .get_func_from_env = table_get_func,
  .parallel_launch = TVMBackendParallelLaunch,
  .parallel_barrier = TVMBackendParallelBarrier,
  .alloc_workspace = TVMBackendAllocWorkspace,
  .free_workspace = TVMBackendFreeWorkspace,
  .raise_argument_error = tvm_raise_argument_error,
  .check_tensor = tvm_check_tensor,
  .parallel_for = TVMBackendParallelFor,
  .raise_value = tvm_raise_value,
  .device_register = TVMDeviceRegister,
  .use_tiles = TVMBackendUseTiles,
};

const TVMRuntimeTable *TVMGetRuntimeTable(void) { return &runtime_table; }

const char *TVMRuntimeVersion(void) { return "1"; }

static void before_fork(void) { tvm_registry_fork(0); }
static void parent_after_fork(void) { tvm_registry_fork(1); }
static void (*callbacks[8])(void);
static int callback_count;

void tvm_fork_child_add(void (*callback)(void)) {
  assert(callback_count < (int)(sizeof callbacks / sizeof *callbacks));
  callbacks[callback_count++] = callback;
}

static void child_after_fork(void) {
  tvm_registry_fork(2);
  tvm_pool_fork_child();
  tvm_library_fork_child();
  tvm_devices_fork_child();
  for (int i = 0; i < callback_count; ++i) callbacks[i]();
}

static int builtin_config_threadpool(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)ret, (void)ret_code, (void)resource;
  if (n < 2 || codes[0] != kTVMArgInt || codes[1] != kTVMArgInt)
    return tvm_error("runtime.config_threadpool: expected (affinity mode, number of threads) as integers");
  return TVMThreadPoolConfigure((int)args[1].v_int64);
}

static int builtin_num_threads(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)n, (void)resource;
  ret->v_int64 = TVMThreadPoolSize();
  *ret_code = kTVMArgInt;
  return 0;
}

static int builtin_system_lib(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)n, (void)resource;
  TVMModuleHandle mod;
  if (TVMModGetSystemLib(&mod)) return -1;
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

static int builtin_device_attribute(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)codes, (void)resource;
  if (n != 3) return tvm_error("runtime.GetDeviceAttr: expected a device type, a device number and an attribute number");
  DLDevice device = {(int32_t)args[0].v_int64, (int32_t)args[1].v_int64};
  return TVMDeviceGetAttribute(device, (int)args[2].v_int64, ret, ret_code);
}

void tvm_core_start(void) {
  system_at_fork(before_fork, parent_after_fork, child_after_fork);
  tvm_builtin("runtime.config_threadpool", builtin_config_threadpool);
  tvm_builtin("runtime.NumThreads", builtin_num_threads);
  tvm_builtin("runtime.SystemLib", builtin_system_lib);
  tvm_builtin("cache_flush_cpu_non_first_arg", tvm_flush_arguments);
  tvm_builtin("__tvm_set_device", tvm_set_device);
  tvm_builtin("runtime.GetDeviceAttr", builtin_device_attribute);
  tvm_device_modules_start();
}
