/* Calls a bundle from C. With LINKED, the bundle is linked with the prefix PREFIX; otherwise the first argument is a shared
 * bundle.
 *
 *   check [BUNDLE] run FOLDER ROWS      reads FOLDER/input_I.bin, runs twice, writes FOLDER/result_I.bin
 *   check [BUNDLE] wrong CASES SEED     wrong calls
 *   check [BUNDLE] threads FOLDER ROWS  runs in several threads with separate handles
 *   check BUNDLE damaged COPY CASES SEED
 */
#include <pthread.h>

#include "check.h"

static tvm_bundle_api api;
static const char *folder;
static int64_t rows;

static void set_inputs(tvm_bundle *bundle) {
  for (int i = 0; i < api.info->input_count; ++i) {
    char path[1024];
    int64_t shape[16];
    size_t size;
    snprintf(path, sizeof path, "%s/input_%d.bin", folder, i);
    unsigned char *bytes = read_file(path, &size);
    REQUIRE(size == input_size(&api.info->inputs[i], rows, shape));
    if (api.set_input(bundle, i, bytes, size, shape)) fprintf(stderr, "%s\n", api.error(bundle)), exit(1);
    free(bytes);
  }
}

static void run_once(int write) {
  tvm_bundle *bundle;
  REQUIRE(!api.create(&bundle));
  set_inputs(bundle);
  for (int repeat = 0; repeat < 2; ++repeat)
    if (api.run(bundle)) fprintf(stderr, "%s\n", api.error(bundle)), exit(1);
  for (int i = 0; i < api.info->output_count; ++i) {
    const void *data;
    const int64_t *shape;
    uint64_t size, product = (uint64_t)api.info->outputs[i].itemsize;
    char path[1024];
    REQUIRE(!api.get_output(bundle, i, &data, &size, &shape));
    for (int d = 0; d < api.info->outputs[i].ndim; ++d) product *= (uint64_t)shape[d];
    REQUIRE(product == size);
    snprintf(path, sizeof path, "%s/result_%d.bin", folder, i);
    if (write) write_file(path, data, size);
    else REQUIRE(is_equal_file(path, data, size));
  }
  api.destroy(bundle);
}

static void *thread_main(void *unused) {
  for (int i = 0; i < 20; ++i) run_once(0);
  return unused;
}

static void run_threads(void) {
  pthread_t threads[4];
  run_once(1);
  for (int i = 0; i < 4; ++i) REQUIRE(!pthread_create(&threads[i], NULL, thread_main, NULL));
  for (int i = 0; i < 4; ++i) REQUIRE(!pthread_join(threads[i], NULL));
}

/* Each copy is rejected, because its checksum does not match. */
static void open_damaged(const char *path, const char *copy, long cases) {
  size_t size;
  unsigned char *bytes = read_file(path, &size);
  for (long i = 0; i < cases; ++i) {
    tvm_bundle_api opened;
    char error[256] = "";
    write_damaged(copy, bytes, size);
    int code = tvm_bundle_open(copy, NULL, &opened, error, sizeof error);
    REQUIRE(code ? strstr(error, "the file is corrupt") != NULL : is_equal_file(copy, bytes, size));
  }
  free(bytes);
}

int main(int argc, char **argv) {
#ifdef LINKED
#define NAMES(prefix) TVM_BUNDLE_API(prefix)
  const tvm_bundle_api linked = NAMES(PREFIX);
  char **words = argv + 1;
  api = linked;
#else
  char error[1024], **words = argv + 2;
  REQUIRE(argc > 2);
  if (tvm_bundle_open(argv[1], NULL, &api, error, sizeof error)) return puts(error), 2;
#endif
  REQUIRE(argc > (words - argv) + 2);
  REQUIRE(api.info->size == sizeof *api.info);
  folder = words[1];
  rows = strtoll(words[2], NULL, 10);
  if (!strcmp(words[0], "damaged")) {
    random_state = strtoull(words[3], NULL, 10) | 1;
    open_damaged(argv[1], words[1], rows);
  } else if (!strcmp(words[0], "wrong")) {
    random_state = strtoull(words[2], NULL, 10) | 1;
    wrong_calls(&api, strtol(words[1], NULL, 10));
  } else if (!strcmp(words[0], "threads")) {
    run_threads();
  } else {
    run_once(1);
  }
  puts("ok");
  return 0;
}
