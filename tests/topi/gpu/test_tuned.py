"""Products on GPUs as tasks of the tuner: the same space as the pick, records in place of the pick."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import tvm
from tvm import autotvm, relay
from tvm.autotvm.record import RecordFile, encode
from tvm.autotvm.task.entity import OtherOptionEntity
from tvm.contrib import graph_executor
from tvm.topi.gpu import gemm
from tvm.topi.gpu.machine import Machine

T, F = "TENSOR", "float32"


def small_model():
    """Two equal convolutions, one with channels last, a product of matrices of a batch, and a dense layer."""
    numbers = np.random.default_rng(3)
    params = {}

    def weight(name, *shape):
        params[name] = tvm.nd.array(numbers.uniform(-0.3, 0.3, shape).astype(F))
        return relay.var(name, shape=shape)

    x = relay.var("data", shape=(1, 8, 9, 9))
    y = relay.nn.conv2d(x, weight("w0", 8, 8, 3, 3), padding=(1, 1))
    y = relay.nn.relu(relay.nn.conv2d(y, weight("w1", 8, 8, 3, 3), padding=(1, 1)))
    z = relay.reshape(y, (8, 9, 9))
    z = relay.nn.batch_matmul(z, z)
    z = relay.nn.conv2d(
        relay.reshape(z, (1, 9, 9, 8)), weight("w2", 1, 1, 8, 5), data_layout="NHWC", kernel_layout="HWIO"
    )
    z = relay.nn.dense(relay.nn.batch_flatten(z), weight("w3", 10, 405))
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(z), z)), params


def run(mod, params, data, target="opencl"):
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target, params=params)
    device = tvm.device(tvm.target.Target(target).kind.name, 0)
    module = graph_executor.GraphModule(lib["default"](device))
    module.set_input("data", data)
    module.run()
    source = "".join(m.get_source() for m in lib.get_lib().imported_modules)
    return module.get_output(0).numpy(), source


def records_for(tasks, pick):
    made = []
    for task in tasks:
        config = task.config_space.get(pick(task.config_space))
        made.append((autotvm.MeasureInput(task.target, task, config), autotvm.MeasureResult((1e-6,), 0, 1.0, 1.0)))
    return made


def another_index(space) -> int:
    return next(i for i in iter(lambda: space.get_rand_index(), None) if i not in space.start)


@pytest.fixture(scope="module")
def model():
    mod, params = small_model()
    return mod, params, autotvm.task.extract_from_program(mod, params, "opencl")


@pytest.mark.parametrize("target", ["opencl", "cuda -arch=sm_80", "opencl -device=mali"])
def test_tasks_of_a_model_are_the_classic_ones(target):
    tasks = autotvm.task.extract_from_program(*small_model(), target)
    found = {t.name: t for t in tasks}
    assert {n: t.count for n, t in found.items()} == {
        "conv2d_nchw.cuda": 2,
        "batch_matmul.cuda": 1,
        "conv2d_nhwc.gpu": 1,
        "dense_small_batch.gpu": 1,
    }
    # What a model says, not how its weights are laid out.
    conv = found["conv2d_nchw.cuda"]
    assert conv.args == ((T, (1, 8, 9, 9), F), (T, (8, 8, 3, 3), F), (1, 1), (1, 1, 1, 1), (1, 1), F)
    assert conv.flop == 2 * 8 * 81 * 72
    assert found["dense_small_batch.gpu"].args == ((T, (1, 405), F), (T, (10, 405), F), None, F)
    assert found["batch_matmul.cuda"].args == ((T, (8, 9, 9), F), (T, (8, 9, 9), F), None, F, False, True)
    machine = Machine(tvm.target.Target(target))
    space, sizes = conv.config_space, gemm.Sizes(1, 8, 81, 72, 4)
    assert space.get(space.start[0]).values() == gemm.TEMPLATE.choose(sizes, machine)
    table = gemm.TEMPLATE.space(sizes, machine)
    assert {n: [e.val for e in s.entities] for n, s in space.space_map.items()} == table
    chosen = [space.get(i).values() for i in space.sample_ints(50)]
    assert len(chosen) == 50 and all(gemm.TEMPLATE.valid(sizes, machine, config) for config in chosen)


def test_operators_can_be_chosen(model):
    mod, params, _ = model
    names = {
        op: {t.name for t in autotvm.task.extract_from_program(mod, params, "opencl", ops=[relay.op.get(op)])}
        for op in ("nn.conv2d", "nn.dense", "nn.matmul", "nn.batch_matmul")
    }
    assert names == {
        "nn.conv2d": {"conv2d_nchw.cuda", "conv2d_nhwc.gpu"},
        "nn.dense": {"dense_small_batch.gpu"},
        "nn.matmul": {"dense_small_batch.gpu"},
        "nn.batch_matmul": {"batch_matmul.cuda"},
    }


@pytest.mark.slow("builds and measures configurations in worker processes")
@tvm.testing.requires_opencl
def test_records_change_code_not_results(model, tmp_path):
    mod, params, tasks = model
    data = np.random.default_rng(0).uniform(-1, 1, (1, 8, 9, 9)).astype(F)
    plain, plain_code = run(mod, params, data)
    path = tmp_path / "records.log"
    RecordFile(path).append(encode(*pair) for pair in records_for(tasks, another_index))
    with autotvm.apply_history_best(str(path)) as history:
        tuned, tuned_code = run(mod, params, data)
        assert len(history.uses) == 4 and None not in history.uses.values()
    np.testing.assert_allclose(tuned, plain, rtol=1e-4, atol=1e-4 * float(np.abs(plain).max()))
    assert tuned_code != plain_code
    with autotvm.apply_history_best(records_for(tasks, lambda space: space.start[0])):
        assert run(mod, params, data)[1] == plain_code


def test_a_record_that_the_machine_has_no_room_for_is_left_out(model, caplog):
    mod, params, tasks = model
    task = next(t for t in tasks if t.name == "conv2d_nchw.cuda")
    knobs = {"tile": (8, 8), "threads": (16, 16), "block_k": 32, "split_k": 1}
    # Two tiles of two operands of 128 x 32 elements: 64 KiB, which OpenCL's 16 are less than.
    large = autotvm.ConfigEntity(0, None, {name: OtherOptionEntity(value) for name, value in knobs.items()})
    result = autotvm.MeasureResult((1e-6,), 0, 1.0, 1.0)
    with caplog.at_level(logging.WARNING, "autotvm"):
        with autotvm.apply_history_best([(autotvm.MeasureInput(task.target, task, large), result)]):
            with tvm.transform.PassContext(opt_level=3):
                relay.build(mod, "opencl", params=params)
    assert any("the records of 1 operator do not match the template and are ignored" in m for m in caplog.messages)


def test_records_of_another_gpu_come_after_ones_own_and_are_said(model, caplog):
    mod, params, tasks = model
    ours = records_for(tasks, lambda space: space.start[0])
    cuda = tvm.target.Target("cuda -arch=sm_80")
    theirs = [(autotvm.MeasureInput(cuda, inp.task, inp.config), res._replace(costs=(1e-9,))) for inp, res in ours]
    with caplog.at_level(logging.WARNING, "autotvm"):
        with autotvm.apply_history_best([*ours, *theirs]) as history, tvm.transform.PassContext(opt_level=3):
            relay.build(mod, "opencl", params=params)
            assert {str(inp.target) for inp in history.uses.values()} == {str(tasks[0].target)}
        assert caplog.messages == []
        with autotvm.apply_history_best(theirs), tvm.transform.PassContext(opt_level=3):
            relay.build(mod, "opencl", params=params)
    assert caplog.messages == [
        "tuning records: 4 operators use a record, 4 from another GPU (sm_80; the code is for opencl)"
    ]


SMALL_TASKS = [
    ("conv2d_nchw.cuda", ((T, (1, 5, 7, 9), F), (T, (6, 5, 3, 3), F), (2, 1), (1, 0, 1, 2), (1, 2), F)),
    ("conv2d_nhwc.gpu", ((T, (2, 7, 7, 3), F), (T, (3, 3, 3, 17), F), (1, 1), (1, 1, 1, 1), (1, 1), F)),
    ("conv2d_hwcn.cuda", ((T, (5, 5, 3, 4), F), (T, (1, 1, 3, 8), F), (1, 1), (0, 0, 0, 0), (1, 1), F)),
    ("conv1d_ncw.cuda", ((T, (1, 4, 19), F), (T, (5, 4, 3), F), (1,), (1, 1), (1,), F)),
    ("conv3d_ndhwc.cuda", ((T, (1, 3, 4, 5, 2), F), (T, (2, 2, 2, 2, 6), F), (1, 1, 1), (0,) * 6, (1, 1, 1), 1, F)),
    ("group_conv2d_nchw.cuda", ((T, (1, 6, 5, 7), F), (T, (9, 2, 3, 3), F), (1, 1), (1, 1, 1, 1), (1, 1), 3, F)),
    ("depthwise_conv2d_nchw.cuda", ((T, (1, 7, 9, 11), F), (T, (7, 1, 3, 3), F), (2, 1), (1, 1, 1, 1), (1, 1), F)),
    ("depthwise_conv2d_nhwc.cuda", ((T, (1, 9, 5, 8), F), (T, (5, 3, 8, 1), F), (1, 1), (2, 1, 2, 1), (1, 1), F)),
    ("conv2d_nchw_winograd.cuda", ((T, (1, 5, 9, 7), F), (T, (6, 5, 3, 3), F), (1, 1, 1, 1), 4, F)),
    ("conv2d_transpose_nchw.cuda", ((T, (1, 5, 4, 3), F), (T, (5, 6, 3, 2), F), (2, 1), (1, 0, 1, 1), F, (1, 0))),
    ("conv1d_transpose_ncw.cuda", ((T, (2, 9, 5), F), (T, (9, 4, 3), F), (2,), (1, 1), F, (0,))),
    ("dense_large_batch.gpu", ((T, (37, 41), F), (T, (13, 41), F), None, F)),
    ("dense_small_batch.gpu", ((T, (1, 1, 127), F), (T, (5, 127), F), None, F)),
    ("matmul_default.gpu", ((T, (23, 11), F), (T, (9, 23), F), None, F, True, True)),
    ("batch_matmul.cuda", ((T, (3, 11, 7), F), (T, (1, 13, 7), F), None, F, False, True)),
]


def check_some_configurations(name, args, target, count):
    """The pick and some configurations that are drawn compute what the plain loops do on the CPU."""
    task = autotvm.task.create(name, args, target)
    space = task.config_space
    runner = autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=120, verify=True)
    measure = autotvm.measure.create_measure_batch(
        task, autotvm.measure_option(autotvm.LocalBuilder(timeout=120, n_parallel=2), runner)
    )
    indexes = [*space.start, *space.sample_ints(count)]
    results = measure([autotvm.MeasureInput(task.target, task, space.get(i)) for i in indexes])
    for index, result in zip(indexes, results):
        assert result.error_no == 0, (name, space.get(index), result.costs)


@pytest.mark.slow("builds and measures configurations in worker processes")
@tvm.testing.requires_opencl
@pytest.mark.parametrize("target", ["opencl", "opencl -device=mali"])
@pytest.mark.parametrize("name, args", SMALL_TASKS, ids=lambda x: x if isinstance(x, str) else "")
def test_any_configuration_gives_what_the_cpu_gives(name, args, target):
    check_some_configurations(name, args, target, 2)


@pytest.mark.slow("builds and measures configurations in worker processes")
@pytest.mark.skipif(not tvm.cuda(0).exist, reason="needs an NVIDIA GPU")
def test_any_configuration_gives_what_the_cpu_gives_on_cuda():
    for name, args in SMALL_TASKS:
        check_some_configurations(name, args, "cuda", 8)


def test_tasks_of_gpus_are_refused_on_a_cpu():
    with pytest.raises(tvm.TVMError, match=r"dense_large_batch\.gpu: this task needs a GPU target, .* is llvm"):
        autotvm.task.create("dense_large_batch.gpu", dict(SMALL_TASKS)["dense_large_batch.gpu"], "llvm")
