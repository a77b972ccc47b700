/* A reader of JSON text into a tree. */
#ifndef TVM_SRC_JSON_H_
#define TVM_SRC_JSON_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { JSON_NULL, JSON_BOOL, JSON_INT, JSON_REAL, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

/* Children of arrays and objects hang on `child` and follow each other on `next`; members of objects have a `key`. */
typedef struct Json {
  JsonKind kind;
  char *key;
  char *text; /* strings */
  int64_t integer;
  double real;
  int count; /* children */
  struct Json *child, *next;
} Json;

int json_parse(const char *text, size_t size, Json **out); /* sets the last error on failure */
void json_free(Json *json);
const Json *json_member(const Json *object, const char *key); /* NULL when there is none */

#endif /* TVM_SRC_JSON_H_ */
