/* The device table. Using a device without a driver sets an error message. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* The name of a device type and its driver, if it has one. Entries are only added, never removed. */
typedef struct { _Atomic(const char *) name; _Atomic(const DeviceApi *) api; } DeviceRow;

static DeviceRow rows[DEVICE_TYPES] = {
  [kDLCPU] = {"cpu", &tvm_cpu_api}, [kDLCUDA] = {"cuda", NULL}, [kDLCUDAHost] = {"cuda_host", &tvm_cpu_api},
  [kDLOpenCL] = {"opencl", NULL}, [kDLVulkan] = {"vulkan", NULL}, [kDLMetal] = {"metal", NULL},
  [kDLVPI] = {"vpi", NULL}, [kDLROCM] = {"rocm", NULL}, [kDLROCMHost] = {"rocm_host", NULL},
  [kDLExtDev] = {"ext_dev", NULL}, [kDLCUDAManaged] = {"cuda_managed", NULL}, [kDLOneAPI] = {"oneapi", NULL},
  [kDLWebGPU] = {"webgpu", NULL}, [kDLHexagon] = {"hexagon", NULL}, [32] = {"aocl", NULL}, [33] = {"sdaccel", NULL},
  [34] = {"opengl", NULL}, [35] = {"microdev", NULL},
};

static bool is_type(int device_type) { return device_type > 0 && device_type < DEVICE_TYPES; }

const char *TVMDeviceTypeName(int device_type) {
  const char *name = is_type(device_type) ? atomic_load(&rows[device_type].name) : NULL;
  return name ? name : "unknown device";
}

int TVMDeviceTypeOfName(const char *name) {
  for (int type = 1; type < DEVICE_TYPES; ++type) {
    const char *own = atomic_load(&rows[type].name);
    if (own && !strcmp(own, name)) return type;
  }
  return -1;
}

const DeviceApi *tvm_driver(int device_type) { return is_type(device_type) ? atomic_load(&rows[device_type].api) : NULL; }

bool tvm_is_host(int device_type) { return tvm_driver(device_type) == &tvm_cpu_api; }

/* Set at load time, before other threads exist, and never changed. */
static const RemoteApi *remote;

void tvm_remote_set(const RemoteApi *api) { remote = api; }

const RemoteApi *tvm_remote(void) { return remote; }

void tvm_driver_add(int device_type, const DeviceApi *api) { atomic_store(&rows[device_type].api, api); }

static const DeviceApi *refuse_type(DLDevice device) {
  char names[512] = "";
  size_t used = 0;
  for (int type = 1; type < DEVICE_TYPES && used < sizeof names; ++type)
    if (tvm_driver(type) && (type == kDLCPU || !tvm_is_host(type)))
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", TVMDeviceTypeName(type));
  tvm_set_error("%s(%d): this runtime has no driver for the device; it has drivers for %s",
                TVMDeviceTypeName(device.device_type), (int)device.device_id, names);
  return NULL;
}

const DeviceApi *tvm_device(DLDevice device) {
  int type = device.device_type, id = device.device_id;
  if (type >= DEVICE_TYPES && !remote) {
    tvm_set_error("this runtime was built without the RPC client, which remote devices need");
    return NULL;
  }
  if (type >= DEVICE_TYPES) return remote->device;
  if (id < 0) {
    tvm_set_error("%s(%d): the device number must not be negative", TVMDeviceTypeName(type), id);
    return NULL;
  }
  const DeviceApi *api = tvm_driver(type);
  if (!api) return refuse_type(device);
  if (api->open) return api->open(id) ? NULL : api;
  if (api->exists(id)) return api;
  tvm_set_error("%s(%d): the device does not exist", TVMDeviceTypeName(type), id);
  return NULL;
}

void tvm_devices_fork_child(void) {
  for (int type = 1; type < DEVICE_TYPES; ++type) {
    const DeviceApi *api = tvm_driver(type);
    if (api && api->fork_child) api->fork_child();
  }
}

/* ---- custom devices ---- */

static int check_api(const char *name, const DeviceApi *api) {
  if (api->abi_version != TVM_DEVICE_ABI_VERSION || api->size < offsetof(DeviceApi, open))
    return tvm_error("device %s: its function table has version %u and %u bytes; this runtime supports version %u", name,
                     (unsigned)api->abi_version, (unsigned)api->size, (unsigned)TVM_DEVICE_ABI_VERSION);
  if (!api->exists || !api->alloc || !api->free || !api->copy || !api->sync)
    return tvm_error("device %s: its function table must define exists, alloc, free, copy and sync", name);
  return 0;
}

static int add_driver(int device_type, const char *name, const DeviceApi *api) {
  int named = TVMDeviceTypeOfName(name);
  if (tvm_driver(device_type)) return tvm_error("device %s: device type %d already has a driver, that of %s", name, device_type,
                                                TVMDeviceTypeName(device_type));
  if (named >= 0 && named != device_type) return tvm_error("device %s: the name already belongs to device type %d", name, named);
  if (named < 0 && atomic_load(&rows[device_type].name))
    return tvm_error("device %s: device type %d is already named %s", name, device_type, TVMDeviceTypeName(device_type));
  DeviceApi *own = calloc(1, sizeof *own);
  char *own_name = strdup(name);
  if (!own || !own_name) {
    free(own);
    free(own_name);
    return tvm_error("out of memory");
  }
  memcpy(own, api, api->size < sizeof *own ? api->size : sizeof *own);
  bool half = own->capture_begin && !(own->capture_end && own->graph_launch && own->graph_free);
  half = half || (own->workspace_alloc && !own->workspace_free) || (own->timer_start && !own->timer_stop);
  if (half || (own->launch && tvm_register_module_loader(name))) {
    free(own);
    free(own_name);
    return half ? tvm_error("device %s: its function table defines only a part of a group (workspace, timer or capture functions)", name) : -1;
  }
  if (named < 0) atomic_store(&rows[device_type].name, own_name);
  else free(own_name);
  atomic_store(&rows[device_type].api, own);
  return 0;
}

