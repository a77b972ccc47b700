/* Opening a library: the one file with platform code for it is library.c. */
#ifndef TVM_SRC_LIBRARY_H_
#define TVM_SRC_LIBRARY_H_

#include <stddef.h>

/* A shared library that was opened, or an object that was linked into this process. */
typedef struct Library Library;
/* Checks the file and opens a private copy of it; NULL with the last error set. */
Library *library_open(const char *path);
void library_close(Library *library);
void library_fork_child(void);
/* Removes what processes that were killed have left; once in a process. */
void library_clean(void);
/* A symbol the library itself defines (not one of its dependencies), or NULL. */
void *library_symbol(Library *library, const char *name);
/* A data symbol and how many bytes the library gives it. */
const void *library_data(Library *library, const char *name, size_t *out_size);

#endif /* TVM_SRC_LIBRARY_H_ */
