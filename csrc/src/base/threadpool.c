/* The thread pool: one per process. The caller of a parallel region is thread 0. Worker i watches its own slot, so task
 * i runs on the same thread in each region and finds its data in that core's cache. */
#include <stdlib.h>
#include <string.h>

#include "base.h"

static void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

enum { MAX_THREADS = 256, CACHE_LINE = 64 };
/* Spin time before a worker sleeps: long enough for the serial code between two kernels, short enough to free the core. */
static const double SPIN_SECONDS = 60e-6;
/* How long the caller waits for a worker to start its task before the caller runs the task itself. */
static const double STEAL_SECONDS = 20e-6;

typedef struct {
  FTVMParallelLambda body;
  void *cdata;
  TVMParallelGroupEnv env;
  FloatState float_state;        /* of the caller; workers use the same rounding and flush modes */
  int num_threads;               /* number of threads; thread i runs tasks i, i + num_threads, ... */
  _Atomic uint32_t barrier_count;
  _Atomic uint32_t barrier_phase;
  atomic_bool failed;
  atomic_bool error_taken;
  ErrorRecord error;             /* error of the first task that failed; read after all shares have finished */
} Region;

/* state: 2 * k = share k is offered, 2 * k + 1 = share k is claimed. Only the thread that changes the state from even
 * to odd may access `region`, which the caller keeps alive until every share has finished. */
typedef struct {
  _Alignas(CACHE_LINE) _Atomic uint32_t state;
  _Atomic uint32_t asleep;
  Region *region;
} Slot;

typedef struct {
  int num_threads;
  int started;
  atomic_bool stopping;
  /* Counter of the current region. It is stored outside the region, whose memory is freed when the caller reads 0 here. */
  _Alignas(CACHE_LINE) _Atomic uint32_t running; /* number of unfinished shares, without the caller's */
  _Atomic uint32_t caller_asleep;
  pthread_t threads[MAX_THREADS];
  Slot slots[MAX_THREADS];
} Pool;

typedef struct { Pool *pool; int index; } WorkerArgument;

static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t config_lock = PTHREAD_MUTEX_INITIALIZER;
static Pool *pool;                 /* protected by launch_lock */
static atomic_int configured_size; /* 0: not determined yet */
static _Thread_local int region_depth;

/* ---- pool size ---- */

int TVMThreadPoolSize(void) {
  int size = atomic_load(&configured_size);
  if (size) return size;
  pthread_mutex_lock(&config_lock);
  size = atomic_load(&configured_size);
  if (!size) {
    size = default_thread_count();
    if (size > MAX_THREADS) size = MAX_THREADS;
    atomic_store(&configured_size, size);
  }
  pthread_mutex_unlock(&config_lock);
  return size;
}

int TVMThreadPoolConfigure(int num_threads) {
  if (num_threads < 0 || num_threads > MAX_THREADS)
    return tvm_error("thread pool: the number of threads must be between 0 and %d, got %d", MAX_THREADS, num_threads);
  if (num_threads == 0) num_threads = default_thread_count();
  if (num_threads > MAX_THREADS) num_threads = MAX_THREADS;
  atomic_store(&configured_size, num_threads);
  return 0;
}

/* ---- executing one share of a region ---- */

static void record_failure(Region *region, int status) {
  if (!atomic_exchange(&region->error_taken, true)) {
    tvm_error_save(&region->error);
    if (!region->error.text[0]) {
      tvm_set_error("a task of a parallel region failed with status %d and no message", status);
      tvm_error_save(&region->error);
    }
  }
  atomic_store(&region->failed, true);
}

static void run_share(Region *region, int thread) {
  ++region_depth;
  for (int task = thread; task < region->env.num_task && !atomic_load(&region->failed); task += region->num_threads) {
    TVMAPISetLastError("");
    int status = region->body(task, &region->env, region->cdata);
    if (status) record_failure(region, status);
  }
  --region_depth;
}

static void finish_share(Pool *own) {
  if (atomic_fetch_sub(&own->running, 1) == 1 && atomic_load(&own->caller_asleep)) system_word_wake(&own->running);
}

static bool take_share(Slot *slot, uint32_t offered) {
  return atomic_compare_exchange_strong(&slot->state, &offered, offered + 1);
}

static bool is_offer(uint32_t state) { return (state & 1) == 0; }

/* Waits until a share is offered: spins briefly, then sleeps. */
static uint32_t next_offer(Pool *own, Slot *slot) {
  for (;;) {
    double until = tvm_now() + SPIN_SECONDS;
    do {
      for (int i = 0; i < 64; ++i) {
        uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (is_offer(state)) return state;
        cpu_relax();
      }
      if (atomic_load(&own->stopping)) return 1;
    } while (tvm_now() < until);
    atomic_store(&slot->asleep, 1);
    uint32_t state = atomic_load(&slot->state);
    if (!is_offer(state) && !atomic_load(&own->stopping)) system_word_wait(&slot->state, state, -1);
    atomic_store(&slot->asleep, 0);
  }
}

