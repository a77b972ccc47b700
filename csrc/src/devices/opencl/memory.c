/* Memory of OpenCL devices, and copies.
 *
 * Addresses: the host computes addresses of device memory (a view starts at data + byte_offset), but OpenCL buffers are
 * handles. Therefore `data` of an array is a synthetic address that no host memory has: bit 62, the number of the
 * buffer and the offset inside it. Launches and copies convert it to the buffer or to a sub-buffer. Any other value is
 * assumed to be a cl_mem handle, as DLPack passes it.
 */
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

static const uint64_t OURS = (uint64_t)1 << 62;
enum { NUMBER_SHIFT = 40, NUMBER_LIMIT = 1 << 22 };

typedef struct SubBuffer { struct SubBuffer *next; size_t offset; cl_mem memory; } SubBuffer;
typedef struct {
  cl_mem memory; /* NULL: the slot is free, and `next_free` is the next free slot */
  size_t size;
  int device, next_free;
  bool idle; /* an unused workspace */
  SubBuffer *parts;
} Buffer;

static Buffer *buffers;
static int buffer_count, buffer_room, first_free = -1;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static void *address_of(int number) { return (void *)(uintptr_t)(OURS | (uint64_t)number << NUMBER_SHIFT); }

/* Returns the slot of an address and the offset in it, or NULL if the address is not synthetic. Requires the lock. */
static Buffer *find_buffer(const void *address, size_t *out_offset) {
  uint64_t value = (uint64_t)(uintptr_t)address;
  if (!(value & OURS)) return NULL;
  uint64_t number = (value & (OURS - 1)) >> NUMBER_SHIFT;
  *out_offset = (size_t)(value & (((uint64_t)1 << NUMBER_SHIFT) - 1));
  return number < (uint64_t)buffer_count && buffers[number].memory ? &buffers[number] : NULL;
}

static int new_slot(void) {
  if (first_free >= 0) {
    int number = first_free;
    first_free = buffers[number].next_free;
    return number;
  }
  if (buffer_count == buffer_room) {
    int room = buffer_room ? 2 * buffer_room : 64;
    Buffer *more = room <= NUMBER_LIMIT ? realloc(buffers, (size_t)room * sizeof *more) : NULL;
    if (!more) return tvm_error("opencl: cannot create more than %d buffers", buffer_count);
    buffers = more;
    buffer_room = room;
  }
  return buffer_count++;
}

static cl_mem create_buffer(int device, size_t nbytes) {
  cl_int code;
  ClDevice *d = &tvm_cl_devices[device];
  uint64_t largest = tvm_cl_number(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
  uint64_t total = tvm_cl_number(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, 8);
  cl_mem memory = NULL;
  if (nbytes <= largest && !((uint64_t)nbytes >> NUMBER_SHIFT))
    memory = tvm_cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, nbytes ? nbytes : 1, NULL, &code);
  if (!memory)
    tvm_set_error("opencl(%d): cannot allocate %zu bytes; the device has %llu bytes and allows at most %llu per buffer",
                  device, nbytes, (unsigned long long)total, (unsigned long long)largest);
  return memory;
}

static void *add_buffer(int device, size_t nbytes) {
  cl_mem memory = create_buffer(device, nbytes);
  if (!memory) return NULL;
  pthread_mutex_lock(&memory_lock);
  int number = new_slot();
  if (number >= 0) buffers[number] = (Buffer){memory, nbytes, device, -1, false, NULL};
  pthread_mutex_unlock(&memory_lock);
  if (number < 0) tvm_cl.clReleaseMemObject(memory);
  return number < 0 ? NULL : address_of(number);
}

/* Requires the lock. OpenCL keeps a released buffer alive until the work that uses it has finished. */
static void drop_buffer(Buffer *b) {
  for (SubBuffer *part = b->parts, *next; part; part = next) {
    next = part->next;
    tvm_cl.clReleaseMemObject(part->memory);
    free(part);
  }
  tvm_cl.clReleaseMemObject(b->memory);
  b->memory = NULL;
  b->parts = NULL;
  b->next_free = first_free;
  first_free = (int)(b - buffers);
}

/* Releases the idle workspaces of a device; returns whether there were any. */
static bool drop_idle(int device) {
  bool any = false;
  pthread_mutex_lock(&memory_lock);
  for (int i = 0; i < buffer_count; ++i)
    if (buffers[i].memory && buffers[i].idle && buffers[i].device == device) {
      drop_buffer(&buffers[i]);
      any = true;
    }
  pthread_mutex_unlock(&memory_lock);
  return any;
}

void *tvm_cl_alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)alignment; /* the device aligns buffers for its largest type */
  void *data = add_buffer(device.device_id, nbytes);
  if (!data && drop_idle(device.device_id)) data = add_buffer(device.device_id, nbytes);
  return data;
}

void tvm_cl_free(DLDevice device, void *data) {
  size_t offset;
  (void)device;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(data, &offset);
  if (b) drop_buffer(b);
  pthread_mutex_unlock(&memory_lock);
}

