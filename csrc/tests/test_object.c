/* Object files linked by the runtime: the object of kernel.c, unchanged and damaged in many ways. */
#include <stdint.h>

#include "check.h"

static char object_path[512];

static unsigned char *read_object(size_t *size) {
  static unsigned char bytes[1 << 16];
  FILE *file = fopen(object_path, "rb");
  CHECK(file);
  *size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  CHECK(*size > 64 && *size < sizeof bytes);
  return bytes;
}

static int load_bytes(const unsigned char *bytes, size_t size, TVMModuleHandle *out) {
  char path[600];
  snprintf(path, sizeof path, "%s.changed.o", object_path);
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(bytes, 1, size, file) == size);
  fclose(file);
  int status = TVMModLoadFromFile(path, "", out);
  remove(path);
  return status;
}

static int64_t call(TVMModuleHandle mod, const char *name, int64_t value) {
  TVMFunctionHandle func;
  TVMValue arg = {.v_int64 = value}, ret;
  int code = kTVMArgInt, ret_code;
  OK(TVMModGetFunction(mod, name, 1, &func));
  CHECK(func != NULL);
  OK(TVMFuncCall(func, &arg, &code, 1, &ret, &ret_code));
  OK(TVMFuncFree(func));
  return ret.v_int64;
}

static int answer(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)codes, (void)n, (void)resource;
  ret->v_int64 = args[0].v_int64 + 1000;
  *ret_code = kTVMArgInt;
  return 0;
}

static void test_an_object_is_linked_and_called(void) {
  TVMModuleHandle mod;
  TVMFunctionHandle global;
  OK(TVMFuncCreateFromCFunc(answer, NULL, NULL, &global));
  OK(TVMFuncRegisterGlobal("test.answer", global, 0));
  for (int i = 0; i < 3; ++i) {
    OK(TVMModLoadFromFile(object_path, "", &mod));
    CHECK(!strcmp(TVMModEntryName(mod), "twice"));
    CHECK(call(mod, "twice", 21) == 42 && call(mod, "ask", 5) == 1005 && call(mod, "exp", 1) == 2);
    OK(TVMModFree(mod));
  }
  OK(TVMFuncRemoveGlobal("test.answer"));
  OK(TVMFuncFree(global));
}

static void test_damaged_objects_are_refused_or_harmless(void) {
  size_t size;
  unsigned char *whole = read_object(&size), *changed = malloc(size);
  uint64_t state = 0x9e3779b97f4a7c15u;
  TVMModuleHandle mod;
  int refused = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    size_t kept = size;
    memcpy(changed, whole, size);
    for (int i = 0; i < 6; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      size_t at = (size_t)(state >> 33) % size;
      if (turn % 4 == 0 && i == 0) kept = at + 1;
      else if (i <= turn % 6) changed[at] = (unsigned char)(state >> 24);
    }
    if (load_bytes(changed, kept, &mod)) ++refused;
    else OK(TVMModFree(mod));
  }
  CHECK(refused > 100);
  free(changed);
}

int main(int argc, char **argv) {
  CHECK(argc == 2 && strlen(argv[1]) > 3 && strlen(argv[1]) < sizeof object_path);
  snprintf(object_path, sizeof object_path, "%.*s.o", (int)strlen(argv[1]) - 3, argv[1]);
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
  RUN(test_an_object_is_linked_and_called);
  RUN(test_damaged_objects_are_refused_or_harmless);
#else
  TVMModuleHandle mod;
  (void)test_an_object_is_linked_and_called, (void)test_damaged_objects_are_refused_or_harmless;
  REFUSES(TVMModLoadFromFile(object_path, "", &mod), "is not a");
#endif
  return 0;
}
