/* Tests of tvm/classic.hpp with error codes: ./results KERNELS, compiled with -fno-exceptions */
#define TVM_CLASSIC_NO_EXCEPTIONS
#include <tvm/classic.hpp>

#include "check.hpp"

using namespace tvm::classic;

namespace {

Result<float> sum_of_first(const char *path, const std::vector<float> &numbers) {
  auto library = Module::load(path);
  if (!library) return library.error();
  auto add = library->function("add");
  if (!add) return add.error();
  auto a = Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())});
  if (!a) return a.error();
  auto c = Tensor::empty(a->shape(), a->dtype());
  if (!c) return c.error();
  if (auto done = (*add)(*a, *a, *c); !done) return done.error();
  auto elements = c->data<float>();
  return elements ? Result<float>((*elements)[0]) : elements.error();
}

void test_functions() {
  auto half = PackedFunc::from([](const Arguments &arguments) -> Result<double> {
    auto number = arguments.at<double>(0);
    if (!number) return number.error();
    if (*number < 0) return Error(ErrorKind::argument, "a negative number");
    return *number / 2;
  });
  CHECK(half);
  Function<double(double)> typed(*half);
  CHECK(*typed(3.0) == 1.5);
  auto negative = typed(-1.0);
  CHECK(!negative && negative.error().kind() == ErrorKind::runtime);
  check_text(negative.error().message(), "a negative number", __LINE__);
  auto text = (*half)("text");
  CHECK(!text);
  auto nothing = PackedFunc::from([](const Arguments &) -> Result<void> { return {}; });
  CHECK(nothing && (*nothing)()->is_null());
  CHECK((*nothing)()->as<int>().error().kind() == ErrorKind::argument);
}

void test_errors(const char *path) {
  auto missing = Module::load("/nowhere/model.so");
  CHECK(!missing && missing.error().kind() == ErrorKind::runtime && !missing.error().message().empty());
  auto library = Module::load(path);
  CHECK(library && library->function("nobody").error().kind() == ErrorKind::missing);
  CHECK(!GraphExecutor::create(*library, Device::cpu()) && !VirtualMachine::create(*library, Device::cpu()));
  auto tensor = Tensor::empty({2}, dtype_of<float>());
  CHECK(tensor->copy_from(std::vector<float>{1, 2}) && !tensor->copy_from(std::vector<float>{1}));
  CHECK(tensor->data<int>().error().kind() == ErrorKind::argument);
}

}  // namespace

int main(int, char **argv) {
  auto sum = sum_of_first(argv[1], {1.5f, 2});
  CHECK(sum && *sum == 3);
  CHECK(!sum_of_first("/nowhere/model.so", {1}));
  test_functions();
  test_errors(argv[1]);
  std::puts("all results are correct");
}
