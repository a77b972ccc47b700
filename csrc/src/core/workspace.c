/* Scratch memory of kernels. Each thread caches its blocks and reuses them, because kernels request the same sizes in
 * each run and the page faults of new memory can cost more time than the kernel. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { BLOCK_HEADER = 64, SMALLEST_BLOCK = 4096 };
static const uint64_t MAGIC = 0x7476776f726b7370u;

typedef struct Block {
  uint64_t magic;
  size_t size;
  struct Block *next;
  atomic_bool used; /* cleared by the thread that frees the block */
  atomic_bool orphan; /* its thread has ended: release the block when it is freed */
} Block;
_Static_assert(sizeof(Block) <= BLOCK_HEADER, "the header keeps workspace memory aligned to 64 bytes");

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Called when a thread ends: releases idle blocks now; blocks in use are released when they are freed. */
static void drop_blocks(void *first) {
  for (Block *block = first, *next; block; block = next) {
    next = block->next;
    atomic_store(&block->orphan, true);
    if (!atomic_exchange(&block->used, true)) free(block);
  }
}

static void make_key(void) { pthread_key_create(&key, drop_blocks); }

static Block *find_idle(Block *first, size_t nbytes) {
  Block *best = NULL;
  for (Block *block = first; block; block = block->next)
    if (!atomic_load(&block->used) && block->size >= nbytes && (!best || block->size < best->size)) best = block;
  /* Do not use a block that is much larger than the request: keep it for a larger request. */
  return best && best->size / 4 <= nbytes + SMALLEST_BLOCK ? best : NULL;
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int type_code, int type_bits) {
  (void)type_code, (void)type_bits;
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return NULL;
  if (api != &tvm_cpu_api)
    return api->workspace_alloc ? api->workspace_alloc(device, (size_t)nbytes) : api->alloc(device, (size_t)nbytes, BLOCK_HEADER);
  if (nbytes > PTRDIFF_MAX - BLOCK_HEADER) {
    tvm_set_error("workspace: cannot allocate %llu bytes: the size exceeds the address space", (unsigned long long)nbytes);
    return NULL;
  }
  pthread_once(&once, make_key);
  Block *first = pthread_getspecific(key), *block = find_idle(first, (size_t)nbytes);
  if (!block) {
    size_t size = nbytes < SMALLEST_BLOCK ? SMALLEST_BLOCK : ((size_t)nbytes + BLOCK_HEADER - 1) / BLOCK_HEADER * BLOCK_HEADER, alignment = BLOCK_HEADER;
    /* Kernels read packed operands repeatedly, and the first-level TLB covers less than a megabyte of small pages. A
     * huge page at most doubles the allocated memory. */
    if (size + BLOCK_HEADER > TVM_HUGE_PAGE / 2 && size < PTRDIFF_MAX - 2 * (size_t)TVM_HUGE_PAGE) {
      alignment = TVM_HUGE_PAGE;
      size = (size + BLOCK_HEADER + TVM_HUGE_PAGE - 1) / TVM_HUGE_PAGE * TVM_HUGE_PAGE - BLOCK_HEADER;
    }
    block = api->alloc(device, size + BLOCK_HEADER, alignment);
    if (!block) return NULL;
    block->magic = MAGIC;
    block->size = size;
    block->next = first;
    atomic_init(&block->orphan, false);
    pthread_setspecific(key, block);
  }
  atomic_store(&block->used, true);
  return (char *)block + BLOCK_HEADER;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
  DLDevice device = {device_type, device_id};
  const DeviceApi *api = tvm_device(device);
  if (!api) return -1;
  if (!ptr) return 0;
  if (api != &tvm_cpu_api) {
    (api->workspace_free ? api->workspace_free : api->free)(device, ptr);
    return 0;
  }
  Block *block = (Block *)((char *)ptr - BLOCK_HEADER);
  if (block->magic != MAGIC) return tvm_error("workspace: the freed pointer is not a workspace block");
  if (atomic_load(&block->orphan)) free(block);
  else atomic_store(&block->used, false);
  return 0;
}
