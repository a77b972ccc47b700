#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "portable.h"

static const char *kernel_path;

static int answer(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  ret->v_int64 = (int64_t)(intptr_t)resource;
  *ret_code = kTVMArgInt;
  return 0;
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

static TVMModuleHandle load(void) {
  TVMModuleHandle mod;
  OK(TVMModLoadFromFile(kernel_path, "", &mod));
  return mod;
}

static void test_library_is_loaded_and_called(void) {
  TVMModuleHandle mod = load();
  CHECK(!strcmp(TVMModEntryName(mod), "twice"));
  CHECK(call(mod, "twice", 21) == 42);
  CHECK(call(mod, "__tvm_main__", 4) == 8);
  TVMFunctionHandle func;
  TVMValue ret;
  int ret_code;
  OK(TVMModGetFunction(mod, "twice_compute_", 0, &func));
  CHECK(func == NULL);
  OK(TVMModGetFunction(mod, "malloc", 0, &func));
  CHECK(func == NULL);
  OK(TVMModGetFunction(mod, "twice", 0, &func));
  OK(TVMModFree(mod));
  /* The function keeps its library loaded. */
  REFUSES(TVMFuncCall(func, NULL, NULL, 0, &ret, &ret_code), "twice: argument 0: expected an integer");
  OK(TVMFuncFree(func));
}

static void test_names_of_the_c_library_are_found_under_the_prefix(void) {
  TVMModuleHandle mod = load();
  TVMFunctionHandle func;
  CHECK(call(mod, "exp", 6) == 7);
  CHECK(call(mod, "floor", 6) == 7);
  CHECK(TVMModGetSymbol(mod, "exp") == TVMModGetSymbol(mod, "__tvm_function_exp"));
  CHECK(TVMModGetSymbol(mod, "sin") == NULL);
  OK(TVMModGetFunction(mod, "__tvm_function_exp", 0, &func));
  CHECK(func == NULL);
  OK(TVMModFree(mod));
}

static void test_environment_is_imports_then_globals(void) {
  TVMFunctionHandle global, imported;
  TVMModuleHandle first = load(), second = load(), helper;
  REFUSES(TVMModImport(first, first), "import itself");
  OK(TVMFuncCreateFromCFunc(answer, (void *)1, NULL, &global));
  OK(TVMFuncCreateFromCFunc(answer, (void *)2, NULL, &imported));
  OK(TVMModCreate("helper", NULL, NULL, &helper));
  OK(TVMModAddFunction(helper, "test.answer", imported));
  OK(TVMFuncRegisterGlobal("test.answer", global, 0));
  OK(TVMModImport(second, helper));
  CHECK(TVMModImportCount(second) == 1);
  CHECK(call(first, "ask", 0) == 1);
  CHECK(call(second, "ask", 0) == 2);
  OK(TVMFuncRemoveGlobal("test.answer"));
  CHECK(call(first, "ask", 0) == 1);
  OK(TVMFuncFree(global));
  OK(TVMFuncFree(imported));
  OK(TVMModFree(helper));
  OK(TVMModFree(first));
  OK(TVMModFree(second));
}

static void test_missing_callee_is_named(void) {
  TVMModuleHandle mod = load();
  TVMFunctionHandle func;
  TVMValue ret;
  int ret_code;
  OK(TVMModGetFunction(mod, "ask", 0, &func));
  REFUSES(TVMFuncCall(func, NULL, NULL, 0, &ret, &ret_code), "function 'test.answer' is called by generated code");
  OK(TVMFuncFree(func));
  OK(TVMModFree(mod));
}

static void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* A lookup visits each module once, even if several import paths lead to it. */
static void test_lookup_through_shared_imports_is_linear(void) {
  enum { COUNT = 200 };
  TVMModuleHandle chain[COUNT];
  TVMFunctionHandle found;
  for (int i = 0; i < COUNT; ++i) {
    OK(TVMModCreate("test", NULL, NULL, &chain[i]));
    for (int k = 0; i > 0 && k < 2; ++k) OK(TVMModImport(chain[i], chain[i - 1]));
  }
  OK(TVMModGetFunction(chain[COUNT - 1], "nope", 1, &found));
  CHECK(found == NULL);
  REFUSES(TVMModImport(chain[0], chain[COUNT - 1]), "import itself");
  TVMModuleHandle kernels = load();
  OK(TVMModImport(chain[0], kernels));
  OK(TVMModGetFunction(chain[COUNT - 1], "twice", 1, &found));
  CHECK(found != NULL);
  OK(TVMFuncFree(found));
  OK(TVMModFree(kernels));
  for (int i = 0; i < COUNT; ++i) OK(TVMModFree(chain[i]));
}

#if SYSTEM_HAS_FORK
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <utime.h>

static int make_file(const char *folder, const char *name, time_t age) {
  char path[600];
  struct utimbuf times = {time(NULL) - age, time(NULL) - age};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int fd = open(path, O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0 && utime(path, &times) == 0);
  return fd;
}

static bool is_there(const char *folder, const char *name) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return access(path, F_OK) == 0;
}

