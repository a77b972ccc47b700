/* The configuration: defaults, checks, and the sizes that follow from it. */
#include "core.h"

void VTADefaultConfig(VTAConfig *config) {
  *config = (VTAConfig){
      .size = sizeof *config, .mode = VTA_FUNCTIONAL, .log_inp_width = 3, .log_wgt_width = 3, .log_acc_width = 5,
      .log_batch = 0, .log_block = 4, .log_uop_buff_size = 15, .log_inp_buff_size = 15, .log_wgt_buff_size = 18,
      .log_acc_buff_size = 17, .log_bus_width = 6, .dram_latency = 40, .queue_depth = 512, .log_dram_size = 30};
}

static int check_values(const VTAConfig *c) {
  if (c->size != sizeof *c) return vta_error("configuration: this library expects another structure VTAConfig");
  if (c->mode > VTA_CYCLES) return vta_error("configuration: unknown mode %u", (unsigned)c->mode);
  if (c->log_inp_width != 3 || c->log_wgt_width != 3 || c->log_acc_width != 5)
    return vta_error("configuration: inputs and weights must have 8 bits, accumulators 32 bits");
  if (c->log_block > 6 || c->log_batch > 6 || c->log_batch + c->log_block > 10)
    return vta_error("configuration: LOG_BATCH and LOG_BLOCK must be at most 6, and 10 together");
  if (c->log_bus_width < 3 || c->log_bus_width > 10)
    return vta_error("configuration: LOG_BUS_WIDTH is %u; it must be between 3 and 10", (unsigned)c->log_bus_width);
  if (c->dram_latency < 1 || c->dram_latency > 4096)
    return vta_error("configuration: DRAM_LATENCY is %u; it must be between 1 and 4096", (unsigned)c->dram_latency);
  if (c->queue_depth < 1 || c->queue_depth > 65536)
    return vta_error("configuration: QUEUE_DEPTH is %u; it must be between 1 and 65536", (unsigned)c->queue_depth);
  if (c->log_dram_size < 16 || c->log_dram_size > 34)
    return vta_error("configuration: LOG_DRAM_SIZE is %u; it must be between 16 and 34", (unsigned)c->log_dram_size);
  return 0;
}

/* The number of bits of an index into a memory of this size. */
static int index_bits(const char *name, uint32_t log_size, uint32_t log_bytes, uint32_t *out) {
  if (log_size <= log_bytes || log_size - log_bytes > 16)
    return vta_error("configuration: %s is %u; with elements of %u bytes it must be between %u and %u", name,
                     (unsigned)log_size, 1u << log_bytes, (unsigned)log_bytes + 1, (unsigned)log_bytes + 16);
  *out = log_size - log_bytes;
  return 0;
}

int vta_layout(const VTAConfig *c, Layout *l) {
  if (check_values(c)) return -1;
  uint32_t inp = c->log_batch + c->log_block, wgt = 2 * c->log_block, acc = inp + 2;
  l->config = *c;
  l->batch = 1u << c->log_batch;
  l->block = 1u << c->log_block;
  if (index_bits("LOG_UOP_BUFF_SIZE", c->log_uop_buff_size, 2, &l->uop_bits) ||
      index_bits("LOG_INP_BUFF_SIZE", c->log_inp_buff_size, inp, &l->inp_bits) ||
      index_bits("LOG_WGT_BUFF_SIZE", c->log_wgt_buff_size, wgt, &l->wgt_bits) ||
      index_bits("LOG_ACC_BUFF_SIZE", c->log_acc_buff_size, acc, &l->acc_bits))
    return -1;
  l->src_bits = l->acc_bits > l->inp_bits ? l->acc_bits : l->inp_bits;
  if (l->uop_bits > 13) return vta_error("configuration: the micro-op memory may have at most 8192 micro-ops");
  if (l->acc_bits > 11) return vta_error("configuration: the accumulator memory may have at most 2048 elements");
  if (l->acc_bits + l->src_bits + l->wgt_bits > 32)
    return vta_error("configuration: the three indices of a micro-op have %u bits; at most 32 fit",
                     (unsigned)(l->acc_bits + l->src_bits + l->wgt_bits));
  if (2 * (l->acc_bits + l->inp_bits + l->wgt_bits) > 64)
    return vta_error("configuration: the factors of a GEMM instruction have %u bits; at most 64 fit",
                     (unsigned)(2 * (l->acc_bits + l->inp_bits + l->wgt_bits)));
  const uint32_t logs[MEMORIES] = {2, wgt, inp, acc, inp, inp};
  const uint32_t bits[MEMORIES] = {l->uop_bits, l->wgt_bits, l->inp_bits, l->acc_bits, l->acc_bits, l->acc_bits};
  for (int m = 0; m < MEMORIES; ++m) {
    uint32_t bus = c->log_bus_width - 3;
    l->bytes[m] = 1u << logs[m];
    l->depth[m] = 1u << bits[m];
    l->beats[m] = logs[m] > bus ? 1u << (logs[m] - bus) : 1;
  }
  return 0;
}
