/* Names a photo with a model that tvmc compiled, without Python.
 *
 * Build: make   (or g++ -std=c++17 -I<include> main.cpp -L<lib> -ltvm_runtime -Wl,-rpath,<lib> -o classify)
 * Run:   ./classify model.tar photo.ppm labels.txt
 *
 * model.tar is a package of `tvmc compile`, or a library of `export_library`, for the graph executor or the virtual
 * machine. Its input is an ImageNet photo (1, 3, height, width). photo.ppm is a binary PPM file (P6). labels.txt has the
 * name of one class in each line.
 */
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tvm/classic.hpp>

using namespace tvm::classic;

namespace {

constexpr int CHANNELS = 3, RUNS = 20, DYNAMIC_SIZE = 224;
constexpr float MEAN[] = {0.485f, 0.456f, 0.406f}, STD[] = {0.229f, 0.224f, 0.225f};

struct Photo {
  int width, height;
  std::vector<unsigned char> pixels; /* red, green and blue of each pixel, row by row */
};

Photo read_ppm(const std::string &path) {
  constexpr int MOST = 1 << 15;
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  Photo photo{};
  int largest = 0;
  if (!(file >> magic >> photo.width >> photo.height >> largest) || magic != "P6" || largest != 255 || photo.width < 1 ||
      photo.height < 1 || photo.width > MOST || photo.height > MOST)
    throw std::runtime_error(path + ": cannot be read as a PPM file (P6) with 8 bits");
  file.get();
  photo.pixels.resize(static_cast<std::size_t>(photo.width) * photo.height * CHANNELS);
  if (!file.read(reinterpret_cast<char *>(photo.pixels.data()), static_cast<std::streamsize>(photo.pixels.size())))
    throw std::runtime_error(path + ": the file ends before the last pixel");
  return photo;
}

/* A channel at a position between pixels. */
float interpolate(const Photo &photo, float y, float x, int channel) {
  y = std::clamp(y, 0.f, static_cast<float>(photo.height - 1));
  x = std::clamp(x, 0.f, static_cast<float>(photo.width - 1));
  int top = static_cast<int>(y), left = static_cast<int>(x);
  int bottom = std::min(top + 1, photo.height - 1), right = std::min(left + 1, photo.width - 1);
  auto at = [&](int row, int column) {
    return static_cast<float>(photo.pixels[(static_cast<std::size_t>(row) * photo.width + column) * CHANNELS + channel]);
  };
  float down = y - static_cast<float>(top), across = x - static_cast<float>(left);
  float above = at(top, left) * (1 - across) + at(top, right) * across;
  float below = at(bottom, left) * (1 - across) + at(bottom, right) * across;
  return above * (1 - down) + below * down;
}

/* The middle of the photo, scaled so that its short side would be 256/224 of the input, normalized as for ImageNet. */
std::vector<float> prepare(const Photo &photo, int height, int width) {
  float scale = std::max(static_cast<float>(height) / photo.height, static_cast<float>(width) / photo.width) * 256 / 224;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(CHANNELS) * height * width);
  for (int channel = 0; channel < CHANNELS; ++channel)
    for (int row = 0; row < height; ++row)
      for (int column = 0; column < width; ++column) {
        float y = (row + 0.5f - height / 2.f) / scale + photo.height / 2.f - 0.5f;
        float x = (column + 0.5f - width / 2.f) / scale + photo.width / 2.f - 0.5f;
        values.push_back((interpolate(photo, y, x, channel) / 255 - MEAN[channel]) / STD[channel]);
      }
  return values;
}

struct Answer {
  std::vector<float> scores;
  double milliseconds; /* the median of RUNS runs */
};

template <class Run>
Answer measure(Run run) {
  std::vector<double> times;
  Tensor output = run();
  for (int i = 0; i < RUNS; ++i) {
    auto start = std::chrono::steady_clock::now();
    output = run();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + RUNS / 2, times.end());
  return {output.to_vector<float>(), times[RUNS / 2]};
}

Tensor input_of(const Photo &photo, std::int64_t height, std::int64_t width) {
  return Tensor::from(prepare(photo, static_cast<int>(height), static_cast<int>(width)), {1, CHANNELS, height, width});
}

Answer run_graph(const Module &model, const Photo &photo) {
  auto executor = GraphExecutor::create(model, Device::cpu());
  std::vector<std::string> names = executor.input_names();
  if (names.size() != 1) throw std::runtime_error("the model has " + std::to_string(names.size()) + " inputs, not one photo");
  Tensor input = executor.input(names[0]);
  Shape shape = input.shape();
  if (shape.size() != 4 || shape[0] != 1 || shape[1] != CHANNELS)
    throw std::runtime_error("input '" + names[0] + "' does not have the shape (1, 3, height, width) of a photo");
  executor.set_input(names[0], input_of(photo, shape[2], shape[3]));
  return measure([&] {
    executor.run();
    return executor.output(0);
  });
}

Answer run_machine(const Module &model, const Photo &photo) {
  auto machine = VirtualMachine::create(model, Device::cpu());
  Tensor input = input_of(photo, DYNAMIC_SIZE, DYNAMIC_SIZE);
  return measure([&] { return machine.run(input).tensors().at(0); });
}

/* Line `number` of a file. */
std::string label(const std::string &path, std::size_t number) {
  std::ifstream file(path);
  std::string line;
  for (std::size_t i = 0; i <= number; ++i)
    if (!std::getline(file, line)) throw std::runtime_error(path + ": has no name of class " + std::to_string(number));
  return line;
}

void classify(const std::string &package, const std::string &photo_path, const std::string &labels) {
  Photo photo = read_ppm(photo_path);
  Module model = Module::load(package);
  Answer answer = model.type_key() == "VMExecutable" ? run_machine(model, photo) : run_graph(model, photo);
  const std::vector<float> &scores = answer.scores;
  auto best = std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (float score : scores) sum += std::exp(score - *best);
  std::string name = label(labels, static_cast<std::size_t>(best - scores.begin()));
  std::printf("%s: %s, probability %.4f, %.2f ms\n", photo_path.c_str(), name.c_str(), 1 / sum, answer.milliseconds);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s model.tar photo.ppm labels.txt\n", argv[0]);
    return 2;
  }
  try {
    classify(argv[1], argv[2], argv[3]);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