static void *worker_main(void *opaque) {
  WorkerArgument argument = *(WorkerArgument *)opaque;
  free(opaque);
  Slot *slot = &argument.pool->slots[argument.index];
  for (;;) {
    uint32_t offer = next_offer(argument.pool, slot);
    if (!is_offer(offer)) return NULL;
    if (!take_share(slot, offer)) continue;
    Region *region = slot->region;
    float_state_follow(region->float_state);
    run_share(region, argument.index);
    finish_share(argument.pool);
  }
}

/* ---- the pool ---- */

static int start_worker(Pool *own, int index) {
  WorkerArgument *argument = malloc(sizeof *argument);
  if (!argument) return tvm_error("out of memory");
  *argument = (WorkerArgument){own, index};
  int status = system_thread_start(&own->threads[index], worker_main, argument);
  if (status) {
    free(argument);
    return tvm_error("cannot start a worker thread: %s", strerror(status));
  }
  return 0;
}

static void stop_pool(Pool *own) {
  atomic_store(&own->stopping, true);
  for (int i = 1; i < own->started; ++i) {
    /* All claimed shares have finished (the launch lock is held), so every state is odd; +2 keeps it odd and wakes
     * sleepers. */
    atomic_fetch_add(&own->slots[i].state, 2);
    system_word_wake(&own->slots[i].state);
    pthread_join(own->threads[i], NULL);
  }
  system_free(own);
}

/* Requires launch_lock. If fewer threads than requested can be started, the region still runs with those. */
static Pool *current_pool(void) {
  int wanted = TVMThreadPoolSize();
  if (pool && pool->num_threads == wanted) return pool;
  if (pool) stop_pool(pool);
  pool = NULL;
  void *memory = system_alloc(CACHE_LINE, sizeof(Pool));
  if (!memory) return NULL;
  memset(memory, 0, sizeof(Pool));
  Pool *fresh = memory;
  for (int i = 0; i < wanted; ++i) atomic_init(&fresh->slots[i].state, 1);
  fresh->num_threads = wanted;
  for (fresh->started = 1; fresh->started < wanted; ++fresh->started)
    if (start_worker(fresh, fresh->started)) break;
  return pool = fresh;
}

void tvm_pool_fork_child(void) {
  /* Threads do not survive fork: the child discards the parent's pool and starts its own when it needs one. */
  pool = NULL;
  pthread_mutex_init(&launch_lock, NULL);
  pthread_mutex_init(&config_lock, NULL);
}

__attribute__((destructor)) static void stop_at_unload(void) {
  if (!SYSTEM_JOINS_AT_UNLOAD || pthread_mutex_trylock(&launch_lock)) return;
  if (pool) stop_pool(pool);
  pool = NULL;
  pthread_mutex_unlock(&launch_lock);
}

/* ---- launching ---- */

static int run_serial(FTVMParallelLambda body, void *cdata, int num_task) {
  /* No sync_handle: a barrier between tasks that run serially would deadlock, so TVMBackendParallelBarrier fails
   * instead. */
  TVMParallelGroupEnv env = {num_task, NULL};
  int status = 0;
  for (int task = 0; task < num_task && !status; ++task) status = body(task, &env, cdata);
  return status;
}

static void offer_shares(Pool *own, Region *region, int shares) {
  for (int i = 1; i < shares; ++i) {
    Slot *slot = &own->slots[i];
    slot->region = region;
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    atomic_store(&slot->state, state + 1);
    if (atomic_load(&slot->asleep)) system_word_wake(&slot->state);
  }
}

/* A worker that has not started its share may be waiting for a core: after STEAL_SECONDS the caller executes that
 * share. */
static void steal_shares(Pool *own, Region *region, int shares) {
  double until = 0;
  for (int i = 1; i < shares; ++i) {
    Slot *slot = &own->slots[i];
    uint32_t state;
    while (is_offer(state = atomic_load_explicit(&slot->state, memory_order_acquire))) {
      if (until == 0) until = tvm_now() + STEAL_SECONDS;
      if (tvm_now() >= until && take_share(slot, state)) {
        run_share(region, i);
        finish_share(own);
        break;
      }
      cpu_relax();
    }
  }
}

static void wait_for_shares(Pool *own) {
  double until = tvm_now() + SPIN_SECONDS;
  uint32_t left;
  while (atomic_load_explicit(&own->running, memory_order_acquire) != 0) {
    if (tvm_now() < until) {
      cpu_relax();
      continue;
    }
    atomic_store(&own->caller_asleep, 1);
    if ((left = atomic_load(&own->running)) != 0) system_word_wait(&own->running, left, -1);
    atomic_store(&own->caller_asleep, 0);
  }
}

