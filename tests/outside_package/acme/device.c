/* The device of the Acme: memory of its own that the CPU can read. */
#include <stdlib.h>
#include <string.h>

#include "tvm_runtime.h"

static int exists(int device_id) { return device_id == 0; }

static void *alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)device;
  size_t unit = alignment < sizeof(void *) ? sizeof(void *) : alignment;
  return aligned_alloc(unit, (nbytes + unit) / unit * unit);
}

static void release(DLDevice device, void *data) {
  (void)device;
  free(data);
}

static int copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                DLDevice to_device, size_t nbytes, void *stream) {
  (void)from_device, (void)to_device, (void)stream;
  memmove((char *)to + to_offset, (const char *)from + from_offset, nbytes);
  return 0;
}

static int sync_device(DLDevice device, void *stream) {
  (void)device, (void)stream;
  return 0;
}

__attribute__((visibility("default"))) int TVMDeviceLibraryInit(const TVMRuntimeTable *table) {
  TVMDeviceApi api = {.abi_version = TVM_DEVICE_ABI_VERSION, .size = sizeof api, .exists = exists, .alloc = alloc,
                      .free = release, .copy = copy, .sync = sync_device};
  return table->device_register(97, "acme", &api);
}