/* One in-order queue executes all work of a device, so a freed workspace may be reused immediately. */
void *tvm_cl_workspace_alloc(DLDevice device, size_t nbytes) {
  Buffer *best = NULL;
  void *data = NULL;
  pthread_mutex_lock(&memory_lock);
  for (int i = 0; i < buffer_count; ++i) {
    Buffer *b = &buffers[i];
    if (b->memory && b->idle && b->device == device.device_id && b->size >= nbytes && b->size / 4 <= nbytes + 4096 &&
        (!best || b->size < best->size))
      best = b;
  }
  if (best) {
    best->idle = false;
    data = address_of((int)(best - buffers));
  }
  pthread_mutex_unlock(&memory_lock);
  return data ? data : tvm_cl_alloc(device, nbytes, 1);
}

void tvm_cl_workspace_free(DLDevice device, void *data) {
  size_t offset;
  (void)device;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(data, &offset);
  if (b) b->idle = true;
  pthread_mutex_unlock(&memory_lock);
}

/* Converts an address to its buffer and offset; checks that `nbytes` fit. */
static int locate(int device, const void *address, size_t more, size_t nbytes, cl_mem *out, size_t *out_offset) {
  int status = 0;
  size_t offset = 0;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(address, &offset);
  *out = b ? b->memory : (cl_mem)(uintptr_t)address;
  *out_offset = offset + more;
  if (!b && ((uint64_t)(uintptr_t)address & OURS))
    status = tvm_error("opencl(%d): the array's memory was already freed", device);
  else if (b && (*out_offset > b->size || nbytes > b->size - *out_offset))
    status = tvm_error("opencl(%d): %zu bytes at offset %zu do not fit in a buffer of %zu bytes", device, nbytes,
                       *out_offset, b->size);
  pthread_mutex_unlock(&memory_lock);
  return status;
}

/* ---- copies and synchronization ---- */

/* Small writes are staged: their data is copied, so that the caller does not wait for earlier commands in the queue.
 * Larger writes, and writes beyond a total per device, block until the device has read the source. The next write or
 * synchronization frees finished staged writes. Event callbacks are not used for this: the driver calls them in its own
 * thread, and releasing an event there deadlocks with a write of the main thread in NVIDIA's driver. */
enum { STAGED_PIECE = 1 << 20, STAGED_BYTES = 16 << 20 };
typedef struct Staged { struct Staged *next; cl_event written; size_t size; char bytes[]; } Staged;
static struct { Staged *first, **end; size_t bytes; } staging[CL_MAX_DEVICES]; /* oldest write first */
static pthread_mutex_t staging_lock = PTHREAD_MUTEX_INITIALIZER;

static bool finished(cl_event event) {
  cl_int status = CL_COMPLETE; /* negative: the command failed; in both cases the source is no longer read */
  return tvm_cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) ||
         status <= CL_COMPLETE;
}

/* Requires the lock. The queue executes in order, so the first unfinished write ends the search. */
static void free_finished(int device) {
  Staged *staged;
  while ((staged = staging[device].first) && finished(staged->written)) {
    if (!(staging[device].first = staged->next)) staging[device].end = NULL;
    staging[device].bytes -= staged->size;
    tvm_cl.clReleaseEvent(staged->written);
    free(staged);
  }
}

static void collect_staged(int device) {
  pthread_mutex_lock(&staging_lock);
  free_finished(device);
  pthread_mutex_unlock(&staging_lock);
}

static Staged *stage(int device, const void *bytes, size_t nbytes) {
  if (nbytes > STAGED_PIECE || staging[device].bytes > STAGED_BYTES - nbytes) return NULL;
  Staged *staged = malloc(sizeof *staged + nbytes);
  if (!staged) return NULL;
  staged->next = NULL;
  staged->size = nbytes;
  memcpy(staged->bytes, bytes, nbytes);
  return staged;
}

/* Requires the lock. */
static cl_int write_staged(int device, cl_mem memory, size_t offset, Staged *staged) {
  cl_command_queue queue = tvm_cl_devices[device].queue;
  cl_int code = tvm_cl.clEnqueueWriteBuffer(queue, memory, 0, offset, staged->size, staged->bytes, 0, NULL, &staged->written);
  if (code) {
    free(staged);
    return code;
  }
  *(staging[device].end ? staging[device].end : &staging[device].first) = staged;
  staging[device].end = &staged->next;
  staging[device].bytes += staged->size;
  return tvm_cl.clFlush(queue);
}

static int write_from_host(int device, cl_mem memory, size_t offset, const void *source, size_t nbytes) {
  pthread_mutex_lock(&staging_lock);
  free_finished(device);
  Staged *staged = stage(device, source, nbytes);
  cl_int code = staged ? write_staged(device, memory, offset, staged) : 0;
  pthread_mutex_unlock(&staging_lock);
  if (!staged) code = tvm_cl.clEnqueueWriteBuffer(tvm_cl_devices[device].queue, memory, 1, offset, nbytes, source, 0, NULL, NULL);
  return code ? tvm_cl_failed(device, "clEnqueueWriteBuffer", code) : 0;
}

