/* Names a photo with a bundle, without Python and without the runtime library.
 *
 *   ./classify model.so photo.ppm labels.txt   opens a shared bundle
 *   ./classify photo.ppm labels.txt            built with -DLINKED: the bundle is part of the program
 *
 * The input of the model is an ImageNet photo (1, 3, height, width); its dynamic dimensions become 1 and 224.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include <tvm/bundle.h>

#include "photo.h"
#ifdef LINKED
#include "model.h"
#endif

enum { DYNAMIC_SIZE = 224, RUNS = 20 };

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void set_photo(const tvm_bundle_api *api, tvm_bundle *model, const photo_t *photo) {
  const tvm_bundle_tensor *input = &api->info->inputs[0];
  if (api->info->input_count != 1 || input->ndim != 4 || strcmp(input->dtype, "float32"))
    give_up("the model", "its input is not a photo of the shape (1, 3, height, width)");
  int64_t shape[4];
  for (int i = 0; i < 4; ++i) shape[i] = input->shape[i] >= 0 ? input->shape[i] : i ? DYNAMIC_SIZE : 1;
  const size_t count = (size_t)(3 * shape[2] * shape[3]);
  float *values = malloc(count * sizeof *values);
  if (!values) give_up("the photo", "out of memory");
  photo_prepare(photo, (int)shape[2], (int)shape[3], values);
  if (api->set_input(model, 0, values, count * sizeof *values, shape)) give_up("set_input", api->error(model));
  free(values);
}

/* Runs the model several times and returns the shortest time. */
static double run(const tvm_bundle_api *api, tvm_bundle *model) {
  double best = INFINITY;
  for (int i = 0; i < RUNS; ++i) {
    const double start = milliseconds();
    if (api->run(model)) give_up("run", api->error(model));
    best = fmin(best, milliseconds() - start);
  }
  return best;
}

int main(int argc, char **argv) {
#ifdef LINKED
  const tvm_bundle_api api = TVM_BUNDLE_API(tvm_bundle);
  char **files = argv;
  if (argc != 3) give_up(argv[0], "expected photo.ppm labels.txt");
#else
  tvm_bundle_api api;
  char error[512], **files = argv + 1;
  if (argc != 4) give_up(argv[0], "expected model.so photo.ppm labels.txt");
  if (tvm_bundle_open(argv[1], NULL, &api, error, sizeof error)) give_up("tvm_bundle_open", error);
#endif
  tvm_bundle *model;
  const void *scores;
  uint64_t nbytes;
  photo_t photo = photo_read(files[1]);
  if (api.create(&model)) give_up("create", api.error(NULL));
  set_photo(&api, model, &photo);
  const double time = run(&api, model);
  if (api.get_output(model, 0, &scores, &nbytes, NULL)) give_up("get_output", api.error(model));
  photo_name(files[1], files[2], scores, (int)(nbytes / sizeof(float)));
  printf(", %.2f ms\n", time);
  api.destroy(model);
  free(photo.pixels);
  return 0;
}
