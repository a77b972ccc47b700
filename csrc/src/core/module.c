/* Modules: symbols of JIT-compiled code or of a loaded library, imports, and the function lookup of generated code. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

struct TVMModule {
  atomic_int refs;
  char *type_key;
  char *entry_name;
  StringMap symbols;   /* name -> address */
  StringMap functions; /* name -> TVMFunction, owned */
  Library *library;    /* NULL if the module was not loaded from a library */
  struct TVMModule **imports;
  int import_count;
  TVMFinalizer finalize;
  void *resource;
  ModuleLookup lookup; /* NULL for most modules */
  /* Functions that generated code has looked up, kept alive so that the code may cache them for the module's lifetime. */
  pthread_mutex_t lock;
  StringMap environment;
};

int TVMModCreate(const char *type_key, TVMFinalizer fin, void *resource, TVMModuleHandle *out) {
  struct TVMModule *mod = calloc(1, sizeof *mod);
  if (!mod || !(mod->type_key = strdup(type_key))) {
    free(mod);
    return tvm_error("out of memory");
  }
  atomic_init(&mod->refs, 1);
  pthread_mutex_init(&mod->lock, NULL);
  mod->finalize = fin;
  mod->resource = resource;
  *out = mod;
  return 0;
}

int TVMModRetain(TVMModuleHandle mod) {
  atomic_fetch_add_explicit(&mod->refs, 1, memory_order_relaxed);
  return 0;
}

static void free_functions(StringMap *map) {
  for (size_t i = 0; i < map->capacity; ++i)
    if (map->entries[i].key) TVMFuncFree(map->entries[i].value);
  map_clear(map);
}

int TVMModFree(TVMModuleHandle mod) {
  if (!mod || atomic_fetch_sub_explicit(&mod->refs, 1, memory_order_acq_rel) != 1) return 0;
  free_functions(&mod->environment);
  free_functions(&mod->functions);
  TVMModClearImports(mod);
  free(mod->imports);
  map_clear(&mod->symbols);
  /* Close the library last: it may contain finalizers of the functions. */
  if (mod->library) library_close(mod->library);
  if (mod->finalize) mod->finalize(mod->resource);
  pthread_mutex_destroy(&mod->lock);
  free(mod->entry_name);
  free(mod->type_key);
  free(mod);
  return 0;
}

void tvm_module_set_lookup(TVMModuleHandle mod, ModuleLookup lookup) { mod->lookup = lookup; }

void *tvm_module_resource(TVMModuleHandle mod, TVMFinalizer kind) { return mod->finalize == kind ? mod->resource : NULL; }

const char *TVMModTypeKey(TVMModuleHandle mod) { return mod->type_key; }

const char *TVMModEntryName(TVMModuleHandle mod) { return mod->entry_name ? mod->entry_name : ""; }

int TVMModSetEntryName(TVMModuleHandle mod, const char *name) {
  char *copy = strdup(name);
  if (!copy) return tvm_error("out of memory");
  free(mod->entry_name);
  mod->entry_name = copy;
  return 0;
}

int TVMModAddSymbol(TVMModuleHandle mod, const char *name, void *address) {
  return map_put(&mod->symbols, name, address, NULL);
}

int TVMModAddFunction(TVMModuleHandle mod, const char *name, TVMFunctionHandle func) {
  void *old;
  if (map_put(&mod->functions, name, func, &old)) return -1;
  TVMFuncRetain(func);
  TVMFuncFree(old);
  return 0;
}

int tvm_module_builtin(TVMModuleHandle mod, const char *name, TVMBackendPackedCFunc code, void *self) {
  TVMFunctionHandle function;
  if (TVMFuncCreateFromCFunc(code, self, NULL, &function)) return -1;
  function->of_module = true;
  int status = TVMModAddFunction(mod, name, function);
  TVMFuncFree(function);
  return status;
}

int TVMModBind(TVMModuleHandle mod, void *runtime_table_variable, void *module_ctx_variable) {
  if (runtime_table_variable) *(const TVMRuntimeTable **)runtime_table_variable = TVMGetRuntimeTable();
  if (module_ctx_variable) *(void **)module_ctx_variable = mod;
  return 0;
}

/* ---- imports ---- */

/* A set of modules in insertion order: the list `items` and a hash table `slots` (open addressing, at most half full). */
typedef struct { struct TVMModule **items, **slots; size_t count, room; } ModuleSet;

