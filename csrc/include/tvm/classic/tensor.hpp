/* Devices, data types, spans and tensors. Part of tvm/classic.hpp. */
#ifndef TVM_CLASSIC_TENSOR_HPP_
#define TVM_CLASSIC_TENSOR_HPP_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "error.hpp"

namespace tvm::classic {
inline namespace TVM_CLASSIC_ERRORS {

/* A view of contiguous elements, like std::span of C++20. */
template <class T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T *data, std::size_t size) : data_(data), size_(size) {}
  template <class Container, class = decltype(std::declval<Container &>().data()),
            class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Container &>().data()), T *>>>
  constexpr Span(Container &&container) : data_(container.data()), size_(container.size()) {}
  /* Use this constructor only for arguments of a call: the list is destroyed at the end of the full expression. */
  template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>
  constexpr Span(std::initializer_list<std::remove_const_t<U>> list) {
    data_ = list.begin(), size_ = list.size();
  }
  constexpr T *data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T *begin() const { return data_; }
  constexpr T *end() const { return data_ + size_; }
  constexpr T &operator[](std::size_t i) const { return data_[i]; }

 private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

using Bytes = Span<const char>;

struct Device : DLDevice {
  constexpr Device(DLDevice device) : DLDevice(device) {}
  constexpr Device(int type, int id) : DLDevice{type, id} {}
  static constexpr Device cpu() { return {kDLCPU, 0}; }
  static constexpr Device cuda(int id = 0) { return {kDLCUDA, id}; }
  static constexpr Device opencl(int id = 0) { return {kDLOpenCL, id}; }
  bool exists() const { return TVMDeviceExists(*this) != 0; }
  std::string name() const { return std::string(TVMDeviceTypeName(device_type)) + ":" + std::to_string(device_id); }
  /* Blocks until the device has finished its work. */
  Returns<void> synchronize() const {
    TVM_CLASSIC_CHECK(TVMSynchronize(device_type, device_id, nullptr));
    TVM_CLASSIC_DONE;
  }
};

inline bool operator==(DLDevice a, DLDevice b) { return a.device_type == b.device_type && a.device_id == b.device_id; }
inline bool operator==(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }
inline bool operator!=(DLDataType a, DLDataType b) { return !(a == b); }

/* The data type of the elements of a C++ type. */
template <class T>
constexpr DLDataType dtype_of() {
  static_assert(std::is_arithmetic_v<T>, "tensors have elements of arithmetic types");
  if (std::is_same_v<T, bool>) return {kDLUInt, 1, 1};
  return {static_cast<std::uint8_t>(std::is_floating_point_v<T> ? kDLFloat : std::is_signed_v<T> ? kDLInt : kDLUInt),
          static_cast<std::uint8_t>(8 * sizeof(T)), 1};
}

inline std::string to_string(DLDataType dtype) {
  static const char *const names[] = {"int", "uint", "float", "handle", "bfloat"};
  std::string text = dtype.code < 5 ? names[dtype.code] : "type" + std::to_string(dtype.code) + "_";
  text += std::to_string(dtype.bits);
  return dtype.lanes == 1 ? text : text + "x" + std::to_string(dtype.lanes);
}

