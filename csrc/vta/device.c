/* The device: its configuration and statistics, errors, and its entry in the runtime's device table. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "tvm_runtime.h"

/* ---- errors ---- */
static _Thread_local char last_error[2048];
static void (*report)(const char *);

int vta_error(const char *format, ...) {
  char text[sizeof last_error];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  memcpy(last_error, text, sizeof text);
  if (report) report(last_error);
  return -1;
}

void vta_error_target(void (*set_last_error)(const char *)) { report = set_last_error; }

const char *VTALastError(void) { return last_error; }

/* ---- the device ---- */
static Device device = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int configure(const VTAConfig *config) {
  Layout layout;
  Core core;
  if (vta_layout(config, &layout) || vta_dram_resize(config->log_dram_size) || vta_core_open(&core, &layout)) return -1;
  core.skip = device.core.skip;
  core.stats = device.core.stats;
  vta_core_close(&device.core);
  device.core = core;
  __atomic_add_fetch(&device.generation, 1, __ATOMIC_RELEASE);
  return 0;
}

Device *vta_device(void) {
  if (__atomic_load_n(&device.generation, __ATOMIC_ACQUIRE)) return &device;
  VTAConfig config;
  VTADefaultConfig(&config);
  pthread_mutex_lock(&device.lock);
  int status = device.generation ? 0 : configure(&config);
  pthread_mutex_unlock(&device.lock);
  return status ? NULL : &device;
}

int VTAConfigure(const VTAConfig *config) {
  pthread_mutex_lock(&device.lock);
  int status = configure(config);
  pthread_mutex_unlock(&device.lock);
  return status;
}

void VTAGetConfig(VTAConfig *config) {
  VTADefaultConfig(config);
  if (!vta_device()) return;
  pthread_mutex_lock(&device.lock);
  *config = device.core.layout.config;
  pthread_mutex_unlock(&device.lock);
}

void VTAGetStats(VTAStats *stats) {
  pthread_mutex_lock(&device.lock);
  *stats = device.core.stats;
  pthread_mutex_unlock(&device.lock);
}

void VTAClearStats(void) {
  pthread_mutex_lock(&device.lock);
  memset(&device.core.stats, 0, sizeof device.core.stats);
  pthread_mutex_unlock(&device.lock);
}

void VTASetSkip(int skip) {
  if (!vta_device()) return;
  pthread_mutex_lock(&device.lock);
  device.core.skip = skip != 0;
  pthread_mutex_unlock(&device.lock);
}

int VTADisassemble(const void *instruction, char *text, size_t size) {
  if (!vta_device()) return -1;
  pthread_mutex_lock(&device.lock);
  int length = vta_print(&device.core.layout, instruction, text, size);
  pthread_mutex_unlock(&device.lock);
  return length;
}

static VTAObserver observer;

void VTASetObserver(VTAObserver function) {
  pthread_mutex_lock(&device.lock);
  observer = function;
  pthread_mutex_unlock(&device.lock);
}

int VTARun(const void *instructions, uint32_t count, uint64_t limit) {
  if (!vta_device()) return -1;
  pthread_mutex_lock(&device.lock);
  if (observer) observer(instructions, count);
  Pipeline pipe;
  int status = vta_pipeline_open(&pipe, &device.core, instructions, count);
  if (!status) {
    bool cycles = device.core.layout.config.mode == VTA_CYCLES;
    status = cycles ? vta_run_cycles(&pipe, limit) : vta_run_functional(&pipe, limit);
    vta_pipeline_close(&pipe);
  }
  pthread_mutex_unlock(&device.lock);
  return status;
}

/* ---- the device table ---- */

static int exists(int device_id) { return device_id == 0; }

static void *alloc(DLDevice where, size_t nbytes, size_t alignment) {
  (void)where;
  if (alignment <= 4096) return VTABufferAlloc(nbytes);
  vta_error("ext_dev: the alignment of %zu bytes is more than 4096", alignment);
  return NULL;
}

static void release(DLDevice where, void *data) {
  (void)where;
  VTABufferFree(data);
}

static int copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                DLDevice to_device, size_t nbytes, void *stream) {
  (void)from_device, (void)to_device, (void)stream;
  return VTABufferCopy(from, from_offset, to, to_offset, nbytes, 0);
}

/* Programs run when VTASynchronize is called: no work is pending afterwards. */
static int sync_device(DLDevice where, void *stream) {
  (void)where, (void)stream;
  return 0;
}

VTA_DLL int TVMDeviceLibraryInit(const TVMRuntimeTable *table) {
  const TVMDeviceApi api = {
      .abi_version = TVM_DEVICE_ABI_VERSION, .size = sizeof api, .exists = exists, .alloc = alloc, .free = release,
      .copy = copy, .sync = sync_device};
  if (!vta_device()) return table->set_last_error(last_error), -1;
  if (table->device_register(kDLExtDev, "ext_dev", &api)) return -1;
  vta_error_target(table->set_last_error);
  return 0;
}
