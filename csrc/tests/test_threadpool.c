#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"
#include "portable.h"

typedef struct { atomic_int count; _Atomic(pthread_t) thread[64]; } Seen;

static int note_task(int task, TVMParallelGroupEnv *env, void *opaque) {
  Seen *seen = opaque;
  atomic_fetch_add(&seen->count, 1);
  atomic_store(&seen->thread[task], pthread_self());
  return 0;
}

static int note_and_meet(int task, TVMParallelGroupEnv *env, void *opaque) {
  note_task(task, env, opaque);
  return TVMBackendParallelBarrier(task, env);
}

static void test_every_task_runs_once(void) {
  for (int tasks = 1; tasks <= 40; ++tasks) {
    Seen seen = {0};
    OK(TVMBackendParallelLaunch(note_task, &seen, tasks));
    CHECK(atomic_load(&seen.count) == tasks);
  }
}

static void test_barrier_needs_and_gets_all_threads(void) {
  for (int i = 0; i < 300; ++i) {
    Seen seen = {0};
    OK(TVMBackendParallelLaunch(note_and_meet, &seen, 2));
    CHECK(!pthread_equal(atomic_load(&seen.thread[0]), atomic_load(&seen.thread[1])));
  }
}

static int double_a_denormal(int task, TVMParallelGroupEnv *env, void *out) {
  volatile float tiny = 1e-40f, sum = tiny + tiny;
  float value = sum;
  memcpy((uint32_t *)out + task, &value, 4);
  return TVMBackendParallelBarrier(task, env);
}

static void test_workers_flush_as_their_caller_does(void) {
#if defined(__x86_64__) || defined(__aarch64__)
  for (int i = 0; i < 100; ++i) {
    uint32_t bits[2];
    CHECK(TVMFlushDenormals(i % 2) == (i > 0 && i % 2 == 0));
    OK(TVMBackendParallelLaunch(double_a_denormal, bits, 2));
    CHECK((bits[0] == 0) == (i % 2) && (bits[1] == 0) == (i % 2));
  }
  CHECK(TVMFlushDenormals(0) == 1);
#endif
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Prints the cost without checking it: other load on the machine would make a check fail. */
static void test_cost_of_an_empty_region(void) {
  enum { ROUNDS = 2000 };
  double best = 1;
  for (int batch = 0; batch < 10; ++batch) {
    double start = seconds();
    for (int i = 0; i < ROUNDS; ++i) {
      Seen seen = {0};
      OK(TVMBackendParallelLaunch(note_and_meet, &seen, 2));
      CHECK(!pthread_equal(atomic_load(&seen.thread[0]), atomic_load(&seen.thread[1])));
    }
    double cost = (seconds() - start) / ROUNDS;
    if (cost < best) best = cost;
  }
  printf("   empty region on two threads, with a barrier: %.2f us\n", best * 1e6);
}

static int sum_task(int task, TVMParallelGroupEnv *env, void *opaque) {
  atomic_fetch_add((atomic_llong *)opaque, task);
  return 0;
}

static void test_parallel_for_covers_the_range(void) {
  static const int64_t extents[] = {0, 1, 2, 3, 17, 1000, 50000};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; ++i) {
    atomic_llong sum = 0;
    OK(TVMBackendParallelFor(sum_task, &sum, extents[i]));
    CHECK(atomic_load(&sum) == extents[i] * (extents[i] - 1) / 2);
  }
  REFUSES(TVMBackendParallelFor(sum_task, NULL, INT64_C(1) << 40), "exceed the maximum");
}

static int nested_task(int task, TVMParallelGroupEnv *env, void *opaque) {
  atomic_llong sum = 0;
  if (TVMBackendParallelFor(sum_task, &sum, 100) || atomic_load(&sum) != 4950) return -1;
  return TVMBackendParallelLaunch(note_task, opaque, 0);
}

static void test_nested_regions_run_in_place(void) {
  Seen seen = {0};
  OK(TVMBackendParallelLaunch(nested_task, &seen, 2));
  CHECK(atomic_load(&seen.count) == 2);
}

static int nested_barrier(int task, TVMParallelGroupEnv *env, void *opaque) {
  Seen seen = {0};
  return TVMBackendParallelLaunch(note_and_meet, &seen, 2);
}

