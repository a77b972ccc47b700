/* Values, functions and modules. Part of tvm/classic.hpp. */
#ifndef TVM_CLASSIC_FUNCTION_HPP_
#define TVM_CLASSIC_FUNCTION_HPP_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor.hpp"

namespace tvm::classic {
inline namespace TVM_CLASSIC_ERRORS {

class Module;
class Value;
class Arguments;
using Object = detail::Shared<TVMObjectHandle, TVMObjectRetain, TVMObjectFree>;

/* A packed function: of a module, of the runtime, or implemented in this program. */
class PackedFunc : public detail::Shared<TVMFunctionHandle, TVMFuncRetain, TVMFuncFree> {
 public:
  using Shared::Shared;

  /* A function of the global registry. */
  static Returns<PackedFunc> global(const std::string &name) {
    TVMFunctionHandle found;
    TVM_CLASSIC_CHECK(TVMFuncGetGlobal(name.c_str(), &found));
    if (!found) TVM_CLASSIC_FAIL(ErrorKind::missing, "there is no global function '" + name + "'");
    return PackedFunc(found);
  }
  /* Creates a packed function from a C++ callable `R f(const Arguments &)`. R is void or a type from which a Value can be
   * constructed, wrapped in Returns if f can fail. An exception of f becomes an error of the caller. */
  template <class F>
  static Returns<PackedFunc> from(F function);
  Returns<void> register_global(const std::string &name, bool replace = false) const {
    TVM_CLASSIC_CHECK(TVMFuncRegisterGlobal(name.c_str(), handle(), replace));
    TVM_CLASSIC_DONE;
  }

  /* Arguments are numbers, strings, Bytes, Tensor, DLTensor *, Module, PackedFunc, Device, DLDataType, Value or nullptr. */
  template <class... A>
  Returns<Value> operator()(const A &...arguments) const;
  /* Calls the function with a list of values. */
  Returns<Value> call(Span<const Value> arguments) const;
};

/* A library or a compiled model. */
class Module : public detail::Shared<TVMModuleHandle, TVMModRetain, TVMModFree> {
 public:
  using Shared::Shared;

  /* Loads a library (.so), an object file (.o), or a package of `tvmc compile` (.tar). */
  static Returns<Module> load(const std::string &path, const std::string &format = "") {
    TVMModuleHandle made;
    TVM_CLASSIC_CHECK(TVMModLoadFromFile(path.c_str(), format.c_str(), &made));
    return Module(made);
  }
  /* The module of the functions that are linked into the program. */
  static Returns<Module> system_library() {
    TVMModuleHandle made;
    TVM_CLASSIC_CHECK(TVMModGetSystemLib(&made));
    return Module(made);
  }
  std::string type_key() const { return TVMModTypeKey(handle()); }
  /* Looks up a function in this module and, with `imports`, in the modules that it imports. */
  Returns<PackedFunc> function(const std::string &name, bool imports = false) const {
    TVMFunctionHandle found;
    TVM_CLASSIC_CHECK(TVMModGetFunction(handle(), name.c_str(), imports, &found));
    if (!found) TVM_CLASSIC_FAIL(ErrorKind::missing, "the module has no function '" + name + "'");
    return PackedFunc(found);
  }
  Returns<std::vector<Module>> imports() const {
    std::vector<Module> found;
    for (int i = 0; i < TVMModImportCount(handle()); ++i) {
      TVMModuleHandle one;
      TVM_CLASSIC_CHECK(TVMModGetImport(handle(), i, &one));
      found.emplace_back(one);
    }
    return found;
  }
};

namespace detail {

/* The arguments of one call. `bytes` contains the structs to which bytes arguments point. */
template <std::size_t N>
struct Call {
  TVMValue values[N + 1];
  int codes[N + 1];
  TVMByteArray bytes[N + 1];

  void put(std::size_t i, std::nullptr_t) { values[i].v_handle = nullptr, codes[i] = kTVMNullptr; }
  void put(std::size_t i, const char *text) { values[i].v_str = text, codes[i] = kTVMStr; }
  /* A C string ends at its first zero byte, so a string that contains one is passed as bytes. */
  void put(std::size_t i, const std::string &text) {
    text.find('\0') == std::string::npos ? put(i, text.c_str()) : put(i, Bytes(text));
  }
  void put(std::size_t i, Bytes data) {
    bytes[i] = {data.data(), data.size()};
    values[i].v_handle = &bytes[i], codes[i] = kTVMBytes;
  }
  void put(std::size_t i, const Tensor &tensor) { put_handle(i, tensor.handle(), kTVMNDArrayHandle); }
  void put(std::size_t i, DLTensor *tensor) { put_handle(i, tensor, kTVMDLTensorHandle); }
  void put(std::size_t i, const Module &module) { put_handle(i, module.handle(), kTVMModuleHandle); }
  void put(std::size_t i, const PackedFunc &function) { put_handle(i, function.handle(), kTVMPackedFuncHandle); }
  void put(std::size_t i, const Object &object) { put_handle(i, object.handle(), kTVMObjectHandle); }
  void put(std::size_t i, DLDevice device) { values[i].v_device = device, codes[i] = kTVMDevice; }
  void put(std::size_t i, DLDataType dtype) { values[i].v_type = dtype, codes[i] = kTVMDataType; }
  void put(std::size_t i, const Value &value);
  template <class T>
  std::enable_if_t<std::is_arithmetic_v<T>> put(std::size_t i, T number) {
    if constexpr (std::is_floating_point_v<T>) values[i].v_float64 = static_cast<double>(number);
    else values[i].v_int64 = static_cast<std::int64_t>(number);
    codes[i] = std::is_floating_point_v<T> ? kTVMArgFloat : kTVMArgInt;
  }
  void put_handle(std::size_t i, void *handle, int code) {
    values[i].v_handle = handle;
    codes[i] = handle ? code : static_cast<int>(kTVMNullptr);
  }
};

template <class H>
H retained(TVMValue value, int (*retain)(H)) {
  H handle = static_cast<H>(value.v_handle);
  retain(handle);
  return handle;
}

inline bool is_int(int code) { return code == kTVMArgInt || code == kTVMArgUInt || code == kTVMArgBool; }

template <class>
constexpr bool never = false;

/* Converts a value to a T. A borrowed array cannot become a Tensor, because a Tensor owns a reference. */
template <class T>
Returns<T> convert(TVMValue value, int code) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (code == kTVMStr) return std::string(value.v_str);
    if (code == kTVMBytes) {
      auto *bytes = static_cast<const TVMByteArray *>(value.v_handle);
      return std::string(bytes->data, bytes->size);
    }
  } else if constexpr (std::is_integral_v<T>) {
    if (is_int(code)) return static_cast<T>(value.v_int64);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (code == kTVMArgFloat) return static_cast<T>(value.v_float64);
    if (is_int(code)) return static_cast<T>(value.v_int64);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    if (code == kTVMNDArrayHandle) return Tensor(retained(value, TVMArrayRetain));
  } else if constexpr (std::is_same_v<T, Module>) {
    if (code == kTVMModuleHandle) return Module(retained(value, TVMModRetain));
  } else if constexpr (std::is_same_v<T, PackedFunc>) {
    if (code == kTVMPackedFuncHandle) return PackedFunc(retained(value, TVMFuncRetain));
  } else if constexpr (std::is_same_v<T, Object>) {
    if (code == kTVMObjectHandle) return Object(retained(value, TVMObjectRetain));
  } else if constexpr (std::is_same_v<T, Device>) {
    if (code == kTVMDevice) return Device(value.v_device);
  } else if constexpr (std::is_same_v<T, DLDataType>) {
    if (code == kTVMDataType) return value.v_type;
  } else if constexpr (std::is_same_v<T, DLTensor *>) {
    if (code == kTVMNDArrayHandle || code == kTVMDLTensorHandle) return static_cast<DLTensor *>(value.v_handle);
  } else {
    static_assert(never<T>, "values are not converted to this type");
  }
  TVM_CLASSIC_FAIL(ErrorKind::argument,
                   "a value with the type code " + std::to_string(code) + " has another type than the wanted one");
}

}  // namespace detail