static struct TVMModule **slot_of(const ModuleSet *set, const struct TVMModule *mod) {
  size_t at = ((uintptr_t)mod >> 4) * 0x9e3779b97f4a7c15u & (set->room - 1);
  while (set->slots[at] && set->slots[at] != mod) at = (at + 1) & (set->room - 1);
  return &set->slots[at];
}

/* Returns 1 if the module was added, 0 if it was already in the set, -1 on error. */
static int set_add(ModuleSet *set, struct TVMModule *mod) {
  if (2 * (set->count + 1) > set->room) {
    size_t room = set->room ? 2 * set->room : 16;
    struct TVMModule **items = realloc(set->items, room * sizeof *items);
    if (items) set->items = items;
    struct TVMModule **slots = calloc(room, sizeof *slots);
    if (!items || !slots) {
      free(slots);
      return tvm_error("out of memory");
    }
    free(set->slots);
    set->slots = slots;
    set->room = room;
    for (size_t i = 0; i < set->count; ++i) *slot_of(set, set->items[i]) = set->items[i];
  }
  struct TVMModule **slot = slot_of(set, mod);
  if (*slot) return 0;
  *slot = set->items[set->count++] = mod;
  return 1;
}

static int push_imports(const struct TVMModule *mod, struct TVMModule ***stack, size_t *depth, size_t *room) {
  size_t wanted = *depth + (size_t)mod->import_count;
  if (wanted > *room) {
    struct TVMModule **grown = realloc(*stack, 2 * wanted * sizeof *grown);
    if (!grown) return tvm_error("out of memory");
    *stack = grown;
    *room = 2 * wanted;
  }
  for (int i = mod->import_count; i > 0; --i) (*stack)[(*depth)++] = mod->imports[i - 1];
  return 0;
}

int tvm_module_walk(TVMModuleHandle mod, ModuleVisit visit, void *data) {
  int status = visit(mod, data);
  if (status || !mod->import_count) return status;
  ModuleSet seen = {NULL, NULL, 0, 0};
  struct TVMModule **stack = NULL;
  size_t depth = 0, room = 0;
  status = set_add(&seen, mod) < 0 ? -1 : push_imports(mod, &stack, &depth, &room);
  while (!status && depth) {
    struct TVMModule *at = stack[--depth];
    int fresh = set_add(&seen, at);
    if (fresh < 0) status = -1;
    else if (fresh && !(status = visit(at, data))) status = push_imports(at, &stack, &depth, &room);
  }
  free(seen.items);
  free(seen.slots);
  free(stack);
  return status;
}

static int is_module(struct TVMModule *mod, void *other) { return mod == other; }

int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep) {
  int imported = tvm_remote() ? tvm_remote()->import(mod, dep) : 1;
  if (imported <= 0) return imported;
  int found = tvm_module_walk(dep, is_module, mod);
  if (found) return found > 0 ? tvm_error("import_module: the module would import itself") : -1;
  struct TVMModule **imports = realloc(mod->imports, (size_t)(mod->import_count + 1) * sizeof *imports);
  if (!imports) return tvm_error("out of memory");
  mod->imports = imports;
  mod->imports[mod->import_count++] = dep;
  return TVMModRetain(dep);
}

int TVMModClearImports(TVMModuleHandle mod) {
  while (mod->import_count) TVMModFree(mod->imports[--mod->import_count]);
  return 0;
}

int TVMModImportCount(TVMModuleHandle mod) { return mod->import_count; }

int TVMModGetImport(TVMModuleHandle mod, int index, TVMModuleHandle *out) {
  if (index < 0 || index >= mod->import_count) return tvm_error("the module has no import with index %d", index);
  *out = mod->imports[index];
  return TVMModRetain(*out);
}

/* ---- lookup ---- */

/* A function whose name collides with a C library or compiler function (exp, memcpy) is exported with this prefix:
 * under the bare name, code of the library itself would call it instead of the libm function. The prefixed name is
 * looked up first, because the loaders of some platforms resolve a bare name to libm if the library does not define it. */
static void *prefixed_symbol(Library *library, const char *name) {
  static const char prefix[] = "__tvm_function_";
  size_t size = sizeof prefix + strlen(name);
  char *symbol = malloc(size);
  if (!symbol) return NULL;
  snprintf(symbol, size, "%s%s", prefix, name);
  void *address = library_symbol(library, symbol);
  free(symbol);
  return address;
}

