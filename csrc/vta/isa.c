/* Instruction formats: the fields in the order of their bits. tvm/contrib/vta/isa.py lists the same fields; a test
 * compares them. */
#include <stdio.h>
#include <string.h>

#include "core.h"

typedef enum { READ, WRITE, PRINT } Action;
typedef struct {
  Action action;
  uint64_t words[2];
  int at;
  const char *too_large; /* WRITE: the first field whose value does not fit */
  char *text;            /* PRINT */
  size_t size, used;
} Cursor;

static const char *const OPCODES[] = {"LOAD", "STORE", "GEMM", "FINISH", "ALU"};
static const char *const MEMORY_NAMES[] = {"uop", "wgt", "inp", "acc", "out", "acc_8bit"};
static const char *const ALU_NAMES[] = {"min", "max", "add", "shr", "mul"};

static void put(Cursor *c, const char *name, const char *value) {
  if (c->used >= c->size) return;
  int n = snprintf(c->text + c->used, c->size - c->used, " %s=%s", name, value);
  if (n > 0) c->used += (size_t)n;
}

static void field(Cursor *c, const char *name, uint32_t bits, uint32_t *value) {
  uint64_t mask = ((uint64_t)1 << bits) - 1, *word = &c->words[c->at / 64];
  int shift = c->at % 64;
  c->at += (int)bits;
  if (c->action == READ) {
    *value = (uint32_t)(*word >> shift & mask);
  } else if (c->action == WRITE) {
    if (*value > mask && !c->too_large) c->too_large = name;
    *word |= ((uint64_t)*value & mask) << shift;
  } else if (*value) {
    char number[16];
    snprintf(number, sizeof number, "%u", (unsigned)*value);
    put(c, name, number);
  }
}

/* A field whose values have names. */
static void named(Cursor *c, const char *name, uint32_t bits, uint32_t *value, const char *const *names, uint32_t count) {
  if (c->action != PRINT || *value >= count) {
    field(c, name, bits, value);
    return;
  }
  c->at += (int)bits;
  put(c, name, names[*value]);
}

static void transfer(Cursor *c, Insn *i) {
  named(c, "memory_type", 3, &i->memory, MEMORY_NAMES, 6);
  field(c, "sram_base", 16, &i->sram_base);
  field(c, "dram_base", 32, &i->dram_base);
  c->at = 64;
  field(c, "y_size", 16, &i->y_size);
  field(c, "x_size", 16, &i->x_size);
  field(c, "x_stride", 16, &i->x_stride);
  field(c, "y_pad_0", 4, &i->y_pad_0);
  field(c, "y_pad_1", 4, &i->y_pad_1);
  field(c, "x_pad_0", 4, &i->x_pad_0);
  field(c, "x_pad_1", 4, &i->x_pad_1);
}

static void arithmetic(Cursor *c, const Layout *l, Insn *i) {
  uint32_t src = i->opcode == VTA_GEMM ? l->inp_bits : l->acc_bits;
  field(c, "reset_reg", 1, &i->reset);
  field(c, "uop_bgn", l->uop_bits, &i->uop_bgn);
  field(c, "uop_end", l->uop_bits + 1, &i->uop_end);
  field(c, "iter_out", 14, &i->iter_out);
  field(c, "iter_in", 14, &i->iter_in);
  c->at = 64;
  field(c, "dst_factor_out", l->acc_bits, &i->dst_out);
  field(c, "dst_factor_in", l->acc_bits, &i->dst_in);
  field(c, "src_factor_out", src, &i->src_out);
  field(c, "src_factor_in", src, &i->src_in);
  if (i->opcode == VTA_GEMM) {
    field(c, "wgt_factor_out", l->wgt_bits, &i->wgt_out);
    field(c, "wgt_factor_in", l->wgt_bits, &i->wgt_in);
  } else {
    named(c, "alu_opcode", 3, &i->alu, ALU_NAMES, 5);
    field(c, "use_imm", 1, &i->use_imm);
    field(c, "imm", 16, &i->imm);
  }
}

static void visit(Cursor *c, const Layout *l, Insn *i) {
  if (c->action == PRINT) c->at = 3;
  else field(c, "opcode", 3, &i->opcode);
  field(c, "pop_prev_dep", 1, &i->pop_prev);
  field(c, "pop_next_dep", 1, &i->pop_next);
  field(c, "push_prev_dep", 1, &i->push_prev);
  field(c, "push_next_dep", 1, &i->push_next);
  if (i->opcode == VTA_LOAD || i->opcode == VTA_STORE) transfer(c, i);
  else if (i->opcode == VTA_GEMM || i->opcode == VTA_ALU) arithmetic(c, l, i);
}

int vta_decode(const Layout *layout, const void *bytes, Insn *out) {
  Cursor c = {.action = READ};
  memset(out, 0, sizeof *out);
  memcpy(c.words, bytes, INSTRUCTION_BYTES);
  visit(&c, layout, out);
  return out->opcode > VTA_ALU ? vta_error("unknown opcode %u", (unsigned)out->opcode) : 0;
}

int vta_encode(const Layout *layout, const Insn *insn, void *bytes) {
  Cursor c = {.action = WRITE};
  Insn copy = *insn;
  visit(&c, layout, &copy);
  if (c.too_large)
    return vta_error("%s: the value of %s is too large for its field", OPCODES[insn->opcode], c.too_large);
  memcpy(bytes, c.words, INSTRUCTION_BYTES);
  return 0;
}

int vta_print(const Layout *layout, const void *bytes, char *text, size_t size) {
  Insn insn;
  if (vta_decode(layout, bytes, &insn)) return snprintf(text, size, "opcode=%u", (unsigned)insn.opcode);
  int name = snprintf(text, size, "%s", OPCODES[insn.opcode]);
  Cursor c = {.action = PRINT, .text = text, .size = size, .used = (size_t)name};
  visit(&c, layout, &insn);
  return (int)c.used;
}

static void uop_fields(Cursor *c, const Layout *l, Uop *uop) {
  field(c, "dst_idx", l->acc_bits, &uop->dst);
  field(c, "src_idx", l->src_bits, &uop->src);
  field(c, "wgt_idx", l->wgt_bits, &uop->wgt);
}

Uop vta_uop_decode(const Layout *layout, uint32_t word) {
  Cursor c = {.action = READ, .words = {word}};
  Uop uop;
  uop_fields(&c, layout, &uop);
  return uop;
}

int vta_uop_encode(const Layout *layout, Uop uop, uint32_t *word) {
  Cursor c = {.action = WRITE};
  uop_fields(&c, layout, &uop);
  *word = (uint32_t)c.words[0];
  return c.too_large ? vta_error("micro-op: the value of %s is too large for its field", c.too_large) : 0;
}

Module vta_module_of(const Insn *insn) {
  if (insn->opcode == VTA_STORE) return MODULE_STORE;
  bool loads = insn->opcode == VTA_LOAD && (insn->memory == VTA_INP || insn->memory == VTA_WGT);
  return loads ? MODULE_LOAD : MODULE_COMPUTE;
}
