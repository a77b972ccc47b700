#include <pthread.h>

#include "check.h"

static int finalized;

static int add_one(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  if (n != 1 || codes[0] != kTVMArgInt) {
    TVMAPISetLastError("add_one: expected one integer");
    return -1;
  }
  ret->v_int64 = args[0].v_int64 + (resource ? *(int *)resource : 1);
  *ret_code = kTVMArgInt;
  return 0;
}

static void count_finalized(void *resource) { ++finalized; }

static int64_t call_with(TVMFunctionHandle func, int64_t value) {
  TVMValue arg = {.v_int64 = value}, ret;
  int code = kTVMArgInt, ret_code;
  OK(TVMFuncCall(func, &arg, &code, 1, &ret, &ret_code));
  CHECK(ret_code == kTVMArgInt);
  return ret.v_int64;
}

static void test_register_get_call_and_override(void) {
  static int ten = 10;
  TVMFunctionHandle one, ten_func, got;
  OK(TVMFuncCreateFromCFunc(add_one, NULL, count_finalized, &one));
  OK(TVMFuncCreateFromCFunc(add_one, &ten, NULL, &ten_func));
  OK(TVMFuncRegisterGlobal("test.add", one, 0));
  REFUSES(TVMFuncRegisterGlobal("test.add", ten_func, 0), "'test.add' is already registered");
  OK(TVMFuncGetGlobal("test.add", &got));
  CHECK(call_with(got, 5) == 6);
  OK(TVMFuncFree(got));
  OK(TVMFuncFree(one));
  CHECK(finalized == 0);
  OK(TVMFuncRegisterGlobal("test.add", ten_func, 1));
  CHECK(finalized == 1);
  OK(TVMFuncGetGlobal("test.add", &got));
  CHECK(call_with(got, 5) == 15);
  OK(TVMFuncFree(got));
  OK(TVMFuncFree(ten_func));
  OK(TVMFuncRemoveGlobal("test.add"));
  OK(TVMFuncGetGlobal("test.add", &got));
  CHECK(got == NULL);
  REFUSES(TVMFuncRemoveGlobal("test.add"), "no global function named 'test.add'");
}

