/* Checks of the C++ tests, which end the program where one fails. */
#ifndef TVM_TESTS_BINDINGS_CHECK_HPP_
#define TVM_TESTS_BINDINGS_CHECK_HPP_

#include <cstdio>
#include <cstdlib>
#include <string>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);      \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)

inline void check_text(const std::string &found, const std::string &part, int line) {
  if (found.find(part) != std::string::npos) return;
  std::fprintf(stderr, "line %d: '%s' is not in '%s'\n", line, part.c_str(), found.c_str());
  std::exit(1);
}

#endif  // TVM_TESTS_BINDINGS_CHECK_HPP_
