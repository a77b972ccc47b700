/* Measures calls from C++ beside the same calls through the C interface: ./overhead MODEL
 *
 * Prints a line for each: what is called, nanoseconds through C, nanoseconds through C++ (the smallest of REPEATS means).
 */
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <tvm/classic.hpp>

using namespace tvm::classic;

namespace {

constexpr int REPEATS = 50, CALLS = 20000;

template <class F>
double nanoseconds(F call) {
  double best = 1e18;
  for (int repeat = 0; repeat < REPEATS; ++repeat) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < CALLS; ++i) call();
    std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / CALLS);
  }
  return best;
}

int nothing(TVMValue *, int *, int, TVMValue *, int *, void *) { return 0; }

double through_c(TVMFunctionHandle function, TVMValue *values, int *codes, int count) {
  return nanoseconds([=] {
    TVMValue ret;
    int code = kTVMNullptr;
    if (TVMFuncCall(function, values, codes, count, &ret, &code)) std::abort();
  });
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  TVMFunctionHandle made;
  if (TVMFuncCreateFromCFunc(nothing, nullptr, nullptr, &made)) return 1;
  PackedFunc empty(made);
  std::printf("empty function %.1f %.1f\n", through_c(made, nullptr, nullptr, 0), nanoseconds([&] { (void)empty(); }));
  Tensor tensor = Tensor::empty({1}, dtype_of<float>());
  TVMValue values[3];
  int codes[3] = {kTVMNDArrayHandle, kTVMArgInt, kTVMArgFloat};
  values[0].v_handle = tensor.handle(), values[1].v_int64 = 1, values[2].v_float64 = 2;
  std::printf("empty function of 3 arguments %.1f %.1f\n", through_c(made, values, codes, 3),
              nanoseconds([&] { (void)empty(tensor, 1, 2.0); }));
  auto executor = GraphExecutor::create(Module::load(argv[1]), Device::cpu());
  PackedFunc run = executor.module().function("run");
  std::printf("run of a model %.1f %.1f\n", through_c(run.handle(), nullptr, nullptr, 0), nanoseconds([&] { executor.run(); }));
}
