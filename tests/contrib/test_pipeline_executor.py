"""The pipeline executor: connected modules compute what they would one after the other, run by run."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import cc, pipeline_executor, pipeline_executor_build
from tvm.contrib.pipeline_executor_build import PipelineConfig

SHAPE = (3, 3)
rng = np.random.default_rng(5)


def var(name, dtype="float32"):
    return relay.var(name, shape=SHAPE, dtype=dtype)


def modules():
    """(a + 1, a - 2, a * 3); b + 2 + c; e * 3 + d."""
    a, b, c, d, e = (var(n) for n in "abcde")
    one, two, three = (relay.const(np.float32(n)) for n in (1, 2, 3))
    return [tvm.IRModule.from_expr(f) for f in (
        relay.Function([a], relay.Tuple([a + one, a - two, a * three])),
        relay.Function([b, c], b + two + c), relay.Function([d, e], e * three + d),
    )]  # fmt: skip


def expected(x, y):
    return ((x + 1) + 2 + y) * 3 + (x - 2), x * 3


def connected(mods):
    config = PipelineConfig()
    first, second, third = (config[mod] for mod in mods)
    for module in (first, second, third):
        module.target, module.dev = "llvm", tvm.cpu(0)
    config["input"]["x"].connect(first["input"]["a"])
    config["input"]["y"].connect(second["input"]["c"])
    first["output"][0].connect(second["input"]["b"])
    first["output"][1].connect(third["input"]["d"])
    second["output"][0].connect(third["input"]["e"])
    third["output"][0].connect(config["output"][0])
    first["output"][2].connect(config["output"][1])
    return config


@pytest.fixture(scope="module")
def factory():
    return pipeline_executor_build.build(connected(modules()))


@pytest.mark.parametrize("loaded", [False, True])
def test_runs_give_their_outputs_in_order(factory, tmp_path, loaded):
    runner = pipeline_executor.PipelineModule(factory)
    if loaded:
        name = pipeline_executor_build.export_library(factory, str(tmp_path))
        moved = tmp_path.rename(tmp_path.with_name(tmp_path.name + "_moved"))
        runner = pipeline_executor.PipelineModule.load_library(str(moved / "config"))
        assert name == str(tmp_path / "config")
    assert (runner.num_inputs, runner.num_outputs, runner.num_executing_pipeline) == (2, 2, 0)
    assert runner.get_input_pipeline_map("y") == ["1", "c"] and runner.get_output() == []
    data = [(rng.random(SHAPE, "float32"), rng.random(SHAPE, "float32")) for _ in range(5)]
    for x, y in data:
        runner.set_input("x", tvm.nd.array(x))
        runner.set_input("y", tvm.nd.array(y))
        np.testing.assert_array_equal(runner.get_input("x").numpy(), x)
        runner.run()
    assert runner.num_executing_pipeline == 5
    for x, y in data:
        outputs = runner.get_output()
        for got, want in zip(outputs, expected(x, y), strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert runner.get_output(synchronize=False) == []


def test_modules_of_several_runs_compute_at_the_same_time():
    """The second module of the first run ends only after the first module has begun the second run."""
    begun, seen = threading.Event(), []

    class Executor:
        """As much of a graph executor as a module of a pipeline needs."""

        def __init__(self, act):
            self.act, self.held = act, None

        def set_input(self, name=None, value=None, **more):
            self.held = self.held if name is None else value.numpy()

        def run(self):
            self.act()

        def get_output(self, index):
            return tvm.nd.array(self.held + 1)

    def source():
        seen.append("source")
        if seen.count("source") == 2:
            begun.set()

    config = {
        "input_connection": [{"global_interface_name": "x", "mod_idx": 0, "module_interface_name": "a"}],
        "param_connection": [],
        "module_connection": [
            {"mod_idx": 0, "output": [{"output_idx": 0, "dependencies": [{"mod_idx": 1, "input_name": "b"}]}]},
            {"mod_idx": 1, "output": [{"output_idx": 0, "dependencies": [{"global_output_index": 0}]}]},
        ],
    }  # fmt: skip
    parts = [Executor(source), Executor(lambda: begun.wait(60))]
    runner = pipeline_executor.PipelineModule(pipeline_executor._Pipeline(parts, config))
    for value in (1, 5):
        runner.set_input("x", np.full(SHAPE, value, "float32"))
        runner.run()
    assert begun.wait(60)
    assert [runner.get_output()[0].numpy()[0, 0] for _ in range(2)] == [3, 7]


def test_weights_are_set_by_group():
    x, w = var("x"), var("w")
    mod = tvm.IRModule.from_expr(relay.Function([x, w], x * w))
    config = PipelineConfig()
    config[mod].target, config[mod].dev, config[mod].cpu_affinity = "llvm", tvm.cpu(0), "0"
    config["param_group"]["weights"].connect(config[mod]["param"])
    config["input"]["data"].connect(config[mod]["input"]["x"])
    config[mod]["output"][0].connect(config["output"]["0"])
    assert str(config).splitlines()[:2] == ["Params", "  |weights: mod0:param"]
    runner = pipeline_executor.PipelineModule(pipeline_executor_build.build(config))
    assert runner.get_params_group_pipeline_map("weights") == 0
    value, weight = (rng.random(SHAPE, "float32") for _ in range(2))
    runner.set_params("weights", {"w": tvm.nd.array(weight)})
    runner.set_input("data", value)
    runner.run()
    np.testing.assert_allclose(runner.get_output()[0].numpy(), value * weight, rtol=1e-6)
    with pytest.raises(RuntimeError, match="the weights of group 'weights' are empty"):
        runner.set_params("weights", None)
    with pytest.raises(RuntimeError, match="unknown weight group 'other'; the groups are weights"):
        runner.set_params("other", {"w": tvm.nd.array(weight)})
    with pytest.raises(RuntimeError, match="unknown input 'nothing'; the inputs are data"):
        runner.set_input("nothing", value)


def test_an_error_of_a_module_is_that_of_the_run(factory):
    runner = pipeline_executor.PipelineModule(factory)
    runner.set_input("x", np.zeros((2, 2), "float32"))
    runner.run()
    runner.set_input("x", np.zeros(SHAPE, "float32"))
    runner.set_input("y", np.zeros(SHAPE, "float32"))
    runner.run()
    with pytest.raises(ValueError, match=r"input 'a' has shape \(3, 3\), got \(2, 2\)"):
        runner.get_output()
    np.testing.assert_allclose(runner.get_output()[0].numpy(), np.full(SHAPE, 7))


def test_the_configuration_is_plain_data_in_the_order_of_the_modules():
    mods = modules()
    config = connected(mods)
    config[mods[1]].fcompile = cc.create_shared
    text = str(config).split("\n\n")
    assert text[0].splitlines() == ["Inputs", "  |x: mod0:a", "  |y: mod1:c"]
    assert text[1].splitlines() == ["output", "  |output(0) : mod2.output(0)", "  |output(1) : mod0.output(2)"]
    assert text[2].splitlines() == [
        "connections",
        "  |mod0.output(0)-> mod1.b",
        "  |mod0.output(1)-> mod2.d",
        "  |mod1.output(0)-> mod2.e",
    ]
    found = config.get_config()
    assert found["input_connection"][1] == {"global_interface_name": "y", "mod_idx": 1, "module_interface_name": "c"}
    assert found["module_connection"][mods[1]] == {
        "pipeline": {"mod_idx": 1, "cpu_affinity": "", "output": [
            {"output_idx": 0, "dependencies": [{"mod_idx": 2, "input_name": "e"}]}]},
        "target_host": None, "mod_name": "default", "build": None, "params": None, "target": "llvm",
        "fcompile": cc.create_shared, "export_cc": None, "dev": tvm.cpu(0),
    }  # fmt: skip
    json.dumps(found["input_connection"])


def test_modules_are_numbered_after_those_they_read_from():
    mods = modules()
    config = PipelineConfig()
    for mod in mods[::-1]:
        config[mod].target = "llvm"
    config[mods[1]]["output"][0].connect(config[mods[2]]["input"]["e"])
    config[mods[0]]["output"][0].connect(config[mods[1]]["input"]["b"])
    assert [config.get_mod_idx(mod) for mod in mods] == [0, 1, 2]


def test_a_build_function_is_called():
    mod = tvm.IRModule.from_expr(relay.Function([a := var("a")], relay.exp(a)))
    config, asked = PipelineConfig(), []

    def make(mod, target, params=None, target_host=None, mod_name="default"):
        asked.append((target, mod_name))
        return relay.build(mod, target=target, params=params, mod_name=mod_name)

    config[mod].target, config[mod].dev, config[mod].build_func = "llvm", tvm.cpu(), make
    config["input"]["a"].connect(config[mod]["input"]["a"])
    config[mod]["output"][0].connect(config["output"][0])
    runner = pipeline_executor.PipelineModule(pipeline_executor_build.build(config))
    runner.set_input("a", np.zeros(SHAPE, "float32"))
    runner.run()
    assert asked == [("llvm", "default")] and (runner.get_output()[0].numpy() == 1).all()
    assert pipeline_executor.pipeline_executor_enabled() and pipeline_executor_build.pipeline_executor_build_enabled()


def test_wrong_connections_are_rejected(factory, tmp_path):
    mods = modules()
    config = PipelineConfig()
    first, second, third = (config[mod] for mod in mods)
    with pytest.raises(RuntimeError, match="the module has no output '9'; it has 0, 1, 2"):
        first["output"][9]
    with pytest.raises(RuntimeError, match="the module has no input 'z'; it has a"):
        first["input"]["z"]
    first["output"][0].connect(second["input"]["b"])
    second["output"][0].connect(third["input"]["e"])
    with pytest.raises(RuntimeError, match="would form a cycle"):
        third["output"][0].connect(first["input"]["a"])
    for source, target in (
        (first["output"][0], second["output"][0]), (first["input"]["a"], second["input"]["b"]),
        (first["output"][0], config["input"]["x"]), (config["input"]["x"], first["output"][0]),
        (config["output"][0], first["output"][0]), (config["param_group"]["p"], first["input"]["a"]),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="cannot be connected with a"):
            source.connect(target)
    with pytest.raises(RuntimeError, match="cannot be connected with its own input"):
        first["output"][0].connect(first["input"]["a"])
    other = tvm.IRModule.from_expr(relay.Function([i := var("i", "int32")], i))
    with pytest.raises(RuntimeError, match=r"output 0 has type .*float32.* but input 'i' has type .*int32"):
        first["output"][0].connect(config[other]["input"]["i"])
    with pytest.raises(RuntimeError, match="does not exist; create it first"):
        factory.export_library(str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="mod0 has no target; set"):
        pipeline_executor_build.build(config_of_one())


def config_of_one():
    mod = modules()[0]
    config = PipelineConfig()
    config["input"]["a"].connect(config[mod]["input"]["a"])
    return config
