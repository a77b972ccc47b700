/* The command stream of a thread: loads, stores, tokens, and running it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

enum { MOST_INSTRUCTIONS = 1 << 24 };
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int vta_grow(void **data, uint32_t *room, uint32_t count, size_t element) {
  if (count < *room) return 0;
  uint32_t larger = *room ? 2 * *room : 64;
  void *grown = realloc(*data, larger * element);
  if (!grown) return vta_error("out of memory");
  *data = grown;
  *room = larger;
  return 0;
}

/* ---- the stream of a thread ---- */

static void empty(Stream *s) {
  s->count = s->uop_count = s->fix_count = s->sram_next = 0;
  s->failed = false;
  memset(s->pending, 0, sizeof s->pending);
  ++s->program;
}

static void stream_free(void *self) {
  Stream *s = self;
  vta_kernels_free(s);
  free(s->code);
  free(s->uops);
  free(s->fixes);
  free(s);
}

static void make_key(void) { pthread_key_create(&key, stream_free); }

Stream *vta_stream(void) {
  Device *device = vta_device();
  if (!device) return NULL;
  pthread_once(&once, make_key);
  Stream *s = pthread_getspecific(key);
  if (!s) {
    if (!(s = calloc(1, sizeof *s))) return vta_error("out of memory"), NULL;
    pthread_setspecific(key, s);
  }
  uint32_t generation = __atomic_load_n(&device->generation, __ATOMIC_ACQUIRE);
  if (s->generation != generation) {
    pthread_mutex_lock(&device->lock);
    s->generation = device->generation;
    s->layout = device->core.layout;
    pthread_mutex_unlock(&device->lock);
    vta_kernels_free(s);
    empty(s);
  }
  return s;
}

void *VTATLSCommandHandle(void) { return vta_stream(); }

int vta_stream_fail(Stream *s) {
  if (!s->failed) snprintf(s->message, sizeof s->message, "%s", VTALastError());
  s->failed = true;
  return -1;
}

/* The stream that a caller passes must be that of its thread. */
static Stream *open_stream(void *command) {
  Stream *s = vta_stream();
  if (!s) return NULL;
  if (s != command) return vta_error("the command handle belongs to another thread"), NULL;
  if (s->failed) return vta_error("%s", s->message), NULL;
  return s;
}

int VTASetDebugMode(void *command, int flags) {
  Stream *s = open_stream(command);
  if (!s) return -1;
  if (flags & ~VTA_DEBUG_FORCE_SERIAL) {
    vta_error("VTASetDebugMode: unknown flags %d; known: %d (force serial)", flags, VTA_DEBUG_FORCE_SERIAL);
    return vta_stream_fail(s);
  }
  s->debug = flags;
  return 0;
}

/* ---- instructions and tokens ---- */

static int append(Stream *s, const Insn *insn) {
  if (s->count == MOST_INSTRUCTIONS) return vta_error("a program may have at most %d instructions", MOST_INSTRUCTIONS);
  if (vta_grow((void **)&s->code, &s->room, s->count, INSTRUCTION_BYTES)) return -1;
  if (vta_encode(&s->layout, insn, s->code + (size_t)s->count * INSTRUCTION_BYTES)) return -1;
  ++s->count;
  return 0;
}

int vta_stream_push(Stream *s, Insn insn) {
  Module m = vta_module_of(&insn);
  insn.pop_prev = s->pending[m][0];
  insn.pop_next = s->pending[m][1];
  s->pending[m][0] = s->pending[m][1] = false;
  return append(s, &insn);
}

/* An instruction of a module that transfers nothing. */
static Insn no_op(Module m) {
  static const uint32_t memory[] = {VTA_INP, VTA_UOP, VTA_OUT};
  return (Insn){.opcode = m == MODULE_STORE ? VTA_STORE : VTA_LOAD, .memory = memory[m]};
}

static int flush_pops(Stream *s, Module m) {
  return s->pending[m][0] || s->pending[m][1] ? vta_stream_push(s, no_op(m)) : 0;
}

