/* The accelerator's DRAM: an arena of host memory, of which only the pages of buffers are ever touched. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"

enum { PAGE = 4096 };
typedef struct { uint64_t begin, size; } Block; /* size: as requested */

static struct {
  pthread_mutex_t lock;
  char *base;
  uint64_t size;
  Block *blocks; /* in the order of their addresses */
  size_t count, room;
} dram = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t end_of(const Block *block) { return block->begin + (block->size + PAGE - 1) / PAGE * PAGE; }

static int resize(uint64_t size) {
  if (dram.size == size) return 0;
  if (dram.count) return vta_error("the size of DRAM cannot change while %zu buffers exist", dram.count);
  char *base = size > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return vta_error("cannot reserve %llu bytes for DRAM", (unsigned long long)size);
  if (dram.base) munmap(dram.base, dram.size);
  dram.base = base;
  dram.size = size;
  return 0;
}

int vta_dram_resize(uint32_t log_size) {
  pthread_mutex_lock(&dram.lock);
  int status = resize((uint64_t)1 << log_size);
  pthread_mutex_unlock(&dram.lock);
  return status;
}

/* The index of the first block that begins after the address. */
static size_t after(uint64_t address) {
  size_t low = 0, high = dram.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (dram.blocks[middle].begin <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void *insert(size_t size) {
  if (size > dram.size) return NULL;
  uint64_t need = size ? size : 1, begin = PAGE; /* address 0 is never a buffer's */
  size_t at = 0;
  for (; at < dram.count && dram.blocks[at].begin - begin < need; ++at) begin = end_of(&dram.blocks[at]);
  if (begin + need > dram.size) return NULL;
  if (dram.count == dram.room) {
    size_t room = dram.room ? 2 * dram.room : 64;
    Block *grown = realloc(dram.blocks, room * sizeof *grown);
    if (!grown) return NULL;
    dram.blocks = grown;
    dram.room = room;
  }
  memmove(dram.blocks + at + 1, dram.blocks + at, (dram.count - at) * sizeof *dram.blocks);
  dram.blocks[at] = (Block){begin, need};
  ++dram.count;
  return dram.base + begin;
}

void *VTABufferAlloc(size_t size) {
  if (!vta_device()) return NULL;
  pthread_mutex_lock(&dram.lock);
  void *data = insert(size);
  pthread_mutex_unlock(&dram.lock);
  if (!data) vta_error("out of device memory: no %zu bytes are free in DRAM of %llu bytes", size, (unsigned long long)dram.size);
  return data;
}

int VTABufferFree(void *buffer) {
  if (!buffer) return 0;
  pthread_mutex_lock(&dram.lock);
  uint64_t begin = (uint64_t)((char *)buffer - dram.base);
  size_t at = dram.base ? after(begin) : 0;
  bool found = at && dram.blocks[at - 1].begin == begin;
  if (found) {
    /* The pages go back to the operating system and read as zeros when they are used again. */
    madvise(buffer, end_of(&dram.blocks[at - 1]) - begin, MADV_DONTNEED);
    memmove(dram.blocks + at - 1, dram.blocks + at, (dram.count - at) * sizeof *dram.blocks);
    --dram.count;
  }
  pthread_mutex_unlock(&dram.lock);
  return found ? 0 : vta_error("VTABufferFree: %p is not the address of a buffer", buffer);
}

void *vta_dram_range(uint64_t address, uint64_t size) {
  pthread_mutex_lock(&dram.lock);
  size_t at = after(address);
  bool inside = at && address - dram.blocks[at - 1].begin <= dram.blocks[at - 1].size &&
                size <= dram.blocks[at - 1].size - (address - dram.blocks[at - 1].begin);
  pthread_mutex_unlock(&dram.lock);
  return inside ? dram.base + address : NULL;
}

int64_t vta_dram_address(const void *pointer) {
  const char *at = pointer;
  if (!dram.base || at < dram.base || at >= dram.base + dram.size) return -1;
  return vta_dram_range((uint64_t)(at - dram.base), 0) ? at - dram.base : -1;
}

void *VTADramBase(void) { return vta_device() ? dram.base : NULL; }

void *VTABufferCPUPtr(void *command, void *buffer) {
  if (vta_dram_address(buffer) >= 0) return buffer;
  vta_error("VTABufferCPUPtr: %p is not the address of a buffer", buffer);
  return NULL;
}

static bool in_arena(const char *at) { return dram.base && at >= dram.base && at < dram.base + dram.size; }

/* Memory outside the arena is the host's, for whose sizes the caller is responsible. */
static int check_side(const char *at, size_t size, const char *what) {
  if (!in_arena(at) || vta_dram_range((uint64_t)(at - dram.base), size)) return 0;
  return vta_error("VTABufferCopy: %zu bytes at the %s are not inside one buffer", size, what);
}

int VTABufferCopy(const void *from, size_t from_offset, void *to, size_t to_offset, size_t size, int kind) {
  const char *source = (const char *)from + from_offset;
  char *target = (char *)to + to_offset;
  if (check_side(source, size, "source") || check_side(target, size, "destination")) return -1;
  memmove(target, source, size);
  return 0;
}

/* Host and accelerator access the same memory coherently: barriers only check the range. */
static int barrier(const char *name, void *buffer, uint32_t elem_bits, uint32_t start, uint32_t extent) {
  int64_t address = vta_dram_address(buffer);
  uint64_t offset = ((uint64_t)start * elem_bits) / 8, size = ((uint64_t)extent * elem_bits + 7) / 8;
  if (address >= 0 && vta_dram_range((uint64_t)address + offset, size)) return 0;
  return vta_error("%s: elements %u to %u of %u bits are not inside one buffer", name, (unsigned)start,
                   (unsigned)(start + extent), (unsigned)elem_bits);
}

int VTAWriteBarrier(void *command, void *buffer, uint32_t elem_bits, uint32_t start, uint32_t extent) {
  return barrier("VTAWriteBarrier", buffer, elem_bits, start, extent);
}

int VTAReadBarrier(void *command, void *buffer, uint32_t elem_bits, uint32_t start, uint32_t extent) {
  return barrier("VTAReadBarrier", buffer, elem_bits, start, extent);
}
