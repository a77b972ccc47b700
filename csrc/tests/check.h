/* A test is a function; CHECK prints the location of a failed condition and exits with a failure. */
#ifndef TVM_TESTS_CHECK_H_
#define TVM_TESTS_CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tvm_runtime.h"

#define CHECK(condition)                                                                                      \
  do {                                                                                                        \
    if (!(condition)) {                                                                                       \
      fprintf(stderr, "%s:%d: %s failed; last error: %s\n", __FILE__, __LINE__, #condition, TVMGetLastError()); \
      exit(1);                                                                                                \
    }                                                                                                         \
  } while (0)

#define OK(call) CHECK((call) == 0)

/* Whether valgrind runs the program. It does not flush denormal numbers to zero. */
static inline int is_under_valgrind(void) {
  const char *loaded = getenv("LD_PRELOAD");
  return loaded && strstr(loaded, "vgpreload");
}

/* The call must fail with an error message that contains `part`. */
#define REFUSES(call, part)                               \
  do {                                                    \
    CHECK((call) != 0);                                   \
    CHECK(strstr(TVMGetLastError(), (part)) != NULL);     \
  } while (0)

#define RUN(test)                    \
  do {                               \
    test();                          \
    printf("ok %s\n", #test);        \
    fflush(stdout);                  \
  } while (0)

static const DLDevice check_cpu = {kDLCPU, 0};
static const DLDataType check_float32 = {kDLFloat, 32, 1};

static inline TVMArrayHandle make_array(int64_t rows, int64_t columns) {
  int64_t shape[] = {rows, columns};
  TVMArrayHandle array;
  OK(TVMArrayAlloc(shape, 2, check_float32, check_cpu, &array));
  return array;
}

#endif /* TVM_TESTS_CHECK_H_ */
