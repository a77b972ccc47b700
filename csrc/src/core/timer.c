/* The timing loop of time_evaluator. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core.h"

static int call_timed(TVMCallFrame *frame, struct TVMFunction *func) {
  int n = (int)frame->num_args, ret_code;
  TVMValue ret;
  int status = tvm_call(func, frame->values, (int *)(frame->values + n), n, &ret, &ret_code);
  if (!status) tvm_release_value(ret, ret_code);
  return status;
}

/* Measures time with the device's own clock, or with the host's clock around a synchronization. */
typedef struct { const DeviceApi *api; DLDevice device; void *own; double start; } Clock;

static int clock_start(DLDevice device, Clock *clock) {
  *clock = (Clock){tvm_device(device), device, NULL, 0};
  if (!clock->api || clock->api->sync(device, NULL)) return -1;
  if (clock->api->timer_start) return clock->api->timer_start(device, &clock->own);
  clock->start = tvm_now();
  return 0;
}

static int clock_stop(Clock *clock, double *out_seconds) {
  if (clock->api->timer_stop) return clock->api->timer_stop(clock->device, clock->own, out_seconds);
  if (clock->api->sync(clock->device, NULL)) return -1;
  *out_seconds = tvm_now() - clock->start;
  return 0;
}

/* Calls the function `number` times. Between batches of about 50 ms the embedding language may interrupt. */
static int run_batch(TVMCallFrame *frame, const TVMTimeOptions *options, int64_t number, double per_call,
                     double *out_seconds) {
  int64_t batch = (int64_t)(0.05 / fmax(per_call, 1e-8)) + 1;
  double paused = 0, unused;
  int status = 0;
  Clock clock;
  if (clock_start(options->device, &clock)) return -1;
  for (int64_t done = 0; done < number && !status;) {
    int64_t stop = number - done < batch ? number : done + batch;
    for (; done < stop && !status; ++done) status = call_timed(frame, frame->func);
    if (done < number && !status) {
      double before = tvm_now();
      status = tvm_interrupt_check();
      if (!clock.api->timer_start) paused += tvm_now() - before; /* a device continues to execute during the check */
    }
  }
  if (status) {
    ErrorRecord why;
    tvm_error_save(&why);
    clock_stop(&clock, &unused);
    tvm_error_restore(&why);
    return -1;
  }
  if (clock_stop(&clock, out_seconds)) return -1;
  *out_seconds -= paused;
  return 0;
}

static int sleep_interruptibly(double seconds) {
  double until = tvm_now() + seconds, left;
  while ((left = until - tvm_now()) > 0) {
    if (left > 0.05) left = 0.05;
    struct timespec nap = {0, (long)(left * 1e9)};
    nanosleep(&nap, NULL);
    if (tvm_interrupt_check()) return -1;
  }
  return 0;
}

static int flush_caches(char *memory, size_t size) {
  for (size_t i = 0; i < size; i += 64) ((volatile char *)memory)[i] += 1;
  return 0;
}

/* `per_call` is the current estimate of the time of one call. */
static int time_repeat(TVMCallFrame *frame, const TVMTimeOptions *options, char *flush, int64_t *number,
                       double *per_call, double *out_seconds) {
  double duration = 0, wanted = options->min_repeat_ms * 1e-3;
  int zero_times = 0;
  for (;;) {
    if (duration > 0) {
      double by_time = wanted / (duration / (double)*number) + 1, by_growth = (double)*number * 1.618;
      *number = (int64_t)fmin(fmax(by_time, by_growth), 1e9);
    }
    if (flush) flush_caches(flush, (size_t)options->cache_flush_bytes);
    if (tvm_interrupt_check() || run_batch(frame, options, *number, *per_call, &duration)) return -1;
    *per_call = duration / (double)*number;
    if (duration <= 0 && ++zero_times >= options->limit_zero_time_iterations) break;
    if (duration >= wanted) break;
  }
  *out_seconds = duration / (double)*number;
  return 0;
}

int TVMFuncTime(TVMCallFrame *frame, const TVMTimeOptions *options, double *out_seconds) {
  const RemoteApi *remote = tvm_remote();
  if (frame->func && remote && remote->is_function(frame->func)) return remote->time(frame, options, out_seconds);
  int64_t number = options->number;
  if (number <= 0 || options->repeat <= 0)
    return tvm_error("time_evaluator: number and repeat must be positive, got %d and %d", (int)options->number,
                     (int)options->repeat);
  char *flush = NULL;
  if (options->cache_flush_bytes > 0 && !(flush = calloc(1, (size_t)options->cache_flush_bytes)))
    return tvm_error("time_evaluator: cannot allocate %lld bytes to flush caches", (long long)options->cache_flush_bytes);
  double start = tvm_now();
  int status = call_timed(frame, frame->func); /* untimed, so that lazy initialization is not measured */
  double per_call = tvm_now() - start;
  for (int i = 0; i < options->repeat && !status; ++i) {
    if (options->preprocess) status = call_timed(frame, options->preprocess);
    if (!status) status = time_repeat(frame, options, flush, &number, &per_call, &out_seconds[i]);
    if (!status && options->cooldown_interval_ms > 0 && options->repeats_to_cooldown > 0 &&
        (i + 1) % options->repeats_to_cooldown == 0 && i + 1 < options->repeat)
      status = sleep_interruptibly(options->cooldown_interval_ms * 1e-3);
  }
  free(flush);
  return status;
}

/* Registered as cache_flush_cpu_non_first_arg: evicts every array argument but the first from the caches. */
int tvm_flush_arguments(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)ret, (void)ret_code, (void)resource;
  for (int i = 1; i < n; ++i) {
    if (codes[i] != kTVMNDArrayHandle && codes[i] != kTVMDLTensorHandle) continue;
    const DLTensor *tensor = args[i].v_handle;
    size_t nbytes;
    bool is_read = tvm_is_host(tensor->device.device_type) && tvm_is_compact(tensor);
    if (!is_read || TVMTensorByteSize(tensor, &nbytes)) continue;
    const char *data = (const char *)tensor->data + tensor->byte_offset;
    for (size_t at = 0; at < nbytes; at += 64) {
#if defined(__x86_64__)
      __builtin_ia32_clflush(data + at);
#elif defined(__aarch64__)
      __asm__ volatile("dc civac, %0" ::"r"(data + at) : "memory");
#else
      (void)data;
#endif
    }
  }
  return 0;
}
