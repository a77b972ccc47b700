"""Graph tuners: the classic sequence from records to a compiled graph."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import autotvm, relay, te
from tvm.autotvm.graph_tuner import DPTuner, PBQPTuner, utils
from tvm.contrib import graph_executor
from tvm.error import TVMError

SHAPE = (1, 16, 12, 12)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Tuners write their log into the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def a_model():
    data = relay.var("data", shape=SHAPE)
    body = data
    params = {}
    random = np.random.default_rng(3)
    for name in ("first", "second"):
        weight = relay.var(name, shape=(16, 16, 1, 1))
        params[name] = random.standard_normal((16, 16, 1, 1)).astype("float32")
        body = relay.nn.relu(relay.nn.conv2d(body, weight, channels=16, kernel_size=(1, 1)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))
    return mod, params


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A model and the file of its records, of which the last configuration is the best."""
    mod, params = a_model()
    path = tmp_path_factory.mktemp("graph") / "records.log"
    (task,) = autotvm.task.extract_from_program(mod["main"], params, "llvm", ops=(relay.op.get("nn.conv2d"),))
    assert task.count == 2
    indexes = [i for i in range(len(task.config_space)) if i not in task.config_space.start][:3]
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in indexes]
    results = [autotvm.MeasureResult((1.0 / (n + 1),), 0, 0.1, float(n)) for n in range(3)]
    autotvm.callback.log_to_file(str(path))(None, inputs, results)
    return mod, params, str(path), task.config_space.get(indexes[-1])


@pytest.mark.parametrize("tuner", [DPTuner, PBQPTuner])
def test_the_classic_sequence(tuner, tuned, tmp_path):
    mod, params, records, best = tuned
    opt_sch_file = str(tmp_path / "graph_opt.log")
    executor = tuner(mod["main"], {"data": SHAPE}, records, [relay.op.get("nn.conv2d")], "llvm")
    executor.benchmark_layout_transform(min_exec_num=2000)
    executor.run()
    executor.write_opt_sch2record_file(opt_sch_file)
    # One for each time the operator occurs.
    written = list(autotvm.record.load_from_file(opt_sch_file))
    assert [inp.config.values() for inp, _ in written] == [best.values()] * 2

    def run(context=None):
        with tvm.transform.PassContext(opt_level=3):
            if context is None:
                lib = relay.build(mod, "llvm", params=params)
            else:
                with context:
                    lib = relay.build(mod, "llvm", params=params)
        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        module.set_input("data", np.ones(SHAPE, "float32"))
        module.run()
        return module.get_output(0).numpy(), str([k.module for k in lib.kernels])

    plain, plain_code = run()
    found, found_code = run(autotvm.apply_graph_best(opt_sch_file))
    _, history_code = run(autotvm.apply_history_best(records))
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-4)
    assert found_code == history_code != plain_code


def test_what_is_missing_is_said(tuned):
    mod, _, records, _ = tuned
    with pytest.raises(TVMError, match="no input 'image'; its inputs are data"):
        DPTuner(mod, {"image": SHAPE}, records, ["nn.conv2d"], "llvm")
    executor = DPTuner(mod, {"data": SHAPE}, records, ["nn.dense"], "llvm")
    with pytest.raises(TVMError, match=r"call run\(\) first"):
        executor.get_optimal_records()
    with pytest.raises(TVMError, match="there are no records for the operators of this graph"):
        executor.run()


def chain_of_products():
    """data, w0, dense, constant, multiply, add, constant, add, w1, dense."""
    data, w0, w1 = relay.var("data"), relay.var("w0"), relay.var("w1")
    first = relay.nn.dense(data, w0, units=5)
    body = relay.nn.dense(relay.add(first, data * relay.const(5.0)) + relay.const(2.5), w1, units=20)
    return relay.Function(relay.analysis.free_vars(body), body)


def test_a_graph_is_a_list_of_nodes_with_their_ancestors():
    dense = relay.op.get("nn.dense")
    net = utils.bind_inputs(chain_of_products(), {"data": (1, 5), "w0": (5, 5), "w1": (20, 5)})
    numbers, nodes = {}, []
    utils.expr2graph(net, [dense], numbers, nodes, "llvm")
    assert [getattr(n["op"], "name", None) for n in nodes] == [
        None,
        None,
        "nn.dense",
        None,
        "multiply",
        "add",
        None,
        "add",
        None,
        "nn.dense",
    ]
    assert all(numbers[n["node"]] == i for i, n in enumerate(nodes))
    assert [i[0] for i in nodes[5]["inputs"]] == [2, 4] and nodes[9]["types"][0].shape[1] == 20
    assert [utils.has_multiple_inputs(nodes, i, ["data"], [dense]) for i in (2, 5, 7)] == [False, True, False]
    assert utils.get_direct_ancestor(nodes, {}, [dense], 5, ["data"]) == [2, 0]
    assert utils.get_in_nodes(nodes, [dense], ["data"]) == {2: [0], 5: [2, 0], 9: [5]}
    assert utils.get_out_nodes({2: [0], 5: [2, 0], 9: [5]}) == {0: [2, 5], 2: [5], 5: [9], 9: []}
    with pytest.raises(TypeError, match="target_ops must be operators"):
        utils.expr2graph(net, ["nn.dense"], {}, [], "llvm")


@pytest.mark.parametrize("tuner", [DPTuner, PBQPTuner])
def test_records_are_pairs_of_tasks_whose_arguments_a_script_gave(tuner, folder, caplog):
    """Targets are texts, configurations come from JSON, and the best record of each of three operators is chosen."""
    mod, params = a_model()
    (task,) = autotvm.task.extract_from_program(mod["main"], params, "llvm", ops=(relay.op.get("nn.conv2d"),))
    records = []
    for number, cost in enumerate((0.04, 0.012, 0.03)):
        entity = {"index": -1, "code_hash": None, "entity": [["tile_ic", "sp", [number + 1, 1]]]}
        given = autotvm.MeasureInput("llvm", task, autotvm.task.ConfigEntity.from_json_dict(entity))
        records.append((given, autotvm.MeasureResult((cost,), 0, -1, -1)))
    made = tuner(mod, {"data": SHAPE}, records, ["nn.conv2d"], "llvm", log_file="tuner.log", verbose=False)
    made.run()
    assert [pair[0].config for pair in made.get_optimal_records()] == [records[1][0].config] * 2
    made.write_opt_sch2record_file("best.log")
    assert len((folder / "best.log").read_text().splitlines()) == 2
    assert "chose records for 2 operators" in (folder / "tuner.log").read_text() and not caplog.records


def test_a_change_of_layout_is_a_task():
    data = te.placeholder((1, 2, 3, 3, 4))
    task = autotvm.task.create("layout_transform", [data, "NCHW4c", "NCHW8c"], "llvm")
    assert task.workload == autotvm.task.args_to_workload([data, "NCHW4c", "NCHW8c"], "layout_transform")
    with tvm.target.Target("llvm"):
        schedule, args = task.instantiate(task.config_space.get(0))
        run = tvm.build(schedule, args, "llvm")
    value = np.arange(72, dtype="float32").reshape(1, 2, 3, 3, 4)
    out = tvm.nd.empty((1, 1, 3, 3, 8))
    run(tvm.nd.array(value), out)
    np.testing.assert_array_equal(out.numpy()[0, 0], np.concatenate(value[0], axis=-1))
