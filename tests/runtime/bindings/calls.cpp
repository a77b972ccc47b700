/* Tests of tvm/classic.hpp with exceptions: ./calls KERNELS */
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <tvm/classic.hpp>

#include "check.hpp"

using namespace tvm::classic;

namespace {

template <class F>
void fails(int line, ErrorKind kind, const char *part, F call) {
  try {
    call();
  } catch (const Error &error) {
    check_text(error.what(), part, line);
    if (error.kind() == kind) return;
    std::fprintf(stderr, "line %d: an error of another kind: %s\n", line, error.what());
    std::exit(1);
  }
  std::fprintf(stderr, "line %d: no error\n", line);
  std::exit(1);
}
#define FAILS(kind, part, expression) fails(__LINE__, ErrorKind::kind, part, [&] { (void)(expression); })

static_assert(!std::is_copy_constructible_v<GraphExecutor> && std::is_move_constructible_v<GraphExecutor>);
static_assert(!std::is_copy_constructible_v<VirtualMachine> && std::is_move_constructible_v<VirtualMachine>);
static_assert(!std::is_copy_constructible_v<Value> && std::is_copy_constructible_v<Tensor>);

void test_tensors() {
  std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  Tensor tensor = Tensor::from(numbers, {2, 3});
  CHECK(tensor.shape().size() == 2 && tensor.shape()[1] == 3 && tensor.size() == 6 && tensor.nbytes() == 24);
  CHECK(to_string(tensor.dtype()) == "float32" && tensor.device() == Device::cpu());
  CHECK(tensor.to_vector<float>() == numbers && tensor.data<const float>()[5] == 6);
  Tensor same = tensor, copy = tensor.to(Device::cpu());
  tensor.data<float>()[0] = 7;
  CHECK(same.to_vector<float>()[0] == 7 && copy.to_vector<float>()[0] == 1);
  CHECK(tensor.view({3, 2}).shape()[0] == 3);
  std::array<float, 6> read{};
  copy.copy_to(Span<float>(read));
  CHECK(read[3] == 4);
  CHECK(Tensor::empty({}, dtype_of<std::int64_t>()).size() == 1 && Tensor::empty({0, 5}, dtype_of<bool>()).size() == 0);
  CHECK(to_string(dtype_of<bool>()) == "uint1" && to_string(DLDataType{kDLInt, 8, 4}) == "int8x4");
  FAILS(argument, "elements of float32, not of int32", tensor.data<std::int32_t>());
  FAILS(argument, "has 6 elements, not 2", tensor.copy_from(std::vector<float>{1, 2}));
  FAILS(argument, "elements of float32, not of float64", tensor.to_vector<double>());
  FAILS(runtime, "do not fit", tensor.view({7}));
  FAILS(runtime, "", Tensor::empty({-1}, dtype_of<float>()));
}

void test_dlpack() {
  Tensor tensor = Tensor::from(std::vector<int>{1, 2, 3}, {3});
  DLPackTensor exported = tensor.to_dlpack();
  int *data = static_cast<int *>(exported->dl_tensor.data);
  Tensor imported = Tensor::from_dlpack(std::move(exported));
  tensor = Tensor();
  CHECK(imported.to_vector<int>()[2] == 3 && imported.data<int>().data() == data);
  auto strided = std::make_unique<DLManagedTensor>();
  static int freed = 0, elements[4] = {1, 2, 3, 4};
  static std::int64_t shape[] = {2, 2}, strides[] = {1, 2};
  strided->dl_tensor = {elements, {kDLCPU, 0}, 2, {kDLInt, 32, 1}, shape, strides, 0};
  strided->deleter = [](DLManagedTensor *self) { ++freed, delete self; };
  {
    Tensor transposed = Tensor::from_dlpack(DLPackTensor(strided.release()));
    CHECK((transposed.to_vector<int>() == std::vector<int>{1, 3, 2, 4}));
    FAILS(argument, "has strides", transposed.data<int>());
  }
  CHECK(freed == 1);
  DLPackTensor bad(new DLManagedTensor{{elements, {99, 0}, 2, {kDLInt, 32, 1}, shape, nullptr, 0}, nullptr,
                                       [](DLManagedTensor *self) { ++freed, delete self; }});
  FAILS(runtime, "", Tensor::from_dlpack(std::move(bad)));
  CHECK(freed == 2);
}

void test_values() {
  PackedFunc echo = PackedFunc::from([](const Arguments &arguments) -> Value {
    switch (arguments.at<std::int64_t>(0)) {
      case 0: return Value();
      case 1: return arguments.at<std::int64_t>(1);
      case 2: return arguments.at<double>(1);
      case 3: return arguments.at<std::string>(1);
      case 4: return arguments.at<Tensor>(1);
      case 5: return arguments.at<PackedFunc>(1);
      case 6: return arguments.at<Device>(1);
      case 7: return arguments.at<DLDataType>(1);
      case 8: return arguments.at<Module>(1);
      default: return arguments.at<bool>(1);
    }
  });
  CHECK(echo(0, nullptr).is_null());
  CHECK(echo(1, -5).as<int>() == -5 && echo(1, std::uint8_t{200}).as<std::int64_t>() == 200);
  CHECK(echo(2, 0.25f).as<double>() == 0.25 && echo(2, 3).as<float>() == 3);
  CHECK(echo(3, "text").as<std::string>() == "text" && echo(3, std::string()).as<std::string>().empty());
  std::string zeros("a\0b", 3);
  CHECK(echo(3, Bytes(zeros)).as<std::string>() == "a" + std::string(1, '\0') + "b");
  Tensor tensor = Tensor::from(std::vector<double>{1}, {});
  CHECK(echo(4, tensor).as<Tensor>().handle() == tensor.handle());
  CHECK(TVMArrayUseCount(tensor.handle()) == 1);
  CHECK(echo(5, echo).as<PackedFunc>().handle() == echo.handle());
  CHECK(echo(6, Device::opencl(3)).as<Device>() == Device::opencl(3));
  CHECK(echo(7, dtype_of<float>()).as<DLDataType>() == dtype_of<float>());
  CHECK(echo(8, Module::system_library()).as<Module>().type_key() == "library");
  CHECK(echo(9, true).as<bool>());
  std::vector<Value> list;
  list.emplace_back(3);
  list.emplace_back("from a list");
  CHECK(echo.call(list).as<std::string>() == "from a list");
  Function<double(int, double)> typed(echo);
  CHECK(typed(2, 1.5) == 1.5);
  FAILS(argument, "another type", echo(1, 1).as<std::string>());
  FAILS(argument, "another type", echo(1, 1).as<Tensor>());
  FAILS(argument, "neither a tuple", echo(1, 1).fields());
  FAILS(runtime, "argument 1 is missing; there are 1", echo(1));
  FAILS(runtime, "another type", echo(1, "text"));
}

void test_functions() {
  int calls = 0;
  PackedFunc count = PackedFunc::from([&calls](const Arguments &) { ++calls; });
  count.register_global("test.cpp.count");
  FAILS(runtime, "test.cpp.count", count.register_global("test.cpp.count"));
  count.register_global("test.cpp.count", true);
  CHECK(PackedFunc::global("test.cpp.count")().is_null() && calls == 1);
  TVMFuncRemoveGlobal("test.cpp.count");
  FAILS(missing, "there is no global function 'test.cpp.count'", PackedFunc::global("test.cpp.count"));
  PackedFunc broken = PackedFunc::from([](const Arguments &) { throw std::runtime_error("broken by design"); });
  FAILS(runtime, "broken by design", broken());
  PackedFunc strange = PackedFunc::from([](const Arguments &) { throw 3; });
  FAILS(runtime, "no std::exception", strange());
  FAILS(runtime, "NULL function", PackedFunc()());
}

void test_library(const char *path) {
  Module library = Module::load(path);
  PackedFunc add = library.function("add");
  Tensor a = Tensor::from(std::vector<float>{1, 2, 3}, {3}), b = Tensor::from(std::vector<float>{4, 5, 6}, {3});
  Tensor c = Tensor::empty({3}, dtype_of<float>());
  (void)add(a, b, c);
  CHECK((c.to_vector<float>() == std::vector<float>{5, 7, 9}));
  library = Module();
  std::thread([&] { (void)add(c, b.handle(), c); }).join();
  CHECK(c.to_vector<float>()[2] == 15);
  FAILS(runtime, "expected 3 arguments, got 1", add(a));
  FAILS(runtime, "add", add(a, b, Tensor::empty({4}, dtype_of<float>())));
  FAILS(runtime, "add", add(a, b, Tensor::empty({3}, dtype_of<double>())));
  Module again = Module::load(path);
  CHECK(again.imports().empty() && again.type_key() == "library");
  FAILS(missing, "has no function 'nobody'", again.function("nobody"));
  FAILS(argument, "does not run a module of type library", GraphExecutor::create(again, Device::cpu()));
  FAILS(argument, "does not run a module of type library", VirtualMachine::create(again, Device::cpu()));
  FAILS(runtime, "", GraphExecutor::create("{\"nodes\": 3}", again, Device::cpu()));
  FAILS(runtime, "cannot load library", Module::load("/nowhere/model.so"));
  FAILS(runtime, "cannot load", Module::load("/nowhere/model.tar"));
  FAILS(runtime, "is not a library", Module::load("model.onnx"));
}

void test_devices() {
  CHECK(Device::cpu().exists() && !Device::cpu().name().empty());
  Device::cpu().synchronize();
  FAILS(runtime, "", Device(99, 0).synchronize());
}

}  // namespace

int main(int, char **argv) {
  test_tensors();
  test_dlpack();
  test_values();
  test_functions();
  test_library(argv[1]);
  test_devices();
  std::puts("all calls are correct");
}