static int check_queues(int from, int to) {
  bool known = from >= VTA_STAGE_LOAD && from <= VTA_STAGE_STORE && to >= VTA_STAGE_LOAD && to <= VTA_STAGE_STORE;
  if (known && (from - to == 1 || to - from == 1)) return 0;
  return vta_error("no tokens go from queue %d to queue %d; neighbours are load 1, compute 2, store 3", from, to);
}

static int dep_push(Stream *s, int from, int to) {
  Module m = (Module)(from - 1);
  if (check_queues(from, to) || flush_pops(s, m)) return -1;
  Insn last = {0};
  uint8_t *at = s->count ? s->code + (size_t)(s->count - 1) * INSTRUCTION_BYTES : NULL;
  if (at && vta_decode(&s->layout, at, &last)) return -1;
  uint32_t *flag = from < to ? &last.push_next : &last.push_prev;
  if (at && vta_module_of(&last) == m && !*flag) {
    *flag = 1;
    return vta_encode(&s->layout, &last, at);
  }
  Insn insn = no_op(m);
  if (from < to) insn.push_next = 1;
  else insn.push_prev = 1;
  return append(s, &insn);
}

static int dep_pop(Stream *s, int from, int to) {
  Module m = (Module)(to - 1);
  if (check_queues(from, to)) return -1;
  bool *flag = &s->pending[m][from > to];
  if (*flag && flush_pops(s, m)) return -1;
  *flag = true;
  return 0;
}

int VTADepPush(void *command, int from_qid, int to_qid) {
  Stream *s = open_stream(command);
  if (!s) return -1;
  return dep_push(s, from_qid, to_qid) ? vta_stream_fail(s) : 0;
}

int VTADepPop(void *command, int from_qid, int to_qid) {
  Stream *s = open_stream(command);
  if (!s) return -1;
  return dep_pop(s, from_qid, to_qid) ? vta_stream_fail(s) : 0;
}

/* ---- transfers ---- */

/* The address of a transfer in elements of the memory. */
static int dram_base(Stream *s, const void *pointer, uint32_t offset, uint32_t memory, uint32_t *out) {
  if (memory >= MEMORIES) return vta_error("unknown memory type %u", (unsigned)memory);
  int64_t address = vta_dram_address(pointer), bytes = s->layout.bytes[memory];
  if (address < 0) return vta_error("%p is not an address of device memory", pointer);
  if (address % bytes) return vta_error("the device address is not a multiple of %d bytes, the size of an element", (int)bytes);
  uint64_t base = (uint64_t)(address / bytes) + offset;
  if (base > UINT32_MAX) return vta_error("the device address does not fit the instruction");
  *out = (uint32_t)base;
  return 0;
}

static int transfer(Stream *s, Insn insn, const void *pointer, uint32_t offset) {
  if (dram_base(s, pointer, offset, insn.memory, &insn.dram_base)) return -1;
  return vta_stream_push(s, insn);
}

int VTALoadBuffer2D(void *command, void *src_dram_addr, uint32_t src_elem_offset, uint32_t x_size, uint32_t y_size,
                    uint32_t x_stride, uint32_t x_pad_before, uint32_t y_pad_before, uint32_t x_pad_after,
                    uint32_t y_pad_after, uint32_t dst_sram_index, uint32_t dst_memory_type) {
  Stream *s = open_stream(command);
  if (!s) return -1;
  Insn insn = {.opcode = VTA_LOAD, .memory = dst_memory_type, .sram_base = dst_sram_index, .y_size = y_size,
               .x_size = x_size, .x_stride = x_stride, .y_pad_0 = y_pad_before, .y_pad_1 = y_pad_after,
               .x_pad_0 = x_pad_before, .x_pad_1 = x_pad_after};
  return transfer(s, insn, src_dram_addr, src_elem_offset) ? vta_stream_fail(s) : 0;
}

