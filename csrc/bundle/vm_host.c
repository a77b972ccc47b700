/* The functions outside of a bundle that the virtual machine refers to: devices other than the CPU, files of libraries,
 * and queues of kernel launches. A bundle has none of them. */
#include "../src/vm/vm.h"

/* ---- devices ---- */
const RemoteApi *tvm_remote(void) { return NULL; }

int TVMSynchronize(int device_type, int device_id, void *stream) {
  (void)stream;
  return tvm_device((DLDevice){device_type, device_id}) ? 0 : -1;
}

/* ---- files ---- */
FILE *system_file_open(const char *path, const char *mode) { return (void)path, (void)mode, NULL; }
Library *library_open(const char *path) {
  tvm_set_error("cannot load library '%s': a bundle loads no files", path);
  return NULL;
}
void library_close(Library *library) { (void)library; }
void *library_symbol(Library *library, const char *name) { return (void)library, (void)name, NULL; }
const void *library_data(Library *library, const char *name, size_t *out_size) {
  (void)library, (void)name;
  *out_size = 0;
  return NULL;
}

/* ---- launches: the CPU runs each kernel immediately ---- */
VMLaunches *vm_launches_open(DLDevice device) { return (void)device, NULL; }
void vm_launches_close(VMLaunches *launches) { (void)launches; }
void vm_launches_set(VMLaunches *launches, bool captures_runs) { (void)launches, (void)captures_runs; }
int64_t vm_launches_graphs(const VMLaunches *launches) { return (void)launches, 0; }
int64_t vm_launches_replays(const VMLaunches *launches) { return (void)launches, 0; }
void vm_launches_drop(VMLaunches *launches) { (void)launches; }
int vm_launch(VM *vm) { return (void)vm, 0; }
int vm_launch_call(VM *vm, int64_t kernel, const TVMValue *args, int64_t count, bool *taken) {
  (void)vm, (void)kernel, (void)args, (void)count;
  *taken = false;
  return 0;
}
