/* Runs a model and compares its outputs with those that Python wrote, bit for bit: ./package MODEL FOLDER
 *
 * FOLDER contains inputs.txt with a line for each input (its name and its extents), and float32 data in NAME.bin and
 * output_0.bin, output_1.bin, ...
 */
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <tvm/classic.hpp>

using namespace tvm::classic;

namespace {

std::vector<float> read_floats(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

struct Input { std::string name; Tensor tensor; };

std::vector<Input> read_inputs(const std::string &folder) {
  std::ifstream list(folder + "/inputs.txt");
  std::vector<Input> inputs;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<std::int64_t> shape{std::istream_iterator<std::int64_t>(words), {}};
    inputs.push_back({name, Tensor::from(read_floats(folder + "/" + name + ".bin"), shape)});
  }
  return inputs;
}

std::vector<Tensor> run_graph(const Module &model, const std::vector<Input> &inputs) {
  auto executor = GraphExecutor::create(model, Device::cpu());
  if (executor.input_names().size() != inputs.size()) throw Error(ErrorKind::argument, "the model has other inputs");
  for (const Input &input : inputs) executor.set_input(input.name, input.tensor);
  executor.run();
  std::vector<Tensor> outputs;
  for (std::int64_t i = 0; i < executor.num_outputs(); ++i) outputs.push_back(executor.output(i).to(Device::cpu()));
  executor.run();
  return outputs;
}

std::vector<Tensor> run_machine(const Module &model, const std::vector<Input> &inputs) {
  auto machine = VirtualMachine::create(model, Device::cpu());
  std::vector<std::string> names = machine.input_names();
  std::vector<Value> arguments;
  arguments.emplace_back("main");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (names.at(i) != inputs[i].name) throw Error(ErrorKind::argument, "the model has no input " + inputs[i].name);
    arguments.emplace_back(inputs[i].tensor);
  }
  (void)machine.module().function("set_input").call(arguments);
  return machine.module().function("invoke")("main").tensors();
}

bool is_equal(const Tensor &tensor, const std::vector<float> &wanted) {
  std::vector<float> found = tensor.to_vector<float>();
  return found.size() == wanted.size() && !std::memcmp(found.data(), wanted.data(), found.size() * sizeof(float));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s MODEL FOLDER\n", argv[0]), 2;
  try {
    std::string folder = argv[2];
    Module model = Module::load(argv[1]);
    std::vector<Input> inputs = read_inputs(folder);
    std::vector<Tensor> outputs = model.type_key() == "VMExecutable" ? run_machine(model, inputs) : run_graph(model, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (!is_equal(outputs[i], read_floats(folder + "/output_" + std::to_string(i) + ".bin")))
        return std::fprintf(stderr, "output %zu differs\n", i), 1;
    std::printf("%zu outputs are equal\n", outputs.size());
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
