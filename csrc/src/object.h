/* Object files linked into this process, without a linker. */
#ifndef TVM_SRC_OBJECT_H_
#define TVM_SRC_OBJECT_H_

#include <stdbool.h>
#include <stddef.h>

typedef struct Object Object;
/* Whether a file is an object (and not a library). */
bool object_is(const unsigned char *bytes, size_t size);
/* NULL with `why` set where it is damaged, for another machine, or needs something that is not here. */
Object *object_open(const unsigned char *bytes, size_t size, char *why, size_t room);
void object_close(Object *object);
/* A symbol that the object defines for others, and its size; NULL where there is none. */
void *object_symbol(const Object *object, const char *name, size_t *out_size);

#endif /* TVM_SRC_OBJECT_H_ */
