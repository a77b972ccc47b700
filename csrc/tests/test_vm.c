/* The virtual machine: runs a program with every instruction, and checks that damaged programs cannot do harm. */
#include "vm_text.h"

/* main(x, n) calls itself with n - 1 until n is 0, adds x to itself in storage, uses ADT values, a closure and shapes,
 * and optionally writes into ADT values; `closed` is the function of the closure. */
static void write_program(Text *text, bool writes_fields) {
  PUT(text, 1, kDLCPU, 2);
  put_name(text, "add");
  put_name(text, "less");
  put(text, 1);
  put_name(text, "shape");
  PUT(text, 0, 2);
  int start = begin_function(text, "main", 2, 0, 14);
  PUT(text, VM_LOAD_CONSTI, 2, 0, VM_IF, 1, 2, 5, 7, VM_GOTO, 48);  /* if n == 0, jump to the end */
  /* n != 0 */
  PUT(text, VM_LOAD_CONSTI, 2, 8, VM_ALLOC_STORAGE, 3, 2, 64, INT64, 0, VM_ALLOC_TENSOR, 4, 3, 0, INT64, 0);
  PUT(text, VM_INVOKE_PACKED, 1, 1, 2, 1, 4, VM_KILL_REGISTER, 2, 2, 3, VM_INVOKE, 5, 0, 2, 0, 4, VM_MOVE, 6, 5);
  PUT(text, VM_ALLOC_ADT, 7, 3, 2, 6, 0, VM_RET, 7);
  while (text->count < start + 8 + 48) PUT(text, VM_GOTO, 2);
  /* n == 0 */
  PUT(text, VM_SHAPE_OF, 2, 0, VM_ALLOC_STORAGE, 3, 2, 64, FLOAT32, 0, VM_ALLOC_TENSOR_REG, 4, 3, 0, 2, FLOAT32);
  PUT(text, VM_INVOKE_PACKED, 0, 1, 3, 0, 0, 4, VM_LOAD_CONST, 5, 0, VM_RESHAPE_TENSOR, 6, 4, 5, VM_DEVICE_COPY, 7, 6, 0, 0);
  PUT(text, VM_ALLOC_ADT, 8, 1, 2, 6, 7, VM_GET_TAG, 9, 8, VM_GET_FIELD, 10, 8, 1, VM_ALLOC_CLOSURE, 11, 1, 1, 10);
  PUT(text, VM_INVOKE_CLOSURE, 12, 11, 1, 4);
  if (writes_fields) PUT(text, VM_SET_FIELD, 8, 0, 12);
  PUT(text, VM_LOAD_CONSTI, 13, 1, VM_IF, 9, 13, 6, 5, VM_FATAL, VM_RET, 8);
  end_function(text, start);
  start = begin_function(text, "closed", 2, 0, 3);
  PUT(text, VM_ALLOC_ADT, 2, 2, 2, 0, 1, VM_RET, 2);
  end_function(text, start);
}

/* ---- kernels, which check their arguments like generated kernels ---- */

static bool is_tensor(int code, const DLTensor *t, int kind, int bits) {
  return code == kTVMNDArrayHandle && t->dtype.code == kind && t->dtype.bits == bits && t->dtype.lanes == 1 && !t->strides;
}

static int add(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  size_t bytes[3] = {0};
  (void)ret, (void)ret_code, (void)self;
  if (n != 3) return TVMAPISetLastError("add: expected three arguments"), -1;
  for (int i = 0; i < 3; ++i)
    if (!is_tensor(codes[i], args[i].v_handle, kDLFloat, 32) || TVMTensorByteSize(args[i].v_handle, &bytes[i]) || bytes[i] != bytes[0])
      return TVMAPISetLastError("add: invalid arguments"), -1;
  const DLTensor *a = args[0].v_handle, *b = args[1].v_handle, *out = args[2].v_handle;
  for (size_t i = 0; i < bytes[0] / 4; ++i)
    ((float *)((char *)out->data + out->byte_offset))[i] =
        ((float *)((char *)a->data + a->byte_offset))[i] + ((float *)((char *)b->data + b->byte_offset))[i];
  return 0;
}

