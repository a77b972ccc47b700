/* Micro-op kernels: recorded once for each call site and signature, loaded into the scratchpad when a program needs
 * them. */
#include <stdlib.h>
#include <string.h>

#include "stream.h"

enum { MOST_CACHED = 1 << 20 };
static _Thread_local UopKernel *recording;

static void kernel_free(UopKernel *kernel) {
  free(kernel->signature);
  free(kernel->uops);
  free(kernel);
}

void vta_kernels_free(Stream *s) {
  for (int b = 0; b < BUCKETS; ++b) {
    for (UopKernel *k = s->buckets[b], *next; k; k = next) {
      next = k->next;
      kernel_free(k);
    }
    s->buckets[b] = NULL;
  }
  s->cached = 0;
}

/* ---- recording ---- */

static int not_recording(const char *name) {
  return vta_error("%s: only a function that VTAPushGEMMOp or VTAPushALUOp calls can record micro-ops", name);
}

int VTAUopLoopBegin(uint32_t extent, uint32_t dst_factor, uint32_t src_factor, uint32_t wgt_factor) {
  UopKernel *k = recording;
  if (!k) return not_recording("VTAUopLoopBegin");
  if (k->count || k->loop_count == 2) return vta_error("VTAUopLoopBegin: a kernel has at most two loops, around all of its micro-ops");
  k->loops[k->loop_count++] = (Loop){extent, dst_factor, src_factor, wgt_factor};
  ++k->open_loops;
  return 0;
}

int VTAUopLoopEnd(void) {
  UopKernel *k = recording;
  if (!k) return not_recording("VTAUopLoopEnd");
  if (!k->open_loops) return vta_error("VTAUopLoopEnd: no loop is open");
  --k->open_loops;
  return 0;
}

int VTAUopPush(uint32_t mode, uint32_t reset_out, uint32_t dst_index, uint32_t src_index, uint32_t wgt_index,
               uint32_t opcode, uint32_t use_imm, int32_t imm_val) {
  UopKernel *k = recording;
  Stream *s = vta_stream();
  if (!k || !s) return not_recording("VTAUopPush");
  if (mode > 1) return vta_error("VTAUopPush: the mode is %u; 0 is GEMM and 1 is ALU", (unsigned)mode);
  if (k->open_loops < k->loop_count) return vta_error("VTAUopPush: a loop of the kernel has ended before this micro-op");
  if (mode == 0) opcode = use_imm = 0, imm_val = 0;
  if (k->is_set && (k->mode != mode || k->reset != reset_out || k->opcode != opcode || k->use_imm != use_imm || k->imm != imm_val))
    return vta_error("VTAUopPush: all micro-ops of a kernel must have the same mode, reset flag, operation and immediate");
  k->is_set = true;
  k->mode = mode;
  k->reset = reset_out;
  k->opcode = opcode;
  k->use_imm = use_imm;
  k->imm = imm_val;
  uint32_t word;
  if (vta_uop_encode(&s->layout, (Uop){dst_index, src_index, wgt_index}, &word)) return -1;
  if (vta_grow((void **)&k->uops, &k->room, k->count, sizeof *k->uops)) return -1;
  k->uops[k->count++] = word;
  return 0;
}

static UopKernel *record(Stream *s, uint64_t site, int (*finit)(void *), void *signature, int nbytes) {
  if (s->cached > MOST_CACHED) vta_kernels_free(s);
  UopKernel *k = calloc(1, sizeof *k), *outer = recording;
  if (!k || !(k->signature = malloc(nbytes ? (size_t)nbytes : 1))) {
    free(k);
    vta_error("out of memory");
    return NULL;
  }
  k->site = site;
  k->nbytes = nbytes;
  if (nbytes) memcpy(k->signature, signature, (size_t)nbytes);
  recording = k;
  int status = finit(signature);
  recording = outer;
  if (!status && k->open_loops) status = vta_error("a loop of the recorded micro-ops was not closed");
  if (!status && !k->count) status = vta_error("the recorded kernel has no micro-ops");
  if (!status && k->count > s->layout.depth[VTA_UOP])
    status = vta_error("the recorded kernel has %u micro-ops; the memory has %u", (unsigned)k->count,
                       (unsigned)s->layout.depth[VTA_UOP]);
  if (!status) return k;
  kernel_free(k);
  return NULL;
}

static uint32_t bucket_of(uint64_t site, const unsigned char *bytes, int count) {
  uint64_t hash = 14695981039346656037u ^ site;
  for (int k = 0; k < count; ++k) hash = (hash ^ bytes[k]) * 1099511628211u;
  return (uint32_t)(hash >> 20) % BUCKETS;
}

