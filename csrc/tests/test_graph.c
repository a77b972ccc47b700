/* The graph executor: runs a chain over shared memory, and rejects damaged graphs. */
#include "executor_calls.h"

static const char GRAPH[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
    " {\"op\": \"null\", \"name\": \"w\", \"inputs\": []},"
    " {\"op\": \"tvm_op\", \"name\": \"sum\", \"attrs\": {\"func_name\": \"add\", \"num_inputs\": \"2\","
    "  \"num_outputs\": \"1\", \"flatten_data\": \"0\"}, \"inputs\": [[0, 0, 0], [1, 0, 0]]},"
    " {\"op\": \"tvm_op\", \"name\": \"reshape_nop\", \"attrs\": {\"func_name\": \"__nop\", \"num_inputs\": \"1\","
    "  \"num_outputs\": \"1\", \"flatten_data\": \"0\"}, \"inputs\": [[2, 0, 0]]},"
    " {\"op\": \"tvm_op\", \"name\": \"again\", \"attrs\": {\"func_name\": \"add\", \"num_inputs\": \"2\","
    "  \"num_outputs\": \"1\", \"flatten_data\": \"0\"}, \"inputs\": [[3, 0, 0], [3, 0, 0]]}],"
    "\"arg_nodes\": [0, 1], \"heads\": [[4, 0, 0]], \"node_row_ptr\": [0, 1, 2, 3, 4, 5],"
    "\"attrs\": {\"dltype\": [\"list_str\", [\"float32\", \"float32\", \"float32\", \"float32\", \"float32\"]],"
    " \"storage_id\": [\"list_int\", [0, 1, 2, 2, 3]],"
    " \"shape\": [\"list_shape\", [[2, 3], [2, 3], [2, 3], [6], [6]]]}}";

/* out = a + b elementwise, for any shape. */
static int add(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  (void)codes, (void)ret, (void)ret_code, (void)self;
  if (n != 3) return -1;
  DLTensor *a = args[0].v_handle, *b = args[1].v_handle, *out = args[2].v_handle;
  size_t bytes;
  if (TVMTensorByteSize(out, &bytes)) return -1;
  for (size_t i = 0; i < bytes / 4; ++i) ((float *)out->data)[i] = ((float *)a->data)[i] + ((float *)b->data)[i];
  return 0;
}

static void test_a_graph_runs(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  OK(create_executor(GRAPH, lib, &check_cpu, 1, &graph));
  OK(TVMModFree(lib)); /* the executor keeps a reference */
  TVMArrayHandle x = make_array(2, 3);
  for (int round = 1; round < 4; ++round) {
    for (int i = 0; i < 6; ++i) ((float *)x->data)[i] = (float)(i * round);
    TVMValue ret;
    int code = kTVMNullptr;
    for (int which = 0; which < 2; ++which) {
      TVMValue args[2] = {{.v_str = which ? "w" : "x"}, {.v_handle = x}};
      int codes[2] = {kTVMStr, kTVMNDArrayHandle};
      OK(call_for(graph, "set_input", args, codes, 2, &ret, &code));
    }
    OK(call_for(graph, "run", NULL, NULL, 0, &ret, &code));
    TVMValue index = {.v_int64 = 0};
    int index_code = kTVMArgInt;
    OK(call_for(graph, "get_output", &index, &index_code, 1, &ret, &code));
    CHECK(code == kTVMNDArrayHandle);
    DLTensor *out = ret.v_handle;
    CHECK(out->ndim == 1 && out->shape[0] == 6);
    for (int i = 0; i < 6; ++i) CHECK(((float *)out->data)[i] == (float)(4 * i * round));
    OK(TVMArrayFree(out));
  }
  OK(TVMArrayFree(x));
  OK(TVMModFree(graph));
}

static void test_wrong_uses_are_refused(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  OK(create_executor(GRAPH, lib, &check_cpu, 1, &graph));
  TVMArrayHandle wrong = make_array(3, 3);
  TVMValue args[2] = {{.v_str = "x"}, {.v_handle = wrong}}, ret;
  int codes[2] = {kTVMStr, kTVMNDArrayHandle}, code = kTVMNullptr;
  REFUSES(call_for(graph, "set_input", args, codes, 2, &ret, &code), "has shape[0] == 2, got 3");
  args[0].v_str = "nobody";
  REFUSES(call_for(graph, "set_input", args, codes, 2, &ret, &code), "no input 'nobody'");
  TVMValue index = {.v_int64 = 7};
  int index_code = kTVMArgInt;
  REFUSES(call_for(graph, "get_output", &index, &index_code, 1, &ret, &code), "output index out of range");
  TVMByteArray bytes = {"junk", 4};
  TVMValue blob = {.v_handle = &bytes};
  int blob_code = kTVMBytes;
  REFUSES(call_for(graph, "load_params", &blob, &blob_code, 1, &ret, &code), "params:");
  OK(TVMArrayFree(wrong));
  OK(TVMModFree(graph));
  OK(TVMModFree(lib));
}

static int call_with(TVMModuleHandle graph, const char *name, TVMValue key, int key_code, DLTensor *array) {
  TVMValue args[2] = {key, {.v_handle = array}}, ret;
  int codes[2] = {key_code, kTVMNDArrayHandle}, code = kTVMNullptr;
  return call_for(graph, name, args, codes, 2, &ret, &code);
}

static void fill(DLTensor *array, float value) {
  size_t bytes;
  OK(TVMTensorByteSize(array, &bytes));
  for (size_t i = 0; i < bytes / 4; ++i) ((float *)array->data)[i] = value;
}

static void test_a_parameter_that_is_not_listed_is_no_input(void) {
  char text[sizeof GRAPH];
  memcpy(text, GRAPH, sizeof GRAPH);
  memcpy(strstr(text, "[0, 1], \"heads\""), "[0   ]", 6);
  TVMModuleHandle lib = module_with("add", add), graph;
  OK(create_executor(text, lib, &check_cpu, 1, &graph));
  TVMValue ret;
  int code = kTVMNullptr;
  OK(call_for(graph, "get_num_inputs", NULL, NULL, 0, &ret, &code));
  CHECK(ret.v_int64 == 1);
  TVMArrayHandle w = make_array(2, 3);
  TVMValue args[2] = {{.v_str = "w"}, {.v_handle = w}};
  int codes[2] = {kTVMStr, kTVMNDArrayHandle};
  REFUSES(call_for(graph, "set_input", args, codes, 2, &ret, &code), "no input 'w'");
  OK(TVMArrayFree(w));
  OK(TVMModFree(lib));
  OK(TVMModFree(graph));
}

static void test_a_lent_input_can_be_set_again(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  OK(create_executor(GRAPH, lib, &check_cpu, 1, &graph));
  TVMArrayHandle lent = make_array(2, 3), set = make_array(2, 3), out;
  int64_t six = 6;
  OK(TVMArrayAlloc(&six, 1, check_float32, check_cpu, &out));
  fill(lent, 1);
  fill(set, 10);
  TVMValue x = {.v_str = "x"}, w = {.v_str = "w"}, ret, first = {.v_int64 = 0};
  int code = kTVMNullptr;
  OK(call_with(graph, "set_input", w, kTVMStr, set));
  OK(call_with(graph, "set_input_zero_copy", x, kTVMStr, lent));
  OK(call_with(graph, "set_output_zero_copy", first, kTVMArgInt, out));
  OK(call_for(graph, "run", NULL, NULL, 0, &ret, &code));
  CHECK(((float *)out->data)[5] == 22);
  OK(call_with(graph, "set_input", x, kTVMStr, set));
  OK(call_for(graph, "run", NULL, NULL, 0, &ret, &code));
  CHECK(((float *)out->data)[5] == 40 && ((float *)lent->data)[5] == 1);
  TVMValue huge = {.v_int64 = INT64_C(1) << 32};
  REFUSES(call_with(graph, "set_input", huge, kTVMArgInt, set), "there is no input 4294967296");
  OK(TVMArrayFree(lent));
  OK(TVMArrayFree(set));
  OK(TVMArrayFree(out));
  OK(TVMModFree(graph));
  OK(TVMModFree(lib));
}

/* Input "w" shares its storage with a larger value, so memory of its size cannot replace the storage. */
static void test_a_lent_array_must_cover_its_storage(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  char text[sizeof GRAPH + 64];
  memcpy(text, GRAPH, sizeof GRAPH);
  memcpy(strstr(text, "[0, 1, 2, 2, 3]"), "[0, 1, 2, 2, 1]", 15);
  memcpy(strstr(text, "[[2, 3], [2, 3], [2, 3], [6], [6]]"), "[[2, 3], [2, 0], [2, 3], [6], [6]]", 34);
  OK(create_executor(text, lib, &check_cpu, 1, &graph));
  TVMArrayHandle empty = make_array(2, 0);
  TVMValue w = {.v_str = "w"};
  REFUSES(call_with(graph, "set_input_zero_copy", w, kTVMStr, empty), "also stores other values in its memory");
  REFUSES(call_with(graph, "share_arrays", w, kTVMStr, empty), "also stores other values in its memory");
  OK(TVMArrayFree(empty));
  OK(TVMModFree(graph));
  OK(TVMModFree(lib));
}

static void test_a_wrong_device_index_is_refused(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  char text[sizeof GRAPH + 128];
  const char *tail = ", \"device_index\": [\"list_int\", [1, 1, 1, 999, 1]]}}";
  memcpy(text, GRAPH, sizeof GRAPH);
  strcpy(text + strlen(text) - 2, tail);
  REFUSES(create_executor(text, lib, &check_cpu, 1, &graph), "'device_index' contains an invalid number");
  OK(TVMModFree(lib));
}

#if defined(__x86_64__)
static unsigned float_settings(void) { return __builtin_ia32_stmxcsr() & 0xffc0; }
#else
static unsigned float_settings(void) { return 0; }
#endif

static void test_runs_flush_denormals_and_restore_the_state(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  OK(create_executor(GRAPH, lib, &check_cpu, 1, &graph));
  TVMArrayHandle tiny = make_array(2, 3);
  fill(tiny, 1e-40f);
  TVMValue x = {.v_str = "x"}, w = {.v_str = "w"}, index = {.v_int64 = 0}, off = {.v_int64 = 0}, ret;
  int code = kTVMNullptr, int_code = kTVMArgInt;
  unsigned before = float_settings();
  OK(call_with(graph, "set_input", x, kTVMStr, tiny));
  OK(call_with(graph, "set_input", w, kTVMStr, tiny));
  for (int flush = 1; flush >= 0; --flush) {
    if (!flush) OK(call_for(graph, "flush_denormals", &off, &int_code, 1, &ret, &code));
    OK(call_for(graph, "run", NULL, NULL, 0, &ret, &code));
    CHECK(float_settings() == before);
    OK(call_for(graph, "get_output", &index, &int_code, 1, &ret, &code));
#if defined(__x86_64__) || defined(__aarch64__)
    uint32_t bits;
    memcpy(&bits, ((DLTensor *)ret.v_handle)->data, 4);
    CHECK((bits == 0) == flush || is_under_valgrind());
#endif
    OK(TVMArrayFree(ret.v_handle));
  }
  OK(TVMArrayFree(tiny));
  OK(TVMModFree(graph));
  OK(TVMModFree(lib));
}

/* Every truncated graph, and every graph with one changed byte, is either rejected or runs. */
static void test_damaged_graphs_do_no_harm(void) {
  TVMModuleHandle lib = module_with("add", add), graph;
  size_t size = strlen(GRAPH);
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; ++i) {
    memcpy(text, GRAPH, i);
    text[i] = '\0';
    CHECK(create_executor(text, lib, &check_cpu, 1, &graph) != 0);
  }
  for (size_t i = 0; i < size; ++i) {
    static const char changes[] = "0919\"[]{},-:x";
    for (size_t c = 0; c + 1 < sizeof changes; ++c) {
      memcpy(text, GRAPH, size + 1);
      text[i] = changes[c];
      if (!create_executor(text, lib, &check_cpu, 1, &graph)) OK(TVMModFree(graph));
    }
  }
  REFUSES(create_executor("{\"nodes\": []}", lib, &check_cpu, 1, &graph), "missing or has the wrong JSON type");
  REFUSES(create_executor("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", lib, &check_cpu, 1, &graph), "nested too deeply");
  free(text);
  OK(TVMModFree(lib));
}

int main(void) {
  RUN(test_a_graph_runs);
  RUN(test_wrong_uses_are_refused);
  RUN(test_a_parameter_that_is_not_listed_is_no_input);
  RUN(test_a_lent_input_can_be_set_again);
  RUN(test_a_lent_array_must_cover_its_storage);
  RUN(test_a_wrong_device_index_is_refused);
  RUN(test_runs_flush_denormals_and_restore_the_state);
  RUN(test_damaged_graphs_do_no_harm);
  return 0;
}
