/* Calls a bundle through tvm/classic.hpp: [BUNDLE] run FOLDER, [BUNDLE] wrong CASES SEED, BUNDLE damaged COPY CASES SEED.
 * With LINKED, the bundle is linked. */
#include <cstring>
#include <fstream>
#include <iterator>

#include <tvm/classic.hpp>

#include "check.h"
#ifdef LINKED
#include HEADER
#endif

using namespace tvm::classic;

namespace {

/* Calls with arguments of wrong types, and wrong calls through the C interface. */
void wrong(const tvm_bundle_api &api, long cases) {
  for (long i = 0; i < cases / 1000 + 1; ++i) {
    Bundle bundle = Bundle::create(api);
    int errors = 0;
    auto fails = [&](auto &&call) {
      try {
        call();
      } catch (const Error &error) {
        errors += *error.what() != 0;
      }
    };
    fails([&] { bundle.set_input(0, std::vector<std::int16_t>(3)); });
    fails([&] { bundle.set_input(0, std::vector<float>(3), {1}); });
    fails([&] { bundle.set_input(-1, std::vector<float>(3)); });
    fails([&] { bundle.run(); });
    fails([&] { bundle.output<float>(0); });
    fails([&] { bundle.output<double>(0); });
    fails([&] { bundle.output_shape(99); });
    fails([&] { bundle.input_index("no such input"); });
    REQUIRE(errors == 8);
  }
  wrong_calls(&api, cases);
}

void damaged(const char *path, const char *copy, long cases) {
  std::size_t size;
  unsigned char *bytes = read_file(path, &size);
  for (long i = 0; i < cases; ++i) {
    write_damaged(copy, bytes, size);
    try {
      Bundle::open(copy);
      REQUIRE(is_equal_file(copy, bytes, size));
    } catch (const Error &error) {
      REQUIRE(std::string(error.what()).find("the file is corrupt") != std::string::npos);
    }
  }
  std::free(bytes);
}

/* Runs a model with float32 inputs and static shapes. */
void run(Bundle bundle, const std::string &folder) {
  Bundle moved = std::move(bundle);
  for (const tvm_bundle_tensor &input : moved.inputs()) {
    const int index = moved.input_index(input.name);
    std::ifstream file(folder + "/input_" + std::to_string(index) + ".bin", std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    moved.set_input(index, values, {input.shape, static_cast<std::size_t>(input.ndim)});
  }
  moved.run();
  for (std::size_t i = 0; i < moved.outputs().size(); ++i) {
    Span<const float> found = moved.output<float>(static_cast<int>(i));
    std::size_t product = 1;
    for (std::int64_t dim : moved.output_shape(static_cast<int>(i))) product *= static_cast<std::size_t>(dim);
    REQUIRE(product == found.size());
    write_file((folder + "/result_" + std::to_string(i) + ".bin").c_str(), found.data(), found.size() * sizeof(float));
  }
}

}  // namespace

int main(int, char **argv) {
  try {
#ifdef LINKED
    char **words = argv + 1;
    const tvm_bundle_api api = TVM_BUNDLE_API(tvm_bundle);
#else
    char **words = argv + 2, text[256];
    tvm_bundle_api api;
    Bundle opened = Bundle::open(argv[1]);
    REQUIRE(!tvm_bundle_open(argv[1], nullptr, &api, text, sizeof text));
#endif
    const std::string mode = words[0];
    if (mode == "damaged") random_state = std::strtoull(words[3], nullptr, 10) | 1, damaged(argv[1], words[1], std::atol(words[2]));
    else if (mode == "wrong") random_state = std::strtoull(words[2], nullptr, 10) | 1, wrong(api, std::atol(words[1]));
    else run(Bundle::create(api), words[1]);
    std::puts("ok");
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
