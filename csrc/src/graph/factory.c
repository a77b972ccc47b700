/* Factories of graph executors: a module that contains the graph, the parameters and the compiled library.
 *
 * Serialized form: three blocks (a length of eight bytes, then the data): the model's name, the graph as JSON text, and
 * the parameters in the format of TVMParamsLoad (empty if there are none).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* Data that several factories of one model share: the parameters, whose arrays executors on a CPU read in place, and
 * the serialized bytes unless the library contains them. */
typedef struct { atomic_int refs; TVMParamsHandle params; char bytes[]; } Block;
typedef struct {
  char *name;
  TVMByteArray graph, params; /* `params` is empty if the parameters were passed as arrays */
  bool bare;                  /* the factory was created without parameters */
  Block *block;
  TVMModuleHandle library;
} Factory;

static void block_free(Block *block) {
  if (atomic_fetch_sub(&block->refs, 1) != 1) return;
  TVMParamsFree(block->params);
  free(block);
}

static void factory_free(void *self) {
  Factory *f = self;
  block_free(f->block);
  if (f->library) TVMModFree(f->library);
  free(f->name);
  free(f);
}

static int take_block(const char **at, size_t *left, TVMByteArray *out) {
  uint64_t size;
  if (*left < 8) return tvm_error("the executor factory packed in the library is corrupt");
  memcpy(&size, *at, 8);
  if (size > *left - 8) return tvm_error("the executor factory packed in the library is corrupt");
  *out = (TVMByteArray){*at + 8, (size_t)size};
  *at += 8 + size;
  *left -= 8 + (size_t)size;
  return 0;
}

static int factory_module(const Factory *from, TVMModuleHandle *out);

#define PACKED(function)                                                                                             \
  static int function(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)