/* A return value of a function, or an argument of `call`: null, a number, a string, or a reference to an object. */
class Value {
 public:
  Value() { value_.v_handle = nullptr; }
  template <class T, class = std::enable_if_t<!std::is_same_v<std::decay_t<T>, Value>>>
  Value(const T &given) : Value() {
    static_assert(!std::is_pointer_v<T> || std::is_same_v<T, const char *>, "a value does not refer to memory of others");
    detail::Call<1> call;
    call.put(0, given);
    take(call.values[0], call.codes[0]);
  }
  Value(Value &&other) noexcept
      : value_(other.value_), code_(std::exchange(other.code_, kTVMNullptr)), text_(std::move(other.text_)) {}
  Value &operator=(Value &&other) noexcept {
    std::swap(value_, other.value_);
    std::swap(code_, other.code_);
    std::swap(text_, other.text_);
    return *this;
  }
  ~Value() { drop(); }

  /* The TVMArgTypeCode. */
  int code() const { return code_; }
  bool is_null() const { return code_ == kTVMNullptr; }
  /* The value as a number, std::string, Tensor, Module, PackedFunc, Object, Device or DLDataType. */
  template <class T>
  Returns<T> as() const {
    if constexpr (std::is_same_v<T, std::string>)
      if (code_ == kTVMStr || code_ == kTVMBytes) return text_;
    return detail::convert<T>(value_, code_);
  }
  /* The fields of a tuple or of an algebraic data type (ADT) value that the virtual machine returned. */
  Returns<std::vector<Value>> fields() const {
    auto *object = static_cast<TVMObjectHandle>(value_.v_handle);
    if (code_ != kTVMObjectHandle || TVMObjectKind(object) != kTVMObjectADT)
      TVM_CLASSIC_FAIL(ErrorKind::argument, "the value is neither a tuple nor an algebraic data type");
    std::vector<Value> found(static_cast<std::size_t>(TVMADTSize(object)));
    for (std::size_t i = 0; i < found.size(); ++i)
      TVM_CLASSIC_CHECK(TVMADTField(object, static_cast<int>(i), &found[i].value_, &found[i].code_));
    return found;
  }
  /* All tensors of the value in order: the value itself, or the tensors of a tuple, including nested tuples. */
  Returns<std::vector<Tensor>> tensors() const {
    std::vector<Tensor> found;
    if (code_ == kTVMNDArrayHandle) {
      found.emplace_back(detail::retained(value_, TVMArrayRetain));
      return found;
    }
    TVM_CLASSIC_TRY(parts, fields());
    for (const Value &part : parts) {
      TVM_CLASSIC_TRY(inner, part.tensors());
      found.insert(found.end(), inner.begin(), inner.end());
    }
    return found;
  }