static int run_region(Pool *own, FTVMParallelLambda body, void *cdata, int num_task, int threads) {
  Region region;
  region.body = body;
  region.cdata = cdata;
  region.env = (TVMParallelGroupEnv){num_task, num_task <= threads ? &region : NULL};
  region.float_state = float_state();
  region.num_threads = threads;
  atomic_init(&region.barrier_count, 0);
  atomic_init(&region.barrier_phase, 0);
  atomic_init(&region.failed, false);
  atomic_init(&region.error_taken, false);
  atomic_store(&own->running, (uint32_t)threads - 1);
  offer_shares(own, &region, threads);
  run_share(&region, 0);
  steal_shares(own, &region, threads);
  wait_for_shares(own);
  if (!atomic_load(&region.failed)) return 0;
  tvm_error_restore(&region.error);
  return -1;
}

int TVMBackendParallelLaunch(FTVMParallelLambda body, void *cdata, int num_task) {
  if (num_task < 0) return tvm_error("parallel region: the number of tasks is negative (%d)", num_task);
  /* A nested region runs serially as one task, because the outer region already uses all cores. */
  if (region_depth) return run_serial(body, cdata, num_task ? num_task : 1);
  if (tvm_interrupt_check()) return -1;
  if (num_task == 1 || TVMThreadPoolSize() == 1) return run_serial(body, cdata, num_task ? num_task : 1);
  if (num_task == 0) {
    /* Another thread's region uses the workers: run serially instead of waiting for them. */
    if (pthread_mutex_trylock(&launch_lock)) return run_serial(body, cdata, 1);
  } else {
    /* A region with an explicit number of tasks may use barriers, which need the workers. */
    pthread_mutex_lock(&launch_lock);
  }
  Pool *own = current_pool();
  int status, threads = own ? own->started : 1;
  if (num_task == 0) num_task = threads;
  if (num_task < threads) threads = num_task;
  status = threads > 1 ? run_region(own, body, cdata, num_task, threads) : run_serial(body, cdata, num_task);
  pthread_mutex_unlock(&launch_lock);
  return status;
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
  (void)task_id;
  if (penv->num_task <= 1) return 0;
  Region *region = penv->sync_handle;
  if (!region)
    return tvm_error("barrier: the %d tasks of this parallel region run one after the other (nested region or fewer "
                     "threads than tasks), so they cannot wait for each other", (int)penv->num_task);
  uint32_t phase = atomic_load(&region->barrier_phase);
  if (atomic_fetch_add(&region->barrier_count, 1) + 1 == (uint32_t)penv->num_task) {
    atomic_store(&region->barrier_count, 0);
    atomic_store(&region->barrier_phase, phase + 1);
    system_word_wake(&region->barrier_phase);
    return 0;
  }
  double until = tvm_now() + SPIN_SECONDS;
  while (atomic_load_explicit(&region->barrier_phase, memory_order_acquire) == phase) {
    if (atomic_load(&region->failed)) return tvm_error("barrier: another task of the parallel region failed");
    if (tvm_now() < until) cpu_relax();
    else system_word_wait(&region->barrier_phase, phase, 1);
  }
  return 0;
}

/* ---- parallel loops over many small iterations ---- */

typedef struct { _Alignas(CACHE_LINE) _Atomic int64_t next; int64_t end; } Range;

typedef struct {
  FTVMParallelLambda body;
  void *cdata;
  int64_t extent;
  int count;
  Range ranges[];
} Loop;

static int run_range(Loop *loop, Range *range, TVMParallelGroupEnv *env) {
  int64_t at;
  while ((at = atomic_fetch_add_explicit(&range->next, 1, memory_order_relaxed)) < range->end) {
    int status = loop->body((int)at, env, loop->cdata);
    if (status) return status;
  }
  return 0;
}

/* Each thread first executes its own contiguous range, then takes iterations from the remaining ranges of other
 * threads. */
static int run_loop(int task_id, TVMParallelGroupEnv *penv, void *opaque) {
  (void)penv;
  Loop *loop = opaque;
  TVMParallelGroupEnv env = {(int32_t)loop->extent, NULL};
  for (int i = 0; i < loop->count; ++i) {
    int status = run_range(loop, &loop->ranges[(task_id + i) % loop->count], &env);
    if (status) return status;
  }
  return 0;
}

int TVMBackendParallelFor(FTVMParallelLambda body, void *cdata, int64_t extent) {
  if (extent <= 0) return 0;
  if (extent > INT32_MAX) return tvm_error("parallel loop: %lld iterations exceed the maximum of 2^31 - 1", (long long)extent);
  if (extent == 1 || region_depth || TVMThreadPoolSize() == 1) return run_serial(body, cdata, (int)extent);
  int count = TVMThreadPoolSize();
  if (count > extent) count = (int)extent;
  void *memory = system_alloc(CACHE_LINE, sizeof(Loop) + (size_t)count * sizeof(Range));
  if (!memory) return tvm_error("out of memory");
  Loop *loop = memory;
  loop->body = body;
  loop->cdata = cdata;
  loop->extent = extent;
  loop->count = count;
  for (int i = 0; i < count; ++i) {
    atomic_init(&loop->ranges[i].next, extent * i / count);
    loop->ranges[i].end = extent * (i + 1) / count;
  }
  int status = TVMBackendParallelLaunch(run_loop, loop, 0);
  system_free(memory);
  return status;
}