static int less(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  (void)ret, (void)ret_code, (void)self;
  for (int i = 0; i < 2 && n == 2; ++i) {
    const DLTensor *t = args[i].v_handle;
    if (!is_tensor(codes[i], t, kDLInt, 64) || t->ndim || (uintptr_t)((char *)t->data + t->byte_offset) % 8) n = 0;
  }
  if (n != 2) return TVMAPISetLastError("less: invalid arguments"), -1;
  const DLTensor *a = args[0].v_handle, *out = args[1].v_handle;
  *(int64_t *)((char *)out->data + out->byte_offset) = *(int64_t *)((char *)a->data + a->byte_offset) - 1;
  return 0;
}

static TVMModuleHandle library(void) {
  TVMModuleHandle mod = module_with("add", add);
  TVMFunctionHandle f;
  OK(TVMFuncCreateFromCFunc(less, NULL, NULL, &f));
  OK(TVMModAddFunction(mod, "less", f));
  OK(TVMFuncFree(f));
  return mod;
}

/* ---- running ---- */

static TVMArrayHandle numbers(int64_t count, const int64_t *values) {
  TVMArrayHandle array;
  OK(TVMArrayAlloc(&count, count ? 1 : 0, (DLDataType){kDLInt, 64, 1}, check_cpu, &array));
  memcpy(array->data, values, (size_t)(count ? count : 1) * 8);
  return array;
}

/* Creates a virtual machine of an executable whose first constant is a shape. */
static int prepare(TVMModuleHandle exe, TVMModuleHandle *machine) {
  TVMValue args[3] = {{.v_int64 = 0}}, ret;
  int codes[3] = {kTVMArgInt, kTVMNDArrayHandle, kTVMArgInt}, code;
  TVMArrayHandle shape = numbers(2, (int64_t[]){3, -1});
  args[1].v_handle = shape;
  call(exe, "set_constant", args, codes, 2, &ret);
  OK(TVMArrayFree(shape));
  OK(call_for(exe, "vm_load_executable", NULL, NULL, 0, &ret, &code));
  *machine = ret.v_handle;
  TVMValue places[3] = {{.v_int64 = kDLCPU}, {.v_int64 = 0}, {.v_int64 = 2}};
  int kinds[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt};
  return call(*machine, "init", places, kinds, 3, &ret);
}

static int run(TVMModuleHandle machine, TVMArrayHandle x, TVMArrayHandle n, TVMValue *ret, int *code) {
  TVMValue args[3] = {{.v_str = "main"}, {.v_handle = x}, {.v_handle = n}};
  int codes[3] = {kTVMStr, kTVMNDArrayHandle, kTVMNDArrayHandle};
  TVMValue nothing;
  if (call(machine, "set_input", args, codes, 3, &nothing)) return -1;
  vm_of_module(machine)->steps_left = 20000;
  return call_for(machine, "invoke", args, codes, 1, ret, code);
}

static void test_every_instruction_runs(void) {
  static Text text;
  static char bytes[32 + 512 * 8];
  TVMModuleHandle lib = library(), exe, machine;
  TVMArrayHandle x = make_array(2, 3), n = numbers(0, (int64_t[]){2});
  TVMValue ret, field;
  int code = kTVMNullptr, field_code;
  write_program(&text, true);
  for (int i = 0; i < 6; ++i) ((float *)x->data)[i] = (float)i;
  OK(load(bytes, seal(&text, bytes), lib, &exe));
  OK(prepare(exe, &machine));
  OK(run(machine, x, n, &ret, &code));
  CHECK(code == kTVMObjectHandle && TVMObjectKind(ret.v_handle) == kTVMObjectADT && TVMADTTag(ret.v_handle) == 3);
  OK(TVMADTField(ret.v_handle, 0, &field, &field_code)); /* the value for n = 1 */
  CHECK(TVMADTTag(field.v_handle) == 3 && TVMADTSize(field.v_handle) == 2);
  OK(TVMObjectFree(field.v_handle));
  OK(TVMObjectFree(ret.v_handle));
  OK(TVMModFree(machine));
  OK(TVMModFree(exe));
  OK(TVMModFree(lib));
  OK(TVMArrayFree(x));
  OK(TVMArrayFree(n));
}

