"""Templates, tasks, where configurations come from, and the counting of operations."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import tvm
from tests.cpus import OLDER
from tvm import autotvm, te
from tvm.autotvm.task.task import compute_flop
from tvm.testing.autotvm import get_sample_records, get_sample_task, matmul


def conv_schedule(dtype: str, out_dtype: str):
    data = te.placeholder((1, 6, 10, 10), dtype=dtype)
    kernel = te.placeholder((4, 6, 3, 3), dtype=dtype)
    c, y, x = (te.reduce_axis((0, n)) for n in (6, 3, 3))
    out = te.compute(
        (1, 4, 8, 8),
        lambda n, f, i, j: te.sum(
            data[n, c, i + y, j + x].astype(out_dtype) * kernel[f, c, y, x].astype(out_dtype), axis=[c, y, x]
        ),
    )
    return te.create_schedule(out.op)


@pytest.mark.parametrize("dtype, out", [("float32", "float32"), ("int8", "int32")])
def test_operations_of_a_convolution_are_two_a_point(dtype: str, out: str):
    assert compute_flop(conv_schedule(dtype, out)) == 2 * 4 * 8 * 8 * 6 * 3 * 3


def test_indexes_and_conditions_are_no_operations():
    a = te.placeholder((16,))
    padded = te.compute((20,), lambda i: te.if_then_else(te.all(i >= 2, i < 18), a[i - 2], 0.0))
    doubled = te.compute((20,), lambda i: padded[i] * 2 + te.exp(padded[i]))
    assert compute_flop(te.create_schedule(doubled.op)) == 20 * 3
    with pytest.raises(RuntimeError, match="add_flop"):
        compute_flop(te.create_schedule(padded.op))
    n = te.var("n")
    unknown = te.compute((n,), lambda i: i * 2)
    with pytest.raises(RuntimeError, match="add_flop"):
        compute_flop(te.create_schedule(unknown.op))


def test_task_knows_workload_space_and_operations():
    task, target = get_sample_task(64)
    assert task.workload == ("testing/matmul", 64, 64, 64, "float32")
    assert len(task.config_space) == 49 and task.flop == 2 * 64**3 and task.target is target or task.target
    assert "testing/matmul" in str(task)


def test_configuration_changes_code_not_results():
    task, target = get_sample_task(32)
    a, b = (np.random.default_rng(i).uniform(-1, 1, (32, 32)).astype("float32") for i in (0, 1))
    texts = set()
    for index in (0, 17, 35):
        with target:
            s, args = task.instantiate(task.config_space.get(index))
            texts.add(str(tvm.lower(s, args, simple_mode=True)))
            built = tvm.build(s, args)
        c = tvm.nd.empty((32, 32))
        built(tvm.nd.array(a), tvm.nd.array(b), c)
        np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4, atol=1e-4)
    assert len(texts) == 3


def test_arguments_survive_a_record():
    x = te.placeholder((2, 3), dtype="int8")
    args = (x, 3, 0.5, "same", None, [1, (2, x)])
    text = autotvm.task.serialize_args(args)
    tensor = ("TENSOR", (2, 3), "int8")
    assert text == (tensor, 3, 0.5, "same", None, (1, (2, tensor)))
    back = autotvm.task.deserialize_args(text)
    assert tuple(int(d) for d in back[0].shape) == (2, 3) and back[0].dtype == "int8" and back[1:4] == [3, 0.5, "same"]
    with pytest.raises(RuntimeError, match="must be a tensor, number, string"):
        autotvm.task.serialize_args([object()])


def best_of(schedule_and_args) -> str:
    return str(tvm.lower(*schedule_and_args, simple_mode=True))


def test_history_gives_the_best_record_and_contexts_nest():
    records = get_sample_records(20)
    task, target = get_sample_task()
    with target:
        expected = best_of(task.instantiate(records[3][0].config))
        with autotvm.apply_history_best(records[3:10]):
            assert best_of(matmul(128, 128, 128, "float32")) == expected
            with autotvm.apply_history_best([]):
                assert best_of(matmul(128, 128, 128, "float32")) == expected
            with autotvm.task.ApplyConfig(records[5][0].config):
                pass
    with autotvm.apply_history_best(records), pytest.raises(RuntimeError, match="target"):
        matmul(128, 128, 128, "float32")


def test_missing_configuration_is_one_line(caplog):
    with tvm.target.Target("llvm"), caplog.at_level(logging.WARNING, "autotvm"):
        for _ in range(2):
            matmul(96, 96, 96, "float32")
        autotvm.GLOBAL_SCOPE.silent = True
        try:
            matmul(80, 80, 80, "float32")
        finally:
            autotvm.GLOBAL_SCOPE.silent = False
    assert sum("Cannot find config" in line for line in caplog.messages) == 1


def test_records_of_another_cpu_are_used_and_one_line_says_so(caplog):
    records = get_sample_records(5)
    other = tvm.target.Target("llvm -mcpu=broadwell")
    records = [(autotvm.MeasureInput(other, inp.task, inp.config), res) for inp, res in records]
    with autotvm.apply_history_best(records), tvm.target.Target(f"llvm -mcpu={OLDER}"):
        with caplog.at_level(logging.WARNING, "autotvm"):
            first = best_of(matmul(128, 128, 128, "float32"))
            matmul(128, 128, 128, "float32")
    task, target = get_sample_task()
    with target:
        assert first == best_of(task.instantiate(records[0][0].config))
    assert [line for line in caplog.messages if "another CPU" in line] == [
        f"tuning records: 1 operator uses a record, 1 from another CPU (broadwell; the code is for {OLDER})"
    ]


def test_unknown_template_says_what_to_do():
    task = autotvm.task.Task("nobody/knows", (1, 2))
    with pytest.raises(RuntimeError, match="nobody/knows"):
        task.instantiate(autotvm.ConfigEntity(0, None, {}))
    with pytest.raises(AttributeError, match="task.create"):
        _ = task.config_space


def test_topi_style_templates():
    @autotvm.register_topi_compute("test/scaled")
    def scaled(cfg, data, factor):
        cfg.define_knob("lanes", [1, 4, 8])
        return te.compute(data.shape, lambda *i: data(*i) * factor, name="scaled")

    @autotvm.register_topi_schedule("test/scaled")
    def schedule_scaled(cfg, outs):
        s = te.create_schedule([t.op for t in outs])
        _, inner = s[outs[0]].split(outs[0].op.axis[0], factor=cfg["lanes"].val)
        s[outs[0]].vectorize(inner)
        return s

    data = te.placeholder((64,), name="data")
    task = autotvm.task.create("test/scaled", (data, 3), "llvm")
    assert len(task.config_space) == 3 and task.flop == 64
    env = autotvm.task.TaskExtractEnv.get()
    with env, tvm.target.Target("llvm"), autotvm.task.ApplyConfig(task.config_space.get(2)):
        out = scaled(data, 3)
        s = schedule_scaled([out])
        scaled(data, 3)
    assert env.get_tasks() == [("test/scaled", (("TENSOR", (64,), "float32"), 3))]
    assert env.counts["test/scaled", ("TENSOR", (64,), "float32"), 3] == 2
    assert "T.Broadcast(T.float32(3), 8)" in str(tvm.lower(s, [data, out]))
    assert autotvm.task.get_workload([out]) == task.workload
