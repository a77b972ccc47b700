/* The tile registers of x86 (AMX): the system lets a process use them after it has asked. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "internal.h"
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
/* The number of the request, and of the registers' state, as the system calls them. */
enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
#endif

TVM_DLL int TVMBackendUseTiles(void) {
  static atomic_int granted;
  if (atomic_load_explicit(&granted, memory_order_relaxed)) return 0;
#if defined(__linux__) && defined(__x86_64__)
  if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0) {
    atomic_store_explicit(&granted, 1, memory_order_relaxed);
    return 0;
  }
  return tvm_error("this process may not use tile registers (AMX): %s; compile for a CPU without them (-mattr=-amx-tile)",
                   strerror(errno));
#else
  return tvm_error("this machine has no tile registers (AMX); compile for a CPU without them (-mattr=-amx-tile)");
#endif
}
