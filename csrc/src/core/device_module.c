/* Device modules: kernels loaded from a byte string and called as packed functions. Drivers load them onto devices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

static const char MAGIC[] = "TVMDEV01";
enum { MAGIC_SIZE = 8, HEADER_SIZE = 16 };

/* A device module with its private data, which drivers do not access. */
typedef struct {
  DeviceModule shared;
  const DeviceApi *api;
  int device_type;
  char *bytes;
  size_t size;
  pthread_mutex_t lock;
} LoadedModule;

static LoadedModule *loaded(DeviceModule *shared) { return (LoadedModule *)shared; }

pthread_mutex_t *tvm_module_lock(DeviceModule *shared) { return &loaded(shared)->lock; }

static const struct { const char *tag; int field; } LAUNCH_TAGS[] = {
    {"blockIdx.x", 0}, {"blockIdx.y", 1}, {"blockIdx.z", 2}, {"threadIdx.x", LAUNCH_BLOCK},
    {"threadIdx.y", LAUNCH_BLOCK + 1}, {"threadIdx.z", LAUNCH_BLOCK + 2}, {"tir.use_dyn_shared_memory", LAUNCH_SHARED}};

static void module_free(void *self) {
  LoadedModule *own = self;
  DeviceModule *m = &own->shared;
  if (m->native && own->api->unload) own->api->unload(m);
  for (int i = 0; m->images && i < m->image_count; ++i) {
    free(m->images[i].format);
    free(m->images[i].arch);
  }
  for (int i = 0; m->kernels && i < m->kernel_count; ++i) {
    free(m->kernels[i].name);
    free(m->kernels[i].args);
    free(m->kernels[i].launch);
  }
  free(m->images);
  free(m->kernels);
  free(own->bytes);
  pthread_mutex_destroy(&own->lock);
  free(own);
}

/* ---- calling kernels ---- */

static uint16_t half_of(double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, 4);
  uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* overflow: round to infinity */
  if (rest < 0x38800000u) return (uint16_t)(sign | (uint32_t)rint(ldexp(fabs((double)single), 24)));
  rest += 0xfffu + (rest >> 13 & 1); /* round to nearest, ties to even */
  return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

static uint16_t bfloat_of(double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static int wrong_argument(const DeviceKernel *k, int index, const char *wanted) {
  return tvm_error("kernel %s: argument %d: expected %s", k->name, index, wanted);
}

static int read_argument(const DeviceKernel *k, int index, TVMValue value, int code, KernelArg *out) {
  ArgType type = k->args[index];
  out->bits = 0;
  if (type.kind == kTVMKernelHandle) {
    bool tensor = code == kTVMDLTensorHandle || code == kTVMNDArrayHandle;
    if (!tensor && code != kTVMOpaqueHandle && code != kTVMNullptr) return wrong_argument(k, index, "an array");
    if (!tensor) {
      out->bits = code == kTVMNullptr ? 0 : (uint64_t)(uintptr_t)value.v_handle;
      return 0;
    }
    const DLTensor *t = value.v_handle;
    int wanted = loaded(k->module)->device_type;
    if (t->device.device_type != wanted)
      return tvm_error("kernel %s: argument %d: expected an array on %s, got one on %s", k->name, index,
                       TVMDeviceTypeName(wanted), TVMDeviceTypeName(t->device.device_type));
    out->bits = (uint64_t)(uintptr_t)t->data + t->byte_offset;
    return 0;
  }
  bool real = code == kTVMArgFloat;
  if (!real && code != kTVMArgInt && code != kTVMArgBool) return wrong_argument(k, index, "a number");
  if (type.kind == kTVMKernelInt) {
    if (real) return wrong_argument(k, index, "an integer");
    memcpy(&out->bits, &value.v_int64, 8);
    return 0;
  }
  double number = real ? value.v_float64 : (double)value.v_int64;
  float single = (float)number;
  if (type.kind == kTVMKernelBfloat) out->bits = bfloat_of(number);
  else if (type.bytes == 2) out->bits = half_of(number);
  else if (type.bytes == 4) memcpy(&out->bits, &single, 4);
  else memcpy(&out->bits, &number, 8);
  return 0;
}

int tvm_call_kernel(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  DeviceKernel *k = self;
  (void)ret, (void)ret_code;
  if (n != k->arg_count + k->launch_count)
    return tvm_error("kernel %s: expected %d arguments and %d launch extents, got %d values", k->name, k->arg_count,
                     k->launch_count, n);
  KernelArg given[MAX_KERNEL_ARGS];
  for (int i = 0; i < k->arg_count; ++i)
    if (read_argument(k, i, args[i], codes[i], &given[i])) return -1;
  LaunchSizes sizes = {{1, 1, 1, 1, 1, 1, 0}};
  for (int i = 0; i < k->launch_count; ++i) {
    int at = k->arg_count + i;
    if (codes[at] != kTVMArgInt || args[at].v_int64 < 0)
      return tvm_error("kernel %s: launch extent %d must be a non-negative integer", k->name, i);
    sizes.field[k->launch[i]] = args[at].v_int64;
  }
  for (int i = 0; i < LAUNCH_SHARED; ++i)
    if (sizes.field[i] == 0) return 0; /* nothing to compute */
  int type = loaded(k->module)->device_type;
  DLDevice device = {type, tvm_current_device(type)};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  return api->launch(k, device.device_id, given, &sizes);
}

/* ---- reading the serialized module ---- */

static int corrupt(const char *what) { return tvm_error("device module: %s; the serialized module is corrupt", what); }

static const Json *member(const Json *object, const char *key, JsonKind kind) {
  const Json *found = object && object->kind == JSON_OBJECT ? json_member(object, key) : NULL;
  if (found && found->kind == kind) return found;
  tvm_set_error("device module: '%s' is missing or has the wrong JSON type; the serialized module is corrupt", key);
  return NULL;
}

static int read_type(const char *text, ArgType *out) {
  static const struct { const char *prefix; int kind; } kinds[] = {
      {"bfloat", kTVMKernelBfloat}, {"float", kTVMKernelFloat}, {"uint", kTVMKernelInt}, {"int", kTVMKernelInt}};
  if (!strcmp(text, "handle")) return *out = (ArgType){kTVMKernelHandle, 8}, 0;
  if (!strcmp(text, "bool")) return *out = (ArgType){kTVMKernelInt, 1}, 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    size_t length = strlen(kinds[i].prefix);
    if (strncmp(text, kinds[i].prefix, length)) continue;
    char *end;
    long bits = strtol(text + length, &end, 10);
    bool known = bits == 16 || bits == 32 || bits == 64 || (bits == 8 && kinds[i].kind == kTVMKernelInt);
    if (kinds[i].kind == kTVMKernelBfloat) known = bits == 16;
    if (*end || !known) break;
    *out = (ArgType){(uint8_t)kinds[i].kind, (uint8_t)(bits / 8)};
    return 0;
  }
  return tvm_error("device module: '%s' is not a supported type of a kernel argument", text);
}

