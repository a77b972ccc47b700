/* The driver of the CPU. */
#include <string.h>

#include "core.h"

/* Use huge pages for large arrays: otherwise page walks limit the speed of kernels with strided access. */
enum { HUGE_PAGE_FROM = 2 * TVM_HUGE_PAGE };

static void *cpu_alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)device;
  bool large = nbytes >= HUGE_PAGE_FROM || alignment >= TVM_HUGE_PAGE;
  if (large && alignment < TVM_HUGE_PAGE) alignment = TVM_HUGE_PAGE;
  /* Allocate at least one byte, so that empty arrays have distinct valid addresses. */
  void *data = system_alloc(alignment, nbytes ? nbytes : 1);
  if (!data) tvm_set_error("cpu: cannot allocate %zu bytes", nbytes);
  else if (large) system_use_large_pages(data, nbytes);
  return data;
}

static void cpu_free(DLDevice device, void *data) {
  (void)device;
  system_free(data);
}

static int cpu_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                    DLDevice to_device, size_t nbytes, void *stream) {
  (void)from_device, (void)to_device, (void)stream;
  if (nbytes) memmove((char *)to + to_offset, (const char *)from + from_offset, nbytes);
  return 0;
}

static int cpu_sync(DLDevice device, void *stream) {
  (void)device, (void)stream;
  return 0;
}

static int cpu_exists(int device_id) {
  (void)device_id;
  return 1;
}

const DeviceApi tvm_cpu_api = {.alloc = cpu_alloc, .free = cpu_free, .copy = cpu_copy, .sync = cpu_sync, .exists = cpu_exists};