 private:
  friend class PackedFunc;
  template <std::size_t>
  friend struct detail::Call;

  /* Stores a borrowed argument: copies strings and bytes, and retains references. */
  void take(TVMValue value, int code) {
    if (code == kTVMStr) text_ = value.v_str;
    if (code == kTVMBytes) {
      auto *bytes = static_cast<const TVMByteArray *>(value.v_handle);
      text_.assign(bytes->data, bytes->size);
    }
    if (code == kTVMNDArrayHandle) detail::retained(value, TVMArrayRetain);
    if (code == kTVMModuleHandle) detail::retained(value, TVMModRetain);
    if (code == kTVMPackedFuncHandle) detail::retained(value, TVMFuncRetain);
    if (code == kTVMObjectHandle) detail::retained(value, TVMObjectRetain);
    value_ = value, code_ = code;
  }
  /* Takes ownership of the return value of a call. References are owned by the caller; strings are copied, because the
   * runtime owns them. */
  static Value owned(TVMValue value, int code) {
    Value made;
    if (code == kTVMStr || code == kTVMBytes) made.take(value, code);
    else made.value_ = value, made.code_ = code;
    return made;
  }
  void drop() {
    if (code_ == kTVMNDArrayHandle) TVMArrayFree(static_cast<TVMArrayHandle>(value_.v_handle));
    if (code_ == kTVMModuleHandle) TVMModFree(static_cast<TVMModuleHandle>(value_.v_handle));
    if (code_ == kTVMPackedFuncHandle) TVMFuncFree(static_cast<TVMFunctionHandle>(value_.v_handle));
    if (code_ == kTVMObjectHandle) TVMObjectFree(static_cast<TVMObjectHandle>(value_.v_handle));
  }
  /* Writes this value as the return value of a C++ function; the caller takes ownership of the reference. */
  int give(TVMValue *value, int *code) {
    if (code_ == kTVMStr || code_ == kTVMBytes) return TVMReturnBytes(text_.data(), text_.size(), code_, value, code);
    *value = value_;
    *code = std::exchange(code_, kTVMNullptr);
    return 0;
  }

  TVMValue value_;
  int code_ = kTVMNullptr;
  std::string text_;
};

