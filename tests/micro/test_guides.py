"""The programs of the published guides for microcontrollers, on this machine: a graph with TensorFlow Lite's example
network, a model compiled ahead of time, tuning, a project for an IDE, and the accuracy of a classifier."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.relay.frontend.model_files import model_file
from tvm import autotvm, micro, relay
from tvm.contrib import graph_executor
from tvm.relay.backend import Executor, Runtime
from tvm.runtime.executor import aot_executor

RUNTIME = Runtime("crt", {"system-lib": True})
TARGET = micro.testing.get_target("crt")
TEMPLATE = micro.get_microtvm_template_projects("crt")


def sine_network(seed: int) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """The layers of the example network of the guide micro_tflite, which approximates a sine, with random weights."""
    rng = np.random.default_rng(seed)
    value, last, params = relay.var("dense_4_input", shape=(1, 1)), 1, {}
    for layer, units in enumerate((16, 16, 1)):
        names = (f"w{layer}", f"b{layer}")
        params[names[0]] = rng.normal(size=(units, last)).astype("float32")
        params[names[1]] = rng.normal(size=units).astype("float32")
        dense = relay.nn.dense(value, relay.var(names[0], shape=(units, last)))
        value, last = relay.nn.bias_add(dense, relay.var(names[1], shape=(units,))), units
        value = value if units == 1 else relay.nn.relu(value)
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(value), value)), params


def test_micro_tflite(seed, tmp_path):
    mod, params = sine_network(seed)
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        module = relay.build(mod, target=TARGET, runtime=RUNTIME, params=params)
    project = micro.generate_project(TEMPLATE, module, tmp_path / "project", {})
    project.build()
    project.flash()
    value = np.array([[0.5]], "float32")
    with micro.Session(transport_context_manager=project.transport()) as session:
        graph_mod = micro.create_local_graph_executor(
            module.get_graph_json(), session.get_system_lib(), session.device)  # fmt: skip
        graph_mod.set_input(**module.get_params())
        graph_mod.set_input("dense_4_input", tvm.nd.array(value, session.device))
        graph_mod.run()
        found = graph_mod.get_output(0).numpy()
    project.close()
    for layer in range(3):
        value = value @ params[f"w{layer}"].T + params[f"b{layer}"]
        value = np.maximum(value, 0) if layer < 2 else value
    np.testing.assert_allclose(found, value, rtol=1e-4)


@pytest.mark.slow("compiles the keyword spotting model of MLPerf Tiny")
def test_micro_aot(seed, tmp_path):
    data = Path(model_file("formats/mlperf_tiny/kws_ref_model.tflite")).read_bytes()
    mod, params = relay.frontend.from_tflite(data)
    sample = np.random.default_rng(seed).integers(-128, 128, (1, 49, 10, 1)).astype("int8")
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        module = relay.build(mod, target=TARGET, params=params, runtime=RUNTIME, executor=Executor("aot"))
    project = micro.generate_project(TEMPLATE, module, tmp_path / "project", {})
    project.build()
    project.flash()
    with micro.Session(project.transport()) as session:
        runner = aot_executor.AotModule(session.create_aot_executor())
        runner.get_input("input_1").copyfrom(sample)
        runner.run()
        found = runner.get_output(0).numpy()
    project.close()
    expected = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    expected.run(input_1=sample)
    np.testing.assert_array_equal(found, expected.get_output(0).numpy())


def convolution(seed: int) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    data, weight = relay.var("data", shape=(1, 3, 9, 7)), relay.var("weight", shape=(6, 3, 5, 5))
    y = relay.nn.conv2d(data, weight, padding=(2, 2), kernel_size=(5, 5), channels=6, out_dtype="float32")
    weights = np.random.default_rng(seed).random((6, 3, 5, 5), "float32")
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data, weight], y))), {"weight": weights}


@pytest.mark.slow("builds and measures three candidates")
def test_micro_autotune(seed, tmp_path):
    """The guide passes no weights to extract_from_program; here templates require constant weights."""
    mod, params = convolution(seed)
    pass_context = tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True})
    with pass_context:
        (task,) = autotvm.task.extract_from_program(mod["main"], params, TARGET)
    loader = micro.AutoTvmModuleLoader(template_project_dir=TEMPLATE, project_options={"verbose": False})
    builder = autotvm.LocalBuilder(
        n_parallel=1, build_kwargs={"build_option": {"tir.disable_vectorize": True}}, do_fork=True,
        build_func=micro.autotvm_build_func, runtime=RUNTIME,
    )  # fmt: skip
    runner = autotvm.LocalRunner(number=1, repeat=1, timeout=100, module_loader=loader)
    log = tmp_path / "microtvm_autotune.log.txt"
    autotvm.tuner.GATuner(task).tune(
        n_trial=3, measure_option=autotvm.measure_option(builder=builder, runner=runner), si_prefix="M",
        callbacks=[autotvm.callback.log_to_file(str(log)), autotvm.callback.progress_bar(3, si_prefix="M")],
    )  # fmt: skip
    micro.testing.check_tune_log(log)
    assert len(log.read_text().splitlines()) == 3
    with autotvm.apply_history_best(str(log)), pass_context:
        lowered = relay.build(mod, target=TARGET, runtime=RUNTIME, params=params)
    data = np.random.default_rng(seed).random((1, 3, 9, 7), "float32")
    with micro.generate_project(TEMPLATE, lowered, tmp_path / "project", {}) as project:
        project.build()
        project.flash()
        with micro.Session(project.transport()) as session:
            debug_module = micro.create_local_debug_executor(
                lowered.get_graph_json(), session.get_system_lib(), session.device)  # fmt: skip
            debug_module.set_input(**lowered.get_params())
            debug_module.run(data=data, number=1)
            found = debug_module.get_output(0).numpy()
    expected = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    expected.run(data=data)
    np.testing.assert_allclose(found, expected.get_output(0).numpy(), rtol=1e-4)


def test_micro_custom_ide(factory, tmp_path):
    options = {"project_type": "host_driven", "board": "nrf5340dk_nrf5340_cpuapp", "config_main_stack_size": 4096}
    template = micro.get_microtvm_template_projects("zephyr")
    micro.generate_project(template, factory, tmp_path / "project", options).close()
    names = {path.relative_to(tmp_path / "project").as_posix() for path in (tmp_path / "project").rglob("*")}
    assert {"CMakeLists.txt", "prj.conf", "src/main.c", "src/tvmgen_default.h", "src/default_lib0.c",
            "src/model_entry.c", "src/tvm_crt.h", "src/framing.c"} <= names  # fmt: skip
