/* Opening a shared library: the one file with platform code for it is library.c. */
#ifndef TVM_SRC_LIBRARY_H_
#define TVM_SRC_LIBRARY_H_

#include <stddef.h>

/* Checks the file, opens a private copy of it, returns the dlopen handle or NULL with the last error set. */
void *library_open(const char *path);
void library_close(void *library);
void library_fork_child(void);
/* A symbol the library itself defines (not one of its dependencies), or NULL. */
void *library_symbol(void *library, const char *name);
/* A data symbol and how many bytes the library gives it. */
const void *library_data(void *library, const char *name, size_t *out_size);

#endif /* TVM_SRC_LIBRARY_H_ */