/* ---- damaged executables ---- */

static uint64_t state;
static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

/* Changes a word to a small value, a far too large value, or another word of the program; plausible sizes are
 * allocated. */
static int64_t damaged_word(const Text *text, int64_t word) {
  switch (next_random() % 6) {
    case 0: return (int64_t)(next_random() % 8) - 2;
    case 1: return (int64_t)(next_random() % 80);
    case 2: return next_random() % 2 ? INT64_MAX : INT64_MIN;
    case 3: return text->word[next_random() % (uint64_t)text->count];
    case 4: return (int64_t)((uint64_t)word + (next_random() % 2 ? 1 : UINT64_MAX));
    default: return word ^ (int64_t)1 << (next_random() % 2 ? next_random() % 8 : 48 + next_random() % 15);
  }
}

static void damage(Text *text) {
  for (uint64_t changes = 1 + next_random() % 3; changes; --changes) {
    uint64_t at = next_random() % (uint64_t)text->count;
    uint64_t kind = next_random() % 12;
    if (kind == 0 && text->count > 1) --text->count;
    else if (kind == 1) memmove(text->word + at, text->word + at + 1, (size_t)(text->count - 1 - (int)at) * 8), --text->count;
    else text->word[at] = damaged_word(text, text->word[at]);
    if (!text->count) text->count = 1;
  }
}

/* An ADT value that contains itself is never freed. The leak checker, if present, is told to ignore such values. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

static bool may_write_fields(const Text *text) {
  for (int i = 0; i < text->count; ++i)
    if (text->word[i] == VM_SET_FIELD) return true;
  return false;
}

static void test_damaged_executables_do_no_harm(void) {
  const char *cases = getenv("TVM_FUZZ_CASES"), *seed = getenv("TVM_TEST_SEED");
  long count = cases ? atol(cases) : 4000, ran = 0, loaded = 0;
  static Text whole[2];
  static char bytes[32 + 512 * 8];
  TVMModuleHandle lib = library();
  TVMArrayHandle x = make_array(2, 3), n = numbers(0, (int64_t[]){2});
  for (int i = 0; i < 2; ++i) write_program(&whole[i], i);
  memset(x->data, 0, 24);
  state = 88172645463325252u ^ (seed ? strtoull(seed, NULL, 10) : 0);
  for (long i = 0; i < count; ++i) {
    Text text = whole[i % 2];
    TVMModuleHandle exe, machine;
    TVMValue ret;
    int code = kTVMNullptr;
    damage(&text);
    if (load(bytes, seal(&text, bytes), lib, &exe)) continue;
    ++loaded;
    bool unchecked = __lsan_disable && may_write_fields(&text);
    if (unchecked) __lsan_disable();
    if (!prepare(exe, &machine) && !run(machine, x, n, &ret, &code)) {
      ++ran;
      if (code == kTVMObjectHandle) TVMObjectFree(ret.v_handle);
      else if (code == kTVMNDArrayHandle) TVMArrayFree(ret.v_handle);
    }
    OK(TVMModFree(machine));
    if (unchecked) __lsan_enable();
    OK(TVMModFree(exe));
  }
  printf("%ld damaged executables: %ld were rejected, %ld of the others ran to completion\n", count, count - loaded, ran);
  CHECK(count < 1000 || (loaded > count / 50 && ran > 0 && loaded < count));
  OK(TVMModFree(lib));
  OK(TVMArrayFree(x));
  OK(TVMArrayFree(n));
}

int main(void) {
  RUN(test_every_instruction_runs);
  RUN(test_damaged_executables_do_no_harm);
  return 0;
}
