/* Memory pool of the virtual machine: free blocks are kept by size class for later allocations.
 *
 * A pool never holds more device memory than the peak in use: before it allocates more, it frees unused blocks, so that
 * runs with varying shapes need no more memory than the largest run. On the host, a free block is split for a smaller
 * allocation and merged again when all its parts are free: the tensors of a network differ in size, and returning pages
 * to the system and allocating new ones can take longer than a kernel. If blocks had to be freed, the next run starts
 * with one block of the peak size. A part is taken from that end of a free block that is farther from the memory in
 * use. The layers of a network therefore alternate between both ends, and the free memory between them stays
 * contiguous.
 */
#include <stdlib.h>

#include "vm.h"

enum { SMALLEST = 64, STEPS = 8, CLASSES = 64 * STEPS };
/* The minimum size of a part, and the maximum ratio of block to part: a tensor that stays alive keeps its whole block. */
enum { LEAST_PART = 1 << 12, MOST_PARTS = 64 };
/* A pool may exceed the peak in use by this fraction (1 / SLACK). Without it, a missing small block would cause a large
 * block to be freed in every run. */
enum { SLACK = 8 };

struct VMPool {
  pthread_mutex_t lock;
  atomic_int refs; /* references by the machine and by every allocated block */
  DLDevice device;
  bool naive, open;
  size_t used, free_bytes, peak;
  bool gave_back; /* a block large enough to be split was freed since the run began */
  size_t joined;  /* the peak at the time when free blocks were last merged */
  VMBlock *classes[CLASSES];
};

/* Computes the size class: eight classes per power of two, so that at most an eighth of a block is wasted. */
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

/* Returns the largest size class whose allocations a free block of this size can serve. */
static int class_served(size_t size) {
  size_t whole;
  int class = class_of(size, &whole);
  return whole == size ? class : class - 1;
}

static bool is_whole(const VMBlock *block) { return !block->before && !block->after; }

static void unlink_free(VMPool *pool, VMBlock *block) {
  if (block->last) block->last->next = block->next;
  else pool->classes[class_served(block->size)] = block->next;
  if (block->next) block->next->last = block->last;
  block->next = block->last = NULL;
  block->is_free = false;
  pool->free_bytes -= block->size;
}

/* Returns the smallest unsplit free block of at least this size, or else the largest one; NULL if there is none. */
static VMBlock *whole_block(VMPool *pool, size_t size) {
  VMBlock *found = NULL;
  int enough = class_served(size);
  for (int i = CLASSES - 1; i >= 0 && (!found || found->size > size); --i)
    for (VMBlock *block = pool->classes[i]; block; block = block->next) {
      if (is_whole(block) && (!found || (block->size >= size && block->size < found->size))) found = block;
      /* All blocks of this class are smaller than `size`, so the first is sufficient: a pool may contain very many of
       * them. */
      if (found && i < enough) return found;
    }
  return found;
}

/* Removes free blocks from the pool until at most `keep` bytes are left, without removing much more than necessary;
 * returns a list of the blocks. Parts of a block that is in use stay. */
