/* The C runtime for microcontrollers: a loop that receives inputs, runs a model that was compiled ahead of time, and
 * sends its outputs. It allocates no memory. C99, without an operating system.
 *
 *   src/serve.c        the loop
 *   src/semihosting.c  the platform functions for boards under a debugger or an emulator (Arm and RISC-V semihosting)
 *
 * A board defines the platform functions below. A project defines the model: its run function and a table of its tensors.
 *
 * A request is the number of input bytes (uint32), then the inputs one after the other. A reply is the status of the
 * model (int32, 0 without an error), the time of the run in microseconds (uint32), the number of output bytes (uint32),
 * and the outputs; after an error there are no outputs. Numbers are in little-endian byte order.
 */
#ifndef TVM_CRT_H_
#define TVM_CRT_H_

#include <stddef.h>
#include <stdint.h>

#include "tvm_crt_config.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TVM_CRT_ALIGNED __attribute__((aligned(TVM_CRT_ALIGNMENT)))
/* The status of a request whose number of input bytes differs from that of the model. */
#define TVM_CRT_WRONG_SIZE (-1000)

/* An input or output: its name, its memory, and its size in bytes. */
typedef struct {
  const char* name;
  void* data;
  uint32_t size;
} TVMCrtTensor;

/* A model: its tensors, and the function that runs it on them. */
typedef struct {
  const TVMCrtTensor* inputs;
  uint32_t num_inputs;
  const TVMCrtTensor* outputs;
  uint32_t num_outputs;
  int32_t (*run)(void);
} TVMCrtModel;

/* The model of the project. */
extern const TVMCrtModel tvm_crt_model;

/* Serve requests until the input ends. */
void TVMCrtServe(const TVMCrtModel* model);

/* Platform functions, which each board defines. */

/* Read exactly this number of bytes. Returns 0, or a nonzero value at the end of the input. */
int32_t TVMPlatformRead(void* data, size_t size);
/* Write exactly this number of bytes. */
void TVMPlatformWrite(const void* data, size_t size);
/* Return a time in microseconds from an arbitrary origin; it wraps around. */
uint32_t TVMPlatformTimeMicroseconds(void);
/* Write a log message. */
void TVMPlatformLog(const char* message);
/* Stop the program with this status. */
void TVMPlatformAbort(int32_t status);

#ifdef __cplusplus
}
#endif

#endif /* TVM_CRT_H_ */
