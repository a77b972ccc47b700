/* The C interface of the simulated accelerator (docs/vta_isa.md).
 *
 * Compiled host programs call these functions to write a stream of instructions and to run it. The library
 * libtvm_vta.so contains two simulators behind this interface: a functional one and a cycle-level one. It registers the
 * device ext_dev when the runtime loads it as a device library.
 *
 * A function that returns int returns 0, or -1 with the message in VTALastError. The first error of a command stream is
 * kept: VTASynchronize of this stream then reports it, discards the stream and runs nothing, so a caller that cannot
 * read the other results only needs the result of VTASynchronize.
 */
#ifndef TVM_VTA_H_
#define TVM_VTA_H_

#include <stddef.h>
#include <stdint.h>

#define VTA_DLL __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum { VTA_LOAD, VTA_STORE, VTA_GEMM, VTA_FINISH, VTA_ALU };
enum { VTA_UOP, VTA_WGT, VTA_INP, VTA_ACC, VTA_OUT, VTA_ACC_8BIT };
enum { VTA_MIN, VTA_MAX, VTA_ADD, VTA_SHR, VTA_MUL };
enum { VTA_FUNCTIONAL, VTA_CYCLES };
enum { VTA_STAGE_LOAD = 1, VTA_STAGE_COMPUTE = 2, VTA_STAGE_STORE = 3 };
/* Bits of VTASetDebugMode: keep the order of the instructions with tokens between all of them. */
enum { VTA_DEBUG_FORCE_SERIAL = 1 << 5 };

/* All sizes of the accelerator: logarithms to base 2 of widths in bits, of block sizes, and of memory sizes in bytes. */
typedef struct {
  uint32_t size; /* sizeof(VTAConfig) */
  uint32_t mode; /* VTA_FUNCTIONAL or VTA_CYCLES */
  uint32_t log_inp_width, log_wgt_width, log_acc_width;
  uint32_t log_batch, log_block;
  uint32_t log_uop_buff_size, log_inp_buff_size, log_wgt_buff_size, log_acc_buff_size;
  uint32_t log_bus_width; /* bits that DRAM transfers in one cycle */
  uint32_t dram_latency;  /* cycles from the request of a read to its first data */
  uint32_t queue_depth;   /* instructions that wait in the queue of one module */
  uint32_t log_dram_size;
} VTAConfig;

typedef struct {
  uint64_t inp_load_nbytes, wgt_load_nbytes, acc_load_nbytes, uop_load_nbytes, out_store_nbytes;
  uint64_t gemm_counter, alu_counter; /* micro-ops executed */
  uint64_t instructions;
  /* The cycle-level simulator: all cycles of the runs; for each module the cycles in which it executes, and those in
   * which its next instruction waits for a token; cycles in which DRAM transfers data. */
  uint64_t cycles, load_busy, compute_busy, store_busy, load_stall, compute_stall, store_stall, dram_busy;
} VTAStats;

VTA_DLL const char *VTALastError(void);
VTA_DLL void VTADefaultConfig(VTAConfig *config);
/* Replaces the configuration and clears all scratchpads. Fails if the values are invalid, and if the size of DRAM would
 * change while buffers exist. Streams that other threads have begun are discarded. */
VTA_DLL int VTAConfigure(const VTAConfig *config);
VTA_DLL void VTAGetConfig(VTAConfig *config);
VTA_DLL void VTAGetStats(VTAStats *stats);
VTA_DLL void VTAClearStats(void);
/* With `skip`, instructions are checked and counted, but only loads of micro-ops change memory. */
VTA_DLL void VTASetSkip(int skip);

/* Runs instructions of 16 bytes until FINISH, in at most `limit` cycles (functional simulator: steps). */
VTA_DLL int VTARun(const void *instructions, uint32_t count, uint64_t limit);
/* A function that receives the instructions of each program before it runs; NULL for none. The device is locked while
 * it is called: it may read DRAM, and must not call functions of this interface. */
typedef void (*VTAObserver)(const void *instructions, uint32_t count);
VTA_DLL void VTASetObserver(VTAObserver observer);
/* Writes the text of an instruction, as tvm.contrib.vta.isa.disassemble does, and returns its length. */
VTA_DLL int VTADisassemble(const void *instruction, char *text, size_t size);

/* ---- buffers in DRAM: addresses of host memory inside one arena ---- */
VTA_DLL void *VTABufferAlloc(size_t size);
VTA_DLL int VTABufferFree(void *buffer);
VTA_DLL int VTABufferCopy(const void *from, size_t from_offset, void *to, size_t to_offset, size_t size, int kind);
VTA_DLL void *VTABufferCPUPtr(void *command, void *buffer);
VTA_DLL int VTAWriteBarrier(void *command, void *buffer, uint32_t elem_bits, uint32_t start, uint32_t extent);
VTA_DLL int VTAReadBarrier(void *command, void *buffer, uint32_t elem_bits, uint32_t start, uint32_t extent);
/* Returns the first address of the arena: the physical address of a buffer is its distance from it. */
VTA_DLL void *VTADramBase(void);

/* ---- the command stream of a thread ---- */
VTA_DLL void *VTATLSCommandHandle(void);
VTA_DLL int VTASetDebugMode(void *command, int flags);
/* Offsets, sizes and strides in elements of the memory; the address is that of a buffer, or inside it. */
VTA_DLL int VTALoadBuffer2D(void *command, void *src_dram_addr, uint32_t src_elem_offset, uint32_t x_size,
                            uint32_t y_size, uint32_t x_stride, uint32_t x_pad_before, uint32_t y_pad_before,
                            uint32_t x_pad_after, uint32_t y_pad_after, uint32_t dst_sram_index,
                            uint32_t dst_memory_type);
VTA_DLL int VTAStoreBuffer2D(void *command, uint32_t src_sram_index, uint32_t src_memory_type, void *dst_dram_addr,
                             uint32_t dst_elem_offset, uint32_t x_size, uint32_t y_size, uint32_t x_stride);
/* Records a micro-op; only functions that VTAPushGEMMOp and VTAPushALUOp call may use these three. `mode` is 0 for GEMM
 * and 1 for ALU. */
VTA_DLL int VTAUopPush(uint32_t mode, uint32_t reset_out, uint32_t dst_index, uint32_t src_index, uint32_t wgt_index,
                       uint32_t opcode, uint32_t use_imm, int32_t imm_val);
VTA_DLL int VTAUopLoopBegin(uint32_t extent, uint32_t dst_factor, uint32_t src_factor, uint32_t wgt_factor);
VTA_DLL int VTAUopLoopEnd(void);
/* Pushes an instruction whose micro-ops `finit` records. They are recorded once for each signature: `*uop_handle`, NULL
 * at first, identifies the call site. */
VTA_DLL int VTAPushGEMMOp(void **uop_handle, int (*finit)(void *), void *signature, int nbytes);
VTA_DLL int VTAPushALUOp(void **uop_handle, int (*finit)(void *), void *signature, int nbytes);
VTA_DLL int VTADepPush(void *command, int from_qid, int to_qid);
VTA_DLL int VTADepPop(void *command, int from_qid, int to_qid);
/* Runs the stream in at most `wait_cycles` cycles, and empties it. */
VTA_DLL int VTASynchronize(void *command, uint32_t wait_cycles);

#ifdef __cplusplus
}
#endif
#endif /* TVM_VTA_H_ */