static int failing_task(int task, TVMParallelGroupEnv *env, void *opaque) {
  if (task != *(int *)opaque) return TVMBackendParallelBarrier(task, env);
  TVMSetForeignError("failed on purpose", 4711);
  return -1;
}

static void test_errors_come_back_from_any_thread(void) {
  for (int which = 0; which < 2; ++which) {
    REFUSES(TVMBackendParallelLaunch(failing_task, &which, 2), "failed on purpose");
    CHECK(TVMTakeForeignError() == 4711);
  }
  REFUSES(TVMBackendParallelLaunch(nested_barrier, NULL, 2), "cannot wait for each other");
  REFUSES(TVMBackendParallelLaunch(note_task, NULL, -1), "negative");
}

/* Shares a loop like generated code: the closure on the caller's stack counts the chunks that have been taken, and
 * outputs are plain memory. */
typedef struct { int taken; int *out; } Pieces;

static int take_pieces(int task, TVMParallelGroupEnv *env, void *opaque) {
  Pieces *pieces = opaque;
  for (int at = task; at < 64; at = env->num_task + __atomic_fetch_add(&pieces->taken, 1, __ATOMIC_RELAXED))
    pieces->out[at] += at;
  return 0;
}

static void run_pieces(void) {
  int out[64] = {0};
  for (int round = 1; round <= 3; ++round) {
    Pieces pieces = {0, out};
    OK(TVMBackendParallelLaunch(take_pieces, &pieces, 0));
    for (int i = 0; i < 64; ++i) CHECK(out[i] == round * i);
  }
}

static void *launch_many(void *opaque) {
  for (int i = 0; i < 500; ++i) {
    atomic_llong sum = 0;
    Seen seen = {0};
    OK(TVMBackendParallelFor(sum_task, &sum, 64));
    CHECK(atomic_load(&sum) == 64 * 63 / 2);
    OK(TVMBackendParallelLaunch(note_and_meet, &seen, 2));
    CHECK(atomic_load(&seen.count) == 2);
    run_pieces();
  }
  return NULL;
}

static void test_regions_of_several_threads_at_once(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, launch_many, NULL) == 0);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

static void test_pool_changes_size(void) {
  int before = TVMThreadPoolSize();
  for (int size = 1; size <= 5; ++size) {
    Seen seen = {0};
    OK(TVMThreadPoolConfigure(size));
    CHECK(TVMThreadPoolSize() == size);
    OK(TVMBackendParallelLaunch(note_task, &seen, 0));
    CHECK(atomic_load(&seen.count) == size);
  }
  REFUSES(TVMThreadPoolConfigure(100000), "between 0 and");
  OK(TVMThreadPoolConfigure(before));
}

static void test_workers_sleep_and_wake(void) {
  for (int i = 0; i < 5; ++i) {
    Seen seen = {0};
    struct timespec nap = {0, 3000000};
    nanosleep(&nap, NULL);
    OK(TVMBackendParallelLaunch(note_and_meet, &seen, 2));
  }
}

#if SYSTEM_HAS_FORK
static void test_child_of_fork_has_a_pool_of_its_own(void) {
  Seen seen = {0};
  OK(TVMBackendParallelLaunch(note_and_meet, &seen, 2));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    Seen inside = {0};
    int bad = TVMBackendParallelLaunch(note_and_meet, &inside, 2) || atomic_load(&inside.count) != 2;
    TVMFunctionHandle func = NULL;
    bad = bad || TVMFuncGetGlobal("runtime.NumThreads", &func) || !func;
    _exit(bad);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(TVMBackendParallelLaunch(note_and_meet, &seen, 2));
}
#endif

int main(void) {
  setenv("TVM_NUM_THREADS", "2", 1);
  CHECK(TVMThreadPoolSize() == 2);
  RUN(test_every_task_runs_once);
  RUN(test_barrier_needs_and_gets_all_threads);
  RUN(test_workers_flush_as_their_caller_does);
  RUN(test_cost_of_an_empty_region);
  RUN(test_parallel_for_covers_the_range);
  RUN(test_nested_regions_run_in_place);
  RUN(test_errors_come_back_from_any_thread);
  RUN(test_regions_of_several_threads_at_once);
  RUN(test_pool_changes_size);
  RUN(test_workers_sleep_and_wake);
  RUN_WITH_FORK(test_child_of_fork_has_a_pool_of_its_own);
  return 0;
}