void *TVMModGetSymbol(TVMModuleHandle mod, const char *name) {
  void *address = map_get(&mod->symbols, name);
  if (!address && mod->library) address = prefixed_symbol(mod->library, name);
  if (!address && mod->library) address = library_symbol(mod->library, name);
  return address;
}

/* Returns whether a function has a raw C signature; calling it as a packed function would crash. Raw functions have the
 * suffix "_compute_". A packed function whose name ends with this suffix is recognized by its own raw function. */
static bool is_raw(struct TVMModule *mod, const char *name) {
  static const char suffix[] = "_compute_";
  size_t length = strlen(name), tail = sizeof suffix - 1;
  char raw[512];
  if (length <= tail || length + tail >= sizeof raw || strcmp(name + length - tail, suffix)) return false;
  snprintf(raw, sizeof raw, "%s%s", name, suffix);
  return TVMModGetSymbol(mod, raw) == NULL;
}

static TVMBackendPackedCFunc packed_symbol(struct TVMModule *mod, const char *name) {
  if (!strncmp(name, "__tvm_", 6) || is_raw(mod, name)) return NULL;
  void *address = TVMModGetSymbol(mod, name);
  TVMBackendPackedCFunc code;
  memcpy(&code, &address, sizeof code); /* ISO C does not allow casts between data and function pointers */
  return code;
}

static const char *resolve_entry(struct TVMModule *mod, const char *name) {
  return strcmp(name, "__tvm_main__") == 0 && mod->entry_name ? mod->entry_name : name;
}

/* `own`: whether the returned function keeps its module alive. */
static int function_of(struct TVMModule *mod, const char *name, bool own, TVMFunctionHandle *out) {
  if (mod->lookup) return mod->lookup(mod->resource, name, out);
  const char *resolved = resolve_entry(mod, name);
  *out = map_get(&mod->functions, resolved);
  /* A C function that uses resources of the module must not outlive the module. */
  if (*out && own && (*out)->of_module)
    return (*out = tvm_func_new((*out)->code, (*out)->resource, NULL, mod)) ? 0 : -1;
  if (*out) return TVMFuncRetain(*out);
  TVMBackendPackedCFunc code = packed_symbol(mod, resolved);
  return code && !(*out = tvm_func_new(code, NULL, NULL, own ? mod : NULL)) ? -1 : 0;
}

typedef struct { const char *name; bool own; TVMFunctionHandle found; } Search;

static int search_module(struct TVMModule *mod, void *data) {
  Search *search = data;
  return function_of(mod, search->name, search->own, &search->found) ? -1 : search->found != NULL;
}

static int find_function(struct TVMModule *mod, const char *name, int query_imports, bool own, TVMFunctionHandle *out) {
  Search search = {name, own, NULL};
  int status = query_imports ? tvm_module_walk(mod, search_module, &search) : search_module(mod, &search);
  *out = search.found;
  return status < 0 ? -1 : 0;
}

int TVMModGetFunction(TVMModuleHandle mod, const char *name, int query_imports, TVMFunctionHandle *out) {
  return find_function(mod, name, query_imports, true, out);
}

static int find_in_environment(struct TVMModule *mod, const char *name, TVMFunctionHandle *out) {
  *out = NULL;
  for (int i = 0; i < mod->import_count && !*out; ++i)
    if (find_function(mod->imports[i], name, 1, false, out)) return -1;
  if (!*out && TVMFuncGetGlobal(name, out)) return -1;
  if (!*out && find_function(mod, name, 0, false, out)) return -1;
  if (!*out)
    return tvm_error("function '%s' is called by generated code, but neither the module's imports nor the global "
                     "registry contains it; register it with tvm.register_func or import the module that defines it", name);
  return 0;
}

static struct TVMModule *rootless_module(void) {
  static struct TVMModule *mod;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (!mod) TVMModCreate("environment", NULL, NULL, &mod);
  pthread_mutex_unlock(&lock);
  return mod;
}

int TVMBackendGetFuncFromEnv(void *module_ctx, const char *name, TVMFunctionHandle *out) {
  struct TVMModule *mod = module_ctx ? module_ctx : rootless_module();
  if (!mod) return -1;
  pthread_mutex_lock(&mod->lock);
  *out = map_get(&mod->environment, name);
  pthread_mutex_unlock(&mod->lock);
  if (*out) return 0;
  if (find_in_environment(mod, name, out)) return -1;
  pthread_mutex_lock(&mod->lock);
  TVMFunctionHandle raced = map_get(&mod->environment, name);
  int status = raced ? 0 : map_put(&mod->environment, name, *out, NULL);
  pthread_mutex_unlock(&mod->lock);
  if (raced || status) TVMFuncFree(*out);
  if (raced) *out = raced;
  return status;
}

