/* Opens oneDNN and checks its version. */
#include "api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const TVMKernelRuntime *dnnl_runtime;

int dnnl_fail(const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  dnnl_runtime->table->set_last_error(text);
  return -1;
}

/* Opens TVM_DNNL_LIBRARY; or else the library of a wheel in the same environment as this file
 * (lib/python3.x/site-packages/tvm/lib), or the one of the system. */
static void *open_library(void) {
  const char *given = getenv("TVM_DNNL_LIBRARY");
  if (given && *given) return dlopen(given, RTLD_NOW | RTLD_LOCAL);
  Dl_info here;
  char path[4096];
  void *found = NULL;
  if (dladdr((void *)(size_t)&dnnl_runtime, &here) && here.dli_fname) {
    const char *end = strrchr(here.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s/../../../../libdnnl.so.3", end ? (int)(end - here.dli_fname) : 1, end ? here.dli_fname : ".");
    found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  if (!found) found = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
  return found ? found : dlopen("libdnnl.so", RTLD_NOW | RTLD_LOCAL);
}

static int find(void *library, const char *name, void *out) {
  char full[96];
  snprintf(full, sizeof full, "dnnl_%s", name);
  void *address = dlsym(library, full);
  if (!address) return dnnl_fail("the oneDNN library has no function %s", full);
  memcpy(out, &address, sizeof address);
  return 0;
}

static int load(Dnnl *d) {
  void *library = open_library(), *omp;
  const Version *(*version)(void) = NULL;
  if (!library)
    return dnnl_fail("oneDNN is not installed (%s); install the package onednn-cpu-gomp, or set TVM_DNNL_LIBRARY to the path of libdnnl.so.3", dlerror());
  if (find(library, "version", &version)) return -1;
  if (version()->major != 3)
    return dnnl_fail("oneDNN %d.%d.%d is not supported; version 3 is needed", version()->major, version()->minor, version()->patch);
#define FIND(name, parameters) \
  if (find(library, #name, &d->name)) return -1;
  DNNL_FUNCTIONS(FIND)
#undef FIND
  if (find(library, "primitive_desc_query_md", &d->primitive_desc_query_md) || find(library, "memory_desc_get_size", &d->memory_desc_get_size))
    return -1;
  if ((omp = dlsym(library, "omp_set_num_threads"))) memcpy(&d->omp_set_num_threads, &omp, sizeof omp);
  return d->engine_create(&d->engine, DNNL_CPU, 0) ? dnnl_fail("oneDNN cannot create its CPU engine") : 0;
}

const Dnnl *dnnl_api(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static Dnnl api;
  static bool loaded;
  pthread_mutex_lock(&lock);
  if (!loaded) loaded = !load(&api);
  pthread_mutex_unlock(&lock);
  return loaded ? &api : NULL;
}

static int count_tasks(int task, TVMParallelGroupEnv *env, void *count) {
  if (!task) *(int *)count = env->num_task;
  return 0;
}

void dnnl_match_threads(const Dnnl *d) {
  static __thread int matched;
  int count = 0;
  if (!d->omp_set_num_threads || matched) return;
  if (!dnnl_runtime->table->parallel_launch(count_tasks, &count, 0) && count > 0) d->omp_set_num_threads(matched = count);
}
