/* The registry of kernels, and the libraries that register them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "external.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static StringMap kernels; /* name -> TVMKernelApi, never removed */
static StringMap engines; /* name -> TVMKernelEngine, never removed */

/* Adds a copy of `size` bytes of a table to a map. */
static int store(StringMap *map, const char *kind, const char *name, const void *api, size_t given, size_t size) {
  void *copy = calloc(1, size);
  if (!copy) return tvm_error("out of memory");
  memcpy(copy, api, given < size ? given : size);
  pthread_mutex_lock(&lock);
  int status = map_get(map, name) ? tvm_error("%s '%s' is already registered", kind, name) : map_put(map, name, copy, NULL);
  pthread_mutex_unlock(&lock);
  if (status) free(copy);
  return status;
}

int TVMKernelRegister(const char *name, const TVMKernelApi *api) {
  if (!name || !*name) return tvm_error("a kernel needs a name");
  if (!api || api->abi_version != TVM_KERNEL_ABI_VERSION)
    return tvm_error("kernel '%s' has ABI version %u, this runtime has %d", name, api ? api->abi_version : 0, TVM_KERNEL_ABI_VERSION);
  if (!api->run) return tvm_error("kernel '%s' has no function run", name);
  return store(&kernels, "kernel", name, api, api->size, sizeof *api);
}

int TVMKernelEngineRegister(const char *name, const TVMKernelEngine *engine) {
  if (!name || !*name || strchr(name, '.')) return tvm_error("an engine needs a name without a dot");
  if (!engine || engine->abi_version != TVM_KERNEL_ABI_VERSION)
    return tvm_error("engine '%s' has ABI version %u, this runtime has %d", name, engine ? engine->abi_version : 0, TVM_KERNEL_ABI_VERSION);
  if (!engine->prepare || !engine->run) return tvm_error("engine '%s' needs the functions prepare and run", name);
  return store(&engines, "engine", name, engine, engine->size, sizeof *engine);
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
      TVM_KERNEL_ABI_VERSION, sizeof runtime, NULL, TVMKernelRegister, tvm_kernel_attr_count, tvm_kernel_attr_text,
      TVMKernelEngineRegister};
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

/* Loads libtvm_<prefix>.so from the folder of this runtime, if there is such a file. */
static int load_library_of(const char *prefix) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
  char name[96], path[4096];
  if (strspn(prefix, letters) != strlen(prefix)) return 0;
  snprintf(name, sizeof name, "libtvm_%s.so", prefix);
  return system_file_beside(name, path, sizeof path) ? TVMKernelLibraryLoad(path) : 0;
}

static bool find(StringMap *map, const char *name, void *out, size_t size) {
  pthread_mutex_lock(&lock);
  const void *api = map_get(map, name);
  if (api) memcpy(out, api, size);
  pthread_mutex_unlock(&lock);
  return api != NULL;
}

/* Writes the part of a kernel's name before the first dot. */
static void prefix_of(const char *kernel, char *out, size_t size) {
  snprintf(out, size, "%.*s", (int)strcspn(kernel, "."), kernel);
}

/* Loads the libraries of TVM_KERNEL_LIBRARIES once, and the library in the runtime's folder if none of them provides
 * the kernel. */
static int load_libraries(const char *kernel) {
  static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
  static bool loaded;
  TVMKernelApi api;
  TVMKernelEngine engine;
  char prefix[64];
  prefix_of(kernel, prefix, sizeof prefix);
  pthread_mutex_lock(&loading);
  int status = loaded ? 0 : load_given_libraries();
  loaded |= !status;
  if (!status && !find(&kernels, kernel, &api, sizeof api) && !find(&engines, prefix, &engine, sizeof engine))
    status = load_library_of(prefix);
  pthread_mutex_unlock(&loading);
  return status;
}

int tvm_kernel_find(const char *name, TVMKernelApi *out) {
  if (find(&kernels, name, out, sizeof *out)) return 0;
  if (load_libraries(name)) return -1;
  if (find(&kernels, name, out, sizeof *out)) return 0;
  return tvm_error("kernel '%s' is not registered; load its library with TVMKernelLibraryLoad or "
                   "tvm.runtime.load_kernel_library, or set TVM_KERNEL_LIBRARIES to its path", name);
}

bool tvm_kernel_engine_find(const char *kernel, TVMKernelEngine *out) {
  TVMKernelApi api;
  char prefix[64];
  prefix_of(kernel, prefix, sizeof prefix);
  if (find(&engines, prefix, out, sizeof *out)) return true;
  /* An error of loading is reported by tvm_kernel_find. */
  return !find(&kernels, kernel, &api, sizeof api) && !load_libraries(kernel) && find(&engines, prefix, out, sizeof *out);
}
