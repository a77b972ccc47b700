/* The command stream, and hostile instruction streams. Built without the runtime; TVM_FUZZ_CASES and TVM_TEST_SEED set
 * the number of streams and their seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core.h"

#define CHECK(condition)                                                                                       \
  do {                                                                                                         \
    if (!(condition)) {                                                                                        \
      fprintf(stderr, "%s:%d: %s failed; last error: %s\n", __FILE__, __LINE__, #condition, VTALastError());   \
      exit(1);                                                                                                 \
    }                                                                                                          \
  } while (0)
#define REFUSES(call, part) CHECK((call) == -1 && strstr(VTALastError(), part))

static uint64_t state;

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

/* ---- the command stream: two row tiles of a matmul, in the way that compiled code writes it ---- */

typedef struct { uint32_t rows, shift; } Signature;
static int recorded;

static int record_reset(void *self) {
  const Signature *s = self;
  ++recorded;
  VTAUopLoopBegin(s->rows, 1, 0, 0);
  VTAUopPush(0, 1, 0, 0, 0, 0, 0, 0);
  return VTAUopLoopEnd();
}

static int record_gemm(void *self) {
  const Signature *s = self;
  ++recorded;
  VTAUopLoopBegin(s->rows, 1, 1, 0);
  VTAUopPush(0, 0, 0, 0, 0, 0, 0, 0);
  return VTAUopLoopEnd();
}

static int record_shift(void *self) {
  const Signature *s = self;
  ++recorded;
  VTAUopLoopBegin(s->rows, 1, 1, 0);
  VTAUopPush(1, 0, 0, 0, 0, VTA_SHR, 1, (int32_t)s->shift);
  return VTAUopLoopEnd();
}

static int record_nothing(void *self) { return 0; }
static int record_wrong(void *self) { return VTAUopPush(0, 0, 1 << 20, 0, 0, 0, 0, 0); }

enum { ROWS = 5, LANES = 16 };
static void *handles[3];

static void push_tile(void *cmd, int8_t *inp, int8_t *wgt, int8_t *out, uint32_t tile) {
  Signature signature = {ROWS, 4};
  if (tile) CHECK(!VTADepPop(cmd, VTA_STAGE_COMPUTE, VTA_STAGE_LOAD));
  CHECK(!VTALoadBuffer2D(cmd, inp, tile * ROWS, ROWS, 1, ROWS, 0, 0, 0, 0, 0, VTA_INP));
  CHECK(!VTALoadBuffer2D(cmd, wgt, 0, 1, 1, 1, 0, 0, 0, 0, 0, VTA_WGT));
  CHECK(!VTADepPush(cmd, VTA_STAGE_LOAD, VTA_STAGE_COMPUTE));
  CHECK(!VTADepPop(cmd, VTA_STAGE_LOAD, VTA_STAGE_COMPUTE));
  if (tile) CHECK(!VTADepPop(cmd, VTA_STAGE_STORE, VTA_STAGE_COMPUTE));
  CHECK(!VTAPushGEMMOp(&handles[0], record_reset, &signature, sizeof signature));
  CHECK(!VTAPushGEMMOp(&handles[1], record_gemm, &signature, sizeof signature));
  if (!tile) CHECK(!VTADepPush(cmd, VTA_STAGE_COMPUTE, VTA_STAGE_LOAD));
  CHECK(!VTAPushALUOp(&handles[2], record_shift, &signature, sizeof signature));
  CHECK(!VTADepPush(cmd, VTA_STAGE_COMPUTE, VTA_STAGE_STORE));
  CHECK(!VTADepPop(cmd, VTA_STAGE_COMPUTE, VTA_STAGE_STORE));
  CHECK(!VTAStoreBuffer2D(cmd, 0, VTA_OUT, out, tile * ROWS, ROWS, 1, ROWS));
  if (!tile) CHECK(!VTADepPush(cmd, VTA_STAGE_STORE, VTA_STAGE_COMPUTE));
}

static void check_matmul(const int8_t *inp, const int8_t *wgt, const int8_t *out) {
  for (int r = 0; r < 2 * ROWS; ++r)
    for (int o = 0; o < LANES; ++o) {
      int32_t sum = 0;
      for (int k = 0; k < LANES; ++k) sum += inp[r * LANES + k] * wgt[o * LANES + k];
      CHECK(out[r * LANES + o] == (int8_t)(uint8_t)(sum >> 4));
    }
}

