/* Errors, and the results of functions that can fail. Part of tvm/classic.hpp. */
#ifndef TVM_CLASSIC_ERROR_HPP_
#define TVM_CLASSIC_ERROR_HPP_

#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* a flexible array member, which C11 has */
#endif
#include "../../tvm_runtime.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Errors are thrown; with TVM_CLASSIC_NO_EXCEPTIONS they are returned as Result. The inline namespace gives the two
 * variants different symbols, so that a program can link both. */
#ifdef TVM_CLASSIC_NO_EXCEPTIONS
#define TVM_CLASSIC_ERRORS results
#else
#define TVM_CLASSIC_ERRORS exceptions
#endif

namespace tvm::classic {
inline namespace TVM_CLASSIC_ERRORS {

/* The source of an error: the runtime (a damaged file, a failed call), an argument of a wrong type or size, or a missing
 * function, input or output. */
enum class ErrorKind { runtime, argument, missing };

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind() const noexcept { return kind_; }
  const std::string &message() const noexcept { return message_; }
  const char *what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

/* A value or an error. Accessing the value of a failed Result terminates the program. */
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const noexcept { return state_.index() == 0; }
  const Error &error() const { return get<1>(state_); }
  T &operator*() & { return get<0>(state_); }
  const T &operator*() const & { return get<0>(state_); }
  T &&operator*() && { return std::move(get<0>(state_)); }
  T *operator->() { return &get<0>(state_); }
  const T *operator->() const { return &get<0>(state_); }

 private:
  template <std::size_t I, class State>
  static auto &get(State &state) {
    auto *found = std::get_if<I>(&state);
    if (!found) std::abort();
    return *found;
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> : public Result<std::monostate> {
 public:
  Result() : Result<std::monostate>(std::monostate()) {}
  Result(Error error) : Result<std::monostate>(std::move(error)) {}
};

/* Macros for both error variants. FAIL returns from a function with an error, and DONE without one. TRY assigns the value
 * of an expression to a name, or returns its error. */
#ifdef TVM_CLASSIC_NO_EXCEPTIONS
template <class T>
using Returns = Result<T>;
#define TVM_CLASSIC_FAIL(kind, message) return Error(kind, message)
#define TVM_CLASSIC_DONE return {}
#define TVM_CLASSIC_TRY(name, expression)              \
  auto name##_result = (expression);                   \
  if (!name##_result) return name##_result.error();    \
  auto &name = *name##_result
#define TVM_CLASSIC_RUN(expression) \
  if (auto done = (expression); !done) return done.error()
#else
template <class T>
using Returns = T;
#define TVM_CLASSIC_FAIL(kind, message) throw Error(kind, message)
#define TVM_CLASSIC_DONE return
#define TVM_CLASSIC_TRY(name, expression) auto &&name = (expression)
#define TVM_CLASSIC_RUN(expression) (expression)
#endif
#define TVM_CLASSIC_CHECK(status) \
  if (status) TVM_CLASSIC_FAIL(ErrorKind::runtime, TVMGetLastError())

}  // inline namespace
}  // namespace tvm::classic

#endif  // TVM_CLASSIC_ERROR_HPP_
