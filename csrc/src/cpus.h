#ifndef TVM_SRC_CPUS_H_
#define TVM_SRC_CPUS_H_

/* Threads this process may use: affinity, then cgroup quota, unless TVM_NUM_THREADS (or OMP_NUM_THREADS) says. */
int default_thread_count(void);

#endif /* TVM_SRC_CPUS_H_ */
