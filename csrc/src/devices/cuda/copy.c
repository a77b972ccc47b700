/* Copies to, from and between CUDA devices.
 *
 * A copy from the host is staged in page-locked memory: the caller's buffer may be reused as soon as its data has been
 * copied there, and the device transfers the data in stream order. Copies that do not fit into the staging memory are
 * made directly from the caller's buffer, and the caller blocks.
 */
#include <string.h>

#include "cuda.h"

enum { PARTS = 8, PART_BYTES = 512 << 10 };
typedef struct { char *at; CUevent fetched; bool in_use; } Part;
typedef struct { Part parts[PARTS]; int next; bool made, refused; } Pool;

static Pool pools[CUDA_MAX_DEVICES];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

/* Requires pool_lock. */
static bool make_pool(Pool *pool) {
  void *memory = NULL;
  if (pool->made || pool->refused) return pool->made;
  pool->refused = true;
  if (!tvm_cu.cuMemAllocHost_v2 || tvm_cu.cuMemAllocHost_v2(&memory, (size_t)PARTS * PART_BYTES)) return false;
  for (int i = 0; i < PARTS; ++i) {
    pool->parts[i] = (Part){(char *)memory + (size_t)i * PART_BYTES, NULL, false};
    if (tvm_cu.cuEventCreate(&pool->parts[i].fetched, CU_EVENT_DISABLE_TIMING)) return false;
  }
  pool->refused = false;
  return pool->made = true;
}

/* Requires pool_lock. */
static CUresult through_pool(Pool *pool, CUdeviceptr to, const char *from, size_t nbytes, CUstream stream) {
  CUresult code = CUDA_SUCCESS;
  for (size_t done = 0, size; done < nbytes && !code; done += size) {
    Part *part = &pool->parts[pool->next++ % PARTS];
    pool->next %= PARTS;
    size = nbytes - done < PART_BYTES ? nbytes - done : PART_BYTES;
    if (part->in_use) code = tvm_cu.cuEventSynchronize(part->fetched);
    part->in_use = false;
    if (code) break;
    memcpy(part->at, from + done, size);
    code = tvm_cu.cuMemcpyHtoDAsync_v2(to + done, part->at, size, stream);
    if (!code) code = tvm_cu.cuEventRecord(part->fetched, stream);
    part->in_use = true;
  }
  return code;
}

static CUresult copy_from_host(int device, CUdeviceptr to, const char *from, size_t nbytes, CUstream stream) {
  /* Staged transfers are ordered on the device's own stream only; work on other streams would not wait for them. */
  bool fits = nbytes <= (size_t)PARTS * PART_BYTES && stream == tvm_cuda_devices[device].stream && tvm_cuda_one_stream(device);
  /* If another thread uses the pool, copy directly instead of waiting. */
  if (fits && !pthread_mutex_trylock(&pool_lock)) {
    bool made = make_pool(&pools[device]);
    CUresult code = made ? through_pool(&pools[device], to, from, nbytes, stream) : CUDA_SUCCESS;
    pthread_mutex_unlock(&pool_lock);
    if (made) return code;
  }
  CUresult code = tvm_cu.cuMemcpyHtoDAsync_v2(to, from, nbytes, stream);
  return code ? code : tvm_cu.cuStreamSynchronize(stream);
}

int tvm_cuda_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                  DLDevice to_device, size_t nbytes, void *given) {
  if (!nbytes) return 0;
  bool reads = from_device.device_type == kDLCUDA, writes = to_device.device_type == kDLCUDA;
  int id = reads ? from_device.device_id : to_device.device_id;
  CUdeviceptr source = (CUdeviceptr)(uintptr_t)from + from_offset, target = (CUdeviceptr)(uintptr_t)to + to_offset;
  if (tvm_cuda_open(id)) return -1;
  CUstream stream = given ? (CUstream)given : tvm_cuda_stream(id);
  CUresult code;
  if (reads && writes && from_device.device_id != to_device.device_id) {
    code = tvm_cu.cuMemcpyPeerAsync(target, tvm_cuda_devices[to_device.device_id].context, source,
                                    tvm_cuda_devices[id].context, nbytes, stream);
    /* Later work on the other device would not wait for this copy. */
    if (!code) code = tvm_cu.cuStreamSynchronize(stream);
    return code ? tvm_cuda_failed(id, "a copy between devices", code) : 0;
  }
  if (reads && writes) code = tvm_cu.cuMemcpyDtoDAsync_v2(target, source, nbytes, stream);
  else if (writes) code = copy_from_host(id, target, (const char *)from + from_offset, nbytes, stream);
  else {
    /* Wait for the copy, so that the host buffer contains the data when this function returns. */
    code = tvm_cu.cuMemcpyDtoHAsync_v2((char *)to + to_offset, source, nbytes, stream);
    if (!code) code = tvm_cu.cuStreamSynchronize(stream);
  }
  return code ? tvm_cuda_failed(id, "a copy", code) : 0;
}

void tvm_cuda_copy_fork_child(void) { pthread_mutex_init(&pool_lock, NULL); }