static void test_stream(uint32_t mode, int debug) {
  VTAConfig config;
  VTADefaultConfig(&config);
  config.mode = mode;
  CHECK(!VTAConfigure(&config));
  void *cmd = VTATLSCommandHandle();
  CHECK(cmd && !VTASetDebugMode(cmd, debug));
  int8_t *inp = VTABufferAlloc(2 * ROWS * LANES), *wgt = VTABufferAlloc(LANES * LANES), *out = VTABufferAlloc(2 * ROWS * LANES);
  for (int k = 0; k < 2 * ROWS * LANES; ++k) inp[k] = (int8_t)draw(256);
  for (int k = 0; k < LANES * LANES; ++k) wgt[k] = (int8_t)draw(256);
  int before = recorded;
  for (int run = 0; run < 2; ++run) {
    memset(out, 0, 2 * ROWS * LANES);
    for (uint32_t tile = 0; tile < 2; ++tile) push_tile(cmd, inp, wgt, out, tile);
    CHECK(!VTASynchronize(cmd, 1u << 31));
    check_matmul(inp, wgt, out);
  }
  CHECK(recorded == before + 3); /* once for each call site and configuration */
  CHECK(!VTASynchronize(cmd, 1)); /* an empty stream */
  VTABufferFree(inp), VTABufferFree(wgt), VTABufferFree(out);
  CHECK(!VTASetDebugMode(cmd, 0));
}

static void test_errors(void) {
  void *cmd = VTATLSCommandHandle(), *none = NULL;
  int8_t *data = VTABufferAlloc(64);
  REFUSES(VTALoadBuffer2D(cmd, &none, 0, 1, 1, 1, 0, 0, 0, 0, 0, VTA_INP), "is not an address of device memory");
  REFUSES(VTADepPush(cmd, 1, 2), "is not an address of device memory"); /* the first error stays */
  REFUSES(VTASynchronize(cmd, 100), "is not an address of device memory");
  CHECK(!VTASynchronize(cmd, 100));
  REFUSES(VTALoadBuffer2D(cmd, data + 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, VTA_INP), "not a multiple of 16 bytes");
  REFUSES(VTASynchronize(cmd, 100), "not a multiple");
  REFUSES(VTALoadBuffer2D(cmd, data, 0, 1, 1, 1, 16, 0, 0, 0, 0, VTA_INP), "LOAD: the value of x_pad_0 is too large");
  VTASynchronize(cmd, 100);
  REFUSES(VTAPushGEMMOp(&none, record_nothing, NULL, 0), "has no micro-ops");
  VTASynchronize(cmd, 100);
  REFUSES(VTAPushGEMMOp(&none, record_wrong, NULL, 0), "dst_idx is too large");
  VTASynchronize(cmd, 100);
  Signature signature = {1, 1};
  REFUSES(VTAPushGEMMOp(&handles[2], record_shift, &signature, sizeof signature), "are for the ALU, not for GEMM");
  VTASynchronize(cmd, 100);
  REFUSES(VTADepPop(cmd, 1, 3), "no tokens go from queue 1 to queue 3");
  VTASynchronize(cmd, 100);
  REFUSES(VTAUopPush(0, 0, 0, 0, 0, 0, 0, 0), "only a function that VTAPushGEMMOp");
  REFUSES(VTAUopLoopBegin(1, 1, 1, 1), "only a function that");
  REFUSES(VTAUopLoopEnd(), "only a function that");
  REFUSES(VTASetDebugMode(cmd, 2), "unknown flags 2");
  VTASynchronize(cmd, 100);
  REFUSES(VTASetDebugMode(&none, 0), "belongs to another thread");
  REFUSES(VTABufferFree(data + 1), "is not the address of a buffer");
  CHECK(VTABufferCPUPtr(cmd, data) == data && !VTABufferCPUPtr(cmd, &none));
  REFUSES(VTABufferCopy(data, 60, &none, 0, 8, 0), "are not inside one buffer");
  CHECK(!VTAReadBarrier(cmd, data, 8, 0, 64));
  REFUSES(VTAWriteBarrier(cmd, data, 8, 1, 64), "VTAWriteBarrier: elements 1 to 65 of 8 bits");
  CHECK(!VTADepPop(cmd, 1, 2));
  REFUSES(VTASynchronize(cmd, 100), "deadlock; ");
  CHECK(!VTABufferFree(data));
}

/* ---- hostile streams ---- */

enum { MOST = 24, BYTES = 16384 };

static Insn random_insn(const Layout *l, uint64_t base) {
  bool small = draw(2);
  uint32_t most = small ? 4 : 70000, index = small ? 16 : 1u << 14;
  Insn i = {.opcode = (uint32_t)draw(5), .memory = (uint32_t)draw(6)};
  if (draw(3) == 0) i.pop_prev = draw(2), i.pop_next = draw(2), i.push_prev = draw(2), i.push_next = draw(2);
  if (vta_module_of(&i) == MODULE_LOAD) i.pop_prev = i.push_prev = 0;
  if (vta_module_of(&i) == MODULE_STORE) i.pop_next = i.push_next = 0, i.memory = VTA_OUT;
  i.sram_base = (uint32_t)draw(index);
  i.dram_base = (uint32_t)(draw(8) ? (base + draw(BYTES)) / l->bytes[i.memory] : draw(1u << 30));
  i.y_size = (uint32_t)draw(most), i.x_size = (uint32_t)draw(most), i.x_stride = (uint32_t)draw(most);
  if (i.opcode == VTA_LOAD) i.y_pad_0 = draw(3), i.y_pad_1 = draw(3), i.x_pad_0 = draw(3), i.x_pad_1 = draw(3);
  i.reset = draw(4) == 0, i.uop_bgn = (uint32_t)draw(4), i.uop_end = (uint32_t)draw(small ? 8 : 1u << 14);
  i.iter_out = (uint32_t)draw(index), i.iter_in = (uint32_t)draw(index);
  i.dst_out = draw(8), i.dst_in = draw(8), i.src_out = draw(8), i.src_in = draw(8), i.wgt_out = draw(8), i.wgt_in = draw(8);
  i.alu = (uint32_t)draw(6), i.use_imm = draw(2), i.imm = (uint32_t)draw(1 << 16);
  return i;
}

