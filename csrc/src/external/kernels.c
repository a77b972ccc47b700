/* The registry of kernels, and the libraries that register them. */
#include <stdlib.h>
#include <string.h>

#include "external.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static StringMap kernels; /* name -> TVMKernelApi, never removed */

int TVMKernelRegister(const char *name, const TVMKernelApi *api) {
  if (!name || !*name) return tvm_error("a kernel needs a name");
  if (!api || api->abi_version != TVM_KERNEL_ABI_VERSION)
    return tvm_error("kernel '%s' has ABI version %u, this runtime has %d", name, api ? api->abi_version : 0, TVM_KERNEL_ABI_VERSION);
  TVMKernelApi *copy = calloc(1, sizeof *copy);
  if (!copy) return tvm_error("out of memory");
  memcpy(copy, api, api->size < sizeof *copy ? api->size : sizeof *copy);
  int status = copy->run ? 0 : tvm_error("kernel '%s' has no function run", name);
  pthread_mutex_lock(&lock);
  if (!status && map_get(&kernels, name)) status = tvm_error("kernel '%s' is already registered", name);
  if (!status) status = map_put(&kernels, name, copy, NULL);
  pthread_mutex_unlock(&lock);
  if (status) free(copy);
  return status;
}

static const Json *values_of(const TVMKernelNode *node, const char *name) {
  const Json *value = node->attrs ? json_member(node->attrs, name) : NULL;
  return value && value->kind == JSON_ARRAY && value->child && value->child->kind == JSON_ARRAY ? value->child : NULL;
}

int tvm_kernel_attr_count(const TVMKernelNode *node, const char *name) {
  const Json *values = values_of(node, name);
  return values ? values->count : 0;
}

const char *tvm_kernel_attr_text(const TVMKernelNode *node, const char *name, int index) {
  const Json *values = values_of(node, name), *at = values ? values->child : NULL;
  while (at && index-- > 0) at = at->next;
  return at && at->kind == JSON_STRING ? at->text : NULL;
}

static const TVMKernelRuntime *kernel_runtime(void) {
  static TVMKernelRuntime runtime = {
      TVM_KERNEL_ABI_VERSION, sizeof runtime, NULL, TVMKernelRegister, tvm_kernel_attr_count, tvm_kernel_attr_text};
  runtime.table = TVMGetRuntimeTable();
  return &runtime;
}

/* Returns 1 if the library was not opened before, and stores it. */
static int is_new_library(void *library) {
  static void **libraries;
  static size_t count;
  pthread_mutex_lock(&lock);
  int status = 1;
  for (size_t i = 0; i < count; ++i)
    if (libraries[i] == library) status = 0;
  void **grown = status ? realloc(libraries, (count + 1) * sizeof *grown) : NULL;
  if (grown) (libraries = grown)[count++] = library;
  else if (status) status = tvm_error("out of memory");
  pthread_mutex_unlock(&lock);
  return status;
}

int TVMKernelLibraryLoad(const char *file_name) {
  void *library = system_library_open(file_name), *address;
  if (!library) return tvm_error("cannot open the kernel library: %s", system_library_error());
  int (*init)(const TVMKernelRuntime *);
  if (!(address = system_library_symbol(library, "TVMKernelLibraryInit"))) {
    system_library_close(library);
    return tvm_error("%s is not a kernel library: it does not export TVMKernelLibraryInit", file_name);
  }
  int fresh = is_new_library(library);
  if (fresh <= 0) return fresh;
  memcpy(&init, &address, sizeof address);
  tvm_set_error("%s failed to register its kernels", file_name);
  /* Do not close the library after a failure: it may have registered some kernels. */
  return init(kernel_runtime()) ? -1 : 0;
}

/* Loads the libraries of TVM_KERNEL_LIBRARIES. A missing library is an error of the first run that needs a kernel. */
static int load_given_libraries(void) {
  const char *given = getenv("TVM_KERNEL_LIBRARIES");
  if (!given || !*given) return 0;
  char *paths = strdup(given);
  if (!paths) return tvm_error("out of memory");
  int status = 0;
  for (char *path = paths, *end; path && !status; path = end) {
    if ((end = strchr(path, SYSTEM_PATH_SEPARATOR))) *end++ = 0;
    if (*path) status = TVMKernelLibraryLoad(path);
  }
  free(paths);
  return status;
}

static bool find(const char *name, TVMKernelApi *out) {
  pthread_mutex_lock(&lock);
  const TVMKernelApi *api = map_get(&kernels, name);
  if (api) *out = *api;
  pthread_mutex_unlock(&lock);
  return api != NULL;
}

int tvm_kernel_find(const char *name, TVMKernelApi *out) {
  static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
  static bool loaded;
  if (find(name, out)) return 0;
  pthread_mutex_lock(&loading);
  int status = loaded ? 0 : load_given_libraries();
  loaded |= !status;
  pthread_mutex_unlock(&loading);
  if (status) return -1;
  if (find(name, out)) return 0;
  return tvm_error("kernel '%s' is not registered; load its library with TVMKernelLibraryLoad or "
                   "tvm.runtime.load_kernel_library, or set TVM_KERNEL_LIBRARIES to its path", name);
}