/* The number of a call site: stored in its handle, so that it is another one when the code is loaded anew. */
static uint64_t site_of(void **handle) {
  static uintptr_t last;
  void *none = NULL, *mine = (void *)__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  bool set = __atomic_compare_exchange_n(handle, &none, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return (uint64_t)(uintptr_t)(set ? mine : none);
}

static UopKernel *find(Stream *s, void **handle, int (*finit)(void *), void *signature, int nbytes) {
  uint64_t site = site_of(handle);
  UopKernel **bucket = &s->buckets[bucket_of(site, signature, nbytes)];
  for (UopKernel *k = *bucket; k; k = k->next)
    if (k->site == site && k->nbytes == nbytes && (!nbytes || !memcmp(k->signature, signature, (size_t)nbytes))) return k;
  UopKernel *k = record(s, site, finit, signature, nbytes);
  if (!k) return NULL;
  k->next = *bucket;
  *bucket = k;
  s->cached += k->count;
  return k;
}

/* ---- instructions ---- */

/* Loads the micro-ops into the scratchpad unless this program has already loaded them there. When the end of the memory
 * is reached, loading begins at its start again and all earlier kernels are absent. */
static int make_resident(Stream *s, UopKernel *k) {
  if (k->resident == s->program) return 0;
  if (s->sram_next + k->count > s->layout.depth[VTA_UOP]) {
    s->sram_next = 0;
    ++s->program;
  }
  for (uint32_t u = 0; u < k->count; ++u) {
    if (vta_grow((void **)&s->uops, &s->uop_room, s->uop_count, sizeof *s->uops)) return -1;
    s->uops[s->uop_count++] = k->uops[u];
  }
  if (vta_grow((void **)&s->fixes, &s->fix_room, s->fix_count, sizeof *s->fixes)) return -1;
  Insn load = {.opcode = VTA_LOAD, .memory = VTA_UOP, .sram_base = s->sram_next, .dram_base = s->uop_count - k->count,
               .x_size = k->count, .y_size = 1, .x_stride = k->count};
  if (vta_stream_push(s, load)) return -1;
  s->fixes[s->fix_count++] = s->count - 1;
  k->resident = s->program;
  k->at = s->sram_next;
  s->sram_next += k->count;
  return 0;
}

int vta_push_kernel(Stream *s, UopKernel *k, uint32_t mode) {
  if (k->mode != mode) return vta_error("the recorded micro-ops are for %s", mode ? "GEMM, not for the ALU" : "the ALU, not for GEMM");
  if (mode && k->imm != (int16_t)k->imm) return vta_error("the immediate %d does not fit 16 bits", (int)k->imm);
  if (make_resident(s, k)) return -1;
  const Loop one = {1, 0, 0, 0};
  Loop out = k->loop_count ? k->loops[0] : one, in = k->loop_count > 1 ? k->loops[1] : one;
  Insn insn = {.opcode = mode ? VTA_ALU : VTA_GEMM, .reset = k->reset, .uop_bgn = k->at, .uop_end = k->at + k->count,
               .iter_out = out.extent, .iter_in = in.extent, .dst_out = out.dst, .dst_in = in.dst, .src_out = out.src,
               .src_in = in.src, .wgt_out = out.wgt, .wgt_in = in.wgt, .alu = k->opcode, .use_imm = k->use_imm,
               .imm = (uint32_t)k->imm & 0xFFFF};
  return vta_stream_push(s, insn);
}

static int push(void **handle, int (*finit)(void *), void *signature, int nbytes, uint32_t mode) {
  Stream *s = vta_stream();
  if (!s) return -1;
  if (s->failed) return vta_error("%s", s->message);
  if (!handle || !finit || nbytes < 0 || (nbytes && !signature)) {
    vta_error("VTAPushGEMMOp, VTAPushALUOp: the handle, the function or the signature is missing");
    return vta_stream_fail(s);
  }
  UopKernel *k = find(s, handle, finit, signature, nbytes);
  return !k || vta_push_kernel(s, k, mode) ? vta_stream_fail(s) : 0;
}

int VTAPushGEMMOp(void **uop_handle, int (*finit)(void *), void *signature, int nbytes) {
  return push(uop_handle, finit, signature, nbytes, 0);
}

int VTAPushALUOp(void **uop_handle, int (*finit)(void *), void *signature, int nbytes) {
  return push(uop_handle, finit, signature, nbytes, 1);
}
