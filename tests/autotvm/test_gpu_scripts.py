"""Scripts as the guides for GPUs have them, with small budgets, on OpenCL."""

from __future__ import annotations

import logging
import os

import numpy as np
import pytest

import tvm
import tvm.contrib.graph_executor as runtime
from tests.packages import XGB, XGB_RANK, needs_xgboost
from tvm import autotvm, relay, te, topi
from tvm.autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner
from tvm.testing import requires_opencl

INPUT = (1, 4, 10, 10)


def get_network():
    """A small network with a convolution at its beginning and a dense layer at its end."""
    data = relay.var("data", shape=INPUT)
    y = relay.nn.relu(relay.nn.conv2d(data, relay.var("w"), channels=8, kernel_size=(3, 3), padding=(1, 1)))
    y = relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(y), relay.var("v"), units=10))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y)))
    numbers = np.random.default_rng(1)
    shapes = {p.name_hint: [int(d) for d in p.checked_type.shape] for p in mod["main"].params if p.name_hint != "data"}
    return mod, {n: tvm.nd.array(numbers.uniform(-0.1, 0.1, s).astype("float32")) for n, s in shapes.items()}


def tuner_of(name, task):
    if name == "xgb":
        return XGBTuner(task, loss_type="reg")
    if name == "xgb-rank":
        return XGBTuner(task, loss_type="rank")
    if name == "ga":
        return GATuner(task, pop_size=4)
    return RandomTuner(task) if name == "random" else GridSearchTuner(task)


def tune_tasks(
    tasks,
    measure_option,
    tuner="xgb",
    n_trial=3,
    early_stopping=None,
    log_filename="tuning.log",
    use_transfer_learning=True,
):
    tmp_log_file = log_filename + ".tmp"
    if os.path.exists(tmp_log_file):
        os.remove(tmp_log_file)
    for i, tsk in enumerate(reversed(tasks)):
        prefix = f"[Task {i + 1:2d}/{len(tasks):2d}] "
        tuner_obj = tuner_of(tuner, tsk)
        if use_transfer_learning and os.path.isfile(tmp_log_file):
            tuner_obj.load_history(autotvm.record.load_from_file(tmp_log_file))
        tsk_trial = min(n_trial, len(tsk.config_space))
        tuner_obj.tune(
            n_trial=tsk_trial,
            early_stopping=early_stopping,
            measure_option=measure_option,
            callbacks=[
                autotvm.callback.progress_bar(tsk_trial, prefix=prefix),
                autotvm.callback.log_to_file(tmp_log_file),
            ],
        )
    autotvm.record.pick_best(tmp_log_file, log_filename)
    os.remove(tmp_log_file)


@pytest.mark.slow("builds and measures candidates in worker processes")
@requires_opencl
@pytest.mark.parametrize("tuner", [XGB, XGB_RANK, "ga", "random", "gridsearch"])
def test_the_loop_over_a_models_tasks(tuner, tmp_path, capsys):
    target = tvm.target.Target("opencl")
    log_file = str(tmp_path / "network.log")
    tuning_option = {
        "log_filename": log_file,
        "tuner": tuner,
        "n_trial": 3,
        "early_stopping": 600,
        "measure_option": autotvm.measure_option(
            builder=autotvm.LocalBuilder(timeout=60),
            # The guides have 4 seconds and more runs; PoCL compiles kernels when they are run.
            runner=autotvm.LocalRunner(number=2, repeat=3, timeout=60, min_repeat_ms=1),
        ),
    }
    mod, params = get_network()
    tasks = autotvm.task.extract_from_program(
        mod["main"], target=target, params=params, ops=(relay.op.get("nn.conv2d"),)
    )
    assert [task.name for task in tasks] == ["conv2d_nchw.cuda"]
    tune_tasks(tasks, **tuning_option)
    assert "Done." in capsys.readouterr().out
    records = list(autotvm.record.load_from_file(log_file))
    assert len(records) == 1 and records[0][1].error_no == 0 and records[0][0].made_on.get("device")

    data = np.random.default_rng(2).uniform(size=INPUT).astype("float32")
    outputs = []
    with autotvm.apply_history_best(log_file), tvm.transform.PassContext(opt_level=3):
        lib = relay.build_module.build(mod, target=target, params=params)
    dev = tvm.device(str(target), 0)
    module = runtime.GraphModule(lib["default"](dev))
    module.set_input("data", tvm.nd.array(data))
    assert "mean (ms)" in str(module.benchmark(dev, number=1, repeat=2))
    module.run()
    outputs.append(module.get_output(0).numpy())
    with tvm.transform.PassContext(opt_level=3):
        on_cpu = runtime.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    on_cpu.set_input("data", data)
    on_cpu.run()
    np.testing.assert_allclose(outputs[0], on_cpu.get_output(0).numpy(), rtol=1e-4, atol=1e-5)


