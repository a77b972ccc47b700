/* Between the parts of the emulator. */
#ifndef CUDA_EMULATOR_MACHINE_H_
#define CUDA_EMULATOR_MACHINE_H_

#include <cstddef>
#include <cstdint>

#define EMU_INSIDE
#include "emulator.h"

struct Launch {
  const emu_kernel *kernel;
  const char *name;
  emu_size grid, block;
  unsigned shared;
  void **arguments;
};

/* Runs all blocks; what went wrong, or NULL. */
const char *emu_run(const Launch &launch);

/* Ends the launch with an error; called by a thread of it. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void emu_fail(const char *format, ...);

/* Waits until the lanes of `mask` are at the same place; the last one acts for all, whose operands stay where they are.
 * `whole`: all lanes of the warp have to come. */
typedef void (*Act)(void **operands, unsigned present);
void emu_meet(const char *what, unsigned mask, bool whole, void *operands, Act act, int line);

/* Of a block: products of warpgroups, and whether all are done. */
void emu_begin_warpgroups();
void emu_end_warpgroups(int threads);

/* Whether memory was written by a copy that no fence.proxy.async of its thread came after. */
bool emu_is_hidden(unsigned address);

/* The device allocation an address is in or just beyond: its size, and the address's distance from its beginning. */
bool emu_find_allocation(uintptr_t address, size_t *size, ptrdiff_t *offset);

#endif /* CUDA_EMULATOR_MACHINE_H_ */