namespace detail {

/* A counted reference to an object of the runtime. */
template <class Handle, int (*retain)(Handle), int (*release)(Handle)>
class Shared {
 public:
  Shared() = default;
  explicit Shared(Handle owned) : handle_(owned) {}
  Shared(const Shared &other) : handle_(other.handle_) {
    if (handle_) retain(handle_);
  }
  Shared(Shared &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Shared &operator=(Shared other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Shared() {
    if (handle_) release(handle_);
  }
  /* The handle for functions of tvm_runtime.h, which borrow it. */
  Handle handle() const { return handle_; }
  /* Releases ownership of the reference; the caller must free it. */
  Handle release_handle() { return std::exchange(handle_, nullptr); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle handle_ = nullptr;
};

struct DeleteManaged {
  void operator()(DLManagedTensor *tensor) const {
    if (tensor->deleter) tensor->deleter(tensor);
  }
};

}  // namespace detail

/* ---- tensors ---- */

using DLPackTensor = std::unique_ptr<DLManagedTensor, detail::DeleteManaged>;
using Shape = Span<const std::int64_t>;

class Tensor : public detail::Shared<TVMArrayHandle, TVMArrayRetain, TVMArrayFree> {
 public:
  using Shared::Shared;

  /* A tensor whose elements are not initialized. */
  static Returns<Tensor> empty(Shape shape, DLDataType dtype, Device device = Device::cpu()) {
    TVMArrayHandle made;
    TVM_CLASSIC_CHECK(TVMArrayAlloc(shape.data(), static_cast<int>(shape.size()), dtype, device, &made));
    return Tensor(made);
  }

  /* A tensor with a copy of the elements. */
  template <class T>
  static Returns<Tensor> from(Span<const T> elements, Shape shape, Device device = Device::cpu()) {
    TVM_CLASSIC_TRY(made, empty(shape, dtype_of<T>(), device));
    TVM_CLASSIC_RUN(made.copy_from(elements));
    return std::move(made);
  }
  template <class T>
  static Returns<Tensor> from(const std::vector<T> &elements, Shape shape, Device device = Device::cpu()) {
    return from(Span<const T>(elements), shape, device);
  }

  /* Takes ownership of a DLPack tensor of another library without a copy. */
  static Returns<Tensor> from_dlpack(DLPackTensor tensor) {
    TVMArrayHandle made;
    TVM_CLASSIC_CHECK(TVMArrayFromDLPack(tensor.get(), &made));
    (void)tensor.release();
    return Tensor(made);
  }
  Returns<DLPackTensor> to_dlpack() const {
    DLManagedTensor *made;
    TVM_CLASSIC_CHECK(TVMArrayToDLPack(handle(), &made));
    return DLPackTensor(made);
  }

  Shape shape() const { return {handle()->shape, static_cast<std::size_t>(handle()->ndim)}; }
  DLDataType dtype() const { return handle()->dtype; }
  Device device() const { return handle()->device; }
  std::int64_t size() const {
    std::int64_t count = 1;
    for (std::int64_t extent : shape()) count *= extent;
    return count;
  }
  Returns<std::size_t> nbytes() const {
    std::size_t size;
    TVM_CLASSIC_CHECK(TVMTensorByteSize(handle(), &size));
    return size;
  }

  /* The elements in host memory; valid as long as a Tensor refers to them. */
  template <class T>
  Returns<Span<T>> data() const {
    using Element = std::remove_const_t<T>;
    if (dtype() != dtype_of<Element>())
      TVM_CLASSIC_FAIL(ErrorKind::argument, "the tensor has elements of " + to_string(dtype()) + ", not of " +
                                                to_string(dtype_of<Element>()));
    if (device().device_type != kDLCPU)
      TVM_CLASSIC_FAIL(ErrorKind::argument, "the tensor is on " + device().name() + "; copy it to the CPU with to()");
    if (!is_compact()) TVM_CLASSIC_FAIL(ErrorKind::argument, "the tensor has strides; use copy_to");
    char *start = static_cast<char *>(handle()->data) + handle()->byte_offset;
    return Span<T>(reinterpret_cast<T *>(start), static_cast<std::size_t>(size()));
  }

  template <class T>
  Returns<void> copy_from(Span<const T> elements) {
    TVM_CLASSIC_RUN(check_elements(dtype_of<T>(), elements.size()));
    TVM_CLASSIC_CHECK(TVMArrayCopyFromBytes(handle(), elements.data(), elements.size() * sizeof(T)));
    TVM_CLASSIC_DONE;
  }
  template <class T>
  Returns<void> copy_from(const std::vector<T> &elements) {
    return copy_from(Span<const T>(elements));
  }
  template <class T>
  Returns<void> copy_to(Span<T> elements) const {
    TVM_CLASSIC_RUN(check_elements(dtype_of<T>(), elements.size()));
    TVM_CLASSIC_CHECK(TVMArrayCopyToBytes(handle(), elements.data(), elements.size() * sizeof(T)));
    TVM_CLASSIC_DONE;
  }
  template <class T>
  Returns<std::vector<T>> to_vector() const {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in a row; use copy_to");
    std::vector<T> elements(static_cast<std::size_t>(size()));
    TVM_CLASSIC_RUN(copy_to(Span<T>(elements)));
    return elements;
  }
  /* A copy on a device. */
  Returns<Tensor> to(Device device) const {
    TVM_CLASSIC_TRY(made, empty(shape(), dtype(), device));
    TVM_CLASSIC_CHECK(TVMArrayCopyFromTo(handle(), made.handle(), nullptr));
    return std::move(made);
  }
  /* The same elements in another shape. */
  Returns<Tensor> view(Shape shape) const {
    TVMArrayHandle made;
    TVM_CLASSIC_CHECK(TVMArrayCreateView(handle(), shape.data(), static_cast<int>(shape.size()), dtype(), 0, &made));
    return Tensor(made);
  }

 private:
  bool is_compact() const {
    std::int64_t step = 1;
    for (int i = handle()->ndim; handle()->strides && i-- > 0; step *= handle()->shape[i])
      if (handle()->shape[i] != 1 && handle()->strides[i] != step) return false;
    return true;
  }
  Returns<void> check_elements(DLDataType given, std::size_t count) const {
    if (dtype() != given)
      TVM_CLASSIC_FAIL(ErrorKind::argument,
                       "the tensor has elements of " + to_string(dtype()) + ", not of " + to_string(given));
    if (static_cast<std::int64_t>(count) != size())
      TVM_CLASSIC_FAIL(ErrorKind::argument,
                       "the tensor has " + std::to_string(size()) + " elements, not " + std::to_string(count));
    TVM_CLASSIC_DONE;
  }
};

}  // inline namespace
}  // namespace tvm::classic

#endif  // TVM_CLASSIC_TENSOR_HPP_
