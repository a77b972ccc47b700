"""Tasks of models, and models compiled with records: the same results from the code that was asked for."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import tvm
from tests.cpus import OLDER
from tvm import autotvm, relay
from tvm.autotvm import tophub
from tvm.autotvm.record import RecordFile, encode
from tvm.contrib import graph_executor


def small_model():
    """Two equal convolutions, a depthwise one and a product."""
    random_numbers = np.random.default_rng(3)
    x = relay.var("data", shape=(1, 16, 12, 12))
    params = {}

    def weight(name, *shape):
        params[name] = tvm.nd.array(random_numbers.uniform(-0.3, 0.3, shape).astype("float32"))
        return relay.var(name, shape=shape)

    y = relay.nn.conv2d(x, weight("w0", 16, 16, 5, 5), padding=(2, 2))
    y = relay.nn.relu(relay.nn.conv2d(y, weight("w1", 16, 16, 5, 5), padding=(2, 2)))
    y = relay.nn.conv2d(y, weight("w2", 16, 1, 3, 3), padding=(1, 1), groups=16)
    y = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y)), weight("w3", 10, 16))
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y)), params


def run(mod, params, data) -> tuple[np.ndarray, str]:
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("data", data)
    module.run()
    return module.get_output(0).numpy(), lib.get_lib().get_source("asm")


def records_for(tasks, pick) -> list:
    made = []
    for task in tasks:
        config = task.config_space.get(pick(task.config_space))
        made.append((autotvm.MeasureInput(task.target, task, config), autotvm.MeasureResult((1e-6,), 0, 1.0, 1.0)))
    return made


def some_index(space) -> int:
    return next(i for i in iter(lambda: space.get_rand_index(), None) if i not in space.start or len(space) == 1)


@pytest.fixture(scope="module")
def model():
    mod, params = small_model()
    return mod, params, autotvm.task.extract_from_program(mod, params, "llvm")


def test_tasks_of_a_model_with_their_counts(model):
    _, _, tasks = model
    counts = {(t.name, t.args[1][1][2:]): t.count for t in tasks}
    assert counts["conv2d_NCHWc.x86", (5, 5)] == 2 and counts["depthwise_conv2d_NCHWc.x86", (3, 3)] == 1
    assert counts["dense_pack.x86", ()] == 1 and len(tasks) == 3, counts
    conv = next(t for t in tasks if t.name == "conv2d_NCHWc.x86")
    assert conv.args[0] == ("TENSOR", (1, 16, 12, 12), "float32") and conv.flop == 2 * 16 * 12 * 12 * 16 * 25
    assert len(conv.config_space) > 100 and conv.config_space.is_index_valid(conv.config_space.start[0])


def test_operators_can_be_chosen(model):
    mod, params, _ = model
    only = autotvm.task.extract_from_program(mod, params, "llvm", ops=[relay.op.get("nn.dense")])
    assert [t.name for t in only] == ["dense_pack.x86"]
    twice = autotvm.task.extract_from_multiple_program([mod, mod], [params, params], "llvm", ops=["nn.dense"])
    assert [t.count for t in twice] == [2]


@pytest.mark.parametrize("several", [["llvm", "opencl"], {"cpu": "llvm", "opencl": "opencl"},
                                     {tvm.cpu(): tvm.target.Target("llvm"), tvm.device("cl"): "opencl"}])  # fmt: skip
def test_tasks_of_a_model_over_several_devices_have_the_target_of_their_device(several):
    rng = np.random.default_rng(1)
    shapes = {"w": (16, 8, 3, 3), "v": (24, 16)}
    params = {name: rng.uniform(-1, 1, shape).astype("float32") for name, shape in shapes.items()}
    x, w = relay.var("x", shape=(1, 8, 12, 12)), relay.var("w", shape=(16, 8, 3, 3))
    v = relay.var("v", shape=(24, 16))

    def marked(device):
        features = relay.annotation.on_device(relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=16), device)
        pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.nn.relu(features)))
        scores = relay.annotation.on_device(relay.nn.dense(pooled, v), "cpu")
        return tvm.IRModule.from_expr(relay.Function([x, w, v], scores))

    def found(tasks):
        return {(task.workload, str(task.target.kind), task.count) for task in tasks}

    tasks = autotvm.task.extract_from_program(marked("opencl"), params, several)
    operators = {(task.name.split("_")[0], str(task.target.kind)) for task in tasks}
    assert operators == {("conv2d", "opencl"), ("dense", "llvm")}
    # The same as of models of one device each.
    conv = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=16)))
    y = relay.var("y", shape=(1, 16))
    dense = tvm.IRModule.from_expr(relay.Function([y, v], relay.nn.dense(y, v)))
    alone = [(conv, "opencl"), (dense, "llvm")]
    assert found(tasks) == set().union(*(found(autotvm.task.extract_from_program(m, params, t)) for m, t in alone))
    # All of it on the CPU: nothing is for the other target.
    tasks = autotvm.task.extract_from_program(marked("cpu"), params, several)
    assert {str(task.target.kind) for task in tasks} == {"llvm"}


def test_two_targets_of_one_kind_of_device_are_refused(model):
    mod, params, _ = model
    with pytest.raises(tvm.TVMError, match="have the same device type"):
        autotvm.task.extract_from_program(mod, params, ["llvm", "c"])


@pytest.mark.slow("builds and measures candidates in worker processes")
def test_records_change_code_not_results(model, tmp_path):
    mod, params, tasks = model
    data = np.random.default_rng(0).uniform(-1, 1, (1, 16, 12, 12)).astype("float32")
    plain, plain_code = run(mod, params, data)
    path = tmp_path / "records.log"
    RecordFile(path).append(encode(*pair) for pair in records_for(tasks, some_index))
    with autotvm.apply_history_best(str(path)) as history:
        tuned, tuned_code = run(mod, params, data)
        assert len(history.uses) == 3 and None not in history.uses.values()
    np.testing.assert_allclose(tuned, plain, rtol=1e-4, atol=1e-4)
    assert tuned_code != plain_code
    with autotvm.apply_history_best(records_for(tasks, lambda space: space.start[0])):
        again, same_code = run(mod, params, data)
    assert same_code == plain_code
    np.testing.assert_array_equal(again, plain)


def test_records_of_another_template_are_left_out_and_counted(model, caplog):
    mod, params, tasks = model
    foreign = []
    for inp, res in records_for(tasks, lambda space: space.start[0]):
        entity = {"tile_ic": autotvm.task.entity.SplitEntity([-1, 16])}
        config = autotvm.ConfigEntity(5, None, entity)
        foreign.append((autotvm.MeasureInput(inp.target, inp.task, config), res))
    with caplog.at_level(logging.WARNING, "autotvm"), autotvm.apply_history_best(foreign):
        with tvm.transform.PassContext(opt_level=3):
            relay.build(mod, "llvm", params=params)
    lines = [line for line in caplog.messages if "do not match" in line]
    assert lines == ["tuning records: the records of 3 operators do not match the template and are ignored"]


@pytest.mark.slow("builds and measures candidates in worker processes")
def test_records_in_the_users_folder_are_found(model, tmp_path, monkeypatch):
    mod, params, tasks = model
    monkeypatch.setenv("AUTOTVM_TOPHUB_ROOT_PATH", str(tmp_path))
    assert tophub.record_files("llvm") == []
    data = np.zeros((1, 16, 12, 12), "float32")
    _, plain_code = run(mod, params, data)
    RecordFile(tmp_path / "llvm_v0.04.log").append(encode(*p) for p in records_for(tasks, some_index))
    assert [p.name for p in tophub.record_files("llvm")] == ["llvm_v0.04.log"]
    _, tuned_code = run(mod, params, data)
    assert tuned_code != plain_code
    monkeypatch.setenv("TOPHUB_LOCATION", "NONE")
    assert run(mod, params, data)[1] == plain_code


TENSOR = "TENSOR"
F = "float32"
SMALL_TASKS = [
    (
        "conv2d_NCHWc.x86",
        ((TENSOR, (1, 32, 9, 9), F), (TENSOR, (32, 32, 3, 3), F), (1, 1), (1, 1, 1, 1), (1, 1), "NCHW", "NCHW", F),
    ),
    (
        "conv2d_NCHWc.x86",
        ((TENSOR, (1, 64, 7, 7), F), (TENSOR, (64, 32, 3, 3), F), (2, 2), (1, 1, 1, 1), (1, 1), "NCHW", "NCHW", F),
    ),
    (
        "depthwise_conv2d_NCHWc.x86",
        ((TENSOR, (1, 32, 9, 9), F), (TENSOR, (32, 1, 3, 3), F), (1, 1), (1, 1, 1, 1), (1, 1), "NCHW", "NCHW", F),
    ),
    ("conv2d_winograd_NCHWc.x86", ((TENSOR, (1, 32, 10, 10), F), (TENSOR, (32, 32, 3, 3), F), (1, 1, 1, 1), 4, F)),
    ("dense_pack.x86", ((TENSOR, (12, 40), F), (TENSOR, (50, 40), F), None, F)),
]


@pytest.mark.slow("builds and measures candidates in worker processes")
@pytest.mark.parametrize("name, args", SMALL_TASKS, ids=lambda x: x if isinstance(x, str) else "")
def test_any_configuration_of_a_template_gives_the_same_results(name, args):
    task = autotvm.task.create(name, args, f"llvm -mcpu={OLDER}")
    space = task.config_space
    runner = autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=60, verify=True)
    measure = autotvm.create_measure_batch(task, autotvm.measure_option(autotvm.LocalBuilder(timeout=60), runner))
    chosen = [*space.start, *space.sample_ints(min(5, len(space)))]
    results = measure([autotvm.MeasureInput(task.target, task, space.get(i)) for i in chosen])
    assert [r.error_no for r in results] == [0] * len(chosen), [(space.get(i), r) for i, r in zip(chosen, results)]
