/* Reading parameter blobs array by array, from memory or from a file. */
#ifndef TVM_SRC_PARAMS_H_
#define TVM_SRC_PARAMS_H_

#include <stdio.h>

#include "internal.h"

enum { PARAMS_MAX_NDIM = 64 };

typedef struct {
  const unsigned char *start, *at; /* in memory; NULL for a file */
  FILE *file;
  size_t size, left;
  char **names;
  int count, done;
  int64_t shape[PARAMS_MAX_NDIM];
  DLTensor head;  /* type and shape of the current array; its data is NULL unless the bytes are in memory */
  size_t nbytes;  /* of its data, which is not read yet */
} ParamReader;

/* Reads the names, then walks all arrays without their data, so that a damaged blob is refused before any is used. Close
 * the reader whether or not opening succeeds. */
int params_open(ParamReader *reader, const void *data, size_t size);
int params_open_file(ParamReader *reader, const char *path);
void params_close(ParamReader *reader);
/* The type of the next array, whose name is names[done]. */
int params_next(ParamReader *reader);
/* Moves the data of that array to `out`, or past it when that is NULL. */
int params_take(ParamReader *reader, void *out);

/* Arrays by name. Those of `params_borrow` lie in the blob itself where they are aligned as arrays of ours are. */
int params_borrow(const void *data, size_t size, TVMParamsHandle *out);
int params_new(int count, TVMParamsHandle *out);
int params_put(TVMParamsHandle params, int index, const char *name, TVMArrayHandle array); /* takes the array */

#endif /* TVM_SRC_PARAMS_H_ */