int TVMDeviceRegister(int device_type, const char *name, const TVMDeviceApi *api) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (!name || !*name || !api) return tvm_error("TVMDeviceRegister: the name and the function table must not be empty");
  if (!is_type(device_type)) return tvm_error("device %s: the device type is %d; it must be between 1 and %d", name, device_type, DEVICE_TYPES - 1);
  if (check_api(name, api)) return -1;
  pthread_mutex_lock(&lock);
  int status = add_driver(device_type, name, api);
  pthread_mutex_unlock(&lock);
  return status;
}

int TVMDeviceLibraryLoad(const char *file_name) {
  void *library = system_library_open(file_name), *address;
  if (!library) return tvm_error("cannot open the device library: %s", system_library_error());
  int (*init)(const TVMRuntimeTable *);
  if (!(address = system_library_symbol(library, "TVMDeviceLibraryInit"))) {
    system_library_close(library);
    return tvm_error("%s is not a device library: it does not export TVMDeviceLibraryInit", file_name);
  }
  memcpy(&init, &address, sizeof address);
  tvm_set_error("%s failed to register its devices", file_name);
  /* Do not close the library after a failure: it may have registered some devices. */
  return init(TVMGetRuntimeTable()) ? -1 : 0;
}

static int remote_exists(DLDevice device) {
  TVMValue value;
  int code;
  if (!remote || remote->device->attribute(device, DEVICE_EXIST, &value, &code)) return 0;
  return code == kTVMArgInt && value.v_int64;
}

int TVMDeviceExists(DLDevice device) {
  if (device.device_type >= DEVICE_TYPES) return remote_exists(device);
  const DeviceApi *api = tvm_device(device);
  return api ? api->exists(device.device_id) : 0;
}

int TVMSynchronize(int device_type, int device_id, void *stream) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  return api ? api->sync(device, stream) : -1;
}

int tvm_attribute_int(int64_t value, TVMValue *out, int *out_code) {
  out->v_int64 = value;
  *out_code = kTVMArgInt;
  return 0;
}

int tvm_attribute_text(const char *text, TVMValue *out, int *out_code) {
  return TVMReturnBytes(text, strlen(text), kTVMStr, out, out_code);
}

int TVMDeviceGetAttribute(DLDevice device, int which, TVMValue *out, int *out_code) {
  out->v_handle = NULL;
  *out_code = kTVMNullptr;
  if (which == DEVICE_EXIST) return tvm_attribute_int(TVMDeviceExists(device), out, out_code);
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  return api->attribute ? api->attribute(device, which, out, out_code) : 0;
}

/* ---- streams: operations on one stream execute in order; stream 0 is the default stream of every thread ---- */

static int no_streams(DLDevice device) {
  return tvm_error("%s(%d): the device does not support streams", TVMDeviceTypeName(device.device_type), (int)device.device_id);
}

int TVMStreamCreate(int device_type, int device_id, void **out) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  return api->stream_create ? api->stream_create(device, out) : no_streams(device);
}

int TVMStreamFree(int device_type, int device_id, void *stream) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  return api->stream_free ? api->stream_free(device, stream) : no_streams(device);
}

int TVMSetStream(int device_type, int device_id, void *stream) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  if (!api->stream_set) return stream ? no_streams(device) : 0;
  return api->stream_set(device, stream);
}

/* ---- the current device of a thread ---- */

static _Thread_local int chosen[DEVICE_TYPES];

int tvm_current_device(int device_type) { return is_type(device_type) ? chosen[device_type] : 0; }

int tvm_set_device(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)ret, (void)ret_code, (void)resource;
  if (n != 2 || codes[0] != kTVMArgInt || codes[1] != kTVMArgInt)
    return tvm_error("__tvm_set_device: expected a device type and a device number");
  DLDevice device = {(int32_t)args[0].v_int64, (int32_t)args[1].v_int64};
  if (!is_type(device.device_type))
    return tvm_error("__tvm_set_device: %d is not a device type of this machine", (int)device.device_type);
  if (!tvm_device(device)) return -1;
  chosen[device.device_type] = device.device_id;
  return 0;
}

static _Thread_local bool calls_host;

void tvm_watch_begin(void) { calls_host = false; }

bool tvm_watch_end(void) { return calls_host; }

void tvm_watch_call(const struct TVMFunction *func) {
  if (func->code != tvm_call_kernel && func->code != tvm_set_device) calls_host = true;
}

void *tvm_driver_library(const char *variable, const char *names) {
  const char *asked = getenv(variable);
  if (asked && *asked) return system_library_open(asked);
  char name[64];
  void *library = NULL;
  for (const char *at = names; *at && !library;) {
    size_t length = strcspn(at, " ");
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    library = system_library_open(name);
    at += length + strspn(at + length, " ");
  }
  return library;
}

void TVMReleaseFreeMemory(void) { system_release_memory(); }
