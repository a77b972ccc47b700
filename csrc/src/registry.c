/* Packed functions, opaque objects, and the global table of named functions. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- string map ---- */
static size_t hash_text(const char *key) {
  uint64_t hash = 1469598103934665603u;
  for (; *key; ++key) hash = (hash ^ (unsigned char)*key) * 1099511628211u;
  return (size_t)(hash ^ (hash >> 29));
}

static MapEntry *find_slot(MapEntry *entries, size_t capacity, const char *key) {
  size_t at = hash_text(key) & (capacity - 1);
  while (entries[at].key && strcmp(entries[at].key, key) != 0) at = (at + 1) & (capacity - 1);
  return &entries[at];
}

void *map_get(const StringMap *map, const char *key) {
  if (!map->count) return NULL;
  MapEntry *slot = find_slot(map->entries, map->capacity, key);
  return slot->key ? slot->value : NULL;
}

static int grow(StringMap *map) {
  size_t capacity = map->capacity ? map->capacity * 2 : 16;
  MapEntry *entries = calloc(capacity, sizeof *entries);
  if (!entries) return tvm_error("out of memory");
  for (size_t i = 0; i < map->capacity; ++i)
    if (map->entries[i].key) *find_slot(entries, capacity, map->entries[i].key) = map->entries[i];
  free(map->entries);
  map->entries = entries;
  map->capacity = capacity;
  return 0;
}

int map_put(StringMap *map, const char *key, void *value, void **out_old) {
  if (out_old) *out_old = NULL;
  if ((map->count + 1) * 4 > map->capacity * 3 && grow(map)) return -1;
  MapEntry *slot = find_slot(map->entries, map->capacity, key);
  if (slot->key) {
    if (out_old) *out_old = slot->value;
    slot->value = value;
    return 0;
  }
  if (!(slot->key = strdup(key))) return tvm_error("out of memory");
  slot->value = value;
  ++map->count;
  return 0;
}

void *map_remove(StringMap *map, const char *key) {
  if (!map->count) return NULL;
  MapEntry *slot = find_slot(map->entries, map->capacity, key);
  if (!slot->key) return NULL;
  void *value = slot->value;
  free(slot->key);
  slot->key = NULL;
  --map->count;
  /* Linear probing: entries after a hole move up so that searches never stop early. */
  size_t at = (size_t)(slot - map->entries);
  for (;;) {
    at = (at + 1) & (map->capacity - 1);
    MapEntry moved = map->entries[at];
    if (!moved.key) return value;
    map->entries[at].key = NULL;
    *find_slot(map->entries, map->capacity, moved.key) = moved;
  }
}

void map_clear(StringMap *map) {
  for (size_t i = 0; i < map->capacity; ++i) free(map->entries[i].key);
  free(map->entries);
  memset(map, 0, sizeof *map);
}

/* ---- functions ---- */
struct TVMFunction *tvm_func_new(TVMBackendPackedCFunc code, void *resource, TVMFinalizer fin,
                                 struct TVMModule *owner) {
  struct TVMFunction *func = malloc(sizeof *func);
  if (!func) {
    tvm_set_error("out of memory");
    return NULL;
  }
  atomic_init(&func->refs, 1);
  func->code = code;
  func->resource = resource;
  func->finalize = fin;
  func->owner = owner;
  if (owner) TVMModRetain(owner);
  return func;
}

int TVMFuncCreateFromCFunc(TVMBackendPackedCFunc code, void *resource, TVMFinalizer fin, TVMFunctionHandle *out) {
  if (!code) return tvm_error("TVMFuncCreateFromCFunc: the function is NULL");
  *out = tvm_func_new(code, resource, fin, NULL);
  return *out ? 0 : -1;
}

int TVMFuncRetain(TVMFunctionHandle func) {
  atomic_fetch_add_explicit(&func->refs, 1, memory_order_relaxed);
  return 0;
}

int TVMFuncFree(TVMFunctionHandle func) {
  if (!func || atomic_fetch_sub_explicit(&func->refs, 1, memory_order_acq_rel) != 1) return 0;
  if (func->finalize) func->finalize(func->resource);
  if (func->owner) TVMModFree(func->owner);
  free(func);
  return 0;
}

int tvm_call(struct TVMFunction *func, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code) {
  ret->v_int64 = 0;
  *ret_code = kTVMNullptr;
  return func->code(args, codes, n, ret, ret_code, func->resource);
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code) {
  if (!func) return tvm_error("call of a NULL function");
  return tvm_call(func, args, codes, n, ret, ret_code);
}

int TVMFuncCallFrame(TVMCallFrame *frame) {
  int ret_code = kTVMNullptr, n = (int)frame->num_args;
  int *codes = (int *)(frame->values + n);
  int status = TVMFuncCall(frame->func, frame->values, codes, n, &frame->ret_value, &ret_code);
  frame->ret_code = ret_code;
  return status;
}