template <std::size_t N>
void detail::Call<N>::put(std::size_t i, const Value &value) {
  if (value.code_ == kTVMStr) return put(i, value.text_);
  if (value.code_ == kTVMBytes) return put(i, Bytes(value.text_.data(), value.text_.size()));
  values[i] = value.value_, codes[i] = value.code_;
}

template <class... A>
Returns<Value> PackedFunc::operator()(const A &...arguments) const {
  detail::Call<sizeof...(A)> call;
  [[maybe_unused]] std::size_t i = 0;
  (call.put(i++, arguments), ...);
  TVMValue value;
  int code = kTVMNullptr;
  TVM_CLASSIC_CHECK(TVMFuncCall(handle(), call.values, call.codes, sizeof...(A), &value, &code));
  return Value::owned(value, code);
}

inline Returns<Value> PackedFunc::call(Span<const Value> arguments) const {
  std::vector<detail::Call<0>> calls(arguments.size());
  std::vector<TVMValue> values(arguments.size() + 1);
  std::vector<int> codes(arguments.size() + 1);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    calls[i].put(0, arguments[i]);
    values[i] = calls[i].values[0], codes[i] = calls[i].codes[0];
  }
  TVMValue value;
  int code = kTVMNullptr;
  int count = static_cast<int>(arguments.size());
  TVM_CLASSIC_CHECK(TVMFuncCall(handle(), values.data(), codes.data(), count, &value, &code));
  return Value::owned(value, code);
}

/* The arguments of a function that is implemented in C++; valid during the call. */
class Arguments {
 public:
  Arguments(const TVMValue *values, const int *codes, int count) : values_(values), codes_(codes), count_(count) {}
  int size() const { return count_; }
  /* Returns argument `i` as one of the types of Value::as, or as a borrowed DLTensor *. */
  template <class T>
  Returns<T> at(int i) const {
    if (i < 0 || i >= count_)
      TVM_CLASSIC_FAIL(ErrorKind::argument,
                       "argument " + std::to_string(i) + " is missing; there are " + std::to_string(count_));
    return detail::convert<T>(values_[i], codes_[i]);
  }

 private:
  const TVMValue *values_;
  const int *codes_;
  int count_;
};

namespace detail {

inline Returns<Value> as_value(Value value) { return value; }
template <class T>
Returns<Value> as_value(const Result<T> &result) {
  if (!result) TVM_CLASSIC_FAIL(result.error().kind(), result.error().message());
  if constexpr (std::is_void_v<T>) return Value();
  else return Value(*result);
}

template <class F>
Returns<Value> call_function(F &function, const Arguments &arguments) {
  if constexpr (std::is_void_v<decltype(function(arguments))>) {
    function(arguments);
    return Value();
  } else {
    return as_value(function(arguments));
  }
}

inline int fail(const char *message) {
  TVMAPISetLastError(message);
  return -1;
}

}  // namespace detail

template <class F>
Returns<PackedFunc> PackedFunc::from(F function) {
  TVMBackendPackedCFunc code = [](TVMValue *values, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
    Arguments arguments(values, codes, count);
#ifdef TVM_CLASSIC_NO_EXCEPTIONS
    auto result = detail::call_function(*static_cast<F *>(self), arguments);
    return result ? result->give(ret, ret_code) : detail::fail(result.error().what());
#else
    try {
      return detail::call_function(*static_cast<F *>(self), arguments).give(ret, ret_code);
    } catch (const std::exception &error) {
      return detail::fail(error.what());
    } catch (...) {
      return detail::fail("a C++ function threw an exception that is no std::exception");
    }
#endif
  };
  auto kept = std::make_unique<F>(std::move(function));
  TVMFunctionHandle made;
  TVM_CLASSIC_CHECK(TVMFuncCreateFromCFunc(code, kept.get(), [](void *self) { delete static_cast<F *>(self); }, &made));
  (void)kept.release();
  return PackedFunc(made);
}

/* A packed function with the static signature of a C++ function. */
template <class>
class Function;
template <class R, class... A>
class Function<R(A...)> {
 public:
  Function(PackedFunc function) : function_(std::move(function)) {}
  Returns<R> operator()(const A &...arguments) const {
    TVM_CLASSIC_TRY(value, function_(arguments...));
    if constexpr (std::is_void_v<R>) TVM_CLASSIC_DONE;
    else return value.template as<R>();
  }

 private:
  PackedFunc function_;
};

}  // inline namespace
}  // namespace tvm::classic

#endif  // TVM_CLASSIC_FUNCTION_HPP_
