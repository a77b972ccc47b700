/* The effect of one instruction on scratchpads and DRAM, and the checks that make it safe. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

int vta_core_open(Core *core, const Layout *layout) {
  const uint32_t *depth = layout->depth, *bytes = layout->bytes;
  *core = (Core){.layout = *layout};
  core->uop = calloc(depth[VTA_UOP], UOP_BYTES);
  core->inp = calloc(depth[VTA_INP], bytes[VTA_INP]);
  core->wgt = calloc(depth[VTA_WGT], bytes[VTA_WGT]);
  core->acc = calloc(depth[VTA_ACC], bytes[VTA_ACC]);
  if (core->uop && core->inp && core->wgt && core->acc) return 0;
  vta_core_close(core);
  return vta_error("out of memory");
}

void vta_core_close(Core *core) {
  free(core->uop);
  free(core->inp);
  free(core->wgt);
  free(core->acc);
}

/* ---- checks ---- */

static uint64_t width_of(const Insn *i) { return (uint64_t)i->x_size + i->x_pad_0 + i->x_pad_1; }
static uint64_t height_of(const Insn *i) { return (uint64_t)i->y_size + i->y_pad_0 + i->y_pad_1; }

static int check_transfer(const Layout *l, const Insn *i) {
  bool store = i->opcode == VTA_STORE;
  if (i->x_size == 0) return 0; /* transfers nothing: an instruction for tokens */
  if (i->memory >= MEMORIES || store != (i->memory == VTA_OUT))
    return vta_error("the memory type %u cannot be %s", (unsigned)i->memory, store ? "stored" : "loaded");
  if (store && (i->y_pad_0 || i->y_pad_1 || i->x_pad_0 || i->x_pad_1)) return vta_error("a store has no padding");
  uint64_t elements = width_of(i) * height_of(i);
  if (i->sram_base + elements > l->depth[i->memory])
    return vta_error("elements %u to %llu are outside the memory, which has %u", (unsigned)i->sram_base,
                     (unsigned long long)(i->sram_base + elements), (unsigned)l->depth[i->memory]);
  uint64_t bytes = l->bytes[i->memory];
  for (uint64_t y = 0; y < i->y_size; ++y) {
    uint64_t address = (i->dram_base + y * i->x_stride) * bytes;
    if (!vta_dram_range(address, i->x_size * bytes))
      return vta_error("row %llu: %llu bytes at DRAM address %llu are not inside one buffer", (unsigned long long)y,
                       (unsigned long long)(i->x_size * bytes), (unsigned long long)address);
  }
  return 0;
}

static int check_index(uint32_t uop, const char *name, uint64_t largest, uint32_t depth) {
  if (largest < depth) return 0;
  return vta_error("micro-op %u: %s %llu is outside the memory, which has %u elements", (unsigned)uop, name,
                   (unsigned long long)largest, (unsigned)depth);
}

/* The largest index of each operand is that of the last iteration, since all factors are positive. */
static int check_arithmetic(const Core *core, const Insn *i) {
  const Layout *l = &core->layout;
  bool gemm = i->opcode == VTA_GEMM;
  if (!gemm && i->alu > VTA_MUL) return vta_error("unknown ALU operation %u", (unsigned)i->alu);
  if (!vta_steps(i)) return 0;
  if (i->uop_end > l->depth[VTA_UOP])
    return vta_error("uop_end %u is outside the memory, which has %u micro-ops", (unsigned)i->uop_end, (unsigned)l->depth[VTA_UOP]);
  uint64_t out = i->iter_out - 1, in = i->iter_in - 1;
  for (uint32_t k = i->uop_bgn; k < i->uop_end; ++k) {
    Uop uop = vta_uop_decode(l, core->uop[k]);
    if (check_index(k, "accumulator", uop.dst + out * i->dst_out + in * i->dst_in, l->depth[VTA_ACC])) return -1;
    if (i->reset) continue;
    uint64_t src = uop.src + out * i->src_out + in * i->src_in, wgt = uop.wgt + out * i->wgt_out + in * i->wgt_in;
    if (gemm && check_index(k, "input", src, l->depth[VTA_INP])) return -1;
    if (gemm && check_index(k, "weight", wgt, l->depth[VTA_WGT])) return -1;
    if (!gemm && !i->use_imm && check_index(k, "source accumulator", src, l->depth[VTA_ACC])) return -1;
  }
  return 0;
}

int vta_check(const Core *core, const Insn *i) {
  if (i->opcode == VTA_FINISH) return 0;
  bool transfers = i->opcode == VTA_LOAD || i->opcode == VTA_STORE;
  return transfers ? check_transfer(&core->layout, i) : check_arithmetic(core, i);
}

uint64_t vta_steps(const Insn *i) {
  if (i->opcode == VTA_FINISH) return 0;
  if (i->opcode == VTA_LOAD || i->opcode == VTA_STORE) return i->x_size ? width_of(i) * height_of(i) : 0;
  return i->uop_end > i->uop_bgn ? (uint64_t)i->iter_out * i->iter_in * (i->uop_end - i->uop_bgn) : 0;
}

/* ---- loads and stores ---- */

/* Writes elements of a load: `from` in DRAM, or zeros if it is NULL. */
static void write_elements(Core *core, uint32_t memory, uint64_t at, uint64_t count, const void *from) {
  const Layout *l = &core->layout;
  char *base[] = {(char *)core->uop, (char *)core->wgt, (char *)core->inp, (char *)core->acc};
  if (memory != VTA_ACC_8BIT) {
    char *to = base[memory] + at * l->bytes[memory];
    if (from) memcpy(to, from, count * l->bytes[memory]);
    else memset(to, 0, count * l->bytes[memory]);
    return;
  }
  uint64_t lanes = l->bytes[VTA_ACC_8BIT];
  const int8_t *values = from;
  for (uint64_t k = 0; k < count * lanes; ++k) core->acc[at * lanes + k] = values ? values[k] : 0;
}

