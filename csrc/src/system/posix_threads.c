/* Implements threads of system.h for Linux and macOS. */
#include "system.h"

#ifndef _WIN32
#include <limits.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#endif

int system_cpu_count(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

int system_thread_start(pthread_t *out, void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = pthread_create(out, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

#ifdef __linux__
void system_word_wait(_Atomic uint32_t *word, uint32_t seen, int milliseconds) {
  struct timespec limit = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, milliseconds < 0 ? NULL : &limit, NULL, 0);
}

void system_word_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }
#else
/* Without a futex: words share a few condition variables by address, and a wake-up wakes all waiters of one. */
enum { QUEUES = 64 };
typedef struct { pthread_mutex_t lock; pthread_cond_t changed; } Queue;
static Queue queues[QUEUES];
static pthread_once_t queues_once = PTHREAD_ONCE_INIT;

static void make_queues(void) {
  for (int i = 0; i < QUEUES; ++i) {
    pthread_mutex_init(&queues[i].lock, NULL);
    pthread_cond_init(&queues[i].changed, NULL);
  }
}

static Queue *queue_of(const void *word) {
  pthread_once(&queues_once, make_queues);
  return &queues[(uintptr_t)word / 64 % QUEUES];
}

void system_word_wait(_Atomic uint32_t *word, uint32_t seen, int milliseconds) {
  Queue *queue = queue_of(word);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += milliseconds / 1000;
  until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
  if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, ++until.tv_sec;
  pthread_mutex_lock(&queue->lock);
  /* A thread that changes the word wakes the queue afterwards, with its lock held. */
  if (atomic_load(word) == seen) {
    if (milliseconds < 0) pthread_cond_wait(&queue->changed, &queue->lock);
    else pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
  }
  pthread_mutex_unlock(&queue->lock);
}

void system_word_wake(_Atomic uint32_t *word) {
  Queue *queue = queue_of(word);
  pthread_mutex_lock(&queue->lock);
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
}
#endif

void system_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) { pthread_atfork(before, parent, child); }
#endif