int VTAStoreBuffer2D(void *command, uint32_t src_sram_index, uint32_t src_memory_type, void *dst_dram_addr,
                     uint32_t dst_elem_offset, uint32_t x_size, uint32_t y_size, uint32_t x_stride) {
  Stream *s = open_stream(command);
  if (!s) return -1;
  Insn insn = {.opcode = VTA_STORE, .memory = src_memory_type, .sram_base = src_sram_index, .y_size = y_size,
               .x_size = x_size, .x_stride = x_stride};
  return transfer(s, insn, dst_dram_addr, dst_elem_offset) ? vta_stream_fail(s) : 0;
}

/* ---- running ---- */

/* Puts a token between every two instructions of different modules, in place of those that the stream has. Load and
 * store are not neighbours: an instruction of the compute module passes the token on. */
static int make_serial(Stream *s) {
  uint32_t count = s->count;
  uint8_t *code = s->code;
  s->code = NULL;
  s->count = s->room = 0;
  int status = 0, at = VTA_STAGE_COMPUTE;
  uint32_t fix = 0;
  for (uint32_t k = 0; k < count && !status; ++k) {
    Insn insn;
    status = vta_decode(&s->layout, code + (size_t)k * INSTRUCTION_BYTES, &insn);
    insn.pop_prev = insn.pop_next = insn.push_prev = insn.push_next = 0;
    int to = (int)vta_module_of(&insn) + 1;
    while (at != to && !status) {
      int next = at < to ? at + 1 : at - 1;
      status = dep_push(s, at, next) || dep_pop(s, at, next) || (next != to && flush_pops(s, (Module)(next - 1)));
      at = next;
    }
    status = status || vta_stream_push(s, insn);
    if (fix < s->fix_count && s->fixes[fix] == k) s->fixes[fix++] = s->count - 1;
  }
  free(code);
  return status ? -1 : 0;
}

/* Lets the compute module wait for the last load and the last store, and ends the program. */
static int finish(Stream *s) {
  for (int m = 0; m < MODULES; ++m)
    if (flush_pops(s, (Module)m)) return -1;
  if ((s->debug & VTA_DEBUG_FORCE_SERIAL) && make_serial(s)) return -1;
  const int ends[] = {VTA_STAGE_STORE, VTA_STAGE_LOAD};
  for (int k = 0; k < 2; ++k)
    if (dep_push(s, ends[k], VTA_STAGE_COMPUTE) || dep_pop(s, ends[k], VTA_STAGE_COMPUTE)) return -1;
  Insn end = {.opcode = VTA_FINISH};
  return vta_stream_push(s, end);
}

/* Copies the micro-ops to DRAM and completes the instructions that load them. */
static int place_uops(Stream *s, void **out) {
  *out = NULL;
  if (!s->uop_count) return 0;
  char *data = VTABufferAlloc((size_t)s->uop_count * UOP_BYTES);
  if (!data) return -1;
  *out = data;
  memcpy(data, s->uops, (size_t)s->uop_count * UOP_BYTES);
  for (uint32_t f = 0; f < s->fix_count; ++f) {
    Insn load;
    uint8_t *at = s->code + (size_t)s->fixes[f] * INSTRUCTION_BYTES;
    vta_decode(&s->layout, at, &load);
    load.dram_base += (uint32_t)(vta_dram_address(data) / UOP_BYTES);
    if (vta_encode(&s->layout, &load, at)) return -1;
  }
  return 0;
}

int VTASynchronize(void *command, uint32_t wait_cycles) {
  Stream *s = vta_stream();
  if (!s) return -1;
  if (s != command) return vta_error("the command handle belongs to another thread");
  void *uops = NULL;
  int status = 0;
  if (s->failed) status = vta_error("%s", s->message);
  else if (s->count || s->pending[0][1] || s->pending[1][0] || s->pending[1][1] || s->pending[2][0])
    status = finish(s) || place_uops(s, &uops) || VTARun(s->code, s->count, wait_cycles) ? -1 : 0;
  VTABufferFree(uops);
  empty(s);
  return status;
}