static int copy_between(const void *from, size_t from_offset, int from_id, void *to, size_t to_offset, int to_id,
                        size_t nbytes) {
  cl_mem source, target;
  size_t at, put;
  if (locate(from_id, from, from_offset, nbytes, &source, &at) || locate(to_id, to, to_offset, nbytes, &target, &put))
    return -1;
  cl_int code;
  if (from_id == to_id) {
    code = tvm_cl.clEnqueueCopyBuffer(tvm_cl_devices[to_id].queue, source, target, at, put, nbytes, 0, NULL, NULL);
    return code ? tvm_cl_failed(to_id, "clEnqueueCopyBuffer", code) : 0;
  }
  void *bytes = malloc(nbytes);
  if (!bytes) return tvm_error("copy: cannot allocate %zu bytes on the host", nbytes);
  code = tvm_cl.clEnqueueReadBuffer(tvm_cl_devices[from_id].queue, source, 1, at, nbytes, bytes, 0, NULL, NULL);
  if (!code) code = tvm_cl.clEnqueueWriteBuffer(tvm_cl_devices[to_id].queue, target, 1, put, nbytes, bytes, 0, NULL, NULL);
  free(bytes);
  return code ? tvm_cl_failed(to_id, "copying between devices", code) : 0;
}

int tvm_cl_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                       DLDevice to_device, size_t nbytes, void *stream) {
  (void)stream;
  cl_mem memory;
  size_t offset;
  bool reads = from_device.device_type == kDLOpenCL, writes = to_device.device_type == kDLOpenCL;
  if (!nbytes) return 0;
  int from_id = from_device.device_id, to_id = to_device.device_id;
  if (reads && writes) return copy_between(from, from_offset, from_id, to, to_offset, to_id, nbytes);
  cl_int code;
  if (reads) {
    if (locate(from_id, from, from_offset, nbytes, &memory, &offset)) return -1;
    char *target = (char *)to + to_offset;
    code = tvm_cl.clEnqueueReadBuffer(tvm_cl_devices[from_id].queue, memory, 1, offset, nbytes, target, 0, NULL, NULL);
    collect_staged(from_id);
    return code ? tvm_cl_failed(from_id, "clEnqueueReadBuffer", code) : 0;
  }
  if (locate(to_id, to, to_offset, nbytes, &memory, &offset)) return -1;
  return write_from_host(to_id, memory, offset, (const char *)from + from_offset, nbytes);
}

int tvm_cl_sync(DLDevice device, void *stream) {
  (void)stream;
  cl_int code = tvm_cl.clFinish(tvm_cl_devices[device.device_id].queue);
  collect_staged(device.device_id);
  return code ? tvm_cl_failed(device.device_id, "clFinish", code) : 0;
}

/* Returns the sub-buffer that starts at `offset`, which is created at its first use. Requires the lock. */
static int find_part(int device, const DeviceKernel *k, int index, Buffer *b, size_t offset, cl_mem *out) {
  for (SubBuffer *part = b->parts; part; part = part->next)
    if (part->offset == offset) return *out = part->memory, 0;
  unsigned long long alignment = tvm_cl_devices[device].alignment;
  if (offset % alignment)
    return tvm_error("kernel %s: argument %d: the array starts %zu bytes into its buffer; this device requires a multiple of "
                     "%llu: copy the view first", k->name, index, offset, alignment);
  if (offset >= b->size) return *out = b->memory, 0; /* an empty array at the end of the buffer */
  SubBuffer *part = calloc(1, sizeof *part);
  if (!part) return tvm_error("out of memory");
  cl_buffer_region region = {offset, b->size - offset};
  cl_int code;
  *out = tvm_cl.clCreateSubBuffer(b->memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  if (!*out) {
    free(part);
    return tvm_cl_failed(device, "clCreateSubBuffer", code);
  }
  *part = (SubBuffer){b->parts, offset, *out};
  b->parts = part;
  return 0;
}

int tvm_cl_kernel_memory(int device, const DeviceKernel *k, int index, const void *address, cl_mem *out) {
  size_t offset = 0;
  int status = 0;
  *out = NULL;
  if (!address) return 0;
  pthread_mutex_lock(&memory_lock);
  Buffer *b = find_buffer(address, &offset);
  if (!b && !((uint64_t)(uintptr_t)address & OURS)) *out = (cl_mem)(uintptr_t)address;
  else if (!b) status = tvm_error("kernel %s: argument %d: the array's memory was already freed", k->name, index);
  else if (b->device != device)
    status = tvm_error("kernel %s: argument %d: the array is on opencl(%d), but the kernel runs on opencl(%d)", k->name, index,
                       b->device, device);
  else if (!offset) *out = b->memory;
  else status = find_part(device, k, index, b, offset, out);
  pthread_mutex_unlock(&memory_lock);
  return status;
}

void tvm_cl_memory_fork_child(void) {
  pthread_mutex_init(&memory_lock, NULL);
  pthread_mutex_init(&staging_lock, NULL);
}
