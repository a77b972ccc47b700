/* Declarations that the files of the simulator share. */
#ifndef TVM_VTA_CORE_H_
#define TVM_VTA_CORE_H_

#include <pthread.h>
#include <stdbool.h>

#include "vta.h"

enum { INSTRUCTION_BYTES = 16, UOP_BYTES = 4, MEMORIES = 6, TEXT_BYTES = 512 };
enum { TOKENS_LIMIT = 65535 };
typedef enum { MODULE_LOAD, MODULE_COMPUTE, MODULE_STORE, MODULES } Module;

/* Sets the last error and returns -1. */
int vta_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void vta_error_target(void (*set_last_error)(const char *));

/* ---- instructions ---- */
typedef struct {
  uint32_t opcode, pop_prev, pop_next, push_prev, push_next;
  uint32_t memory, sram_base, dram_base, y_size, x_size, x_stride, y_pad_0, y_pad_1, x_pad_0, x_pad_1;
  uint32_t reset, uop_bgn, uop_end, iter_out, iter_in;
  uint32_t dst_out, dst_in, src_out, src_in, wgt_out, wgt_in;
  uint32_t alu, use_imm, imm; /* imm: two's complement in 16 bits */
} Insn;

typedef struct { uint32_t dst, src, wgt; } Uop;

/* What follows from a configuration: bytes of an element in DRAM and the number of elements for each memory, and the
 * widths of indices in instructions. */
typedef struct {
  VTAConfig config;
  uint32_t batch, block;
  uint32_t bytes[MEMORIES], depth[MEMORIES], beats[MEMORIES];
  uint32_t uop_bits, acc_bits, inp_bits, wgt_bits, src_bits;
} Layout;

int vta_layout(const VTAConfig *config, Layout *out);
int vta_decode(const Layout *layout, const void *bytes, Insn *out);
/* Fails if a value is too large for its field. */
int vta_encode(const Layout *layout, const Insn *insn, void *bytes);
int vta_print(const Layout *layout, const void *bytes, char *text, size_t size);
Uop vta_uop_decode(const Layout *layout, uint32_t word);
int vta_uop_encode(const Layout *layout, Uop uop, uint32_t *word);
Module vta_module_of(const Insn *insn);

/* ---- DRAM ---- */
int vta_dram_resize(uint32_t log_size);
/* Returns the memory of a physical range, or NULL if it is not inside one buffer. */
void *vta_dram_range(uint64_t address, uint64_t size);
/* Returns the physical address of a pointer into a buffer, or -1. */
int64_t vta_dram_address(const void *pointer);

/* ---- scratchpads ---- */
typedef struct {
  Layout layout;
  uint32_t *uop;
  int8_t *inp, *wgt;
  int32_t *acc;
  VTAStats stats;
  bool skip;
} Core;

int vta_core_open(Core *core, const Layout *layout);
void vta_core_close(Core *core);
/* Checks all indices, sizes and addresses of an instruction against the current micro-ops and buffers. */
int vta_check(const Core *core, const Insn *insn);
/* Executes a checked instruction. */
void vta_execute(Core *core, const Insn *insn);
/* Returns the number of elements that a load, store, GEMM or ALU instruction processes. */
uint64_t vta_steps(const Insn *insn);

/* ---- modules, their queues and tokens ---- */
typedef struct {
  Core *core;
  const uint8_t *code;
  uint32_t count;
  Insn *insns;
  uint32_t *queue[MODULES];
  uint32_t tail[MODULES], head[MODULES]; /* dispatched, retired */
  uint32_t fetched;
  uint32_t tokens[MODULES][2]; /* waiting for this module, from the previous and the next module */
  bool finished;
} Pipeline;

int vta_pipeline_open(Pipeline *pipe, Core *core, const void *code, uint32_t count);
void vta_pipeline_close(Pipeline *pipe);
/* Moves the next instruction to the queue of its module; false if all are there or the queue is full. */
bool vta_dispatch(Pipeline *pipe);
/* Returns the first instruction of a queue, or NULL. */
const Insn *vta_first(const Pipeline *pipe, Module module);
bool vta_has_tokens(const Pipeline *pipe, Module module);
void vta_take_tokens(Pipeline *pipe, Module module);
/* Removes the first instruction of a queue and pushes its tokens. */
int vta_retire(Pipeline *pipe, Module module);
bool vta_is_done(const Pipeline *pipe);
int vta_deadlock(const Pipeline *pipe);
/* Prefixes the last error with the number and the text of an instruction. */
int vta_error_at(const Pipeline *pipe, uint32_t position);

int vta_run_functional(Pipeline *pipe, uint64_t limit);
int vta_run_cycles(Pipeline *pipe, uint64_t limit);

/* ---- the device ---- */
typedef struct {
  Core core;
  uint32_t generation; /* changes with the configuration */
  pthread_mutex_t lock;
} Device;
/* Returns the only device, configured; NULL if there is no memory for it. */
Device *vta_device(void);

#endif /* TVM_VTA_CORE_H_ */