static int read_launch(const char *text, uint8_t *out) {
  for (size_t i = 0; i < sizeof LAUNCH_TAGS / sizeof *LAUNCH_TAGS; ++i)
    if (!strcmp(text, LAUNCH_TAGS[i].tag)) return *out = (uint8_t)LAUNCH_TAGS[i].field, 0;
  return tvm_error("device module: '%s' is not a thread tag", text);
}

static int read_kernel(DeviceModule *m, const Json *json, DeviceKernel *k) {
  const Json *args = member(json, "args", JSON_ARRAY), *launch = member(json, "launch", JSON_ARRAY);
  const Json *threads = json_member(json, "threads"), *shared = json_member(json, "shared");
  const Json *dependent = json_member(json, "dependent");
  if (!args || !launch) return -1;
  if (args->count > MAX_KERNEL_ARGS)
    return tvm_error("device module: kernel %s has %d arguments; the maximum is %d", json->key, args->count,
                     (int)MAX_KERNEL_ARGS);
  k->module = m;
  k->arg_count = args->count;
  k->launch_count = launch->count;
  k->threads = threads && threads->kind == JSON_INT ? threads->integer : 0;
  k->shared = shared && shared->kind == JSON_INT ? shared->integer : 0;
  k->dependent = dependent && dependent->kind == JSON_BOOL && dependent->integer;
  k->name = strdup(json->key);
  k->args = calloc((size_t)args->count + 1, sizeof *k->args);
  k->launch = calloc((size_t)launch->count + 1, sizeof *k->launch);
  if (!k->name || !k->args || !k->launch) return tvm_error("out of memory");
  int i = 0;
  for (const Json *at = args->child; at; at = at->next)
    if (at->kind != JSON_STRING ? corrupt("an argument type is not a string") : read_type(at->text, &k->args[i++])) return -1;
  i = 0;
  for (const Json *at = launch->child; at; at = at->next)
    if (at->kind != JSON_STRING ? corrupt("a thread tag is not a string") : read_launch(at->text, &k->launch[i++])) return -1;
  return 0;
}

static int read_image(const Json *json, const char *data, size_t size, DeviceImage *out) {
  const Json *format = member(json, "format", JSON_STRING), *arch = json_member(json, "arch");
  const Json *offset = member(json, "offset", JSON_INT), *length = member(json, "size", JSON_INT);
  if (!format || !offset || !length) return -1;
  if (offset->integer < 0 || length->integer < 0 || (uint64_t)offset->integer > size ||
      (uint64_t)length->integer > size - (uint64_t)offset->integer)
    return corrupt("an image exceeds the end of the data");
  *out = (DeviceImage){strdup(format->text), strdup(arch && arch->kind == JSON_STRING ? arch->text : ""),
                       data + offset->integer, (size_t)length->integer};
  return out->format && out->arch ? 0 : tvm_error("out of memory");
}

