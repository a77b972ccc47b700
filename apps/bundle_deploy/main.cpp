/* Names a photo with a shared bundle, ./classify_cpp model.so photo.ppm labels.txt, or with -DLINKED with the bundle in the
 * program: ./classify_cpp photo.ppm labels.txt. */
#include <chrono>
#include <tvm/classic.hpp>

#include "photo.h"
#ifdef LINKED
#include "model.h"
#endif

using namespace tvm::classic;

namespace {

std::vector<std::int64_t> photo_shape(const Bundle &model) {
  const tvm_bundle_tensor &input = model.inputs()[0];
  if (model.inputs().size() != 1 || input.ndim != 4) give_up("the model", "its input is not a photo");
  std::vector<std::int64_t> shape(input.shape, input.shape + input.ndim);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] < 0) shape[i] = i == 0 ? 1 : 224;
  return shape;
}

void classify(Bundle model, const char *photo_path, const char *labels) {
  photo_t photo = photo_read(photo_path);
  const std::vector<std::int64_t> shape = photo_shape(model);
  std::vector<float> values(static_cast<std::size_t>(3 * shape[2] * shape[3]));
  photo_prepare(&photo, static_cast<int>(shape[2]), static_cast<int>(shape[3]), values.data());
  std::free(photo.pixels);
  model.set_input(0, values, shape);
  const auto start = std::chrono::steady_clock::now();
  model.run();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  Span<const float> scores = model.output<float>(0);
  photo_name(photo_path, labels, scores.data(), static_cast<int>(scores.size()));
  std::printf(", first run %.2f ms\n", time.count());
}

}  // namespace

int main(int argc, char **argv) {
  try {
#ifdef LINKED
    if (argc != 3) give_up(argv[0], "expected photo.ppm labels.txt");
    classify(Bundle::create(TVM_BUNDLE_API(tvm_bundle)), argv[1], argv[2]);
#else
    if (argc != 4) give_up(argv[0], "expected model.so photo.ppm labels.txt");
    classify(Bundle::open(argv[1]), argv[2], argv[3]);
#endif
  } catch (const Error &error) {
    give_up("error", error.what());
  }
}
