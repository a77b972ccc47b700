/* The command stream of a thread: instructions, micro-op kernels, and their storage. */
#ifndef TVM_VTA_STREAM_H_
#define TVM_VTA_STREAM_H_

#include "core.h"

typedef struct { uint32_t extent, dst, src, wgt; } Loop;

/* Micro-ops and the two loops around them, as a call of `finit` recorded them. */
typedef struct UopKernel {
  struct UopKernel *next; /* in its bucket */
  uint64_t site;          /* the call site */
  int nbytes;
  unsigned char *signature;
  bool is_set;
  uint32_t mode, reset, opcode, use_imm;
  int32_t imm;
  Loop loops[2];
  int loop_count, open_loops;
  uint32_t *uops, count, room;
  uint64_t resident; /* number of the program whose scratchpad contains the micro-ops */
  uint32_t at;       /* their index there */
} UopKernel;

enum { BUCKETS = 1024 };
typedef struct Stream {
  uint32_t generation;
  Layout layout;
  bool failed;
  char message[1024];
  int debug;
  uint8_t *code;
  uint32_t count, room;
  bool pending[MODULES][2]; /* pops for the next instruction of a module, from the previous and the next module */
  /* The micro-ops that the program loads; `fixes` are the instructions that load them. */
  uint32_t *uops, uop_count, uop_room;
  uint32_t *fixes, fix_count, fix_room;
  uint32_t sram_next;
  uint64_t program;
  UopKernel *buckets[BUCKETS];
  uint32_t cached; /* micro-ops of all kernels */
} Stream;

/* Returns the stream of this thread for the current configuration, or NULL. */
Stream *vta_stream(void);
/* Keeps the last error as that of the stream; returns -1. */
int vta_stream_fail(Stream *stream);
/* Appends an instruction, with the pops that its module waits for. */
int vta_stream_push(Stream *stream, Insn insn);
/* Makes room for one more element of an array. */
int vta_grow(void **data, uint32_t *room, uint32_t count, size_t element);
/* Recording, for VTAUopPush and its loops: kernels.c. */
void vta_kernels_free(Stream *stream);
int vta_push_kernel(Stream *stream, UopKernel *kernel, uint32_t mode);

#endif /* TVM_VTA_STREAM_H_ */
