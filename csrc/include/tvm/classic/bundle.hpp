/* Bundles: files with a compiled model, its weights and its runtime. Part of tvm/classic.hpp. Programs that use no other
 * class do not need the runtime library. */
#ifndef TVM_CLASSIC_BUNDLE_HPP_
#define TVM_CLASSIC_BUNDLE_HPP_

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../bundle.h"
#include "tensor.hpp"

namespace tvm::classic {
inline namespace TVM_CLASSIC_ERRORS {

/* A model of a bundle with separate inputs and outputs. It can be moved, but not copied. One thread at a time uses it. */
class Bundle {
 public:
  /* Opens a shared bundle. `model` is the name of the model (--module-name). */
  static Returns<Bundle> open(const std::string &path, const std::string &model = "default") {
    tvm_bundle_api api;
    std::array<char, 1024> text{};
    if (tvm_bundle_open(path.c_str(), model.c_str(), &api, text.data(), text.size()))
      TVM_CLASSIC_FAIL(ErrorKind::runtime, text.data());
    return create(api);
  }

  /* A model of a bundle that is linked into the program: create(TVM_BUNDLE_API(tvm_bundle)). It can be called several
   * times. */
  static Returns<Bundle> create(const tvm_bundle_api &api) {
    tvm_bundle *handle = nullptr;
    if (api.create(&handle)) TVM_CLASSIC_FAIL(ErrorKind::runtime, api.error(nullptr));
    return Bundle(api, handle);
  }

  /* The inputs and outputs. */
  const tvm_bundle_info &info() const { return *api_.info; }
  Span<const tvm_bundle_tensor> inputs() const { return {info().inputs, static_cast<std::size_t>(info().input_count)}; }
  Span<const tvm_bundle_tensor> outputs() const { return {info().outputs, static_cast<std::size_t>(info().output_count)}; }

  /* The index of an input by its name. */
  Returns<int> input_index(const std::string &name) const {
    for (int i = 0; i < info().input_count; ++i)
      if (name == info().inputs[i].name) return i;
    TVM_CLASSIC_FAIL(ErrorKind::missing, "the model has no input '" + name + "'");
  }

  /* Copies an input. Without a shape, the input must have static dimensions. */
  template <class T>
  Returns<void> set_input(int index, Span<const T> data, Span<const std::int64_t> shape = {}) {
    if (index >= 0 && index < info().input_count) {
      const tvm_bundle_tensor &input = info().inputs[index];
      TVM_CLASSIC_RUN((check_type<T>(input)));
      if (!shape.empty() && shape.size() != static_cast<std::size_t>(input.ndim))
        TVM_CLASSIC_FAIL(ErrorKind::argument, std::string("input '") + input.name + "' has " + std::to_string(input.ndim) +
                                                  " dimensions, got " + std::to_string(shape.size()));
    }
    return check(api_.set_input(handle_.get(), index, data.data(), data.size() * sizeof(T), shape.data()));
  }
  template <class T>
  Returns<void> set_input(int index, const std::vector<T> &data, Span<const std::int64_t> shape = {}) {
    return set_input(index, Span<const T>(data), shape);
  }

  Returns<void> run() { return check(api_.run(handle_.get())); }

  /* An output, which is valid until the next call of another function of this object. */
  template <class T>
  Returns<Span<const T>> output(int index) {
    const void *data = nullptr;
    std::uint64_t nbytes = 0;
    if (index >= 0 && index < info().output_count) TVM_CLASSIC_RUN((check_type<T>(info().outputs[index])));
    TVM_CLASSIC_RUN(check(api_.get_output(handle_.get(), index, &data, &nbytes, nullptr)));
    return Span<const T>(static_cast<const T *>(data), static_cast<std::size_t>(nbytes) / sizeof(T));
  }

  /* The shape of an output of the last run. */
  Returns<std::vector<std::int64_t>> output_shape(int index) {
    const void *data = nullptr;
    const std::int64_t *shape = nullptr;
    TVM_CLASSIC_RUN(check(api_.get_output(handle_.get(), index, &data, nullptr, &shape)));
    return std::vector<std::int64_t>(shape, shape + info().outputs[index].ndim);
  }

  /* The handle for the functions of `api`. */
  tvm_bundle *handle() const { return handle_.get(); }

 private:
  using Handle = std::unique_ptr<tvm_bundle, void (*)(tvm_bundle *)>;

  Bundle(const tvm_bundle_api &api, tvm_bundle *handle) : api_(api), handle_(handle, api.destroy) {}

  template <class T>
  static Returns<void> check_type(const tvm_bundle_tensor &tensor) {
    const std::string wanted = to_string(dtype_of<T>());
    /* A bool is stored in a byte. */
    const bool is_bool = sizeof(T) == 1 && std::is_unsigned_v<T> && std::string(tensor.dtype) == "bool";
    if (wanted != tensor.dtype && !is_bool)
      TVM_CLASSIC_FAIL(ErrorKind::argument, std::string("'") + tensor.name + "' has type " + tensor.dtype + ", not " + wanted);
    TVM_CLASSIC_DONE;
  }

  Returns<void> check(int code) const {
    if (code == TVM_BUNDLE_OK) TVM_CLASSIC_DONE;
    const bool is_argument = code != TVM_BUNDLE_FAILED && code != TVM_BUNDLE_BUSY;
    TVM_CLASSIC_FAIL(is_argument ? ErrorKind::argument : ErrorKind::runtime,
                     api_.error(code == TVM_BUNDLE_BUSY ? nullptr : handle_.get()));
  }

  tvm_bundle_api api_;
  Handle handle_;
};

}  // inline namespace
}  // namespace tvm::classic

#endif  // TVM_CLASSIC_BUNDLE_HPP_