@autotvm.template("test/conv2d_by_hand")
def conv2d_by_hand(n, h, w, co, ci, kh, kw, stride, padding):
    """A convolution whose tiles, virtual threads and fetches are knobs."""
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, kh, kw), name="kernel")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    s = te.create_schedule([conv.op])
    _, f, y, x = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    cfg = autotvm.get_config()
    for name, axis in (("tile_f", f), ("tile_y", y), ("tile_x", x)):
        cfg.define_split(name, axis, num_outputs=4)
    for name, axis in (("tile_rc", rc), ("tile_ry", ry), ("tile_rx", rx)):
        cfg.define_split(name, axis, num_outputs=2)
    cfg.define_knob("auto_unroll_max_step", [0, 64, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])

    padded, weight = s[conv].op.input_tensors
    s[padded].compute_inline()
    near_data, near_weight = s.cache_read(padded, "shared", [conv]), s.cache_read(weight, "shared", [conv])
    sums = s.cache_write(conv, "local")
    out = s.outputs[0].output(0)
    n_axis, f, y, x = s[out].op.axis
    parts = [cfg[name].apply(s, out, axis) for name, axis in (("tile_f", f), ("tile_y", y), ("tile_x", x))]
    blocks, virtual, threads, inner = zip(*parts)
    s[out].reorder(n_axis, *blocks, *virtual, *threads, *inner)
    s[out].bind(s[out].fuse(n_axis, blocks[0]), te.thread_axis("blockIdx.z"))
    for axis, tag in zip(
        (*blocks[1:], *virtual, *threads),
        ("blockIdx.y", "blockIdx.x", "vthread", "vthread", "vthread", "threadIdx.z", "threadIdx.y", "threadIdx.x"),
    ):
        s[out].bind(axis, te.thread_axis(tag))
    s[sums].compute_at(s[out], threads[2])
    n_axis, f, y, x = s[sums].op.axis
    rc, ry, rx = s[sums].op.reduce_axis
    (rco, rci), (ryo, ryi), (rxo, rxi) = (
        cfg[name].apply(s, sums, axis) for name, axis in (("tile_rc", rc), ("tile_ry", ry), ("tile_rx", rx))
    )
    s[sums].reorder(rco, ryo, rxo, rci, ryi, rxi, n_axis, f, y, x)
    for near in (near_data, near_weight):
        s[near].compute_at(s[sums], rxo)
        fused = s[near].fuse(*s[near].op.axis)
        for name, tag in (("tile_x", "threadIdx.x"), ("tile_y", "threadIdx.y"), ("tile_f", "threadIdx.z")):
            fused, part = s[near].split(fused, factor=cfg[name].size[2])
            s[near].bind(part, te.thread_axis(tag))
    s[out].pragma(inner[0], "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[out].pragma(inner[0], "unroll_explicit", cfg["unroll_explicit"].val)
    return s, [data, kernel, conv]


@needs_xgboost
@requires_opencl
def test_a_template_for_threads_written_by_hand(tmp_path, caplog):
    n, h, w, co, ci, kh, kw, stride, padding = args = (1, 8, 8, 6, 4, 3, 3, (1, 1), (1, 1))
    task = autotvm.task.create("test/conv2d_by_hand", args=args, target="opencl")
    assert len(task.config_space) > 1000
    measure_option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=60),
        runner=autotvm.LocalRunner(number=1, repeat=2, timeout=60, verify=True),
    )
    log = str(tmp_path / "conv2d.log")
    tuner = autotvm.tuner.XGBTuner(task)
    tuner.tune(n_trial=6, measure_option=measure_option, callbacks=[autotvm.callback.log_to_file(log)])
    found = [result for _, result in autotvm.record.load_from_file(log)]
    # A configuration may ask for more threads than a block has; none may compute something else.
    assert len(found) == 6 and all(result.error_no in (0, 1) for result in found), [r.error_no for r in found]

    with caplog.at_level(logging.WARNING, "autotvm"), autotvm.apply_history_best(log):
        with tvm.target.Target("opencl"):
            s, arg_bufs = conv2d_by_hand(*args)
            func = tvm.build(s, arg_bufs)
    numbers = np.random.default_rng(4)
    a_np, w_np = (numbers.uniform(size=t).astype("float32") for t in ((n, ci, h, w), (co, ci, kh, kw)))
    wanted = topi.testing.conv2d_nchw_python(a_np, w_np, stride, padding)
    dev = tvm.cl(0)
    a, weight, c = (tvm.nd.array(x, dev) for x in (a_np, w_np, np.zeros(wanted.shape, "float32")))
    func(a, weight, c)
    np.testing.assert_allclose(c.numpy(), wanted, rtol=1e-4, atol=1e-4)
    evaluator = func.time_evaluator(func.entry_name, dev, number=4)
    assert 0 < evaluator(a, weight, c).mean < 60