static VMBlock *take_free(VMPool *pool, size_t keep) {
  VMBlock *list = NULL, *block;
  while (pool->free_bytes > keep && (block = whole_block(pool, pool->free_bytes - keep))) {
    unlink_free(pool, block);
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

/* Adds a block to the free list of its class. On the host, the most recently used block is at the front, because it is
 * in the caches. Blocks of a device are sorted by address: runs with the same shapes get the same memory, so a captured
 * graph can be replayed. Only the start of long lists is sorted, to bound the cost. */
static void keep_block(VMPool *pool, VMBlock *block) {
  enum { LOOKED_AT = 64 };
  VMBlock **at = &pool->classes[class_served(block->size)], *last = NULL;
  uintptr_t own = (uintptr_t)block->managed.dl_tensor.data;
  if (pool->device.device_type != kDLCPU)
    for (int i = 0; i < LOOKED_AT && *at && (uintptr_t)(*at)->managed.dl_tensor.data < own; ++i) last = *at, at = &(*at)->next;
  block->next = *at;
  block->last = last;
  if (block->next) block->next->last = block;
  *at = block;
  block->is_free = true;
  pool->free_bytes += block->size;
}

/* Merges two adjacent blocks into the first one. */
static VMBlock *join(VMBlock *block, VMBlock *after) {
  block->size += after->size;
  block->after = after->after;
  if (block->after) block->after->before = block;
  free(after);
  return block;
}

/* Merges a freed block with its free neighbours. */
static VMBlock *with_neighbours(VMPool *pool, VMBlock *block) {
  VMBlock *before = block->before, *after = block->after;
  if (after && after->is_free) unlink_free(pool, after), block = join(block, after);
  if (before && before->is_free) unlink_free(pool, before), block = join(before, block);
  return block;
}

/* Returns a free block that can be split for an allocation of this size, or NULL if there is none. */
static VMBlock *block_to_part(VMPool *pool, int class, size_t size) {
  if (pool->device.device_type != kDLCPU || size < LEAST_PART) return NULL;
  for (int i = class + 1; i < CLASSES; ++i)
    if (pool->classes[i]) return pool->classes[i]->size / MOST_PARTS <= size ? pool->classes[i] : NULL;
  return NULL;
}

/* Splits a block: returns the allocated part and keeps the rest free. If the block has a preceding block, which is in
 * use, the last part is allocated. */
static VMBlock *part(VMPool *pool, VMBlock *block, size_t size) {
  if (block->size - size < LEAST_PART || pool->device.device_type != kDLCPU) return block;
  VMBlock *rest = calloc(1, sizeof *rest);
  if (!rest) return block;
  bool is_last = block->before;
  size_t at = is_last ? block->size - size : size;
  rest->managed = block->managed;
  rest->managed.manager_ctx = rest;
  rest->managed.dl_tensor.data = (char *)block->managed.dl_tensor.data + at;
  rest->pool = pool;
  rest->size = block->size - at;
  rest->before = block;
  rest->after = block->after;
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->size = at;
  keep_block(pool, is_last ? block : rest);
  return is_last ? rest : block;
}

void vm_block_release(VMBlock *block) {
  if (atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) != 1) return;
  VMPool *pool = block->pool;
  pthread_mutex_lock(&pool->lock);
  pool->used -= block->size;
  block = with_neighbours(pool, block);
  bool keeps = (pool->open && !pool->naive) || !is_whole(block);
  if (keeps) keep_block(pool, block);
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

/* Allocates a new block after freeing surplus blocks. If the allocation fails, all free blocks are freed before a
 * second attempt. Queued kernels may use the freed blocks, so they are launched first. */
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

/* Returns the size of one block that replaces all unsplit free blocks and fills the pool's limit; 0 if there is at most
 * one such block, or if a block of a similar size did not help before. */
static size_t joined_bytes(VMPool *pool) {
  size_t rest = pool->used + pool->free_bytes, most = pool->peak + pool->peak / SLACK, count = 0;
  for (int i = class_served(LEAST_PART); i < CLASSES; ++i)
    for (VMBlock *block = pool->classes[i]; block; block = block->next)
      if (is_whole(block)) rest -= block->size, ++count;
  return count > 1 && most > rest && pool->peak > pool->joined + pool->joined / SLACK ? (most - rest) / SMALLEST * SMALLEST : 0;
}

void vm_pool_begin(VMPool *pool) {
  if (pool->device.device_type != kDLCPU) return;
  pthread_mutex_lock(&pool->lock);
  size_t size = pool->gave_back ? joined_bytes(pool) : 0;
  pool->gave_back = false;
  if (size) pool->joined = pool->peak;
  VMBlock *list = size ? take_free(pool, 0) : NULL, *block = NULL;
  pthread_mutex_unlock(&pool->lock);
  free_list(&pool->device, list);
  if (!size || !(block = block_new(pool, size))) return;
  pthread_mutex_lock(&pool->lock);
  keep_block(pool, block);
  pthread_mutex_unlock(&pool->lock);
}

VMBlock *vm_block_take(VMPool *pool, size_t nbytes, VM *vm) {
  size_t size;
  if (nbytes > PTRDIFF_MAX / 2) return tvm_set_error("virtual machine: %zu bytes do not fit in memory", nbytes), NULL;
  int class = class_of(nbytes, &size);
  pthread_mutex_lock(&pool->lock);
  VMBlock *block = pool->classes[class], *surplus = NULL;
  if (!block) block = block_to_part(pool, class, size);
  if (block) {
    unlink_free(pool, block);
    block = part(pool, block, size);
    size = block->size;
  }
  pool->used += size;
  if (pool->used > pool->peak) pool->peak = pool->used;
  if (!block) surplus = take_free(pool, pool->peak - pool->used + pool->peak / SLACK);
  for (VMBlock *lost = surplus; lost; lost = lost->next) pool->gave_back |= lost->size >= LEAST_PART;
  pthread_mutex_unlock(&pool->lock);
  if (!block && !(block = block_in_place_of(pool, size, surplus, vm))) return NULL;
  atomic_store_explicit(&block->refs, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
  return block;
}