/* ---- imported modules packed into a library ---- */

typedef struct { const unsigned char *at, *end; } Reader;

static int read_bytes(Reader *reader, const void **out, size_t size) {
  if ((size_t)(reader->end - reader->at) < size) return tvm_error("the imported modules packed in the library are corrupt");
  *out = reader->at;
  reader->at += size;
  return 0;
}

static int read_u64(Reader *reader, uint64_t *out) {
  const void *bytes;
  if (read_bytes(reader, &bytes, 8)) return -1;
  memcpy(out, bytes, 8);
  return 0;
}

static int read_block(Reader *reader, TVMByteArray *out) {
  uint64_t size;
  const void *data;
  if (read_u64(reader, &size) || size > SIZE_MAX || read_bytes(reader, &data, (size_t)size)) return -1;
  *out = (TVMByteArray){data, (size_t)size};
  return 0;
}

static int load_packed_module(TVMByteArray type_key, TVMByteArray body, TVMModuleHandle *out) {
  char name[128];
  TVMFunctionHandle loader;
  snprintf(name, sizeof name, "runtime.module.loadbinary_%.*s", (int)(type_key.size < 64 ? type_key.size : 64),
           type_key.data);
  if (TVMFuncGetGlobal(name, &loader)) return -1;
  if (!loader) return tvm_error("the library contains a '%.*s' module, but this runtime has no loader for it (%s)",
                                (int)(type_key.size < 64 ? type_key.size : 64), type_key.data, name);
  TVMValue arg, ret;
  int code = kTVMBytes, ret_code;
  arg.v_handle = &body;
  int status = tvm_call(loader, &arg, &code, 1, &ret, &ret_code);
  TVMFuncFree(loader);
  if (status) return status;
  if (ret_code != kTVMModuleHandle) {
    tvm_release_value(ret, ret_code);
    return tvm_error("%s did not return a module", name);
  }
  *out = ret.v_handle;
  return 0;
}

/* Format: a count, then a type key, the bytes and the parent index + 1 of each module; parent 0 is the library itself.
 * A module with the parent ROOT is the factory of a model or an executable: loading returns it, and it imports the
 * library. */
static const uint64_t ROOT = UINT64_MAX;

static struct { const char *type_key; RootLoader load; } root_loaders[8];
static int root_loader_count;

void tvm_root_loader_add(const char *type_key, RootLoader load) {
  assert(root_loader_count < (int)(sizeof root_loaders / sizeof *root_loaders));
  root_loaders[root_loader_count].type_key = type_key;
  root_loaders[root_loader_count++].load = load;
}

static int load_root(TVMByteArray type_key, TVMByteArray body, struct TVMModule *mod, struct TVMModule **root) {
  for (int i = 0; !*root && i < root_loader_count; ++i)
    if (type_key.size == strlen(root_loaders[i].type_key) && !memcmp(type_key.data, root_loaders[i].type_key, type_key.size))
      return root_loaders[i].load(body, mod, root);
  return tvm_error("the imported modules packed in the library are corrupt");
}

static int load_imports(struct TVMModule *mod, const void *data, size_t size, struct TVMModule **root) {
  Reader reader = {data, (const unsigned char *)data + size};
  uint64_t count, parent;
  int status = 0;
  if (read_u64(&reader, &count)) return -1;
  if (count > size) return tvm_error("the imported modules packed in the library are corrupt");
  struct TVMModule **loaded = calloc(count ? (size_t)count : 1, sizeof *loaded);
  if (!loaded) return tvm_error("out of memory");
  uint64_t done = 0;
  for (; done < count && !status; ++done) {
    TVMByteArray type_key, body;
    status = read_block(&reader, &type_key) || read_block(&reader, &body) || read_u64(&reader, &parent) ? -1 : 0;
    if (!status && parent == ROOT) {
      status = load_root(type_key, body, mod, root);
      continue;
    }
    if (!status && parent > done) status = tvm_error("the imported modules packed in the library are corrupt");
    if (!status) status = load_packed_module(type_key, body, &loaded[done]);
    if (!status && parent && !loaded[parent - 1]) status = tvm_error("the imported modules packed in the library are corrupt");
    if (!status) status = TVMModImport(parent ? loaded[parent - 1] : mod, loaded[done]);
  }
  for (uint64_t i = 0; i < done; ++i) TVMModFree(loaded[i]);
  free(loaded);
  return status;
}

