/* Access to the tile registers of x86 (AMX): Linux grants it to a process on request. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
/* The arch_prctl code ARCH_REQ_XCOMP_PERM and the XSAVE state number of the tile data. */
enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
#endif

/* LDTILECFG (rax), as bytes because older assemblers do not support the mnemonic. */
static void set_sizes(const void *sizes) {
#if defined(__linux__) && defined(__x86_64__)
  if (sizes) __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(sizes) : "memory");
#else
  (void)sizes;
#endif
}

TVM_DLL int TVMBackendUseTiles(const void *sizes) {
  static atomic_int granted;
  if (!atomic_load_explicit(&granted, memory_order_relaxed)) {
#if defined(__linux__) && defined(__x86_64__)
    const char *hint = "compile for a CPU without them (-mattr=-amx-tile)";
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA))
      return tvm_error("the system does not permit this process to use tile registers (AMX): %s; %s", strerror(errno), hint);
    atomic_store_explicit(&granted, 1, memory_order_relaxed);
#else
    return tvm_error("this machine has no tile registers (AMX); compile for a CPU without them (-mattr=-amx-tile)");
#endif
  }
  set_sizes(sizes);
  return 0;
}