int TVMFuncGetCFunc(TVMFunctionHandle func, TVMBackendPackedCFunc *out_code, void **out_resource) {
  *out_code = func->code;
  *out_resource = func->resource;
  return 0;
}

int TVMReturnBytes(const char *data, size_t size, int code, TVMValue *ret_value, int *ret_code) {
  static _Thread_local struct { char *text; size_t capacity; TVMByteArray bytes; } kept;
  if (size + 1 > kept.capacity) {
    char *text = realloc(kept.text, size + 1);
    if (!text) return tvm_error("out of memory for a result of %zu bytes", size);
    kept.text = text;
    kept.capacity = size + 1;
  }
  if (size) memcpy(kept.text, data, size);
  kept.text[size] = '\0';
  kept.bytes = (TVMByteArray){kept.text, size};
  if (code == kTVMBytes) ret_value->v_handle = &kept.bytes;
  else ret_value->v_str = kept.text;
  *ret_code = code;
  return 0;
}

void tvm_release_value(TVMValue value, int code) {
  switch (code) {
    case kTVMNDArrayHandle: TVMArrayFree(value.v_handle); break;
    case kTVMModuleHandle: TVMModFree(value.v_handle); break;
    case kTVMPackedFuncHandle: TVMFuncFree(value.v_handle); break;
    case kTVMObjectHandle: TVMObjectFree(value.v_handle); break;
    default: break;
  }
}

/* ---- opaque objects ---- */
struct TVMObject { atomic_int refs; uint64_t token; TVMFinalizer finalize; };

int TVMObjectCreate(uint64_t token, TVMFinalizer fin, TVMObjectHandle *out) {
  struct TVMObject *object = malloc(sizeof *object);
  if (!object) return tvm_error("out of memory");
  atomic_init(&object->refs, 1);
  object->token = token;
  object->finalize = fin;
  *out = object;
  return 0;
}

int TVMObjectRetain(TVMObjectHandle object) {
  atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
  return 0;
}

int TVMObjectFree(TVMObjectHandle object) {
  if (!object || atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1) return 0;
  if (object->finalize) object->finalize((void *)(uintptr_t)object->token);
  free(object);
  return 0;
}

uint64_t TVMObjectToken(TVMObjectHandle object) { return object->token; }

/* ---- global table ---- */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t builtins_once = PTHREAD_ONCE_INIT;
static StringMap table;

void tvm_registry_fork(int stage) {
  if (stage == 0) pthread_mutex_lock(&table_lock);
  else pthread_mutex_unlock(&table_lock);
}

static int register_global(const char *name, TVMFunctionHandle func, int override) {
  void *old = NULL;
  TVMFuncRetain(func);
  pthread_mutex_lock(&table_lock);
  bool taken = !override && map_get(&table, name);
  int status = taken ? -1 : map_put(&table, name, func, &old);
  pthread_mutex_unlock(&table_lock);
  if (status) TVMFuncFree(func);
  if (taken) return tvm_error("global function '%s' is registered already; register it with override to replace it", name);
  /* Freed outside the lock: a finalizer may call back into the registry. */
  TVMFuncFree(old);
  return status;
}

int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle func, int override) {
  pthread_once(&builtins_once, tvm_register_builtins);
  return register_global(name, func, override);
}

void tvm_builtin(const char *name, TVMBackendPackedCFunc code) {
  TVMFunctionHandle func;
  if (TVMFuncCreateFromCFunc(code, NULL, NULL, &func)) return;
  register_global(name, func, 1);
  TVMFuncFree(func);
}

int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out) {
  pthread_once(&builtins_once, tvm_register_builtins);
  pthread_mutex_lock(&table_lock);
  *out = map_get(&table, name);
  if (*out) TVMFuncRetain(*out);
  pthread_mutex_unlock(&table_lock);
  return 0;
}

int TVMFuncRemoveGlobal(const char *name) {
  pthread_mutex_lock(&table_lock);
  TVMFunctionHandle func = map_remove(&table, name);
  pthread_mutex_unlock(&table_lock);
  if (!func) return tvm_error("no global function named '%s'", name);
  return TVMFuncFree(func);
}

int TVMFuncListGlobalNames(int *out_size, const char ***out_array) {
  static _Thread_local char **names;
  static _Thread_local size_t used;
  pthread_once(&builtins_once, tvm_register_builtins);
  for (size_t i = 0; i < used; ++i) free(names[i]);
  used = 0;
  pthread_mutex_lock(&table_lock);
  char **grown = realloc(names, (table.count + 1) * sizeof *names);
  if (grown) {
    names = grown;
    for (size_t i = 0; i < table.capacity; ++i)
      if (table.entries[i].key && (names[used] = strdup(table.entries[i].key))) ++used;
  }
  pthread_mutex_unlock(&table_lock);
  if (!grown) return tvm_error("out of memory");
  *out_size = (int)used;
  *out_array = (const char **)names;
  return 0;
}