static void load(Core *core, const Insn *i) {
  uint64_t width = width_of(i), at = i->sram_base, bytes = core->layout.bytes[i->memory];
  write_elements(core, i->memory, at, width * i->y_pad_0, NULL);
  at += width * i->y_pad_0;
  for (uint64_t y = 0; y < i->y_size; ++y, at += width) {
    const void *row = vta_dram_range((i->dram_base + y * i->x_stride) * bytes, i->x_size * bytes);
    write_elements(core, i->memory, at, i->x_pad_0, NULL);
    write_elements(core, i->memory, at + i->x_pad_0, i->x_size, row);
    write_elements(core, i->memory, at + i->x_pad_0 + i->x_size, i->x_pad_1, NULL);
  }
  write_elements(core, i->memory, at, width * i->y_pad_1, NULL);
}

static void store(Core *core, const Insn *i) {
  uint64_t lanes = core->layout.bytes[VTA_OUT];
  const int32_t *from = core->acc + i->sram_base * lanes;
  for (uint64_t y = 0; y < i->y_size; ++y, from += i->x_size * lanes) {
    int8_t *row = vta_dram_range((i->dram_base + y * i->x_stride) * lanes, i->x_size * lanes);
    for (uint64_t k = 0; k < i->x_size * lanes; ++k) row[k] = (int8_t)(uint8_t)from[k];
  }
}

/* ---- arithmetic: two's complement, wrapping ---- */

static int32_t wrap(uint32_t bits) {
  int32_t value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int32_t shift(int32_t x, int32_t y) {
  if (y >= 0) return (int32_t)((int64_t)x >> (y > 31 ? 31 : y));
  return y < -31 ? 0 : wrap((uint32_t)x << -y);
}

static int32_t apply(uint32_t op, int32_t x, int32_t y) {
  switch (op) {
    case VTA_MIN: return x < y ? x : y;
    case VTA_MAX: return x > y ? x : y;
    case VTA_ADD: return wrap((uint32_t)x + (uint32_t)y);
    case VTA_SHR: return shift(x, y);
    default: return wrap((uint32_t)x * (uint32_t)y);
  }
}

static void multiply(const Layout *l, int32_t *acc, const int8_t *inp, const int8_t *wgt) {
  for (uint32_t b = 0; b < l->batch; ++b)
    for (uint32_t o = 0; o < l->block; ++o) {
      int32_t sum = 0;
      for (uint32_t k = 0; k < l->block; ++k) sum += inp[b * l->block + k] * wgt[o * l->block + k];
      acc[b * l->block + o] = wrap((uint32_t)acc[b * l->block + o] + (uint32_t)sum);
    }
}

static void one_uop(Core *core, const Insn *i, uint64_t dst, uint64_t src, uint64_t wgt) {
  const Layout *l = &core->layout;
  uint32_t lanes = l->bytes[VTA_OUT];
  int32_t *acc = core->acc + dst * lanes;
  if (i->reset) {
    memset(acc, 0, lanes * sizeof *acc);
  } else if (i->opcode == VTA_GEMM) {
    multiply(l, acc, core->inp + src * l->bytes[VTA_INP], core->wgt + wgt * l->bytes[VTA_WGT]);
  } else if (i->use_imm) {
    int32_t imm = (int32_t)i->imm - (i->imm >> 15 ? 65536 : 0);
    for (uint32_t k = 0; k < lanes; ++k) acc[k] = apply(i->alu, acc[k], imm);
  } else {
    const int32_t *other = core->acc + src * lanes;
    for (uint32_t k = 0; k < lanes; ++k) acc[k] = apply(i->alu, acc[k], other[k]);
  }
}

static void arithmetic(Core *core, const Insn *i) {
  for (uint64_t out = 0; out < i->iter_out; ++out)
    for (uint64_t in = 0; in < i->iter_in; ++in)
      for (uint32_t k = i->uop_bgn; k < i->uop_end; ++k) {
        Uop uop = vta_uop_decode(&core->layout, core->uop[k]);
        one_uop(core, i, uop.dst + out * i->dst_out + in * i->dst_in, uop.src + out * i->src_out + in * i->src_in,
                uop.wgt + out * i->wgt_out + in * i->wgt_in);
      }
}

static void count(Core *core, const Insn *i) {
  VTAStats *s = &core->stats;
  const uint32_t *bytes = core->layout.bytes;
  uint64_t elements = (uint64_t)i->x_size * i->y_size;
  ++s->instructions;
  if (i->opcode == VTA_STORE) s->out_store_nbytes += elements * bytes[VTA_OUT];
  else if (i->opcode == VTA_GEMM) s->gemm_counter += i->reset ? 0 : vta_steps(i);
  else if (i->opcode == VTA_ALU) s->alu_counter += vta_steps(i);
  if (i->opcode != VTA_LOAD || i->x_size == 0) return;
  uint64_t *loaded[] = {&s->uop_load_nbytes, &s->wgt_load_nbytes, &s->inp_load_nbytes, &s->acc_load_nbytes, NULL,
                        &s->acc_load_nbytes};
  *loaded[i->memory] += elements * bytes[i->memory];
}

void vta_execute(Core *core, const Insn *i) {
  count(core, i);
  bool loads_uops = i->opcode == VTA_LOAD && i->memory == VTA_UOP;
  if (i->opcode == VTA_FINISH || !vta_steps(i) || (core->skip && !loads_uops)) return;
  if (i->opcode == VTA_LOAD) load(core, i);
  else if (i->opcode == VTA_STORE) store(core, i);
  else arithmetic(core, i);
}