static void test_errors_are_text(void) {
  TVMFunctionHandle func;
  TVMValue ret;
  int ret_code;
  OK(TVMFuncCreateFromCFunc(add_one, NULL, NULL, &func));
  REFUSES(TVMFuncCall(func, NULL, NULL, 0, &ret, &ret_code), "expected one integer");
  REFUSES(TVMFuncCall(NULL, NULL, NULL, 0, &ret, &ret_code), "NULL function");
  OK(TVMFuncFree(func));
  TVMSetForeignError("from elsewhere", 77);
  CHECK(TVMTakeForeignError() == 77);
  CHECK(TVMTakeForeignError() == 0);
  TVMSetForeignError("from elsewhere", 78);
  TVMAPISetLastError("plain");
  CHECK(TVMTakeForeignError() == 0);
  char longer[20000];
  memset(longer, 'x', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  TVMAPISetLastError(longer);
  CHECK(strlen(TVMGetLastError()) > 1000 && strlen(TVMGetLastError()) < sizeof longer);
}

static void test_many_names_survive_growth_and_removal(void) {
  TVMFunctionHandle func, got;
  char name[32];
  OK(TVMFuncCreateFromCFunc(add_one, NULL, NULL, &func));
  for (int i = 0; i < 500; ++i) {
    snprintf(name, sizeof name, "test.many.%d", i);
    OK(TVMFuncRegisterGlobal(name, func, 0));
  }
  for (int i = 0; i < 500; i += 2) {
    snprintf(name, sizeof name, "test.many.%d", i);
    OK(TVMFuncRemoveGlobal(name));
  }
  for (int i = 0; i < 500; ++i) {
    snprintf(name, sizeof name, "test.many.%d", i);
    OK(TVMFuncGetGlobal(name, &got));
    CHECK((got != NULL) == (i % 2 == 1));
    OK(TVMFuncFree(got));
    if (i % 2) OK(TVMFuncRemoveGlobal(name));
  }
  OK(TVMFuncFree(func));
  int size;
  const char **names;
  OK(TVMFuncListGlobalNames(&size, &names));
  int found = 0;
  for (int i = 0; i < size; ++i) found += !strcmp(names[i], "runtime.NumThreads");
  CHECK(found == 1);
}

static void *register_many(void *opaque) {
  char name[48];
  TVMFunctionHandle func, got;
  OK(TVMFuncCreateFromCFunc(add_one, NULL, NULL, &func));
  for (int i = 0; i < 200; ++i) {
    snprintf(name, sizeof name, "test.thread.%d.%d", *(int *)opaque, i);
    OK(TVMFuncRegisterGlobal(name, func, 0));
    OK(TVMFuncGetGlobal(name, &got));
    CHECK(call_with(got, i) == i + 1);
    OK(TVMFuncFree(got));
    OK(TVMFuncRemoveGlobal(name));
  }
  return TVMFuncFree(func) ? opaque : NULL;
}

static void test_registry_from_several_threads(void) {
  pthread_t threads[4];
  int ids[4];
  for (int i = 0; i < 4; ++i) {
    ids[i] = i;
    CHECK(pthread_create(&threads[i], NULL, register_many, &ids[i]) == 0);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

static int foreign(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *token) {
  if (n == 0) return 0; /* returns without a result, as a callback that was aborted does */
  if (n == 1) TVMSetForeignError("raised", 5);
  *ret_code = n == 1 ? -2 : kTVMArgInt;
  ret->v_int64 = (int64_t)(intptr_t)token;
  return 0;
}

static int interrupted(void) { return 1; }

static void test_foreign_functions_succeed_only_when_they_say_so(void) {
  TVMFunctionHandle func, other;
  TVMValue args[2] = {{0}}, ret;
  int codes[2] = {0}, ret_code;
  TVMSetForeignCaller(foreign);
  OK(TVMFuncCreateForeign(33, NULL, &func));
  OK(TVMFuncCreateFromCFunc(add_one, NULL, NULL, &other));
  CHECK(TVMFuncForeignToken(func) == 33 && TVMFuncForeignToken(other) == 0);
  OK(TVMFuncCall(func, args, codes, 2, &ret, &ret_code));
  CHECK(ret.v_int64 == 33 && ret_code == kTVMArgInt);
  REFUSES(TVMFuncCall(func, args, codes, 1, &ret, &ret_code), "raised");
  CHECK(TVMTakeForeignError() == 5);
  REFUSES(TVMFuncCall(func, args, codes, 0, &ret, &ret_code), "interrupted");
  CHECK(TVMTakeForeignError() == TVM_ERROR_INTERRUPTED);
  TVMSetInterruptCheck(interrupted);
  REFUSES(TVMFuncCall(func, args, codes, 2, &ret, &ret_code), "interrupted");
  TVMSetInterruptCheck(NULL);
  OK(TVMFuncFree(func));
  OK(TVMFuncFree(other));
}

static void test_objects_count_references(void) {
  TVMObjectHandle object;
  int before = finalized;
  OK(TVMObjectCreate(5, count_finalized, &object));
  OK(TVMObjectRetain(object));
  CHECK(TVMObjectToken(object) == 5);
  OK(TVMObjectFree(object));
  CHECK(finalized == before);
  OK(TVMObjectFree(object));
  CHECK(finalized == before + 1);
}

int main(void) {
  RUN(test_register_get_call_and_override);
  RUN(test_errors_are_text);
  RUN(test_many_names_survive_growth_and_removal);
  RUN(test_registry_from_several_threads);
  RUN(test_foreign_functions_succeed_only_when_they_say_so);
  RUN(test_objects_count_references);
  return 0;
}
