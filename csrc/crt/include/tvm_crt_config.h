/* Configuration of the C runtime for microcontrollers. A build can define each macro on its command line. */
#ifndef TVM_CRT_CONFIG_H_
#define TVM_CRT_CONFIG_H_

/* The alignment of inputs, outputs and memory pools in bytes. */
#ifndef TVM_CRT_ALIGNMENT
#define TVM_CRT_ALIGNMENT 16
#endif

/* The maximum number of arguments of a function of a library. */
#ifndef TVM_CRT_MAX_ARGS
#define TVM_CRT_MAX_ARGS 32
#endif

#endif /* TVM_CRT_CONFIG_H_ */
