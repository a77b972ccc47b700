"""Partitions of external code generators in all executors, exported, loaded and over RPC."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tvm
from tests import c_codegen
from tests.plain_codegen import network, plainc
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.backend import Executor, Runtime
from tvm.relay.backend.external import c_source_module, json_module
from tvm.relay.op.contrib import Codegen, partition_for, register_codegen


@pytest.fixture(scope="module")
def model():
    """The partitioned model, its function in NumPy and an input."""
    plainc()
    rng = np.random.default_rng(3)
    mod, function = network(rng)
    value = rng.standard_normal((3, 7)).astype("float32")
    return partition_for("plainc", mod), function, value


def run_graph(lib, value):
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=value)
    return module.get_output(0).numpy()


def check(got, model):
    np.testing.assert_allclose(got, model[1](model[2]), rtol=1e-5, atol=1e-6)


def test_the_graph_executor_calls_partitions_and_exports_them(model, tmp_path):
    lib = relay.build(model[0], "llvm")
    assert lib.get_graph_json().count("tvmgen_default_plainc_main_") == 4  # two nodes: a name and a function each
    check(run_graph(lib, model[2]), model)
    path = str(tmp_path / "model.so")
    lib.export_library(path)
    loaded = tvm.runtime.load_module(path)
    check(run_graph(loaded, model[2]), model)
    again = str(tmp_path / "again.so")
    lib.lib.imported_modules[0].get_source()
    lib.export_library(again)
    check(run_graph(tvm.runtime.load_module(again), model[2]), model)


def test_the_virtual_machine_calls_partitions_and_exports_them(model, tmp_path):
    executable = relay.vm.compile(model[0], "llvm")
    check(tvm.runtime.vm.VirtualMachine(executable, tvm.cpu()).run(model[2]).numpy(), model)
    path = str(tmp_path / "model.so")
    executable.mod.export_library(path)
    loaded = tvm.runtime.vm.Executable(tvm.runtime.load_module(path))
    check(tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu()).run(model[2]).numpy(), model)


def test_a_branch_of_the_virtual_machine_calls_a_partition(model):
    plainc()
    flag, x = relay.var("flag", shape=(), dtype="bool"), relay.var("x", shape=(4, 3))
    body = relay.If(flag, relay.nn.relu(x), relay.exp(x))
    mod = partition_for("plainc", tvm.IRModule.from_expr(relay.Function([flag, x], body)))
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    value = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
    np.testing.assert_allclose(machine.run(np.array(True), value).numpy(), np.maximum(value, 0))
    np.testing.assert_allclose(machine.run(np.array(False), value).numpy(), np.exp(value), rtol=1e-6)


def test_models_ahead_of_time_call_partitions(model, tmp_path):
    lib = relay.build(model[0], "llvm", executor=Executor("aot"))
    check(run_graph(lib, model[2]), model)
    path = str(tmp_path / "model.so")
    lib.export_library(path)
    check(run_graph(tvm.runtime.load_module(path), model[2]), model)
    with pytest.raises(tvm.TVMError, match="runtime crt does not support partition tvmgen_default_plainc_main_0"):
        relay.build(model[0], "c", executor=Executor("aot"), runtime=Runtime("crt"))


def test_threads_run_one_partition_at_once(model):
    plainc()
    lib = relay.build(model[0], "llvm")
    name = next(n for m in lib.lib.imported_modules if "dense_relu" in m.get_source() for n in [m["get_symbol"]()])
    values = [np.random.default_rng(i).standard_normal((3, 7)).astype("float32") for i in range(8)]
    alone = []
    for value in values:
        out = tvm.nd.empty((3, 5))
        lib.lib.get_function(name, True)(tvm.nd.array(value), out)
        alone.append(out.numpy())
    wrong: list[int] = []

    def work(number: int) -> None:
        function = lib.lib.get_function(name, True)
        given, out = tvm.nd.array(values[number]), tvm.nd.empty((3, 5))
        for _ in range(200):
            function(given, out)
            if not np.array_equal(out.numpy(), alone[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_random_graphs_give_the_results_of_our_own_kernels(rng):
    """Random chains of supported and unsupported operators, with several outputs and values used several times."""
    plainc()
    for _ in range(6):
        rows, columns = (int(n) for n in rng.integers(1, 9, 2))
        x = relay.var("x", shape=(2 * rows, columns))
        values = [relay.nn.relu(x), x]
        for _ in range(int(rng.integers(4, 12))):
            a, b = (values[int(i)] for i in rng.integers(0, len(values), 2))
            kind = int(rng.integers(0, 6))
            made = (
                a + b, relay.nn.relu(a), relay.clip(a, -0.5, 0.75), relay.tanh(a), a * b,
                relay.concatenate(relay.split(a, 2, axis=0), 0),
            )[kind]  # fmt: skip
            values.append(made)
        outputs = [values[-1], *(values[int(i)] for i in rng.integers(0, len(values), 2))]
        mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(outputs)))
        value = rng.uniform(-1, 1, (2 * rows, columns)).astype("float32")
        wanted = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
        wanted.run(x=value)
        for options in ({}, {"executor": Executor("aot")}):
            lib = relay.build(partition_for("plainc", mod), "llvm", **options)
            found = graph_executor.GraphModule(lib["default"](tvm.cpu()))
            found.run(x=value)
            for i in range(3):
                np.testing.assert_allclose(
                    found.get_output(i).numpy(), wanted.get_output(i).numpy(), rtol=1e-5, atol=1e-6
                )


def test_partitions_run_on_a_device_of_a_package(model):
    package = plainc()
    target = tvm.target.Target({"kind": "llvm", "target_device_type": package.DEVICE_TYPE})
    module = graph_executor.GraphModule(relay.build(model[0], target)["default"](tvm.device("plainbox")))
    module.run(x=model[2])
    check(module.get_output(0).numpy(), model)


def test_a_partition_that_was_prepared_for_one_device_refuses_another(model):
    plainc()
    lib = relay.build(model[0], "llvm").lib
    name, out = "tvmgen_default_plainc_main_0", (3, 5)
    function = lib.get_function(name, True)
    function(tvm.nd.array(model[2]), tvm.nd.empty(out))
    box = tvm.device("plainbox")
    with pytest.raises(tvm.TVMError, match="was prepared for cpu"):
        function(tvm.nd.array(model[2], box), tvm.nd.empty(out, device=box))
    with pytest.raises(tvm.TVMError, match="on different devices"):
        function(tvm.nd.array(model[2]), tvm.nd.empty(out, device=box))
    with pytest.raises(tvm.TVMError, match="argument 0 has another type, shape or layout"):
        function(tvm.nd.empty((3, 8)), tvm.nd.empty(out))
    with pytest.raises(tvm.TVMError, match="called with 1 arguments"):
        function(tvm.nd.array(model[2]))


def test_a_model_without_the_code_generator_runs_and_warns(model):
    text = tvm.ir.save_json(model[0])
    mod = tvm.ir.load_json(text.replace('"plainc"', '"nobody"'))
    with pytest.warns(UserWarning, match="no code generator is registered for 'nobody'.*2 partitions"):
        lib = relay.build(mod, "llvm")
    check(run_graph(lib, model[2]), model)


def partition_of(body, compiler: str, *params):
    """A module whose main function calls one partition."""
    begun = {p: relay.annotation.compiler_begin(p, compiler) for p in params}
    made = relay.substitute.substitute_vars(body, begun)
    made = relay.annotation.compiler_end(made, compiler)
    return relay.transform.PartitionGraph()(tvm.IRModule.from_expr(relay.Function(params, made)))


def test_loading_a_kernel_library_again_has_no_effect(tmp_path):
    path = plainc().build_library(str(tmp_path))
    # The bytes are those of the library of this process, but the file is another one: its kernels have taken names.
    with pytest.raises(tvm.TVMError, match="kernel 'plainc.nn.relu' is already registered"):
        tvm.runtime.load_kernel_library(path)
    tvm.runtime.load_kernel_library(path)
    with pytest.raises(tvm.TVMError, match="cannot open the kernel library"):
        tvm.runtime.load_kernel_library(tmp_path / "absent.so")


def test_kernels_report_their_errors():
    plainc()
    x = relay.var("x", shape=(4,), dtype="int32")
    lib = relay.build(partition_of(relay.nn.relu(x), "plainc", x), "llvm")
    with pytest.raises(tvm.TVMError, match="kernel 'plainc.nn.relu' of partition '.*_0': only float32 is supported"):
        run_graph(lib, np.zeros(4, "int32"))
    y = relay.var("x", shape=(4,))
    lib = relay.build(partition_of(relay.tan(y), "plainc", y), "llvm")
    with pytest.raises(tvm.TVMError, match="kernel 'plainc.tan' is not registered; load its library"):
        run_graph(lib, np.zeros(4, "float32"))


C_SOURCE = """
#include <tvm_runtime.h>
extern const unsigned long long offsets[];
TVM_DLL int %s(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
  const float *x = TVMTensorData(args[0].v_handle), *b = (const float *)offsets;
  float *y = TVMTensorData(args[1].v_handle);
  for (int i = 0; i < 6; ++i) y[i] = x[i] + b[i %% 3];
  return 0;
}
"""


def source_of(function):
    (constant,) = [n for n in tvm.ir.visit.post_order(function.body) if isinstance(n, relay.Constant)]
    symbol = function.attrs["global_symbol"]
    return c_source_module(C_SOURCE % symbol, [symbol], {"offsets": constant.data})


def test_a_code_generator_may_write_c(tmp_path):
    tvm.register_func("relay.ext.test_c", source_of, override=True)
    x, b = relay.var("x", shape=(2, 3)), np.array([1, 2, 3], "float32")
    lib = relay.build(partition_of(x + relay.const(b), "test_c", x), "llvm")
    value = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(run_graph(lib, value), value + b)
    for name in ("model.so", "model.tar"):
        lib.export_library(str(tmp_path / name))
        loaded = tvm.runtime.load_module(str(tmp_path / name))
        np.testing.assert_array_equal(run_graph(loaded, value), value + b)


def test_c_source_is_checked():
    with pytest.raises(tvm.TVMError, match="'a-b' is not a C identifier"):
        c_source_module("", ["a-b"])
    with pytest.raises(tvm.TVMError, match="the source does not contain 'absent'"):
        c_source_module("int f;", ["absent"])
    module = c_source_module("static int hidden; int other;", ["hidden"])
    with pytest.raises(tvm.TVMError, match="does not export the function 'hidden'"):
        module["hidden"]()
    with pytest.raises(tvm.TVMError, match="cannot write format 'll'"):
        module.save("x.ll")


def test_what_a_code_generator_returns_is_checked():
    x = relay.var("x", shape=(3,))
    mod = partition_of(relay.abs(x), "test_bad", x)
    tvm.register_func("relay.ext.test_bad", lambda f: 3, override=True)
    with pytest.raises(tvm.TVMError, match="relay.ext.test_bad must return a Module"):
        relay.build(mod, "llvm")
    tvm.register_func("relay.ext.test_bad", lambda f: c_source_module("int other;", ["other"]), override=True)
    with pytest.raises(tvm.TVMError, match="has no function 'tvmgen_default_test_bad_main_0'"):
        relay.build(mod, "llvm")
    tvm._ffi.registry.remove_global_func("relay.ext.test_bad")


def test_dynamic_shapes_fall_back_to_the_target():
    plainc()
    x = relay.var("x", shape=(relay.Any(), 3))
    mod = partition_of(relay.nn.relu(x), "plainc", x)
    with pytest.warns(UserWarning, match="has dynamic shapes; the target compiles it instead"):
        executable = relay.vm.compile(mod, "llvm")
    value = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    got = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu()).run(value).numpy()
    np.testing.assert_array_equal(got, np.maximum(value, 0))


def test_arguments_keep_their_order_and_scalars_and_may_repeat(rng):
    """A partition of (a, b, a, scalar) and a tuple parameter gets all of them in this order."""
    c_codegen.register()
    a, b = relay.var("a", shape=(3,)), relay.var("b", shape=(3,))
    p = [relay.var(f"p{i}", shape=(3,)) for i in range(3)]
    attrs = {"Compiler": "ccompiler", "global_symbol": "arguments"}
    function = relay.Function(p, (p[0] - p[1]) * p[2])
    for name, value in attrs.items():
        function = function.with_attr(name, value)
    var = relay.GlobalVar("arguments")
    mod = tvm.IRModule({var: function})
    mod["main"] = relay.Function([a, b], relay.exp(var(b, a, b)))
    v, w = rng.random(3, dtype="float32"), rng.random(3, dtype="float32")
    for executor in ("graph", "aot"):
        module = graph_executor.GraphModule(relay.build(mod, "llvm", executor=Executor(executor))["default"](tvm.cpu()))
        module.run(a=v, b=w)
        np.testing.assert_allclose(module.get_output(0).numpy(), np.exp((w - v) * w), rtol=1e-6)


def test_constants_that_are_passed_reach_their_partition():
    plainc()
    x = relay.var("x", shape=(2, 3))
    body = relay.annotation.compiler_begin(relay.const(np.array([1, 2, 3], "float32")), "plainc")
    made = relay.annotation.compiler_end(relay.annotation.compiler_begin(x, "plainc") + body, "plainc")
    mod = relay.transform.PartitionGraph(bind_constants=False)(tvm.IRModule.from_expr(relay.Function([x], made)))
    assert len(mod["main"].body.args) == 2
    value = np.zeros((2, 3), "float32")
    np.testing.assert_array_equal(run_graph(relay.build(mod, "llvm"), value), [[1, 2, 3]] * 2)


# ---- RelayToTIR and TIRToRuntime ----


def doubled(mod):
    """RelayToTIR: every partition becomes loops that double its input."""
    made = tvm.IRModule()
    for var, function in mod.functions.items():
        n = int(function.params[0].checked_type.shape[0])
        A = tvm.te.placeholder((n,), name="A")
        B = tvm.te.compute((n,), lambda i, A=A: A[i] * 2.0, name="B")
        made[var] = tvm.te.create_prim_func([A, B])
    return made


def hooked(name: str, tir_to_runtime=None):
    codegen = Codegen(name, operators={"abs": True}, relay_to_tir=doubled, tir_to_runtime=tir_to_runtime)
    register_codegen(codegen, override=True)
    x = relay.var("x", shape=(5,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.abs(x))))
    return partition_for(name, mod)


@pytest.fixture
def no_rules():
    yield
    for name in ("test_tir", "test_hook"):
        relay.op.get("abs").reset_attr(f"target.{name}")


VALUE = np.arange(5, dtype="float32")


def test_loops_of_relay_to_tir_are_compiled_by_the_target_of_the_model(no_rules):
    mod = hooked("test_tir")
    np.testing.assert_allclose(run_graph(relay.build(mod, "llvm"), VALUE), np.exp(2 * VALUE), rtol=1e-6)
    lib = relay.build(mod, "llvm", executor=Executor("aot"))
    np.testing.assert_allclose(run_graph(lib, VALUE), np.exp(2 * VALUE), rtol=1e-6)
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    np.testing.assert_allclose(machine.run(VALUE).numpy(), np.exp(2 * VALUE), rtol=1e-6)
    plain = relay.build(mod, "c", executor=Executor("aot"), runtime=Runtime("crt"))
    assert "tvmgen_default_test_tir_main_0" in plain.lib.get_source()


def test_tir_to_runtime_compiles_the_loops(no_rules):
    seen = []

    def build(mod, target):
        seen.append((target.kind.name, [v.name_hint for v in mod.functions]))
        return tvm.build(mod, target="llvm")

    mod = hooked("test_hook", build)
    np.testing.assert_allclose(run_graph(relay.build(mod, "llvm"), VALUE), np.exp(2 * VALUE), rtol=1e-6)
    assert seen == [("test_hook", ["tvmgen_default_test_hook_main_0"])]


def test_what_hooks_return_is_checked(no_rules):
    mod = hooked("test_hook", lambda mod, target: 3)
    with pytest.raises(tvm.TVMError, match="TIRToRuntime of 'test_hook' must return a Module"):
        relay.build(mod, "llvm")
    mod = hooked("test_hook", lambda mod, target: c_source_module("int f;", ["f"]))
    with pytest.raises(tvm.TVMError, match="the module that TIRToRuntime of 'test_hook' returned has no function"):
        relay.build(mod, "llvm")
    tvm.target.kinds.KINDS["test_hook"].attrs["RelayToTIR"] = lambda mod: tvm.IRModule()
    with pytest.raises(tvm.TVMError, match="RelayToTIR of 'test_hook' returned no PrimFunc with the name"):
        relay.build(mod, "llvm")


def test_records_are_checked():
    with pytest.raises(ValueError, match="needs the function compile or relay_to_tir"):
        register_codegen(Codegen("test_empty"))
    with pytest.raises(ValueError, match="a target kind has the same name"):
        register_codegen(Codegen("llvm", json_module))
    plainc()
    mod, _ = network(np.random.default_rng(0))
    with pytest.raises(tvm.TVMError, match="code generator 'plainc' has no option 'thread'; its options are threads"):
        partition_for("plainc", mod, thread=2)
    with pytest.raises(tvm.TVMError, match="no code generator is named 'absent'"):
        partition_for("absent", mod)