static int read_module(LoadedModule *own, const Json *json, const char *data, size_t size) {
  DeviceModule *m = &own->shared;
  const Json *kind = member(json, "kind", JSON_STRING), *images = member(json, "images", JSON_ARRAY);
  const Json *kernels = member(json, "kernels", JSON_OBJECT);
  if (!kind || !images || !kernels) return -1;
  own->device_type = TVMDeviceTypeOfName(kind->text);
  own->api = tvm_driver(own->device_type);
  if (!own->api || !own->api->launch)
    return tvm_error("device module: this runtime has no driver for kernels of kind '%s'", kind->text);
  m->images = calloc((size_t)images->count + 1, sizeof *m->images);
  m->kernels = calloc((size_t)kernels->count + 1, sizeof *m->kernels);
  if (!m->images || !m->kernels) return tvm_error("out of memory");
  for (const Json *at = images->child; at; at = at->next)
    if (read_image(at, data, size, &m->images[m->image_count++])) return -1;
  for (const Json *at = kernels->child; at; at = at->next)
    if (read_kernel(m, at, &m->kernels[m->kernel_count++])) return -1;
  return 0;
}

static int read_bytes(LoadedModule *m) {
  uint64_t length;
  if (m->size < HEADER_SIZE || memcmp(m->bytes, MAGIC, MAGIC_SIZE)) return corrupt("the data does not start with 'TVMDEV01'");
  memcpy(&length, m->bytes + MAGIC_SIZE, 8);
  if (length > m->size - HEADER_SIZE) return corrupt("the JSON description is truncated");
  Json *json = NULL;
  const char *images = m->bytes + HEADER_SIZE + length;
  int status = json_parse(m->bytes + HEADER_SIZE, (size_t)length, &json);
  if (!status) status = read_module(m, json, images, m->size - HEADER_SIZE - (size_t)length);
  json_free(json);
  return status;
}

int TVMDeviceModuleLoad(const void *bytes, size_t size, TVMModuleHandle *out) {
  LoadedModule *m = calloc(1, sizeof *m);
  if (!m) return tvm_error("out of memory");
  pthread_mutex_init(&m->lock, NULL);
  m->size = size;
  TVMModuleHandle mod = NULL;
  int status = (m->bytes = malloc(size ? size : 1)) ? 0 : tvm_error("out of memory");
  if (!status && size) memcpy(m->bytes, bytes, size);
  if (!status) status = read_bytes(m);
  if (!status) status = TVMModCreate(TVMDeviceTypeName(m->device_type), module_free, m, &mod);
  if (status) {
    module_free(m);
    return -1;
  }
  DeviceKernel *kernels = m->shared.kernels;
  for (int i = 0; i < m->shared.kernel_count && !status; ++i)
    status = tvm_module_builtin(mod, kernels[i].name, tvm_call_kernel, &kernels[i]);
  if (status) TVMModFree(mod);
  else *out = mod;
  return status;
}

const void *TVMDeviceModuleBytes(TVMModuleHandle mod, size_t *out_size) {
  const LoadedModule *m = tvm_module_resource(mod, module_free);
  *out_size = m ? m->size : 0;
  return m ? m->bytes : NULL;
}

static int add_device(TVMModuleHandle mod, void *types) {
  const LoadedModule *m = tvm_module_resource(mod, module_free);
  if (m) ((bool *)types)[m->device_type] = true;
  return 0;
}

int tvm_module_devices(TVMModuleHandle mod, bool types[DEVICE_TYPES]) {
  int count = 0;
  memset(types, 0, DEVICE_TYPES * sizeof *types);
  if (tvm_module_walk(mod, add_device, types)) return 0;
  for (int type = 0; type < DEVICE_TYPES; ++type) count += types[type];
  return count;
}

/* ---- device modules packed into a library ---- */

static int load_binary(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)resource;
  TVMModuleHandle mod;
  if (n != 1 || codes[0] != kTVMBytes) return tvm_error("device module: expected one argument of type bytes");
  const TVMByteArray *bytes = args[0].v_handle;
  if (TVMDeviceModuleLoad(bytes->data, bytes->size, &mod)) return -1;
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

int tvm_register_module_loader(const char *kind) {
  char name[128];
  TVMFunctionHandle loader;
  if (snprintf(name, sizeof name, "runtime.module.loadbinary_%s", kind) >= (int)sizeof name)
    return tvm_error("device %s: the name is too long", kind);
  if (TVMFuncCreateFromCFunc(load_binary, NULL, NULL, &loader)) return -1;
  int status = TVMFuncRegisterGlobal(name, loader, 1);
  TVMFuncFree(loader);
  return status;
}

void tvm_device_modules_start(void) {
  tvm_builtin("runtime.module.loadbinary_opencl", load_binary);
  tvm_builtin("runtime.module.loadbinary_cuda", load_binary);
}
