/* Kernels written by hand as generated code would be, for tests of the runtime. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tvm_runtime.h"

#define EXPORT __attribute__((visibility("default")))
#define PACKED(name) \
  EXPORT int name(TVMValue *args, int *codes, int num_args, TVMValue *ret, int *ret_code, void *resource)

EXPORT const TVMRuntimeTable *__tvm_runtime_table;
EXPORT void *__tvm_module_ctx;
EXPORT const char __tvm_main__[] = "add";
#define RT __tvm_runtime_table

EXPORT int add_compute_(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
  return 0;
}

PACKED(add) {
  static const char *const names[] = {"A", "B", "C"};
  static const int64_t any[] = {-1};
  const DLTensor *tensors[3];
  char text[64];
  if (num_args != 3) {
    snprintf(text, sizeof text, "expected 3 arguments, got %d", num_args);
    return RT->raise_argument_error("add", -1, text);
  }
  for (int i = 0; i < 3; ++i) {
    int64_t extent = i ? tensors[0]->shape[0] : -1;
    TVMTensorSpec spec = {"add", names[i], {kDLFloat, 32, 1}, 1, i ? &extent : any, NULL, kDLCPU, 4};
    if (RT->check_tensor(&spec, i, args[i], codes[i], &tensors[i])) return -1;
  }
#define DATA(i) ((char *)tensors[i]->data + tensors[i]->byte_offset)
  return add_compute_((float *)DATA(0), (float *)DATA(1), (float *)DATA(2), tensors[0]->shape[0]);
}

/* Passes all its arguments to the global function test.callback and gives back its result. */
PACKED(call_back) {
  void *function;
  if (RT->get_func_from_env(__tvm_module_ctx, "test.callback", &function)) return -1;
  return RT->func_call(function, args, codes, num_args, ret, ret_code);
}

PACKED(call_unknown) {
  void *function;
  return RT->get_func_from_env(__tvm_module_ctx, "test.nobody.registered.this", &function);
}

/* Lends a tensor on the stack to test.callback. */
PACKED(lend_tensor) {
  float data[4] = {1, 2, 3, 4};
  int64_t shape[] = {2, 2};
  DLTensor tensor = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  TVMValue value;
  int code = kTVMDLTensorHandle;
  void *function;
  value.v_handle = &tensor;
  if (RT->get_func_from_env(__tvm_module_ctx, "test.callback", &function)) return -1;
  return RT->func_call(function, &value, &code, 1, ret, ret_code);
}

static int call_back_task(int task, TVMParallelGroupEnv *env, void *opaque) {
  TVMValue value, ret;
  int code = kTVMArgInt, ret_code;
  void *function;
  value.v_int64 = task;
  if (RT->get_func_from_env(__tvm_module_ctx, "test.callback", &function)) return -1;
  return RT->func_call(function, &value, &code, 1, &ret, &ret_code);
}

/* Calls test.callback(task) from every task of a region of args[0] tasks. */
PACKED(call_back_parallel) { return RT->parallel_launch(call_back_task, NULL, (int)args[0].v_int64); }

typedef struct { atomic_int left; int64_t seen[64]; } Meeting;

static int meet(int task, TVMParallelGroupEnv *env, void *opaque) {
  static _Thread_local char here;
  Meeting *meeting = opaque;
  meeting->seen[task] = (int64_t)(intptr_t)&here;
  return RT->parallel_barrier(task, env);
}

/* Returns how many different threads ran a region of args[0] tasks with a barrier. */
PACKED(count_threads) {
  Meeting meeting;
  int tasks = (int)args[0].v_int64, different = 0;
  if (tasks > 64 || RT->parallel_launch(meet, &meeting, tasks)) return -1;
  for (int i = 0; i < tasks; ++i) {
    int first = 1;
    for (int j = 0; j < i; ++j) first = first && meeting.seen[j] != meeting.seen[i];
    different += first;
  }
  ret->v_int64 = different;
  *ret_code = kTVMArgInt;
  return 0;
}

typedef struct { const int64_t *in; int64_t *out; } Squares;

static int square(int task, TVMParallelGroupEnv *env, void *opaque) {
  Squares *squares = opaque;
  squares->out[task] += squares->in[task] * squares->in[task];
  return 0;
}

/* out[i] += in[i] * in[i], one task per element. */
PACKED(squares) {
  const DLTensor *in = args[0].v_handle, *out = args[1].v_handle;
  Squares squares = {in->data, out->data};
  return RT->parallel_for(square, &squares, in->shape[0]);
}

static int fail_in_task(int task, TVMParallelGroupEnv *env, void *opaque) {
  if (task != *(int *)opaque) return RT->parallel_barrier(task, env);
  RT->set_last_error("task failed on purpose");
  return -1;
}

/* A region in which task args[0] fails while the others wait for it at a barrier. */
PACKED(fail_in_region) {
  int which = (int)args[0].v_int64;
  return RT->parallel_launch(fail_in_task, &which, 2);
}

PACKED(sleep_ms) {
  struct timespec nap = {args[0].v_int64 / 1000, args[0].v_int64 % 1000 * 1000000};
  nanosleep(&nap, NULL);
  return 0;
}

PACKED(fail_with) {
  RT->set_last_error(args[0].v_str);
  return -1;
}

PACKED(return_value) {
  ret->v_int64 = 42;
  *ret_code = kTVMArgInt;
  return 0;
}

PACKED(use_workspace) {
  char *first = RT->alloc_workspace(kDLCPU, 0, 100, kDLFloat, 32), *second = RT->alloc_workspace(kDLCPU, 0, 5000, 0, 8);
  if (!first || !second) return -1;
  memset(first, 1, 100);
  memset(second, 2, 5000);
  ret->v_int64 = ((uintptr_t)first | (uintptr_t)second) % 64;
  *ret_code = kTVMArgInt;
  if (first[99] != 1) return RT->raise_argument_error("use_workspace", 0, "blocks overlap");
  return RT->free_workspace(kDLCPU, 0, second) || RT->free_workspace(kDLCPU, 0, first);
}