static int give_module(TVMModuleHandle mod, TVMValue *ret, int *ret_code) {
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

static int create_executor(const Factory *f, const TVMValue *args, const int *codes, int n, TVMValue *ret, int *ret_code) {
  DeviceList devices;
  TVMModuleHandle made;
  if (tvm_device_list(args, codes, n, &devices)) return -1;
  if (tvm_graph_create(f->graph.data, f->graph.size, f->library, &devices, &made)) return -1;
  if (f->bare || !tvm_graph_use_params(made, f->block->params)) return give_module(made, ret, ret_code);
  TVMModFree(made);
  return -1;
}

PACKED(packed_create) { return create_executor(self, args, codes, n, ret, ret_code); }

PACKED(packed_debug_create) {
  const Factory *f = self;
  if (n < 1 || codes[0] != kTVMStr || strcmp(args[0].v_str, f->name))
    return tvm_error("debug_create: the first argument must be the name of the model, '%s'", f->name);
  return create_executor(f, args + 1, codes + 1, n - 1, ret, ret_code);
}

PACKED(packed_name) {
  const Factory *f = self;
  (void)args, (void)codes, (void)n;
  return TVMReturnBytes(f->name, strlen(f->name), kTVMStr, ret, ret_code);
}

PACKED(packed_graph_json) {
  const Factory *f = self;
  (void)args, (void)codes, (void)n;
  return TVMReturnBytes(f->graph.data, f->graph.size, kTVMStr, ret, ret_code);
}

/* Returns the parameters: as a map of arrays if the embedding language provides such a function, otherwise as a blob. */
PACKED(packed_graph_params) {
  const Factory *f = self;
  TVMParamsHandle params = f->block->params;
  int count = f->bare || f->params.size ? 0 : TVMParamsCount(params);
  TVMByteArray blob = f->bare ? (TVMByteArray){NULL, 0} : f->params;
  TVMFunctionHandle reader;
  (void)args, (void)codes, (void)n;
  if (TVMFuncGetGlobal("runtime.LoadParams", &reader)) return -1;
  if (!reader) return TVMReturnBytes(blob.data, blob.size, kTVMBytes, ret, ret_code);
  TVMValue *given = calloc(2 * (size_t)count + 1, sizeof *given);
  int *given_codes = calloc(2 * (size_t)count + 1, sizeof *given_codes);
  int status = given && given_codes ? 0 : tvm_error("out of memory");
  if (!status) {
    given[0].v_handle = &blob;
    given_codes[0] = kTVMBytes;
    for (int i = 0; i < count; ++i) {
      given[2 * i + 1].v_str = TVMParamsName(params, i, NULL);
      given_codes[2 * i + 1] = kTVMStr;
      given[2 * i + 2].v_handle = TVMParamsArray(params, i);
      given_codes[2 * i + 2] = kTVMNDArrayHandle;
    }
    status = tvm_call(reader, given, given_codes, 2 * count + 1, ret, ret_code);
  }
  free(given);
  free(given_codes);
  TVMFuncFree(reader);
  return status;
}

/* has_param(name): whether the factory sets this input of its executors. */
PACKED(packed_has_param) {
  const Factory *f = self;
  if (n != 1 || codes[0] != kTVMStr) return tvm_error("has_param: expected the name of an input");
  int count = f->bare ? 0 : TVMParamsCount(f->block->params), i = 0;
  while (i < count && strcmp(TVMParamsName(f->block->params, i, NULL), args[0].v_str)) ++i;
  ret->v_int64 = i < count;
  *ret_code = kTVMArgBool;
  return 0;
}

PACKED(packed_remove_params) {
  Factory less = *(Factory *)self;
  TVMModuleHandle mod;
  (void)args, (void)codes, (void)n;
  less.bare = true;
  return factory_module(&less, &mod) ? -1 : give_module(mod, ret, ret_code);
}

static int factory_module(const Factory *from, TVMModuleHandle *out) {
  const struct { const char *name; TVMBackendPackedCFunc code; } functions[] = {
      {from->name, packed_create},          {"debug_create", packed_debug_create},
      {"get_name", packed_name},             {"get_graph_json", packed_graph_json},
      {"get_graph_params", packed_graph_params}, {"remove_params", packed_remove_params},
      {"has_param", packed_has_param}};
  Factory *f = malloc(sizeof *f);
  if (!f) return tvm_error("out of memory");
  *f = *from;
  TVMModRetain(f->library);
  atomic_fetch_add(&f->block->refs, 1);
  TVMModuleHandle mod = NULL;
  int status = (f->name = strdup(from->name)) ? TVMModCreate("GraphExecutorFactory", factory_free, f, &mod) : tvm_error("out of memory");
  if (status) {
    factory_free(f);
    return -1;
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions && !status; ++i)
    status = tvm_module_builtin(mod, functions[i].name, functions[i].code, f);
  if (!status) status = TVMModImport(mod, f->library);
  if (status) TVMModFree(mod);
  else *out = mod;
  return status;
}

/* Arrays packed in the library are used in place, because the library outlives every executor. */
static int unpack(TVMByteArray packed, Block *block, TVMModuleHandle library, TVMModuleHandle *out) {
  Factory f = {NULL, {NULL, 0}, {NULL, 0}, false, block, library};
  TVMByteArray name;
  const char *at = packed.data;
  size_t left = packed.size;
  if (take_block(&at, &left, &name) || take_block(&at, &left, &f.graph) || take_block(&at, &left, &f.params)) return -1;
  if (left || memchr(name.data, 0, name.size)) return tvm_error("the executor factory packed in the library is corrupt");
  bool in_library = packed.data != block->bytes;
  if (!block->params) {
    if (!f.params.size) params_new(0, &block->params);
    else if (in_library) params_borrow(f.params.data, f.params.size, &block->params);
    else TVMParamsLoad(f.params.data, f.params.size, &block->params);
    if (!block->params) return -1;
  }
  if (!(f.name = strndup(name.data, name.size))) return tvm_error("out of memory");
  int status = factory_module(&f, out);
  free(f.name);
  return status;
}

static Block *block_new(size_t size) {
  Block *block = malloc(sizeof *block + size);
  if (!block) return tvm_set_error("out of memory"), NULL;
  atomic_init(&block->refs, 1);
  block->params = NULL;
  return block;
}

static int load_packed(TVMByteArray packed, TVMModuleHandle library, TVMModuleHandle *out) {
  Block *block = block_new(0);
  if (!block) return -1;
  int status = unpack(packed, block, library, out);
  block_free(block);
  return status;
}

static int take_arrays(const TVMValue *args, const int *codes, int count, TVMParamsHandle *out) {
  if (params_new(count, out)) return -1;
  for (int i = 0; i < count; ++i) {
    if (codes[2 * i] != kTVMStr || codes[2 * i + 1] != kTVMNDArrayHandle)
      return tvm_error("graph_executor_factory.create takes serialized bytes, a compiled module, and alternating names and arrays");
    TVMArrayRetain(args[2 * i + 1].v_handle);
    if (params_put(*out, i, args[2 * i].v_str, args[2 * i + 1].v_handle)) return -1;
  }
  return 0;
}

static int create(TVMByteArray packed, TVMParamsHandle params, TVMModuleHandle library, TVMModuleHandle *out) {
  Block *block = block_new(packed.size);
  if (!block) return TVMParamsFree(params), -1;
  memcpy(block->bytes, packed.data, packed.size);
  block->params = params;
  int status = unpack((TVMByteArray){block->bytes, packed.size}, block, library, out);
  block_free(block);
  return status;
}

static char *put_block(char *at, TVMByteArray block) {
  uint64_t size = block.size;
  memcpy(at, &size, 8);
  if (size) memcpy(at + 8, block.data, block.size);
  return at + 8 + size;
}

int tvm_factory_create(const char *name, TVMByteArray graph, TVMParamsHandle params, TVMModuleHandle library,
                       TVMModuleHandle *out) {
  TVMByteArray parts[] = {{name, strlen(name)}, graph, {NULL, 0}};
  size_t size = 24 + parts[0].size + graph.size;
  char *packed = malloc(size), *at = packed;
  if (!packed) return TVMParamsFree(params), tvm_error("out of memory");
  for (int i = 0; i < 3; ++i) at = put_block(at, parts[i]);
  int status = create((TVMByteArray){packed, size}, params, library, out);
  free(packed);
  return status;
}

/* tvm.graph_executor_factory.create(serialized bytes, library, name, array, ...); the arrays replace serialized
 * parameters. */
PACKED(packed_factory_create) {
  (void)self;
  if (n < 2 || n % 2 || codes[0] != kTVMBytes || codes[1] != kTVMModuleHandle)
    return tvm_error("graph_executor_factory.create takes serialized bytes, a compiled module, and alternating names and arrays");
  TVMParamsHandle params = NULL;
  TVMModuleHandle mod;
  if (n > 2 && take_arrays(args + 2, codes + 2, n / 2 - 1, &params)) return TVMParamsFree(params), -1;
  return create(*(TVMByteArray *)args[0].v_handle, params, args[1].v_handle, &mod) ? -1 : give_module(mod, ret, ret_code);
}

void tvm_factory_start(void) {
  tvm_builtin("tvm.graph_executor_factory.create", packed_factory_create);
  tvm_root_loader_add("GraphExecutorFactory", load_packed);
}