/* Opening the first library in a process removes copies that killed processes left behind, and no other files. */
static void test_leftovers_of_the_dead_are_removed(void) {
  char folder[] = "/tmp/tvm-test-XXXXXX";
  static const char *const names[] = {"tvm-999999-3-aB3xYz.so", "tvm-999999-4-aB3xYz.so", "tvm-999999-5-aB3xYz.so",
                                      "tvm-notes.so", "tvm-1-2-abcdef.so.bak"};
  CHECK(mkdtemp(folder) && setenv("TMPDIR", folder, 1) == 0);
  close(make_file(folder, names[0], 3600));
  int live = make_file(folder, names[1], 3600);
  CHECK(flock(live, LOCK_EX) == 0);
  close(make_file(folder, names[2], 0));
  close(make_file(folder, names[3], 3600));
  close(make_file(folder, names[4], 3600));
  OK(TVMModFree(load()));
  CHECK(!is_there(folder, names[0]));
  for (int i = 1; i < 5; ++i) {
    char path[600];
    CHECK(is_there(folder, names[i]));
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  close(live);
  CHECK(rmdir(folder) == 0); /* the copy of the library has also been removed */
  unsetenv("TMPDIR");
}
#endif

/* The offset of the machine number in the header of an ELF, PE or Mach-O file. */
static size_t machine_at(const unsigned char *bytes) {
  if (!memcmp(bytes, "MZ", 2)) return 4 + (size_t)bytes[60] + ((size_t)bytes[61] << 8);
  return bytes[0] == 0x7f ? 18 : 4;
}

static void test_corrupt_libraries_are_refused(void) {
  static unsigned char bytes[1 << 20];
  char path[600];
  TVMModuleHandle mod;
  FILE *file = fopen(kernel_path, "rb");
  CHECK(file);
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  snprintf(path, sizeof path, "%s.cut.so", kernel_path);
  for (size_t keep = 0; keep < size; keep += size / 37 + 1) {
    write_file(path, bytes, keep);
    REFUSES(TVMModLoadFromFile(path, "", &mod), "cannot load library");
  }
  /* With a checksum, any change is detected. */
  memcpy(bytes + size, TVM_SEAL_MAGIC, 8);
  uint64_t checksum = TVMChecksum(bytes, size);
  memcpy(bytes + size + 8, &checksum, 8);
  write_file(path, bytes, size + 16);
  OK(TVMModLoadFromFile(path, "", &mod));
  OK(TVMModFree(mod));
  for (size_t at = 64; at < size; at += size / 53 + 1) {
    bytes[at] ^= 0x5a;
    write_file(path, bytes, size + 16);
    REFUSES(TVMModLoadFromFile(path, "", &mod), "corrupt");
    bytes[at] ^= 0x5a;
  }
  bytes[machine_at(bytes)] ^= 0xff;
  write_file(path, bytes, size);
  REFUSES(TVMModLoadFromFile(path, "", &mod), "it was built for an unknown architecture, but this runtime is for");
  remove(path);
  REFUSES(TVMModLoadFromFile(path, "", &mod), "cannot load library");
  REFUSES(TVMModLoadFromFile("x.txt", "", &mod), "is not a library");
}

static void *load_and_call(void *opaque) {
  for (int i = 0; i < 10; ++i) {
    TVMModuleHandle mod = load();
    CHECK(call(mod, "twice", i) == 2 * i);
    OK(TVMModFree(mod));
  }
  return NULL;
}

static void test_loading_from_several_threads(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, load_and_call, NULL) == 0);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  kernel_path = argv[1];
#if SYSTEM_HAS_FORK
  RUN(test_leftovers_of_the_dead_are_removed);
#endif
  RUN(test_library_is_loaded_and_called);
  RUN(test_names_of_the_c_library_are_found_under_the_prefix);
  RUN(test_environment_is_imports_then_globals);
  RUN(test_missing_callee_is_named);
  RUN(test_lookup_through_shared_imports_is_linear);
  RUN(test_corrupt_libraries_are_refused);
  RUN(test_loading_from_several_threads);
  return 0;
}
