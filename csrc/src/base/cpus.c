/* Determines how many CPUs this process may use. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

static int whole_cores(double quota, double period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  double cores = quota / period;
  int whole = cores >= INT_MAX ? INT_MAX : (int)cores;
  return whole < cores ? whole + 1 : whole;
}

static int read_pair(const char *path, double *first, double *second) {
  FILE *file = fopen(path, "r");
  if (!file) return -1;
  int got = fscanf(file, "%lf %lf", first, second);
  fclose(file);
  return got;
}

/* cgroup version 2: reads "quota period" or "max period" from every directory from this process's group up to the root. */
static int unified_quota(const char *group) {
  char folder[512], path[640];
  int least = INT_MAX;
  snprintf(folder, sizeof folder, "%s", group);
  for (;;) {
    double quota, period;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    if (read_pair(path, &quota, &period) == 2) {
      int cores = whole_cores(quota, period);
      if (cores < least) least = cores;
    }
    char *slash = strrchr(folder, '/');
    if (!slash || !folder[0]) return least;
    *slash = '\0';
  }
}

static int legacy_quota(const char *group) {
  static const char *const roots[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
  const char *groups[] = {group, ""};
  char path[640];
  int least = INT_MAX;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      double quota, period, unused;
      snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", roots[i], groups[j]);
      if (read_pair(path, &quota, &unused) < 1) continue;
      snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", roots[i], groups[j]);
      if (read_pair(path, &period, &unused) < 1) continue;
      int cores = whole_cores(quota, period);
      if (cores < least) least = cores;
    }
  return least;
}

static int cgroup_count(void) {
  FILE *file = fopen("/proc/self/cgroup", "r");
  char line[640];
  int least = INT_MAX;
  if (!file) return least;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = '\0';
    ++controllers;
    int cores = INT_MAX;
    if (!*controllers) cores = unified_quota(group);
    else if (strstr(controllers, "cpu") && !strstr(controllers, "cpuset")) cores = legacy_quota(group);
    if (cores < least) least = cores;
  }
  fclose(file);
  return least;
}

static int from_environment(const char *name) {
  const char *text = getenv(name);
  char *end;
  if (!text || !*text) return 0;
  long value = strtol(text, &end, 10);
  return *end == '\0' && value > 0 && value < INT_MAX ? (int)value : 0;
}

int default_thread_count(void) {
  int asked = from_environment("TVM_NUM_THREADS");
  if (!asked) asked = from_environment("OMP_NUM_THREADS");
  if (asked) return asked;
  int count = system_cpu_count(), quota = cgroup_count();
  if (quota < count) count = quota;
  return count > 0 ? count : 1;
}
