/* Factories of graph executors: graph, parameters and library in one module.
 *
 * Packed form: three blocks (a length of eight bytes, then the bytes): the model's name, the graph as JSON text, and the
 * parameters as TVMParamsLoad reads them (empty when there are none).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The bytes a factory works from: in the memory of the library, or in a block that is counted. */
typedef struct { atomic_int refs; char bytes[]; } Block;
typedef struct {
  char *name;
  TVMByteArray graph, params;
  Block *block; /* NULL: the library holds the bytes */
  TVMModuleHandle library;
} Factory;

static void factory_free(void *self) {
  Factory *f = self;
  if (f->block && atomic_fetch_sub(&f->block->refs, 1) == 1) free(f->block);
  if (f->library) TVMModFree(f->library);
  free(f->name);
  free(f);
}

static int take_block(const char **at, size_t *left, TVMByteArray *out) {
  uint64_t size;
  if (*left < 8) return tvm_error("the factory packed in the library is corrupt");
  memcpy(&size, *at, 8);
  if (size > *left - 8) return tvm_error("the factory packed in the library is corrupt");
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

/* The device of the arguments: one device, or its type and its number. */
static int device_of(const TVMValue *args, const int *codes, int n, DLDevice *out) {
  if (n == 1 && codes[0] == kTVMDevice) *out = args[0].v_device;
  else if (n == 2 && codes[0] == kTVMArgInt && codes[1] == kTVMArgInt)
    *out = (DLDevice){(int32_t)args[0].v_int64, (int32_t)args[1].v_int64};
  else return tvm_error("an executor needs one device, as in lib['default'](tvm.cpu())");
  return 0;
}

static int create_executor(const Factory *f, const TVMValue *args, const int *codes, int n, TVMValue *ret, int *ret_code) {
  DLDevice device;
  TVMModuleHandle made;
  TVMFunctionHandle load = NULL;
  if (device_of(args, codes, n, &device)) return -1;
  if (tvm_graph_create(f->graph.data, f->graph.size, f->library, device, &made)) return -1;
  int status = 0;
  if (f->params.size) {
    TVMValue arg, unused;
    TVMByteArray params = f->params;
    int code = kTVMBytes, unused_code = kTVMNullptr;
    arg.v_handle = &params;
    status = TVMModGetFunction(made, "load_params", 0, &load);
    if (!status) status = tvm_call(load, &arg, &code, 1, &unused, &unused_code);
    TVMFuncFree(load);
  }
  if (!status) return give_module(made, ret, ret_code);
  TVMModFree(made);
  return -1;
}

PACKED(packed_create) { return create_executor(self, args, codes, n, ret, ret_code); }

PACKED(packed_debug_create) {
  const Factory *f = self;
  if (n < 1 || codes[0] != kTVMStr || strcmp(args[0].v_str, f->name))
    return tvm_error("debug_create: the first argument is the name of the model, '%s'", f->name);
  return create_executor(f, args + 1, codes + 1, n - 1, ret, ret_code);
}

PACKED(packed_graph_json) {
  const Factory *f = self;
  (void)args, (void)codes, (void)n;
  return TVMReturnBytes(f->graph.data, f->graph.size, kTVMStr, ret, ret_code);
}

/* Arrays by name where the embedding language can make them of a blob, the blob elsewhere. */
PACKED(packed_graph_params) {
  const Factory *f = self;
  TVMFunctionHandle reader;
  (void)args, (void)codes, (void)n;
  if (TVMFuncGetGlobal("runtime.LoadParams", &reader)) return -1;
  if (!reader) return TVMReturnBytes(f->params.data, f->params.size, kTVMBytes, ret, ret_code);
  TVMByteArray params = f->params;
  TVMValue arg;
  int code = kTVMBytes;
  arg.v_handle = &params;
  int status = tvm_call(reader, &arg, &code, 1, ret, ret_code);
  TVMFuncFree(reader);
  return status;
}

PACKED(packed_remove_params) {
  Factory less = *(Factory *)self;
  TVMModuleHandle mod;
  (void)args, (void)codes, (void)n;
  less.params = (TVMByteArray){NULL, 0};
  return factory_module(&less, &mod) ? -1 : give_module(mod, ret, ret_code);
}

static int factory_module(const Factory *from, TVMModuleHandle *out) {
  const struct { const char *name; TVMBackendPackedCFunc code; } functions[] = {
      {from->name, packed_create},          {"debug_create", packed_debug_create},
      {"get_graph_json", packed_graph_json}, {"get_graph_params", packed_graph_params},
      {"remove_params", packed_remove_params}};
  Factory *f = malloc(sizeof *f);
  if (!f) return tvm_error("out of memory");
  *f = *from;
  TVMModRetain(f->library);
  if (f->block) atomic_fetch_add(&f->block->refs, 1);
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

static int unpack(TVMByteArray packed, Block *block, TVMModuleHandle library, TVMModuleHandle *out) {
  Factory f = {NULL, {NULL, 0}, {NULL, 0}, block, library};
  TVMByteArray name;
  const char *at = packed.data;
  size_t left = packed.size;
  if (take_block(&at, &left, &name) || take_block(&at, &left, &f.graph) || take_block(&at, &left, &f.params)) return -1;
  if (left || memchr(name.data, 0, name.size)) return tvm_error("the factory packed in the library is corrupt");
  if (!(f.name = strndup(name.data, name.size))) return tvm_error("out of memory");
  int status = factory_module(&f, out);
  free(f.name);
  return status;
}

int tvm_factory_load(TVMByteArray packed, TVMModuleHandle library, TVMModuleHandle *out) {
  return unpack(packed, NULL, library, out);
}

/* tvm.graph_executor_factory.create(packed bytes, library) */
PACKED(packed_factory_create) {
  (void)self;
  if (n != 2 || codes[0] != kTVMBytes || codes[1] != kTVMModuleHandle)
    return tvm_error("a factory is made of packed bytes and a compiled module");
  const TVMByteArray *given = args[0].v_handle;
  Block *block = malloc(sizeof *block + given->size);
  if (!block) return tvm_error("out of memory");
  atomic_init(&block->refs, 1);
  memcpy(block->bytes, given->data, given->size);
  TVMModuleHandle mod;
  int status = unpack((TVMByteArray){block->bytes, given->size}, block, args[1].v_handle, &mod);
  if (atomic_fetch_sub(&block->refs, 1) == 1) free(block);
  return status ? -1 : give_module(mod, ret, ret_code);
}

void tvm_register_factory(void) { tvm_builtin("tvm.graph_executor_factory.create", packed_factory_create); }
