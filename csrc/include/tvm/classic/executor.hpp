/* The graph executor and the virtual machine. Part of tvm/classic.hpp. */
#ifndef TVM_CLASSIC_EXECUTOR_HPP_
#define TVM_CLASSIC_EXECUTOR_HPP_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "function.hpp"

namespace tvm::classic {
inline namespace TVM_CLASSIC_ERRORS {

/* An executor for models without control flow. */
class GraphExecutor {
 public:
  /* Creates an executor of a model that Module::load returned. */
  static Returns<GraphExecutor> create(const Module &model, Span<const Device> devices) {
    if (model.type_key() != "GraphExecutorFactory")
      TVM_CLASSIC_FAIL(ErrorKind::argument, "the graph executor does not run a module of type " + model.type_key());
    TVM_CLASSIC_TRY(get_name, model.function("get_name"));
    TVM_CLASSIC_TRY(name, get_name());
    TVM_CLASSIC_TRY(text, name.as<std::string>());
    TVM_CLASSIC_TRY(make, model.function(text));
    std::vector<Value> arguments(devices.begin(), devices.end());
    TVM_CLASSIC_TRY(made, make.call(arguments));
    return of_module(made, model);
  }
  static Returns<GraphExecutor> create(const Module &model, Device device) {
    return create(model, Span<const Device>(&device, 1));
  }
  /* Creates an executor from the JSON text of a graph and the library of its kernels; load_params sets the weights. */
  static Returns<GraphExecutor> create(const std::string &graph, const Module &library, Device device) {
    TVM_CLASSIC_TRY(make, PackedFunc::global("tvm.graph_executor.create"));
    TVM_CLASSIC_TRY(made, make(graph, library, device.device_type, device.device_id));
    return of_module(made, Module());
  }

  GraphExecutor(GraphExecutor &&) noexcept = default;
  GraphExecutor &operator=(GraphExecutor &&) noexcept = default;

  /* Sets the weights from the bytes that `save_param_dict` writes. */
  Returns<void> load_params(Bytes params) { return run_named("load_params", params); }
  /* The names of the model's inputs, without the weights in its package. */
  Returns<std::vector<std::string>> input_names() const {
    std::vector<std::string> names;
    PackedFunc has_param;
    if (model_) {
      TVM_CLASSIC_TRY(found, model_.function("has_param"));
      has_param = found;
    }
    TVM_CLASSIC_TRY(count, number("get_num_inputs"));
    TVM_CLASSIC_TRY(get_name, module_.function("get_input_name"));
    for (std::int64_t i = 0; i < count; ++i) {
      TVM_CLASSIC_TRY(value, get_name(i));
      TVM_CLASSIC_TRY(name, value.as<std::string>());
      if (has_param) {
        TVM_CLASSIC_TRY(answer, has_param(name));
        TVM_CLASSIC_TRY(is_param, answer.as<bool>());
        if (is_param) continue;
      }
      names.push_back(name);
    }
    return names;
  }
  Returns<std::int64_t> num_outputs() const { return number("get_num_outputs"); }

  /* Copies the tensor into an input. */
  Returns<void> set_input(const std::string &name, const Tensor &tensor) { return run(set_input_, name, tensor); }
  /* Sets an input without a copy: later runs read this tensor in place. */
  Returns<void> set_input_zero_copy(const std::string &name, const Tensor &tensor) {
    return run_named("set_input_zero_copy", name, tensor);
  }
  /* The memory of an input, which may be written between runs. */
  Returns<Tensor> input(const std::string &name) const {
    TVM_CLASSIC_TRY(get_input, module_.function("get_input"));
    TVM_CLASSIC_TRY(value, get_input(name));
    return value.as<Tensor>();
  }
  Returns<void> run() { return run(run_); }
  /* The memory of an output, which the next run overwrites. */
  Returns<Tensor> output(std::int64_t i) const {
    TVM_CLASSIC_TRY(value, get_output_(i));
    return value.as<Tensor>();
  }
  /* The module of the executor, for its other functions. */
  const Module &module() const { return module_; }

 private:
  GraphExecutor() = default;
  static Returns<GraphExecutor> of_module(const Value &made, const Module &model) {
    GraphExecutor executor;
    TVM_CLASSIC_TRY(module, made.as<Module>());
    TVM_CLASSIC_TRY(run, module.function("run"));
    TVM_CLASSIC_TRY(set_input, module.function("set_input"));
    TVM_CLASSIC_TRY(get_output, module.function("get_output"));
    executor.model_ = model, executor.module_ = module;
    executor.run_ = run, executor.set_input_ = set_input, executor.get_output_ = get_output;
    return executor;
  }
  template <class... A>
  static Returns<void> run(const PackedFunc &function, const A &...arguments) {
    TVM_CLASSIC_RUN(function(arguments...));
    TVM_CLASSIC_DONE;
  }
  template <class... A>
  Returns<void> run_named(const char *name, const A &...arguments) {
    TVM_CLASSIC_TRY(function, module_.function(name));
    return run(function, arguments...);
  }
  Returns<std::int64_t> number(const char *name) const {
    TVM_CLASSIC_TRY(function, module_.function(name));
    TVM_CLASSIC_TRY(value, function());
    return value.as<std::int64_t>();
  }

  Module model_, module_;
  PackedFunc run_, set_input_, get_output_;
};

/* An executor for models with control flow or dynamic shapes. */
class VirtualMachine {
 public:
  static Returns<VirtualMachine> create(const Module &executable, Span<const Device> devices) {
    if (executable.type_key() != "VMExecutable")
      TVM_CLASSIC_FAIL(ErrorKind::argument,
                       "the virtual machine does not run a module of type " + executable.type_key());
    TVM_CLASSIC_TRY(load, executable.function("vm_load_executable"));
    TVM_CLASSIC_TRY(made, load());
    TVM_CLASSIC_TRY(module, made.as<Module>());
    constexpr int pooled = 2;
    std::vector<Value> places;
    for (Device device : devices)
      for (int number : {device.device_type, device.device_id, pooled}) places.emplace_back(number);
    TVM_CLASSIC_TRY(init, module.function("init"));
    TVM_CLASSIC_RUN(init.call(places));
    TVM_CLASSIC_TRY(set_input, module.function("set_input"));
    TVM_CLASSIC_TRY(invoke, module.function("invoke"));
    VirtualMachine machine;
    machine.executable_ = executable, machine.module_ = module;
    machine.set_input_ = set_input, machine.invoke_ = invoke;
    return machine;
  }
  static Returns<VirtualMachine> create(const Module &executable, Device device) {
    return create(executable, Span<const Device>(&device, 1));
  }

  VirtualMachine(VirtualMachine &&) noexcept = default;
  VirtualMachine &operator=(VirtualMachine &&) noexcept = default;

  /* The names of the parameters of a function. */
  Returns<std::vector<std::string>> input_names(const std::string &function = "main") const {
    TVM_CLASSIC_TRY(get_arity, executable_.function("get_function_arity"));
    TVM_CLASSIC_TRY(get_name, executable_.function("get_function_param_name"));
    TVM_CLASSIC_TRY(value, get_arity(function));
    TVM_CLASSIC_TRY(count, value.as<std::int64_t>());
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < count; ++i) {
      TVM_CLASSIC_TRY(name, get_name(function, i));
      TVM_CLASSIC_TRY(text, name.as<std::string>());
      names.push_back(text);
    }
    return names;
  }
  /* Calls a function. The output is a tensor, a tuple (Value::fields, Value::tensors), or another object. */
  template <class... A>
  Returns<Value> invoke(const std::string &function, const A &...arguments) {
    TVM_CLASSIC_RUN(set_input_(function, arguments...));
    return invoke_(function);
  }
  template <class... A>
  Returns<Value> run(const A &...arguments) {
    return invoke("main", arguments...);
  }
  /* The module of the machine, for its other functions. */
  const Module &module() const { return module_; }

 private:
  VirtualMachine() = default;
  Module executable_, module_;
  PackedFunc set_input_, invoke_;
};

}  // inline namespace
}  // namespace tvm::classic

#endif  // TVM_CLASSIC_EXECUTOR_HPP_