/* Fields that are too large for this configuration become random bytes. */
static void random_bytes(uint8_t *code) {
  for (int k = 0; k < INSTRUCTION_BYTES; ++k) code[k] = (uint8_t)draw(256);
}

static uint32_t random_stream(const Layout *l, uint64_t base, uint8_t *code) {
  uint32_t count = (uint32_t)draw(MOST) + 1;
  for (uint32_t k = 0; k < count; ++k) {
    uint8_t *at = code + (size_t)k * INSTRUCTION_BYTES;
    Insn insn = random_insn(l, base);
    if (insn.opcode == VTA_FINISH && draw(10)) insn.opcode = VTA_GEMM;
    if (k + 1 == count && draw(20)) insn = (Insn){.opcode = VTA_FINISH};
    if (draw(40) == 0 || vta_encode(l, &insn, at)) random_bytes(at);
    else if (draw(40) == 0) at[draw(INSTRUCTION_BYTES)] ^= (uint8_t)(1u << draw(8));
  }
  return count;
}

/* Every second page of DRAM belongs to a buffer; the others must stay zero. */
static void check_gaps(char *const *gaps, int count) {
  static const char zeros[4096];
  for (int g = 0; g < count; ++g) CHECK(!memcmp(gaps[g], zeros, sizeof zeros));
}

static void configure_small(uint32_t mode, uint32_t log_block) {
  VTAConfig config;
  VTADefaultConfig(&config);
  config.mode = mode;
  config.log_block = log_block;
  config.log_uop_buff_size = 8, config.log_inp_buff_size = 8 + (mode != 0), config.log_wgt_buff_size = 10, config.log_acc_buff_size = 10;
  config.queue_depth = 1 + (uint32_t)draw(8), config.log_dram_size = 20;
  CHECK(!VTAConfigure(&config));
}

static void test_hostile(uint64_t cases) {
  uint8_t code[MOST * INSTRUCTION_BYTES];
  uint64_t ended = 0, deadlocks = 0;
  char *buffers[4], *gaps[4];
  configure_small(VTA_FUNCTIONAL, 2);
  for (int b = 0; b < 4; ++b) buffers[b] = VTABufferAlloc(4000), gaps[b] = VTABufferAlloc(4096);
  for (int b = 0; b < 4; ++b) CHECK(!VTABufferFree(gaps[b]));
  uint64_t base = (uint64_t)(buffers[0] - (char *)VTADramBase());
  for (uint64_t c = 0; c < cases; ++c) {
    if (c % 64 == 0) {
      configure_small(c / 64 % 2 ? VTA_CYCLES : VTA_FUNCTIONAL, 1 + (uint32_t)draw(2));
      for (int b = 0; b < 4; ++b)
        for (int k = 0; k < 4000; ++k) buffers[b][k] = (char)draw(256);
    }
    Layout layout;
    VTAConfig config;
    VTAGetConfig(&config);
    CHECK(!vta_layout(&config, &layout));
    uint32_t count = random_stream(&layout, base, code);
    int status = VTARun(code, count, 20000);
    if (!status) ++ended;
    else CHECK(status == -1 && strlen(VTALastError()) > 10);
    if (status && strstr(VTALastError(), "deadlock")) ++deadlocks;
    check_gaps(gaps, 4);
  }
  for (int b = 0; b < 4; ++b) CHECK(!VTABufferFree(buffers[b]));
  printf("ok hostile streams: %llu, of which %llu ended and %llu deadlocked\n", (unsigned long long)cases,
         (unsigned long long)ended, (unsigned long long)deadlocks);
  CHECK(cases < 1000 || (ended > cases / 50 && deadlocks > cases / 100));
}

int main(void) {
  const char *cases = getenv("TVM_FUZZ_CASES"), *seed = getenv("TVM_TEST_SEED");
  uint64_t first = seed && *seed ? strtoull(seed, NULL, 10) : 1;
  state = first * 0x9E3779B97F4A7C15u + 88172645463325252u;
  printf("seed %llu\n", (unsigned long long)first);
  for (uint32_t mode = VTA_FUNCTIONAL; mode <= VTA_CYCLES; ++mode) {
    test_stream(mode, 0);
    test_stream(mode, VTA_DEBUG_FORCE_SERIAL);
  }
  test_errors();
  test_hostile(cases && *cases ? strtoull(cases, NULL, 10) : 3000);
  return 0;
}