int TVMModGetImportBlob(TVMModuleHandle mod, const void **out_data, size_t *out_size) {
  *out_data = NULL;
  *out_size = 0;
  if (!mod->library) return 0;
  size_t room;
  const unsigned char *blob = library_data(mod->library, "__tvm_dev_mblob", &room);
  if (!blob) return 0;
  uint64_t size;
  if (room < 8) return tvm_error("the imported modules packed in the library are corrupt");
  memcpy(&size, blob, 8);
  if (size > room - 8) return tvm_error("the imported modules packed in the library are corrupt");
  *out_data = blob + 8;
  *out_size = (size_t)size;
  return 0;
}

/* ---- loading modules ---- */

static int read_entry_name(struct TVMModule *mod) {
  size_t room;
  const char *name = library_data(mod->library, "__tvm_main__", &room);
  if (!name) return 0;
  if (strnlen(name, room) == room) return tvm_error("the entry name stored in the library is corrupt");
  return TVMModSetEntryName(mod, name);
}

static bool is_library_format(const char *format) {
  static const char *const known[] = {"so", "dylib", "dll", "o"};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (!strcmp(format, known[i])) return true;
  return false;
}

int tvm_module_of_library(Library *library, TVMModuleHandle *out) {
  struct TVMModule *mod;
  if (TVMModCreate("library", NULL, NULL, &mod)) {
    library_close(library);
    return -1;
  }
  mod->library = library;
  struct TVMModule *root = NULL;
  const void *blob;
  size_t size;
  TVMModBind(mod, library_symbol(library, "__tvm_runtime_table"), library_symbol(library, "__tvm_module_ctx"));
  if (read_entry_name(mod) || TVMModGetImportBlob(mod, &blob, &size) || (blob && load_imports(mod, blob, size, &root))) {
    TVMModFree(root);
    TVMModFree(mod);
    return -1;
  }
  if (root) TVMModFree(mod); /* the root keeps a reference */
  *out = root ? root : mod;
  return 0;
}

static struct { const char *format; FileLoader load; } file_loaders[4];
static int file_loader_count;

void tvm_file_loader_add(const char *format, FileLoader load) {
  assert(file_loader_count < (int)(sizeof file_loaders / sizeof *file_loaders));
  file_loaders[file_loader_count].format = format;
  file_loaders[file_loader_count++].load = load;
}

int TVMModLoadFromFile(const char *file_name, const char *format, TVMModuleHandle *out) {
  const char *dot = strrchr(file_name, '.');
  if (!format || !*format) format = dot ? dot + 1 : "";
  for (int i = 0; i < file_loader_count; ++i)
    if (!strcmp(format, file_loaders[i].format)) return file_loaders[i].load(file_name, out);
  if (!is_library_format(format))
    return tvm_error("load_module: '%s' is not a library (expected .so, .dylib, .dll or .o) or a package (.tar)", file_name);
  Library *library = library_open(file_name);
  return library ? tvm_module_of_library(library, out) : -1;
}

/* ---- functions that are linked into the program itself ---- */

static struct TVMModule *system_lib;
static pthread_mutex_t system_lock = PTHREAD_MUTEX_INITIALIZER;

int TVMModGetSystemLib(TVMModuleHandle *out) {
  pthread_mutex_lock(&system_lock);
  int status = system_lib ? 0 : TVMModCreate("library", NULL, NULL, &system_lib);
  pthread_mutex_unlock(&system_lock);
  if (status) return status;
  *out = system_lib;
  return TVMModRetain(system_lib);
}

int TVMBackendRegisterSystemLibSymbol(const char *name, void *address) {
  TVMModuleHandle mod;
  if (TVMModGetSystemLib(&mod)) return -1;
  pthread_mutex_lock(&system_lock);
  int status = TVMModAddSymbol(mod, name, address);
  if (!status && !strcmp(name, "__tvm_runtime_table")) TVMModBind(mod, address, NULL);
  if (!status && !strcmp(name, "__tvm_module_ctx")) TVMModBind(mod, NULL, address);
  pthread_mutex_unlock(&system_lock);
  TVMModFree(mod);
  return status;
}
