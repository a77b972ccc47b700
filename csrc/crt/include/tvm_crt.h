/* The C runtime for microcontrollers: a loop that receives requests, runs compiled code, and sends replies. It allocates
 * no memory. C99, without an operating system.
 *
 *   src/serve.c        the loop for a model that was compiled ahead of time: a request runs the model
 *   src/session.c      the loop for a library of functions: a host reads and writes memory, and calls functions
 *   src/framing.c      the platform functions for serial lines, which also carry text
 *   src/semihosting.c  the platform functions for boards under a debugger or an emulator (Arm and RISC-V semihosting)
 *
 * A board defines the platform functions below and calls TVMCrtMain. A project defines TVMCrtMain, and the model or the
 * library.
 *
 * A request to a model is the number of input bytes (uint32), then the inputs one after the other. A request to a library
 * is an operation, its two arguments and the number of data bytes (four uint32), then the data. A reply is a status (int32, 0
 * without an error), the time of the run in microseconds (uint32), the number of data bytes (uint32), and the data: the
 * outputs of the model, or the data of the operation; after an error there is no data. Numbers are in little-endian byte
 * order.
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
/* The status of a request whose operation or function does not exist or whose data has another size, and of a request
 * that is outside the memory. */
#define TVM_CRT_UNKNOWN_OPERATION (-1001)
#define TVM_CRT_OUTSIDE_MEMORY (-1002)

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

/* A function of a library: its name, the function that takes pointers to its arguments, the number and the sizes in bytes
 * of the arguments, and their description as JSON. The code of models contains this type too. */
typedef struct {
  const char* name;
  int32_t (*call)(void* const* data);
  uint32_t num_args;
  const uint32_t* sizes;
  const char* arguments;
} TVMCrtFunction;

/* The library of the project: its functions and their number. */
extern const TVMCrtFunction tvm_crt_functions[];
extern const uint32_t tvm_crt_num_functions;

/* Operations of requests to a library. Offsets are positions in the memory of the library. */
enum {
  TVM_CRT_DESCRIBE = 0, /* Data of the reply: the size of the memory, then the texts of each function. */
  TVM_CRT_READ = 1,     /* Arguments: offset, size. Data of the reply: the bytes. */
  TVM_CRT_WRITE = 2,    /* Argument: offset. Data of the request: the bytes. */
  TVM_CRT_CALL = 3      /* Arguments: index of a function, number of calls. Data of the request: offsets of arguments. */
};

/* Serve requests to the library of the project until the input ends, with this memory for arguments. */
void TVMCrtServeLibrary(uint8_t* memory, uint32_t size);

/* The main function of the project, which the start of the board calls: serve requests until the input ends. */
void TVMCrtMain(void);

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

/* Functions of a serial line, which a board with src/framing.c defines in place of TVMPlatformRead, TVMPlatformWrite and
 * TVMPlatformLog. */

/* Return the next byte; wait for it. A negative value is the end of the input. */
int32_t TVMPlatformReadByte(void);
/* Write bytes. */
void TVMPlatformWriteBytes(const uint8_t* data, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* TVM_CRT_H_ */
