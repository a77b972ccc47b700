"""Whole models: tasks of their plain operators, and builds with the schedules that records name."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import tvm
from tests.auto_scheduler.models import reference, small_model
from tvm import auto_scheduler, relay
from tvm.auto_scheduler import ApplyHistoryBest, MeasureInput, MeasureResult, SketchPolicy
from tvm.auto_scheduler.choices import Row, encode_row
from tvm.auto_scheduler.dispatcher import DispatchContext
from tvm.auto_scheduler.loop_steps import SplitStep
from tvm.auto_scheduler.state import StateObject
from tvm.contrib import graph_executor

USED = {"relay.backend.use_auto_scheduler": True}
DATA = np.random.default_rng(1).uniform(-1, 1, (1, 3, 9, 9)).astype("float32")


def a_state(task, seed=0):
    params = {"evolutionary_search_population": 4, "evolutionary_search_num_iters": 1}
    return SketchPolicy(task, params=params, seed=seed, verbose=0).sample_initial_population()[0].state_object


def pairs(tasks, seed=0):
    return [(MeasureInput(task, a_state(task, seed)), MeasureResult([1e-3], 0, "", 0.1, 1)) for task in tasks]


def built(mod, params, context=None, config=USED):
    with context or ApplyHistoryBest([]), tvm.transform.PassContext(opt_level=3, config=config):
        return relay.build(mod, target="llvm", params=params)


def outputs(library):
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("data", DATA)
    module.run()
    return module.get_output(0).numpy()


def names(library):
    return [kernel.name.removeprefix("tvmgen_default_fused_") for kernel in library.kernels]


def test_tasks_are_the_plain_computations_of_kernels_and_say_how_often_they_run():
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.const(np.ones((4, 4, 3, 3), "float32"))
    y = x
    for _ in range(3):
        y = relay.nn.relu(relay.nn.conv2d(y, w, padding=(1, 1)))
    tasks, weights = auto_scheduler.extract_tasks(
        tvm.IRModule.from_expr(relay.Function([x], relay.exp(y) + x)), {}, "llvm"
    )
    assert sorted(weights) == [1, 2] and {t.desc for t in tasks} == {
        "fused_nn_conv2d_nn_relu",
        "fused_nn_conv2d_nn_relu_exp_add",
    }
    for task in tasks:
        name, *shapes = json.loads(task.workload_key)
        assert name == task.compute_dag.hash_key and shapes[0] == [1, 4, 8, 8] and shapes[1] == [4, 4, 3, 3]
        assert [op.name for op in task.compute_dag.ops][:4] == ["p0", "pad_temp", "p1", "conv2d"]
        # The key is known: records of it can be read back.
        assert auto_scheduler.ComputeDAG(task.workload_key).hash_key == name


def test_simple_tasks_are_taken_where_asked_for_and_views_never(tmp_path):
    x = relay.var("x", shape=(4, 6))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.reshape(relay.nn.relu(x) + x, (24,))))
    assert auto_scheduler.extract_tasks(mod, {}, "llvm") == ([], [])
    log = tmp_path / "dags.json"
    tasks, weights = auto_scheduler.extract_tasks(
        mod, {}, "llvm", include_simple_tasks=True, dump_workload_to_dag_log=str(log)
    )
    assert weights == [1] and [t.desc for t in tasks] == ["fused_nn_relu_add_reshape"]
    assert json.loads(log.read_text()) == {tasks[0].workload_key: str(tasks[0].compute_dag)}


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80"])
def test_computations_with_dynamic_shapes_are_no_tasks(target):
    a, b = relay.var("a", shape=(relay.Any(), 4, 8)), relay.var("b", shape=(2, 5, 8))
    y = relay.nn.batch_matmul(relay.var("c", shape=(2, 4, 8)), b)
    mod = tvm.IRModule.from_expr(relay.Tuple([relay.nn.batch_matmul(a, relay.exp(b)), y]))
    tasks, weights = auto_scheduler.extract_tasks(mod, {}, target)
    assert len(tasks) == 1 and weights == [1]


def test_hardware_given_is_that_of_all_tasks():
    mod, params = small_model()
    given = auto_scheduler.HardwareParams(num_cores=3, target="llvm")
    tasks, _ = auto_scheduler.extract_tasks(mod["main"], params, "llvm", hardware_params=given)
    assert tasks and all(task.hardware_params.num_cores == 3 for task in tasks)


def test_found_schedules_compute_the_model_whichever_kernels_they_are_of(seed):
    mod, params = small_model()
    tasks, _ = auto_scheduler.extract_tasks(mod, params, "llvm", include_simple_tasks=True)
    expected, chance = reference(params, DATA), random.Random(seed)
    for share in (1.0, 0.5):
        some = [task for task in tasks if chance.random() < share] or tasks[:1]
        library = built(mod, params, ApplyHistoryBest(pairs(some, chance.randrange(1000))))
        np.testing.assert_allclose(outputs(library), expected, rtol=2e-4, atol=1e-5)
        assert sum(f.name.endswith(t.desc) for f in library.kernels for t in some) >= len(some)


def test_kernels_without_a_record_are_compiled_by_templates():
    mod, params = small_model()
    tasks, _ = auto_scheduler.extract_tasks(mod, params, "llvm")
    first = next(task for task in tasks if task.desc == "fused_nn_conv2d_add_nn_relu")
    found = names(built(mod, params, ApplyHistoryBest(pairs([first]))))
    assert "nn_conv2d_add_nn_relu" in found and "nn_contrib_conv2d_NCHWc_nn_relu" in found
    untuned = names(built(mod, params, config={}))
    assert names(built(mod, params)) == untuned and "nn_contrib_conv2d_NCHWc_add_nn_relu" in untuned
    # Without the option records do not count.
    assert names(built(mod, params, ApplyHistoryBest(pairs(tasks)), {})) == untuned


def test_code_without_tuning_that_won_is_used_and_not_complained_about(caplog):
    mod, params = small_model()
    tasks, _ = auto_scheduler.extract_tasks(mod, params, "llvm")
    rows = [Row(inp.task, inp.state, res) for inp, res in pairs(tasks)]
    rows += [Row(task, None, MeasureResult([2e-3], 0, "", 0.1, 1), True) for task in tasks]
    assert names(built(mod, params, ApplyHistoryBest(rows))) == names(built(mod, params, config={}))
    assert "no schedule" not in caplog.text


@pytest.mark.parametrize("place", [(2, 0), (3, 40), (99, 0)], ids=["input", "loop", "stage"])
def test_records_that_do_not_fit_are_left_out_with_a_warning(caplog, place):
    mod, params = small_model()
    tasks, _ = auto_scheduler.extract_tasks(mod, params, "llvm")
    task = next(t for t in tasks if "conv2d_add" in t.desc)
    state = StateObject((), (SplitStep(*place, 8, (2,), True),))
    library = built(mod, params, ApplyHistoryBest([(MeasureInput(task, state), MeasureResult([1e-3], 0, "", 0.1, 1))]))
    assert "cannot be applied" in caplog.text and "nn_contrib_conv2d_NCHWc_add_nn_relu" in names(library)


def test_tensors_get_the_schedule_that_the_context_has():
    from tvm import te, topi
    from tvm.auto_scheduler.relay_integration import auto_schedule_topi

    def product():
        a, b = te.placeholder((16, 8), name="a"), te.placeholder((4, 8), name="b")
        return a, b, topi.nn.relu(topi.nn.dense(a, b))

    task = auto_scheduler.SearchTask(
        compute_dag=(dag := auto_scheduler.ComputeDAG(product())), workload_key=dag.workload_key(), target="llvm"
    )
    a, b, c = product()
    with tvm.target.Target("llvm"), ApplyHistoryBest(pairs([task])):
        schedule = auto_schedule_topi("product", c)
        assert auto_schedule_topi("product", topi.nn.softmax(a)) is None
    x, y = (np.random.default_rng(0).uniform(-1, 1, shape).astype("float32") for shape in ((16, 8), (4, 8)))
    z = tvm.nd.empty((16, 4))
    tvm.build(schedule, [a, b, c], "llvm")(tvm.nd.array(x), tvm.nd.array(y), z)
    np.testing.assert_allclose(z.numpy(), np.maximum(x @ y.T, 0), rtol=1e-5, atol=1e-6)


def test_a_context_may_sample_schedules_of_what_has_no_record():
    mod, params = small_model()
    library = built(mod, params, auto_scheduler.ApplyHistoryBestOrSample(None))
    assert "nn_conv2d_add_nn_relu" in names(library) and "nn_contrib_conv2d_NCHWc_nn_relu" not in names(library)
    np.testing.assert_allclose(outputs(library), reference(params, DATA), rtol=2e-4, atol=1e-5)


def test_contexts_are_left_as_they_were():
    before = DispatchContext.current
    with ApplyHistoryBest([]) as inside:
        assert DispatchContext.current is inside
    assert DispatchContext.current is before


def test_lines_of_choices_are_comments_to_other_readers(tmp_path):
    mod, params = small_model()
    task = auto_scheduler.extract_tasks(mod, params, "llvm")[0][0]
    state, log = a_state(task), tmp_path / "log.json"
    slow, fast = (MeasureResult([cost], 0, "", 0.1, 1) for cost in (2e-3, 1e-3))
    rows = [Row(task, state, fast), Row(task, None, slow), Row(task, None, slow, True)]
    log.write_text("".join(encode_row(row) + "\n" for row in rows) + '# {"i": [cut\n# a note\n')
    assert [inp.state.transform_steps for inp, _ in auto_scheduler.load_records(log)] == [state.transform_steps]
    key = task.workload_key
    assert ApplyHistoryBest(str(log)).query("llvm", key, True, None, "") is None
    log.write_text(encode_row(rows[0]) + "\n" + encode_row(rows[1]) + "\n")
    assert ApplyHistoryBest(str(log)).query("llvm", key, True, None, "").transform_steps == state.transform_steps


@pytest.mark.parametrize("option", [True, False])
def test_whether_the_auto_scheduler_is_used_follows_the_pass_context(option):
    with tvm.transform.PassContext(config={"relay.backend.use_auto_scheduler": option}):
        assert auto_scheduler.is_auto_scheduler_enabled() is option
