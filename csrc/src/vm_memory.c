/* Memory of the virtual machine: blocks by size class, kept for the next asker.
 *
 * A pool never has more memory from its device than was in use at once: before it takes more, it gives free blocks back,
 * so that runs of ever other sizes need no more than the largest of them.
 */
#include <stdlib.h>

#include "device.h"
#include "vm.h"

enum { SMALLEST = 64, STEPS = 8, CLASSES = 64 * STEPS };

struct VMPool {
  pthread_mutex_t lock;
  atomic_int refs; /* the opener, and every block that is out */
  DLDevice device;
  bool naive, open;
  size_t used, free_bytes, peak;
  VMBlock *classes[CLASSES];
};

/* Sizes of classes: eight between a power of two and the next, so that at most an eighth is lost. */
static int class_of(size_t nbytes, size_t *size) {
  if (nbytes <= SMALLEST) return *size = SMALLEST, 0;
  size_t last = nbytes - 1;
  int power = 63 - __builtin_clzll(last);
  size_t step = ((size_t)1 << power) / STEPS, number = (last - ((size_t)1 << power)) / step;
  *size = ((size_t)1 << power) + (number + 1) * step;
  return (power - 5) * STEPS + (int)number + 1;
}

VMPool *vm_pool_open(DLDevice device, bool naive) {
  VMPool *pool = calloc(1, sizeof *pool);
  if (!pool) return tvm_set_error("out of memory"), NULL;
  pthread_mutex_init(&pool->lock, NULL);
  atomic_init(&pool->refs, 1);
  pool->device = device;
  pool->naive = naive;
  pool->open = true;
  return pool;
}

static void pool_release(VMPool *pool) {
  if (atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

static void block_free(const DLDevice *device, VMBlock *block) {
  const DeviceApi *api = tvm_device(*device);
  if (api) api->free(*device, block->managed.dl_tensor.data);
  free(block);
}

/* Takes free blocks, the largest first, out of the pool until at most `keep` bytes are left in them; gives their list. */
static VMBlock *take_free(VMPool *pool, size_t keep) {
  VMBlock *list = NULL;
  for (int i = CLASSES - 1; i >= 0 && pool->free_bytes > keep; --i)
    while (pool->classes[i] && pool->free_bytes > keep) {
      VMBlock *block = pool->classes[i];
      pool->classes[i] = block->next;
      pool->free_bytes -= block->size;
      block->next = list;
      list = block;
    }
  return list;
}

static void free_list(const DLDevice *device, VMBlock *list) {
  while (list) {
    VMBlock *next = list->next;
    block_free(device, list);
    list = next;
  }
}

void vm_pool_close(VMPool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  pool->open = false;
  VMBlock *list = take_free(pool, 0);
  pthread_mutex_unlock(&pool->lock);
  free_list(&pool->device, list);
  pool_release(pool);
}

size_t vm_pool_bytes(VMPool *pool) {
  pthread_mutex_lock(&pool->lock);
  size_t total = pool->used + pool->free_bytes;
  pthread_mutex_unlock(&pool->lock);
  return total;
}

/* On the host the block that was used last is taken next, because it is in the caches. Blocks of a device are taken by their
 * addresses: runs of the same sizes get the same memory, so that what was captured of one can be replayed for the next. Long
 * lists are in order at their start alone, which costs the same for any length. */
static void keep_block(VMPool *pool, VMBlock *block, int class) {
  enum { LOOKED_AT = 64 };
  VMBlock **at = &pool->classes[class];
  uintptr_t own = (uintptr_t)block->managed.dl_tensor.data;
  if (pool->device.device_type != kDLCPU)
    for (int i = 0; i < LOOKED_AT && *at && (uintptr_t)(*at)->managed.dl_tensor.data < own; ++i) at = &(*at)->next;
  block->next = *at;
  *at = block;
  pool->free_bytes += block->size;
}

void vm_block_release(VMBlock *block) {
  if (atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) != 1) return;
  VMPool *pool = block->pool;
  size_t size;
  int class = class_of(block->size, &size);
  pthread_mutex_lock(&pool->lock);
  bool keeps = pool->open && !pool->naive;
  pool->used -= block->size;
  if (keeps) keep_block(pool, block, class);
  pthread_mutex_unlock(&pool->lock);
  if (!keeps) block_free(&pool->device, block);
  pool_release(pool);
}

static void release_managed(DLManagedTensor *managed) { vm_block_release(managed->manager_ctx); }

static VMBlock *block_new(VMPool *pool, size_t size) {
  const DeviceApi *api = tvm_device(pool->device);
  VMBlock *block = api ? calloc(1, sizeof *block) : NULL;
  if (!block) return api ? tvm_set_error("out of memory") : (void)0, NULL;
  block->managed.dl_tensor.data = api->alloc(pool->device, size, SMALLEST);
  if (!block->managed.dl_tensor.data) return free(block), NULL;
  block->managed.dl_tensor.device = pool->device;
  block->managed.manager_ctx = block;
  block->managed.deleter = release_managed;
  block->pool = pool;
  block->size = size;
  return block;
}

/* A new block, in place of free ones that are given back. Without memory for it, all of them are before the second attempt.
 * Kernels that have been gathered may use what is given back, so they are launched before. */
static VMBlock *block_in_place_of(VMPool *pool, size_t size, VMBlock *surplus, VM *vm) {
  int status = surplus ? vm_launch(vm) : 0;
  VMBlock *block = NULL;
  free_list(&pool->device, surplus);
  if (!status && (block = block_new(pool, size))) return block;
  pthread_mutex_lock(&pool->lock);
  VMBlock *list = take_free(pool, 0);
  pthread_mutex_unlock(&pool->lock);
  if (!status) status = vm_launch(vm);
  free_list(&pool->device, list);
  if (!status && (block = block_new(pool, size))) return block;
  pthread_mutex_lock(&pool->lock);
  pool->used -= size;
  pool->peak = pool->used;
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

VMBlock *vm_block_take(VMPool *pool, size_t nbytes, VM *vm) {
  size_t size;
  if (nbytes > PTRDIFF_MAX / 2) return tvm_set_error("virtual machine: %zu bytes do not fit in memory", nbytes), NULL;
  int class = class_of(nbytes, &size);
  pthread_mutex_lock(&pool->lock);
  VMBlock *block = pool->classes[class], *surplus = NULL;
  if (block) {
    pool->classes[class] = block->next;
    pool->free_bytes -= size;
  }
  pool->used += size;
  if (pool->used > pool->peak) pool->peak = pool->used;
  if (!block) surplus = take_free(pool, pool->peak - pool->used);
  pthread_mutex_unlock(&pool->lock);
  if (!block && !(block = block_in_place_of(pool, size, surplus, vm))) return NULL;
  atomic_store_explicit(&block->refs, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
  return block;
}
