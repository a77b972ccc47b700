/* Classifies an input with the three files of a package (tvmc compile), without Python.
 *
 * Unpack: tar -xf model.tar
 * Build:  make   (or cc -I<include> main.c -L<lib> -ltvm_runtime -Wl,-rpath,<lib> -o classify)
 * Run:    ./classify mod.so mod.json mod.params input.bin [labels.txt]
 *
 * input.bin holds the bytes of the model's input, row major; labels.txt one name in each line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tvm_runtime.h>

enum { TOP = 5 };

typedef struct { char *data; size_t size; } Bytes;

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, TVMGetLastError());
  return 1;
}

/* The whole file, with a zero after it. */
static int read_file(const char *path, Bytes *out) {
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (file && !fseek(file, 0, SEEK_END)) size = ftell(file);
  if (size >= 0 && !fseek(file, 0, SEEK_SET) && (out->data = malloc((size_t)size + 1))) {
    out->size = fread(out->data, 1, (size_t)size, file);
    out->data[out->size] = '\0';
  } else {
    size = -1;
  }
  if (file) fclose(file);
  if (size < 0 || out->size != (size_t)size) {
    fprintf(stderr, "%s: cannot be read\n", path);
    return 1;
  }
  return 0;
}

/* Calls a function of the executor. */
static int call(TVMModuleHandle executor, const char *name, TVMValue *args, int *codes, int n, TVMValue *ret) {
  TVMFunctionHandle function = NULL;
  int code = kTVMNullptr;
  if (TVMModGetFunction(executor, name, 0, &function) || !function) return -1;
  int status = TVMFuncCall(function, args, codes, n, ret, &code);
  TVMFuncFree(function);
  return status;
}

static int create(const Bytes *graph, TVMModuleHandle library, TVMModuleHandle *out) {
  TVMFunctionHandle make = NULL;
  TVMValue args[4], ret;
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt}, code;
  if (TVMFuncGetGlobal("tvm.graph_executor.create", &make) || !make) return -1;
  args[0].v_str = graph->data;
  args[1].v_handle = library;
  args[2].v_int64 = kDLCPU;
  args[3].v_int64 = 0;
  int status = TVMFuncCall(make, args, codes, 4, &ret, &code);
  TVMFuncFree(make);
  *out = ret.v_handle;
  return status;
}

static int is_param(TVMParamsHandle params, const char *name) {
  for (int i = 0; i < TVMParamsCount(params); ++i)
    if (!strcmp(TVMParamsName(params, i, NULL), name)) return 1;
  return 0;
}

/* The first input that is no parameter, filled with the bytes. */
static int fill_input(TVMModuleHandle executor, TVMParamsHandle params, const Bytes *input) {
  TVMValue count, name, array, index;
  int code = kTVMArgInt;
  if (call(executor, "get_num_inputs", NULL, NULL, 0, &count)) return fail("inputs");
  for (int64_t i = 0; i < count.v_int64; ++i) {
    size_t size;
    index.v_int64 = i;
    if (call(executor, "get_input_name", &index, &code, 1, &name)) return fail("inputs");
    if (is_param(params, name.v_str)) continue; /* a returned text lives until this thread gets another */
    printf("input %s\n", name.v_str);
    if (call(executor, "get_input", &index, &code, 1, &array)) return fail("input");
    DLTensor *tensor = array.v_handle;
    if (TVMTensorByteSize(tensor, &size)) return fail("input");
    int status = 0;
    if (size != input->size) {
      fprintf(stderr, "the input takes %zu bytes, the file has %zu\n", size, input->size);
      status = 1;
    } else if (TVMArrayCopyFromBytes(tensor, input->data, size)) {
      status = fail("input");
    }
    TVMArrayFree(tensor);
    return status;
  }
  fprintf(stderr, "the model has no input\n");
  return 1;
}

/* Line `number` of the labels, or the number itself. */
static void print_label(const Bytes *labels, int64_t number) {
  const char *at = labels->data;
  for (int64_t i = 0; at && i < number; ++i) {
    at = strchr(at, '\n');
    if (at) ++at;
  }
  if (at && *at) printf("%.*s\n", (int)strcspn(at, "\r\n"), at);
  else printf("class %lld\n", (long long)number);
}

static int print_top(const DLTensor *scores, const Bytes *labels) {
  size_t size;
  if (scores->dtype.code != kDLFloat || scores->dtype.bits != 32 || scores->dtype.lanes != 1) {
    fprintf(stderr, "the output is no vector of float32\n");
    return 1;
  }
  if (TVMTensorByteSize(scores, &size)) return fail("output");
  int64_t count = (int64_t)(size / sizeof(float)), shown[TOP];
  const float *values = (const float *)((const char *)scores->data + scores->byte_offset);
  for (int rank = 0; rank < TOP && rank < count; ++rank) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; ++i) {
      int taken = 0;
      for (int k = 0; k < rank; ++k) taken |= shown[k] == i;
      if (!taken && (best < 0 || values[i] > values[best])) best = i;
    }
    shown[rank] = best;
    printf("%d. %lld %.6f ", rank + 1, (long long)best, values[best]);
    print_label(labels, best);
  }
  return 0;
}

static int classify(TVMModuleHandle library, const Bytes *graph, const Bytes *blob, const Bytes *input, const Bytes *labels) {
  TVMModuleHandle executor;
  TVMParamsHandle params;
  TVMValue arg, ret;
  TVMByteArray bytes = {blob->data, blob->size};
  int code = kTVMBytes;
  if (create(graph, library, &executor)) return fail("graph");
  if (TVMParamsLoad(blob->data, blob->size, &params)) return fail("parameters");
  arg.v_handle = &bytes;
  int status = call(executor, "load_params", &arg, &code, 1, &ret) ? fail("parameters") : 0;
  if (!status) status = fill_input(executor, params, input);
  if (!status && call(executor, "run", NULL, NULL, 0, &ret)) status = fail("run");
  code = kTVMArgInt;
  arg.v_int64 = 0;
  if (!status && call(executor, "get_output", &arg, &code, 1, &ret)) status = fail("output");
  if (!status) {
    status = print_top(ret.v_handle, labels);
    TVMArrayFree(ret.v_handle);
  }
  TVMParamsFree(params);
  TVMModFree(executor);
  return status;
}

int main(int argc, char **argv) {
  Bytes files[4] = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};
  TVMModuleHandle library;
  if (argc != 5 && argc != 6) {
    fprintf(stderr, "usage: %s mod.so mod.json mod.params input.bin [labels.txt]\n", argv[0]);
    return 2;
  }
  for (int i = 2; i < argc; ++i)
    if (read_file(argv[i], &files[i - 2])) return 1;
  if (TVMModLoadFromFile(argv[1], "so", &library)) return fail("library");
  int status = classify(library, &files[0], &files[1], &files[2], &files[3]);
  TVMModFree(library);
  for (int i = 0; i < 4; ++i) free(files[i].data);
  return status;
}
