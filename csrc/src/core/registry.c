/* Packed functions, opaque objects, and the table of global functions. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

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
  func->of_module = false;
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

static _Atomic(TVMBackendPackedCFunc) foreign_caller;

void TVMSetForeignCaller(TVMBackendPackedCFunc caller) { atomic_store(&foreign_caller, caller); }

static int call_foreign(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *token) {
  TVMBackendPackedCFunc caller = atomic_load(&foreign_caller);
  if (!caller) return tvm_error("cannot call a function of the embedding language after its interpreter has ended");
  /* Check first: a pending signal would raise its exception at the first step of the called function, where it cannot
   * be caught. */
  if (tvm_interrupt_pending()) return -1;
  TVMAPISetLastError("");
  *ret_code = -1;
  uint64_t inside = 0;
  int runs = tvm_foreign_begin(&inside);
  caller(args, codes, n, ret, ret_code, token);
  tvm_foreign_end(runs, inside);
  if (*ret_code >= 0) return 0;
  if (!TVMGetLastError()[0]) TVMSetForeignError("interrupted", TVM_ERROR_INTERRUPTED);
  *ret_code = kTVMNullptr;
  return -1;
}

int TVMFuncCreateForeign(uint64_t token, TVMFinalizer fin, TVMFunctionHandle *out) {
  return TVMFuncCreateFromCFunc(call_foreign, (void *)(uintptr_t)token, fin, out);
}

uint64_t TVMFuncForeignToken(TVMFunctionHandle func) {
  return func->code == call_foreign ? (uint64_t)(uintptr_t)func->resource : 0;
}

/* ---- memory that is returned to a caller and stays valid until the caller's next call on the same thread ---- */
enum { LENT_RESULT, LENT_NAMES, LENT_KINDS };
typedef struct { void *memory[LENT_KINDS]; size_t capacity[LENT_KINDS]; } Lent;
static pthread_key_t lent_key;
static pthread_once_t lent_once = PTHREAD_ONCE_INIT;

static void free_lent(void *opaque) {
  Lent *lent = opaque;
  for (int i = 0; i < LENT_KINDS; ++i) free(lent->memory[i]);
  free(lent);
}

static void make_lent_key(void) { pthread_key_create(&lent_key, free_lent); }

static void *lend(int kind, size_t size) {
  pthread_once(&lent_once, make_lent_key);
  Lent *lent = pthread_getspecific(lent_key);
  if (!lent && (lent = calloc(1, sizeof *lent))) pthread_setspecific(lent_key, lent);
  if (lent && lent->capacity[kind] < size) {
    free(lent->memory[kind]);
    lent->memory[kind] = malloc(size);
    lent->capacity[kind] = lent->memory[kind] ? size : 0;
  }
  if (lent && lent->memory[kind]) return lent->memory[kind];
  tvm_set_error("out of memory for a result of %zu bytes", size);
  return NULL;
}

int TVMReturnBytes(const char *data, size_t size, int code, TVMValue *ret_value, int *ret_code) {
  TVMByteArray *bytes = lend(LENT_RESULT, sizeof *bytes + size + 1);
  if (!bytes) return -1;
  char *text = (char *)(bytes + 1);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  *bytes = (TVMByteArray){text, size};
  if (code == kTVMBytes) ret_value->v_handle = bytes;
  else ret_value->v_str = text;
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
int TVMObjectCreate(uint64_t token, TVMFinalizer fin, TVMObjectHandle *out) {
  struct TVMObject *object = malloc(sizeof *object);
  if (!object) return tvm_error("out of memory");
  atomic_init(&object->refs, 1);
  object->kind = kTVMObjectForeign;
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
  if (object->kind != kTVMObjectForeign) return object->finalize(object), 0;
  if (object->finalize) object->finalize((void *)(uintptr_t)object->token);
  free(object);
  return 0;
}

uint64_t TVMObjectToken(TVMObjectHandle object) { return object->token; }

/* ---- table of global functions ---- */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
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
  if (taken) return tvm_error("global function '%s' is already registered; pass override=True to replace it", name);
  /* Freed outside the lock, because a finalizer may call back into the registry. */
  TVMFuncFree(old);
  return status;
}

int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle func, int override) {
  return register_global(name, func, override);
}

void tvm_builtin(const char *name, TVMBackendPackedCFunc code) {
  TVMFunctionHandle func;
  if (TVMFuncCreateFromCFunc(code, NULL, NULL, &func)) return;
  register_global(name, func, 1);
  TVMFuncFree(func);
}

int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out) {
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
  pthread_mutex_lock(&table_lock);
  size_t total = (table.count + 1) * sizeof(char *), used = 0;
  for (size_t i = 0; i < table.capacity; ++i)
    if (table.entries[i].key) total += strlen(table.entries[i].key) + 1;
  const char **names = lend(LENT_NAMES, total);
  char *text = names ? (char *)(names + table.count + 1) : NULL;
  for (size_t i = 0; names && i < table.capacity; ++i) {
    if (!table.entries[i].key) continue;
    size_t length = strlen(table.entries[i].key) + 1;
    names[used++] = memcpy(text, table.entries[i].key, length);
    text += length;
  }
  pthread_mutex_unlock(&table_lock);
  *out_size = (int)used;
  *out_array = names;
  return names ? 0 : -1;
}
